//! Messages of `iceoryx2`, by a program that was built with it.
//!
//! `iceoryx2` lends memory to others; here messages are copied twice.

use std::hint::black_box;
use std::path::Path;

use umbra::channel::{Timeout, WaitMode};
use umbra_tests::bench::{Plan, Report, Row, lines_of, number, repeat};

use crate::{LOWER, channel, ends};

const ICEORYX2: &str = "iceoryx2";

/// The rows, if `UMBRA_ICEORYX2` says where the program is. Beside it are to be the small messages; of large ones it
/// copies none.
pub(crate) fn rows(report: &mut Report, plan: &Plan, cores: &[usize]) {
    let Some(folder) = std::env::var_os("UMBRA_ICEORYX2") else {
        report.note("UMBRA_ICEORYX2 is not set: no rows beside iceoryx2");
        return;
    };
    let lines = |report: &Report, what| lines_of(report, Path::new(&folder), "iox2_peer", &[what]);
    let say = |report: &mut Report, case: &str, len: usize, ours: f64, theirs: f64, unit: &str| {
        let entry = report.row(Row::new(case, ours, theirs, ICEORYX2, unit, LOWER));
        if len <= 64 {
            entry.bar(1.0);
        }
    };
    if report.wants("pair iceoryx2") {
        for line in lines(report, "same") {
            let (Some(len), Some(theirs)) = (number(&line, "bytes"), number(&line, "zero_copy_ns")) else { continue };
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
            say(report, &format!("pair iceoryx2 {len} B"), len, ours.median(), theirs, "ns/message");
        }
    }
    let [core, _, ..] = *cores else { return };
    if report.wants("round trip iceoryx2") {
        for line in lines(report, "rtt") {
            let (Some(len), Some(theirs)) = (number(&line, "bytes"), number(&line, "rtt_us_p50")) else { continue };
            let (len, sleeps) = (len as usize, line.contains("\"event\""));
            if len > 4096 {
                continue;
            }
            let (mode, name) = if sleeps { (WaitMode::Idle, "idle") } else { (WaitMode::Spin, "spin") };
            let ours = crate::round_trip(core, plan, len, mode).median();
            say(report, &format!("round trip iceoryx2 {len} B {name}"), len, ours, theirs * 1000.0, "ns");
        }
    }
    if report.wants("one way iceoryx2") {
        for line in lines(report, "oneway") {
            let (Some(len), Some(rate)) = (number(&line, "bytes"), number(&line, "msgs_s_run")) else { continue };
            let ours = crate::one_way(core, plan, len as usize).median();
            say(report, &format!("one way iceoryx2 {len} B"), len as usize, ours, 1e9 / rate, "ns/message");
        }
    }
}
