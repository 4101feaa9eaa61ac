//! Waits as futures; each ends when it is dropped.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use super::answer::{AllocError, Overdue, Place};
use super::shared::{Guarded, Shared};
use crate::cache::waiting::Lock;
use crate::cache::waiting::lock::asking;
use crate::id::Id;
use crate::stencil::group::Group;
use crate::stencil::machine::Member;

/// A wait until a group is accepted and has all its slots. Dropping it ends the wait: a group that was accepted goes on.
#[derive(Debug)]
#[must_use = "nothing is asked for before the first poll"]
pub struct Allocated<'a, L: Lock<Value: Guarded>, M> {
    group: M,
    wait: Wait<'a, L>,
}

impl<'a, L: Lock<Value: Guarded>, M> Allocated<'a, L, M> {
    pub(super) fn new(shared: &'a Shared<L>, point: u64, group: M) -> Self {
        Allocated { group, wait: Wait { shared, point, place: Place::Outside } }
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        &self.wait.place
    }

    /// Stops waiting.
    ///
    /// # Errors
    /// What was known then, and the group if it was accepted; but an answer that came before is the answer.
    pub fn expire(self) -> Result<Result<Id<Group>, AllocError>, Overdue> {
        self.wait.expire()
    }
}

impl<L: Lock<Value: Guarded>, M: IntoIterator<Item = Member> + Clone + Unpin> Future for Allocated<'_, L, M> {
    type Output = Result<Id<Group>, AllocError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Allocated { group, wait: Wait { shared, point, place } } = &mut *self;
        let waker = context.waker();
        asking(waker, |spare| shared.act(|cache| cache.ask(place, *point, group, waker, spare)))
    }
}

/// A wait until a group that was accepted has all its slots. Dropping it ends the wait: the group goes on.
#[derive(Debug)]
#[must_use = "nothing is asked for before the first poll"]
pub struct Assigned<'a, L: Lock<Value: Guarded>> {
    group: Id<Group>,
    wait: Wait<'a, L>,
}

impl<'a, L: Lock<Value: Guarded>> Assigned<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, group: Id<Group>) -> Self {
        Assigned { group, wait: Wait { shared, point: 0, place: Place::Accepted(group, None) } }
    }

    /// Stops waiting.
    ///
    /// # Errors
    /// What was known then; but an answer that came before is the answer.
    pub fn expire(self) -> Result<Result<Id<Group>, AllocError>, Overdue> {
        self.wait.expire()
    }
}

impl<L: Lock<Value: Guarded>> Future for Assigned<'_, L> {
    type Output = Result<(), AllocError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Assigned { group, wait: Wait { shared, place, .. } } = &mut *self;
        let waker = context.waker();
        ready!(asking(waker, |spare| shared.act(|cache| cache.ask_assigned(place, *group, waker, spare))))?;
        Poll::Ready(Ok(()))
    }
}

/// A place in a cache, which is left at the end.
#[derive(Debug)]
struct Wait<'a, L: Lock<Value: Guarded>> {
    shared: &'a Shared<L>,
    point: u64,
    place: Place,
}

impl<L: Lock<Value: Guarded>> Wait<'_, L> {
    fn expire(mut self) -> Result<Result<Id<Group>, AllocError>, Overdue> {
        let (place, point, mut spare) = (core::mem::take(&mut self.place), self.point, None);
        let accepted = if let Place::Accepted(group, _) = place { Some(group) } else { None };
        self.shared.act(|cache| cache.leave(place, &mut spare).ok_or_else(|| cache.overdue(point, accepted)))
    }
}

impl<L: Lock<Value: Guarded>> Drop for Wait<'_, L> {
    fn drop(&mut self) {
        if self.place != Place::Outside {
            let (place, mut spare) = (core::mem::take(&mut self.place), None);
            let _ = self.shared.act(|cache| cache.leave(place, &mut spare));
        }
    }
}
