//! Members at the program `umbra-agent` itself, called by a guest.
//!
//! The call goes through shared memory, as in `agent`. Beside the calls it has its links to look after, and it sleeps when
//! there is nothing to do, as the thread of `agent` never does.

use std::ffi::OsString;
use std::time::Instant;

use umbra::call::{Member, built_in};
use umbra_core::chain::{Call, Node, Plan};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::bench::{Report, Row};
use umbra_tests::hosts::Hosts;

use crate::agent::GATE;
use crate::procs::PATIENCE;
use crate::{LOWER, median};

/// Names the program of agents.
const AGENT: &str = "UMBRA_BENCH_AGENT";
const IDS: u32 = 64;
const ROUNDS: usize = 7;
const CALLS: usize = 2000;
const BUDGET: Lapse = Lapse::from_secs(30);

/// The program of agents, or a note that there is none for these rows.
pub(crate) fn of_agents(report: &mut Report, rows: &str) -> Option<OsString> {
    let program = std::env::var_os(AGENT);
    if program.is_none() {
        report.note(format_args!("{AGENT} names no program of agents: no rows of {rows}"));
    }
    program
}

/// Microseconds of a call that adds one to every counter at the agent and sums them up; the medians of rounds.
fn measure(program: OsString) -> Vec<f64> {
    let hosts = Hosts::of(program.into(), "bench-program", 1, IDS);
    let station = hosts.meet(0);
    // Behind the seats of residents there are as many for ranks, and then those of guests.
    let mut maker = Member::join(&station, Node(2 * IDS)).expect("a free seat");
    maker.serve_built_ins(0).expect("the first functions");
    let members: Vec<Node> = (0..IDS).map(Node).collect();
    assert!(maker.serve_until(PATIENCE, |maker| maker.sees(&members).is_none()), "the agent has its members");
    let (one, mut sum) = (1_i64.to_le_bytes(), 0);
    let plan = Plan::Led(Shape::BINARY);
    let call = Call { plan, at_root: false, budget: BUDGET, ..built_in::count(&members, &one) };
    let mut once = || {
        let start = Instant::now();
        let handle = maker.start(&call).expect("room for one call");
        while !maker.test(handle).expect("a call of ours") {
            assert!(start.elapsed() < PATIENCE, "the agent does not answer");
        }
        let took = start.elapsed();
        sum += i64::from(IDS);
        assert_eq!(maker.wait(handle, PATIENCE).expect("a good answer").data, sum.to_le_bytes());
        took.as_nanos() as f64 / 1000.0
    };
    (0..CALLS).for_each(|_| _ = once());
    (0..ROUNDS).map(|_| median((0..CALLS).map(|_| once()).collect())).collect()
}

pub(crate) fn rows(report: &mut Report) {
    let case = format!("agent program {IDS} ids 8 B");
    if report.wants(&case)
        && let Some(program) = of_agents(report, "its members")
    {
        let gate = "gate G2: of a thread that does nothing else";
        report.row(Row::new(&case, median(measure(program)), GATE, gate, "us", LOWER)).bar(1.0);
    }
}
