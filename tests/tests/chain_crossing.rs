//! Calls that cross: bounded places, and no circle of waits.
//!
//! Numbers are as in the list of scenarios. `UMBRA_CHAIN_ROUNDS` is how often everybody calls everybody (default 50,
//! rounded up to a multiple of that; the full form takes 1000).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{Code, Config, Life, Mode, Node, Stage};
use umbra_core::time::Lapse;
use umbra_tests::chain::{Act, Planned, RARE, World, sum_over};

fn world(members: u32, seed: u64, calls: u16, classes: u8) -> World {
    let capacities = Capacities { calls, call_bytes: 4096, ..Capacities::new(members) };
    let mut world = World::with(seed, capacities, Config { classes, ..Config::new(Node(0), Life(1)) });
    world.network.jitter = Lapse::from_micros(20);
    world.network.work = Lapse::from_micros(5);
    world
}

/// Every member makes a call over all, at the same time; what became of them.
fn all_at_once(world: &mut World, members: u32) -> Vec<Option<u64>> {
    let before = world.made.len();
    for root in (0..members).map(Node) {
        let planned = Planned { root, ..sum_over(0..members) };
        world.start_after(Lapse(0), planned);
    }
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    world.made[before..].iter().map(|made| made.end.as_ref().unwrap().0.sum()).collect()
}

#[test]
fn s47_calls_of_all_members_cross_and_end() {
    const ROUNDS: u64 = 50;
    let rounds: u64 = std::env::var("UMBRA_CHAIN_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    // Places for all calls of all members, and one place a depth.
    for (seed, (calls, classes)) in (0..rounds.div_ceil(ROUNDS)).flat_map(|seed| [(seed, (16, 0)), (seed, (8, 8))]) {
        let mut world = world(16, 1 + seed, calls, classes);
        for round in 0..ROUNDS {
            let sums = all_at_once(&mut world, 16);
            assert_eq!(sums, vec![Some(120); 16], "round {round} of seed {seed}");
        }
        assert_eq!(world.began.len() as u64, 16 * 16 * ROUNDS);
        assert_eq!(world.figures().busy == 0, classes == 0, "enough places refuse nobody");
    }
    println!("16 members, each with each: {} rounds: all sums are right", rounds.div_ceil(ROUNDS) * ROUNDS);
}

#[test]
fn s56_thousands_of_calls_one_after_the_other_need_no_more_places_than_one() {
    let mut world = world(4, 1, 4, 4);
    world.network.jitter = Lapse(0);
    for call in 0..3000 {
        let at = world.start(&Planned { root: Node(call % 4), ..sum_over(0..4) }).unwrap();
        world.run(Lapse::from_secs(1));
        assert_eq!(world.made[at].end.as_ref().unwrap().0.sum(), Some(6));
    }
    world.check().unwrap();
}

#[test]
fn s48_answers_of_32_calls_of_one_maker_are_not_mixed() {
    let mut world = world(8, 1, 64, 0);
    let at: Vec<usize> = (0..32u8)
        .map(|number| {
            let mut planned = sum_over(0..8);
            // Every function adds the number in the header.
            planned.call.header = std::slice::from_ref(Box::leak(Box::new(number)));
            world.start(&planned).unwrap()
        })
        .collect();
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    for (number, made) in at.into_iter().enumerate() {
        assert_eq!(world.made[made].end.as_ref().unwrap().0.sum(), Some(28 + 8 * number as u64));
    }
}

/// Three members that call each other crosswise, with few places.
fn opposite(world: &mut World) -> usize {
    let mut well = 0;
    for list in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
        let mut planned = sum_over(list);
        planned.call.budget = Lapse::from_millis(100);
        world.start_after(Lapse(0), planned);
    }
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    for made in &world.made {
        let end = &made.end.as_ref().unwrap().0;
        match end.records() {
            [] => well += 1,
            [record, ..] => {
                assert!(matches!(record.code, Code::NoResource | Code::Timeout), "{record}");
                assert_eq!(record.stage, Stage::Forward, "{record}");
            }
        }
    }
    well
}

#[test]
fn s49_g9_places_by_depth_end_what_one_pool_deadlocks() {
    assert_eq!(opposite(&mut world(3, 1, 2, 2)), 3, "a place a depth");
    assert_eq!(
        opposite(&mut world(3, 1, 1, 0)),
        0,
        "one place for all: everybody waits for everybody, until the deadline"
    );
}

#[test]
fn s50_good_calls_do_not_suffer_from_bad_ones() {
    let mut world = world(8, 1, 16, 0);
    world.script.functions.insert(Node(5), Act::Fault(9));
    world.script.only = Some((Node(3), 1));
    let sums = all_at_once(&mut world, 8);
    let expected: Vec<_> = (0..8).map(|root| (root != 3).then_some(28)).collect();
    assert_eq!(sums, expected);
    let record = world.made[3].end.as_ref().unwrap().0.records()[0];
    assert_eq!((record.origin, record.aux), (Node(5), 9));
}

/// Each third of 24 calls of eight members fails at a random member and step.
#[test]
fn s50_good_calls_do_not_suffer_from_many_that_fail_anywhere() {
    for seed in 0..100 {
        let mut random = umbra::sim::Random::new(seed);
        let mut world = world(8, seed, 64, 0);
        let lacking = Node(random.below(8) as u32);
        world.at(lacking).unregister(RARE);
        let mut expected = Vec::new();
        for number in 0..24 {
            let root = Node(number % 8);
            let mut planned = Planned { root, ..sum_over(0..8) };
            let call = (root, u64::from(number / 8) + 1);
            let (bad, other) = (Node(random.below(8) as u32), Node(random.below(8) as u32));
            expected.push(match (number % 3, random.below(5)) {
                (1 | 2, _) => None,
                (_, 0) if lacking != root => {
                    planned.call.func = RARE;
                    Some((lacking, Stage::Setup, Code::UnknownFunc))
                }
                (_, 1) => {
                    world.script.once.insert(call, (bad, None, Act::Panic));
                    Some((bad, Stage::Func, Code::Panic))
                }
                (_, 2) => {
                    world.script.once.insert(call, (bad, None, Act::Excess));
                    Some((bad, Stage::Reply, Code::ReplyTooLarge))
                }
                // The callback of whoever makes the call, for its first child in the tree.
                (_, 3) if other != root => {
                    let child = Node(u32::from(root == Node(0)));
                    world.script.once.insert(call, (root, Some(child), Act::Fault(3)));
                    Some((root, Stage::Callback, Code::Fault))
                }
                _ => {
                    world.script.once.insert(call, (bad, None, Act::Fault(9)));
                    Some((bad, Stage::Func, Code::Fault))
                }
            });
            world.start_after(Lapse::from_micros(u64::from(number / 8)), planned);
        }
        world.run(Lapse::from_secs(10));
        world.check().unwrap_or_else(|wrong| panic!("{wrong}, seed {seed}"));
        assert_eq!(world.made.len(), 24);
        for made in &world.made {
            let end = &made.end.as_ref().unwrap().0;
            let number = made.id.root.0 as usize + 8 * (made.id.seq as usize - 1);
            let named = end.records().first().map(|record| (record.origin, record.stage, record.code));
            assert_eq!(named, expected[number], "call {} of {}, seed {seed}", made.id.seq, made.id.root);
            assert!(named.is_some() || end.sum() == Some(28), "{end:?}, seed {seed}");
        }
    }
}

#[test]
fn s53_a_full_table_refuses_and_gives_credit_and_all_calls_end() {
    // 40 makers call one member with four places.
    let mut world = world(41, 1, 64, 2);
    world.replace(Node(40), Capacities { calls: 4, call_bytes: 4096, ..Capacities::new(41) });
    world.script.functions.insert(Node(40), Act::Slow(Lapse::from_micros(100)));
    for root in (0..40).map(Node) {
        world.start_after(Lapse(0), Planned { root, ..sum_over([root.0, 40]) });
    }
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    for made in &world.made {
        assert_eq!(made.end.as_ref().unwrap().0.sum(), Some(u64::from(made.plan.root.0) + 40));
    }
    let figures = world.figures();
    assert!(figures.busy >= 30 && figures.credits > 0, "{figures:?}");
    // One of the four is kept for calls of its own.
    assert_eq!(world.most[&Node(40)], 3);
}

/// As many makers as there are members but the last call that one, which has one place for them.
fn queue_up(world: &mut World, members: u32, budgets: impl Fn(u32) -> Lapse) -> Node {
    let last = Node(members - 1);
    world.replace(last, Capacities { calls: 2, call_bytes: 4096, ..Capacities::new(members) });
    for root in 0..members - 1 {
        // One after the other, and all before the first is done.
        let mut planned = Planned { root: Node(root), ..sum_over([root, last.0]) };
        planned.call.budget = budgets(root);
        world.start_after(Lapse::from_micros(u64::from(root)), planned);
    }
    last
}

/// When each call ended, in the order in which they were made; 0 for those that have not.
fn ends(world: &World) -> Vec<u64> {
    let at = |made: &umbra_tests::chain::Made| made.end.as_ref().map_or(0, |(_, at)| at.0);
    world.made.iter().map(at).collect()
}

#[test]
fn s53_whoever_finds_no_place_has_his_turn_in_the_order_of_asking() {
    let mut world = world(20, 1, 8, 2);
    world.network = umbra_tests::chain::Network::GOOD;
    let last = queue_up(&mut world, 20, |_| Lapse::from_secs(1));
    // Longer than whoever was refused waits before he asks again.
    world.script.functions.insert(last, Act::Slow(Lapse::from_millis(3)));
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    let ends = ends(&world);
    assert!(world.made.iter().all(|made| made.end.as_ref().unwrap().0.sum().is_some()));
    assert!(ends.is_sorted(), "{ends:?}");
    // A place is never left idle for longer than it takes to fill it.
    assert!(ends[18] - ends[0] < 18 * Lapse::from_micros(3010).0, "{ends:?}");
    assert_eq!(world.figures().credits, 18, "one for each who was refused");
}

#[test]
fn s53_a_place_is_not_kept_for_those_who_died_or_do_not_come() {
    let mut world = world(20, 1, 8, 2);
    world.network = umbra_tests::chain::Network::GOOD;
    let last = queue_up(&mut world, 20, |root| if root == 3 { Lapse::from_millis(2) } else { Lapse::from_secs(1) });
    world.script.functions.insert(last, Act::Slow(Lapse::from_millis(3)));
    // The next in line dies, the one after it gives its call up, and the time of the third is over before its turn.
    world.kill_after(Lapse::from_micros(500), Node(1));
    world.run(Lapse::from_micros(600));
    let (node, handle) = (world.made[2].plan.root, world.made[2].handle);
    world.at(node).cancel(handle).unwrap();
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    let well = |made: &umbra_tests::chain::Made| made.end.as_ref().is_some_and(|(end, _)| end.sum().is_some());
    assert_eq!(world.made.iter().filter(|made| well(made)).count(), 16);
    let ends = ends(&world);
    assert!(ends[4..].is_sorted(), "{ends:?}");
    // Half a millisecond times four for the one who does not come and has told nobody.
    let idle = ends[4] - ends[0];
    assert!((Lapse::from_millis(5).0..Lapse::from_micros(5100).0).contains(&idle), "{ends:?}");
}

#[test]
fn s54_a_place_that_is_held_for_ever_starves_until_the_deadline_and_is_named() {
    let mut world = world(3, 1, 8, 0);
    world.replace(Node(2), Capacities { calls: 1, call_bytes: 4096, ..Capacities::new(3) });
    world.script.functions.insert(Node(2), Act::Hang);
    world.script.only = Some((Node(0), 1));
    let mut hanging = sum_over([0, 2]);
    hanging.call.budget = Lapse::from_secs(5);
    world.start(&hanging).unwrap();
    world.run(Lapse::from_micros(100));
    let mut starved = Planned { root: Node(1), ..sum_over([1, 2]) };
    starved.call.budget = Lapse::from_millis(50);
    let at = world.start(&starved).unwrap();
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    let record = world.made[at].end.as_ref().unwrap().0.records()[0];
    assert_eq!((record.origin, record.stage, record.code), (Node(2), Stage::Forward, Code::NoResource));
}

#[test]
fn s52_user_code_of_one_call_is_never_nested_while_messages_come_in() {
    // The world hands messages in while user code is out, and refuses to run code of a call that is not to be run, or twice.
    for mode in [Mode::empty(), Mode::CUT_THROUGH] {
        let mut world = world(16, 7, 64, 8);
        world.network.work = Lapse::from_micros(300);
        for root in (0..16).map(Node) {
            let mut planned = Planned { root, ..sum_over(0..16) };
            planned.call.mode = mode;
            world.start_after(Lapse::from_micros(u64::from(root.0) * 20), planned);
        }
        world.run(Lapse::from_secs(10));
        world.check().unwrap();
        assert!(world.made.iter().all(|made| made.end.as_ref().unwrap().0.sum() == Some(120)));
        assert!(world.inside > 50, "only {} requests were taken while user code ran", world.inside);
    }
}
