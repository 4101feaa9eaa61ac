//! Ways to treat a call that it has to ask for.
//!
//! The dead are left out, everybody has the whole list, functions replace the header for those below. Numbers are those of decisions
//! of the specification.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{
    Action, Call, Code, Config, Data, FAILURE, Life, Mode, Node, Plan, REQUEST, RewriteError, Stage, StartError,
    Tallies, Verdict,
};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::{BadTree, ROOT, Reason};
use umbra_tests::chain::check::each_bit;
use umbra_tests::chain::single::SHAPES;
use umbra_tests::chain::{Act, End, PREFIX, Planned, SUM, World, sum_over};

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
    let call = Call { members: &members, plan, ..planned.call };
    let handle = machine.start(&call, Time::ZERO + Lapse::from_secs(2)).unwrap();
    machine.cancel(handle).unwrap();
    // Positions that are above others and stand behind them, and dead ones below one another.
    planned.parents = Some(vec![ROOT, 7, 3, 6, 5, 2, 1, 0]);
    let mut world = without(8, &[2, 3, 6]);
    assert_eq!(world.call(&planned).sum(), Some(1 + 4 + 5 + 7));
    assert_eq!(edges(&world), [(0, 7), (7, 1), (1, 5), (5, 4)]);
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

/// The levels of members that live together have memory in the place of the call, if there is so much.
#[test]
fn d6_a_call_that_fits_without_memory_for_levels_is_not_refused_for_the_names_of_the_dead() {
    let mut accepted = Vec::new();
    for call_bytes in (8..=1024).step_by(8) {
        let capacities = Capacities { call_bytes, ..Capacities::new(8) };
        let mut world = World::with(1, capacities, Config::new(Node(0), Life(1)));
        world.house(0..5);
        (5..8).for_each(|dead| world.kill(Node(dead)));
        world.run(Lapse::from_secs(1));
        match world.start(&skipping(8)) {
            Ok(at) => {
                world.run(Lapse::from_secs(5));
                assert_eq!(world.made[at].end.as_ref().unwrap().0.sum(), Some(10), "{call_bytes} bytes");
                accepted.push(call_bytes);
            }
            Err(refused) => {
                assert!(matches!(refused, StartError::TooLarge { .. }), "{refused}");
                assert!(accepted.is_empty(), "{call_bytes} bytes are too few, and {accepted:?} are not");
            }
        }
    }
    assert!((32..128).contains(&accepted.len()), "{accepted:?}");
}

/// The sum over so many members, of whom everybody sees the list.
fn listing(members: u32) -> Planned {
    let mut planned = sum_over(0..members);
    planned.call.mode = Mode::FULL_LIST;
    planned
}

/// What every run of user code is told is compared with the tree by the world.
#[test]
fn d13_everybody_sees_the_whole_list_and_the_part_that_is_his_own() {
    for (shape, members) in SHAPES.into_iter().flat_map(|shape| [1, 2, 7, 16].map(|members| (shape, members))) {
        for plan in [Plan::Shape(shape), Plan::Led(shape)] {
            let mut planned = listing(members);
            planned.call.plan = plan;
            let sum = u64::from(members * (members - 1) / 2);
            assert_eq!(World::new(members, 1).call(&planned).sum(), Some(sum));
            // At one machine, and at two.
            for at in [0, members / 2] {
                let mut world = World::new(members, 1);
                world.house(at..members);
                world.script.functions.insert(Node(members - 1), Act::Slow(Lapse::from_micros(7)));
                assert_eq!(world.call(&planned).sum(), Some(sum), "{plan:?} with {at} apart");
            }
        }
    }
    let mut stated = listing(8);
    stated.parents = Some(vec![ROOT, 0, 1, 1, 0, 4, 5, 5]);
    let mut world = World::new(8, 1);
    world.house(4..8);
    assert_eq!(world.call(&stated).sum(), Some(28));
}

/// 72 bytes, 8 that say where the members of the receiver begin and how many there are at all, and 4 for each of these.
#[test]
fn d13_the_list_is_on_every_edge() {
    for (shape, members) in SHAPES.into_iter().flat_map(|shape| [2, 16].map(|members| (shape, members))) {
        let mut planned = listing(members);
        planned.call.plan = Plan::Shape(shape);
        let mut world = World::new(members, 1);
        assert!(matches!(world.call(&planned), End::Done { .. }));
        let edges = u64::from(members) - 1;
        assert_eq!(world.figures().request_bytes, edges * (REQUEST as u64 + 8 + 4 * u64::from(members)), "{shape:?}");
    }
    let mut world = World::new(64, 1);
    assert!(matches!(world.call(&listing(64)), End::Done { members: 64, .. }));
    // 16 KiB of names, where parts alone are 1056 bytes.
    assert_eq!(world.figures().request_bytes, 63 * (REQUEST as u64 + 8) + 4 * 64 * 63);
    let mut plain = World::new(64, 1);
    plain.call(&sum_over(0..64));
    assert_eq!(plain.figures().request_bytes, 63 * REQUEST as u64 + 1056);
    // With sizes of a part where the tree is stated, and 8 bytes a run where many follow one another.
    let mut stated = listing(4);
    stated.parents = Some(vec![ROOT, 0, 1, 2]);
    let mut world = World::new(4, 1);
    world.call(&stated);
    assert_eq!(world.figures().request_bytes, 3 * (REQUEST as u64 + 8 + 16) + 4 * (3 + 2 + 1));
    let capacities = Capacities { call_bytes: 32 << 10, ..Capacities::new(600) };
    let mut world = World::with(1, capacities, Config::new(Node(0), Life(1)));
    let mut many = listing(600);
    many.call.plan = Plan::Shape(Shape::FLAT);
    assert_eq!(world.call(&many).sum(), Some(300 * 599));
    assert_eq!(world.figures().request_bytes, 599 * (REQUEST as u64 + 8 + 8));
}

#[test]
fn d13_members_that_live_together_read_the_list_where_it_lies() {
    // There is memory for a list of 64 once, and for a place with few children.
    let capacities = Capacities { call_bytes: 640, calls: 16, ..Capacities::new(64) };
    let mut world = World::with(1, capacities, Config::new(Node(0), Life(1)));
    world.house(0..64);
    world.script.functions.insert(Node(63), Act::Slow(Lapse::from_micros(7)));
    assert_eq!(world.call(&listing(64)).sum(), Some(32 * 63));
    assert_eq!((world.figures().request_bytes, world.messages), (0, 0));
}

#[test]
fn d13_a_list_that_no_request_carries_is_refused_and_its_parts_are_not() {
    let message_max = (REQUEST + 4 * 31) as u32;
    let config = Config { message_max, ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { call_bytes: 4096, ..Capacities::new(32) }, config);
    let mut planned = listing(32);
    let needed = REQUEST + 8 + 4 * 32;
    assert_eq!(world.start(&planned).unwrap_err(), StartError::TooLarge { needed, allowed: message_max as usize });
    planned.call.mode = Mode::empty();
    planned.call.plan = Plan::Shape(Shape::FLAT);
    let mut wider = World::with(
        1,
        Capacities { call_bytes: 4096, ..Capacities::new(32) },
        Config { message_max: needed as u32, ..Config::new(Node(0), Life(1)) },
    );
    assert_eq!(wider.call(&planned).sum(), Some(16 * 31));
    planned.call.mode = Mode::FULL_LIST;
    assert_eq!(wider.call(&planned).sum(), Some(16 * 31));
}

/// A request with the whole list, as member 1 gets it of seven.
fn honest() -> Vec<u8> {
    let mut world = World::new(7, 1);
    world.spy = true;
    assert_eq!(world.call(&listing(7)).sum(), Some(21));
    world.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().1.clone()
}

/// How member 1 answers this request: the stage and the code of its refusal.
fn answer_to(request: &[u8]) -> (u8, u8) {
    let (mut world, mut buffer) = (World::new(7, 1), [0; 4096]);
    let machine = world.at(Node(1));
    machine.on_message(Node(0), Node(1), request, Time(1)).unwrap();
    let answer = machine.poll(Time(1), &mut buffer);
    assert!(matches!(answer, Some(Action::Send { to: Node(0), .. })), "{answer:?}");
    assert!(machine.poll(Time(1), &mut buffer).is_none() && machine.is_empty());
    (buffer[FAILURE + 4], buffer[FAILURE + 5])
}

#[test]
fn d13_a_part_that_is_not_in_its_list_is_refused() {
    let request = honest();
    let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
    // Three of seven, from the second on: 0, 1 3 4, 2 5 6.
    assert_eq!((word(24), word(REQUEST), word(REQUEST + 4)), (3, 1, 7));
    let forged = |changes: &[(usize, u32)]| {
        let mut forged = request.clone();
        changes.iter().for_each(|&(at, word)| forged[at..at + 4].copy_from_slice(&word.to_le_bytes()));
        answer_to(&forged)
    };
    let malformed = (Stage::Setup as u8, Code::Malformed as u8);
    let whole = REQUEST + 8;
    for changes in [
        // It begins with the maker, with somebody else, or behind the end, and goes on behind the end.
        &[(REQUEST, 0)][..],
        &[(REQUEST, 2)],
        &[(REQUEST, 5)],
        &[(REQUEST, 7)],
        &[(REQUEST, u32::MAX)],
        &[(24, 7)],
        &[(24, u32::MAX)],
        // There are more or fewer members than are named.
        &[(REQUEST + 4, 6)],
        &[(REQUEST + 4, 8)],
        &[(REQUEST + 4, u32::MAX)],
        // The list is another member's, or of another call.
        &[(whole, 1)],
        &[(whole + 4, 2)],
    ] {
        assert_eq!(forged(changes), malformed, "{changes:?}");
    }
    let mut unknown = request.clone();
    unknown[47] |= 8;
    assert_eq!(answer_to(&unknown), malformed);
    // Eight bytes can say that there are very many.
    let mut runs = request[..REQUEST + 8].to_vec();
    runs[REQUEST + 4..].copy_from_slice(&u32::MAX.to_le_bytes());
    runs[68..70].copy_from_slice(&1_u16.to_le_bytes());
    runs.extend_from_slice(&[0_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat());
    assert_eq!(answer_to(&runs), (Stage::Setup as u8, Code::TooLarge as u8));
}

#[test]
fn d13_a_damaged_request_with_the_whole_list_is_refused_or_dropped() {
    let bytes = REQUEST + 8 + 15 * 4;
    let failed = each_bit(listing(15), bytes, |_, _| ());
    // Names of members elsewhere in the tree are looked at by nobody on the way.
    assert!(failed > 2 * bytes, "{failed} of {}", 8 * bytes);
}

/// The sum over so many members, whose functions put their numbers behind the header, as `told` of the world says.
fn rewriting(members: u32) -> Planned {
    let mut planned = sum_over(0..members);
    (planned.call.mode, planned.call.header) = (Mode::REWRITE, PREFIX);
    planned
}

/// What every run of user code is told is compared with the way to its member by the world.
#[test]
fn d14_children_get_what_the_function_of_their_parent_wrote() {
    for (shape, members) in SHAPES.into_iter().flat_map(|shape| [1, 2, 7, 16].map(|members| (shape, members))) {
        for plan in [Plan::Shape(shape), Plan::Led(shape)].into_iter().filter(|_| shape != Shape::CHAIN || members < 16)
        {
            let mut planned = rewriting(members);
            planned.call.plan = plan;
            let sum = u64::from(members * (members - 1) / 2);
            assert_eq!(World::new(members, 1).call(&planned).sum(), Some(sum));
            // At one machine, at two, and with functions that are pending after they wrote.
            for at in [0, members / 2] {
                let mut world = World::new(members, 1);
                world.house(at..members);
                for slow in [1, 2, members - 1] {
                    world.script.functions.insert(Node(slow), Act::Slow(Lapse::from_micros(7)));
                }
                assert_eq!(world.call(&planned).sum(), Some(sum), "{plan:?} with {at} apart");
            }
        }
    }
    let mut stated = rewriting(8);
    stated.parents = Some(vec![ROOT, 0, 1, 1, 0, 4, 5, 5]);
    stated.call.mode |= Mode::FULL_LIST | Mode::COLLECT;
    let mut world = World::new(8, 1);
    world.house(4..8);
    assert_eq!(world.call(&stated).sum(), Some(28));
}

#[test]
fn d14_a_request_carries_the_header_of_the_way_to_its_receiver() {
    let mut planned = rewriting(8);
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    let mut world = World::new(8, 1);
    world.spy = true;
    assert_eq!(world.call(&planned).sum(), Some(28));
    let mut header = PREFIX.to_vec();
    for child in 1..8_u32 {
        let parent = child - 1;
        if parent % 3 != 0 {
            header.extend(parent.to_le_bytes());
        }
        let (_, request) = world.heard.iter().find(|(to, bytes)| *to == Node(child) && bytes[1] == 1).unwrap();
        let list = 4 * (8 - child as usize);
        assert_eq!(request[REQUEST + list..], header);
        assert_eq!(request.len(), REQUEST + list + header.len());
    }
}

/// The request to the last of a chain is sent again and again, as the network takes longer than anybody waits.
#[test]
fn d14_a_request_that_is_sent_again_has_the_same_header() {
    let config = Config { ask: Lapse::from_millis(2), ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { call_bytes: 4096, ..Capacities::new(3) }, config);
    (world.spy, world.network.delay) = (true, Lapse::from_millis(15));
    let mut planned = rewriting(3);
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    assert_eq!(world.call(&planned).sum(), Some(3));
    let sent: Vec<_> = world.heard.iter().filter(|(to, bytes)| *to == Node(2) && bytes[1] == 1).collect();
    assert!(sent.len() > 2, "{} requests", sent.len());
    let header = [PREFIX, &1_u32.to_le_bytes()].concat();
    assert!(sent.iter().all(|(_, bytes)| bytes[REQUEST + 4..] == header));
}

#[test]
fn d14_whoever_lives_with_a_parent_that_has_failed_keeps_its_header() {
    let mut world = World::new(7, 1);
    world.house(0..7);
    world.spy = true;
    // 1 fails by the answer of 3, and its place is free, while 4 is pending.
    world.script.functions.insert(Node(3), Act::Slow(Lapse::from_millis(1)));
    world.script.functions.insert(Node(4), Act::Slow(Lapse::from_millis(3)));
    world.script.callbacks.insert((Node(1), Node(3)), Act::Fault(7));
    let at = world.start(&rewriting(7)).unwrap();
    let call = world.made[at].id;
    // Others, whose members have neither, take places meanwhile, with a header of their own.
    let mut others = Planned { root: Node(0), members: nodes([2, 5, 6, 1]), ..rewriting(7) };
    others.call.header = &[0, 7, 7, 7, 7, 7];
    for after in 0..20 {
        world.start_after(Lapse::from_micros(after * 200), others.clone());
    }
    world.run(Lapse::from_secs(5));
    world.check().unwrap();
    let Some((End::Failed { records, .. }, ended)) = world.made[at].end.clone() else { panic!("it is done") };
    assert_eq!((records[0].origin, records[0].stage), (Node(1), Stage::Callback));
    assert!(ended < Time::ZERO + Lapse::from_millis(3), "4 is pending yet");
    let during = world.made.iter().filter(|made| ended < made.at && made.at < Time::ZERO + Lapse::from_millis(3));
    assert!(during.count() > 5 && world.refused.is_empty(), "{:?}", world.refused);
    // When it began, and when it was run again.
    let header = [PREFIX, &1_u32.to_le_bytes()].concat();
    let told: Vec<_> = world.told.iter().filter(|told| (told.0, told.1) == (call, Node(4))).collect();
    assert!(told.len() == 2 && told.iter().all(|told| told.2 == header), "{told:?}");
    assert_eq!(world.ended.get(&(call, Node(4))), Some(&1));
}

#[test]
fn d14_headers_of_requests_that_are_cut_through_are_not_replaced() {
    let mut planned = rewriting(7);
    planned.call.mode |= Mode::CUT_THROUGH;
    let mut world = World::new(7, 1);
    assert_eq!(world.start(&planned).unwrap_err(), StartError::RewriteCutThrough);
    assert_eq!(world.messages, 0);
    planned.call.mode = Mode::REWRITE;
    world.spy = true;
    assert_eq!(world.call(&planned).sum(), Some(21));
    // A request that says both.
    let mut both = world.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().1.clone();
    both[2] |= 8;
    assert_eq!(answer_to(&both), (Stage::Setup as u8, Code::Malformed as u8));
}

#[test]
fn d14_a_header_is_as_long_as_requests_may_have_it_and_no_longer() {
    // The longest header here, or what a message has left beside 72 bytes, a list of two members and two bytes of data.
    for (message_max, max) in [(4096, 16), (72 + 8 + 2 + 9, 9)] {
        let config = Config { header_max: 16, message_max, ..Config::new(Node(0), Life(1)) };
        let mut machine = Capacities { call_bytes: 1024, ..Capacities::new(2) }.machine(config).unwrap();
        machine.register(SUM).unwrap();
        let members = nodes([1]);
        let call = Call { mode: Mode::REWRITE, data: Data::Bytes(&[1, 2]), ..Call::new(SUM, &members) };
        machine.start(&call, Time(1)).unwrap();
        let mut buffer = [0; 4096];
        let Some(Action::Run { handle, .. }) = machine.poll(Time(1), &mut buffer) else { panic!("nothing runs") };
        let mut work = machine.work(handle).unwrap();
        let too_long = work.rewrite_header(&[7; 17]).unwrap_err();
        assert_eq!(too_long, RewriteError::TooLong { len: 17, max });
        assert!(too_long.to_string().contains("at most"));
        work.rewrite_header(&[8; 3]).unwrap();
        work.rewrite_header(&[9; 16][..max]).unwrap();
        machine.finish(handle, Verdict::Done).unwrap();
        let Some(Action::Send { len_bytes, .. }) = machine.poll(Time(1), &mut buffer) else {
            panic!("nothing is sent")
        };
        assert_eq!(len_bytes, REQUEST + 4 + max + 2);
        assert_eq!(buffer[REQUEST + 4..len_bytes], [&[9; 16][..max], &[1, 2]].concat());
        // Another call does not have it, and one without room for it is refused.
        let call = Call { mode: Mode::empty(), ..call };
        machine.start(&call, Time(1)).unwrap();
        let Some(Action::Run { handle, .. }) = machine.poll(Time(1), &mut buffer) else { panic!("nothing runs") };
        assert_eq!(machine.work(handle).unwrap().rewrite_header(&[]), Err(RewriteError::NotAllowed));
    }
    let mut narrow = World::with(
        1,
        Capacities { call_bytes: 1000, ..Capacities::new(3) },
        Config { header_max: 1024, ..Config::new(Node(0), Life(1)) },
    );
    assert!(matches!(narrow.start(&rewriting(3)), Err(StartError::TooLarge { allowed: 1000, .. })));
    assert_eq!(narrow.call(&sum_over(0..3)).sum(), Some(3));
}

#[test]
fn d14_a_damaged_request_whose_header_may_be_replaced_is_refused_or_dropped() {
    // To 4 by way of 1, which puts its number behind the two bytes.
    let bytes = REQUEST + 3 * 4 + PREFIX.len() + 4;
    let failed = each_bit(rewriting(15), bytes, |_, _| ());
    assert!(failed > 4 * bytes, "{failed} of {}", 8 * bytes);
}
