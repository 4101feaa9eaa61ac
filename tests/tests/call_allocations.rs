//! An agent's part in calls allocates nothing once it serves (scenario 55).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::call::{Capacities, Member, Number, Operator, Shape, Station, built_in, reduction};
use umbra_core::chain::{Call, Node};
use umbra_core::time::Lapse;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LONG: Duration = Duration::from_secs(30);
const RESIDENTS: u32 = 64;

fn allocated(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

#[test]
fn s55_an_agent_allocates_nothing_once_it_serves() {
    let shape = Shape { messages: 16, message_bytes: 8 << 10, ..Shape::new(RESIDENTS as u16 + 1) };
    let station = Station::create("allocations", shape).unwrap();
    let capacities = Capacities { call_bytes: 64 << 10, ..Capacities::new(RESIDENTS + 1) };
    let mut agent = Member::join_with(&station, Node(0), capacities, |config| config).unwrap();
    (1..RESIDENTS).for_each(|node| agent.house(Node(node)).unwrap());
    let board = agent.serve_built_ins(64).unwrap();
    let mut maker = Member::join(&station, Node(RESIDENTS)).unwrap();
    maker.serve_built_ins(64).unwrap();
    let members: Vec<Node> = (0..RESIDENTS).map(Node).collect();
    let header = reduction(Operator::Sum, Number::U64);
    let (one, value) = (1_i64.to_le_bytes(), 5_u64.to_le_bytes());
    let calls: [Call<'_>; 5] = [
        built_in::barrier(&members),
        built_in::broadcast(&members, &value),
        built_in::reduce(&members, &header, 64),
        built_in::gather(&members, 1024),
        built_in::count(&members, &one),
    ];
    let mut by_agent = 0;
    for round in 0..200 {
        for call in &calls {
            let handle = maker.start(&Call { at_root: false, budget: Lapse::from_secs(30), ..*call }).unwrap();
            let start = Instant::now();
            while !maker.test(handle).unwrap() {
                assert!(start.elapsed() < LONG, "the agent does not answer");
                let region = Region::new(ALLOCATOR);
                agent.turn();
                // The first round finds the others, and room for what is kept.
                by_agent += if round > 0 { allocated(&region) } else { 0 };
            }
            maker.wait(handle, LONG).unwrap();
        }
    }
    // Long enough for the agent to look for the dead.
    let region = Region::new(ALLOCATOR);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        agent.turn();
    }
    assert_eq!((by_agent, allocated(&region)), (0, 0));
    assert_eq!(board.counter(Node(63)), 200, "it was the agent that served");
}
