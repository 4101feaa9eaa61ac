//! Requests in flight.
//!
//! Each has an id, which is the token on the wire, a deadline, and a value that says what is asked of whom.
//! A request ends exactly once: by `complete` or `end` when its answer comes, or by `expired` when its deadline has
//! passed; afterwards its id is stale, so a late or repeated answer is recognised. `expired` hands the
//! value back, and with it the name of who is missing.
//!
//! ```
//! use umbra_core::pending::{Pending, Request};
//! use umbra_core::time::Time;
//! let mut reads = Pending::new([const { Request::<&str>::EMPTY }; 4]);
//! let a = reads.begin("rank 3", Time(100))?;
//! let b = reads.begin("rank 5", Time(50))?;
//! assert_eq!(reads.deadline(), Some(Time(50)));
//! assert_eq!(reads.complete(a), Ok("rank 3"));
//! assert!(reads.complete(a).is_err(), "an answer that comes twice");
//! assert_eq!(reads.expired(Time(50)), Some((b, "rank 5")));
//! assert_eq!(reads.expired(Time(50)), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: `order[0..len]` (the `order` fields of the lent places) is a binary heap by deadline of the
//! indices in flight, `order[len..]` holds the free indices, last freed first; `order[place of i] = i`. So the tail of the
//! heap is the free list, and a table of [`Slots`](crate::slots::Slots) below would keep a second one beside it.
//!
//! *Cost*: `begin`, `complete`, `end`, `postpone` and `expired` are O(log n), `deadline` is O(1).

use crate::error::{Full, Stale};
use crate::id::{Generation, Id};
use crate::time::Time;

/// One place in the table; a [`Pending`] is lent an array of them.
#[derive(Clone, Debug)]
pub struct Request<T> {
    generation: Generation,
    /// Where in `order` this index is.
    place: u32,
    /// Element of `order` at this place: unrelated to the other fields.
    order: u32,
    deadline: Time,
    value: Option<T>,
}

impl<T> Request<T> {
    /// A place without a request.
    pub const EMPTY: Self =
        Request { generation: Generation::FIRST, place: 0, order: 0, deadline: Time::NEVER, value: None };

    /// Makes the ids of a request that ended stale; returns its place in the heap.
    #[inline]
    const fn retire(&mut self) -> u32 {
        self.generation = self.generation.next();
        self.place
    }
}
impl<T> Default for Request<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The table; ids that it hands out are of type `Id<T>`.
#[derive(Clone, Debug)]
pub struct Pending<S> {
    requests: S,
    len: u32,
}

impl<S> Pending<S> {
    /// An empty table over the lent places; requests that they hold are dropped.
    ///
    /// At most 2^32 - 1 places are used.
    #[must_use]
    pub fn new<T>(mut requests: S) -> Self
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        for (index, request) in (0..u32::MAX).zip(requests.as_mut()) {
            let generation = if request.value.is_some() { request.generation.next() } else { request.generation };
            *request = Request { generation, place: index, order: index, ..Request::EMPTY };
        }
        Pending { requests, len: 0 }
    }

    /// Requests in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Requests that can be in flight at once.
    #[must_use]
    pub fn capacity<T>(&self) -> usize
    where
        S: AsRef<[Request<T>]>,
    {
        self.requests.as_ref().len()
    }

    /// The id that the next [`begin`](Self::begin) gives; `None` if the table is full.
    #[must_use]
    #[inline]
    pub fn next<T>(&self) -> Option<Id<T>>
    where
        S: AsRef<[Request<T>]>,
    {
        let all = self.requests.as_ref();
        let index = all.get(self.len as usize)?.order;
        all.get(index as usize).map(|request| Id::new(index, request.generation))
    }

    /// Enters a request that must end by `deadline` ([`Time::NEVER`]: by its answer only).
    ///
    /// # Errors
    /// [`Full`] with the value; an answer or an expiry makes a retry worth while.
    #[inline(always)]
    pub fn begin<T>(&mut self, value: T, deadline: Time) -> Result<Id<T>, Full<T>>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let all = self.requests.as_mut();
        let place = self.len;
        let Some(index) = all.get(place as usize).map(|at| at.order) else { return Err(Full(value)) };
        let request = &mut all[index as usize];
        request.deadline = deadline;
        request.value = Some(value);
        let id = Id::new(index, request.generation);
        self.len += 1;
        if place > 0 {
            self.rise(place);
        }
        Ok(id)
    }

    /// Ends a request because its answer came, and hands its value back.
    ///
    /// # Errors
    /// [`Stale`] if it has ended already: the answer is late, repeated or forged.
    pub fn complete<T>(&mut self, id: Id<T>) -> Result<T, Stale>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let request = self.request_mut(id)?;
        let value = request.value.take().ok_or(Stale)?;
        let place = request.retire();
        self.close_gap(place);
        Ok(value)
    }

    /// As [`complete`](Self::complete), for whoever does not need the value any more: it is not moved.
    ///
    /// # Errors
    /// [`Stale`] if it has ended already.
    #[inline(always)]
    pub fn end<T>(&mut self, id: Id<T>) -> Result<(), Stale>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let request = self.request_mut(id)?;
        request.value = None;
        let place = request.retire();
        self.close_gap(place);
        Ok(())
    }

    /// The last of the heap fills the place of a request that ended; the freed index becomes the first free one.
    #[inline]
    fn close_gap<T>(&mut self, place: u32)
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        self.len -= 1;
        if place < self.len {
            self.swap(place, self.len);
            self.sink(place);
            self.rise(place);
        }
    }

    /// Ends the request with the earliest deadline if that is not after `now`; call until `None`.
    #[must_use = "the request has ended; whoever waits for it must be told"]
    pub fn expired<T>(&mut self, now: Time) -> Option<(Id<T>, T)>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let (id, deadline) = self.first()?;
        if deadline > now || deadline == Time::NEVER {
            return None;
        }
        self.complete(id).ok().map(|value| (id, value))
    }

    /// The request with the earliest deadline if that is not after `now`, left as it is: for whoever
    /// [postpones](Self::postpone) it.
    #[must_use]
    #[inline]
    pub fn due<T>(&self, now: Time) -> Option<Id<T>>
    where
        S: AsRef<[Request<T>]>,
    {
        self.first().filter(|&(_, deadline)| deadline <= now && deadline != Time::NEVER).map(|(id, _)| id)
    }

    /// The current id and value of the request at this place of the table, if there is one.
    #[must_use]
    #[inline]
    pub fn at<T>(&self, index: u32) -> Option<(Id<T>, &T)>
    where
        S: AsRef<[Request<T>]>,
    {
        let request = self.requests.as_ref().get(index as usize)?;
        request.value.as_ref().map(|value| (Id::new(index, request.generation), value))
    }

    /// The earliest deadline of all requests in flight; `None` if nothing will ever expire.
    #[must_use]
    #[inline]
    pub fn deadline<T>(&self) -> Option<Time>
    where
        S: AsRef<[Request<T>]>,
    {
        self.first().map(|(_, deadline)| deadline).filter(|&deadline| deadline != Time::NEVER)
    }

    /// Gives a request another deadline, earlier or later.
    ///
    /// # Errors
    /// [`Stale`] if it has ended already.
    pub fn postpone<T>(&mut self, id: Id<T>, deadline: Time) -> Result<(), Stale>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let request = self.request_mut(id)?;
        request.deadline = deadline;
        let place = request.place;
        self.sink(place);
        self.rise(place);
        Ok(())
    }

    /// The value of a request in flight.
    ///
    /// # Errors
    /// [`Stale`] if it has ended already.
    #[inline]
    pub fn get<T>(&self, id: Id<T>) -> Result<&T, Stale>
    where
        S: AsRef<[Request<T>]>,
    {
        let request = self.requests.as_ref().get(id.index() as usize).ok_or(Stale)?;
        match &request.value {
            Some(value) if request.generation == id.generation() => Ok(value),
            _ => Err(Stale),
        }
    }

    /// The value of a request in flight, to change it.
    ///
    /// # Errors
    /// [`Stale`] if it has ended already.
    #[inline]
    pub fn get_mut<T>(&mut self, id: Id<T>) -> Result<&mut T, Stale>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        self.request_mut(id)?.value.as_mut().ok_or(Stale)
    }

    /// All requests in flight, in no particular order: who is missing right now.
    pub fn iter<'a, T: 'a>(&'a self) -> impl Iterator<Item = (Id<T>, &'a T)>
    where
        S: AsRef<[Request<T>]>,
    {
        let all = self.requests.as_ref();
        all.iter().take(self.len as usize).filter_map(|at| {
            let request = all.get(at.order as usize)?;
            request.value.as_ref().map(|value| (Id::new(at.order, request.generation), value))
        })
    }

    #[inline]
    fn request_mut<T>(&mut self, id: Id<T>) -> Result<&mut Request<T>, Stale>
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let request = self.requests.as_mut().get_mut(id.index() as usize).ok_or(Stale)?;
        if request.value.is_some() && request.generation == id.generation() { Ok(request) } else { Err(Stale) }
    }

    #[inline]
    fn first<T>(&self) -> Option<(Id<T>, Time)>
    where
        S: AsRef<[Request<T>]>,
    {
        if self.len == 0 {
            return None;
        }
        let all = self.requests.as_ref();
        let index = all.first()?.order;
        all.get(index as usize).map(|request| (Id::new(index, request.generation), request.deadline))
    }

    fn before<T>(&self, a: u32, b: u32) -> bool
    where
        S: AsRef<[Request<T>]>,
    {
        let all = self.requests.as_ref();
        all[all[a as usize].order as usize].deadline < all[all[b as usize].order as usize].deadline
    }

    fn swap<T>(&mut self, a: u32, b: u32)
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        let all = self.requests.as_mut();
        let (at_a, at_b) = (all[a as usize].order, all[b as usize].order);
        all[a as usize].order = at_b;
        all[b as usize].order = at_a;
        all[at_a as usize].place = b;
        all[at_b as usize].place = a;
    }

    fn rise<T>(&mut self, mut place: u32)
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.before(place, parent) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sink<T>(&mut self, mut place: u32)
    where
        S: AsRef<[Request<T>]> + AsMut<[Request<T>]>,
    {
        while let Some(left) = place.checked_mul(2).and_then(|twice| twice.checked_add(1)).filter(|&at| at < self.len) {
            let right = left + 1;
            let child = if right < self.len && self.before(right, left) { right } else { left };
            if !self.before(child, place) {
                break;
            }
            self.swap(child, place);
            place = child;
        }
    }
}
