//! A barrier for as many parties as the channel has capacity for.
//!
//! One word: round (32 bits), whether the last round was broken, whether this one is, and parties counted. Each party
//! notes its round in its own record first, so that one who dies while it is counted breaks the round instead of
//! holding the others for ever.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::time::Lapse;

use super::error::Error;
use super::layout::{Pocket, State, View};
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};
use crate::sys::clock;

const ROUND: u32 = 32;
const LAST_BROKEN: u64 = 1 << 31;
const BROKEN: u64 = 1 << 30;
const COUNT: u64 = BROKEN - 1;

/// The barrier of a channel.
#[derive(Debug)]
pub struct Barrier<'a> {
    watch: Watch<'a>,
    view: View<'a>,
    parties: u64,
}

const fn round(word: u64) -> u64 {
    word >> ROUND
}

/// The word of the round after this one.
const fn next(word: u64, broken: bool) -> u64 {
    (round(word) + 1) << ROUND | if broken { LAST_BROKEN } else { 0 }
}

/// Changes the word as `new` says, unless that says `None`; the word before.
fn change(word: &AtomicU64, new: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, new)
}

/// Takes a note back, unless another thread of the process, which is in the next round by now, has written its own over it.
fn withdraw(noted: &AtomicU64, note: u64) {
    let _ = noted.compare_exchange(note, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Breaks the round that this member is counted for, or was about to be.
pub(super) fn forsaken(view: &View<'_>, number: u16) {
    let Some(noted) = view.pocket(number, Pocket::Barrier) else { return };
    let noted = noted.load(Ordering::Relaxed);
    let _ = change(view.state(State::Barrier), |word| (noted == round(word) + 1).then_some(word | BROKEN));
}

/// Parties that came and wait.
pub(super) fn waiting_at(view: &View<'_>) -> u32 {
    (view.state(State::Barrier).load(Ordering::Relaxed) & COUNT) as u32
}

impl Channel {
    /// The barrier of this channel.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if it is a semaphore.
    pub fn barrier(&self) -> Result<Barrier<'_>, Error> {
        let view = self.view()?;
        if view.kind() != Kind::Messages {
            return Err(Error::WrongKind);
        }
        let parties = u64::from(view.messages.queue().shape().capacity);
        Ok(Barrier { watch: Watch::new(view), view, parties })
    }
}

impl Barrier<'_> {
    fn word(&self) -> &AtomicU64 {
        self.view.state(State::Barrier)
    }

    fn tell(&self) {
        self.view.event().notify(&self.watch);
    }

    /// Waits until all parties have come; the number of those who came before.
    ///
    /// # Errors
    /// [`Error::BarrierBroken`] for all until a [`reset`](Self::reset), if a party gave up, timed out or died; the one
    /// whose time is over gets [`Error::Timeout`]. [`Error::BarrierTryAgain`] if there is one try and others are still to
    /// come; then nothing changed. One wait a process at a time.
    pub fn wait(&self, mode: WaitMode, timeout: Timeout) -> Result<u32, Error> {
        self.wait_while(mode, timeout, Lapse(u64::MAX), || true)
    }

    /// As [`wait`](Self::wait), but asks now and then whether there is somebody to wait for; if not, it is as if the time
    /// were over.
    pub(crate) fn wait_while(
        &self,
        mode: WaitMode,
        timeout: Timeout,
        every: Lapse,
        mut is_wanted: impl FnMut() -> bool,
    ) -> Result<u32, Error> {
        let deadline = timeout.deadline();
        let noted = self.view.pocket(self.view.me, Pocket::Barrier).ok_or(Error::Damaged)?;
        let mut came = self.word().load(Ordering::Acquire);
        loop {
            if self.view.messages.queue().is_destroyed() {
                return Err(Error::Destroyed);
            }
            let last = (came & COUNT) + 1 >= self.parties;
            if came & BROKEN != 0 {
                return Err(Error::BarrierBroken);
            }
            if !last && timeout == Timeout::Now {
                return Err(Error::BarrierTryAgain);
            }
            // Before it is counted: whoever finds this one dead breaks the round, which cannot be completed without it.
            let note = round(came) + 1;
            noted.store(note, Ordering::Relaxed);
            let new = if last { next(came, false) } else { came + 1 };
            match self.word().compare_exchange(came, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => came = now,
            }
            withdraw(noted, note);
        }
        // Those who wait for the last one must hear of it before he looks himself.
        self.tell();
        let (patience, _counted) = self.watch.patience(mode, deadline);
        let mut waited = self.outcome(came);
        while waited.is_none() && clock::now() < deadline && is_wanted() {
            let until = deadline.min(clock::now() + every);
            waited = self.view.event().wait(&self.watch, patience.spins, until, || self.outcome(came));
        }
        let result = waited.unwrap_or_else(|| {
            // Who leaves breaks it for all, unless it is complete by now.
            let broke = change(self.word(), |word| (round(word) == round(came)).then_some(word | BROKEN));
            match broke {
                Ok(before) if before & BROKEN == 0 => Err(Error::Timeout),
                Ok(_) => Err(Error::BarrierBroken),
                Err(_) => self.outcome(came).unwrap_or(Err(Error::Timeout)),
            }
        });
        withdraw(noted, round(came) + 1);
        self.tell();
        result.map(|()| (came & COUNT) as u32)
    }

    /// How the round of this word ended, if it did.
    fn outcome(&self, came: u64) -> Option<Result<(), Error>> {
        let now = self.word().load(Ordering::Acquire);
        if self.view.messages.queue().is_destroyed() {
            return Some(Err(Error::Destroyed));
        }
        match round(now).wrapping_sub(round(came)) {
            0 if now & BROKEN == 0 => None,
            1 if now & LAST_BROKEN == 0 => Some(Ok(())),
            _ => Some(Err(Error::BarrierBroken)),
        }
    }

    /// Breaks it: who waits, and who comes later, gets [`Error::BarrierBroken`].
    pub fn abort(&self) {
        self.word().fetch_or(BROKEN, Ordering::AcqRel);
        self.tell();
    }

    /// Makes it whole again, for a new round.
    pub fn reset(&self) {
        let _ = change(self.word(), |word| Some(next(word, true)));
        self.tell();
    }

    /// Whether it is broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.word().load(Ordering::Relaxed) & BROKEN != 0
    }

    /// Parties that came and wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        waiting_at(&self.view)
    }

    /// Parties that it is for.
    #[must_use]
    pub const fn parties(&self) -> u32 {
        self.parties as u32
    }
}
