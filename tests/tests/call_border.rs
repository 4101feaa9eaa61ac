//! Offered data and deaths over borders of meeting places (H, I between hosts).
//!
//! The places are in one process, and every frame is carried by hand.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::VecDeque;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use umbra::call::border::{Border, ops};
use umbra::call::{Failure, Member, Outgoing, Reply, Shape, Station, WaitError};
use umbra_core::chain::{Call, Code, Config, Handle, Mode, Node, Plan, Stage, peek_reply, set_carried};
use umbra_core::key::{Key, Span};
use umbra_core::peer::{Peer, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::tree;
use umbra_core::wire::Op;
use umbra_tests::call::{
    Act, GONE, call, header, member_with, offer_all, scaled, scaled_sum, vectors, vectors_sum, words_of,
};
use umbra_tests::rig::Guarded;

/// Seats of a place: its first member, another one, and that of the border.
const SEATS: u16 = 3;
const OFFERED: usize = 300_000;
/// What a place can offer, and keep of what others do: one such offer and no second one.
const OFFER_BYTES: u64 = 400_000;
/// Bytes of offered data that may be on a link at once.
const WINDOW: usize = 256 << 10;
/// How often the dead are looked for where others wait for them.
const LOOK: Duration = Duration::from_millis(5);
/// After how long without a sign of life a member counts as dead: longer than a machine that is loaded keeps one from its turn.
const SILENCE: Duration = Duration::from_millis(1500);
/// Turns after which nothing is expected any more.
const TURNS: usize = 100_000;
/// Far beyond anything that a loaded machine needs.
const LONG: Duration = Duration::from_secs(30);

struct Place {
    station: Station,
    members: Vec<Option<Member>>,
    border: Border,
    body: Vec<u8>,
}

/// Joined places, and the frames between them.
struct World {
    places: Vec<Place>,
    /// Frames on their way, of and for whom; each turn delivers one.
    frames: VecDeque<(u32, u32, Op, Vec<u8>)>,
    /// Frames delivered.
    delivered: usize,
    /// Turns in which data was on its way over several links.
    overlaps: usize,
    cut: Vec<(u32, u32)>,
}

impl World {
    fn new(places: u32) -> World {
        World::with(places, |config| config)
    }

    fn with(places: u32, settings: fn(Config) -> Config) -> World {
        let mut world = World {
            places: (0..places).map(|place| Place::new(place, places, settings)).collect(),
            frames: VecDeque::new(),
            delivered: 0,
            overlaps: 0,
            cut: Vec::new(),
        };
        for (a, b) in world.pairs() {
            world.link(a, b);
        }
        world.meet();
        world.delivered = 0;
        world
    }

    /// Greetings are exchanged, and who sits where is known.
    fn meet(&mut self) {
        let all = self.all();
        for _ in 0..TURNS {
            self.turn();
            let knows =
                |place: &mut Place| place.members.iter_mut().flatten().all(|member| member.sees(&all).is_none());
            if self.frames.is_empty() && self.places.iter_mut().all(knows) {
                return;
            }
        }
        panic!("the places do not meet");
    }

    fn pairs(&self) -> Vec<(u32, u32)> {
        let count = self.places.len() as u32;
        (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect()
    }

    fn all(&self) -> Vec<Node> {
        self.places[0].station.shape().residents(2)
    }

    fn link(&mut self, a: u32, b: u32) {
        self.cut.retain(|&pair| pair != (a, b));
        self.places[a as usize].border.on_link(b);
        self.places[b as usize].border.on_link(a);
    }

    fn lose(&mut self, a: u32, b: u32) {
        self.cut.push((a, b));
        self.frames.retain(|&(from, to, ..)| (from.min(to), from.max(to)) != (a, b));
        self.places[a as usize].border.on_gone(b);
        self.places[b as usize].border.on_gone(a);
    }

    /// Everybody's turn; one frame arrives.
    fn turn(&mut self) {
        self.work();
        self.deliver();
    }

    fn deliver(&mut self) {
        if let Some((from, to, op, body)) = self.frames.pop_front() {
            self.places[to as usize].border.on_frame(from, op, &body).unwrap();
            self.delivered += 1;
        }
    }

    /// Everybody's turn; no frame arrives.
    fn work(&mut self) {
        for (at, place) in (0..).zip(&mut self.places) {
            for member in place.members.iter_mut().flatten() {
                member.turn();
            }
            place.border.flush();
            let waiting = self.frames.iter().filter(|&&(from, ..)| from == at).count();
            // A link that takes little makes data wait, and refuses requests.
            let has_room = |_: u32| waiting < 3;
            if let Some((to, op, len)) = place.border.poll(has_room, &mut place.body) {
                self.frames.push_back((at, to, op, place.body[..len].to_vec()));
            }
        }
        let mut data = self.frames.iter().filter(|&&(_, _, op, _)| op == ops::DATA).map(|&(from, to, ..)| (from, to));
        let first = data.next();
        self.overlaps += usize::from(data.any(|ends| Some(ends) != first));
        for (a, b) in self.pairs() {
            for ends in [(a, b), (b, a)] {
                let data = self.frames.iter().filter(|&&(from, to, op, _)| (from, to) == ends && op == ops::DATA);
                assert!(data.map(|(.., body)| body.len()).sum::<usize>() <= WINDOW);
            }
        }
    }

    fn turn_until(&mut self, mut is_so: impl FnMut(&mut World) -> bool) {
        let end = Instant::now() + LONG;
        while !is_so(self) {
            assert!(Instant::now() < end, "nothing comes of it");
            self.turn();
        }
    }

    /// An answer with a long reply is on its way: which of the frames it is.
    fn until_answered(&mut self) -> usize {
        let is_answer =
            |frame: &(u32, u32, Op, Vec<u8>)| frame.2 == ops::MESSAGE && peek_reply(&frame.3[16..]).is_some();
        for _ in 0..TURNS {
            self.work();
            if let Some(at) = self.frames.iter().position(is_answer) {
                return at;
            }
            self.deliver();
        }
        panic!("nobody answers");
    }

    fn maker(&mut self) -> &mut Member {
        self.places[0].members[1].as_mut().unwrap()
    }

    fn start(&mut self, call: &Call<'_>) -> Handle {
        self.maker().start(call).unwrap()
    }

    fn end(&mut self, handle: Handle) -> Result<Reply, Failure> {
        for _ in 0..TURNS {
            self.turn();
            if self.maker().test(handle).unwrap() {
                break;
            }
        }
        match self.maker().wait(handle, Duration::ZERO) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other} after {} frames", self.delivered),
        }
    }

    /// How a call ends that loses its link before so many frames have come: well, or by the name of somebody beyond the link.
    fn end_without_link(&mut self, handle: Handle, lost_before: usize) -> Option<Reply> {
        while self.delivered < lost_before && !self.maker().test(handle).unwrap() {
            self.turn();
        }
        self.lose(0, 1);
        let failure = match self.end(handle) {
            Ok(reply) => return Some(reply),
            Err(failure) => failure,
        };
        let record = failure.records[0];
        assert_eq!(record.code, Code::PeerDead, "frame {lost_before}: {failure}");
        assert!(record.origin.0 >= SEATS.into(), "frame {lost_before}: {failure}");
        None
    }

    fn fetched(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.border.crossings().fetched_bytes).collect()
    }
}

impl Place {
    fn new(place: u32, places: u32, settings: fn(Config) -> Config) -> Place {
        let shape = Shape { message_bytes: 4096, offer_bytes: OFFER_BYTES, ..Shape::new(SEATS) }.joined(place, places);
        let station = Station::create("border", shape).unwrap();
        let settings = |config| settings(Config { classes: 0, ..config });
        let member = |at| member_with(&station, Node(shape.first + at), 8, settings);
        let mut members: Vec<Member> = (0..2).map(member).collect();
        let outgoing = Outgoing::new(|| ());
        let border = Border::new(&station, Node(shape.first + 2), outgoing.clone()).unwrap();
        members[0].put_out(outgoing);
        let members = members.into_iter().map(Some).collect();
        Place { station, members, border, body: vec![0; Border::body_max(shape)] }
    }
}

fn words() -> (Vec<u8>, u64) {
    let words = (0..OFFERED as u64 / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (words.clone().flat_map(u64::to_le_bytes).collect(), words.fold(0, u64::wrapping_add))
}

#[test]
fn s57_offered_data_is_copied_once_to_each_place_whatever_the_tree() {
    let mut world = World::new(3);
    let ((data, sum), all) = (words(), world.all());
    let from_maker = [&[Node(1)], &all[..1], &all[2..]].concat();
    let domains = world.places[0].station.parents(&from_maker, tree::Shape::CHAIN).unwrap();
    let shapes = [tree::Shape::BINARY, tree::Shape::BINOMIAL, tree::Shape::FLAT, tree::Shape::CHAIN];
    let plans = shapes.map(Plan::Shape).into_iter().chain([Plan::Parents(&domains)]);
    for (round, plan) in plans.enumerate() {
        let before = world.fetched();
        let offer = world.maker().offer(&data).unwrap();
        let handle = world.start(&Call { plan, ..words_of(offer.data(), &all, &[]) });
        let reply = world.end(handle).unwrap_or_else(|failure| panic!("tree {round}: {failure}"));
        assert_eq!(reply.data, sum.wrapping_mul(6).to_le_bytes(), "tree {round}");
        let came: Vec<u64> = world.fetched().iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(came, [0, OFFERED as u64, OFFERED as u64], "tree {round}");
        world.maker().take_back(offer);
    }
}

#[test]
fn s58_segments_are_on_two_links_at_once_and_one_offer_is_not() {
    let mut world = World::new(3);
    let ((data, sum), members) = (words(), [Node(3), Node(6)]);
    for (segments, overlaps) in [(1, false), (3, true)] {
        let before = world.fetched();
        world.overlaps = 0;
        let offer = world.maker().offer(&data).unwrap();
        let len = OFFERED as u64 / segments;
        // From the first place to the second, and from there to the third.
        let call = |segment| Call {
            plan: Plan::Shape(tree::Shape::CHAIN),
            ..words_of(offer.part(segment * len, len).unwrap(), &members, &[])
        };
        let handles: Vec<Handle> = (0..segments).map(|segment| world.start(&call(segment))).collect();
        let mut sums = 0_u64;
        for handle in handles {
            let reply = world.end(handle).unwrap_or_else(|failure| panic!("{failure}"));
            sums = sums.wrapping_add(u64::from_le_bytes(reply.data.try_into().unwrap()));
        }
        assert_eq!(sums, sum.wrapping_mul(3));
        let came: Vec<u64> = world.fetched().iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(came, [0, OFFERED as u64, OFFERED as u64]);
        assert_eq!(world.overlaps > 0, overlaps, "{segments} segments: {} turns", world.overlaps);
        world.maker().take_back(offer);
    }
}

#[test]
fn a_part_of_an_offer_is_fetched_alone() {
    let mut world = World::new(2);
    let (data, _) = words();
    let offer = world.maker().offer(&data).unwrap();
    let (start, len) = (8 * 1000, 8 * 20_000);
    let part = offer.part(start, len).unwrap();
    let sum = data[start as usize..][..len as usize].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let sum = sum.fold(0, u64::wrapping_add);
    let handle = world.start(&words_of(part, &[Node(1), Node(4)], &[]));
    assert_eq!(world.end(handle).unwrap().data, sum.wrapping_mul(2).to_le_bytes());
    assert_eq!(world.fetched(), [0, len]);
    world.maker().take_back(offer);
}

/// Frames that a call over offered data takes.
fn frames() -> usize {
    let mut world = World::new(2);
    let all = world.all();
    let offer = world.maker().offer(&words().0).unwrap();
    let handle = world.start(&words_of(offer.data(), &all, &[]));
    world.end(handle).unwrap();
    world.maker().take_back(offer);
    world.delivered
}

#[test]
fn s59_a_link_that_is_lost_before_any_frame_fails_the_call_by_name_and_leaves_no_memory_taken() {
    let all_frames = frames();
    assert!(all_frames > OFFERED / 4096, "{all_frames}");
    let (data, sum) = words();
    let (mut failed, mut world) = (0, World::new(2));
    let all = world.all();
    for lost_before in (0..=all_frames + 1).step_by(5) {
        let offer = world.maker().offer(&data).unwrap();
        world.delivered = 0;
        let handle = world.start(&words_of(offer.data(), &all, &[]));
        match world.end_without_link(handle, lost_before) {
            Some(reply) => assert_eq!(reply.data, sum.wrapping_mul(4).to_le_bytes()),
            None => failed += 1,
        }
        world.maker().take_back(offer);
        world.link(0, 1);
        world.meet();
    }
    assert!(failed > 10, "{failed} of {all_frames} frames");
    // There is memory for one such offer in each place, so nothing is left of the others.
    let offer = world.maker().offer(&data).unwrap();
    let handle = world.start(&words_of(offer.data(), &all, &[]));
    assert_eq!(world.end(handle).unwrap().data, sum.wrapping_mul(4).to_le_bytes());
    world.maker().take_back(offer);
}

#[test]
fn s59_a_reader_that_dies_while_its_data_comes_is_named_and_others_get_theirs() {
    let (all_frames, (data, sum)) = (frames(), words());
    for dies_before in [1, 3, all_frames / 2, all_frames - 4] {
        let mut world = World::new(2);
        let all = world.all();
        let offer = world.maker().offer(&data).unwrap();
        let handle = world.start(&Call { plan: Plan::Shape(tree::Shape::FLAT), ..words_of(offer.data(), &all, &[]) });
        while world.delivered < dies_before {
            world.turn();
        }
        // The second member of the other place leaves as one that was killed does.
        world.places[1].members[1] = None;
        let failure = world.end(handle).unwrap_err();
        assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(4), Code::PeerDead), "{failure}");
        let rest = [Node(0), Node(1), Node(3)];
        for _ in 0..3 {
            let handle = world.start(&words_of(offer.data(), &rest, &[]));
            assert_eq!(world.end(handle).unwrap().data, sum.wrapping_mul(3).to_le_bytes());
        }
        world.maker().take_back(offer);
    }
}

#[test]
fn s60_long_replies_cross_borders_one_by_one_over_any_tree() {
    let mut world = World::new(3);
    let (all, bytes) = (world.all(), OFFERED as u32);
    let from_maker = [&[Node(1)], &all[..1], &all[2..]].concat();
    let domains = world.places[0].station.parents(&from_maker, tree::Shape::CHAIN).unwrap();
    let shapes = [tree::Shape::BINARY, tree::Shape::BINOMIAL, tree::Shape::FLAT, tree::Shape::CHAIN];
    // How many replies come to each place from others; there is memory for one at a time.
    let come = [[3, 1, 0], [2, 0, 0], [4, 0, 0], [1, 1, 0], [1, 1, 0]];
    for ((round, plan), come) in
        shapes.map(Plan::Shape).into_iter().chain([Plan::Parents(&domains)]).enumerate().zip(come)
    {
        let before = world.fetched();
        let handle = world.start(&Call { plan, ..vectors(&all, &[], bytes) });
        let reply = world.end(handle).unwrap_or_else(|failure| panic!("tree {round}: {failure}"));
        assert!(reply.data == vectors_sum(&all, bytes), "tree {round}");
        let came: Vec<u64> = world.fetched().iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(came, come.map(|count| count * u64::from(bytes)), "tree {round}");
    }
}

#[test]
fn replies_that_come_before_their_turn_keep_no_memory_from_the_one_whose_turn_it_is() {
    let mut world = World::new(2);
    // There is memory for one reply of another place, and the first of two comes last.
    let (members, bytes) = ([1, 3, 4].map(Node), OFFERED as u32);
    let late = header(Node(3), Act::Wait);
    let flat = Plan::Shape(tree::Shape::FLAT);
    let handle = world.start(&Call { plan: flat, mode: Mode::ORDERED, ..vectors(&members, &late, bytes) });
    world.turn_until(|world| world.maker().test(handle).unwrap());
    let reply = world.end(handle).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(reply.data == vectors_sum(&members, bytes));
}

/// What names the first reply that this member has laid out.
fn names(node: Node) -> impl Iterator<Item = Key> {
    let owner = Peer::rank(WorldRank(node.0)).unwrap();
    // Behind the 32 lines of what it offers.
    (0..8).map(move |generation| Key::new(owner, 32, generation))
}

#[test]
fn another_place_neither_reads_nor_ends_replies_between_members_here() {
    let mut world = World::new(2);
    let (members, bytes) = ([0, 1].map(Node), OFFERED as u32);
    let handle = world.start(&vectors(&members, &[], bytes));
    // Its reply lies there now.
    world.places[0].members[0].as_mut().unwrap().turn();
    let (piece, mut refused) = (1_u64 << 16, 0);
    for key in names(Node(0)) {
        let words = [7_u64 | 1 << 32, key.to_bits(), 0, piece].map(u64::to_le_bytes);
        let Place { border, body, .. } = &mut world.places[0];
        border.on_frame(1, ops::PULL, words.as_flattened()).unwrap();
        while let Some((to, op, len)) = border.poll(|_| true, body) {
            // All of the piece does not come.
            let missing = [7_u32.to_le_bytes(), (piece as u32).to_le_bytes()];
            assert_eq!((to, op, &body[..len]), (1, ops::DATA, missing.as_flattened()));
            refused += 1;
        }
    }
    assert_eq!(refused, names(Node(0)).count());
    let reply = world.end(handle).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(reply.data == vectors_sum(&members, bytes));
}

#[test]
fn an_answer_from_another_place_that_names_a_reply_here_has_none() {
    let mut world = World::new(2);
    let (members, bytes) = ([1, 4, 0].map(Node), OFFERED as u32);
    let flat = Plan::Shape(tree::Shape::FLAT);
    let handle = world.start(&Call { plan: flat, mode: Mode::ORDERED, ..vectors(&members, &[], bytes) });
    // Both children answer before their parent looks.
    let maker = world.places[0].members[1].take();
    let at = world.until_answered();
    // It says that the reply of the other child is its own.
    let (from, _, op, body) = world.frames.remove(at).unwrap();
    for key in names(Node(0)) {
        let mut body = body.clone();
        assert!(set_carried(&mut body[16..], Span { key, offset: 0, len: bytes.into() }));
        world.places[0].border.on_frame(from, op, &body).unwrap();
    }
    world.places[0].members[1] = maker;
    let record = world.end(handle).unwrap_err().records[0];
    let told = (record.origin, record.stage, record.code, record.aux);
    assert_eq!(told, (Node(1), Stage::Callback, Code::ReplyGone, 4));
}

#[test]
fn a_reply_for_somebody_who_is_gone_is_not_fetched() {
    let mut world = World::new(2);
    _ = world.start(&vectors(&[Node(4)], &[], OFFERED as u32));
    world.until_answered();
    world.places[0].members[1] = None;
    std::thread::sleep(2 * LOOK);
    (0..5).for_each(|_| world.work());
    (0..1000).for_each(|_| world.turn());
    assert_eq!(world.fetched()[0], 0);
}

#[test]
fn an_answer_that_waits_at_a_border_for_memory_is_no_silence() {
    let mut world = World::with(2, |config| {
        let silence = Lapse::from_millis(SILENCE.as_millis() as u64);
        Config { ask: Lapse::from_millis(200), silence, ..config }
    });
    let bytes = OFFERED as u32;
    // A reply that nobody reads has the memory.
    let handle = world.start(&vectors(&[Node(4)], &[], bytes));
    let maker = world.places[0].members[1].take().unwrap();
    world.turn_until(|world| world.fetched()[0] == u64::from(bytes));
    let other = |world: &mut World| world.places[0].members[0].take().unwrap();
    let mut first = other(&mut world);
    let second = first.start(&vectors(&[Node(3)], &[], bytes)).unwrap();
    world.places[0].members[0] = Some(first);
    let begun = Instant::now();
    while begun.elapsed() < 2 * SILENCE {
        world.turn();
        std::thread::sleep(Duration::from_micros(200));
        let first = world.places[0].members[0].as_mut().unwrap();
        assert!(!first.test(second).unwrap(), "{:?}", first.wait(second, Duration::ZERO));
    }
    // A question that is on its way has the answer again, so the answer goes when none is.
    let asks = |world: &World| world.places[0].members[0].as_ref().unwrap().figures().asks;
    let asked = asks(&world);
    world.turn_until(|world| asks(world) > asked);
    (0..100).for_each(|_| world.turn());
    assert_eq!(world.fetched()[0], u64::from(bytes));
    world.places[0].members[1] = Some(maker);
    world.turn_until(|world| world.places[0].members[0].as_mut().unwrap().test(second).unwrap());
    // Each came once.
    (0..100).for_each(|_| world.turn());
    assert_eq!(world.fetched()[0], 2 * u64::from(bytes));
    let mut first = other(&mut world);
    assert!(first.wait(second, Duration::ZERO).unwrap().data == vectors_sum(&[0, 3].map(Node), bytes));
    assert_eq!(first.figures().stale, 0);
    world.places[0].members[0] = Some(first);
    // Whoever took no turns was thought silent, or has its answer.
    let _ = world.end(handle);
}

#[test]
fn s60_data_of_a_call_keeps_no_memory_from_its_replies() {
    let mut world = World::new(3);
    let (data, bytes) = (words().0, OFFERED as u32);
    let offer = world.maker().offer(&data).unwrap();
    // In the middle place lies the data, and comes the reply of the last one.
    let members = [1, 3, 6, 7].map(Node);
    let chain = Plan::Shape(tree::Shape::CHAIN);
    for _ in 0..3 {
        let handle = world.start(&Call { plan: chain, data: offer.data(), ..vectors(&members, &[], bytes) });
        let reply = world.end(handle).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(reply.data == vectors_sum(&members, bytes));
    }
    world.maker().take_back(offer);
}

#[test]
fn s60_calls_of_everybody_to_everybody_in_two_places_end_though_all_that_can_be_offered_is() {
    let mut world = World::new(2);
    let all = world.all();
    for round in 0..3 {
        let mut begun = Vec::new();
        for (at, member) in world.places.iter_mut().flat_map(|place| place.members.iter_mut().flatten()).enumerate() {
            let (offer, data) = offer_all(member, 10 * round as u64 + at as u64 + 1);
            begun.push((at, member.start(&scaled(offer.data(), OFFER_BYTES, &all, round)).unwrap(), offer, data));
        }
        let member = |world: &mut World, at: usize| world.places[at / 2].members[at % 2].take().unwrap();
        while let Some((at, handle, offer, data)) = begun.pop() {
            let is_over = |world: &mut World| {
                let member = world.places[at / 2].members[at % 2].as_mut().unwrap();
                member.test(handle).unwrap()
            };
            world.turn_until(is_over);
            let mut maker = member(&mut world, at);
            let reply = maker.wait(handle, Duration::ZERO);
            let reply = reply.unwrap_or_else(|error| panic!("round {round} of {at}: {error}"));
            assert!(reply.data == scaled_sum(&data, &all), "round {round} of {at}");
            maker.take_back(offer);
            world.places[at / 2].members[at % 2] = Some(maker);
        }
    }
}

#[test]
fn s59_a_link_that_is_lost_before_any_frame_of_long_replies_leaves_no_memory_taken() {
    let (mut failed, mut world) = (0, World::new(2));
    let (all, bytes) = (world.all(), OFFERED as u32);
    let sum = vectors_sum(&all, bytes);
    let handle = world.start(&vectors(&all, &[], bytes));
    assert!(world.end(handle).unwrap().data == sum);
    let all_frames = world.delivered;
    for lost_before in (0..=all_frames + 1).step_by(9) {
        world.delivered = 0;
        let handle = world.start(&vectors(&all, &[], bytes));
        match world.end_without_link(handle, lost_before) {
            Some(reply) => assert!(reply.data == sum),
            None => failed += 1,
        }
        world.link(0, 1);
        world.meet();
    }
    assert!(failed > 10, "{failed} of {all_frames} frames");
    let handle = world.start(&vectors(&all, &[], bytes));
    assert!(world.end(handle).unwrap().data == sum);
}

#[test]
fn g11_a_rank_that_is_killed_behind_an_agent_is_told_elsewhere_at_the_first_look() {
    // The agent, member 3, takes part in the call and has the rank below it; or it carries the messages of others only.
    for (members, shape) in [(&[1, 3, 4][..], tree::Shape::CHAIN), (&[1, 4], tree::Shape::FLAT)] {
        let members: Vec<Node> = members.iter().copied().map(Node).collect();
        let mut world = World::new(2);
        // Its seat becomes that of a process.
        world.places[1].members[1] = None;
        world.turn_until(|world| world.maker().sees(&members).is_some());
        let station = Stdio::from(world.places[1].station.share().unwrap());
        let rank = Command::new(env!("CARGO_BIN_EXE_call-member")).arg("4").stdin(station).spawn();
        let mut rank = Guarded::from(rank.unwrap());
        world.turn_until(|world| world.maker().sees(&members).is_none());
        let header = header(Node(4), Act::Hang);
        let handle = world.start(&Call { plan: Plan::Shape(shape), ..call(&members, &header) });
        world.turn_until(|world| world.frames.is_empty() && world.places[1].border.crossings().received > 0);
        rank.kill().unwrap();
        rank.wait().unwrap();
        std::thread::sleep(LOOK);
        // The agent looks, and what it says crosses: news, and an answer if it has one. The maker looks, or gets it.
        (0..3).for_each(|_| world.turn());
        assert!(world.maker().test(handle).unwrap(), "{members:?}");
        let failure = world.end(handle).unwrap_err();
        assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(4), Code::PeerDead), "{failure}");
    }
}

#[test]
fn data_that_is_taken_back_while_it_is_fetched_is_had_by_all_or_named_as_gone() {
    let (all_frames, (data, sum)) = (frames(), words());
    let (mut done, mut gone, mut world) = (0, 0, World::new(2));
    let all = world.all();
    for taken_before in (0..all_frames + 10).step_by(7) {
        let offer = world.maker().offer(&data).unwrap();
        world.delivered = 0;
        let handle = world.start(&words_of(offer.data(), &all, &[]));
        while world.delivered < taken_before && !world.maker().test(handle).unwrap() {
            world.turn();
        }
        world.maker().take_back(offer);
        // Other data lies there at once.
        let other = world.maker().offer(&vec![8; OFFERED]).unwrap();
        match world.end(handle) {
            Ok(reply) => {
                assert_eq!(reply.data, sum.wrapping_mul(4).to_le_bytes());
                done += 1;
            }
            Err(failure) => {
                assert_eq!((failure.records[0].code, failure.records[0].aux), (Code::Fault, GONE), "{failure}");
                gone += 1;
            }
        }
        world.maker().take_back(other);
    }
    assert!(done > 0 && gone > 10, "{done} were done, {gone} were not");
}

#[test]
fn requests_without_room_for_their_data_wait_for_those_before_them() {
    let mut world = World::new(2);
    let ((data, sum), far) = (words(), [Node(1), Node(4)]);
    let offer = world.maker().offer(&data).unwrap();
    // Four calls over parts, of which two at a time fit.
    let len = 150_000 / 8 * 8;
    let parts: Vec<u64> = (0..4).map(|part| part * 40_000).collect();
    let calls: Vec<Handle> = parts
        .iter()
        .map(|&at| offer.part(at, len).unwrap())
        .map(|part| world.start(&words_of(part, &far, &[])))
        .collect();
    for (&at, handle) in parts.iter().zip(calls) {
        let words = data[at as usize..][..len as usize].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let sum = words.fold(0, u64::wrapping_add);
        let begun = std::time::Instant::now();
        let reply = loop {
            world.turn();
            if world.maker().test(handle).unwrap() {
                break world.maker().wait(handle, Duration::ZERO).unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "part at {at}");
        };
        assert_eq!(reply.data, sum.wrapping_mul(2).to_le_bytes(), "part at {at}");
    }
    assert!(world.places[1].border.crossings().refused > 0, "they did not all fit");
    // A function that fails frees the memory as well.
    for _ in 0..3 {
        let fault = header(Node(4), Act::Fault);
        let handle = world.start(&words_of(offer.data(), &far, &fault));
        assert_eq!(world.end(handle).unwrap_err().records[0].code, Code::Fault);
        let handle = world.start(&words_of(offer.data(), &far, &[]));
        assert_eq!(world.end(handle).unwrap().data, sum.wrapping_mul(2).to_le_bytes());
    }
    world.maker().take_back(offer);
}
