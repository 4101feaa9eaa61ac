//! Calls that are refused before anything is sent.
//!
//! Numbers are as in the list of scenarios.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{
    Action, BUDGET_MAX, Call, Caps, Code, Config, Data, Life, Machine, Mode, Node, Outcome, Plan, Record,
    RegisterError, Stage, StartError, Tag, Verdict,
};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::{self, BadTree, ROOT, Reason};
use umbra_tests::chain::check::{failed, origins};
use umbra_tests::chain::{Act, End, Planned, SUM, World, sum_over};

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
fn s18_nothing_hangs_below_the_last_level_that_a_byte_counts() {
    for at_home in [false, true] {
        let config = Config { classes: 0, ..Config::new(Node(0), Life(1)) };
        let capacities = Capacities { calls: 260, call_bytes: 32 << 10, ..Capacities::new(257) };
        let mut world = World::with(1, capacities, config);
        if at_home {
            world.house(0..257);
        }
        let mut chain = sum_over(0..257);
        (chain.call.plan, chain.call.budget) = (Plan::Shape(Shape::CHAIN), Lapse::from_secs(30));
        assert_eq!(world.start(&chain), Err(StartError::TooDeep { height: 256, max: 255 }));
        chain.members.pop();
        assert_eq!(world.call(&chain).sum(), Some((0..256).sum()));
        // The function of the last one makes a call, whose maker would be the next.
        world.script.functions.insert(Node(255), Act::Within);
        let end = world.call(&chain);
        assert_eq!(origins(failed(&end).1), [(255, Stage::Func, Code::Fault)]);
    }
}

/// Has member 0 make a call over a chain, of which member 1 is told that it is so deep; how the call ends, and what runs.
fn told_depth(class: u8, members: &[Node], home: &[Node]) -> (Vec<Record>, u64) {
    let capacities = Capacities { call_bytes: 4096, ..Capacities::new(4) };
    let config = |node| Config { classes: 0, ..Config::new(Node(node), Life(1)) };
    let [mut first, mut second] = [0, 1].map(|node| machine(capacities, config(node)));
    home.iter().for_each(|&node| second.house(node).unwrap());
    let call = Call { plan: Plan::Shape(Shape::CHAIN), at_root: false, ..Call::new(SUM, members) };
    let (handle, mut buffer) = (first.start(&call, Time(1)).unwrap(), vec![0; 1 << 16]);
    for _ in 0..2 {
        while let Some(action) = first.poll(Time(1), &mut buffer) {
            if let Action::Send { from, to, len_bytes } = action {
                buffer[17] = class;
                second.on_message(from, to, &buffer[..len_bytes], Time(1)).unwrap();
            }
        }
        while let Some(action) = second.poll(Time(1), &mut buffer) {
            match action {
                Action::Run { handle, .. } if class == u8::MAX && members.len() == 1 => {
                    let inner = Call { within: Some(handle), ..Call::new(SUM, &[]) };
                    let error = second.start(&inner, Time(1)).unwrap_err();
                    assert_eq!(error, StartError::TooDeep { height: 256, max: 255 });
                    second.finish(handle, Verdict::Fault(1)).unwrap();
                }
                Action::Run { handle, .. } => _ = second.finish(handle, Verdict::Done).unwrap(),
                Action::Send { from, to: Node(0), len_bytes } => {
                    first.on_message(from, Node(0), &buffer[..len_bytes], Time(1)).unwrap();
                }
                other => panic!("{other:?} of a call that ends at its last level"),
            }
        }
    }
    let Some(Outcome::Failed(report)) = first.outcome(handle).unwrap() else { panic!("it goes on") };
    let records = report.records().collect();
    first.release(handle).unwrap();
    assert!(first.poll(Time(1), &mut buffer).is_none() && first.is_empty() && second.is_empty());
    (records, second.figures().runs)
}

#[test]
fn s22_a_request_that_says_that_it_is_deeper_than_a_byte_counts_is_refused() {
    let all = nodes(1..4);
    let record =
        |origin, stage, code, depth, aux, count| Record { origin: Node(origin), stage, code, depth, aux, count };
    // At the last level a member alone does its part, and nobody below it.
    let alone = vec![record(1, Stage::Func, Code::Fault, 255, 1, 1)];
    assert_eq!(told_depth(255, &all[..1], &[]), (alone, 1));
    for home in [&[][..], &all[1..]] {
        let refused = vec![record(1, Stage::Setup, Code::Malformed, 255, 0, 3)];
        assert_eq!(told_depth(255, &all, home), (refused, 0));
    }
    // Whoever comes to it first refuses it: at home or for those elsewhere.
    for home in [&all[1..2], &all[1..]] {
        let refused = vec![record(3, Stage::Setup, Code::Malformed, 255, 0, 1)];
        assert_eq!(told_depth(254, &all, home), (refused, 2));
    }
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
