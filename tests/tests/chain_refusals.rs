//! Calls that are refused before anything is sent.
//!
//! Numbers are as in the list of scenarios.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{
    Action, BUDGET_MAX, Call, Caps, Config, Data, Life, Machine, Mode, Node, Plan, RegisterError, StartError, Tag,
    Verdict,
};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::{self, BadTree, ROOT, Reason};
use umbra_tests::chain::{End, Planned, SUM, World, sum_over};

fn machine(capacities: Capacities, config: Config) -> Machine<Heap> {
    let mut machine = capacities.machine(config).unwrap();
    machine.register(SUM).unwrap();
    machine
}

fn usual() -> Machine<Heap> {
    machine(Capacities { call_bytes: 4096, ..Capacities::new(300) }, Config::new(Node(0), Life(1)))
}

fn nodes(numbers: impl IntoIterator<Item = u32>) -> Vec<Node> {
    numbers.into_iter().map(Node).collect()
}

/// The call is refused, nothing is sent, and the machine takes the next one.
fn refused(machine: &mut Machine<Heap>, call: &Call<'_>) -> StartError {
    let error = machine.start(call, Time(1)).unwrap_err();
    assert!(machine.poll(Time(1), &mut [0; 1 << 16]).is_none(), "nothing is sent after {error}");
    assert!(machine.is_empty());
    assert!(error.to_string().len() > 10);
    error
}

#[test]
fn s14_doubles() {
    let mut machine = usual();
    let members = nodes([1, 2, 1]);
    let error = refused(&mut machine, &Call::new(SUM, &members));
    assert_eq!(error, StartError::DuplicateId { id: Node(1), first: 1, second: 3 });
    let members = nodes([0, 2, 0]);
    assert!(matches!(refused(&mut machine, &Call::new(SUM, &members)), StartError::DuplicateId { id: Node(0), .. }));
    machine.start(&Call::new(SUM, &nodes([1, 2])), Time(1)).unwrap();
}

#[test]
fn s14_doubles_count_once_if_that_is_wanted() {
    let mut world = World::new(4, 1);
    let members = nodes([1, 2, 1, 0, 2, 0]);
    let mut planned = Planned { root: Node(0), members, ..sum_over(0..4) };
    planned.call.mode = Mode::DEDUP;
    assert!(matches!(world.call(&planned), End::Done { members: 3, .. }));
    let edges: Vec<_> = world.edges.iter().map(|&(_, parent, child)| (parent.0, child.0)).collect();
    assert_eq!((edges, world.made[0].end.as_ref().unwrap().0.sum()), (vec![(0, 1), (0, 2)], Some(3)));
    // Places count those who are left.
    planned.parents = Some(vec![ROOT, 0, 1]);
    assert!(matches!(world.call(&planned), End::Done { members: 3, .. }));
    assert_eq!(world.edges[3].1, Node(1));
    let mut machine = machine(Capacities { call_bytes: 2048, ..Capacities::new(2) }, Config::new(Node(0), Life(1)));
    let many = nodes([1; 100]);
    machine.start(&Call { mode: Mode::DEDUP, ..Call::new(SUM, &many) }, Time(1)).unwrap();
}

#[test]
fn s15_headers_that_are_too_long() {
    let mut machine = usual();
    let header = [0; 1025];
    let call = Call { header: &header, ..Call::new(SUM, &[Node(1)]) };
    assert_eq!(refused(&mut machine, &call), StartError::HeaderTooLong { len: 1025, max: 1024 });
    machine.start(&Call { header: &header[..1024], ..call }, Time(1)).unwrap();
}

#[test]
fn s16_unknown_and_released_functions_and_replies_that_nobody_combines() {
    let mut machine = usual();
    let rare = Tag::of("rare");
    assert_eq!(refused(&mut machine, &Call::new(rare, &[Node(1)])), StartError::UnknownFunc(rare));
    let call = Call { callback: rare, ..Call::new(SUM, &[Node(1)]) };
    assert_eq!(refused(&mut machine, &call), StartError::UnknownCallback(rare));
    let call = Call { caps: Caps { header: 0, data: 8 }, ..Call::new(SUM, &[Node(1)]) };
    assert_eq!(refused(&mut machine, &call), StartError::ReplyWithoutCallback);
    assert_eq!(machine.register(SUM), Err(RegisterError::Taken));
    assert_eq!(machine.register(Tag::NONE), Err(RegisterError::NoTag));
    assert!(machine.unregister(SUM) && !machine.unregister(SUM));
    assert_eq!(refused(&mut machine, &Call::new(SUM, &[Node(1)])), StartError::UnknownFunc(SUM));
    machine.register(SUM).unwrap();
    // The maker alone combines nothing.
    let alone = Call { caps: Caps { header: 0, data: 8 }, ..Call::new(SUM, &[]) };
    machine.start(&alone, Time(1)).unwrap();
}

#[test]
fn a_released_function_keeps_its_place_while_calls_use_it() {
    let mut machine = usual();
    let handle = machine.start(&Call::new(SUM, &[]), Time(1)).unwrap();
    assert!(machine.unregister(SUM));
    assert_eq!(machine.register(SUM), Err(RegisterError::Taken), "a call may still run the old one");
    let mut buffer = vec![0; 1 << 16];
    assert_eq!(machine.poll(Time(1), &mut buffer), Some(Action::Run { handle, function: 0 }));
    machine.finish(handle, Verdict::Done).unwrap();
    assert_eq!(machine.poll(Time(1), &mut buffer), Some(Action::Ended { handle }));
    machine.release(handle).unwrap();
    assert_eq!(machine.poll(Time(1), &mut buffer), None);
    assert_eq!(machine.register(SUM), Ok(0));
}

#[test]
fn s16_unknown_and_dead_members() {
    let mut machine = usual();
    assert_eq!(refused(&mut machine, &Call::new(SUM, &[Node(300)])), StartError::UnknownId(Node(300)));
    machine.on_gone(Node(7), Time(1));
    assert_eq!(refused(&mut machine, &Call::new(SUM, &nodes([3, 7]))), StartError::DeadId(Node(7)));
    machine.on_back(Node(7));
    machine.start(&Call::new(SUM, &nodes([3, 7])), Time(1)).unwrap();
}

#[test]
fn s17_stated_trees_that_are_none() {
    let mut machine = usual();
    let members = nodes(1..4);
    let mut bad = |parents: &[u32]| {
        let call = Call { plan: Plan::Parents(parents), ..Call::new(SUM, &members) };
        match refused(&mut machine, &call) {
            StartError::BadTree(bad) => bad,
            other => panic!("{other}"),
        }
    };
    assert_eq!(bad(&[ROOT, 2, 1, 0]), BadTree { index: 1, reason: Reason::Cycle });
    assert_eq!(bad(&[ROOT, 99, 0, 0]), BadTree { index: 1, reason: Reason::Range });
    assert_eq!(bad(&[ROOT, 0, ROOT, 0]), BadTree { index: 2, reason: Reason::SecondRoot });
    assert_eq!(bad(&[ROOT, 2, 3, 2]), BadTree { index: 1, reason: Reason::Unreachable });
    assert_eq!(bad(&[ROOT, 0, 0]), BadTree { index: 3, reason: Reason::Range });
    // An array has one parent for each; of a list of edges that is found when the array is filled.
    let mut parents = [0; 4];
    let twice = explicit::from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], &mut parents);
    assert_eq!(twice, Err(BadTree { index: 3, reason: Reason::TwoParents }));
    let cycle = |_: u32, at: u32| (at > 0).then_some(at);
    let call = Call { plan: Plan::Function(&cycle), ..Call::new(SUM, &members) };
    assert_eq!(refused(&mut machine, &call), StartError::BadTree(BadTree { index: 1, reason: Reason::Cycle }));
    machine.start(&Call { plan: Plan::Parents(&[ROOT, 0, 1, 1]), ..Call::new(SUM, &members) }, Time(1)).unwrap();
}

#[test]
fn s18_limits_and_what_is_just_within_them() {
    let limits = Config { classes: 4, ..Config::new(Node(0), Life(1)) };
    let mut machine = machine(Capacities { call_bytes: 2048, ..Capacities::new(100) }, limits);
    let members = nodes(1..16);
    let deep = Call { plan: Plan::Shape(Shape::CHAIN), ..Call::new(SUM, &members[..4]) };
    assert_eq!(refused(&mut machine, &deep), StartError::TooDeep { height: 4, max: 3 });
    let handle = machine.start(&Call { members: &members[..3], ..deep }, Time(1)).unwrap();
    machine.cancel(handle).unwrap();
    machine.release(handle).unwrap();
    while machine.poll(Time(1), &mut [0; 4096]).is_some() {}
    let wide = nodes(1..100);
    let flat = Call { plan: Plan::Shape(Shape::FLAT), ..Call::new(SUM, &wide) };
    assert!(matches!(refused(&mut machine, &flat), StartError::TooLarge { needed: 3400..3700, allowed: 2048 }));
    let data = [0; 2048];
    let call = Call { data: Data::Bytes(&data), ..Call::new(SUM, &members[..5]) };
    assert!(matches!(refused(&mut machine, &call), StartError::TooLarge { allowed: 2048, .. }));
    let many: Vec<Node> = (1..200).map(Node).collect();
    assert_eq!(refused(&mut machine, &Call::new(SUM, &many)), StartError::TooMany { members: 200, max: 100 });
    let shape = Shape::kary(5).unwrap();
    let all = Call { plan: Plan::Shape(shape), ..Call::new(SUM, &many[..99]) };
    machine.start(&all, Time(1)).unwrap();
}

#[test]
fn s18_without_memory_to_lay_out_a_list_nobody_fits() {
    let mut machine = machine(Capacities::new(0), Config::new(Node(0), Life(1)));
    for mode in [Mode::empty(), Mode::DEDUP] {
        let call = Call { mode, ..Call::new(SUM, &[]) };
        assert_eq!(refused(&mut machine, &call), StartError::TooMany { members: 1, max: 0 });
    }
}

#[test]
fn s18_as_many_members_and_children_as_can_be_counted() {
    // The list itself and a child of 65,534 each, and not one more.
    let capacities = Capacities { calls: 2, call_bytes: 8 << 20, ..Capacities::new(65_600) };
    let config = Config { message_max: 8 << 20, ..Config::new(Node(0), Life(1)) };
    let mut machine = machine(capacities, config);
    let all = nodes(1..65_599);
    let flat = |members: usize| Call { plan: Plan::Shape(Shape::FLAT), ..Call::new(SUM, &all[..members]) };
    assert_eq!(machine.start(&flat(65_535), Time(1)).unwrap_err(), StartError::FanOut(65_535));
    machine.start(&flat(65_534), Time(1)).unwrap();
}

#[test]
fn s19_a_full_table_takes_calls_again_when_one_has_ended() {
    let config = Config { open_max: 2, ..Config::new(Node(0), Life(1)) };
    let mut machine = machine(Capacities { call_bytes: 4096, ..Capacities::new(4) }, config);
    let members = nodes([1]);
    let call = Call::new(SUM, &members);
    let first = machine.start(&call, Time(1)).unwrap();
    machine.start(&call, Time(1)).unwrap();
    assert_eq!(machine.start(&call, Time(1)), Err(StartError::WouldBlock));
    machine.cancel(first).unwrap();
    machine.release(first).unwrap();
    while machine.poll(Time(1), &mut [0; 4096]).is_some() {}
    machine.start(&call, Time(1)).unwrap();
}

#[test]
fn s41_no_time_is_refused_at_once() {
    let mut machine = usual();
    let call = Call { budget: Lapse(0), ..Call::new(SUM, &[Node(1)]) };
    assert_eq!(refused(&mut machine, &call), StartError::NoTime);
}

#[test]
fn more_time_than_a_request_can_say_is_refused_at_once() {
    let mut machine = usual();
    for budget in [Lapse(BUDGET_MAX.0 + 1), Lapse(u64::MAX)] {
        let call = Call { budget, ..Call::new(SUM, &[Node(1)]) };
        assert_eq!(refused(&mut machine, &call), StartError::TooMuchTime);
    }
    let outer = machine.start(&Call { budget: BUDGET_MAX, ..Call::new(SUM, &[Node(1)]) }, Time(1)).unwrap();
    // A call within another one has the time of that.
    let inner = Call { budget: Lapse(u64::MAX), within: Some(outer), ..Call::new(SUM, &[Node(1)]) };
    machine.start(&inner, Time(1)).unwrap();
}

#[test]
fn a_handle_that_was_released_is_stale() {
    let mut machine = usual();
    let handle = machine.start(&Call::new(SUM, &[Node(1)]), Time(1)).unwrap();
    assert!(machine.release(handle).is_err(), "it goes on");
    assert!(machine.outcome(handle).unwrap().is_none());
    machine.cancel(handle).unwrap();
    assert!(machine.outcome(handle).unwrap().is_some());
    machine.release(handle).unwrap();
    assert!(machine.release(handle).is_err() && machine.cancel(handle).is_err() && machine.outcome(handle).is_err());
}
