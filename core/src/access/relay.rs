//! Reading for ranks: a service process gets its ranks the bytes of other ranks.
//!
//! A rank has no business with other ranks' memory; it asks its own service process ([`Fetch`]), which reads
//! as it would for itself, through the owner's first service process, and puts the bytes into the answer.
//! One fetch is at most [`INLINE_MAX`] bytes, so it becomes exactly one [`Get`] with exactly one delivery; who
//! wants more asks again, up to [`CREDIT`] fetches at once.
//!
//! The machine keeps who asked, in the order of asking. Its driver looks the owner up in the endpoint cache,
//! hands the [`Get`]s on to the [`Reader`](super::read::Reader) as long as that has room, and sends the
//! answers:
//!
//! ```text
//! Call FETCH ──> ask(link, token, get)         refused at once, or queued
//! pop()      ──> Get ──> Reader::get ──> begun(request)
//! Delivery, Ended of that request ──> ended(request) ──> whom to answer, if he is still there
//! ```
//!
//! Invariants: every fetch that was queued is answered once, unless its link goes; what a gone link wanted is
//! forgotten, and its late bytes answer nobody, also not the next link of that number.
//!
//! *Cost*: every call is O(1), but [`Relay::on_gone`], which walks the tables.

use super::read::{Get, Waiting};
use super::serve::INLINE_MAX;
use crate::error::Status;
use crate::id::Id;
use crate::machine::Link;
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
    /// `None` once his link is gone.
    asker: Option<Asker>,
    get: Get,
}

/// A fetch that is being read; lent by the caller, one for each place of the reader's table of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    request: Option<Id<Waiting>>,
    asker: Option<Asker>,
}

/// The machine.
#[derive(Debug)]
pub struct Relay<Q, F, L> {
    /// A circle of fetches that wait; the oldest is at `first`.
    queue: Q,
    first: usize,
    len: usize,
    flights: F,
    /// Fetches outstanding by link.
    outstanding: L,
    /// Who asked for the fetch that was handed out last.
    beginning: Option<Asker>,
}

impl<Q, F, L> Relay<Q, F, L>
where
    Q: AsRef<[Option<Ask>]> + AsMut<[Option<Ask>]>,
    F: AsRef<[Flight]> + AsMut<[Flight]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
{
    /// A machine over lent tables: fetches that wait, as many flights as the reader has requests, links.
    pub fn new(mut queue: Q, mut flights: F, mut links: L) -> Self {
        queue.as_mut().fill(None);
        flights.as_mut().fill(Flight::default());
        links.as_mut().fill(0);
        Relay { queue, first: 0, len: 0, flights, outstanding: links, beginning: None }
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
        let outstanding = self.outstanding.as_mut().get_mut(asker.link.index()).ok_or(Status::Full)?;
        let capacity = self.queue.as_ref().len();
        if *outstanding >= CREDIT || self.len == capacity {
            crate::log!(debug, "{:?} wants more than there is room for: {:?} reads wait", asker.link, self.len);
            return Err(Status::Full);
        }
        let at = (self.first + self.len) % capacity;
        let place = self.queue.as_mut().get_mut(at).ok_or(Status::Full)?;
        *place = Some(Ask { asker: Some(asker), get });
        *outstanding += 1;
        self.len += 1;
        Ok(())
    }

    /// The next read to begin: hand it to the reader and tell [`begun`](Self::begun). Ask only while the
    /// reader has room.
    #[must_use]
    pub fn pop(&mut self) -> Option<Get> {
        while self.len > 0 {
            let ask = self.queue.as_mut().get_mut(self.first).and_then(Option::take);
            self.first = (self.first + 1) % self.queue.as_ref().len();
            self.len -= 1;
            if let Some(Ask { asker: Some(asker), get }) = ask {
                self.beginning = Some(asker);
                return Some(get);
            }
        }
        None
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
        if let Some(outstanding) = self.outstanding.as_mut().get_mut(asker.link.index()) {
            *outstanding = outstanding.saturating_sub(1);
        }
        Fate::Answer(asker)
    }

    /// A link went down; nobody there waits any more.
    pub fn on_gone(&mut self, link: Link) {
        let gone = |asker: &mut Option<Asker>| {
            if asker.is_some_and(|asker| asker.link == link) {
                *asker = None;
            }
        };
        self.queue.as_mut().iter_mut().flatten().for_each(|ask| gone(&mut ask.asker));
        self.flights.as_mut().iter_mut().for_each(|flight| gone(&mut flight.asker));
        if let Some(outstanding) = self.outstanding.as_mut().get_mut(link.index()) {
            *outstanding = 0;
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
    use super::*;
    use crate::peer::{Peer, WorldRank};
    use crate::time::Time;

    fn get(tag: u64, len: u64) -> Get {
        let owner = Peer::rank(WorldRank(1)).unwrap_or_else(|| unreachable!());
        Get { owner, via: Link(9), address: 0, len, deadline: Time::NEVER, tag, region: None }
    }

    fn asker(link: u32, token: u64) -> Asker {
        Asker { link: Link(link), token: Token(token) }
    }

    fn relay() -> Relay<[Option<Ask>; 16], [Flight; 4], [u32; 4]> {
        Relay::new([None; 16], [Flight::default(); 4], [0; 4])
    }

    #[test]
    fn fetches_begin_in_order_and_each_is_answered_once() {
        let mut relay = relay();
        for n in 0..3 {
            assert_eq!(relay.ask(asker(1, n), get(n, 8)), Ok(()));
        }
        for n in 0..3_u32 {
            assert_eq!(relay.pop().map(|get| get.tag), Some(u64::from(n)));
            relay.begun(Id::from_bits(u64::from(n)));
        }
        assert_eq!(relay.pop(), None);
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
        assert!(relay.pop().is_some());
        relay.begun(Id::from_bits(0));
        assert_eq!(relay.ended(Id::from_bits(0)), Fate::Answer(asker(1, 0)));
        assert_eq!(relay.ask(asker(1, 99), get(0, 8)), Ok(()));
    }

    #[test]
    fn what_a_gone_link_wanted_answers_nobody_and_not_the_next_link_of_its_number() {
        let mut relay = relay();
        assert_eq!(relay.ask(asker(1, 0), get(0, 8)), Ok(()));
        assert!(relay.pop().is_some());
        relay.begun(Id::from_bits(0));
        assert_eq!(relay.ask(asker(1, 1), get(1, 8)), Ok(()));
        relay.on_gone(Link(1));
        assert_eq!(relay.ask(asker(1, 2), get(2, 8)), Ok(()));
        assert_eq!(relay.pop().map(|get| get.tag), Some(2), "the fetch that waited is forgotten");
        assert_eq!(relay.ended(Id::from_bits(0)), Fate::Nobody);
    }
}
