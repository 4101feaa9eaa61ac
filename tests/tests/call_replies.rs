//! Replies that are longer than a message.
//!
//! They stay with whoever wrote them until they are combined.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use umbra::call::{Member, OfferError, Shape, Station, Window};
use umbra_core::chain::{
    Call, Caps, Code, Config, Data, Mode, Node, Phase, Plan, RESPONSE, Stage, StartError, Tag, Verdict, Work,
};
use umbra_core::key::{Key, Span};
use umbra_core::memory::AllocError;
use umbra_core::peer::{Peer, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::tree;
use umbra_tests::call::{
    Act, GONE, JOIN, Together, call, cross, header, member, member_with, offer_all, scaled, scaled_sum, vector_of,
    vectors, vectors_sum, words_of,
};
use umbra_tests::crowd::wire::Wire;

const MIB: u32 = 1 << 20;

/// Bytes of an answer without data, and of the span of a reply in it.
const ANSWER: u64 = 48 + 24;

fn together(members: u16, offer_bytes: u64) -> Together {
    let station = Station::create("replies", Shape { offer_bytes, ..Shape::new(members) }).unwrap();
    Together((0..u32::from(members)).map(|node| member(&station, Node(node), 8)).collect())
}

/// Bytes of all answers so far.
fn answered(crowd: &Together) -> u64 {
    crowd.0.iter().map(|member| member.figures().response_bytes).sum()
}

fn nodes(count: u16) -> Vec<Node> {
    (0..u32::from(count)).map(Node).collect()
}

#[test]
fn s60_a_mebibyte_of_each_of_nine_members_is_summed_over_any_tree() {
    let (all, mut crowd) = (nodes(9), together(9, MIB.into()));
    let sum = vectors_sum(&all, MIB);
    let shapes = [tree::Shape::FLAT, tree::Shape::BINARY, tree::Shape::BINOMIAL, tree::Shape::CHAIN];
    for plan in shapes.map(Plan::Shape).into_iter().chain([Plan::Auto]) {
        let before = answered(&crowd);
        let reply = crowd.run(&Call { plan, ..vectors(&all, &[], MIB) }).unwrap();
        assert_eq!(reply.members, 9);
        assert!(reply.data == sum, "{plan:?}");
        assert_eq!(answered(&crowd) - before, 8 * ANSWER, "{plan:?}");
    }
}

#[test]
fn replies_that_are_gathered_may_be_longer_than_a_message() {
    let (all, mut crowd) = (nodes(7), together(7, MIB.into()));
    let data: Vec<u8> = (0..1000_u32).map(|at| at as u8).collect();
    let caps = Caps { header: 0, data: 7000 };
    let join = Tag::of(JOIN);
    let wanted = Call { func: join, callback: join, data: Data::Bytes(&data), caps, ..call(&all, &[]) };
    assert_eq!(crowd.run(&wanted).unwrap().data, data.repeat(7));
    // Two of them only: nothing is left of the longer one.
    let fewer = Call { members: &all[1..2], caps: Caps { header: 0, data: 6000 }, ..wanted };
    assert_eq!(crowd.run(&fewer).unwrap().data, data.repeat(2));
    // Nothing at all.
    let nothing = Call { data: Data::Bytes(&[]), ..wanted };
    assert_eq!(crowd.run(&nothing).unwrap().data, []);
    // Who has few bytes to say may do it so as well.
    let short = Call { mode: Mode::RENDEZVOUS, ..vectors(&all, &[], 8) };
    assert_eq!(crowd.run(&short).unwrap().data, vectors_sum(&all, 8));
}

#[test]
fn s28_a_long_reply_that_is_longer_than_allowed_fails_at_its_member() {
    let (all, mut crowd) = (nodes(5), together(5, MIB.into()));
    for node in all.iter().copied() {
        let failure = crowd.run(&vectors(&all, &header(node, Act::Fault), 80_000)).unwrap_err();
        let record = failure.records[0];
        let told = (record.origin, record.stage, record.code, record.aux);
        assert_eq!(told, (node, Stage::Reply, Code::ReplyTooLarge, 80_008), "{failure}");
    }
    // Nothing of it is left.
    assert!(crowd.run(&vectors(&all, &[], 80_000)).unwrap().data == vectors_sum(&all, 80_000));
}

#[test]
fn a_reply_for_which_no_member_has_memory_is_refused_before_anything_is_sent() {
    let (all, mut crowd) = (nodes(3), together(3, 100_000));
    let refused = |needed, allowed| Err(StartError::TooLarge { needed, allowed });
    let wanted = Call { mode: Mode::RENDEZVOUS, ..vectors(&all, &[], 100_008) };
    assert_eq!(crowd.0[0].start(&wanted), refused(100_008, 100_000));
    assert!(matches!(crowd.0[0].start(&vectors(&all, &[], 100_008)), Err(StartError::TooLarge { .. })));
    assert!(crowd.run(&vectors(&all, &[], 100_000)).unwrap().data == vectors_sum(&all, 100_000));
    let mut without = together(3, 0);
    assert!(matches!(without.0[0].start(&vectors(&all, &[], 5000)), Err(StartError::TooLarge { .. })));
    assert_eq!(without.0[0].calls(), 0);
}

#[test]
fn answers_wait_for_memory_and_the_calls_of_everybody_to_everybody_end() {
    // Everybody calls everybody, several times at once, with memory for one reply each.
    let bytes = 60_000;
    let (all, mut crowd) = (nodes(4), together(4, bytes.into()));
    for plan in [Plan::Shape(tree::Shape::FLAT), Plan::Shape(tree::Shape::CHAIN)] {
        for _ in 0..10 {
            let mut begun = Vec::new();
            for maker in 0..4 {
                for _ in 0..2 {
                    let handle = crowd.0[maker].start(&Call { plan, ..vectors(&all, &[], bytes) }).unwrap();
                    begun.push((maker, handle));
                }
            }
            for (maker, handle) in begun {
                let reply = crowd.end(maker, handle).unwrap_or_else(|failure| panic!("{failure}"));
                assert!(reply.data == vectors_sum(&all, bytes));
            }
        }
    }
}

/// Bytes of one offer, and of one reply, where each member has memory for one of each.
const FULL: u64 = 480 * 128;

#[test]
fn calls_of_everybody_to_everybody_end_though_all_that_can_be_offered_is() {
    let (all, mut crowd) = (nodes(4), together(4, FULL));
    for round in 0..9 {
        let mut begun = Vec::new();
        for (maker, member) in crowd.0.iter_mut().enumerate() {
            let (offer, data) = offer_all(member, (10 * round + maker) as u64 + 1);
            let handle = member.start(&scaled(offer.data(), FULL, &all, round)).unwrap();
            begun.push((maker, handle, offer, data));
        }
        // No offer is taken back before the last of these calls is over.
        for (maker, handle, _, data) in &begun {
            let reply = crowd.end(*maker, *handle).unwrap_or_else(|failure| panic!("round {round}: {failure}"));
            assert!(reply.data == scaled_sum(data, &all), "round {round} of {maker}");
        }
        begun.into_iter().for_each(|(maker, _, offer, _)| crowd.0[maker].take_back(offer));
    }
}

#[test]
fn threads_that_offer_all_they_can_to_each_other_have_long_replies_of_each_other() {
    let (all, station) = (nodes(5), Station::create("replies", Shape { offer_bytes: FULL, ..Shape::new(5) }).unwrap());
    let (over, ready) = (AtomicU32::new(0), Barrier::new(5));
    std::thread::scope(|scope| {
        for node in &all {
            let (all, station, over, ready) = (&all, &station, &over, &ready);
            scope.spawn(move || {
                let mut member = member(station, *node, 32);
                ready.wait();
                cross(&mut member, all, 18);
                over.fetch_add(1, Ordering::Relaxed);
                member.serve_until(Duration::from_secs(30), |_| over.load(Ordering::Relaxed) == 5);
            });
        }
    });
    assert_eq!(over.into_inner(), 5);
}

const FLAT: Plan<'static> = Plan::Shape(tree::Shape::FLAT);

/// The replies of a call that are combined in the order of its list, child by child.
fn in_order<'a>(members: &'a [Node], header: &'a [u8], bytes: u32) -> Call<'a> {
    Call { plan: FLAT, mode: Mode::ORDERED, ..vectors(members, header, bytes) }
}

#[test]
fn calls_that_combine_in_opposite_orders_do_not_wait_for_each_others_memory() {
    // Each has its second reply first, where there is memory for one.
    let (bytes, mut crowd) = (60_000, together(4, 60_000));
    let (first, second) = ([0, 2, 3].map(Node), [1, 3, 2].map(Node));
    let (late, later) = (header(Node(2), Act::Wait), header(Node(3), Act::Wait));
    let one = crowd.0[0].start(&in_order(&first, &late, bytes)).unwrap();
    let other = crowd.0[1].start(&in_order(&second, &later, bytes)).unwrap();
    for (maker, handle, members) in [(0, one, first), (1, other, second)] {
        let reply = crowd.end(maker, handle).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(reply.data == vectors_sum(&members, bytes));
    }
}

#[test]
fn members_that_live_together_do_not_wait_for_the_memory_that_the_next_of_them_has() {
    let bytes = 60_000;
    let station = Station::create("replies", Shape { offer_bytes: bytes.into(), ..Shape::new(4) }).unwrap();
    let mut crowd = Together(vec![member(&station, Node(0), 8), member(&station, Node(1), 8)]);
    for node in [2, 3].map(Node) {
        crowd.0[1].house(node).unwrap();
    }
    let (members, late) = ([0, 2, 3].map(Node), header(Node(2), Act::Wait));
    for _ in 0..3 {
        let reply = crowd.run(&in_order(&members, &late, bytes)).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(reply.data == vectors_sum(&members, bytes));
    }
}

#[test]
fn a_reply_that_came_before_its_parent_is_done_keeps_no_memory_from_what_that_waits_for() {
    let (bytes, mut crowd) = (60_000, together(3, 60_000));
    let far = [Node(2)];
    crowd.0[1]
        .register_local("long", move |work, local| {
            if local.begun() == 0 {
                // Its child has answered before this one does.
                let wanted = vectors(&far, work.header, bytes);
                return if local.begin(&wanted).is_ok() { Verdict::Pending } else { Verdict::Fault(1) };
            }
            match local.answer(0) {
                Some(Ok(reply)) if work.reply.set_data(&reply.data).is_ok() => Verdict::Done,
                _ => Verdict::Fault(2),
            }
        })
        .unwrap();
    for node in [0, 2] {
        crowd.0[node]
            .register("long", move |work| {
                let data: Vec<u8> = vector_of(work.node, bytes as usize).flat_map(u64::to_le_bytes).collect();
                if work.reply.set_data(&data).is_ok() { Verdict::Done } else { Verdict::Fault(3) }
            })
            .unwrap();
    }
    let (all, late) = (nodes(3), header(Node(2), Act::Wait));
    let chain = Plan::Shape(tree::Shape::CHAIN);
    let wanted = Call { plan: chain, func: Tag::of("long"), mode: Mode::CUT_THROUGH, ..vectors(&all, &late, bytes) };
    let reply = crowd.run(&wanted).unwrap_or_else(|failure| panic!("{failure}"));
    // The first, the second, which sums its own and the third, and the third once more.
    assert!(reply.data == vectors_sum(&[0, 1, 2, 2].map(Node), bytes));
}

/// One member has a reply of another, and does not look at it before its next turn: it takes all the memory there.
fn leave_unread(reader: &mut Member, writer: &mut Member, bytes: u32) {
    let before = writer.offered_bytes();
    reader.start(&vectors(&[writer.node()], &[], bytes)).unwrap();
    writer.turn();
    assert_eq!(writer.offered_bytes() - before, bytes.into());
}

#[test]
fn an_answer_that_waits_for_memory_is_no_silence_and_waits_once() {
    let bytes = 60_000;
    let station = Station::create("replies", Shape { offer_bytes: bytes.into(), ..Shape::new(3) }).unwrap();
    // Longer than a loaded machine keeps a thread from its turn.
    let silence = Lapse::from_millis(1500);
    let settings = |config| Config { ask: Lapse::from_millis(200), silence, classes: 0, ..config };
    let members = [0, 1].map(|node| member_with(&station, Node(node), 8, settings));
    let (mut crowd, mut third) = (Together(members.into()), member(&station, Node(2), 8));
    leave_unread(&mut third, &mut crowd.0[1], bytes);
    let handle = crowd.0[0].start(&vectors(&nodes(2), &[], bytes)).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert!(!crowd.0[0].test(handle).unwrap(), "{:?}", crowd.0[0].wait(handle, Duration::ZERO));
        crowd.turn();
        std::thread::sleep(Duration::from_micros(200));
    }
    // A question that is on its way has the answer again, so the answer goes when none is.
    let asked = crowd.0[0].figures().asks;
    while crowd.0[0].figures().asks == asked {
        assert!(!crowd.0[0].test(handle).unwrap(), "{:?}", crowd.0[0].wait(handle, Duration::ZERO));
        crowd.turn();
    }
    crowd.turn();
    let before = answered(&crowd);
    third.turn();
    let reply = crowd.end(0, handle).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(reply.data == vectors_sum(&nodes(2), bytes));
    // What waited went once.
    (0..10).for_each(|_| crowd.turn());
    assert_eq!(crowd.0[0].figures().stale + crowd.0[0].figures().malformed, 0);
    assert_eq!(answered(&crowd), before);
}

#[test]
fn a_stream_goes_on_while_a_reply_of_its_member_is_to_be_read() {
    let bytes = 60_000;
    let mut crowd = together(2, bytes.into());
    let (far, all) = ([Node(1)], nodes(2));
    // The reply of the first lies there until the second reads it.
    let handle = crowd.0[1].start(&Call { plan: FLAT, ..vectors(&all, &[], bytes) }).unwrap();
    crowd.0[0].turn();
    assert_eq!(crowd.0[0].offered_bytes(), bytes.into());
    let (offer, full) = (crowd.0[0].offer(&[1; 60_000]).unwrap(), crowd.0[0].offer(&[1; 60_000]).unwrap_err());
    assert!(matches!(full, OfferError::Memory(AllocError::OutOfMemory { .. })), "{full}");
    crowd.0[0].take_back(offer);
    let Together(members) = crowd;
    let [mut first, mut second] = <[Member; 2]>::try_from(members).unwrap();
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let reply = second.wait(handle, Duration::from_secs(20)).unwrap();
        second.serve_until(Duration::from_secs(20), |member| member.figures().responses >= 2);
        reply.data
    });
    let window = Window { segment: bytes as usize, calls: 2, patience: Duration::from_secs(20) };
    let (data, mut sums) = (vec![1; 2 * bytes as usize], Vec::new());
    first.stream(&words_of(Data::Bytes(&[]), &far, &[]), &data, window, |_, reply| sums.push(reply.data)).unwrap();
    let sum = u64::from_le_bytes([1; 8]).wrapping_mul(2 * u64::from(bytes) / 8).to_le_bytes();
    assert_eq!(sums, [sum, sum]);
    assert!(other.join().unwrap() == vectors_sum(&all, bytes));
}

#[test]
fn a_stream_leaves_room_for_answers_of_its_member() {
    const SEGMENTS: u64 = 200;
    let bytes = 60_000;
    let Together(members) = together(2, bytes.into());
    let [mut first, mut second] = <[Member; 2]>::try_from(members).unwrap();
    let other = std::thread::spawn(move || {
        let all = nodes(2);
        second.serve_until(Duration::from_secs(20), |member| member.figures().runs > 0);
        let handle = second.start(&Call { plan: FLAT, ..vectors(&all, &[], bytes) }).unwrap();
        let reply = second.wait(handle, Duration::from_secs(20)).unwrap();
        let seen = second.figures().responses;
        second.serve_until(Duration::from_secs(20), |member| member.figures().responses >= SEGMENTS);
        (reply.data == vectors_sum(&all, bytes), seen)
    });
    // Two of its segments have all the memory to offer in, and an answer needs as much.
    let window = Window { segment: bytes as usize / 2, calls: 2, patience: Duration::from_secs(20) };
    let data = vec![1; (SEGMENTS * u64::from(bytes) / 2) as usize];
    first.stream(&words_of(Data::Bytes(&[]), &[Node(1)], &[]), &data, window, |_, _| ()).unwrap();
    let (is_right, seen) = other.join().unwrap();
    assert!(is_right && seen < SEGMENTS, "after {seen} segments");
}

#[test]
fn a_stream_does_not_wait_for_an_answer_that_waits_for_memory() {
    let Together(members) = together(3, 60_000);
    let [mut first, mut second, mut third] = <[Member; 3]>::try_from(members).unwrap();
    // The answer to the second finds no room beside it.
    leave_unread(&mut third, &mut first, 40_000);
    let handle = second.start(&Call { plan: FLAT, ..vectors(&nodes(2), &[], 40_000) }).unwrap();
    first.turn();
    let other = std::thread::spawn(move || {
        second.serve_until(Duration::from_secs(20), |member| member.figures().responses >= 10);
        second.wait(handle, Duration::from_secs(20)).unwrap().data == vectors_sum(&nodes(2), 40_000)
    });
    let window = Window { segment: 8000, calls: 2, patience: Duration::from_secs(9) };
    let begun = Instant::now();
    first.stream(&words_of(Data::Bytes(&[]), &[Node(1)], &[]), &[1; 80_000], window, |_, _| ()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(9));
    third.turn();
    first.serve_until(Duration::from_secs(9), |member| member.figures().responses > 1);
    assert!(other.join().unwrap());
}

#[test]
fn failures_that_are_collected_leave_the_replies_of_others_be() {
    // The first child fails while the answer of the second waits for memory.
    let bytes = 60_000;
    let (all, mut crowd) = (nodes(3), together(4, bytes.into()));
    let mut last = crowd.0.pop().unwrap();
    leave_unread(&mut last, &mut crowd.0[2], bytes);
    let fault = header(Node(1), Act::Fault);
    let mode = Mode::COLLECT | Mode::CANCEL_ON_FAIL;
    let handle = crowd.0[0].start(&Call { plan: FLAT, mode, ..vectors(&all, &fault, bytes) }).unwrap();
    (0..10).for_each(|_| crowd.turn());
    last.turn();
    let failure = crowd.end(0, handle).unwrap_err();
    assert_eq!((failure.tallies.ok, failure.tallies.failed, failure.records.len()), (2, 1, 1), "{failure}");
    assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(1), Code::ReplyTooLarge), "{failure}");
}

#[test]
fn a_function_that_is_pending_finds_what_it_has_written_of_a_long_reply() {
    let mut crowd = together(2, 60_000);
    for member in &mut crowd.0 {
        let later = |work: &mut Work<'_>| {
            let (_, memory) = work.reply.memory();
            match work.phase {
                Phase::Init => {
                    memory[..3].copy_from_slice(b"abc");
                    Verdict::Pending
                }
                Phase::Probe => match work.reply.set_lens(0, 3) {
                    Ok(()) => Verdict::Done,
                    Err(_) => Verdict::Fault(1),
                },
                Phase::Wait(answer) if answer.data == b"abc" => Verdict::Done,
                Phase::Wait(_) => Verdict::Fault(2),
            }
        };
        member.register("later", later).unwrap();
    }
    let (all, later) = (nodes(2), Tag::of("later"));
    let wanted = Call { func: later, callback: later, mode: Mode::RENDEZVOUS, ..vectors(&all, &[], 60_000) };
    let handle = crowd.0[0].start(&wanted).unwrap();
    // Others use memory meanwhile.
    assert!(crowd.run(&vectors(&all, &[], 60_000)).unwrap().data == vectors_sum(&all, 60_000));
    assert_eq!(crowd.end(0, handle).unwrap().data, b"abc");
}

#[test]
fn a_short_reply_has_no_more_memory_than_it_needs() {
    let (all, mut crowd) = (nodes(5), together(5, MIB.into()));
    let (join, caps) = (Tag::of(JOIN), Caps { header: 0, data: 800_000 });
    let mode = Mode::RENDEZVOUS;
    let nothing = Call { func: join, callback: join, data: Data::Bytes(&[]), caps, mode, ..call(&all, &[]) };
    let reply = crowd.run(&nothing).unwrap();
    assert_eq!((reply.data.len(), reply.data.capacity()), (0, 0));
    let few = crowd.run(&Call { data: Data::Bytes(&[7; 100]), ..nothing }).unwrap();
    assert_eq!(few.data, [7; 500]);
    assert!(few.data.capacity() < 5000, "{}", few.data.capacity());
}

#[test]
fn what_is_given_up_leaves_no_memory_taken() {
    let bytes = 60_000;
    let (all, mut crowd) = (nodes(4), together(4, bytes.into()));
    let mut cancelled = 0;
    for turns in 0..12 {
        let chain = Plan::Shape(tree::Shape::CHAIN);
        let handle = crowd.0[0].start(&Call { plan: chain, ..vectors(&all, &[], bytes) }).unwrap();
        (0..turns).for_each(|_| crowd.turn());
        crowd.0[0].cancel(handle).unwrap();
        match crowd.end(0, handle) {
            Ok(reply) => assert!(reply.data == vectors_sum(&all, bytes)),
            Err(failure) => {
                assert_eq!(failure.records[0].code, Code::Cancelled);
                cancelled += 1;
            }
        }
        let reply = crowd.run(&vectors(&all, &[], bytes)).unwrap_or_else(|failure| panic!("after {turns}: {failure}"));
        assert!(reply.data == vectors_sum(&all, bytes));
    }
    assert!(cancelled > 3, "{cancelled} were given up before their end");
}

#[test]
fn members_that_live_together_need_no_memory_of_the_station_for_each_other() {
    let bytes = 50_000;
    let station = Station::create("replies", Shape { offer_bytes: bytes.into(), ..Shape::new(7) }).unwrap();
    let mut crowd = Together(vec![member(&station, Node(0), 8), member(&station, Node(1), 8)]);
    for node in (2..7).map(Node) {
        crowd.0[1].house(node).unwrap();
    }
    let all = nodes(7);
    for plan in [Plan::Led(tree::Shape::BINARY), Plan::Led(tree::Shape::CHAIN), Plan::Shape(tree::Shape::CHAIN)] {
        let before = crowd.0[1].offered_bytes();
        let reply = crowd.run(&Call { plan, ..vectors(&all, &[], bytes) }).unwrap();
        assert!(reply.data == vectors_sum(&all, bytes), "{plan:?}");
        // One reply for all of them.
        assert_eq!(crowd.0[1].offered_bytes() - before, bytes.into(), "{plan:?}");
    }
    // Each of them answers the maker, one after the other as there is memory.
    let flat = Plan::Shape(tree::Shape::FLAT);
    let reply = crowd.run(&Call { plan: flat, ..vectors(&all, &[], bytes) }).unwrap();
    assert!(reply.data == vectors_sum(&all, bytes));
}

/// The answer of the receiver of this request, whose reply lies there.
fn answer_to(request: &[u8], flags: u8, data: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; RESPONSE];
    // Who made which call, and the place of the parent, are as they were.
    answer[..24].copy_from_slice(&request[..24]);
    (answer[1], answer[2]) = (2, flags);
    answer[28..32].copy_from_slice(&(data.len() as u32).to_le_bytes());
    // One member, and a second to read it.
    answer[32..36].copy_from_slice(&1_u32.to_le_bytes());
    answer[36..40].copy_from_slice(&if flags == 0 { 0 } else { 1_000_000_u32 }.to_le_bytes());
    answer.extend_from_slice(data);
    answer
}

fn bytes_of(Span { key, offset, len }: Span) -> Vec<u8> {
    [key.to_bits(), offset, len].map(u64::to_le_bytes).concat()
}

#[test]
fn an_answer_that_names_a_place_where_no_reply_lies_fails_the_call_and_touches_nothing() {
    let bytes = 60_000;
    let station = Station::create("replies", Shape { offer_bytes: 100_000, ..Shape::new(4) }).unwrap();
    let mut crowd = Together((0..3).map(|node| member(&station, Node(node), 8)).collect());
    let wire = Wire::new(&station, Node(3), |config| config);
    // What another member offers is shorter than the reply is said to be.
    let offer = crowd.0[2].offer(&[1; 800]).unwrap();
    let Data::Span(offered) = offer.data() else { panic!("it is offered") };
    let key = |node, region| Key::new(Peer::rank(WorldRank(node)).unwrap(), region, 0);
    let len = u64::from(bytes);
    let forged = [
        Span { key: Key::from_bits(u64::MAX), offset: 0, len },
        Span { key: key(3, 0), offset: 0, len },
        Span { key: key(3, 32), offset: 0, len },
        Span { key: key(1, 31), offset: 0, len },
        Span { key: key(1, 32), offset: 0, len },
        Span { key: key(1, 64), offset: 0, len },
        Span { key: key(77, 0), offset: 0, len },
        Span { len, ..offered },
        Span { offset: u64::MAX, len: 8, ..offered },
        Span { len: len + 8, ..offered },
        Span { len: u64::MAX, ..offered },
    ];
    let members = [Node(0), Node(3)];
    for (round, span) in forged.into_iter().enumerate() {
        let handle = crowd.0[0].start(&vectors(&members, &[], bytes)).unwrap();
        crowd.turn();
        let (from, request) = wire.came().unwrap();
        assert_eq!(from, Node(0));
        // Neither of these is an answer to such a request; the third one is.
        for (flags, data) in [(0, bytes_of(span)), (64, bytes_of(span)[1..].to_vec()), (64, bytes_of(span))] {
            wire.give(&(Node(0), answer_to(&request, flags, &data)));
        }
        let failure = crowd.end(0, handle).unwrap_err();
        let record = failure.records[0];
        let told = (record.origin, record.stage, record.code, record.aux);
        assert_eq!(told, (Node(0), Stage::Callback, Code::ReplyGone, 3), "round {round}: {failure}");
    }
    // Somebody else's reply is neither read nor ended by such an answer.
    crowd.0[2].take_back(offer);
    let two = [1, 2].map(Node);
    let theirs = crowd.0[1].start(&vectors(&two, &[], bytes)).unwrap();
    crowd.0[2].turn();
    let handle = crowd.0[0].start(&vectors(&members, &[], bytes)).unwrap();
    crowd.0[0].turn();
    let (_, request) = wire.came().unwrap();
    // The first that it has laid out.
    let named = |generation| Key::new(Peer::rank(WorldRank(2)).unwrap(), 32, generation);
    for generation in [0, 1, 0] {
        let span = Span { key: named(generation), offset: 0, len };
        let asked = Call { at_root: true, ..words_of(Data::Span(span), &[], &[]) };
        let failure = crowd.run(&asked).unwrap_err();
        assert_eq!((failure.records[0].code, failure.records[0].aux), (Code::Fault, GONE), "{failure}");
        wire.give(&(Node(0), answer_to(&request, 64, &bytes_of(span))));
        crowd.0[0].turn();
    }
    // If it were told that its reply was read, it would take that back now.
    (0..3).for_each(|_| _ = crowd.0[2].turn());
    let failure = crowd.end(0, handle).unwrap_err();
    assert_eq!(failure.records[0].code, Code::ReplyGone, "{failure}");
    assert!(crowd.end(1, theirs).unwrap().data == vectors_sum(&two, bytes));
    let offer = crowd.0[2].offer(&[1; 800]).unwrap();
    let all = nodes(3);
    let words = crowd.run(&words_of(offer.data(), &all, &[])).unwrap();
    assert_eq!(words.data, u64::from_le_bytes([1; 8]).wrapping_mul(300).to_le_bytes());
    crowd.0[2].take_back(offer);
    assert!(crowd.run(&vectors(&all, &[], bytes)).unwrap().data == vectors_sum(&all, bytes));
}
