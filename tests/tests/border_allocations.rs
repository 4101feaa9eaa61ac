//! Offered data of other hosts is fetched without an allocation (scenario 55).
//!
//! That holds once an agent has had some. Two places are in one process, and every frame is carried by hand; what the
//! makers of calls do is not counted.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::alloc::System;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::call::border::Border;
use umbra::call::{Member, Outgoing, Shape, Station};
use umbra_core::chain::{Call, Node, Plan};
use umbra_core::tree;
use umbra_core::wire::Op;
use umbra_tests::call::{member, words_of};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LONG: Duration = Duration::from_secs(30);
/// Seats of a place: its agent, whoever calls, and that of the border.
const SEATS: u16 = 3;
const OFFERED: usize = 100_000;
const ROUNDS: usize = 50;

struct Place {
    agent: Member,
    maker: Member,
    border: Border,
    body: Vec<u8>,
}

impl Place {
    fn new(place: u32) -> Place {
        let shape = Shape { message_bytes: 4096, offer_bytes: 400_000, ..Shape::new(SEATS) }.joined(place, 2);
        let station = Station::create("border", shape).unwrap();
        let [mut agent, maker] = [0, 1].map(|at| member(&station, Node(shape.first + at), 8));
        let outgoing = Outgoing::new(|| ());
        let mut border = Border::new(&station, Node(shape.first + 2), outgoing.clone()).unwrap();
        agent.put_out(outgoing);
        border.on_link(1 - place);
        Place { agent, maker, border, body: vec![0; Border::body_max(shape)] }
    }
}

/// Runs `what`, and adds to `to` what it has allocated.
fn counted<R>(to: &mut usize, what: impl FnOnce() -> R) -> R {
    let region = Region::new(ALLOCATOR);
    let made = what();
    let change = region.change();
    *to += change.allocations + change.reallocations;
    made
}

/// A turn of both places; what the agents and borders allocate is counted.
fn turn(places: &mut [Place; 2], allocated: &mut usize) {
    for at in 0..2 {
        let Place { agent, maker, border, body } = &mut places[at];
        maker.turn();
        let frame: Option<(Op, usize)> = counted(allocated, || {
            agent.turn();
            border.flush();
            border.poll(|_| true, body).map(|(_, op, len)| (op, len))
        });
        if let Some((op, len)) = frame {
            let body = places[at].body[..len].to_vec();
            counted(allocated, || places[1 - at].border.on_frame(at as u32, op, &body).unwrap());
        }
    }
}

#[test]
fn s55_data_of_another_host_is_fetched_without_an_allocation() {
    let (mut places, mut meanwhile) = ([0, 1].map(Place::new), 0);
    let all: Vec<Node> = [0, 1, 3, 4].map(Node).to_vec();
    let turn_until =
        |places: &mut [Place; 2], allocated: &mut usize, is_so: &mut dyn FnMut(&mut [Place; 2]) -> bool| {
            let start = Instant::now();
            while !is_so(places) {
                assert!(start.elapsed() < LONG, "nothing comes of it");
                turn(places, allocated);
            }
        };
    turn_until(&mut places, &mut meanwhile, &mut |places| {
        places.iter_mut().all(|place| place.agent.sees(&all).is_none() && place.maker.sees(&all).is_none())
    });
    let data = vec![1; OFFERED];
    let sum = u64::from_le_bytes([1; 8]).wrapping_mul((OFFERED / 8 * all.len()) as u64);
    for round in 0..ROUNDS {
        // To a member there by way of its agent, and to both at once: the second request comes when the data is there, or waits too.
        for shape in [tree::Shape::CHAIN, tree::Shape::FLAT] {
            let mut allocated = 0;
            let offer = places[0].maker.offer(&data).unwrap();
            let call = words_of(offer.data(), &all, &[]);
            let handle = places[0].maker.start(&Call { plan: Plan::Shape(shape), ..call }).unwrap();
            turn_until(&mut places, &mut allocated, &mut |places| places[0].maker.test(handle).unwrap());
            let reply = places[0].maker.wait(handle, LONG).unwrap();
            assert_eq!(reply.data, sum.to_le_bytes());
            places[0].maker.take_back(offer);
            // The first round finds room for what waits.
            assert!(round == 0 || allocated == 0, "{allocated} allocations in round {round}");
        }
    }
    let fetched = places[1].border.crossings().fetched_bytes;
    assert_eq!(fetched, (2 * ROUNDS * OFFERED) as u64, "once a call");
}
