//! Gates that are counts, not times: wakes, memory, origins, crossing calls, bytes.
//!
//! All of them are asserted by tests as well; here each stands beside what its gate wants.

use std::alloc::System;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::call::{Capacities, Shape as Place, Station};
use umbra_core::chain::{
    Call, Config, Context, Function, Life, Machine, Node, Note, PeerEntry, Plan, REQUEST, RESPONSE, Storage, Tomb,
    Waiter,
};
use umbra_core::map::Entry;
use umbra_core::pending::Request;
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::bench::{Direction, Report, Row};
use umbra_tests::chain::{Planned, World, sum_over};

use crate::agent::member;
use crate::engine::Engine;
use crate::{LOWER, call};

const HIGHER: Direction = Direction::HigherIsBetter;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Ranks behind the agent, as many members that live at it, and calls of either.
const RANKS: u32 = 8;
const CALLS: u64 = 20;
/// In which a rank goes to sleep again.
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(30);

/// The agent, those who live at it, the ranks, the maker.
const AGENT: Node = Node(0);
const MAKER: Node = Node(2 * RANKS);

/// G6: how often a call wakes each of the ranks that sleep behind an agent: one over those that live at the agent, of all ranks
/// and calls, and one over the ranks, of those whose request finds them asleep.
fn wakes() -> [f64; 2] {
    let station = Station::create("bench wakes", Place::new(2 * RANKS as u16 + 1)).expect("there is memory");
    let (done, woken, asleep) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let serve = |node: Node, housed: std::ops::Range<u32>| {
        let mut member = member(&station, node);
        housed.for_each(|node| member.house(Node(node)).expect("a free seat"));
        let mut before = (0, 0, 0);
        member.serve_until(PATIENCE, |member| {
            if node != AGENT {
                let sleeps = member.sleeps();
                let now = (sleeps.woken, sleeps.all, member.figures().runs);
                woken.fetch_add(now.0 - before.0, Ordering::Relaxed);
                asleep.fetch_add(u64::from(now.1 > before.1 && now.2 > before.2), Ordering::Relaxed);
                before = now;
            }
            done.load(Ordering::Acquire)
        });
    };
    thread::scope(|scope| {
        let serve = &serve;
        scope.spawn(move || serve(AGENT, 1..RANKS));
        (RANKS..2 * RANKS).for_each(|rank| _ = scope.spawn(move || serve(Node(rank), 0..0)));
        let mut maker = member(&station, MAKER);
        let behind: Vec<Node> = [AGENT].into_iter().chain((RANKS..2 * RANKS).map(Node)).collect();
        let at_home: Vec<Node> = (0..RANKS).map(Node).collect();
        assert!(maker.serve_until(PATIENCE, |maker| maker.sees(&behind).is_none()), "somebody has not come");
        let figures = [(&at_home, false), (&behind, true)].map(|(members, are_ranks)| {
            let plan = Plan::Led(Shape::FLAT);
            let mut each = || {
                thread::sleep(PAUSE);
                let handle = maker.start(&Call { plan, ..call(members) }).expect("room for one call");
                maker.wait(handle, PATIENCE).expect("a good answer");
            };
            each();
            let count = || [&woken, &asleep].map(|count| count.load(Ordering::Relaxed));
            let before = count();
            (0..CALLS).for_each(|_| each());
            thread::sleep(PAUSE);
            let after = count();
            let [woken, asleep] = [0, 1].map(|at| after[at] - before[at]);
            woken as f64 / if are_ranks { asleep } else { CALLS * u64::from(RANKS) } as f64
        });
        done.store(true, Ordering::Release);
        figures
    })
}

/// What a machine takes whose calls have no data: 64 calls, functions and members, and 256 calls that are remembered.
enum Arrays {}

impl Storage for Arrays {
    type Contexts = [Request<Context>; 64];
    type Words = [u64; 0];
    type Peers = [PeerEntry; 64];
    type Functions = [Option<Function>; 64];
    type Tombs = [Tomb; 256];
    type Answers = [u8; 0];
    type Index = [Entry<u128, u32>; (64 + 256) * 4 / 3 + 1];
    type Notes = [Note; 16];
    type Waiters = [Waiter; 16];
    type Scratch = [u32; 6 * 64];
}

/// G7: calls without an allocation, of a thousand, where all members live at one machine and where each has its own.
fn without_allocation() -> f64 {
    let mut engines = [Engine::new(64, false), Engine::new(64, true)];
    engines.iter_mut().for_each(|engine| _ = engine.call());
    let free = |_: &u32| {
        let region = Region::new(COUNTED);
        engines.iter_mut().for_each(|engine| _ = engine.call());
        let change = region.change();
        change.allocations + change.reallocations == 0
    };
    (0..1000).filter(free).count() as f64
}

/// G9: of three calls that cross, with a place for each depth or one for all, how many end well.
fn crossing(calls: u16, classes: u8) -> f64 {
    let capacities = Capacities { calls, call_bytes: 4096, ..Capacities::new(3) };
    let mut world = World::with(1, capacities, Config { classes, ..Config::new(Node(0), Life(1)) });
    world.network.jitter = Lapse::from_micros(20);
    world.network.work = Lapse::from_micros(5);
    for list in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
        let mut planned = sum_over(list);
        planned.call.budget = Lapse::from_millis(100);
        world.start_after(Lapse(0), planned);
    }
    world.run(Lapse::from_secs(10));
    let ended = world.made.iter().filter_map(|made| made.end.as_ref()?.0.sum());
    ended.count() as f64
}

/// G10: bytes of all messages of a call over 64 members, and what the tree says: 72 and 48 for each member that is asked, four
/// for each level that its id goes through, and eight of the answer.
fn bytes(shape: Shape) -> [f64; 2] {
    const MEMBERS: u32 = 64;
    let mut world = World::new(MEMBERS, 1);
    let mut planned: Planned = sum_over(0..MEMBERS);
    planned.call.plan = Plan::Shape(shape);
    let _ = world.call(&planned);
    let figures = world.figures();
    let depths: u64 = match shape {
        Shape::FLAT => u64::from(MEMBERS) - 1,
        // Whose number, from one on, has a bit more is a level deeper.
        Shape::BINARY => (2..=MEMBERS).map(|nth| u64::from(nth.ilog2())).sum(),
        // In a binomial tree a member is as deep as its number has ones.
        _ => (1..MEMBERS).map(|nth| u64::from(nth.count_ones())).sum(),
    };
    let asked = u64::from(MEMBERS) - 1;
    let formula = asked * (REQUEST as u64 + RESPONSE as u64 + 8) + 4 * depths;
    [(figures.request_bytes + figures.response_bytes) as f64, formula as f64]
}

pub(crate) fn rows(report: &mut Report) {
    if report.wants("wakes") {
        let [at_home, behind] = wakes();
        let case = "wakes a rank and call, functions of the agent";
        report
            .row(Row::new(case, 1.0 + at_home, 1.0, "gate G6: none, beside one that is not counted", "", LOWER))
            .bar(1.0);
        let case = "wakes a rank and call, functions of ranks";
        // Neither more nor less; somebody may have looked at the clock a moment before its request came.
        let row = Row::new(case, behind, 1.0, "gate G6: one, by requests that find them asleep", "", LOWER);
        report.row(Row { ratio: behind.min(1.0 / behind), ..row }).bar(0.98);
    }
    if report.wants("memory of a machine") {
        let (ours, gate) = (size_of::<Machine<Arrays>>() as f64, 65536.0);
        report.row(Row::new("memory of a machine for 64 calls", ours, gate, "gate G7", "B", LOWER)).bar(1.0);
    }
    if report.wants("calls without an allocation") {
        let (case, ours) = ("calls without an allocation, 64 ids", without_allocation());
        report.row(Row::new(case, ours, 1000.0, "gate G7: all", "calls", HIGHER)).bar(1.0);
    }
    let case = "crossing calls that end";
    if report.wants(case) {
        report.row(Row::new(case, crossing(2, 2), 3.0, "gate G9: all", "calls", HIGHER)).bar(1.0);
        let (case, fail) = ("crossing calls that fail, one place for all depths", 3.0 - crossing(1, 0));
        report
            .row(Row::new(case, fail, 1.0, "gate G9: one at least, which shows what places are for", "calls", HIGHER))
            .bar(1.0);
    }
    for (name, shape) in [("binomial", Shape::BINOMIAL), ("flat", Shape::FLAT), ("binary", Shape::BINARY)] {
        let case = format!("bytes of all messages, 64 ids, {name}");
        if report.wants(&case) {
            let [ours, formula] = bytes(shape);
            report.row(Row::new(&case, ours, formula, "gate G10: what the tree says", "B", LOWER)).bar(1.0);
        }
    }
}
