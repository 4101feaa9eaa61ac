//! Every order of what can happen in small calls.
//!
//! That includes one failure at every member and stage. Deaths, deadlines and cancellations at any moment are those of calls
//! of three members, and of four in a chain; of four in all trees where `UMBRA_CHAIN_SCHEDULES` asks for more schedules
//! than a test takes (over 3000).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_core::chain::{Code, Mode, Node};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::chain::World;
use umbra_tests::chain::explore::{Clock, every_order};
use umbra_tests::chain::single::{self, HOMES, SHAPES, Single, world};

/// How many members have calls to which something happens at any moment.
fn members_of(shape: Shape) -> u32 {
    let schedules = std::env::var("UMBRA_CHAIN_SCHEDULES").map_or(0, |text| text.parse().unwrap());
    if shape == Shape::CHAIN || schedules > 3000_u64 { 4 } else { 3 }
}

#[test]
fn s43_all_orders_of_a_good_call_end_with_the_sum() {
    for (members, homes) in (1..=4).flat_map(|members| HOMES.map(|homes| (members, homes))) {
        for shape in SHAPES {
            for mode in [Mode::empty(), Mode::CUT_THROUGH, Mode::ORDERED] {
                let build = || world(members, homes, shape, mode, |_| {});
                let sum = u64::from(members * (members - 1) / 2);
                let orders = every_order(Clock::Last, build, |world| {
                    let end = world.made[0].end.as_ref().unwrap().0.sum();
                    if end == Some(sum) { Ok(()) } else { Err(format!("{end:?} instead of {sum}")) }
                });
                assert!(orders.unwrap() > 0);
            }
        }
    }
}

#[test]
fn s43_all_orders_with_user_code_that_takes_time() {
    for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
        let build = || world(3, homes, shape, Mode::CUT_THROUGH, |world| world.network.work = Lapse(1));
        let orders = every_order(Clock::Last, build, |world| {
            if world.made[0].end.as_ref().unwrap().0.sum() == Some(3) { Ok(()) } else { Err("no sum".to_owned()) }
        });
        assert!(orders.unwrap() > 0);
    }
}

fn every_order_of(all: &[Single]) {
    let orders: u64 = all.iter().map(|single| single.every_order().unwrap()).sum();
    println!("{orders} orders: each of {} calls named what failed", all.len());
    assert!(orders >= all.len() as u64 && !all.is_empty());
}

#[test]
fn g8_a_failure_at_any_member_and_stage_is_named_in_every_order() {
    every_order_of(&single::functions());
}

#[test]
fn g8_a_callback_that_fails_is_named_in_every_order() {
    every_order_of(&single::callbacks());
}

#[test]
fn g8_a_member_without_the_function_is_named_in_every_order() {
    every_order_of(&single::unknown());
}

#[test]
fn g8_a_member_that_no_request_reaches_is_named_in_every_order() {
    every_order_of(&single::unreachable());
}

#[test]
fn s35_a_death_at_any_moment_leaves_nothing_behind() {
    let (mut done, mut died, mut orders) = (0, 0, 0);
    for mode in [Mode::empty(), Mode::COLLECT] {
        for shape in SHAPES {
            let members = members_of(shape);
            for (victim, homes) in (0..members).flat_map(|victim| HOMES.map(|homes| (Node(victim), homes))) {
                let change = |world: &mut World| world.kill_after(Lapse(0), victim);
                orders += every_order(
                    Clock::Last,
                    || world(members, homes, shape, mode, change),
                    |world| {
                        let Some((end, _)) = &world.made[0].end else { return Ok(()) };
                        if end.sum().is_some() {
                            done += 1;
                            return Ok(());
                        }
                        died += 1;
                        // Whoever lives with the victim dies as well.
                        let named = end.records().iter().any(|record| {
                            world.home(record.origin) == world.home(victim) && record.code == Code::PeerDead
                        });
                        if named { Ok(()) } else { Err(format!("{:?}", end.records())) }
                    },
                )
                .unwrap();
            }
        }
    }
    println!("{orders} orders: {done} done, {died} failed by a death");
    assert!(done > 0 && died > 0, "{done} done, {died} failed");
}

#[test]
fn s42_requests_and_answers_that_come_twice_change_nothing_in_any_order() {
    for shape in [Shape::BINARY, Shape::CHAIN] {
        let change = |world: &mut World| world.network.duplication = 1_000_000;
        every_order(
            Clock::Last,
            || world(2, HOMES[0], shape, Mode::empty(), change),
            |world| {
                if world.made[0].end.as_ref().unwrap().0.sum() == Some(1) { Ok(()) } else { Err("no sum".to_owned()) }
            },
        )
        .unwrap();
    }
}

#[test]
fn s41_a_deadline_at_any_moment_ends_the_call_and_leaves_nothing_behind() {
    let (mut done, mut late, mut orders) = (0, 0, 0);
    for mode in [Mode::empty(), Mode::COLLECT] {
        for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
            orders += every_order(
                Clock::Any,
                || world(members_of(shape), homes, shape, mode, |_| {}),
                |world| {
                    let end = &world.made[0].end.as_ref().unwrap().0;
                    if end.sum().is_some() {
                        done += 1;
                        return Ok(());
                    }
                    late += 1;
                    let named = end.records().iter().all(|record| record.code == Code::Timeout);
                    if named && !end.records().is_empty() { Ok(()) } else { Err(format!("{:?}", end.records())) }
                },
            )
            .unwrap();
        }
    }
    println!("{orders} orders: {done} done, {late} late");
    assert!(done > 0 && late > 0, "{done} done, {late} late");
}

#[test]
fn s39_cancellation_at_any_moment_leaves_nothing_behind() {
    let mut orders = 0;
    for mode in [Mode::empty(), Mode::COLLECT] {
        for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
            let build = || {
                let mut world = world(members_of(shape), homes, shape, mode, |_| {});
                let handle = world.made[0].handle;
                world.cancel_after(Lapse(0), Node(0), handle);
                world
            };
            orders += every_order(Clock::Last, build, |_| Ok(())).unwrap();
        }
    }
    println!("{orders} orders: all given up");
    assert!(orders > 0);
}
