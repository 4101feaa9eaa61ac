//! A barrier on a channel, in one call or in two steps.
//!
//! It is for as many parties as the channel has capacity for. The word is that of [`umbra_core::barrier`]. Each party
//! notes its round in its own record, so that one who dies while it is counted breaks the round instead of holding the
//! others for ever. In two steps a party is counted in, which returns at once, and receives from the channel what the
//! last one, or whoever broke the round, hands out: one message of eight bytes, the number in little-endian order. So
//! the channel carries nothing else meanwhile, and a round begins when it is empty.
//!
//! ```
//! use umbra::channel::{Attributes, Channel, Error, Timeout, WaitMode};
//! let channel = Channel::create(&Attributes { capacity: 2, ..Attributes::default() })?;
//! let barrier = channel.barrier()?;
//! assert!(!barrier.count_in(WaitMode::Idle, Timeout::Never)?);
//! assert!(barrier.count_in(WaitMode::Idle, Timeout::Never)?, "the last one");
//! barrier.release(Timeout::Never)?;
//! let receiver = channel.receiver(WaitMode::Idle)?;
//! for number in 0_u64..2 {
//!     let mut told = [0; 8];
//!     receiver.receive(&mut told, Timeout::Never)?;
//!     assert_eq!(u64::from_le_bytes(told), number);
//! }
//! # Ok::<(), Error>(())
//! ```

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::barrier::{Glance, NotReleased, Rounds};
use umbra_core::channel::{Header, Patience, Port, SendError};
use umbra_core::time::{Lapse, Time};

use super::error::Error;
use super::layout::{Pocket, State, View};
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};
use crate::sys::clock;

/// The barrier of a channel. A child that is forked off asks the channel for its own, and is a party by itself.
#[derive(Debug)]
pub struct Barrier<'a> {
    watch: Watch<'a>,
    view: View<'a>,
    rounds: Rounds<'a>,
}

fn rounds<'a>(view: &View<'a>) -> Rounds<'a> {
    Rounds::new(view.state(State::Barrier), view.messages.queue().shape().capacity)
}

/// Breaks what a member that will not run again leaves incomplete.
pub(super) fn forsaken(view: &View<'_>, number: u16) {
    let Some(noted) = view.pocket(number, Pocket::Barrier) else { return };
    rounds(view).forsake(noted.load(Ordering::Relaxed), number, || view.messages.queue().is_empty());
}

/// Where this member notes what it takes part in.
pub(super) fn noted<'a>(view: &View<'a>) -> Option<&'a AtomicU64> {
    view.pocket(view.me, Pocket::Barrier)
}

/// This member, which notes there, has received a message.
#[inline]
pub(super) fn received(view: &View<'_>, noted: Option<&AtomicU64>) {
    if let Some(noted) = noted.filter(|noted| Rounds::may_miss(noted)) {
        rounds(view).received(noted);
    }
}

/// A member leaves in order.
pub(super) fn leave(view: &View<'_>, number: u16) {
    if let Some(noted) = view.pocket(number, Pocket::Barrier) {
        rounds(view).leave(noted);
    }
}

/// Hands out what parties of a broken round are owed, unless somebody does. What there is no room for stays owed; whoever waits
/// at the channel comes here again.
pub(super) fn settle(view: &View<'_>) {
    let rounds = rounds(view);
    // Who takes a place has none yet.
    if view.pocket(view.me, Pocket::Barrier).is_some() && rounds.settle(view.me) {
        hand_out(view, &rounds, || None);
        view.event().notify(&Watch::new(*view));
    }
}

/// As the one who was made to hand out, who waits for room as long as `until` names a time; whether nothing broke the round.
fn hand_out(view: &View<'_>, rounds: &Rounds<'_>, mut until: impl FnMut() -> Option<Time>) -> bool {
    let port = Port::new(view.messages, view.me, Watch::new(*view));
    rounds.hand_out(|number| {
        let mut sent = port.try_send(Header::default(), &number.to_le_bytes());
        while matches!(sent, Err(SendError::Full))
            && let Some(deadline) = until()
        {
            sent = port.send(Header::default(), &number.to_le_bytes(), Patience { spins: 0, deadline });
        }
        sent.is_ok()
    })
}

/// Parties that came and wait.
pub(super) fn waiting_at(view: &View<'_>) -> u32 {
    rounds(view).glance().came()
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
        Ok(Barrier { watch: Watch::new(view), rounds: rounds(&view), view })
    }
}

impl Barrier<'_> {
    fn tell(&self) {
        self.view.event().notify(&self.watch);
    }

    /// Hands out what is owed, and tells those who wait.
    fn broke(&self) {
        settle(&self.view);
        self.tell();
    }

    /// Why a party of this form cannot come now, if it cannot.
    fn refusal(&self, seen: Glance, in_steps: bool) -> Option<Error> {
        if self.view.messages.queue().is_destroyed() {
            return Some(Error::Destroyed);
        }
        if seen.is_broken() {
            settle(&self.view);
            return Some(Error::BarrierBroken);
        }
        seen.is_other_form(in_steps).then_some(Error::BarrierMixed)
    }

    /// Waits until all parties have come; the number of those who came before.
    ///
    /// # Errors
    /// [`Error::BarrierBroken`] for all until a [`reset`](Self::reset), if a party gave up, timed out or died; the one
    /// whose time is over gets [`Error::Timeout`]. [`Error::BarrierTryAgain`] if there is one try and others are still to
    /// come; then nothing changed. [`Error::BarrierMixed`] if parties come in two steps; [`Error::Destroyed`], [`Error::Forked`].
    /// One wait a process at a time.
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
        self.view.refuse_heirs()?;
        let deadline = timeout.deadline();
        let noted = self.view.pocket(self.view.me, Pocket::Barrier).ok_or(Error::Damaged)?;
        let (patience, _counted) = self.watch.patience(mode, deadline);
        let mut came = self.rounds.glance();
        loop {
            if let Some(error) = self.refusal(came, false) {
                return Err(error);
            }
            let is_released = self.rounds.is_releasing(came);
            if timeout == Timeout::Now && (is_released || !self.rounds.is_last(came)) {
                return Err(self.watch.late(Error::BarrierTryAgain, timeout));
            }
            if is_released {
                // Whoever hands out the last number of a round of two steps would hand out one more to this party.
                let destroyed = || self.view.messages.queue().is_destroyed();
                if let Some(until) = patient_until(deadline, every, &mut is_wanted) {
                    let changed = || (self.rounds.glance() != came || destroyed()).then_some(());
                    self.view.event().wait(&self.watch, patience.spins, until, changed);
                } else if self.rounds.abort_if(came) {
                    self.broke();
                    return Err(Error::Timeout);
                }
                came = self.rounds.glance();
                continue;
            }
            match self.rounds.meet(came, noted) {
                Ok(()) => break,
                Err(now) => came = now,
            }
        }
        // Those who wait for the last one must hear of it before he looks himself.
        self.tell();
        let mut waited = self.outcome(came);
        while waited.is_none()
            && let Some(until) = patient_until(deadline, every, &mut is_wanted)
        {
            waited = self.view.event().wait(&self.watch, patience.spins, until, || self.outcome(came));
        }
        // Who leaves breaks it for all, unless it is complete by now.
        let result = waited.or_else(|| self.rounds.give_up(came).map(whole)).unwrap_or(Err(Error::Timeout));
        self.rounds.part(came, noted);
        self.tell();
        result.map(|()| came.came())
    }

    /// How the round of this party ended, if it did.
    fn outcome(&self, came: Glance) -> Option<Result<(), Error>> {
        let outcome = self.rounds.outcome(came).map(whole);
        if self.view.messages.queue().is_destroyed() { Some(Err(Error::Destroyed)) } else { outcome }
    }

    /// The first of two steps: counts this party in, and returns; whether it is the last one, who has to
    /// [`release`](Self::release) the others. Then it receives a message from the channel: its number among the parties in eight
    /// bytes, or all ones if the barrier was broken. Waits while parties of the round before have not received theirs.
    ///
    /// # Errors
    /// [`Error::BarrierBroken`] until a [`reset`](Self::reset), if somebody aborted it, gave up, or died or left before he received
    /// his message; [`Error::BarrierTryAgain`] if there is one try, and the round before is not over; [`Error::Timeout`] if it was
    /// not over in time, which breaks the barrier; [`Error::BarrierMixed`] if parties wait in one call; [`Error::Destroyed`],
    /// [`Error::Forked`].
    pub fn count_in(&self, mode: WaitMode, timeout: Timeout) -> Result<bool, Error> {
        self.count_in_while(mode, timeout, Lapse(u64::MAX), || true).map(|(is_last, _)| is_last)
    }

    /// As [`count_in`](Self::count_in), but asks now and then whether there is somebody to wait for; if not, it is as if the time
    /// were over. Beside whether this party is the last one, the round that it was counted for.
    pub(crate) fn count_in_while(
        &self,
        mode: WaitMode,
        timeout: Timeout,
        every: Lapse,
        mut is_wanted: impl FnMut() -> bool,
    ) -> Result<(bool, u32), Error> {
        self.view.refuse_heirs()?;
        let deadline = timeout.deadline();
        let noted = self.view.pocket(self.view.me, Pocket::Barrier).ok_or(Error::Damaged)?;
        let (patience, _counted) = self.watch.patience(mode, deadline);
        loop {
            let seen = self.rounds.glance();
            if let Some(error) = self.refusal(seen, true) {
                return Err(error);
            }
            if !self.is_last_under_way(seen) {
                if let Ok(is_last) = self.rounds.count_in(seen, noted) {
                    return Ok((is_last, seen.round()));
                }
            } else if timeout == Timeout::Now {
                return Err(self.watch.late(Error::BarrierTryAgain, timeout));
            } else if let Some(until) = patient_until(deadline, every, &mut is_wanted) {
                let queue = self.view.messages.queue();
                let changes = if self.rounds.is_releasing(seen) { self.view.event() } else { queue.taken() };
                changes.wait(&self.watch, patience.spins, until, || {
                    let now = self.rounds.glance();
                    (now != seen || !self.is_last_under_way(now) || queue.is_destroyed()).then_some(())
                });
            } else if self.rounds.abort_if(seen) {
                self.broke();
                return Err(Error::Timeout);
            }
        }
    }

    /// Whether a round of two steps has all its parties and not all of them received their message.
    fn is_last_under_way(&self, seen: Glance) -> bool {
        self.rounds.is_releasing(seen) || seen.came() == 0 && !self.view.messages.queue().is_empty()
    }

    /// The second of two steps, of the party that was counted last: sends each party its message.
    ///
    /// # Errors
    /// [`Error::BarrierBroken`] if it is, was broken meanwhile, or not all parties have come, which breaks it;
    /// [`Error::BarrierTryAgain`] if somebody else does so at this moment; [`Error::Timeout`] if other messages took the room and
    /// nobody received them in time, which breaks it; [`Error::Destroyed`], [`Error::Forked`].
    pub fn release(&self, timeout: Timeout) -> Result<(), Error> {
        self.release_while(timeout, Lapse(u64::MAX), || true)
    }

    /// As [`release`](Self::release), but asks now and then whether there is somebody to wait for; if not, it is as if the time
    /// were over.
    pub(crate) fn release_while(
        &self,
        timeout: Timeout,
        every: Lapse,
        mut is_wanted: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        let queue = self.view.messages.queue();
        if queue.is_destroyed() {
            return Err(Error::Destroyed);
        }
        let deadline = timeout.deadline();
        let released = self.rounds.begin_release(self.view.me).map_err(|why| match why {
            NotReleased::InProgress => self.watch.late(Error::BarrierTryAgain, timeout),
            _ => Error::BarrierBroken,
        });
        let until = || patient_until(deadline, every, &mut is_wanted);
        let whole = released.map(|()| hand_out(&self.view, &self.rounds, until));
        self.broke();
        match whole? {
            true => Ok(()),
            false if queue.is_destroyed() => Err(Error::Destroyed),
            false if clock::now() >= deadline && queue.is_full() => Err(Error::Timeout),
            false => Err(Error::BarrierBroken),
        }
    }

    /// Breaks it: who waits, and who comes later, gets [`Error::BarrierBroken`]; who was counted in receives all ones.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn abort(&self) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        self.rounds.abort();
        self.broke();
        Ok(())
    }

    /// Makes it whole again, for a new round. Messages that were sent to its parties stay, and are to be received before that;
    /// [`Event::Reset`](super::Event::Reset) removes them first. If somebody hands them out at this moment, he makes it whole.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn reset(&self) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        self.rounds.reset();
        self.broke();
        Ok(())
    }

    /// As whoever finds this member dead: a party that was counted in through this process and is gone.
    pub(crate) fn forsake(&self) {
        forsaken(&self.view, self.view.me);
        self.broke();
    }

    /// Whether it is broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.rounds.glance().is_broken()
    }

    /// Parties that came and wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.rounds.glance().came()
    }

    /// Parties that it is for.
    #[must_use]
    pub fn parties(&self) -> u32 {
        self.view.messages.queue().shape().capacity
    }
}

/// Until when somebody sleeps who then looks again whether there is anybody to wait for; `None` if the time is over or nobody is.
fn patient_until(deadline: Time, every: Lapse, is_wanted: &mut impl FnMut() -> bool) -> Option<Time> {
    let now = clock::now();
    (now < deadline && is_wanted()).then(|| deadline.min(now + every))
}

const fn whole(is_whole: bool) -> Result<(), Error> {
    if is_whole { Ok(()) } else { Err(Error::BarrierBroken) }
}
