//! What those who wait are told.

use core::fmt;

use crate::cache::error::{AllocError, errors};
use crate::cache::grant::{Grant, Pin, State};
use crate::id::Id;

use super::Waiter;

/// An operation that may have to wait.
#[derive(PartialEq, Eq, Debug)]
pub enum Asked<T> {
    /// It is done.
    Now(T),
    /// This waiter will be answered.
    Later(Id<Waiter>),
}

/// What a waiter is told.
#[derive(PartialEq, Eq, Debug)]
pub enum Answer {
    /// To who waited for a slot.
    Slot(Result<(Pin, Grant), AllocError>),
    /// To who waited for content.
    Content(Result<(), ContentError>),
}

errors! {
    /// Why content will not come.
    ContentError {
        /// The data has no slot, or has lost it: all references were freed before its fill ended.
        NotAssigned {
            /// The data.
            data: u64
        } => "data {data} has no slot any more: allocate it again";
        /// Whoever filled the slot gave up.
        Abandoned {
            /// The data.
            data: u64
        } => "whoever filled the slot of data {data} gave up: allocate it again, and fill it if the slot is found empty";
        /// As many wait as can wait.
        TooManyWaiters {
            /// They.
            waiters: u32
        } => "{waiters} wait already, as many as can: retry when one of them was answered";
    }
}

/// Why no slot will be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WaitError {
    /// Waiting would not help.
    Refused(AllocError),
    /// As many wait as can wait.
    TooManyWaiters {
        /// They.
        waiters: u32,
    },
}

impl From<AllocError> for WaitError {
    fn from(error: AllocError) -> Self {
        WaitError::Refused(error)
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Refused(error) => error.fmt(f),
            WaitError::TooManyWaiters { waiters } => {
                write!(f, "{waiters} wait already, as many as can: retry when one of them was answered")
            }
        }
    }
}
impl core::error::Error for WaitError {}

/// A slot with references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Holding {
    /// The slot.
    pub slot: u32,
    /// Whose it is.
    pub data: u64,
    /// How many references there are.
    pub references: u32,
    /// What it is doing.
    pub state: State,
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holding { slot, data, references, state } = self;
        let doing = match state {
            State::Filling => ", being filled",
            State::Abandoned => ", given up",
            State::InUse | State::Idle => "",
        };
        let s = if *references == 1 { "" } else { "s" };
        write!(f, "slot {slot} for data {data} ({references} reference{s}{doing})")
    }
}

/// What was known when somebody stopped waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Scene {
    /// Whose slot or content was awaited.
    pub data: u64,
    /// Slots that there are.
    pub slots: u32,
    /// Others who wait on.
    pub waiting: u32,
    /// The slot whose content was awaited, or the first slots that are held.
    pub held: [Option<Holding>; 4],
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held of {} slots:", self.slots)?;
        for (n, holding) in self.held.iter().flatten().enumerate() {
            write!(f, "{} {holding}", if n == 0 { "" } else { "," })?;
        }
        write!(f, "; others that wait: {}", self.waiting)
    }
}
