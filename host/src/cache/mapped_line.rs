//! Waiting for a slot at a cache that processes share, in the order of arrival.
//!
//! Who finds no slot stands in a line that lies in the segment, and sleeps until somebody frees one and he is the first, or
//! until his data has one. Others may be killed or stopped at any moment, so nobody relies on being woken: all look again
//! twenty times a second. A first one who is dead is taken out of the line, and one who does not answer for a second is
//! passed over.
//!
//! ```
//! use std::time::Duration;
//! use umbra::cache::{Mapped, UnservedError};
//! use umbra_core::cache::{Found, Remembering};
//! use umbra_core::shared_cache::Sharing;
//! let cache = Mapped::<Remembering>::create(1, Sharing::new(8, 31).ok_or("too many")?)?;
//! assert_eq!(cache.alloc(42, Duration::from_secs(5))?.found, Found::Empty); // Load data 42 into the slot.
//! let late = cache.alloc(43, Duration::from_millis(1));
//! assert!(matches!(late, Err(UnservedError::Expired { scene, .. }) if scene.holders[0].holding.slots == 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: a hit, and a miss that finds a slot while nobody waits, cost what they cost without a line. A wait costs a system
//! call to sleep and one to wake, and one look at all slots each time that the first in line is called.

use std::fmt;
use std::thread;
use std::time::Duration;

use umbra_core::event::{SLICE, Wait as _};
use umbra_core::shared_cache::{AllocError, Client, Contract, First, Grant, Holding, Turn};
use umbra_core::time::{Lapse, Time};

use super::mapped::Mapped;
use super::mapped_wait::{FIRST, LONGEST};
use super::passing::Passing;
use crate::sys::clock;
use crate::sys::futex::Futex;
use crate::sys::process;

/// How long the first in line may not answer: then he is taken to be stopped.
const UNANSWERED: Lapse = Lapse::from_secs(1);
/// How often the first in line tries what somebody is in the way of, before others come first.
const BLOCKED: u32 = 8;

/// Why no slot was given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnservedError {
    /// The deadline passed while it waited.
    #[error("no slot for data {data} within {within:?}: {why}; {scene}")]
    Expired {
        /// The data.
        data: u64,
        /// How long it waited.
        within: Duration,
        /// What was in the way last.
        why: AllocError,
        /// Who holds the slots.
        scene: Box<Holders>,
    },
    /// Waiting would not help, or was not wanted.
    #[error(transparent)]
    Refused(#[from] AllocError),
}

impl Passing for UnservedError {
    fn passes(&self) -> bool {
        match self {
            UnservedError::Expired { .. } => true,
            UnservedError::Refused(error) => error.passes(),
        }
    }
}

/// Who holds the slots of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holders {
    /// One for each process that has a place.
    pub holders: Vec<Holder>,
}

/// What a process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// How much of what.
    pub holding: Holding,
    /// Whether the process still runs; of a dead one it can be [reclaimed](Mapped::reclaim).
    pub lives: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holding { owner, identity, slots, fills, waiting } = self.holding;
        let dead = if self.lives { "" } else { ", which is dead (reclaim it)," };
        write!(f, "{owner} ({identity}){dead} has {slots} slots, of which it fills {fills}, and waits {waiting} times")
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, holder) in self.holders.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            holder.fmt(f)?;
        }
        Ok(())
    }
}

/// Who was first in line when this one looked, and since when he has done nothing.
struct Watched {
    first: Option<First>,
    since: Time,
}

impl Watched {
    /// Takes the first out of the line if he has died, or does not answer.
    fn look<C: Contract>(&mut self, client: Client<'_, C>, turn: &Turn<'_>, first: First, now: Time) {
        if self.first != Some(first) {
            *self = Watched { first: Some(first), since: now };
            return;
        }
        let silent = now.since(self.since);
        if silent >= if first.is_called() { SLICE } else { UNANSWERED } {
            // Who has the number now, after the place in line was looked at: so it is not another's place.
            let who = client.cache().members().find(|&(owner, _)| Some(owner) == first.owner());
            if silent >= UNANSWERED && first.is_called() || who.is_none_or(|(_, identity)| !process::lives(identity)) {
                turn.pass_over(first);
            } else if silent >= UNANSWERED {
                self.since = now;
            }
        }
    }
}

impl<C: Contract> Mapped<C> {
    /// A reference to the slot of `data`, waiting for one in line if all are in use, for at most so long; without a time, not
    /// at all. What is present is never waited for, and if somebody waits, data that has no slot comes behind.
    ///
    /// In the line count neither [`Client::alloc`] nor [`within`](Self::within): who uses these may be faster.
    ///
    /// # Errors
    /// [`UnservedError`].
    #[inline]
    pub fn alloc(&self, data: u64, within: Duration) -> Result<Grant, UnservedError> {
        match self.client().alloc_behind(data) {
            Err(error) if error.passes() && !within.is_zero() => self.alloc_in_line(data, within),
            done => Ok(done?),
        }
    }

    #[cold]
    fn alloc_in_line(&self, data: u64, within: Duration) -> Result<Grant, UnservedError> {
        let client = self.client();
        let deadline = clock::now() + Lapse(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        let mut turn = client.stand(data);
        let mut watched = Watched { first: None, since: Time::ZERO };
        let (mut pause, mut blocked) = (FIRST, 0);
        loop {
            let mut seen = turn.as_ref().and_then(Turn::answer);
            if seen.is_none() {
                // Passed over; or there was no room, or somebody was in the way for too long.
                turn = client.stand(data);
                seen = turn.as_ref().and_then(Turn::answer);
            }
            let ahead = turn.as_ref().map(Turn::ahead);
            let first = turn.as_ref().filter(|_| ahead == Some(None));
            let is_first = first.is_some();
            let tried = match first {
                Some(turn) => client.alloc_in_turn(data, turn),
                None => client.alloc_behind(data),
            };
            let why = match tried {
                Err(error) if error.passes() => error,
                done => return Ok(done?),
            };
            let now = clock::now();
            if now >= deadline {
                drop(turn);
                self.patrol();
                return Err(UnservedError::Expired { data, within, why, scene: Box::new(self.holders()) });
            }
            match (why, &turn, seen) {
                (AllocError::Full { .. }, Some(turn), Some(seen)) => {
                    (pause, blocked) = (FIRST, 0);
                    Futex.sleep(turn.word(), seen, deadline.min(now + SLICE));
                }
                _ => {
                    thread::sleep(pause.min(Duration::from_nanos(deadline.since(now).0)));
                    pause = (pause * 2).min(LONGEST);
                    blocked += u32::from(is_first);
                }
            }
            if let (Some(turn), Some(Some(first))) = (&turn, ahead) {
                watched.look(client, turn, first, clock::now());
            }
            // Whoever is in the way of this one is not in the way of the others.
            if blocked == BLOCKED {
                (turn, blocked) = (None, 0);
            }
            self.patrol();
        }
    }

    /// Who holds the slots, about now; looks at all of them.
    #[must_use]
    pub fn holders(&self) -> Holders {
        let holder = |holding: Holding| Holder { holding, lives: process::lives(holding.identity) };
        Holders { holders: self.client().cache().holdings().map(holder).collect() }
    }
}
