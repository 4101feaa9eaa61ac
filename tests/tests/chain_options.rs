//! Ways to treat a call that it has to ask for: members that are left out because they are dead.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_core::chain::{Mode, Node, Plan, StartError, Tallies};
use umbra_core::time::Lapse;
use umbra_core::tree::explicit::{BadTree, ROOT, Reason};
use umbra_tests::chain::single::SHAPES;
use umbra_tests::chain::{Act, End, Planned, World, sum_over};

fn nodes(numbers: impl IntoIterator<Item = u32>) -> Vec<Node> {
    numbers.into_iter().map(Node).collect()
}

/// A world in which everybody knows that these members are dead.
fn without(members: u32, dead: &[u32]) -> World {
    let mut world = World::new(members, 1);
    dead.iter().for_each(|&dead| world.kill(Node(dead)));
    world.run(Lapse::from_secs(1));
    world
}

/// The sum over so many members, of whom the dead are left out.
fn skipping(members: u32) -> Planned {
    let mut planned = sum_over(0..members);
    planned.call.mode = Mode::SKIP_DEAD;
    planned
}

fn edges(world: &World) -> Vec<(u32, u32)> {
    world.edges.iter().map(|&(_, parent, child)| (parent.0, child.0)).collect()
}

#[test]
fn d6_the_dead_are_left_out_and_named_and_the_call_is_done_by_the_others() {
    for (shape, dead) in SHAPES.into_iter().flat_map(|shape| (1..8).map(move |dead| (shape, dead))) {
        for plan in [Plan::Shape(shape), Plan::Led(shape), Plan::Auto] {
            let mut world = without(8, &[dead]);
            let mut planned = skipping(8);
            planned.call.plan = plan;
            planned.call.mode = Mode::empty();
            assert_eq!(world.start(&planned).unwrap_err(), StartError::DeadId(Node(dead)), "{plan:?}");
            planned.call.mode = Mode::SKIP_DEAD;
            let before = world.messages;
            let end = world.call(&planned);
            assert_eq!((end.sum(), end.skipped()), (Some(28 - u64::from(dead)), &nodes([dead])[..]), "{plan:?}");
            assert!(matches!(end, End::Done { members: 7, .. }), "{end:?}");
            assert_eq!(world.messages - before, 12, "nothing goes to whoever is dead");
        }
    }
}

#[test]
fn d6_a_request_does_not_name_whoever_is_left_out() {
    let (mut world, mut whole) = (without(8, &[5, 3]), World::new(8, 1));
    assert!(matches!(world.call(&skipping(8)), End::Done { members: 6, .. }));
    assert_eq!(whole.call(&sum_over([0, 1, 2, 4, 6, 7])).sum(), Some(20));
    assert_eq!(world.figures(), whole.figures());
    assert_eq!(world.made[0].end.as_ref().unwrap().0.skipped(), nodes([3, 5]), "in the order of the list");
}

#[test]
fn d6_whoever_hung_below_the_dead_in_a_stated_tree_hangs_below_the_next_one_above() {
    let mut planned = skipping(8);
    // 0 ── 1 ── 2 ── 3 ── 4, 5 and 0 ── 6 ── 7
    planned.parents = Some(vec![ROOT, 0, 1, 2, 3, 3, 0, 6]);
    let mut world = without(8, &[2, 3, 6]);
    assert_eq!(world.call(&planned).sum(), Some(1 + 4 + 5 + 7));
    let mut found = edges(&world);
    found.sort_unstable();
    assert_eq!(found, [(0, 1), (0, 7), (1, 4), (1, 5)]);
    // The same tree of a function, which is asked for all positions, and once for each.
    let parent_of = |len: u32, at: u32| {
        assert_eq!(len, 8);
        [None, Some(0), Some(1), Some(2), Some(3), Some(3), Some(0), Some(6)][at as usize]
    };
    let members = planned.members.clone();
    let machine = world.at(Node(0));
    let plan = Plan::Function(&parent_of);
    let call = umbra_core::chain::Call { members: &members, plan, ..planned.call };
    let handle = machine.start(&call, umbra_core::time::Time::ZERO + Lapse::from_secs(2)).unwrap();
    machine.cancel(handle).unwrap();
    // A tree is one over all, and is refused by the positions of all.
    for (parents, index, reason) in [
        (vec![ROOT, 0, 3, 2, 0, 0, 0, 0], 2, Reason::Cycle),
        (vec![ROOT, 0, 1, 2, 3, 3, ROOT, 6], 6, Reason::SecondRoot),
        (vec![ROOT, 0, 1, 2, 3, 3, 0, 8], 7, Reason::Range),
        (vec![ROOT, 0, 1, 2, 3], 5, Reason::Range),
    ] {
        let stated = Planned { parents: Some(parents), ..planned.clone() };
        let refused = without(8, &[2, 3, 6]).start(&stated).unwrap_err();
        assert_eq!(refused, StartError::BadTree(BadTree { index, reason }));
    }
}

#[test]
fn d6_those_who_are_left_out_count_as_not_reached_when_another_fails() {
    let mut world = without(15, &[4, 9]);
    world.script.functions.insert(Node(1), Act::Fault(7));
    let mut planned = skipping(15);
    planned.call.mode |= Mode::COLLECT;
    let End::Failed { tallies, records, unreached, skipped } = world.call(&planned) else { panic!("it is done") };
    // Of the thirteen who are left, six hang below the first child.
    assert_eq!((records.len(), records[0].origin), (1, Node(1)));
    assert_eq!(tallies, Tallies { ok: 6, failed: 1, unreached: 6 + 2, unknown: 0 });
    assert_eq!((unreached.len(), skipped), (8, nodes([4, 9])));
    assert_eq!(unreached[6..], nodes([4, 9]));
}

#[test]
fn d6_nobody_need_be_left_and_whoever_is_back_is_called() {
    let mut world = without(4, &[1, 2, 3]);
    let end = world.call(&skipping(4));
    assert_eq!((end.sum(), end.skipped(), world.messages), (Some(0), &nodes(1..4)[..], 0));
    world.restart_after(Lapse(0), Node(2));
    world.run(Lapse::from_secs(1));
    let end = world.call(&skipping(4));
    assert_eq!((end.sum(), end.skipped()), (Some(2), &nodes([1, 3])[..]));
}

#[test]
fn d6_a_dead_member_that_is_listed_twice_is_one_that_is_listed_twice() {
    let mut planned = Planned { root: Node(0), members: nodes([1, 2, 3, 2]), ..skipping(4) };
    let double = StartError::DuplicateId { id: Node(2), first: 2, second: 4 };
    assert_eq!(without(4, &[2]).start(&planned).unwrap_err(), double);
    planned.call.mode |= Mode::DEDUP;
    let mut world = without(4, &[2]);
    let end = world.call(&planned);
    assert_eq!((end.sum(), end.skipped()), (Some(4), &nodes([2])[..]));
    // It has one position in a stated tree.
    planned.parents = Some(vec![ROOT, 0, 1, 2]);
    assert_eq!(world.call(&planned).skipped(), nodes([2]));
    assert_eq!(edges(&world)[2..], [(0, 1), (1, 3)]);
}
