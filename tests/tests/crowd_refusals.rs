//! Chained calls that are refused before anything is sent.
//!
//! They are made over threads and over processes; each time the next call over everybody is taken. Numbers are as in
//! the list of scenarios; `chain_refusals` has them in the machine alone.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Shape as Place;
use umbra_core::chain::{Call, Caps, Data, Mode, Node, Plan, StartError, Tag};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::{self, BadTree, ROOT, Reason};
use umbra_tests::crowd::{Act, Crowd, Driver, RARE, Room, SUM, Script, sum_over};

umbra_tests::on_every_driver!(
    s14_doubles,
    s15_headers_that_are_too_long,
    s16_unknown_and_released_functions_and_replies_that_nobody_combines,
    s16_unknown_and_dead_members,
    s17_stated_trees_that_are_none,
    s18_limits_and_what_is_just_within_them,
    s19_a_full_table_takes_calls_again_when_one_has_ended,
    s41_no_time_is_refused_at_once,
);

static NONE: Script = Script(Vec::new());

fn nodes(numbers: impl IntoIterator<Item = u32>) -> Vec<Node> {
    numbers.into_iter().map(Node).collect()
}

fn s14_doubles(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    let error = crowd.refused(&Call::new(SUM, &nodes([1, 2, 1])));
    assert_eq!(error, StartError::DuplicateId { id: Node(1), first: 1, second: 3 });
    crowd.settle();
    // Each counts once if that is wanted.
    let twice = nodes([1, 2, 1, 0, 2]);
    let reply = crowd.run(&Call { mode: Mode::DEDUP, ..sum_over(&twice, &NONE) }).unwrap();
    assert_eq!((reply.members, reply.data), (3, 3_u64.to_le_bytes().to_vec()));
    assert_eq!(crowd.settle().parents(), [(1, 0), (2, 0)]);
}

fn s15_headers_that_are_too_long(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    let (header, all) = ([0; 1025], crowd.all());
    let call = Call { header: &header, ..sum_over(&all, &NONE) };
    assert_eq!(crowd.refused(&call), StartError::HeaderTooLong { len: 1025, max: 1024 });
    assert_eq!(crowd.run(&Call { header: &header[..1024], ..call }).unwrap().members, 4);
    crowd.settle();
}

fn s16_unknown_and_released_functions_and_replies_that_nobody_combines(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    let (unknown, all) = (Tag::of("nobody's"), crowd.all());
    assert_eq!(crowd.refused(&Call::new(unknown, &all)), StartError::UnknownFunc(unknown));
    let call = Call { callback: unknown, ..Call::new(SUM, &all) };
    assert_eq!(crowd.refused(&call), StartError::UnknownCallback(unknown));
    let call = Call { caps: Caps { header: 0, data: 8 }, ..Call::new(SUM, &all) };
    assert_eq!(crowd.refused(&call), StartError::ReplyWithoutCallback);
    // The others have it, the maker not any more.
    let rare = Call { budget: Lapse::from_secs(30), ..Call::new(RARE, &all) };
    assert_eq!(crowd.run(&rare).unwrap().members, 4);
    assert!(crowd.first.member.unregister("rare"));
    assert_eq!(crowd.refused(&rare), StartError::UnknownFunc(RARE));
    crowd.settle();
}

fn s16_unknown_and_dead_members(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    assert_eq!(crowd.refused(&Call::new(SUM, &nodes([1, 4]))), StartError::UnknownId(Node(4)));
    crowd.kill(2);
    // As soon as the maker has looked who has died.
    crowd.first.serve(std::time::Duration::from_millis(500), || false);
    let before = crowd.first.member.figures().requests;
    let error = crowd.first.member.start(&Call::new(SUM, &nodes([1, 2]))).unwrap_err();
    assert_eq!((error, crowd.first.member.figures().requests), (StartError::DeadId(Node(2)), before));
    // Unless the dead are left out.
    let listed = nodes([1, 2, 3]);
    let reply = crowd.run(&Call { mode: Mode::SKIP_DEAD, ..sum_over(&listed, &NONE) }).unwrap();
    assert_eq!((reply.members, &reply.skipped, &reply.data), (3, &nodes([2]), &4_u64.to_le_bytes().to_vec()));
    assert_eq!(reply.left_out().unwrap().to_string(), "left out, as dead: 2");
    let fault = Script::new().func(3, Act::Fault(7));
    let failure = crowd.run(&Call { mode: Mode::SKIP_DEAD, ..sum_over(&listed, &fault) }).unwrap_err();
    assert_eq!((failure.tallies.unreached, failure.unreached), (1, nodes([2])));
    assert_eq!(crowd.sum(&nodes([0, 1, 3])), 4);
    crowd.again(2);
    assert_eq!(crowd.sum(&nodes(0..4)), 6);
    crowd.settle();
}

fn s17_stated_trees_that_are_none(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    let members = nodes(1..4);
    let bad = [
        (&[ROOT, 2, 1, 0][..], 1, Reason::Cycle),
        (&[ROOT, 99, 0, 0], 1, Reason::Range),
        (&[ROOT, 0, ROOT, 0], 2, Reason::SecondRoot),
        (&[ROOT, 2, 3, 2], 1, Reason::Unreachable),
        (&[ROOT, 0, 0], 3, Reason::Range),
    ];
    for (parents, index, reason) in bad {
        let call = Call { plan: Plan::Parents(parents), ..sum_over(&members, &NONE) };
        assert_eq!(crowd.refused(&call), StartError::BadTree(BadTree { index, reason }));
    }
    // Two parents can be said by edges only, of which no parents can be made.
    let mut parents = [0; 4];
    let twice = explicit::from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], &mut parents);
    assert_eq!(twice, Err(BadTree { index: 3, reason: Reason::TwoParents }));
    let cycle = |_: u32, at: u32| (at > 0).then_some(at);
    let call = Call { plan: Plan::Function(&cycle), ..sum_over(&members, &NONE) };
    assert_eq!(crowd.refused(&call), StartError::BadTree(BadTree { index: 1, reason: Reason::Cycle }));
    explicit::from_edges([(1, 3), (0, 1), (1, 2)], &mut parents).unwrap();
    let call = Call { plan: Plan::Parents(&parents), ..call };
    crowd.settle();
    assert_eq!(crowd.run(&call).unwrap().data, 6_u64.to_le_bytes());
    assert_eq!(crowd.settle().parents(), [(1, 0), (2, 1), (3, 1)]);
}

fn s18_limits_and_what_is_just_within_them(driver: Driver) {
    let place = Place { message_bytes: 32 << 10, ..Place::new(6) };
    let mut crowd = Crowd::with(driver, place, |_| Room { classes: 4, ..Room::USUAL });
    let all = crowd.all();
    // Four classes: three levels below the maker.
    let deep = Call { plan: Plan::Shape(Shape::CHAIN), ..sum_over(&all[..5], &NONE) };
    assert_eq!(crowd.refused(&deep), StartError::TooDeep { height: 4, max: 3 });
    assert_eq!(crowd.run(&Call { members: &all[..4], ..deep }).unwrap().data, 6_u64.to_le_bytes());
    // What a call needs in all, list and replies included, is found at its limit.
    let data = vec![0; 24 << 10];
    let with = |len: usize| Call { data: Data::Bytes(&data[..len]), ..sum_over(&all, &NONE) };
    let StartError::TooLarge { needed, allowed } = crowd.refused(&with(24 << 10)) else { panic!("it fits") };
    assert_eq!(allowed, 24 << 10);
    let fits = (24 << 10) - (needed - allowed);
    assert_eq!(crowd.run(&with(fits)).unwrap().data, 15_u64.to_le_bytes());
    assert!(matches!(crowd.refused(&with(fits + 8)), StartError::TooLarge { .. }));
    // As many as there are seats take part, and not one more; all of them may have one parent.
    let flat = Call { plan: Plan::Shape(Shape::FLAT), ..sum_over(&all, &NONE) };
    assert_eq!(crowd.run(&flat).unwrap().members, 6);
    let seven = nodes(0..7);
    assert_eq!(crowd.refused(&Call { members: &seven, ..flat }), StartError::TooMany { members: 7, max: 6 });
    crowd.settle();
}

fn s19_a_full_table_takes_calls_again_when_one_has_ended(driver: Driver) {
    let mut crowd = Crowd::with(driver, Place { message_bytes: 16 << 10, ..Place::new(4) }, |node| Room {
        open_max: if node == 0 { 2 } else { 32 },
        ..Room::USUAL
    });
    let (all, slow) = (crowd.all(), Script::new().func(3, Act::Slow(30)));
    let call = sum_over(&all, &slow);
    let first = crowd.first.member.start(&call).unwrap();
    let second = crowd.first.member.start(&call).unwrap();
    let before = crowd.first.member.figures().requests;
    assert_eq!(crowd.first.member.start(&call), Err(StartError::WouldBlock));
    assert_eq!(crowd.first.member.figures().requests, before, "nothing is sent for it");
    assert_eq!(crowd.end(first, &all).unwrap().data, 6_u64.to_le_bytes());
    let third = crowd.first.member.start(&call).unwrap();
    for handle in [second, third] {
        assert_eq!(crowd.end(handle, &all).unwrap().data, 6_u64.to_le_bytes());
    }
    assert_eq!(crowd.settle().began().len(), 12, "whatever was refused ran nowhere");
}

fn s41_no_time_is_refused_at_once(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    let all = crowd.all();
    assert_eq!(crowd.refused(&Call { budget: Lapse(0), ..sum_over(&all, &NONE) }), StartError::NoTime);
    crowd.settle();
}
