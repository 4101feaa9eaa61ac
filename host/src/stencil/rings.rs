//! A stencil cache behind two rings: its owner serves one client thread.
//!
//! The client pushes what it wants into a ring of submissions, and takes what the cache says from a ring of completions;
//! the owner alone touches the cache. Neither locks, allocates or wakes the other: each looks into its ring again, and
//! sleeps for a moment at a time if that takes long. So rings are for two threads with a core each; threads that share
//! cores take [`Stencil`](super::Stencil), which lets them sleep until there is news.
//!
//! ```
//! use std::time::Duration;
//! use umbra::stencil::{Completion, Groups, Plan, Rings};
//! use umbra_core::stencil::{Input, Unknown};
//! let groups: Groups = (0..98).map(|point| [point, point + 1, point + 2]).collect();
//! let mut stencil = Plan { active: 2, window: 4, horizon: 100 }.cache(4, 3, vec![Input::UNBOUNDED; 100], Unknown)?;
//! let patience = Duration::from_secs(5);
//! let mut rings = Rings::new(64)?;
//! let (mut owner, mut client) = rings.split(&mut stencil, &groups, 4)?;
//! std::thread::scope(|scope| {
//!     let served = scope.spawn(move || owner.serve(patience));
//!     let (mut next, mut done) = (0, 0);
//!     while done < 98 {
//!         while next < 98 && client.has_room() {
//!             client.submit(next, patience)?;
//!             next += 1;
//!         }
//!         match client.next(patience)? {
//!             Completion::Prepare { data, .. } => client.prepared(data, patience)?, // after the load
//!             Completion::Ready { number, group, slots } => {
//!                 assert_eq!((number, slots.len()), (done, 3)); // compute from what is in the slots
//!                 client.free_group(group, patience)?;
//!                 done += 1;
//!             }
//!             other => panic!("{other:?}"),
//!         }
//!     }
//!     drop(client);
//!     served.join().expect("the owner does not panic")?;
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })?;
//! assert_eq!(stencil.statistics().loads, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: the owner takes submissions also while the ring of completions is full, so the two never wait for each
//! other; the client counts its groups, so the owner has room for those that wait for a record of the cache.
//!
//! *Cost*: an item in a ring for each call, and for a group that is ready one for each member.

mod client;
mod error;
mod owner;

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::id::Id;
use umbra_core::ring::spsc::Ring;
use umbra_core::ring::{Backoff, Place};
use umbra_core::stencil::{Future, Group, Lent, Names, Stencil, SubmitError};

pub use client::{Client, Completion};
pub use error::{ClientError, RingsError, ServeError};
pub use owner::Owner;

use super::error::BuildError;
use super::groups::Groups;
use crate::sys::heap::{reserved, room};

/// How long an end that has spun for a while sleeps between two looks.
const NAP: Duration = Duration::from_micros(50);

/// What the client asks for.
#[derive(Clone, Copy, Debug)]
enum Submission {
    Submit(u64),
    Prepared(u64),
    Failed(u64),
    Free(Id<Group>),
    Interrupt,
}

/// What the owner says; a group that is ready is followed by the slots of its members.
#[derive(Clone, Copy, Debug)]
enum News {
    Prepare { slot: u32, data: u64 },
    Ready { number: u64, group: Id<Group>, members: u32 },
    Slot(u32),
    Failed { number: u64, data: u64 },
    Interrupted { number: u64 },
    Refused { number: u64, error: SubmitError },
}

/// Whether an end is gone.
#[derive(Debug, Default)]
struct Ends {
    owner: AtomicU32,
    client: AtomicU32,
}

impl Ends {
    fn is_gone(end: &AtomicU32) -> bool {
        // ORDERING: pairs with `leave`: what the end had sent before is in the ring.
        end.load(Ordering::Acquire) != 0
    }

    fn leave(end: &AtomicU32) {
        // ORDERING: pairs with `is_gone`.
        end.store(1, Ordering::Release);
    }
}

/// Both rings.
#[derive(Debug)]
pub struct Rings {
    submissions: Ring<Submission, Vec<Place<Submission>>>,
    completions: Ring<News, Vec<Place<News>>>,
    ends: Ends,
}

impl Rings {
    /// Rings of so many items each, a power of two.
    ///
    /// # Errors
    /// [`RingsError`].
    pub fn new(items: usize) -> Result<Self, RingsError> {
        let submissions = Ring::new(reserved(items, Place::new).map_err(BuildError::from)?)?;
        let completions = Ring::new(reserved(items, Place::new).map_err(BuildError::from)?)?;
        Ok(Rings { submissions, completions, ends: Ends::default() })
    }

    /// The two ends, for the groups of the list, of which the client may submit `window` at once; those that the cache has no
    /// record for wait at the owner, in order. What an earlier pair left in the rings is forgotten.
    ///
    /// # Errors
    /// [`RingsError::InUse`], or no memory.
    pub fn split<'a, L: Lent, N: Names, F: Future>(
        &'a mut self,
        stencil: &'a mut Stencil<L, N, F>,
        groups: &'a Groups,
        window: usize,
    ) -> Result<(Owner<'a, L, N, F>, Client<'a>), RingsError> {
        let in_use = stencil.under_way();
        if in_use > 0 {
            return Err(RingsError::InUse { groups: in_use });
        }
        self.ends = Ends::default();
        let (ends, members) = (&self.ends, groups.largest());
        let (to_owner, submissions) = self.submissions.split();
        let (to_client, completions) = self.completions.split();
        let staged = room(members.saturating_add(window).saturating_add(1)).map_err(BuildError::from)?;
        let slots = room(members).map_err(BuildError::from)?;
        let mut held = VecDeque::new();
        held.try_reserve_exact(window)
            .map_err(|_| BuildError::NoMemory { bytes: window.saturating_mul(size_of::<u64>()) })?;
        let owner = Owner { held, stencil, groups, submissions, completions: to_client, staged, sent: 0, ends };
        let client = Client { submissions: to_owner, completions, coming: None, slots, open: 0, window, groups, ends };
        Ok((owner, client))
    }
}

/// Looks again for so long: at once for a while, and then after naps.
struct Wait {
    within: Duration,
    begun: Option<Instant>,
    backoff: Backoff,
}

impl Wait {
    fn new(within: Duration) -> Self {
        Wait { within, begun: None, backoff: Backoff::new() }
    }

    /// Pauses; whether there is time for another look. Who does not have to wait does not look at the clock.
    fn again(&mut self) -> bool {
        let left = self.within.saturating_sub(self.begun.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            return false;
        }
        if self.backoff.spent() {
            thread::sleep(NAP.min(left))
        } else {
            self.backoff.spin()
        }
        true
    }
}
