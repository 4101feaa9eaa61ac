//! Channels of `dragonhpc`, by programs that were built for its published library.

use std::hint::black_box;
use std::path::Path;

use umbra::channel::{Timeout, WaitMode};
use umbra_tests::bench::{Plan, Report, Row, lines_of, number, repeat};

use crate::{LOWER, channel, ends};

const DRAGON: &str = "dragonhpc";

/// The rows, if `UMBRA_DRAGON` says where the programs are.
pub(crate) fn rows(report: &mut Report, plan: &Plan, cores: &[usize]) {
    let Some(folder) = std::env::var_os("UMBRA_DRAGON") else {
        report.note("UMBRA_DRAGON is not set: no rows beside dragonhpc");
        return;
    };
    let folder = Path::new(&folder);
    if report.wants("pair dragon") {
        for line in lines_of(report, folder, "chan_bench", &["same", "5"]) {
            let (Some(len), Some(theirs)) = (number(&line, "bytes"), number(&line, "copy_into_ns")) else { continue };
            let len = len as usize;
            let channel = channel(100, u32::try_from(len.max(256)).unwrap_or(256));
            let (sender, receiver) = ends(&channel, WaitMode::Spin);
            let (source, mut pad) = (vec![7; len], vec![0; len]);
            let ours = repeat(plan, |n| {
                for _ in 0..n {
                    sender.send(black_box(&source), 1, Timeout::Now).expect("there is room");
                    black_box(receiver.receive(&mut pad, Timeout::Now).expect("it was sent"));
                }
            });
            let case = format!("pair dragon {len} B");
            // The smallest is the channel alone; the largest are copied at the same speed by both.
            let bar = if len == 8 { 23.0 } else { 1.0 };
            report.row(Row::new(&case, ours.median(), theirs, DRAGON, "ns/message", LOWER)).bar(bar);
        }
    }
    let case = "bytes beside 100 blocks of 256 B, dragon";
    if report.wants(case) {
        for line in lines_of(report, folder, "footprint", &[]) {
            if let (Some(100.0), Some(theirs)) = (number(&line, "capacity"), number(&line, "overhead_bytes")) {
                report.row(Row::new(case, crate::beside(), theirs, DRAGON, "B", LOWER)).bar(2.5);
            }
        }
    }
    let [core, _, ..] = *cores else { return };
    if report.wants("round trip dragon 8 B spin") {
        for line in lines_of(report, folder, "chan_bench", &["rtt", "8", "spin", "20000", "1"]) {
            let Some(theirs) = number(&line, "rtt_us_p50") else { continue };
            let ours = crate::round_trip(core, plan, 8, WaitMode::Spin);
            let case = "round trip dragon 8 B spin";
            report.row(Row::new(case, ours.median(), theirs * 1000.0, DRAGON, "ns", LOWER)).bar(6.0);
        }
    }
    for (len, messages, bar) in [(8, "200000", 11.0), (4096, "100000", 4.0), (1 << 20, "4000", 1.0)] {
        let case = format!("one way dragon {len} B");
        if !report.wants(&case) {
            continue;
        }
        for line in lines_of(report, folder, "chan_bench", &["oneway", &len.to_string(), "spin", messages, "5", "copy"])
        {
            let Some(rate) = number(&line, "msgs_s_run") else { continue };
            let ours = crate::one_way(core, plan, len);
            report.row(Row::new(&case, ours.median(), 1e9 / rate, DRAGON, "ns/message", LOWER)).bar(bar);
        }
    }
    if report.wants("wake dragon") {
        for line in lines_of(report, folder, "wake_bench", &["idle", "50", "40"]) {
            let (Some(call), Some(delay)) = (number(&line, "send_call_us_p50"), number(&line, "wake_us_p50")) else {
                continue;
            };
            let (our_call, our_delay, our_share) = crate::wake(core, 40, std::time::Duration::from_millis(50));
            let row = |case, ours, theirs: f64| Row::new(case, ours, theirs * 1000.0, DRAGON, "ns", LOWER);
            report.row(row("wake dragon: the sender's call", our_call, call)).bar(4.0);
            report.row(row("wake dragon: until received", our_delay, delay)).bar(2.0);
            if let Some(share) = number(&line, "waiter_cpu_share") {
                let case = "wake dragon: core of the waiter";
                report.row(Row::new(case, our_share, share * 100.0, DRAGON, "%", LOWER)).bar(100.0);
            }
        }
    }
}
