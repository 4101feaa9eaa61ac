//! Chained calls over long lists, which requests carry as runs.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra::sim::Random;
use umbra_core::chain::{Action, Code, Config, FAILURE, Life, Node, Plan, REQUEST, Stage, StartError};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::ROOT;
use umbra_tests::chain::{End, Planned, World, sum_over};

/// Members, and how many live together; the first of them leads.
const ALL: u32 = 1200;
const HOUSED: u32 = 300;
/// A request with few runs, and no more: a list of up to 256 members is sent as it is.
const NARROW: u32 = REQUEST as u32 + 2 * 1024;

/// A world whose messages have so many bytes at most.
fn world(message_max: u32) -> World {
    homes(ALL, HOUSED, message_max, Capacities { calls: 4, call_bytes: 64 << 10, ..Capacities::new(ALL) })
}

fn homes(all: u32, housed: u32, message_max: u32, capacities: Capacities) -> World {
    let config = Config { message_max, ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { remembered: all, answer_bytes: 64, ..capacities }, config);
    (0..all).step_by(housed as usize).for_each(|head| world.house(head..head + housed));
    world
}

/// A call over all members, whose leaders are the children of the first, and everybody else one of his leader.
fn led() -> Planned {
    let parent = |member: u32| if member.is_multiple_of(HOUSED) { 0 } else { member / HOUSED * HOUSED };
    let parents = (0..ALL).map(|member| if member == 0 { ROOT } else { parent(member) }).collect();
    Planned { parents: Some(parents), ..sum_over(0..ALL) }
}

const fn sum(members: u32) -> u64 {
    (members as u64) * (members as u64 - 1) / 2
}

#[test]
fn members_in_a_row_are_a_run_and_so_are_subtrees_of_one() {
    let mut world = world(64 << 10);
    assert_eq!(world.call(&led()).sum(), Some(sum(ALL)));
    // 300 names in a row; the size of the whole subtree, and 299 times one.
    assert_eq!((world.figures().requests, world.figures().request_bytes), (3, 3 * (REQUEST as u64 + 8 + 2 * 8)));
}

#[test]
fn a_list_that_is_longer_than_a_message_is_sent_if_it_has_few_runs() {
    let mut narrow = world(NARROW);
    assert_eq!(narrow.call(&led()).sum(), Some(sum(ALL)));
    // Every other member first: a run each.
    let mut flat = sum_over((0..ALL).step_by(2).chain((1..ALL).step_by(2)));
    flat.call.plan = Plan::Led(Shape::FLAT);
    for plan in [Plan::Shape(Shape::FLAT), Plan::Led(Shape::FLAT)] {
        let mut planned = flat.clone();
        planned.call.plan = plan;
        let needed = REQUEST + 4 * ALL as usize;
        let refused = narrow.start(&planned).unwrap_err();
        assert_eq!(refused, StartError::TooLarge { needed, allowed: NARROW as usize }, "{plan:?}");
    }
    assert_eq!(narrow.messages, 6, "nothing was sent of what was refused");
    // The same in a message that is long enough.
    let mut wide = world((REQUEST + 4 * ALL as usize) as u32);
    assert_eq!(wide.call(&flat).sum(), Some(sum(ALL)));
}

/// What the maker takes fits everywhere, whatever pieces it is cut into, and what it refuses is sent nowhere.
#[test]
fn what_is_taken_reaches_everybody() {
    const ALL: u32 = 600;
    let mut random = Random::new(7);
    let (mut taken, mut refused) = (0, 0);
    for message_max in [640, 1200, 1400, 2000, 2200, 2600, 3200, 5000] {
        let capacities = Capacities { calls: 24, call_bytes: 12 << 10, ..Capacities::new(ALL) };
        let mut world = homes(ALL, 150, message_max, capacities);
        for round in 0..40 {
            let planned = random_call(ALL, &mut random);
            match world.start(&planned) {
                Ok(made) => {
                    world.run(Lapse::from_secs(60));
                    world.check().unwrap();
                    let (end, _) = world.made[made].end.clone().unwrap();
                    assert_eq!(end.sum(), Some(sum(ALL)), "round {round} of {message_max}: {end:?}");
                    taken += 1;
                }
                Err(StartError::TooLarge { .. }) => refused += 1,
                Err(other) => panic!("round {round} of {message_max}: {other}"),
            }
        }
        assert_eq!(world.made.len(), world.began.len() / ALL as usize);
    }
    assert!(taken > 50 && refused > 50, "{taken} were taken, {refused} refused");
}

/// Pieces of the members of random lengths, in random order, and some of them backwards; below any tree.
fn random_call(all: u32, random: &mut Random) -> Planned {
    let longest = [3, 40, 500][random.below(3) as usize];
    let mut pieces: Vec<Vec<u32>> = Vec::new();
    let mut at = 1;
    while at < all {
        let end = (at + 1 + random.below(longest) as u32).min(all);
        let piece = if random.below(4) == 0 { (at..end).rev().collect() } else { (at..end).collect() };
        pieces.insert(random.below(pieces.len() as u64 + 1) as usize, piece);
        at = end;
    }
    let mut planned = sum_over([0].into_iter().chain(pieces.concat()));
    let parents: Vec<u32> = match random.below(6) {
        0 => {
            planned.call.plan = Plan::Shape(Shape::BINARY);
            return planned;
        }
        1 => {
            planned.call.plan = Plan::Shape(Shape::knomial(8).unwrap());
            return planned;
        }
        // In the first half of those before, so that the tree is no deeper than calls may be.
        2 => (1..u64::from(all)).map(|at| random.below(at.div_ceil(2)) as u32).collect(),
        // Leaders below the first, and everybody else below one of them.
        _ => {
            let led = 20 + random.below(250) as u32;
            (1..all).map(|at| if at.is_multiple_of(led) { 0 } else { at / led * led }).collect()
        }
    };
    planned.parents = Some([ROOT].into_iter().chain(parents).collect());
    planned
}

/// Every bit of a request with runs is turned over in turn.
#[test]
fn a_damaged_request_with_runs_is_refused_or_dropped() {
    let mut planned = led();
    planned.call.budget = Lapse::from_millis(20);
    let mut failed = 0;
    let bits = 8 * (REQUEST + 3 * 8);
    let mut world = world(64 << 10);
    for bit in 0..bits {
        world.flip = Some((Node(HOUSED), bit));
        let at = world.start(&planned).unwrap();
        world.run(Lapse::from_secs(2 << 32));
        let (end, ended) = world.made[at].end.clone().unwrap();
        assert!(ended.since(world.made[at].at) <= planned.call.budget, "bit {bit}");
        assert!(world.began.values().all(|&count| count == 1), "bit {bit}");
        for head in (0..ALL).step_by(HOUSED as usize).map(Node) {
            assert!(world.at(head).is_empty(), "bit {bit}: {head} still has a call");
        }
        if let End::Failed { tallies, .. } = end {
            assert_eq!(tallies.total(), ALL, "bit {bit}");
            failed += 1;
        }
    }
    assert!(failed > bits / 2, "{failed} of {bits}");
}

/// Eight bytes can say that there are billions of members.
#[test]
fn a_run_of_more_members_than_there_is_room_for_is_refused() {
    let mut honest = world(64 << 10);
    honest.spy = true;
    assert_eq!(honest.call(&led()).sum(), Some(sum(ALL)));
    let request = honest.heard.iter().find(|(to, _)| *to == Node(HOUSED)).unwrap().1.clone();
    for (members, code) in [(u32::MAX, Code::TooLarge), (20_000, Code::TooLarge), (301, Code::Malformed)] {
        let mut forged = request.clone();
        forged[24..28].copy_from_slice(&members.to_le_bytes());
        // The ids; the size of the whole; the others.
        for (at, word) in [(4, members), (8, members), (20, members - 1)] {
            // Of what is malformed, the first size is another.
            let word = if at == 8 && code == Code::Malformed { members - 1 } else { word };
            forged[REQUEST + at..REQUEST + at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let mut world = world(64 << 10);
        let mut buffer = [0; 4096];
        let machine = world.at(Node(HOUSED));
        machine.on_message(Node(0), Node(HOUSED), &forged, Time(1)).unwrap();
        let answer = machine.poll(Time(1), &mut buffer);
        assert!(matches!(answer, Some(Action::Send { to: Node(0), .. })), "{answer:?} for {members}");
        let record = &buffer[FAILURE..FAILURE + 16];
        assert_eq!((record[4], record[5]), (Stage::Setup as u8, code as u8), "{members}");
        assert!(machine.poll(Time(1), &mut buffer).is_none() && machine.is_empty());
    }
}
