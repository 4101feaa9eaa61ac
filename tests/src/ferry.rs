//! Two places of chained calls in one process, joined by a transport.
//!
//! The transport carries the borders of both; what must hold over each transport is here as well.

use std::time::{Duration, Instant};

use umbra::call::border::Border;
use umbra::call::ferry::{Ferry, FerryError, Hold, Lost};
use umbra::call::{Failure, Member, Outgoing, Reply, Shape, Station, WaitError};
use umbra_core::chain::{Call, Caps, Code, Handle, Node, Plan, Tag};
use umbra_core::key::Key;
use umbra_core::time::Lapse;
use umbra_core::transport::Transport;
use umbra_core::tree;

use crate::call::{Act, SUM, header, member, words_of};
use crate::transport_conformance::peer;

/// Seats of a place: two members, and that of the border.
const SEATS: u16 = 3;
/// All members: two of each place.
const ALL: [Node; 4] = [Node(0), Node(1), Node(3), Node(4)];
/// How long anything may take; a card may take seconds to say that a peer is gone.
const LONG: Duration = Duration::from_secs(60);

/// A transport, and the memory of its end: where bodies lie until they are written, and where they arrive.
pub struct End<T> {
    /// The transport.
    pub transport: T,
    /// Where bodies lie until they are written.
    pub outgoing: Hold,
    /// Where those of the other end arrive.
    pub landing: Hold,
}

const fn sum_of(members: &[Node]) -> Call<'_> {
    let (func, caps) = (Tag::of(SUM), Caps { header: 0, data: 8 });
    Call { callback: func, caps, ..Call::new(func, members) }
}

/// The key of the memory of place `n`.
#[must_use]
pub fn key(n: u32, is_landing: bool) -> Key {
    Key::new(peer(n), 1 + u32::from(is_landing), 1)
}

/// What a place looks like.
#[must_use]
pub fn shape(n: u32) -> Shape {
    Shape { message_bytes: 4096, offer_bytes: 400_000, ..Shape::new(SEATS) }.joined(n, 2)
}

struct Place<T> {
    members: Vec<Member>,
    ferry: Ferry<T>,
}

/// Both places.
pub struct Joined<T> {
    places: Vec<Place<T>>,
    /// Places that were lost.
    lost: Vec<FerryError>,
}

/// The ferry of a place that is joined with the other one, and its members.
///
/// # Panics
/// If there is no memory for it.
pub fn place<T: Transport>(n: u32, end: End<T>) -> (Vec<Member>, Ferry<T>) {
    let shape = shape(n);
    let station = Station::create("ferry", shape).expect("there is memory");
    let mut members: Vec<Member> = (0..2).map(|at| member(&station, Node(shape.first + at), 8)).collect();
    let outgoing = Outgoing::new(|| ());
    let border = Border::new(&station, Node(shape.first + 2), outgoing.clone()).expect("a free seat");
    members[0].put_out(outgoing);
    let mut ferry = Ferry::new(border, shape, end.transport);
    let other = 1 - n;
    ferry.join((other, peer(other)), end.outgoing, end.landing, key(other, true)).expect("holds of the right length");
    (members, ferry)
}

impl<T: Transport> Joined<T> {
    /// Joins two places, and waits until all members see all others.
    ///
    /// # Panics
    /// If they do not.
    pub fn new(ends: [End<T>; 2]) -> Joined<T> {
        let place = |(n, end)| {
            let (members, ferry) = place(n, end);
            Place { members, ferry }
        };
        let mut joined = Joined { places: (0..).zip(ends).map(place).collect(), lost: Vec::new() };
        let begun = Instant::now();
        while joined.places.iter_mut().flat_map(|place| &mut place.members).any(|one| one.sees(&ALL).is_some()) {
            joined.turn();
            assert!(begun.elapsed() < LONG, "the places do not meet: {:?}", joined.lost);
        }
        joined
    }

    fn turn(&mut self) {
        for place in &mut self.places {
            for member in &mut place.members {
                member.turn();
            }
            self.lost.extend(place.ferry.turn().err());
        }
    }

    fn start(&mut self, call: &Call<'_>) -> Handle {
        self.places[0].members[1].start(call).expect("room for one call")
    }

    fn end(&mut self, handle: Handle) -> Result<Reply, Failure> {
        let begun = Instant::now();
        while !self.places[0].members[1].test(handle).expect("a call of ours") {
            self.turn();
            assert!(begun.elapsed() < LONG, "the call does not end: {:?}", self.lost);
        }
        match self.places[0].members[1].wait(handle, Duration::ZERO) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }

    /// Calls over both places come back with the sum of all members, whatever the tree; more bodies than there are slots.
    ///
    /// # Panics
    /// If they do not.
    pub fn calls_are_carried(&mut self) {
        for shape in [tree::Shape::BINARY, tree::Shape::BINOMIAL, tree::Shape::FLAT, tree::Shape::CHAIN] {
            for _ in 0..25 {
                let handle = self.start(&Call { plan: Plan::Shape(shape), ..sum_of(&ALL) });
                assert_eq!(self.end(handle).expect("a good answer").data, 8_u64.to_le_bytes());
            }
        }
        let crossed = self.places.iter().map(|place| place.ferry.border().crossings());
        assert!(crossed.clone().all(|crossed| crossed.stale == 0 && crossed.lost == 0 && crossed.sent >= 100));
        assert_eq!(self.lost, []);
    }

    /// Data that is offered follows its request, once, however long it is.
    ///
    /// # Panics
    /// If it does not.
    pub fn offered_data_is_carried(&mut self) {
        let words = (0..300_000 / 8_u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let data: Vec<u8> = words.clone().flat_map(u64::to_le_bytes).collect();
        let sum = words.fold(0, u64::wrapping_add);
        for _ in 0..3 {
            let offer = self.places[0].members[1].offer(&data).expect("room for it");
            let handle = self.start(&words_of(offer.data(), &ALL, &[]));
            assert_eq!(self.end(handle).expect("a good answer").data, sum.wrapping_mul(4).to_le_bytes());
            self.places[0].members[1].take_back(offer);
        }
        let fetched = self.places[1].ferry.border().crossings().fetched_bytes;
        assert_eq!(fetched, 3 * data.len() as u64, "one copy a call");
        assert_eq!(self.lost, []);
    }

    /// A place whose process dies is told as gone, and a call that waits for it names a member there.
    ///
    /// # Panics
    /// If it is not.
    pub fn a_place_that_dies_is_named(mut self, kill: impl FnOnce()) {
        let hangs = header(Node(4), Act::Hang);
        let handle = self.start(&Call { header: &hangs, budget: Lapse::from_secs(50), ..sum_of(&ALL) });
        for _ in 0..1000 {
            self.turn();
        }
        self.places.truncate(1);
        kill();
        let failure = self.end(handle).expect_err("a member is dead");
        let [record] = failure.records[..] else { panic!("{failure}") };
        assert!(record.code == Code::PeerDead && record.origin.0 >= SEATS.into(), "{failure}");
        assert_eq!(self.lost, [FerryError { place: 1, why: Lost::Gone }]);
        let handle = self.start(&sum_of(&[Node(0), Node(1)]));
        assert_eq!(self.end(handle).expect("those here live").members, 2);
    }
}
