//! An agent's part in calls allocates nothing once it serves (scenario 55).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::call::{
    Capacities, Failure, Member, Number, Operator, Reply, Shape, Station, WaitError, built_in, reduction,
};
use umbra_core::chain::{Call, Code, Node, Plan, Stage, Tag, Verdict};
use umbra_core::time::Lapse;
use umbra_core::tree;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LONG: Duration = Duration::from_secs(30);
const RESIDENTS: u32 = 64;
const VALUE_BYTES: usize = 64;
const ROUNDS: usize = 200;
/// Is pending as often as the header says before it is done, and for ever if that is [`FOR_EVER`].
const PENDS: &str = "pends";
const FOR_EVER: u8 = u8::MAX;
/// How often it is pending otherwise.
const TIMES: u8 = 2;

fn allocated(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

/// An agent, whoever calls, and two ranks behind the agent, in one thread.
struct Host {
    agent: Member,
    maker: Member,
    ranks: [Member; 2],
    /// What the agent has allocated while it was counted.
    by_agent: usize,
    /// Times that a function at the agent was pending.
    pending: Arc<AtomicUsize>,
}

impl Host {
    fn new() -> Host {
        let maker = Node(RESIDENTS);
        let ranks = [Node(RESIDENTS + 1), Node(RESIDENTS + 2)];
        let shape = Shape { messages: 16, message_bytes: 8 << 10, ..Shape::new(RESIDENTS as u16 + 3) };
        let station = Station::create("allocations", shape).unwrap();
        let capacities = Capacities { call_bytes: 64 << 10, ..Capacities::new(shape.all) };
        let mut agent = Member::join_with(&station, Node(0), capacities, |config| config).unwrap();
        (1..RESIDENTS).for_each(|node| agent.house(Node(node)).unwrap());
        let pending = Arc::new(AtomicUsize::new(0));
        let (mut asked, counted) = ([0; RESIDENTS as usize], Arc::clone(&pending));
        agent
            .register(PENDS, move |work| {
                let times = &mut asked[work.node.index()];
                let is_due = *work.header != [FOR_EVER] && *times == TIMES;
                if !is_due {
                    *times += u8::from(*work.header != [FOR_EVER]);
                    counted.fetch_add(1, Ordering::Relaxed);
                    return Verdict::Pending;
                }
                *times = 0;
                Verdict::Done
            })
            .unwrap();
        let mut join = |node| {
            let mut member = Member::join(&station, node).unwrap();
            member.serve_built_ins(VALUE_BYTES).unwrap();
            member.register(PENDS, |_| Verdict::Done).unwrap();
            member
        };
        let mut host = Host { maker: join(maker), ranks: ranks.map(&mut join), agent, by_agent: 0, pending };
        let all: Vec<Node> = shape.nodes().collect();
        for member in [&mut host.agent, &mut host.maker].into_iter().chain(&mut host.ranks) {
            assert_eq!(member.sees(&all), None, "all have come");
        }
        host
    }

    /// A turn of everybody; that of the agent is counted.
    fn turn(&mut self) {
        let region = Region::new(ALLOCATOR);
        self.agent.turn();
        self.by_agent += allocated(&region);
        self.ranks.iter_mut().for_each(|rank| _ = rank.turn());
        self.maker.turn();
    }

    fn turn_until(&mut self, mut is_so: impl FnMut(&mut Host) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < LONG, "the agent does not answer");
            self.turn();
        }
    }

    /// Makes a call, which is given up if functions have been pending so often more.
    fn call(&mut self, call: &Call<'_>, gives_up: Option<usize>) -> Result<Reply, Failure> {
        let call = Call { at_root: false, budget: Lapse::from_secs(30), ..*call };
        let before = self.pending.load(Ordering::Relaxed);
        let handle = self.maker.start(&call).unwrap();
        if let Some(times) = gives_up {
            self.turn_until(|host| host.pending.load(Ordering::Relaxed) >= before + times);
            self.maker.cancel(handle).unwrap();
        }
        self.turn_until(|host| host.maker.test(handle).unwrap());
        match self.maker.wait(handle, LONG) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn s55_an_agent_allocates_nothing_once_it_serves() {
    let mut host = Host::new();
    let board = host.agent.serve_built_ins(VALUE_BYTES).unwrap();
    let members: Vec<Node> = (0..RESIDENTS).map(Node).collect();
    // The agent, and the ranks that only it reaches.
    let led = [Node(0), Node(RESIDENTS + 1), Node(RESIDENTS + 2)];
    let behind = Plan::Led(tree::Shape::FLAT);
    let header = reduction(Operator::Sum, Number::U64);
    let (one, value, too_long) = (1_i64.to_le_bytes(), 5_u64.to_le_bytes(), [0; VALUE_BYTES + 1]);
    let calls: [Call<'_>; 8] = [
        built_in::barrier(&members),
        built_in::broadcast(&members, &value),
        built_in::reduce(&members, &header, 64),
        built_in::gather(&members, 1024),
        built_in::count(&members, &one),
        Call { plan: behind, ..built_in::count(&led, &one) },
        Call { plan: behind, ..built_in::gather(&led, 1024) },
        Call { header: &[TIMES], ..Call::new(Tag::of(PENDS), &members) },
    ];
    let fails = built_in::broadcast(&members, &too_long);
    let hangs = Call { header: &[FOR_EVER], ..Call::new(Tag::of(PENDS), &members) };
    // The first turn of all.
    host.agent.turn();
    for round in 0..ROUNDS {
        for call in &calls {
            host.call(call, None).unwrap();
        }
        let failure = host.call(&fails, None).unwrap_err();
        assert_eq!((failure.records[0].stage, failure.records[0].code), (Stage::Func, Code::Fault));
        let failure = host.call(&hangs, Some(3)).unwrap_err();
        assert_eq!(failure.records[0].code, Code::Cancelled);
        assert_eq!(host.by_agent, 0, "in round {round}");
    }
    // Long enough for the agent to look for the dead.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        host.turn();
    }
    assert_eq!(host.by_agent, 0);
    assert_eq!(board.counter(Node(63)), ROUNDS as i64, "it was the agent that served");
    let least = ROUNDS * (RESIDENTS as usize * usize::from(TIMES) + 3);
    assert!(host.pending.load(Ordering::Relaxed) >= least, "functions were pending");
}
