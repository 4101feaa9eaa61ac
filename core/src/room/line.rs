//! A memory and the line of those who wait for room in it.

use core::fmt;
use core::task::{Poll, Waker};

use crate::cache::Interrupted;
use crate::cache::waiting::Record;
use crate::cache::waiting::lock::asking;
use crate::cache::waiting::record::Stage;
use crate::cache::waiting::waiter::Waiters;
use crate::id::Id;

/// A memory that has room for what is wished for, or will have.
pub trait Room: sealed::Sealed {
    /// What is wished for, and where it is told what was given.
    type Wish: ?Sized;
    /// Why nothing is given.
    type Error: From<Interrupted>;
    /// What can be told to somebody who stops waiting.
    type Scene;

    #[doc(hidden)]
    fn take(&mut self, first: bool, wish: &mut Self::Wish) -> Result<(), Refused<Self::Error>>;
    /// Only the first in line gets room from now on; what it wishes for, if that was refused.
    #[doc(hidden)]
    fn keep(&mut self, wish: Option<&Self::Wish>);
    /// Everybody gets room again.
    #[doc(hidden)]
    fn open(&mut self);
    #[doc(hidden)]
    fn is_worth_while(&self) -> bool;
    #[doc(hidden)]
    fn scene(&self, wish: &Self::Wish, waiting: u32) -> Self::Scene;
    #[doc(hidden)]
    fn stop(&mut self);
    #[doc(hidden)]
    fn count_refusal(&mut self) {}
    #[doc(hidden)]
    fn next_waker(&mut self) -> Option<Waker> {
        None
    }
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Why room was not given now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused<E> {
    /// There may be room later.
    Now(E),
    /// Waiting would not help.
    Ever(E),
}

/// Why no room will be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WaitError<E> {
    /// Waiting would not help.
    Refused(E),
    /// As many wait as can wait.
    TooManyWaiters {
        /// They.
        waiters: u32,
    },
}

impl<E: From<Interrupted>> From<Interrupted> for WaitError<E> {
    fn from(interrupted: Interrupted) -> Self {
        WaitError::Refused(interrupted.into())
    }
}

impl<E: fmt::Display> fmt::Display for WaitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Refused(error) => error.fmt(f),
            WaitError::TooManyWaiters { waiters } => {
                write!(f, "{waiters} wait already, as many as can: retry when one of them was answered")
            }
        }
    }
}
impl<E: fmt::Debug + fmt::Display> core::error::Error for WaitError<E> {}

/// What a waiter is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is the first in line, or there may be room for it now: it is to ask again.
    Ask,
    /// The memory was interrupted.
    Interrupted,
}

/// The record of one who waits for room.
pub type Waiter = Record<Answer>;

/// Where somebody stands who wishes for room.
#[derive(PartialEq, Eq, Debug, Default)]
pub enum Stand {
    /// Nowhere: nothing was asked for yet, or the answer was told.
    #[default]
    Outside,
    /// In line.
    InLine(Id<Waiter>),
    /// First in line; without a waiter it was told to ask again.
    First(Option<Id<Waiter>>),
}

/// Who is first in line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Nobody,
    /// Somebody who was told to ask.
    Asks,
    /// Somebody who waits under this number.
    Waits(u64),
}

/// A memory for several clients, some of whom wait; see the [module](super).
#[derive(Debug)]
pub struct Waiting<M, R> {
    room: M,
    line: Waiters<Answer, R>,
    first: First,
    /// Those who began to wait: each has its own number.
    came: u64,
}

impl<M: Room, R: AsRef<[Waiter]> + AsMut<[Waiter]>> Waiting<M, R> {
    /// Lets as many wait for room as there are records.
    pub fn new(room: M, waiters: R) -> Self {
        Waiting { room, line: Waiters::new(waiters), first: First::Nobody, came: 0 }
    }

    /// The memory, for questions.
    pub fn room(&self) -> &M {
        &self.room
    }

    /// How many wait now for room.
    pub fn waiting(&self) -> u32 {
        self.line.waiting()
    }

    /// The memory, for what makes no room.
    pub(super) fn room_mut(&mut self) -> &mut M {
        &mut self.room
    }

    /// Changes the memory, and tells the first in line if that has made room.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut M) -> T) -> T {
        let changed = change(&mut self.room);
        if let First::Waits(number) = self.first
            && self.room.is_worth_while()
            && let Some(first) = self.line.leader(number)
        {
            self.line.answer(first, |_| Answer::Ask);
            self.first = First::Asks;
        }
        changed
    }

    /// Takes what is wished for, all of it or nothing, or waits in line for it: `waker` is woken when it is worth while to
    /// ask again, with the same stand and wish.
    ///
    /// # Errors
    /// [`WaitError`] if waiting would not help.
    pub fn ask(
        &mut self,
        stand: &mut Stand,
        wish: &mut M::Wish,
        waker: &Waker,
    ) -> Poll<Result<(), WaitError<M::Error>>> {
        asking(waker, |spare| self.ask_with(stand, wish, waker, spare))
    }

    /// [`Waiting::ask`]; `None` if that is to be asked again, with a clone of the waker or without it.
    pub(super) fn ask_with(
        &mut self,
        stand: &mut Stand,
        wish: &mut M::Wish,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<(), WaitError<M::Error>>>> {
        if let Stand::InLine(waiter) | Stand::First(Some(waiter)) = *stand {
            let Poll::Ready(answer) = self.line.hear(waiter, waker, spare)? else { return Some(Poll::Pending) };
            *stand = Stand::First(None);
            if answer == Answer::Interrupted {
                *stand = Stand::Outside;
                return Some(Poll::Ready(Err(Interrupted.into())));
            }
            // What is in `spare` now is the waker of an earlier question, which is to be dropped without the lock.
            if spare.is_some() {
                return None;
            }
        }
        let is_first = *stand == Stand::First(None);
        let told = match self.room.take(is_first, wish) {
            Err(Refused::Now(_)) if spare.is_none() && !is_first => return None,
            Err(Refused::Now(_)) => {
                // The first waits from now on, or somebody could take its record before it asks again with a waker.
                let wakes = spare.is_some();
                let mut nobody = Some(Waker::noop().clone());
                match self.enter(is_first, wish, if wakes { spare } else { &mut nobody }) {
                    Some(entered) => {
                        *stand = entered;
                        return wakes.then_some(Poll::Pending);
                    }
                    None => Err(WaitError::TooManyWaiters { waiters: self.line.capacity() }),
                }
            }
            Err(Refused::Ever(error)) => Err(WaitError::Refused(error)),
            Ok(()) => Ok(()),
        };
        *stand = Stand::Outside;
        if is_first {
            self.pass();
        }
        Some(Poll::Ready(told))
    }

    /// Puts somebody whose wish was refused into the line, or at its head again.
    fn enter(&mut self, is_first: bool, wish: &M::Wish, waker: &mut Option<Waker>) -> Option<Stand> {
        let heads = is_first || self.first == First::Nobody;
        let stage = if heads { Stage::Event } else { Stage::Turn };
        let number = self.came;
        let waiter = self.line.enter(number, stage, waker)?;
        self.came += 1;
        if !heads {
            return Some(Stand::InLine(waiter));
        }
        self.room.keep(Some(wish));
        self.first = First::Waits(number);
        Some(Stand::First(Some(waiter)))
    }

    /// The first in line leaves: the next one is.
    fn pass(&mut self) {
        self.room.open();
        self.first = First::Nobody;
        if let Some(next) = self.line.first_in_line() {
            // What it wishes for is known when it has asked; until then nobody else gets room.
            self.room.keep(None);
            self.first = First::Asks;
            self.line.answer(next, |_| Answer::Ask);
        }
    }

    /// Takes what is wished for now, passing nobody in line.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn take_now(&mut self, wish: &mut M::Wish) -> Result<(), M::Error> {
        self.room.take(false, wish).map_err(|refused| match refused {
            Refused::Now(error) => {
                self.room.count_refusal();
                error
            }
            Refused::Ever(error) => error,
        })
    }

    /// Ends a wait. Who was told to ask, or is first, asks once more: room that there is then is its own.
    pub(super) fn leave(
        &mut self,
        stand: Stand,
        wish: Option<&mut M::Wish>,
        spare: &mut Option<Waker>,
    ) -> Option<Result<(), WaitError<M::Error>>> {
        let told = match stand {
            Stand::Outside | Stand::First(None) => None,
            Stand::InLine(waiter) | Stand::First(Some(waiter)) => self.line.end(waiter, spare),
        };
        if told == Some(Answer::Interrupted) {
            return Some(Err(Interrupted.into()));
        }
        if stand == Stand::Outside || matches!(stand, Stand::InLine(_)) && told.is_none() {
            return None;
        }
        let taken = wish.and_then(|wish| match self.room.take(true, wish) {
            Ok(()) => Some(Ok(())),
            Err(Refused::Ever(error)) => Some(Err(WaitError::Refused(error))),
            Err(Refused::Now(_)) => None,
        });
        self.pass();
        taken
    }

    /// From now on every operation fails, and so does whatever somebody waits for. A second interrupt changes nothing.
    pub fn interrupt(&mut self) {
        self.room.stop();
        self.line.answer_all(|_, _| Answer::Interrupted, |answer| *answer = Answer::Interrupted);
    }

    /// Who is to be woken next, after any of the operations; until there is none.
    pub fn next_waker(&mut self) -> Option<Waker> {
        self.line.next_waker().or_else(|| self.room.next_waker())
    }
}
