//! Chained calls beside their gates, the least the machine can do, and Open MPI.
//!
//! Shapes of the same call, with eight bytes down and a sum of eight bytes up:
//!
//! * `engine`: one thread, one machine that houses all members. What counts is nanoseconds a member.
//! * `apart`: one thread, one machine a member, so everything is a message. The figure of gate G1 stands beside it without
//!   a bar: the engine does not reach it there.
//! * `simulated`: up to 65,536 members at 256 agents, over a network that exists in figures only.
//! * `agent`: another thread houses all members; the caller reaches it by a message through shared memory.
//! * `agent program`: the program `umbra-agent` houses them, as a process, where `UMBRA_BENCH_AGENT` names it.
//! * `procs`: one process a member; `loaded` beside a process that computes; over each tree, and with 4 KiB of data.
//! * `bulk`: one process a member, and a mebibyte that all of them read.
//! * `replies`: one process a member, and a mebibyte of each of them, which are added up.
//! * `stream`: data that is longer than what can be offered at once, for one other process.
//! * `death`: one process a member, of which one is killed while others wait for it; also behind an agent.
//!
//! And counts: wakes of ranks behind an agent, memory and allocations, failures told as they happened, calls that cross,
//! bytes of messages.
//!
//! A row whose peer is a `gate` has the gate's own figure beside ours. Processes have the least beside them, too: as
//! many that wait for a word in shared memory and answer with another, without trees, messages or calls. Open MPI and,
//! for reference, MPICH broadcast and reduce eight bytes in as many processes, where their compilers are. Sides run in
//! turns; a figure is the median of the rounds, a ratio that of the rounds' ratios.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a bench that cannot be set up ends")]

mod agent;
mod bulk;
mod counts;
mod death;
mod engine;
mod floor;
mod mpi;
mod origins;
mod procs;
mod program;
mod replies;
mod simulated;
mod stream;
mod trees;

use std::process::ExitCode;

use umbra::call::Heap;
use umbra_core::chain::{Call, Caps, Handle, Machine, Node, Outcome, Phase, Tag, Verdict, Work};
use umbra_core::time::Lapse;
use umbra_tests::bench::{Direction, Report};

/// The function of all cases, in both roles: it sums the numbers of the members.
const SUM: &str = "sum";
const LOWER: Direction = Direction::LowerIsBetter;

fn sum(work: &mut Work<'_>) -> Verdict {
    let number = u64::from(work.node.0);
    let total = match work.phase {
        Phase::Init | Phase::Probe => number,
        Phase::Wait(answer) => match (work.reply.data().try_into(), answer.data.try_into()) {
            (Ok(ours), Ok(theirs)) => u64::from_le_bytes(ours) + u64::from_le_bytes(theirs),
            _ => return Verdict::Fault(1),
        },
    };
    if work.reply.set_data(&total.to_le_bytes()).is_ok() { Verdict::Done } else { Verdict::Fault(2) }
}

/// A call of the sum with eight bytes of header.
const fn call(members: &[Node]) -> Call<'_> {
    let caps = Caps { header: 0, data: 8 };
    let budget = Lapse::from_secs(30);
    Call { callback: Tag::of(SUM), caps, header: &[7; 8], budget, ..Call::new(Tag::of(SUM), members) }
}

/// The sum that a call of a machine's own has ended with; its place is free.
fn take_sum(machine: &mut Machine<Heap>, handle: Handle) -> u64 {
    let outcome = machine.outcome(handle).expect("a call of ours");
    let Some(Outcome::Done { data, .. }) = outcome else { unreachable!("{outcome:?}") };
    let sum = u64::from_le_bytes(data.try_into().expect("eight bytes"));
    machine.release(handle).expect("it has ended");
    sum
}

/// The middle of these figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> ExitCode {
    // The bench is also the program of its own members.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["member", node, slices] => procs::serve(node, slices),
        ["floor", node] => floor::serve(node),
        ["busy"] => procs::be_busy(),
        _ => return rows(),
    }
    ExitCode::SUCCESS
}

/// Everything that is measured.
fn rows() -> ExitCode {
    let mut report = Report::from_args();
    engine::rows(&mut report);
    counts::rows(&mut report);
    origins::rows(&mut report);
    let peers = mpi::Peers::find(&report);
    simulated::rows(&mut report);
    agent::rows(&mut report, &peers);
    program::rows(&mut report);
    procs::rows(&mut report, &peers);
    trees::rows(&mut report);
    bulk::rows(&mut report, &peers);
    replies::rows(&mut report, &peers);
    stream::rows(&mut report);
    death::rows(&mut report);
    report.finish()
}
