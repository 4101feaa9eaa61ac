//! What has a goal of its own, alone and beside published systems.
//!
//! That is messages that nobody copies, prompt round trips of those who sleep later, and the slowest round trips of a
//! machine that has much else to do.

use std::path::Path;

use umbra::channel::WaitMode;
use umbra_tests::bench::{Plan, Report, Row, lines_of, number};

use crate::{LOWER, lent, loaded, round_trip};

const KIB4: usize = 4096;
const MIB: usize = 1 << 20;

/// What a program says of the same: its arguments, nanoseconds out of a line, and the ratio to be reached.
#[derive(Clone, Copy)]
struct Peer {
    arguments: &'static str,
    said: fn(&str) -> Option<f64>,
    bar: f64,
}

/// A goal, in nanoseconds.
#[derive(Clone, Copy)]
struct Goal {
    case: &'static str,
    ours: fn(&[usize], &Plan) -> f64,
    nanoseconds: f64,
    dragon: Option<Peer>,
    iceoryx2: Option<Peer>,
    /// Whether both sides are measured while all cores are wanted by others.
    is_loaded: bool,
}

fn of_len(line: &str, len: usize, key: &str) -> Option<f64> {
    (number(line, "bytes") == Some(len as f64)).then(|| number(line, key)).flatten()
}

fn rate(line: &str, len: usize) -> Option<f64> {
    of_len(line, len, "msgs_s_run").map(|rate| 1e9 / rate)
}

fn slowest(line: &str) -> Option<f64> {
    of_len(line, KIB4, "rtt_us_p99").map(|us| us * 1000.0)
}

const fn peer(arguments: &'static str, said: fn(&str) -> Option<f64>, bar: f64) -> Option<Peer> {
    Some(Peer { arguments, said, bar })
}

/// All of them; where filling the bytes decides, parity is what can be had.
const GOALS: [Goal; 8] = [
    Goal {
        case: "pair 8 B, receiver allocates",
        ours: |_, plan| lent::received_as_memory(plan, 8).median(),
        nanoseconds: 120.0,
        dragon: peer("same 5", |line| of_len(line, 8, "copy_alloc_ns"), 20.0),
        iceoryx2: None,
        is_loaded: false,
    },
    Goal {
        case: "pair 1 MiB by ownership",
        ours: |_, plan| lent::handed_over(plan, MIB).median(),
        nanoseconds: 200.0,
        dragon: peer("same 5", |line| of_len(line, MIB, "transfer_ns"), 20.0),
        iceoryx2: None,
        is_loaded: false,
    },
    Goal {
        case: "pair 1 MiB in place",
        ours: |_, plan| lent::in_place(plan, MIB).median(),
        nanoseconds: 200.0,
        dragon: None,
        iceoryx2: peer("same", |line| of_len(line, MIB, "zero_copy_ns"), 1.0),
        is_loaded: false,
    },
    Goal {
        case: "round trip 8 B adaptive, prompt",
        ours: |cores, plan| round_trip(cores[0], plan, 8, WaitMode::Adaptive).median(),
        nanoseconds: 1500.0,
        dragon: peer("rtt 8 adaptive 20000 1", |line| number(line, "rtt_us_p50").map(|us| us * 1000.0), 1.0),
        iceoryx2: None,
        is_loaded: false,
    },
    Goal {
        case: "one way 4 KiB in place, filled",
        ours: |cores, plan| lent::one_way(cores[0], plan, KIB4, true).median(),
        nanoseconds: 1e9 / 1.3e6,
        dragon: peer("oneway 4096 spin 100000 5 move", |line| rate(line, KIB4), 4.0),
        iceoryx2: peer("oneway", |line| rate(line, KIB4), 1.0),
        is_loaded: false,
    },
    Goal {
        case: "one way 1 MiB in place, filled",
        ours: |cores, plan| lent::one_way(cores[0], plan, MIB, true).median(),
        nanoseconds: 1e9 / 38e3,
        dragon: peer("oneway 1048576 spin 4000 5 move", |line| rate(line, MIB), 1.0),
        iceoryx2: peer("oneway", |line| rate(line, MIB), 1.0),
        is_loaded: false,
    },
    Goal {
        case: "one way 1 MiB in place",
        ours: |cores, plan| lent::one_way(cores[0], plan, MIB, false).median(),
        nanoseconds: 500.0,
        dragon: None,
        iceoryx2: None,
        is_loaded: false,
    },
    Goal {
        case: "round trip 4 KiB under load, slowest of a hundred",
        ours: |cores, _| loaded::round_trips(cores[0], KIB4).percentile(99.0),
        nanoseconds: 5000.0,
        dragon: peer("rtt 4096 spin 50000 1", slowest, 1000.0),
        iceoryx2: peer("rtt", slowest, 1.0),
        is_loaded: true,
    },
];

/// All rows; those beside others if `UMBRA_DRAGON` and `UMBRA_ICEORYX2` say where their programs are.
pub(crate) fn rows(report: &mut Report, plan: &Plan, cores: &[usize]) {
    let [_, _, ..] = *cores else { return };
    for goal in GOALS {
        let measured = || {
            let ours = || (goal.ours)(cores, plan);
            if goal.is_loaded { loaded::under_load(cores, ours) } else { ours() }
        };
        if report.wants(goal.case) {
            report.row(Row::new(goal.case, measured(), goal.nanoseconds, "the goal", "ns", LOWER)).bar(0.8);
        }
        for (name, folder, program, peer) in [
            ("dragonhpc", "UMBRA_DRAGON", "chan_bench", goal.dragon),
            ("iceoryx2", "UMBRA_ICEORYX2", "iox2_peer", goal.iceoryx2),
        ] {
            let (Some(peer), Some(folder)) = (peer, std::env::var_os(folder)) else { continue };
            let case = format!("{}, beside {name}", goal.case);
            if report.wants(&case) {
                let arguments: Vec<_> = peer.arguments.split(' ').collect();
                let theirs = || lines_of(report, Path::new(&folder), program, &arguments);
                let lines = if goal.is_loaded { loaded::under_load(cores, theirs) } else { theirs() };
                if let Some(theirs) = lines.iter().find_map(|line| (peer.said)(line)) {
                    report.row(Row::new(&case, measured(), theirs, name, "ns", LOWER)).bar(peer.bar);
                }
            }
        }
    }
}
