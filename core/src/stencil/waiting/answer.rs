//! Where somebody stands who waits, and what is told.

use core::fmt;

use super::Waiter;
use crate::cache::Interrupted;
use crate::id::Id;
use crate::stencil::error::SubmitError;
use crate::stencil::group::Group;

/// Where somebody stands who wants a group to be accepted, and to have its slots.
#[derive(PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Nowhere: nothing was asked for yet, or the answer was told.
    #[default]
    Outside,
    /// In line for the record of a group.
    InLine(Id<Waiter>),
    /// The group is accepted; without a waiter it was not asked yet whether it has its slots.
    Accepted(Id<Group>, Option<Id<Waiter>>),
}

/// What a waiter is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The record of a group is kept for it, to be taken at once.
    Turn,
    /// Its group has all its slots.
    Assigned,
    /// Its group has failed.
    Failed {
        /// The input that could not be loaded.
        data: u64,
    },
    /// The cache was interrupted.
    Interrupted,
}

/// Why no group has all its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocError {
    /// The group was not accepted; nothing has changed.
    Refused(SubmitError),
    /// The group has ended before it had all its slots: an input could not be loaded.
    Failed {
        /// The input.
        data: u64,
    },
    /// The group has ended, by whatever end.
    Ended,
    /// As many wait as can wait.
    TooManyWaiters {
        /// They.
        waiters: u32,
        /// The group, if it was accepted: it goes on, and its news will come.
        accepted: Option<Id<Group>>,
    },
}

impl From<SubmitError> for AllocError {
    fn from(error: SubmitError) -> Self {
        AllocError::Refused(error)
    }
}

impl From<Interrupted> for AllocError {
    fn from(error: Interrupted) -> Self {
        AllocError::Refused(error.into())
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Refused(error) => error.fmt(f),
            AllocError::Failed { data } => {
                write!(f, "the group has ended: data {data} could not be loaded; submit it again if that may change")
            }
            AllocError::Ended => f.write_str("the group has ended: it was freed, handed over, or its load failed"),
            AllocError::TooManyWaiters { waiters, accepted } => {
                write!(f, "{waiters} wait already, as many as can: ")?;
                f.write_str(match accepted {
                    None => "retry when one of them was answered",
                    Some(_) => "the group is accepted, and goes on without anybody who waits for it",
                })
            }
        }
    }
}
impl core::error::Error for AllocError {}

/// What was known when somebody stopped waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Overdue {
    /// The output point.
    pub point: u64,
    /// Its group, if it was accepted: it goes on, and its news will come.
    pub accepted: Option<Id<Group>>,
    /// Groups that have all their slots and are not freed.
    pub active: u32,
    /// The points of some of them.
    pub holding: [Option<u64>; 4],
    /// An input whose load was not answered yet.
    pub loading: Option<u64>,
    /// Others who wait on.
    pub waiting: u32,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overdue { point, accepted, active, holding, loading, waiting } = self;
        let what = if accepted.is_some() { "is accepted and waits for slots" } else { "waits to be accepted" };
        write!(f, "the group of point {point} {what}; ")?;
        match active {
            1 => f.write_str("1 group has its own and is not freed")?,
            active => write!(f, "{active} groups have theirs and are not freed")?,
        }
        for (n, point) in holding.iter().flatten().enumerate() {
            write!(f, "{} {point}", if n == 0 { ", for the points" } else { "," })?;
        }
        if let Some(data) = loading {
            write!(f, "; the load of data {data} was not answered")?;
        }
        write!(f, "; others that wait: {waiting}")
    }
}
