//! An agent: one thread that houses all members, reached through shared memory.

use std::thread;
use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicBool, Ordering};
use umbra::call::{Capacities, Member, Shape as Place, Station};
use umbra_core::chain::{Call, Node, Plan};
use umbra_core::tree::Shape;
use umbra_tests::bench::{Report, Row, cores, pin};

use crate::engine::{BOUND, OF_BOUND};
use crate::mpi::Peers;
use crate::{LOWER, SUM, call, median, sum};

/// Microseconds that the gate allows for 64 members.
pub(crate) const GATE: f64 = 5.0;
/// How much faster than Open MPI the gate wants it.
const TIMES: f64 = 50.0;
const ROUNDS: usize = 7;
/// Turns beside Open MPI.
const BESIDE: usize = 5;
const CALLS: usize = 2000;
const PATIENCE: Duration = Duration::from_secs(30);

/// A member with room for all seats, which knows the sum.
pub(crate) fn member(station: &Station, node: Node) -> Member {
    let capacities = Capacities::new(u32::from(station.shape().members));
    let mut member = Member::join_with(station, node, capacities, |config| config).expect("a free seat");
    member.register(SUM, sum).expect("the first function");
    member
}

/// Microseconds of one call over `ids` members that live on an agent; the medians of rounds.
fn measure(ids: u16) -> Vec<f64> {
    let station = Station::create("bench agent", Place::new(ids + 1)).expect("there is memory");
    let (there, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let cores = cores().unwrap_or_default();
    let pair = cores.first_chunk::<2>();
    // Both sides are threads of their own: who is bound to a core binds all that it starts.
    thread::scope(|scope| {
        let agent = scope.spawn(|| {
            if let Some(&[core, _]) = pair {
                let _ = pin(core);
            }
            let mut agent = member(&station, Node(1));
            (2..=u32::from(ids)).for_each(|node| agent.house(Node(node)).expect("a free seat"));
            there.store(true, Ordering::Release);
            // An agent polls; it is there for nothing else.
            while !done.load(Ordering::Acquire) {
                agent.turn();
            }
        });
        while !there.load(Ordering::Acquire) {
            assert!(!agent.is_finished(), "the agent ended");
            thread::yield_now();
        }
        let client = scope.spawn(|| {
            if let Some(&[_, core]) = pair {
                let _ = pin(core);
            }
            call_it(&station, ids)
        });
        let rounds = client.join();
        done.store(true, Ordering::Release);
        rounds.expect("the client said why it ended")
    })
}

/// What the client measures.
fn call_it(station: &Station, ids: u16) -> Vec<f64> {
    let mut client = member(station, Node(0));
    let members: Vec<Node> = (1..=u32::from(ids)).map(Node).collect();
    // The caller reaches the agent by one message.
    let plan = Plan::Led(Shape::BINARY);
    let call = Call { plan, ..call(&members) };
    let mut once = || {
        let start = Instant::now();
        let handle = client.start(&call).expect("room for one call");
        while !client.test(handle).expect("a call of ours") {
            assert!(start.elapsed() < PATIENCE, "the agent does not answer");
        }
        let took = start.elapsed();
        let reply = client.wait(handle, PATIENCE).expect("a good answer");
        assert_eq!(reply.members, u32::from(ids) + 1);
        took.as_nanos() as f64 / 1000.0
    };
    (0..CALLS).for_each(|_| _ = once());
    (0..ROUNDS).map(|_| median((0..CALLS).map(|_| once()).collect())).collect()
}

pub(crate) fn rows(report: &mut Report, peers: &Peers) {
    for ids in [8, 16, 32, 64] {
        let case = format!("agent {ids} ids 8 B");
        if report.wants(&case) {
            let ours = median(measure(ids));
            if ids == 64 {
                report.row(Row::new(&case, ours, GATE, "gate G2", "us", LOWER)).bar(1.0);
            }
            let (case, bound) = (format!("{case} bound"), BOUND * f64::from(ids) / 1000.0);
            report.row(Row::new(&case, ours, bound, "gate G3: the least engine", "us", LOWER)).bar(OF_BOUND);
        }
    }
    let mut beside = peers.beside(report, "agent 64 ids 8 B");
    beside.rounds(report, BESIDE, (64, 8), || median(measure(64)), |theirs| theirs.p50);
    beside.rows(report, ", functions in 64 processes", Some(("G2", TIMES)));
}
