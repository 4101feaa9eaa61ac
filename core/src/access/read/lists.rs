//! Lists of requests, threaded through the requests themselves.

use super::Waiting;
use crate::id::Id;
use crate::pending::{Pending, Request};

/// First come, first served.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    first: Option<Id<Waiting>>,
    last: Option<Id<Waiting>>,
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
        self.first
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
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
    waiting.next = None;
    let before = list.last.replace(request);
    match before.and_then(|before| requests.get_mut(before).ok()) {
        Some(before) => before.next = Some(request),
        None => list.first = Some(request),
    }
}

/// Takes the first request off.
#[inline]
pub(super) fn pop<R>(list: &mut List, requests: &mut Pending<R>) -> Option<Id<Waiting>>
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
{
    let first = list.first?;
    unlink(list, requests, first);
    Some(first)
}

/// Takes a request out, wherever it is; O(its place).
#[inline]
pub(super) fn unlink<R>(list: &mut List, requests: &mut Pending<R>, request: Id<Waiting>)
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
{
    let mut before = None;
    let mut at = list.first;
    while let Some(id) = at {
        let next = requests.get(id).ok().and_then(|waiting| waiting.next);
        if id == request {
            match before.and_then(|before: Id<Waiting>| requests.get_mut(before).ok()) {
                Some(before) => before.next = next,
                None => list.first = next,
            }
            if list.last == Some(request) {
                list.last = before;
            }
            if let Ok(waiting) = requests.get_mut(request) {
                waiting.listed = Listed::Nowhere;
                waiting.next = None;
            }
            return;
        }
        before = at;
        at = next;
    }
}
