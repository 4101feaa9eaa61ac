//! A member in a child that was forked off.
//!
//! The child has a copy of the machine and of what waits to be sent, but the seat and the inbox are its parent's: what it
//! took out there its parent would miss, and what it said would come in its parent's name. So there every call is refused
//! before it touches what is shared, a turn does nothing, and the end of the member leaves no seat.

use umbra_core::chain::StartError;
use umbra_core::error::Stale;

use super::member::Member;
use crate::sys::fork;

/// The member is that of the process that this one was forked off from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", StartError::Forked)]
pub struct Forked;

/// The process that took a seat, or has a thread that serves one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin(u32);

impl Origin {
    pub(super) fn this() -> Origin {
        fork::watch();
        Origin(fork::life())
    }

    /// Whether this process was forked off from it.
    pub(super) fn is_inherited(self) -> bool {
        self.0 != fork::life()
    }
}

impl From<Forked> for StartError {
    fn from(Forked: Forked) -> Self {
        StartError::Forked
    }
}

impl From<Forked> for Stale {
    fn from(Forked: Forked) -> Self {
        Stale
    }
}

impl Member {
    /// Whether this process was forked off the one that took the seat. Then handles are stale, all else is refused as
    /// [`Forked`], and nothing is served or waited for.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.origin.is_inherited()
    }

    /// Refuses a call in a child that was forked off.
    pub(super) fn refuse_heirs(&self) -> Result<(), Forked> {
        if self.is_inherited() { Err(Forked) } else { Ok(()) }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.is_inherited() {
            return;
        }
        for node in self.peers.own() {
            if let Ok(seat) = self.station.seat(node) {
                seat.leave();
            }
        }
    }
}
