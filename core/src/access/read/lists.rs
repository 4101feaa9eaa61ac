//! Lists of requests, threaded through the requests themselves.

use super::Waiting;
use crate::id::Id;
use crate::pending::{Pending, Request};

/// A request or none, in one word: it is stored and loaded as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Next(u64);

impl Next {
    /// No id has these bits: their generation is [`Generation::NEVER`](crate::id::Generation::NEVER).
    pub(super) const NONE: Next = Next(0);

    #[inline]
    const fn of(request: Id<Waiting>) -> Next {
        Next(request.to_bits())
    }

    #[inline]
    const fn get(self) -> Option<Id<Waiting>> {
        if self.0 == 0 { None } else { Some(Id::from_bits(self.0)) }
    }
}

/// First come, first served.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    first: Next,
    last: Next,
}

/// In which list a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Listed {
    Nowhere,
    Waiting,
    Parked,
    Ended,
}

impl List {
    #[inline]
    pub(super) const fn first(&self) -> Option<Id<Waiting>> {
        self.first.get()
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.first().is_none()
    }
}

/// Appends a request that is in no list.
#[inline]
pub(super) fn push<R>(list: &mut List, requests: &mut Pending<R>, request: Id<Waiting>, listed: Listed)
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
{
    let Ok(waiting) = requests.get_mut(request) else { return };
    waiting.listed = listed;
    waiting.next = Next::NONE;
    let before = core::mem::replace(&mut list.last, Next::of(request));
    match before.get().and_then(|before| requests.get_mut(before).ok()) {
        Some(before) => before.next = Next::of(request),
        None => list.first = Next::of(request),
    }
}

/// Takes the first request off.
#[inline]
pub(super) fn pop<R>(list: &mut List, requests: &mut Pending<R>) -> Option<Id<Waiting>>
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
{
    let first = list.first()?;
    list.first = Next::NONE;
    if let Ok(waiting) = requests.get_mut(first) {
        waiting.listed = Listed::Nowhere;
        list.first = waiting.next;
        waiting.next = Next::NONE;
    }
    if list.is_empty() {
        list.last = Next::NONE;
    }
    Some(first)
}

/// Takes a request out, wherever it is; O(its place).
pub(super) fn unlink<R>(list: &mut List, requests: &mut Pending<R>, request: Id<Waiting>)
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
{
    let mut before = Next::NONE;
    let mut at = list.first;
    while let Some(id) = at.get() {
        let next = requests.get(id).map_or(Next::NONE, |waiting| waiting.next);
        if id == request {
            match before.get().and_then(|before| requests.get_mut(before).ok()) {
                Some(before) => before.next = next,
                None => list.first = next,
            }
            if list.last == at {
                list.last = before;
            }
            if let Ok(waiting) = requests.get_mut(request) {
                waiting.listed = Listed::Nowhere;
                waiting.next = Next::NONE;
            }
            return;
        }
        before = at;
        at = next;
    }
}
