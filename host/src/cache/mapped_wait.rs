//! Waiting at a slot cache that processes share, for whatever may pass.
//!
//! For a slot there is a [line](Mapped::alloc). Who waits for anything else asks again, more and more seldom, and gives up when
//! his time is over; who waits for content is woken when a fill ends, if the one who ended it lived to tell.
//!
//! ```
//! use std::time::Duration;
//! use umbra::cache::Mapped;
//! use umbra_core::cache::{Found, Remembering};
//! use umbra_core::shared_cache::Sharing;
//! let cache = Mapped::<Remembering>::create(1, Sharing::new(8, 31).ok_or("too many")?)?;
//! let patience = Duration::from_millis(1);
//! let grant = cache.alloc(42, patience)?;
//! assert_eq!(grant.found, Found::Empty); // Load data 42 into the slot, and then:
//! cache.within(patience, |client| client.remember(42))?;
//! cache.filled(42, patience)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: what does not have to wait costs what it costs without a time, and a look at the clock only if it has to. Between
//! two questions it sleeps, for 2 milliseconds at most, and for 50 while somebody fills.

use std::thread;
use std::time::{Duration, Instant};

use umbra_core::cache::{Remembers, State};
use umbra_core::event::{SLICE, Wait as _};
use umbra_core::shared_cache::{Client, Contract, LookError};
use umbra_core::time::Lapse;

use super::mapped::Mapped;
use super::passing::Passing;
use crate::sys::clock;
use crate::sys::futex::Futex;

/// The first sleep between two questions, and the longest.
pub(super) const FIRST: Duration = Duration::from_micros(10);
pub(super) const LONGEST: Duration = Duration::from_millis(2);

/// Why there is no content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnfilledError {
    /// The slot is being filled; by whom nobody says. If he died, a [`Mapped::reclaim`] ends it.
    #[error("data {data} is being filled still: wait longer, or reclaim what dead processes held")]
    Filling {
        /// The data.
        data: u64,
    },
    /// The data has no slot: the caller has no reference to it.
    #[error("data {data} has no slot: allocate it first")]
    NotAssigned {
        /// The data.
        data: u64,
    },
    /// Whoever filled the slot gave up, or died and was reclaimed.
    #[error("the fill of data {data} was given up: allocate it again, and fill it if its slot is found empty")]
    Abandoned {
        /// The data.
        data: u64,
    },
    /// It was not told what the slot is doing.
    #[error(transparent)]
    Look(#[from] LookError),
}

impl Passing for UnfilledError {
    fn passes(&self) -> bool {
        match self {
            UnfilledError::Filling { .. } => true,
            UnfilledError::Look(error) => error.passes(),
            _ => false,
        }
    }
}

impl<C: Contract> Mapped<C> {
    /// Does what is told, again as long as its error may [pass](Passing::passes), for at most so long; without a time, once.
    /// So any call waits until another process is done with what both need. An `alloc` that waits so stands in no line: use
    /// [`Mapped::alloc`].
    ///
    /// # Errors
    /// The last error.
    pub fn within<'a, T, E: Passing>(
        &'a self,
        within: Duration,
        mut act: impl FnMut(Client<'a, C>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut begun, mut sleep) = (None, FIRST);
        loop {
            let error = match act(self.client()) {
                Err(error) if error.passes() => error,
                done => return done,
            };
            // Who does not have to wait does not look at the clock.
            let left = within.saturating_sub(begun.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                return Err(error);
            }
            thread::sleep(sleep.min(left));
            sleep = (sleep * 2).min(LONGEST);
            self.patrol();
        }
    }
}

impl<C: Contract + Remembers> Mapped<C> {
    /// Waits until the slot of `data` is filled, for who found it `Assigned`.
    ///
    /// # Errors
    /// [`UnfilledError`].
    pub fn filled(&self, data: u64, within: Duration) -> Result<(), UnfilledError> {
        let first = match self.look(data) {
            Err(error) if error.passes() && !within.is_zero() => error,
            done => return done,
        };
        let event = self.client().fill_event(data);
        let deadline = clock::now() + Lapse(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        let (mut error, mut pause) = (first, FIRST);
        loop {
            let now = clock::now();
            if now >= deadline {
                self.patrol();
                return Err(error);
            }
            let seen = event.announce();
            error = match self.look(data) {
                Err(error) if error.passes() => error,
                done => return done,
            };
            let slice = match error {
                UnfilledError::Filling { .. } => SLICE,
                // Somebody is in the way, who tells nobody when he is done.
                _ => Lapse(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)),
            };
            pause = (pause * 2).min(LONGEST);
            Futex.sleep(event.word(), seen, deadline.min(now + slice));
            self.patrol();
        }
    }

    /// Whether the content is there.
    fn look(&self, data: u64) -> Result<(), UnfilledError> {
        match self.client().state(data)? {
            Some(State::InUse | State::Idle) => Ok(()),
            Some(State::Filling) => Err(UnfilledError::Filling { data }),
            Some(State::Abandoned) => Err(UnfilledError::Abandoned { data }),
            None => Err(UnfilledError::NotAssigned { data }),
        }
    }
}
