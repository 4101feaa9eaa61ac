//! A channel that is a semaphore: a 64-bit count to raise, lower and wait for.

use umbra_core::atomic::Ordering;

use super::error::Error;
use super::layout::{State, View};
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};

/// The count of a semaphore channel.
#[derive(Debug)]
pub struct Semaphore<'a> {
    watch: Watch<'a>,
    view: View<'a>,
    most: u64,
}

impl Channel {
    /// The semaphore that this channel is.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if it is none.
    pub fn semaphore(&self) -> Result<Semaphore<'_>, Error> {
        let view = self.view()?;
        let Kind::Semaphore { initial, bounded } = view.kind() else { return Err(Error::WrongKind) };
        Ok(Semaphore { watch: Watch::new(view), view, most: if bounded { initial } else { u64::MAX } })
    }
}

impl Semaphore<'_> {
    /// The count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.view.state(State::Semaphore).load(Ordering::Relaxed)
    }

    fn change(&self, new: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let word = self.view.state(State::Semaphore);
        let before = word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, new).ok()?;
        self.view.event().notify_after_swap(&self.watch);
        Some(before)
    }

    fn wait(&self, mode: WaitMode, timeout: Timeout, look: impl Fn() -> Option<u64>) -> Result<u64, Error> {
        self.view.refuse_heirs()?;
        let look = || {
            if self.view.messages.queue().is_destroyed() {
                return Some(Err(Error::Destroyed));
            }
            look().map(Ok)
        };
        if let Some(done) = look() {
            return done;
        }
        if timeout == Timeout::Now {
            return Err(self.watch.late(Error::Timeout, timeout));
        }
        let (patience, _counted) = self.watch.patience(mode, timeout.deadline());
        let done = self.view.event().wait(&self.watch, patience.spins, patience.deadline, look);
        done.unwrap_or_else(|| Err(self.watch.late(Error::Timeout, timeout)))
    }

    /// Waits until the count is above zero and takes one; the count before.
    ///
    /// # Errors
    /// [`Error::Timeout`], also for one try; [`Error::Destroyed`], [`Error::Forked`].
    pub fn acquire(&self, mode: WaitMode, timeout: Timeout) -> Result<u64, Error> {
        self.wait(mode, timeout, || self.change(|count| count.checked_sub(1)))
    }

    /// Adds one.
    ///
    /// # Errors
    /// [`Error::SemaphoreFull`] if it is bounded and at the count that it began with, or at 2^64 - 1; [`Error::Forked`].
    pub fn release(&self) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        let added = self.change(|count| (count < self.most).then(|| count + 1));
        added.map(|_| ()).ok_or(Error::SemaphoreFull)
    }

    /// Waits until the count is zero.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub fn await_zero(&self, mode: WaitMode, timeout: Timeout) -> Result<(), Error> {
        self.wait(mode, timeout, || Some(self.count()).filter(|&count| count == 0)).map(|_| ())
    }
}
