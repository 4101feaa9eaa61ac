//! Chained calls where nothing goes wrong: shapes, sums, lists, replies.
//!
//! There are two ways to write functions; both are used. Numbers are as in the list of scenarios.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{
    Action, Call, Caps, Config, FAILURE, HEAD, Life, Mode, Node, Outcome, Phase, Plan, REQUEST, RESPONSE, Tag, Verdict,
};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::ROOT;
use umbra_tests::chain::{Act, End, Planned, SUM, World, sum_over};

fn shapes() -> [Shape; 6] {
    let more = [Shape::kary(3).unwrap(), Shape::knomial(4).unwrap()];
    [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN, more[0], more[1]]
}

fn over(shape: Shape, mut planned: Planned) -> Planned {
    planned.call.plan = Plan::Shape(shape);
    planned
}

/// Pairs of child and parent along which requests went, as numbers.
fn parents(world: &World) -> Vec<(u32, u32)> {
    let mut pairs: Vec<_> = world.edges.iter().map(|&(_, parent, child)| (child.0, parent.0)).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn s1_binary_shape() {
    let mut world = World::new(7, 1);
    assert_eq!(world.call(&sum_over(0..7)).sum(), Some(21));
    assert_eq!(parents(&world), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)]);
    assert_eq!(world.began.len(), 7);
    let at_root: Vec<u32> = world.combined.keys().filter(|key| key.1 == Node(0)).map(|key| key.2.0).collect();
    assert_eq!(at_root.len(), 2);
}

#[test]
fn s2_binomial_shape_sends_the_largest_subtree_first() {
    let mut world = World::new(8, 1);
    let planned = over(Shape::BINOMIAL, sum_over(0..8));
    assert_eq!(world.call(&planned).sum(), Some(28));
    assert_eq!(parents(&world), [(1, 0), (2, 0), (3, 2), (4, 0), (5, 4), (6, 4), (7, 6)]);
    let first: Vec<u32> = world.edges.iter().filter(|edge| edge.1 == Node(0)).map(|edge| edge.2.0).collect();
    assert_eq!(first, [4, 2, 1]);
}

#[test]
fn s2_binomial_shape_of_1_to_130_members() {
    for count in 1..=130_u32 {
        let mut world = World::new(count, 1);
        assert_eq!(
            world.call(&over(Shape::BINOMIAL, sum_over(0..count))).sum(),
            Some(u64::from(count * (count - 1) / 2))
        );
        // Each once, and its parent is its number without the lowest bit.
        let expected: Vec<_> = (1..count).map(|node| (node, node & (node - 1))).collect();
        assert_eq!((parents(&world), world.began.len() as u32), (expected, count));
        assert!(world.began.values().all(|&times| times == 1));
    }
}

#[test]
fn d45_a_tree_that_nobody_states_suits_members_bytes_and_room() {
    let children = |members: u32, together: u32, data: u32, call_bytes: usize| {
        let capacities = Capacities { call_bytes, ..Capacities::new(members) };
        let mut world = World::with(1, capacities, Config { message_max: 1 << 16, ..Config::new(Node(0), Life(1)) });
        world.house(0..together);
        let mut planned = sum_over(0..members);
        planned.call.plan = Plan::Auto;
        planned.call.caps.data = data;
        assert_eq!(world.call(&planned).sum(), Some((0..u64::from(members)).sum()));
        world.combined.keys().filter(|key| key.1 == Node(0)).count()
    };
    assert_eq!(children(65, 1, 8, 4096), 64, "few members and bytes: everybody below the maker");
    assert_eq!(children(66, 1, 8, 4096), 10, "many members: a base of four");
    assert_eq!(children(9, 1, 4096, 1 << 16), 2, "many bytes: few children");
    assert_eq!(children(9, 9, 8, 4096), 2, "members at one machine");
    assert_eq!(children(65, 1, 8, 2048), 2, "no memory for 64 children");
}

#[test]
fn a_led_tree_is_one_member_below_the_maker_and_a_shape_below_that() {
    for (shape, expected) in [
        (Shape::BINARY, vec![(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)]),
        (Shape::BINOMIAL, vec![(1, 0), (2, 1), (3, 1), (4, 3), (5, 1), (6, 5), (7, 5)]),
    ] {
        let mut world = World::new(8, 1);
        let mut planned = sum_over(0..8);
        planned.call.plan = Plan::Led(shape);
        assert_eq!(world.call(&planned).sum(), Some(28));
        assert_eq!(parents(&world), expected, "{shape:?}");
        // Ids alone travel.
        let words: u64 = expected.iter().map(|&(child, _)| below(child, &expected)).sum();
        assert_eq!(world.figures().request_bytes, 7 * REQUEST as u64 + 4 * words);
    }
    for members in 1..3 {
        let mut world = World::new(2, 1);
        let mut planned = sum_over(0..members);
        planned.call.plan = Plan::Led(Shape::FLAT);
        assert_eq!(world.call(&planned).sum(), Some(u64::from(members - 1)));
    }
}

/// Members of the subtree of this one.
fn below(node: u32, parents: &[(u32, u32)]) -> u64 {
    1 + parents.iter().filter(|pair| pair.1 == node).map(|pair| below(pair.0, parents)).sum::<u64>()
}

#[test]
fn members_that_live_together_are_led_by_one_message_each_way() {
    for (first, messages) in [(1, Some(2)), (8, Some(0)), (3, None)] {
        let mut world = World::new(8, 1);
        world.house(0..first);
        if first < 8 {
            world.house(first..8);
        }
        let mut planned = sum_over(0..8);
        planned.call.plan = Plan::Led(Shape::BINARY);
        assert_eq!(world.call(&planned).sum(), Some(28));
        assert!(messages.is_none_or(|messages| world.messages == messages), "{}", world.messages);
        let at_root: Vec<_> = world.combined.keys().filter(|key| key.1 == Node(0)).map(|key| key.2.0).collect();
        assert_eq!((at_root, world.began.len()), (vec![1], 8));
    }
}

#[test]
fn s3_the_maker_stands_first_and_the_list_keeps_its_order() {
    for members in [vec![5, 9, 3, 0, 7], vec![5, 9, 0, 7]] {
        let mut world = World::new(10, 1);
        let planned = Planned { root: Node(3), ..sum_over(members) };
        assert_eq!(world.call(&planned).sum(), Some(24));
        assert_eq!(parents(&world), [(0, 5), (5, 3), (7, 5), (9, 3)]);
    }
}

#[test]
fn s4_an_empty_list_is_the_maker_alone_and_sends_nothing() {
    for members in [vec![], vec![Node(2)]] {
        let mut world = World::new(4, 1);
        let planned = Planned { root: Node(2), members, ..sum_over(0..1) };
        assert_eq!(world.call(&planned).sum(), Some(2));
        assert_eq!((world.messages, world.began.len(), world.combined.len()), (0, 1, 0));
    }
}

#[test]
fn s5_sums_go_up_every_tree() {
    for shape in shapes() {
        let capacities = Capacities { call_bytes: 16 << 10, ..Capacities::new(64) };
        let mut world = World::with(1, capacities, Config { classes: 0, ..Config::new(Node(0), Life(1)) });
        let end = world.call(&over(shape, sum_over(0..64)));
        assert_eq!(end.sum(), Some(64 * 63 / 2), "{shape:?}");
        assert!(matches!(end, End::Done { members: 64, data, .. } if data.len() == 8));
    }
}

#[test]
fn s6_headers_are_concatenated_and_in_order_if_that_is_wanted() {
    for ordered in [false, true] {
        let mut orders = std::collections::HashSet::new();
        for seed in 0..100 {
            let mut world = World::new(20, seed);
            world.network.jitter = Lapse::from_micros(50);
            let mut planned = sum_over(0..20);
            planned.call.caps = Caps { header: 80, data: 0 };
            planned.call.mode.set(Mode::ORDERED, ordered);
            let End::Done { header, .. } = world.call(&planned) else { panic!("a call that fails") };
            let ids: Vec<u32> = header.as_chunks::<4>().0.iter().map(|&id| u32::from_le_bytes(id)).collect();
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
            if ordered {
                assert_eq!(ids, Shape::BINARY.preorder(20).collect::<Vec<_>>());
            }
            orders.insert(ids);
        }
        assert_eq!(orders.len() == 1, ordered, "without an order given, arrival decides");
    }
}

#[test]
fn s7_a_bare_confirmation_is_48_bytes() {
    let mut world = World::new(31, 1);
    let mut planned = sum_over(0..31);
    (planned.call.callback, planned.call.caps) = (Tag::NONE, Caps::default());
    assert!(
        matches!(world.call(&planned), End::Done { members: 31, header, data, .. } if header.is_empty() && data.is_empty())
    );
    let figures = world.figures();
    assert_eq!((figures.responses, figures.response_bytes), (30, 30 * RESPONSE as u64));
    assert!(world.combined.is_empty());
    assert_eq!((HEAD, FAILURE), (32, 48));
}

#[test]
fn s8_the_callback_runs_though_no_reply_is_expected() {
    let mut world = World::new(31, 1);
    let mut planned = sum_over(0..31);
    planned.call.caps = Caps::default();
    assert!(matches!(world.call(&planned), End::Done { members: 31, .. }));
    assert_eq!(world.combined.len(), 30);
}

#[test]
fn g10_messages_and_their_bytes_are_as_many_as_the_tree_says() {
    for (shape, words) in [(Shape::BINARY, 264), (Shape::BINOMIAL, 192), (Shape::FLAT, 63)] {
        let mut world = World::new(64, 1);
        world.call(&over(shape, sum_over(0..64)));
        let figures = world.figures();
        assert_eq!((figures.requests, figures.responses, world.messages), (63, 63, 126));
        assert_eq!(figures.request_bytes, 63 * REQUEST as u64 + 4 * words, "{shape:?}");
        assert_eq!(figures.response_bytes, 63 * (RESPONSE as u64 + 8));
        let others = [figures.failures, figures.repeated, figures.busy, figures.asks, figures.cancels, figures.stale];
        assert_eq!(others, [0; 6]);
    }
}

/// Hands messages between two machines until nothing is to be done; `user` runs the user's code.
fn between(
    machines: &mut [umbra_core::chain::Machine<umbra::call::Heap>; 2],
    mut user: impl FnMut(&mut umbra_core::chain::Work<'_>) -> Verdict,
) {
    // As long as the longest message of these tests.
    let mut buffer = vec![0; 2 << 20];
    for _ in 0..10 {
        for at in 0..2 {
            while let Some(action) = machines[at].poll(Time(1), &mut buffer) {
                match action {
                    Action::Send { to, len_bytes, .. } => {
                        machines[to.index()].on_message(Node(at as u32), to, &buffer[..len_bytes], Time(1)).unwrap();
                    }
                    Action::Run { handle, .. } => {
                        let verdict = user(&mut machines[at].work(handle).unwrap());
                        machines[at].finish(handle, verdict).unwrap();
                    }
                    Action::Ended { .. } => {}
                }
            }
        }
    }
}

fn pair(call_bytes: usize) -> [umbra_core::chain::Machine<umbra::call::Heap>; 2] {
    let capacities = Capacities { calls: 20, call_bytes, ..Capacities::new(2) };
    [0, 1].map(|node| {
        let mut machine = capacities
            .machine(Config { message_max: 1 << 22, header_max: u16::MAX, ..Config::new(Node(node), Life(1)) })
            .unwrap();
        machine.register(SUM).unwrap();
        machine
    })
}

#[test]
fn s9_headers_and_data_arrive_as_they_were() {
    let mut machines = pair((1 << 20) + (72 << 10));
    for (header, data) in
        [(0, 0), (1, 1), (u16::MAX as usize, 0), (3, 4095), (0, 4096), (5, 4097), (1, 65536), (7, (1 << 20) + 3)]
    {
        let (sent_header, sent_data) = (vec![0xa5; header], (0..data).map(|at| at as u8).collect::<Vec<u8>>());
        let members = [Node(1)];
        let call =
            Call { header: &sent_header, data: umbra_core::chain::Data::Bytes(&sent_data), ..Call::new(SUM, &members) };
        let handle = machines[0].start(&call, Time(1)).unwrap();
        let (expected_header, expected_data) = (sent_header.clone(), sent_data.clone());
        // What was handed over may change at once.
        drop((sent_header, sent_data));
        let mut seen = 0;
        let user = |work: &mut umbra_core::chain::Work<'_>| {
            assert_eq!(work.header, expected_header);
            assert_eq!(work.data, umbra_core::chain::Data::Bytes(&expected_data));
            seen += 1;
            Verdict::Done
        };
        between(&mut machines, user);
        assert_eq!(seen, 2);
        assert!(matches!(machines[0].outcome(handle).unwrap().unwrap(), Outcome::Done { members: 2, .. }));
        machines[0].release(handle).unwrap();
    }
}

#[test]
fn s10_a_stated_tree_runs_like_the_function_that_states_it() {
    fn comb(_: u32, at: u32) -> Option<u32> {
        at.checked_sub(1).map(|before| before - before % 2)
    }
    let by_function = {
        let mut world = World::new(9, 1);
        let mut planned = sum_over(0..9);
        planned.call.plan = Plan::Function(&comb);
        assert_eq!(world.call(&planned).sum(), Some(36));
        world.edges.iter().map(|&(_, parent, child)| (parent, child)).collect::<Vec<_>>()
    };
    let mut world = World::new(9, 1);
    let mut planned = sum_over(0..9);
    planned.parents = Some((0..9).map(|at| comb(9, at).unwrap_or(ROOT)).collect());
    assert_eq!(world.call(&planned).sum(), Some(36));
    let by_parents: Vec<_> = world.edges.iter().map(|&(_, parent, child)| (parent, child)).collect();
    assert_eq!(by_parents, by_function);
    // Sizes travel with the ids of a stated tree.
    assert!(world.figures().request_bytes > 8 * (REQUEST as u64 + 8));
}

#[test]
fn s11_one_function_serves_in_both_roles() {
    let mut machines = pair(4096);
    let mut phases = Vec::new();
    let members = [Node(1)];
    let call = Call { callback: SUM, caps: Caps { header: 0, data: 8 }, ..Call::new(SUM, &members) };
    let handle = machines[0].start(&call, Time(1)).unwrap();
    between(&mut machines, |work| {
        match work.phase {
            Phase::Init => {
                phases.push(("init", work.node.0));
                work.reply.set_data(&[1 + work.node.0 as u8; 8]).unwrap();
            }
            Phase::Wait(answer) => {
                phases.push(("wait", work.node.0));
                assert!(answer.last && answer.members == 1 && answer.from == Node(1));
                let sum = work.reply.data()[0] + answer.data[0];
                work.reply.data_mut().fill(sum);
            }
            Phase::Probe => phases.push(("probe", work.node.0)),
        }
        Verdict::Done
    });
    assert_eq!(phases, [("init", 0), ("init", 1), ("wait", 0)]);
    assert!(matches!(machines[0].outcome(handle).unwrap().unwrap(), Outcome::Done { data: [3, ..], .. }));
}

#[test]
fn s12_a_pending_function_lets_other_calls_go_on() {
    let mut world = World::new(15, 1);
    world.script.functions.insert(Node(5), Act::Slow(Lapse::from_millis(10)));
    world.script.only = Some((Node(0), 1));
    let (slow, quick) = (sum_over(0..15), Planned { root: Node(3), ..sum_over(0..15) });
    let slow = world.start(&slow).unwrap();
    let quick = world.start(&quick).unwrap();
    world.run(Lapse::from_secs(5));
    world.check().unwrap();
    let at = |made: usize| world.made[made].end.clone().unwrap();
    assert_eq!((at(slow).0.sum(), at(quick).0.sum()), (Some(105), Some(105)));
    assert!(at(quick).1 < Time::ZERO + Lapse::from_millis(1) && at(slow).1 >= Time::ZERO + Lapse::from_millis(10));
}

#[test]
fn s13_a_function_has_a_further_call_made_and_ends_with_it() {
    let capacities = Capacities { call_bytes: 4096, ..Capacities::new(3) };
    let mut machines = [0, 1, 2].map(|node| {
        let mut machine = capacities.machine(Config::new(Node(node), Life(1))).unwrap();
        machine.register(SUM).unwrap();
        machine.register(Tag::of("inner")).unwrap();
        machine
    });
    let mut buffer = vec![0; 1 << 16];
    let outer = machines[0].start(&Call::new(SUM, &[Node(1)]), Time(1)).unwrap();
    let (mut inner, mut inner_runs) = (None, 0);
    for _ in 0..20 {
        for at in 0..3 {
            while let Some(action) = machines[at].poll(Time(1), &mut buffer) {
                match action {
                    Action::Send { to, len_bytes, .. } => {
                        machines[to.index()].on_message(Node(at as u32), to, &buffer[..len_bytes], Time(1)).unwrap();
                    }
                    Action::Run { handle, function } => {
                        let phase = machines[at].work(handle).unwrap().phase;
                        inner_runs += u32::from(function == 1);
                        let nests = function == 0 && at == 1 && phase == Phase::Init;
                        machines[at].finish(handle, if nests { Verdict::Pending } else { Verdict::Done }).unwrap();
                        if nests {
                            let call = Call { within: Some(handle), ..Call::new(Tag::of("inner"), &[Node(2)]) };
                            inner = Some((handle, machines[1].start(&call, Time(1)).unwrap()));
                        }
                    }
                    Action::Ended { handle } if at == 1 => {
                        let (outer, mine) = inner.unwrap();
                        assert_eq!(handle, mine);
                        assert!(matches!(
                            machines[1].outcome(handle).unwrap().unwrap(),
                            Outcome::Done { members: 2, .. }
                        ));
                        machines[1].release(handle).unwrap();
                        machines[1].wake(outer).unwrap();
                    }
                    Action::Ended { .. } => {}
                }
            }
        }
    }
    assert_eq!(inner_runs, 2);
    assert!(matches!(machines[0].outcome(outer).unwrap().unwrap(), Outcome::Done { members: 2, .. }));
    machines[0].release(outer).unwrap();
    assert!(machines[0].poll(Time(1), &mut buffer).is_none());
    assert!(machines.iter().all(umbra_core::chain::Machine::is_empty));
}

#[test]
fn s65_a_tree_that_follows_the_hosts_enters_each_once() {
    // Four hosts of 16 members and an agent each; the list mixes them.
    let place = |member: u32| umbra_core::tree::domains::Place { domain: member % 4, leads: member >= 64 };
    let members: Vec<u32> = (0..68).collect();
    let (mut parents, mut leaders) = (vec![0; 68], [0; 4]);
    let at = |position: u32| place(members[position as usize]);
    umbra_core::tree::domains::parents(at, Shape::BINOMIAL, &mut parents, &mut leaders).unwrap();
    let capacities = Capacities { call_bytes: 8192, ..Capacities::new(68) };
    let mut world = World::with(1, capacities, Config::new(Node(0), Life(1)));
    let planned = Planned { parents: Some(parents), ..sum_over(0..68) };
    assert_eq!(world.call(&planned).sum(), Some(68 * 67 / 2));
    let crossing = world.edges.iter().filter(|(_, from, to)| from.0 % 4 != to.0 % 4).count();
    assert_eq!(crossing, 3, "requests between hosts; as many answers");
}
