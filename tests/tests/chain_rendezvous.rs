//! Replies that are longer than a message, in a simulated world.
//!
//! They are read late, given up, gone, or without memory.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{Action, Call, Caps, Code, Config, Life, Mode, Node, Plan, Stage, Verdict, peek_reply};
use umbra_core::key::{Key, Span};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_tests::chain::check::{failed, origins};
use umbra_tests::chain::explore::{Clock, every_order};
use umbra_tests::chain::{Act, End, Fates, Planned, SUM, World, long_sum_over};

const WORDS: u32 = 500;
const MILLI: Lapse = Lapse::from_millis(1);

/// Members one below the other.
fn chain(members: u32) -> Planned {
    let mut planned = long_sum_over(0..members, WORDS);
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    planned
}

/// A world in which messages take 10 us, and user code as long at most.
fn slow(members: u32, seed: u64) -> World {
    let mut world = World::new(members, seed);
    world.network.delay = Lapse::from_micros(10);
    world.network.work = Lapse::from_micros(10);
    world
}

/// Makes a call and lets everything happen; how it ended, if its maker lives.
fn run(world: &mut World, planned: &Planned) -> Option<End> {
    let at = world.start(planned).unwrap();
    world.run(Lapse::from_secs(60));
    world.check().unwrap();
    Some(world.made[at].end.clone()?.0)
}

#[test]
fn a_long_reply_takes_two_messages_a_member_and_is_read_where_it_lies() {
    let mut world = World::new(15, 1);
    let end = world.call(&long_sum_over(0..15, WORDS));
    assert!(matches!(&end, End::Done { data, members: 15, .. } if data.len() == 8 * WORDS as usize));
    assert_eq!((end.sum(), world.messages), (Some(105), 28));
    assert_eq!(world.fates(), Fates { laid: 14, read: 14, ..Fates::default() });
    assert_eq!(world.figures().response_bytes, 14 * (48 + 24));
}

#[test]
fn members_that_live_together_lay_nothing_out() {
    // Of those below the other machine, and of all.
    for (first, laid) in [(7, 14), (3, 6), (0, 0)] {
        let mut world = World::new(15, 1);
        world.house(first..15);
        assert_eq!(world.call(&long_sum_over(0..15, WORDS)).sum(), Some(105));
        assert_eq!((world.messages, world.fates().laid), (2 * laid, laid), "from {first} on");
    }
}

#[test]
fn what_has_to_wait_for_another_reply_is_copied_and_its_memory_is_free() {
    let mut world = World::new(9, 1);
    world.script.functions.insert(Node(1), Act::Slow(MILLI));
    let mut planned = long_sum_over(0..9, WORDS);
    (planned.call.plan, planned.call.mode) = (Plan::Shape(Shape::FLAT), Mode::RENDEZVOUS | Mode::ORDERED);
    assert_eq!(world.call(&planned).sum(), Some(36));
    assert_eq!((world.fates(), world.messages), (Fates { laid: 8, read: 1, copied: 7, ..Fates::default() }, 16));
}

#[test]
fn a_parent_that_is_not_done_with_its_own_part_copies_what_comes() {
    let mut world = World::new(3, 1);
    world.script.functions.insert(Node(1), Act::Slow(MILLI));
    let mut planned = chain(3);
    planned.call.mode |= Mode::CUT_THROUGH;
    assert_eq!(world.call(&planned).sum(), Some(3));
    assert_eq!((world.fates(), world.messages), (Fates { laid: 2, read: 1, copied: 1, ..Fates::default() }, 4));
}

#[test]
fn the_memory_for_a_parent_that_dies_while_it_reads_is_given_back() {
    let mut dead_readers = 0;
    for after in 0..60 {
        let mut world = slow(3, 1);
        world.kill_after(Lapse::from_micros(after), Node(1));
        let end = run(&mut world, &chain(3)).unwrap();
        if end.sum().is_none() {
            assert_eq!(origins(failed(&end).1).len(), 1);
            assert_eq!((failed(&end).1[0].origin, failed(&end).1[0].code), (Node(1), Code::PeerDead));
        }
        if world.fates() == (Fates { laid: 1, unwanted: 1, ..Fates::default() }) {
            // Two requests and the answer of the last.
            assert_eq!(world.messages, 3);
            dead_readers += 1;
        }
    }
    assert!(dead_readers > 5, "{dead_readers}");
}

#[test]
fn a_reply_that_is_gone_is_named_where_it_was_to_be_read() {
    let mut gone = 0;
    for after in 0..60 {
        let mut world = slow(3, 1);
        world.kill_after(Lapse::from_micros(after), Node(2));
        world.restart_after(Lapse::from_micros(after), Node(2));
        let end = run(&mut world, &chain(3)).unwrap();
        if world.fates().gone > 0 {
            assert_eq!(origins(failed(&end).1), [(1, Stage::Callback, Code::ReplyGone)]);
            assert_eq!((failed(&end).1[0].aux, world.messages), (2, 4));
            gone += 1;
        }
    }
    assert!(gone > 0);
}

#[test]
fn a_maker_that_gives_up_while_an_answer_is_on_its_way_has_its_memory_given_back() {
    let mut world = slow(2, 1);
    world.network.work = Lapse(0);
    let at = world.start(&chain(2)).unwrap();
    let handle = world.made[at].handle;
    world.cancel_after(Lapse::from_micros(15), Node(0), handle);
    world.run(Lapse::from_secs(60));
    world.check().unwrap();
    assert_eq!(origins(world.made[at].end.as_ref().unwrap().0.records()), [(0, Stage::Cancelled, Code::Cancelled)]);
    // The request, the answer, and that it is not wanted.
    assert_eq!((world.messages, world.fates()), (3, Fates { laid: 1, unread: 1, ..Fates::default() }));
}

#[test]
fn a_maker_that_gives_up_while_a_child_waits_for_memory_has_nothing_laid_out() {
    let mut world = World::new(2, 1);
    world.lack_memory(Node(1), Lapse::from_millis(50));
    let at = world.start(&chain(2)).unwrap();
    let handle = world.made[at].handle;
    world.cancel_after(Lapse::from_millis(10), Node(0), handle);
    world.run(Lapse::from_secs(60));
    world.check().unwrap();
    assert_eq!(origins(world.made[at].end.as_ref().unwrap().0.records()), [(0, Stage::Cancelled, Code::Cancelled)]);
    assert_eq!((world.messages, world.fates()), (3, Fates { waited: 1, ..Fates::default() }));
    assert_eq!(world.figures().stale, 1, "the answer comes all the same, and nobody wants it");
}

#[test]
fn an_answer_waits_for_memory_in_the_middle_of_a_tree() {
    let mut world = World::new(7, 1);
    world.lack_memory(Node(1), Lapse::from_millis(30));
    assert_eq!(world.call(&long_sum_over(0..7, WORDS)).sum(), Some(21));
    assert_eq!((world.messages, world.fates()), (12, Fates { laid: 6, read: 6, waited: 1, ..Fates::default() }));
    assert!(world.made[0].end.as_ref().unwrap().1 >= Time::ZERO + Lapse::from_millis(30));
}

#[test]
fn one_that_waits_for_memory_is_not_silent() {
    let config = Config { ask: MILLI, silence: Lapse::from_millis(10), ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { call_bytes: 4096, ..Capacities::new(7) }, config);
    world.lack_memory(Node(1), Lapse::from_millis(300));
    assert_eq!(world.call(&long_sum_over(0..7, WORDS)).sum(), Some(21));
    let Fates { laid: 6, read: 6, waited: 1, asked, .. } = world.fates() else { panic!("{:?}", world.fates()) };
    // Twelve messages, and a question each time with the word that it waits, but for the last: its answer has gone.
    assert_eq!((world.messages, world.figures().repeated, asked > 290), (12 + 2 * (asked + 1), asked + 1, true));
}

#[test]
fn one_that_finds_no_memory_in_time_is_named_by_its_parent() {
    let mut world = World::new(7, 1);
    world.lack_memory(Node(1), Lapse::from_secs(30));
    let end = world.call(&long_sum_over(0..7, WORDS));
    assert_eq!(origins(failed(&end).1), [(1, Stage::Child, Code::Timeout)]);
    assert!(world.made[0].end.as_ref().unwrap().1 <= Time::ZERO + Lapse::from_secs(1));
    assert_eq!((world.messages, world.fates()), (11, Fates { laid: 5, read: 5, waited: 1, ..Fates::default() }));
}

#[test]
fn memory_for_one_reply_is_enough_for_many_calls_that_cross() {
    let mut world = World::new(8, 1);
    world.reply_room(8 * WORDS as usize);
    for root in 0..8 {
        let mut planned = long_sum_over((0..8).map(|at| (root + at) % 8), WORDS);
        planned.call.mode |= Mode::ORDERED;
        world.start(&planned).unwrap();
    }
    world.run(Lapse::from_secs(60));
    world.check().unwrap();
    assert!(world.made.iter().all(|made| made.end.as_ref().unwrap().0.sum() == Some(28)));
    assert_eq!((world.messages, world.fates().laid), (8 * 14, 8 * 7));
    assert!(world.fates().waited > 0);
}

#[test]
fn an_answer_says_how_long_its_parent_has_and_not_longer() {
    for members in 2..8 {
        let mut world = World::new(members, 1);
        world.spy = true;
        world.call(&chain(members));
        let answers = world.heard.iter().filter_map(|(to, bytes)| Some((to.0, peek_reply(bytes)?.budget)));
        let second = Lapse::from_secs(1).0;
        for (to, budget) in answers {
            // A sixteenth is kept for reports, divided by the levels; messages take no more than the rest.
            let kept = |left: u64, level: u32| left - left / (16 * u64::from(members - level));
            let left = (0..to).fold(second, kept);
            assert!(budget.0 <= left && budget.0 > left - 100_000, "{budget:?} of {left} for {to} of {members}");
        }
    }
}

/// Its function ends at the moment at which its time is over.
#[test]
fn an_answer_at_the_last_moment_is_not_kept_beyond_the_time_of_the_call() {
    let span = Span { key: Key::from_bits(1), offset: 0, len: 9 };
    let mut buffer = vec![0; 64 << 10];
    let [mut maker, mut child] = [0, 1].map(|node| {
        let mut machine = Capacities::new(2).machine(Config::new(Node(node), Life(1))).unwrap();
        machine.register(SUM).unwrap();
        machine
    });
    let (caps, mode) = (Caps { header: 0, data: 9 }, Mode::RENDEZVOUS);
    let call = Call { callback: SUM, caps, mode, at_root: false, ..Call::new(SUM, &[Node(1)]) };
    maker.start(&call, Time(1)).unwrap();
    let Some(Action::Send { len_bytes, .. }) = maker.poll(Time(1), &mut buffer) else { panic!() };
    child.on_message(Node(0), Node(1), &buffer[..len_bytes], Time(1)).unwrap();
    let Some(Action::Run { handle, .. }) = child.poll(Time(1), &mut buffer) else { panic!() };
    child.work(handle).unwrap().reply.set_span(span).unwrap();
    child.finish(handle, Verdict::Done).unwrap();
    let over = child.deadline().unwrap();
    child.on_time(over);
    let Some(Action::Send { len_bytes, .. }) = child.poll(over, &mut buffer) else { panic!() };
    let until = over + peek_reply(&buffer[..len_bytes]).unwrap().budget;
    assert!(until <= maker.deadline().unwrap(), "{until:?}");
}

#[test]
fn all_orders_of_a_call_with_long_replies_end_with_the_sum() {
    for (shape, members) in [(Shape::BINARY, 3), (Shape::CHAIN, 3), (Shape::CHAIN, 4)] {
        for mode in [Mode::empty(), Mode::CUT_THROUGH, Mode::ORDERED] {
            let sum = u64::from(members * (members - 1) / 2);
            let orders = every_order(
                Clock::Last,
                || started(members, shape, mode, |_| {}),
                |world| {
                    if world.made[0].end.as_ref().unwrap().0.sum() == Some(sum) { Ok(()) } else { Err("no sum".into()) }
                },
            );
            assert!(orders.unwrap() > 0);
        }
    }
}

#[test]
fn a_death_at_any_moment_of_such_a_call_leaves_no_memory_behind() {
    let mut orders = 0;
    for (shape, victim) in [Shape::BINARY, Shape::CHAIN].into_iter().flat_map(|shape| (0..3).map(move |at| (shape, at)))
    {
        let build = || started(3, shape, Mode::empty(), |world| world.kill_after(Lapse(0), Node(victim)));
        orders += every_order(Clock::Last, build, |_| Ok(())).unwrap();
    }
    assert!(orders > 100, "{orders}");
}

/// A world in which such a call is under way and messages may overtake each other.
fn started(members: u32, shape: Shape, mode: Mode, change: impl Fn(&mut World)) -> World {
    let mut world = World::new(members, 1);
    world.network.reorder = true;
    change(&mut world);
    let mut planned = long_sum_over(0..members, 1);
    (planned.call.plan, planned.call.mode) = (Plan::Shape(shape), mode | Mode::RENDEZVOUS);
    world.start(&planned).unwrap();
    world
}
