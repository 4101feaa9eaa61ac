//! RDMA reads, against perftest on the same device.
//!
//! Latency: one read at a time, polled for; the median. Bandwidth: reads under way all the time, posted in chains with one
//! completion each. Both ends of ours lie in this process, and those of perftest in two; the end that is read from does
//! nothing. "agent's read": what an agent does from being asked to its answer, with the owner of the memory in another process:
//! look-up in the endpoint cache, region and right, post, completion, and the bytes in the answer's frame.
#![allow(clippy::expect_used, reason = "a bench ends at the first surprise")]

mod agent;
mod owner;
mod perftest;

use std::process::ExitCode;
use std::time::Instant;

use umbra::verbs::{Completion, Piece, Region, Work, WorkStatus};
use umbra_core::key::Access;
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples};
use umbra_tests::verbs::{Pair, at, device};

use agent::Agent;
use perftest::Perftest;

/// Turns of ours and the peer's; medians count.
const TURNS: usize = 9;
/// Reads of one turn of a latency.
const READS: usize = 500;
/// Bytes of one turn of a bandwidth.
const VOLUME: usize = 32 << 20;
/// Reads in one chain, of which the last asks for a completion.
const CHAIN: usize = 8;
/// Chains under way.
const CHAINS: usize = 8;

fn name(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn median(readings: Vec<f64>) -> f64 {
    Samples::new(readings).expect("every turn gives a number").median()
}

/// The median of single times of something, in microseconds.
fn latency(clock: &Clock, mut once: impl FnMut()) -> f64 {
    let mut one = || {
        let begun = clock.now();
        once();
        clock.nanoseconds(begun, clock.now()) as f64 / 1e3
    };
    let _warm: Vec<f64> = (0..READS / 10).map(|_| one()).collect();
    median((0..READS).map(|_| one()).collect())
}

/// Two connected ends and a region behind each.
struct Reads {
    pair: Pair,
    theirs: Region,
    ours: Region,
}

impl Reads {
    fn new(pair: Pair, len: usize) -> Reads {
        let (theirs, ours) = (pair.memory(len, Access::READ), pair.memory(CHAIN * len, Access::empty()));
        Reads { pair, theirs, ours }
    }

    /// One read, posted and polled for.
    fn once(&mut self, bytes: usize) {
        let Reads { pair, theirs, ours } = self;
        let to = Piece { region: ours, offset: 0, len: bytes as u32 };
        pair.post(0, Work::Read { from: at(theirs, 0), to });
        let mut ended = None;
        while ended.is_none() {
            let polled = pair.ends[0].poll(&mut |done: Completion| ended = Some(done.status));
            polled.expect("the queue can be polled");
        }
        assert_eq!(ended, Some(WorkStatus::Success));
    }

    /// Mebibytes a second with reads under way all the time.
    fn bandwidth(&mut self, bytes: usize) -> f64 {
        let Reads { pair, theirs, ours } = self;
        let works: [_; CHAIN] = std::array::from_fn(|place| {
            let to = Piece { region: ours, offset: place * bytes, len: bytes as u32 };
            (0, Work::Read { from: at(theirs, 0), to })
        });
        let chains = VOLUME / bytes / CHAIN;
        let begun = Instant::now();
        let (mut posted, mut ended) = (0, 0);
        while ended < chains {
            while posted < chains && posted - ended < CHAINS {
                pair.ends[0].post(&works).expect("there is room for the chains");
                posted += 1;
            }
            let polled = pair.ends[0].poll(&mut |done| {
                assert_eq!(done.status, WorkStatus::Success);
                ended += 1;
            });
            polled.expect("the queue can be polled");
        }
        (VOLUME >> 20) as f64 / begun.elapsed().as_secs_f64()
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(owner::ROLE) {
        owner::play();
        return ExitCode::SUCCESS;
    }
    let mut report = Report::from_args();
    let Some(device) = device() else { return ExitCode::SUCCESS };
    let Some(perftest) = Perftest::find(&Pair::new(&device).port) else {
        println!("verbs: skipped: perftest is not installed");
        return ExitCode::SUCCESS;
    };
    let clock = Clock::new();
    for bytes in [2, 4096] {
        let (case, through) = (format!("read latency, {}", name(bytes)), format!("agent's read, {}", name(bytes)));
        if !report.wants(&case) && !report.wants(&through) {
            continue;
        }
        let (mut reads, mut agent) = (Reads::new(Pair::new(&device), bytes), Agent::new());
        let (mut ours, mut agents, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            ours.push(latency(&clock, || reads.once(bytes)));
            peer.push(perftest.latency(bytes, READS));
            agents.push(latency(&clock, || agent.read(0, bytes)));
        }
        let peer = median(peer);
        let row = |case: &str, ours| {
            Row::new(case, median(ours), peer, "ib_read_lat, perftest", "µs", Direction::LowerIsBetter)
        };
        report.row(row(&case, ours)).bar(1.0 / 1.1);
        report.row(row(&through, agents)).bar(1.0 / 1.25);
    }
    for bytes in [1 << 16, 1 << 20] {
        let case = format!("read bandwidth, {}", name(bytes));
        if !report.wants(&case) {
            continue;
        }
        let mut reads = Reads::new(Pair::new(&device), bytes);
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            ours.push(reads.bandwidth(bytes));
            peer.push(perftest.bandwidth(bytes, VOLUME / bytes));
        }
        let (ours, peer) = (median(ours), median(peer));
        let row = Row::new(&case, ours, peer, "ib_read_bw, perftest", "MiB/s", Direction::HigherIsBetter);
        report.row(row).bar(0.95);
    }
    report.finish()
}
