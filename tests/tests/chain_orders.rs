//! Every order of what can happen in small calls.
//!
//! That includes one failure at every member and stage. Deaths, deadlines and cancellations at any moment are those of calls
//! of three members, and of four in a chain; of four in all trees where `UMBRA_CHAIN_SCHEDULES` asks for more schedules
//! than a test takes (over 3000).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_core::chain::{Code, Mode, Node, Plan, Stage};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::chain::explore::{Clock, every_order};
use umbra_tests::chain::{Act, Planned, SUM, World, sum_over};

const SHAPES: [Shape; 4] = [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN];
/// Who of up to four members lives at whose machine.
const HOMES: [[u32; 4]; 4] = [[0, 1, 2, 3], [0, 0, 2, 2], [0, 1, 1, 1], [0, 0, 0, 0]];

/// How many members have calls to which something happens at any moment.
fn members_of(shape: Shape) -> u32 {
    let schedules = std::env::var("UMBRA_CHAIN_SCHEDULES").map_or(0, |text| text.parse().unwrap());
    if shape == Shape::CHAIN || schedules > 3000_u64 { 4 } else { 3 }
}

fn planned(members: u32, shape: Shape, mode: Mode) -> Planned {
    let mut planned = sum_over(0..members);
    (planned.call.plan, planned.call.mode) = (Plan::Shape(shape), mode);
    planned
}

fn world(members: u32, homes: [u32; 4], shape: Shape, mode: Mode, change: impl Fn(&mut World)) -> World {
    let mut world = World::new(members, 1);
    world.network.reorder = true;
    for head in 0..members {
        world.house((head..members).filter(|&member| homes[member as usize] == head));
    }
    change(&mut world);
    world.start(&planned(members, shape, mode)).unwrap();
    world
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

#[test]
fn g8_a_failure_at_any_member_and_stage_is_named_in_every_order() {
    let acts = [(Act::Fault(42), Stage::Func, Code::Fault), (Act::Panic, Stage::Func, Code::Panic)];
    let acts = acts
        .into_iter()
        .chain([(Act::Excess, Stage::Reply, Code::ReplyTooLarge), (Act::Hang, Stage::Func, Code::Timeout)]);
    for (act, stage, code) in acts {
        for shape in SHAPES {
            for mode in [Mode::empty(), Mode::COLLECT, Mode::COLLECT | Mode::CANCEL_ON_FAIL, Mode::CUT_THROUGH] {
                for (bad, homes) in (0..4).flat_map(|bad| HOMES.map(|homes| (Node(bad), homes))) {
                    let change = |world: &mut World| _ = world.script.functions.insert(bad, act);
                    let build = || world(4, homes, shape, mode, change);
                    every_order(Clock::Last, build, |world| {
                        let records = world.made[0].end.as_ref().unwrap().0.records();
                        let named = records
                            .iter()
                            .any(|record| (record.origin, record.stage, record.code) == (bad, stage, code));
                        if named { Ok(()) } else { Err(format!("{act:?} at {bad} in {shape:?} {mode:?}: {records:?}")) }
                    })
                    .unwrap();
                }
            }
        }
    }
}

#[test]
fn g8_a_callback_that_fails_is_named_in_every_order() {
    let ways = [(Mode::empty(), Act::Fault(7)), (Mode::COLLECT, Act::Fault(7)), (Mode::COLLECT, Act::Hang)];
    for (mode, act) in ways {
        for shape in SHAPES {
            for (child, homes) in (1..4).flat_map(|child| HOMES.map(|homes| (child, homes))) {
                let parent = Node(shape.parent(child).unwrap());
                let change = |world: &mut World| {
                    world.script.callbacks.insert((parent, Node(child)), act);
                };
                every_order(
                    Clock::Last,
                    || world(4, homes, shape, mode, change),
                    |world| {
                        let [record] = world.made[0].end.as_ref().unwrap().0.records() else {
                            return Err("not one record".to_owned());
                        };
                        let named = (record.origin, record.stage, record.aux) == (parent, Stage::Callback, child);
                        if named { Ok(()) } else { Err(record.to_string()) }
                    },
                )
                .unwrap();
            }
        }
    }
}

/// Runs a bad call of four in every order, however failures are reported; `change` has it fail so at a member.
fn fails_at(
    shape: Shape,
    homes: [u32; 4],
    change: impl Fn(&mut World),
    expected: (Node, Stage, Code),
    depth: u8,
    taken: u32,
) {
    for mode in [Mode::empty(), Mode::COLLECT, Mode::COLLECT | Mode::CANCEL_ON_FAIL, Mode::CUT_THROUGH] {
        every_order(
            Clock::Last,
            || world(4, homes, shape, mode, &change),
            |world| {
                let [record] = world.made[0].end.as_ref().unwrap().0.records() else {
                    return Err("not one record".to_owned());
                };
                let named = (record.origin, record.stage, record.code);
                let right = (named, record.depth, record.count) == (expected, depth, taken);
                if right { Ok(()) } else { Err(format!("{record:?} in {shape:?} {mode:?}")) }
            },
        )
        .unwrap();
    }
}

/// How deep a position of a tree of four is, and how many members are below and with it.
fn place(shape: Shape, at: u32) -> (u8, u32) {
    let depth = |at: u32| std::iter::successors(Some(at), |&at| shape.parent(at)).count() as u8 - 1;
    let is_below = |&other: &u32| std::iter::successors(Some(other), |&at| shape.parent(at)).any(|above| above == at);
    (depth(at), (0..4).filter(is_below).count() as u32)
}

#[test]
fn g8_a_member_without_the_function_is_named_in_every_order() {
    for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
        for bad in 1..4_u32 {
            // Whoever lives with the member above takes its part in the function that this one has.
            let home = homes[bad as usize];
            if home != bad || homes.iter().filter(|&&other| other == home).count() > 1 {
                continue;
            }
            let (depth, taken) = place(shape, bad);
            let change = |world: &mut World| _ = world.at(Node(bad)).unregister(SUM);
            fails_at(shape, homes, change, (Node(bad), Stage::Setup, Code::UnknownFunc), depth, taken);
        }
    }
}

#[test]
fn g8_a_member_that_no_request_reaches_is_named_in_every_order() {
    for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
        for bad in 1..4_u32 {
            let parent = shape.parent(bad).unwrap();
            if homes[parent as usize] == homes[bad as usize] {
                continue;
            }
            let (depth, taken) = place(shape, bad);
            let edge = Some((Node(parent), Node(bad)));
            let refuses = |world: &mut World| world.refuses = edge;
            fails_at(shape, homes, refuses, (Node(bad), Stage::Forward, Code::Transport), depth - 1, taken);
            let full = |world: &mut World| world.full = edge;
            fails_at(shape, homes, full, (Node(bad), Stage::Forward, Code::NoResource), depth - 1, taken);
        }
    }
}

#[test]
fn s35_a_death_at_any_moment_leaves_nothing_behind() {
    let (mut done, mut died) = (0, 0);
    for mode in [Mode::empty(), Mode::COLLECT] {
        for shape in SHAPES {
            let members = members_of(shape);
            for (victim, homes) in (0..members).flat_map(|victim| HOMES.map(|homes| (Node(victim), homes))) {
                let change = |world: &mut World| world.kill_after(Lapse(0), victim);
                every_order(
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
    let (mut done, mut late) = (0, 0);
    for mode in [Mode::empty(), Mode::COLLECT] {
        for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
            every_order(
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
    assert!(done > 0 && late > 0, "{done} done, {late} late");
}

#[test]
fn s39_cancellation_at_any_moment_leaves_nothing_behind() {
    for mode in [Mode::empty(), Mode::COLLECT] {
        for (shape, homes) in SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes))) {
            let build = || {
                let mut world = world(members_of(shape), homes, shape, mode, |_| {});
                let handle = world.made[0].handle;
                world.cancel_after(Lapse(0), Node(0), handle);
                world
            };
            every_order(Clock::Last, build, |_| Ok(())).unwrap();
        }
    }
}
