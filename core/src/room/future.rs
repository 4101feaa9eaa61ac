//! Waits as futures; each ends when it is dropped.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::cached::{Scene, Told};
use super::line::{Stand, WaitError};
use super::shared::{Cached, Queue, Shared};
use crate::cache::waiting::Record;
use crate::cache::waiting::lock::{Lock, asking};
use crate::id::Id;

/// A wait for room. Dropping it ends the wait.
#[must_use = "nothing is asked for before the first poll"]
pub struct Roomy<'a, L: Lock<Value: Queue>> {
    shared: &'a Shared<L>,
    wish: &'a mut <L::Value as Queue>::Wish,
    stand: Stand,
}

impl<'a, L: Lock<Value: Queue>> Roomy<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, wish: &'a mut <L::Value as Queue>::Wish) -> Self {
        Roomy { shared, wish, stand: Stand::Outside }
    }

    /// Whether it stands in line; it does not before the first poll.
    pub fn waits(&self) -> bool {
        self.stand != Stand::Outside
    }

    /// Stops waiting.
    ///
    /// # Errors
    /// What was known then; but room, or an error, that came before is the answer.
    #[allow(clippy::type_complexity, reason = "an answer, or what is known without one")]
    pub fn expire(mut self) -> Result<Result<(), WaitError<<L::Value as Queue>::Error>>, <L::Value as Queue>::Scene> {
        let (stand, mut spare) = (core::mem::take(&mut self.stand), None);
        let (shared, wish) = (self.shared, &mut *self.wish);
        shared.act(|memory| match memory.leave(stand, Some(&mut *wish), &mut spare) {
            Some(told) => Ok(told),
            None => Err(memory.scene(wish)),
        })
    }
}

impl<L: Lock<Value: Queue>> Future for Roomy<'_, L> {
    type Output = Result<(), WaitError<<L::Value as Queue>::Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Roomy { shared, wish, stand } = &mut *self;
        let waker = context.waker();
        asking(waker, |spare| shared.act(|memory| memory.ask(stand, wish, waker, spare)))
    }
}

impl<L: Lock<Value: Queue>> Drop for Roomy<'_, L> {
    fn drop(&mut self) {
        if self.stand != Stand::Outside {
            let (stand, mut spare) = (core::mem::take(&mut self.stand), None);
            let _ = self.shared.act(|memory| memory.leave(stand, None, &mut spare));
        }
    }
}

/// A wait for content. Dropping it ends the wait.
#[must_use = "nothing is asked for before the first poll"]
pub struct Content<'a, L: Lock<Value: Cached>> {
    shared: &'a Shared<L>,
    data: u64,
    waiter: Option<Id<Record<Told>>>,
}

impl<'a, L: Lock<Value: Cached>> Content<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, data: u64) -> Self {
        Content { shared, data, waiter: None }
    }

    /// Stops waiting.
    ///
    /// # Errors
    /// What was known then; but content or an error that came before is the answer.
    pub fn expire(mut self) -> Result<Told, Scene> {
        self.shared.end_content(self.waiter.take(), self.data)
    }
}

impl<L: Lock<Value: Cached>> Future for Content<'_, L> {
    type Output = Told;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Told> {
        let Content { shared, data, waiter } = &mut *self;
        let waker = context.waker();
        asking(waker, |spare| shared.act(|memory| memory.ask_content(waiter, *data, waker, spare)))
    }
}

impl<L: Lock<Value: Cached>> Drop for Content<'_, L> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            let mut spare = None;
            let _ = self.shared.act(|memory| memory.leave_content(Some(waiter), &mut spare));
        }
    }
}
