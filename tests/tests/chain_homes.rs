//! Members that share a machine: the usual calls, without messages.
//!
//! The calls are the same as between members that live apart.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{
    Action, Call, Caps, Code, Config, FAILURE, Life, Machine, Mode, Node, Outcome, Phase, Plan, REQUEST, RESPONSE,
    Stage, Tag, Verdict, Work,
};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::ROOT;
use umbra_tests::chain::check::{failed, origins, tallies};
use umbra_tests::chain::{Act, Planned, SUM, World, sum_over};

const SHAPES: [Shape; 4] = [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN];

/// So many members at one machine, which has places for so many calls.
fn household(members: u32, calls: u16) -> World {
    let capacities = Capacities { calls, call_bytes: 16 << 10, ..Capacities::new(members) };
    let config = Config { classes: 0, ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, capacities, config);
    world.house(0..members);
    world
}

#[test]
fn d48_members_at_one_machine_need_no_message() {
    for shape in SHAPES {
        let mut world = household(64, 64);
        let mut planned = sum_over(0..64);
        planned.call.plan = Plan::Shape(shape);
        assert_eq!(world.call(&planned).sum(), Some(64 * 63 / 2), "{shape:?}");
        assert_eq!((world.messages, world.figures().at_home), (0, 63), "{shape:?}");
    }
}

#[test]
fn what_a_household_runs_in_one_go_is_what_it_runs_one_by_one() {
    for (shape, callback) in SHAPES.into_iter().flat_map(|shape| [(shape, SUM), (shape, Tag::NONE)]) {
        let mut machine = Capacities { calls: 200, ..Capacities::new(200) }
            .machine(Config { classes: 0, ..Config::new(Node(0), Life(1)) })
            .unwrap();
        machine.register(SUM).unwrap();
        (1..200).for_each(|node| machine.house(Node(node)).unwrap());
        // Of the last one's work it is seen that it waits.
        for waits in [false, true] {
            let members: Vec<Node> = (0..200).map(Node).collect();
            let caps = Caps { header: 0, data: if callback == SUM { 8 } else { 0 } };
            let call = Call { callback, caps, plan: Plan::Shape(shape), ..Call::new(SUM, &members) };
            let call = machine.start(&call, Time(1)).unwrap();
            let (mut began, mut combined, mut buffer) = (Vec::new(), 0, [0; 4096]);
            while let Some(action) = machine.poll(Time(1), &mut buffer) {
                let Action::Run { handle, .. } = action else { continue };
                let user = |_, work: &mut Work<'_>| {
                    let number = u64::from(work.node.0).to_le_bytes();
                    match work.phase {
                        Phase::Init => began.push((work.node, work.parent)),
                        Phase::Probe => {}
                        Phase::Wait(_) => combined += 1,
                    }
                    if work.phase == Phase::Init && waits && work.node == Node(199) {
                        return Verdict::Pending;
                    }
                    let total = match work.phase {
                        Phase::Wait(answer) => {
                            let [ours, theirs] = [work.reply.data(), answer.data].map(|it| it.try_into().unwrap());
                            u64::from_le_bytes(ours) + u64::from_le_bytes(theirs)
                        }
                        _ => u64::from_le_bytes(number),
                    };
                    let _ = callback == SUM && work.reply.set_data(&total.to_le_bytes()).is_ok();
                    Verdict::Done
                };
                let (known, verdict) = machine.run_on(handle, user).unwrap();
                if verdict == Verdict::Pending {
                    assert!(machine.is_pending(known));
                    machine.wake(known).unwrap();
                }
            }
            let outcome = machine.outcome(call).unwrap().unwrap();
            let Outcome::Done { members: 200, data, .. } = outcome else { panic!("{outcome:?} of {shape:?}") };
            let sum = u64::to_le_bytes(200 * 199 / 2);
            assert_eq!(data, if callback == SUM { &sum[..] } else { &[] });
            assert_eq!(combined, if callback == SUM { 199 } else { 0 }, "{shape:?}");
            began.sort_unstable();
            let parents: Vec<_> = members.iter().map(|node| (*node, shape.parent(node.0).map(Node))).collect();
            assert_eq!(began, parents, "{shape:?}");
            machine.release(call).unwrap();
            assert!(machine.poll(Time(1), &mut buffer).is_none() && machine.is_empty());
        }
    }
}

/// A machine that houses so many members, all of which sum.
fn home_of(members: u32) -> Machine<Heap> {
    let config = Config { classes: 0, ..Config::new(Node(0), Life(1)) };
    let mut machine = Capacities { calls: 16, ..Capacities::new(members) }.machine(config).unwrap();
    machine.register(SUM).unwrap();
    (1..members).for_each(|node| machine.house(Node(node)).unwrap());
    machine
}

#[test]
fn a_call_given_up_and_released_between_two_runs_keeps_nobody_waiting() {
    for mode in [Mode::empty(), Mode::COLLECT] {
        let mut machine = home_of(300);
        let members: Vec<Node> = (0..300).map(Node).collect();
        let call = Call { mode, ..Call::new(SUM, &members) };
        let [first, second] = [(); 2].map(|()| machine.start(&call, Time(1)).unwrap());
        let (mut ended, mut buffer) = (Vec::new(), [0; 4096]);
        let mut given_up = false;
        while let Some(action) = machine.poll(Time(1), &mut buffer) {
            match action {
                Action::Run { handle, .. } => {
                    machine.run_on(handle, |_, _| Verdict::Done).unwrap();
                    if handle == first && !given_up {
                        // More members are left than run in one go.
                        machine.cancel(first).unwrap();
                        machine.release(first).unwrap();
                        given_up = true;
                    }
                }
                Action::Ended { handle } => ended.push(handle),
                Action::Send { .. } => panic!("all live here"),
            }
        }
        assert_eq!((given_up, &ended[..]), (true, &[second][..]), "{mode:?}");
        machine.release(second).unwrap();
        assert!(machine.poll(Time(1), &mut buffer).is_none() && machine.is_empty());
    }
}

#[test]
fn nobody_runs_in_one_go_with_a_function_that_was_pending() {
    for was_pending in [false, true] {
        let mut machine = home_of(8);
        let members: Vec<Node> = (0..8).map(Node).collect();
        machine.start(&Call::new(SUM, &members), Time(1)).unwrap();
        let (mut runs, mut buffer) = (Vec::new(), [0; 4096]);
        while let Some(action) = machine.poll(Time(1), &mut buffer) {
            let Action::Run { handle, .. } = action else { continue };
            let mut together = 0;
            let user = |_, work: &mut Work<'_>| {
                together += 1;
                if was_pending && work.phase == Phase::Init && work.parent.is_none() {
                    Verdict::Pending
                } else {
                    Verdict::Done
                }
            };
            if machine.run_on(handle, user).unwrap().1 == Verdict::Pending {
                machine.wake(handle).unwrap();
            }
            runs.push(together);
        }
        assert_eq!(runs, if was_pending { vec![1, 1, 7] } else { vec![8] });
    }
}

#[test]
fn c23_what_had_not_begun_at_home_when_a_function_failed_is_not_reached() {
    for shape in SHAPES {
        let order: Vec<u32> = shape.preorder(31).collect();
        for bad in 1..31 {
            let mut world = household(31, 31);
            world.script.functions.insert(Node(bad), Act::Fault(7));
            let mut planned = sum_over(0..31);
            planned.call.plan = Plan::Shape(shape);
            let end = world.call(&planned);
            let (account, records) = failed(&end);
            assert_eq!(origins(records), [(bad, Stage::Func, Code::Fault)]);
            let before = order.iter().position(|&at| at == bad).unwrap() as u32;
            assert_eq!(account, tallies(before, 1, 30 - before, 0), "{bad} in {shape:?}");
        }
    }
}

#[test]
fn a_household_goes_to_the_depth_so_few_places_do_for_many_members() {
    // A binary tree of a thousand members has ten levels.
    let mut world = household(1000, 10);
    assert_eq!(world.call(&sum_over(0..1000)).sum(), Some(1000 * 999 / 2));
    assert_eq!(world.figures().busy, 0);
    // Functions that wait keep their places meanwhile, so the others come later.
    let mut world = household(64, 10);
    for member in 0..64 {
        world.script.functions.insert(Node(member), Act::Slow(Lapse::from_micros(100)));
    }
    let mut planned = sum_over(0..64);
    planned.call.plan = Plan::Shape(Shape::FLAT);
    assert_eq!(world.call(&planned).sum(), Some(64 * 63 / 2));
    assert!(world.figures().busy > 0);
}

#[test]
fn s65_three_messages_down_and_three_up_reach_four_machines() {
    let mut world = World::new(64, 1);
    let mut parents = Vec::new();
    for member in 0..64_u32 {
        let head = member / 16 * 16;
        let (place, base) = (member - head, head);
        parents.push(match (member, place) {
            (0, _) => umbra_core::tree::explicit::ROOT,
            (_, 0) => 0,
            _ => base + (place - 1) / 2,
        });
    }
    for head in (0..64).step_by(16) {
        world.house(head..head + 16);
    }
    let planned = Planned { parents: Some(parents), ..sum_over(0..64) };
    assert_eq!(world.call(&planned).sum(), Some(64 * 63 / 2));
    let figures = world.figures();
    assert_eq!((world.messages, figures.requests, figures.responses, figures.at_home), (6, 3, 3, 60));
    // A request carries the ids and sizes of 16 members, an answer eight bytes.
    let bytes = (figures.request_bytes, figures.response_bytes);
    assert_eq!(bytes, (3 * (REQUEST as u64 + 16 * 8), 3 * (RESPONSE as u64 + 8)));
}

#[test]
fn b22_a_request_that_lists_a_member_at_home_twice_runs_nothing() {
    let world = || {
        let mut world = World::new(4, 1);
        world.house(1..3);
        world.spy = true;
        world
    };
    let mut honest = world();
    let mut planned = sum_over(0..4);
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    assert_eq!(honest.call(&planned).sum(), Some(6));
    let request = honest.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().1.clone();
    for (list, double) in [([1, 2, 2], 2), ([1, 1, 3], 1), ([1, 2, 1], 1)] {
        let mut forged = request.clone();
        for (place, id) in forged[REQUEST..].as_chunks_mut::<4>().0.iter_mut().zip(list) {
            *place = u32::to_le_bytes(id);
        }
        let mut world = world();
        let (now, mut buffer) = (world.now(), [0; 4096]);
        let machine = world.at(Node(1));
        machine.on_message(Node(0), Node(1), &forged, now).unwrap();
        let answer = machine.poll(now, &mut buffer);
        assert!(matches!(answer, Some(Action::Send { to: Node(0), .. })), "{answer:?} for {list:?}");
        let record = &buffer[FAILURE..FAILURE + 16];
        let expected = [1, 0, 0, 0, Stage::Setup as u8, Code::DuplicateId as u8];
        assert_eq!((&record[..6], &record[8..12]), (&expected[..], &u32::to_le_bytes(double)[..]), "{list:?}");
        assert!(machine.poll(now, &mut buffer).is_none() && machine.is_empty());
    }
}

#[test]
fn b22_a_member_at_home_that_two_requests_of_a_call_name_does_its_part_once() {
    let mut world = World::new(5, 1);
    world.house(1..4);
    world.spy = true;
    let mut planned = sum_over(0..3);
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    assert_eq!(world.call(&planned).sum(), Some(3));
    let (to, request) = world.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().clone();
    assert_eq!(to, Node(1));
    let mut world = World::new(5, 1);
    world.house(1..4);
    let (now, mut buffer) = (world.now(), [0; 4096]);
    let machine = world.at(Node(1));
    let mut forge = |machine: &mut Machine<_>, list: [u32; 2]| {
        let mut forged = request.clone();
        for (place, id) in forged[REQUEST..].as_chunks_mut::<4>().0.iter_mut().zip(list) {
            *place = u32::to_le_bytes(id);
        }
        machine.on_message(Node(0), Node(list[0]), &forged, now).unwrap();
        let (mut ran, mut answers) = (Vec::new(), Vec::new());
        while let Some(action) = machine.poll(now, &mut buffer) {
            match action {
                Action::Run { handle, .. } => {
                    let node = machine.work(handle).unwrap().node.0;
                    ran.push(node);
                    // 3 is still at it when the next request comes.
                    let verdict = if node == 3 { Verdict::Pending } else { Verdict::Done };
                    machine.finish(handle, verdict).unwrap();
                }
                Action::Send { from, .. } => {
                    let (origin, code) = (buffer[FAILURE], buffer[FAILURE + 5]);
                    answers.push((from.0, u32::from(origin), code));
                }
                Action::Ended { .. } => {}
            }
        }
        (ran, answers)
    };
    let twice = Code::SecondParent as u8;
    assert_eq!(forge(machine, [1, 3]), (vec![1, 3], vec![]));
    assert_eq!(forge(machine, [2, 3]), (vec![2], vec![(2, 3, twice)]), "3 is at it, below 1");
    assert_eq!(forge(machine, [3, 2]), (vec![], vec![(3, 3, twice)]), "3 is asked itself");
}

#[test]
fn c20_a_failure_at_home_names_its_origin() {
    for (act, stage, code) in [
        (Act::Fault(42), Stage::Func, Code::Fault),
        (Act::Panic, Stage::Func, Code::Panic),
        (Act::Excess, Stage::Reply, Code::ReplyTooLarge),
    ] {
        let mut world = household(15, 15);
        world.script.functions.insert(Node(5), act);
        let end = world.call(&sum_over(0..15));
        assert_eq!(origins(failed(&end).1), [(5, stage, code)], "{act:?}");
        // All that come before 5 in the order of the tree were dealt with, and nobody else.
        assert_eq!(end.unreached(), [6, 11, 12, 13, 14], "{act:?}");
    }
    let mut world = household(15, 15);
    for bad in [3, 5, 14] {
        world.script.functions.insert(Node(bad), Act::Fault(1));
    }
    let mut planned = sum_over(0..15);
    planned.call.mode = Mode::COLLECT;
    let end = world.call(&planned);
    let (account, records) = failed(&end);
    assert_eq!(account, tallies(8, 3, 4, 0));
    let mut origins: Vec<u32> = records.iter().map(|record| record.origin.0).collect();
    origins.sort_unstable();
    assert_eq!((origins, end.unreached()), (vec![3, 5, 14], vec![7, 8, 11, 12]));
}

#[test]
fn d33_whoever_hangs_at_home_is_named_and_not_those_above() {
    for shape in SHAPES {
        for hangs in 0..31 {
            let mut world = household(31, 31);
            world.script.functions.insert(Node(hangs), Act::Hang);
            let mut planned = sum_over(0..31);
            planned.call.plan = Plan::Shape(shape);
            let end = world.call(&planned);
            let (account, records) = failed(&end);
            assert_eq!(origins(records), [(hangs, Stage::Func, Code::Timeout)], "{hangs} in {shape:?}");
            let unreached: Vec<u32> = (0..31).filter(|&at| !world.began.keys().any(|key| key.1 == Node(at))).collect();
            assert!(end.unreached().len() <= account.unreached as usize);
            assert_eq!(end.unreached(), unreached, "{hangs} in {shape:?}");
        }
    }
}

#[test]
fn d33_several_that_hang_at_home_are_all_named_if_failures_are_collected() {
    let mut world = household(31, 31);
    for hangs in [7, 10, 30] {
        world.script.functions.insert(Node(hangs), Act::Hang);
    }
    let mut planned = sum_over(0..31);
    planned.call.mode = Mode::COLLECT;
    let end = world.call(&planned);
    let (account, records) = failed(&end);
    let mut named = origins(records);
    named.sort_unstable_by_key(|&(origin, ..)| origin);
    assert_eq!(named, [7, 10, 30].map(|hangs| (hangs, Stage::Func, Code::Timeout)));
    // Those below 7 and 10 were not reached, and those above all three did their own part well.
    assert_eq!(account, tallies(24, 3, 4, 0));
}

#[test]
fn d40_a_failure_stops_those_at_home_that_have_not_begun() {
    let mut world = household(202, 202);
    // One goes on with its function while the other fails; what is below the first has not begun then.
    world.script.functions.insert(Node(2), Act::Fault(1));
    for slow in (1..202).filter(|&member| member != 2) {
        world.script.functions.insert(Node(slow), Act::Slow(Lapse::from_millis(100)));
    }
    let mut planned = sum_over(0..202);
    planned.call.mode = Mode::COLLECT | Mode::CANCEL_ON_FAIL;
    planned.call.budget = Lapse::from_secs(2);
    let end = world.call(&planned);
    let (account, records) = failed(&end);
    assert_eq!(origins(records), [(2, Stage::Func, Code::Fault)]);
    assert!(account.unreached > 190, "{account}");
}

#[test]
fn d40_a_call_that_was_stopped_while_one_ran_begins_no_other_though_that_one_is_pending() {
    let config = Config { classes: 0, ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { call_bytes: 16 << 10, ..Capacities::new(12) }, config);
    world.house(2..12);
    (world.network.delay, world.network.work) = (Lapse::from_micros(10), Lapse::from_micros(100));
    world.script.functions.insert(Node(1), Act::Fault(1));
    // 3 is the first below 2, and runs while that is told to stop.
    world.script.functions.insert(Node(3), Act::Slow(Lapse::from_micros(300)));
    let mut planned = sum_over(0..12);
    planned.call.mode = Mode::COLLECT | Mode::CANCEL_ON_FAIL;
    planned.parents = Some((0..12).map(|at: u32| if at == 0 { ROOT } else { u32::from(at > 2) * 2 }).collect());
    let end = world.call(&planned);
    let (account, records) = failed(&end);
    assert_eq!(origins(records), [(1, Stage::Func, Code::Fault)]);
    assert_eq!(account, tallies(3, 1, 8, 0));
    assert!(!world.began.keys().any(|key| key.1.0 > 3), "{:?}", world.began);
}

#[test]
fn a_member_that_ends_before_it_is_told_to_stop_is_heard_by_its_parent_at_home() {
    let machine = |members: &[u32]| {
        let config = Config { classes: 0, ..Config::new(Node(members[0]), Life(1)) };
        let mut machine = Capacities { calls: 16, ..Capacities::new(5) }.machine(config).unwrap();
        machine.register(SUM).unwrap();
        members[1..].iter().for_each(|&node| machine.house(Node(node)).unwrap());
        machine
    };
    // Does what is due at a machine; messages wait where they go.
    let go = |machines: &mut [Machine<Heap>; 3], at: usize| {
        let mut buffer = [0; 4096];
        while let Some(action) = machines[at].poll(Time(1), &mut buffer) {
            match action {
                Action::Send { from, to, len_bytes } => {
                    let home = [0, 0, 0, 1, 2][to.index()];
                    machines[home].on_message(from, to, &buffer[..len_bytes], Time(1)).unwrap();
                }
                Action::Run { handle, .. } => {
                    let node = machines[at].work(handle).unwrap().node;
                    let verdict = if node == Node(3) { Verdict::Fault(1) } else { Verdict::Done };
                    machines[at].finish(handle, verdict).unwrap();
                }
                Action::Ended { .. } => {}
            }
        }
    };
    for order in [[1, 2], [2, 1]] {
        // 1 and 2 live with their parent 0, and each has a child elsewhere, of which 3 fails.
        let mut machines = [machine(&[0, 1, 2]), machine(&[3]), machine(&[4])];
        let members: Vec<Node> = (0..5).map(Node).collect();
        let plan = Plan::Parents(&[ROOT, 0, 0, 1, 2]);
        let call = Call { plan, mode: Mode::COLLECT | Mode::CANCEL_ON_FAIL, ..Call::new(SUM, &members) };
        let call = machines[0].start(&call, Time(1)).unwrap();
        go(&mut machines, 0);
        // Both answers come before anything is done about one of them.
        order.into_iter().for_each(|at| go(&mut machines, at));
        go(&mut machines, 0);
        let outcome = machines[0].outcome(call).unwrap().expect("all were heard");
        let Outcome::Failed(report) = outcome else { panic!("{outcome:?}") };
        assert_eq!(report.tallies, tallies(4, 1, 0, 0), "{order:?}");
    }
}
