//! Waits as futures; each ends when it is dropped.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Waiter;
use super::answer::{Answer, Asked, ContentError, Scene, WaitError};
use super::guard::Given;
use super::lock::{Lock, asking};
use super::shared::{Guarded, Shared};
use crate::cache::grant::Found;
use crate::id::Id;

/// A wait for a slot. Dropping it ends the wait; a slot that was given meanwhile is given back.
#[derive(Debug)]
#[must_use = "nothing is asked for before the first poll"]
pub struct Slotted<'a, L: Lock<Value: Guarded>> {
    shared: &'a Shared<L>,
    data: u64,
    waiter: Option<Id<Waiter>>,
}

impl<'a, L: Lock<Value: Guarded>> Slotted<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, data: u64) -> Self {
        Slotted { shared, data, waiter: None }
    }

    /// Whether it stands in line; it does not before the first poll.
    pub fn waits(&self) -> bool {
        self.waiter.is_some()
    }

    /// Stops waiting.
    ///
    /// # Errors
    /// What was known then; but a slot or an error that came before is the answer.
    pub fn expire(mut self) -> Result<Result<Given<'a, L>, WaitError>, Scene> {
        let (answer, scene) = self.shared.end(self.waiter.take(), self.data);
        match answer {
            Some(Answer::Slot(given)) => Ok(given.map(|given| self.shared.given(given)).map_err(WaitError::from)),
            _ => Err(scene),
        }
    }
}

impl<'a, L: Lock<Value: Guarded>> Future for Slotted<'a, L> {
    type Output = Result<Given<'a, L>, WaitError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (shared, data, waker) = (self.shared, self.data, context.waker());
        let given = match self.waiter {
            None => match asking(waker, |spare| shared.act(|cache| cache.ask_slot(data, spare)).transpose())? {
                Asked::Now(given) => given,
                Asked::Later(waiter) => {
                    self.waiter = Some(waiter);
                    return Poll::Pending;
                }
            },
            Some(waiter) => match shared.heard(waiter, waker) {
                Poll::Ready(Answer::Slot(given)) => {
                    self.waiter = None;
                    given?
                }
                _ => return Poll::Pending,
            },
        };
        Poll::Ready(Ok(shared.given(given)))
    }
}

impl<L: Lock<Value: Guarded>> Drop for Slotted<'_, L> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let mut spare = None;
        self.shared.act(|cache| {
            if let Some(Answer::Slot(Ok((pin, grant)))) = cache.end(waiter, &mut spare) {
                cache.take_back(pin, grant.found == Found::Empty);
            }
        });
    }
}

/// A wait for content. Dropping it ends the wait.
#[derive(Debug)]
#[must_use = "nothing is asked for before the first poll"]
pub struct Content<'a, L: Lock<Value: Guarded>> {
    shared: &'a Shared<L>,
    data: u64,
    waiter: Option<Id<Waiter>>,
}

impl<'a, L: Lock<Value: Guarded>> Content<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, data: u64) -> Self {
        Content { shared, data, waiter: None }
    }

    /// Stops waiting.
    ///
    /// # Errors
    /// What was known then; but content or an error that came before is the answer.
    pub fn expire(mut self) -> Result<Result<(), ContentError>, Scene> {
        let (answer, scene) = self.shared.end(self.waiter.take(), self.data);
        match answer {
            Some(Answer::Content(told)) => Ok(told),
            _ => Err(scene),
        }
    }
}

impl<L: Lock<Value: Guarded>> Future for Content<'_, L> {
    type Output = Result<(), ContentError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (shared, data, waker) = (self.shared, self.data, context.waker());
        match self.waiter {
            None => match asking(waker, |spare| shared.act(|cache| cache.ask_for_content(data, spare)).transpose())? {
                Asked::Now(()) => Poll::Ready(Ok(())),
                Asked::Later(waiter) => {
                    self.waiter = Some(waiter);
                    Poll::Pending
                }
            },
            Some(waiter) => match shared.heard(waiter, waker) {
                Poll::Ready(Answer::Content(told)) => {
                    self.waiter = None;
                    Poll::Ready(told)
                }
                _ => Poll::Pending,
            },
        }
    }
}

impl<L: Lock<Value: Guarded>> Drop for Content<'_, L> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            let mut spare = None;
            let _ = self.shared.act(|cache| cache.end(waiter, &mut spare));
        }
    }
}
