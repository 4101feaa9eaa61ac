//! Waiting for several channels at once.
//!
//! A set belongs to the process that made it; its channels know nothing of it, so nothing has to be taken back when it
//! goes, and any number of sets and pollers may wait for the same channel. It is level-triggered: a member that is ready
//! is reported again and again, in turn with the others that are, until it is not.
//!
//! *Cost*: O(members) a poll that sleeps, by one system call.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::event::{EventCount, SLICE, Wait};

use super::bell::Bell;
use super::error::Error;
use super::layout::{View, refuse_heirs};
use super::poll::{Event, holds};
use super::wait::{Spinning, Timeout, WaitMode, Watch};
use super::{Channel, Kind};
use crate::sys::fork;
use crate::sys::futex::{self, Futex};

/// How often one who never sleeps looks at its members between two looks after the dead.
const PATROL: u64 = 1 << 10;

/// Channels, and what is waited for at each of them. A child that is forked off makes its own.
#[derive(Debug)]
pub struct ChannelSet<'a> {
    members: Vec<Member<'a>>,
    /// Who is looked at first; moves on, so that a busy member does not hide the others.
    turn: AtomicU64,
    /// Of the process that made it.
    life: u32,
}

#[derive(Debug)]
struct Member<'a> {
    view: View<'a>,
    watch: Watch<'a>,
    event: Event,
}

/// A member that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Which one, in the order in which they were given.
    pub index: usize,
    /// What holds; `None` if the channel was destroyed.
    pub event: Option<Event>,
}

impl<'a> ChannelSet<'a> {
    /// A set of channels, of which `event` is waited for.
    ///
    /// # Errors
    /// [`Error::SetTooLarge`]; [`Error::WrongKind`] for a semaphore; [`Error::UnknownEvent`] unless the event is one of
    /// [`In`](Event::In), [`Out`](Event::Out), [`InOut`](Event::InOut), [`Empty`](Event::Empty) and [`Full`](Event::Full).
    pub fn new(channels: impl IntoIterator<Item = &'a Channel>, event: Event) -> Result<Self, Error> {
        if !matches!(event, Event::In | Event::Out | Event::InOut | Event::Empty | Event::Full) {
            return Err(Error::UnknownEvent(event as i32));
        }
        let member = |channel: &'a Channel| {
            let view = channel.view()?;
            if view.kind() != Kind::Messages {
                return Err(Error::WrongKind);
            }
            Ok(Member { view, watch: Watch::new(view), event })
        };
        let members = channels.into_iter().map(member).collect::<Result<Vec<_>, Error>>()?;
        if members.len() > futex::MOST {
            return Err(Error::SetTooLarge { members: members.len() });
        }
        Ok(ChannelSet { members, turn: AtomicU64::new(0), life: fork::life() })
    }

    /// How many channels it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn look(&self) -> Option<Ready> {
        let count = self.members.len();
        let turn = self.turn.load(Ordering::Relaxed) as usize % count.max(1);
        let index =
            (turn..count).chain(0..turn).find(|&index| self.members.get(index).is_some_and(Member::is_ready))?;
        self.turn.store(index as u64 + 1, Ordering::Relaxed);
        let destroyed = self.members.get(index).is_some_and(|member| member.view.messages.queue().is_destroyed());
        let event = self.members.get(index).map(|member| member.event).filter(|_| !destroyed);
        Some(Ready { index, event })
    }

    /// Counts among those who spin at each of the members, one by one; `None` at one where that would be one too many.
    fn spinners(&self) -> impl Iterator<Item = Option<Spinning<'a>>> {
        // In one order for all sets. In that of its own each of two could count at a channel that the other one needs, and
        // neither would spin.
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_unstable_by_key(|member| member.view.instance());
        members.into_iter().map(|member| member.watch.spinner().map(Spinning::count))
    }

    /// Waits until a member is ready. Who is to spin sleeps if at one of the members too many spin already.
    ///
    /// # Errors
    /// [`Error::Timeout`], also for one try; [`Error::Forked`].
    pub fn poll(&self, mode: WaitMode, timeout: Timeout) -> Result<Ready, Error> {
        refuse_heirs(self.life)?;
        let deadline = timeout.deadline();
        let (mut looks, mut counted) = (0_u64, None);
        loop {
            if let Some(ready) = self.look() {
                return Ok(ready);
            }
            looks += 1;
            let now = Futex.now();
            if now >= deadline {
                // He may come again and again, and never stay long enough to do it otherwise.
                self.members.iter().for_each(|member| member.watch.patrol_at(now));
                return Err(Error::Timeout);
            }
            let spins = match mode {
                WaitMode::Idle => false,
                WaitMode::Adaptive => looks < super::wait::ADAPTIVE.into(),
                WaitMode::Spin => counted.get_or_insert_with(|| self.spinners().collect::<Option<Vec<_>>>()).is_some(),
            };
            if spins {
                Futex.pause();
            } else {
                let asleep: Vec<_> = self.members.iter().map(Member::announce).collect();
                if let Some(ready) = self.look() {
                    return Ok(ready);
                }
                futex::sleep_any(&asleep, deadline.min(now + SLICE));
            }
            // Whoever never sleeps looks after the dead as well.
            if !spins || looks.is_multiple_of(PATROL) {
                self.members.iter().for_each(|member| member.watch.patrol());
            }
        }
    }
}

/// Rings.
impl ChannelSet<'_> {
    /// Rings a bell whenever a member is ready, until the bell's [end](Bell::end): runs so long, asleep, in a thread that the
    /// caller has for it. A destroyed member is ready.
    ///
    /// # Errors
    /// [`Error::SetTooLarge`] if there is no place beside the members for the bell; [`Error::Forked`], also for the bell.
    pub fn ring(&self, bell: &Bell) -> Result<(), Error> {
        refuse_heirs(self.life)?;
        bell.refuse_heirs()?;
        if self.members.len() >= futex::MOST {
            return Err(Error::SetTooLarge { members: self.members.len() });
        }
        let is_ready = || self.members.iter().any(Member::is_ready);
        while !bell.is_over() {
            bell.await_silence();
            let changes = bell.changes();
            while !bell.is_over() && !is_ready() {
                let mut asleep: Vec<_> = self.members.iter().map(Member::announce).collect();
                asleep.push((changes.word(), changes.announce()));
                if !bell.is_over() && !is_ready() {
                    futex::sleep_any(&asleep, Futex.now() + SLICE);
                    self.members.iter().for_each(|member| member.watch.patrol());
                }
            }
            bell.strike();
        }
        Ok(())
    }
}

impl<'a> Member<'a> {
    fn is_ready(&self) -> bool {
        let queue = self.view.messages.queue();
        queue.is_destroyed() || holds(queue, self.event)
    }

    fn announce(&self) -> (&'a AtomicU64, u32) {
        let queue = self.view.messages.queue();
        let event: EventCount<'a> =
            if matches!(self.event, Event::In | Event::Full) { queue.published() } else { queue.taken() };
        (event.word(), event.announce())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attributes;
    use super::*;

    #[test]
    fn of_two_sets_that_begin_to_spin_at_the_same_channels_one_does() {
        let made = || Channel::create(&Attributes { max_spinners: 1, ..Attributes::default() }).unwrap();
        let (one, other) = (made(), made());
        let sets = [[&one, &other], [&other, &one]].map(|channels| ChannelSet::new(channels, Event::In).unwrap());
        let [mut first, mut second] = sets.each_ref().map(ChannelSet::spinners);
        let spinning = [first.next(), second.next(), first.next()].map(Option::flatten);
        assert_eq!(spinning.each_ref().map(Option::is_some), [true, false, true]);
    }
}
