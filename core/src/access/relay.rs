//! Reading for ranks: a service process gets its ranks the bytes of other ranks.
//!
//! A rank has no business with other ranks' memory; it asks its own service process ([`Fetch`]), which reads
//! as it would for itself, through the owner's first service process, and puts the bytes into the answer.
//! One fetch is at most [`INLINE_MAX`] bytes, so it becomes exactly one [`Get`] with exactly one delivery; who
//! wants more asks again, up to [`CREDIT`] fetches at once.
//!
//! The machine keeps who asked: in the order of asking for each link that is read over, and those links have turns, so
//! that a service process that does not answer keeps nobody from reading through another one. Its driver looks the
//! owner up in the endpoint cache, hands the [`Get`]s on to the [`Reader`](super::read::Reader) as long as that has room
//! for their link, and sends the answers:
//!
//! ```text
//! Call FETCH ──> ask(link, token, get)         refused at once, or queued
//! pop(may)   ──> Get ──> Reader::get ──> begun(request)
//! Delivery, Ended of that request ──> ended(request) ──> whom to answer, if he is still there
//! next_late(now), lost(link)      ──> whom to answer that his fetch was not begun
//! ```
//!
//! Invariants: every fetch that was queued is answered once, unless its asker's link goes; what a gone link wanted is
//! forgotten, and its late bytes answer nobody, also not the next link of that number.
//!
//! *Cost*: `ask`, `next_late` and `lost` are O(log n) in the fetches that wait, and so is `pop`, but for links that may
//! not be read over; `ended` is O(1), and [`Relay::on_gone`] walks the tables.

use super::read::{Get, Waiting};
use super::serve::INLINE_MAX;
use crate::error::Status;
use crate::id::Id;
use crate::machine::Link;
use crate::pending::{Pending, Request};
use crate::time::Time;
use crate::wire::Token;

#[cfg(doc)]
use super::message::Fetch;

/// Fetches that one rank may have outstanding.
pub const CREDIT: u32 = 8;

/// Whom to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Over which link he asked.
    pub link: Link,
    /// His name for it.
    pub token: Token,
}

/// A fetch that has not begun; lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    asker: Asker,
    get: Get,
    /// Its neighbours among those that wait for the same link.
    before: Option<Id<Ask>>,
    next: Option<Id<Ask>>,
}

/// What the machine knows of one link; lent by the caller, one for each link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetches {
    /// Fetches that were asked over it and not answered.
    outstanding: u32,
    /// Those that wait to be read over it.
    first: Option<Id<Ask>>,
    last: Option<Id<Ask>>,
    /// The link whose turn is next; meaningful while `queued`.
    next: u32,
    queued: bool,
}

const NIL: u32 = u32::MAX;

/// A fetch that is being read; lent by the caller, one for each place of the reader's table of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    request: Option<Id<Waiting>>,
    asker: Option<Asker>,
}

/// The machine.
#[derive(Debug)]
pub struct Relay<Q, F, L> {
    asks: Pending<Q>,
    flights: F,
    links: L,
    /// First and last of the links that fetches wait for; some may have none left.
    turn: u32,
    turn_last: u32,
    /// Who asked for the fetch that was handed out last.
    beginning: Option<Asker>,
}

impl<Q, F, L> Relay<Q, F, L>
where
    Q: AsRef<[Request<Ask>]> + AsMut<[Request<Ask>]>,
    F: AsRef<[Flight]> + AsMut<[Flight]>,
    L: AsRef<[Fetches]> + AsMut<[Fetches]>,
{
    /// A machine over lent tables: fetches that wait, as many flights as the reader has requests, links.
    pub fn new(asks: Q, mut flights: F, mut links: L) -> Self {
        flights.as_mut().fill(Flight::default());
        links.as_mut().fill(Fetches::default());
        Relay { asks: Pending::new(asks), flights, links, turn: NIL, turn_last: NIL, beginning: None }
    }

    /// A rank wants bytes; `get` says which, and through whom.
    ///
    /// # Errors
    /// The status to answer with: [`Status::OutOfBounds`] if it wants more than one answer carries,
    /// [`Status::Full`] if it has [`CREDIT`] fetches outstanding or there is no room at all.
    pub fn ask(&mut self, asker: Asker, get: Get) -> Result<(), Status> {
        if get.len > INLINE_MAX {
            return Err(Status::OutOfBounds);
        }
        let outstanding = self.links.as_ref().get(asker.link.index()).ok_or(Status::Full)?.outstanding;
        let before = self.links.as_ref().get(get.via.index()).ok_or(Status::Full)?.last;
        let begun = match outstanding {
            0..CREDIT => self.asks.begin(Ask { asker, get, before, next: None }, get.deadline).ok(),
            _ => None,
        };
        let Some(id) = begun else {
            crate::log!(debug, "{:?} wants more than there is room for: {:?} reads wait", asker.link, self.asks.len());
            return Err(Status::Full);
        };
        match before.and_then(|before| self.asks.get_mut(before).ok()) {
            Some(before) => before.next = Some(id),
            None => self.of(get.via).first = Some(id),
        }
        self.of(get.via).last = Some(id);
        self.of(asker.link).outstanding += 1;
        if !core::mem::replace(&mut self.of(get.via).queued, true) {
            self.enqueue(get.via);
        }
        Ok(())
    }

    /// What is known of a link that is in the table.
    fn of(&mut self, link: Link) -> &mut Fetches {
        &mut self.links.as_mut()[link.index()]
    }

    /// The next read to begin, over a link that `may` be read over: hand it to the reader and tell
    /// [`begun`](Self::begun).
    #[must_use]
    pub fn pop(&mut self, may: impl Fn(Link) -> bool) -> Option<Get> {
        let mut passed = None;
        while self.turn != NIL && passed != Some(self.turn) {
            let link = Link(self.turn);
            self.dequeue();
            let Some(first) = self.of(link).first else {
                self.of(link).queued = false;
                continue;
            };
            self.enqueue(link);
            if may(link) {
                let Ask { asker, get, .. } = self.take(first)?;
                self.beginning = Some(asker);
                return Some(get);
            }
            passed = passed.or(Some(link.0));
        }
        None
    }

    /// Puts a link last; it is in no place.
    fn enqueue(&mut self, link: Link) {
        self.of(link).next = NIL;
        match self.turn_last {
            NIL => self.turn = link.0,
            last => self.of(Link(last)).next = link.0,
        }
        self.turn_last = link.0;
    }

    /// Takes the first link out.
    fn dequeue(&mut self) {
        self.turn = self.of(Link(self.turn)).next;
        if self.turn == NIL {
            self.turn_last = NIL;
        }
    }

    /// A fetch waits no more.
    fn take(&mut self, id: Id<Ask>) -> Option<Ask> {
        let ask = self.asks.complete(id).ok()?;
        let via = ask.get.via;
        match ask.before.and_then(|before| self.asks.get_mut(before).ok()) {
            Some(before) => before.next = ask.next,
            None => self.of(via).first = ask.next,
        }
        match ask.next.and_then(|next| self.asks.get_mut(next).ok()) {
            Some(next) => next.before = ask.before,
            None => self.of(via).last = ask.before,
        }
        Some(ask)
    }

    /// A fetch that waits is answered without its bytes.
    fn refuse(&mut self, id: Id<Ask>) -> Option<(Asker, Link)> {
        let Ask { asker, get, .. } = self.take(id)?;
        let outstanding = &mut self.of(asker.link).outstanding;
        *outstanding = outstanding.saturating_sub(1);
        Some((asker, get.via))
    }

    /// The next who has waited too long for his fetch to begin, and over which link. Call until `None`.
    #[must_use]
    pub fn next_late(&mut self, now: Time) -> Option<(Asker, Link)> {
        let late = self.asks.due(now)?;
        self.refuse(late)
    }

    /// When [`next_late`](Self::next_late) is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.asks.deadline()
    }

    /// The next who waits for his fetch to begin over a link that is lost. Call until `None`.
    #[must_use]
    pub fn lost(&mut self, link: Link) -> Option<Asker> {
        let first = self.links.as_ref().get(link.index())?.first?;
        self.refuse(first).map(|(asker, _)| asker)
    }

    /// The reader took the last [`pop`](Self::pop) as this request.
    pub fn begun(&mut self, request: Id<Waiting>) {
        let asker = self.beginning.take();
        if let Some(flight) = self.flights.as_mut().get_mut(request.index() as usize) {
            *flight = Flight { request: Some(request), asker };
        }
    }

    /// A request of the reader has ended: whom to answer, if it was a fetch and he is still there.
    pub fn ended(&mut self, request: Id<Waiting>) -> Fate {
        let flight = self.flights.as_mut().get_mut(request.index() as usize);
        let Some(flight) = flight.filter(|flight| flight.request == Some(request)) else { return Fate::NotAFetch };
        let Some(asker) = core::mem::take(flight).asker else { return Fate::Nobody };
        let outstanding = &mut self.of(asker.link).outstanding;
        *outstanding = outstanding.saturating_sub(1);
        Fate::Answer(asker)
    }

    /// A link went down; nobody there waits any more. Who waits for it is told by [`lost`](Self::lost).
    pub fn on_gone(&mut self, link: Link) {
        let his = |asks: &Pending<Q>| asks.iter().find(|(_, ask)| ask.asker.link == link).map(|(id, _)| id);
        while let Some(id) = his(&self.asks) {
            let _ = self.take(id);
        }
        let gone = |flight: &&mut Flight| flight.asker.is_some_and(|asker| asker.link == link);
        self.flights.as_mut().iter_mut().filter(gone).for_each(|flight| flight.asker = None);
        if let Some(fetches) = self.links.as_mut().get_mut(link.index()) {
            fetches.outstanding = 0;
        }
    }
}

/// What the end of a request means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was no fetch; somebody else asked.
    NotAFetch,
    /// Who asked is gone.
    Nobody,
    /// Answer him.
    Answer(Asker),
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::peer::{Peer, WorldRank};

    fn get(tag: u64, len: u64) -> Get {
        let owner = Peer::rank(WorldRank(1)).unwrap_or_else(|| unreachable!());
        Get { owner, via: Link(3), address: 0, len, deadline: Time(100 - tag), tag, region: None }
    }

    fn asker(link: u32, token: u64) -> Asker {
        Asker { link: Link(link), token: Token(token) }
    }

    fn relay() -> Relay<[Request<Ask>; 16], [Flight; 4], [Fetches; 4]> {
        Relay::new([const { Request::EMPTY }; 16], [Flight::default(); 4], [Fetches::default(); 4])
    }

    #[test]
    fn fetches_begin_in_order_and_each_is_answered_once() {
        let mut relay = relay();
        for n in 0..3 {
            assert_eq!(relay.ask(asker(1, n), get(n, 8)), Ok(()));
        }
        for n in 0..3_u32 {
            assert_eq!(relay.pop(|_| true).map(|get| get.tag), Some(u64::from(n)));
            relay.begun(Id::from_bits(u64::from(n)));
        }
        assert_eq!(relay.pop(|_| true), None);
        assert_eq!(relay.ended(Id::from_bits(3)), Fate::NotAFetch);
        assert_eq!(relay.ended(Id::from_bits(1)), Fate::Answer(asker(1, 1)));
        assert_eq!(relay.ended(Id::from_bits(1)), Fate::NotAFetch, "it was answered");
    }

    #[test]
    fn credit_and_size_are_bounded_and_an_answer_gives_credit_back() {
        let mut relay = relay();
        assert_eq!(relay.ask(asker(1, 0), get(0, INLINE_MAX + 1)), Err(Status::OutOfBounds));
        assert_eq!(relay.ask(asker(7, 0), get(0, 8)), Err(Status::Full), "no such link");
        for n in 0..u64::from(CREDIT) {
            assert_eq!(relay.ask(asker(1, n), get(n, 8)), Ok(()));
        }
        assert_eq!(relay.ask(asker(1, 99), get(0, 8)), Err(Status::Full));
        assert_eq!(relay.ask(asker(2, 0), get(0, 8)), Ok(()), "another rank has its own");
        assert!(relay.pop(|_| true).is_some());
        relay.begun(Id::from_bits(0));
        assert_eq!(relay.ended(Id::from_bits(0)), Fate::Answer(asker(1, 0)));
        assert_eq!(relay.ask(asker(1, 99), get(0, 8)), Ok(()));
    }

    #[test]
    fn what_a_gone_link_wanted_answers_nobody_and_not_the_next_link_of_its_number() {
        let mut relay = relay();
        assert_eq!(relay.ask(asker(1, 0), get(0, 8)), Ok(()));
        assert!(relay.pop(|_| true).is_some());
        relay.begun(Id::from_bits(0));
        assert_eq!(relay.ask(asker(1, 1), get(1, 8)), Ok(()));
        relay.on_gone(Link(1));
        assert_eq!(relay.ask(asker(1, 2), get(2, 8)), Ok(()));
        assert_eq!(relay.pop(|_| true).map(|get| get.tag), Some(2), "the fetch that waited is forgotten");
        assert_eq!(relay.ended(Id::from_bits(0)), Fate::Nobody);
    }

    #[test]
    fn links_have_turns_and_one_that_may_not_be_read_over_is_passed_by() {
        let mut relay = relay();
        for n in 0..6 {
            let via = if n < 4 { Link(2) } else { Link(3) };
            assert_eq!(relay.ask(asker(1, n), Get { via, ..get(n, 8) }), Ok(()));
        }
        let mut pop = |may: fn(Link) -> bool| {
            let tag = relay.pop(may).map(|get| get.tag);
            relay.begun(Id::from_bits(0));
            tag
        };
        assert_eq!([pop(|_| true), pop(|_| true), pop(|_| true)], [Some(0), Some(4), Some(1)]);
        assert_eq!([pop(|link| link == Link(3)), pop(|link| link == Link(3)), pop(|_| false)], [Some(5), None, None]);
        assert_eq!([pop(|_| true), pop(|_| true), pop(|_| true)], [Some(2), Some(3), None]);
        assert_eq!(relay.ask(asker(2, 9), get(9, 8)), Ok(()), "a link that had nothing left gets its turn again");
        assert_eq!(relay.pop(|_| true).map(|get| get.tag), Some(9));
    }

    #[test]
    fn who_waits_too_long_or_for_a_lost_link_is_told_once_and_has_his_credit_back() {
        let mut relay = relay();
        let full = u64::from(CREDIT);
        for n in 0..full {
            let via = Link(2 + n as u32 % 2);
            assert_eq!(relay.ask(asker(1, n), Get { via, ..get(n, 8) }), Ok(()));
        }
        // The last one gives up first.
        assert_eq!(relay.deadline(), Some(Time(100 - 7)));
        assert_eq!(relay.next_late(Time(92)), None);
        assert_eq!(relay.next_late(Time(94)), Some((asker(1, 7), Link(3))));
        assert_eq!(relay.next_late(Time(94)), Some((asker(1, 6), Link(2))));
        assert_eq!(relay.next_late(Time(94)), None);
        let lost: Vec<_> = core::iter::from_fn(|| relay.lost(Link(2))).map(|asker| asker.token.0).collect();
        assert_eq!(lost, [0, 2, 4]);
        for n in 0..5 {
            assert_eq!(relay.ask(asker(1, 10 + n), get(10 + n, 8)), Ok(()), "credit of those who were told");
        }
        assert_eq!(relay.ask(asker(1, 99), get(20, 8)), Err(Status::Full));
        let rest: Vec<_> = core::iter::from_fn(|| relay.pop(|_| true)).map(|get| get.tag).collect();
        assert_eq!(rest, [1, 3, 5, 10, 11, 12, 13, 14]);
        assert_eq!(relay.lost(Link(7)), None, "no such link");
    }
}
