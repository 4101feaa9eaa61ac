//! A stencil cache for threads: `alloc` waits for its turn, for so long.
//!
//! The tables, the line of those who wait and the rules are [`umbra_core::stencil::waiting`]; here are a lock and threads
//! that sleep.
//!
//! ```
//! use std::time::Duration;
//! use umbra::stencil::{Plan, Stencil};
//! use umbra_core::stencil::{Action, Input, Unknown};
//! let plan = Plan { active: 1, window: 2, horizon: 100 };
//! let stencil = Stencil::new(plan.cache(3, 3, vec![Input::UNBOUNDED; 100], Unknown)?)?;
//! let patience = Duration::from_secs(5);
//! let news = || stencil.deliver(|action| match action {
//!     Action::Prepare { data, .. } => drop(stencil.prepared(data)), // after the load
//!     Action::Ready { group, .. } => drop(stencil.free_group(group)), // after the computation
//!     _ => {}
//! });
//! std::thread::scope(|scope| {
//!     for thread in 0..4 {
//!         let (stencil, news) = (&stencil, &news);
//!         scope.spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!             for point in (thread..98).step_by(4) {
//!                 stencil.alloc(point, &[point, point + 1, point + 2], patience)?;
//!                 news();
//!             }
//!             Ok(())
//!         });
//!     }
//! });
//! assert!(stencil.look(|stencil| stencil.idle() == stencil.len()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::Deref;
use std::time::Duration;

use umbra_core::id::Id;
use umbra_core::stencil::waiting::{self, Overdue, Shared, Waiter, Waiting};
use umbra_core::stencil::{self, Action, Future, Group, Member, Names, SubmitError};

use super::error::BuildError;
use super::plan::Vectors;
use crate::cache::Guard;
use crate::cache::wait;
use crate::sys::heap::reserved;

/// All that a cache works in, owned.
type Owned<N, F> = Guard<Waiting<Vectors, N, F, Vec<Waiter>>>;

/// A stencil cache for many threads. What never waits is that of [`Shared`]: by [`Deref`].
pub struct Stencil<N, F: Future>(Shared<Owned<N, F>>);

/// Threads that wait at once for one cache, unless said otherwise.
const WAITERS: usize = 1024;

/// Why a thread's group has not all its slots.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The cache was interrupted, before the call or while it waited.
    #[error("{}", umbra_core::cache::Interrupted)]
    Interrupted,
    /// The deadline passed. A group that was accepted goes on: [`Stencil::assigned`] waits for it again.
    #[error("not within {within:?}: {overdue}; answer the loads and free the groups, or wait longer")]
    Expired {
        /// How long it waited.
        within: Duration,
        /// Who holds the slots.
        overdue: Box<Overdue>,
    },
    /// The thread tells the news of this cache: what it would wait for could come only through itself.
    #[error("the caller tells the news that it would wait for: submit the group instead, or let another thread wait")]
    WouldDeadlock,
    /// Waiting would not help.
    #[error("{0}")]
    Refused(waiting::AllocError),
}

impl From<waiting::AllocError> for AllocError {
    fn from(error: waiting::AllocError) -> Self {
        match error {
            waiting::AllocError::Refused(SubmitError::Interrupted) => AllocError::Interrupted,
            error => AllocError::Refused(error),
        }
    }
}

impl<N: Names, F: Future> Stencil<N, F> {
    /// Lets threads share a cache, of which 1024 can wait at once.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`].
    pub fn new(stencil: stencil::Stencil<Vectors, N, F>) -> Result<Self, BuildError> {
        Self::with_waiters(stencil, WAITERS)
    }

    /// The same for as many threads that wait at once.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`].
    pub fn with_waiters(stencil: stencil::Stencil<Vectors, N, F>, waiters: usize) -> Result<Self, BuildError> {
        let waiters = reserved(waiters, || Waiter::EMPTY)?;
        Ok(Stencil(Shared::new(Guard::new(Waiting::new(stencil, waiters)))))
    }

    /// Accepts the group of inputs that an output point is computed from, and returns when it has all its slots; threads are
    /// served in the order in which they came. Its inputs may be on their way: [`Stencil::deliver`] tells when it is ready.
    ///
    /// # Errors
    /// [`AllocError`]: the deadline, the interrupt, a load that failed, or what waiting does not help against.
    pub fn alloc(&self, point: u64, group: &[u64], within: Duration) -> Result<Id<Group>, AllocError> {
        self.alloc_members(point, group.iter().map(|&data| Member::Load(data)), within)
    }

    /// [`Stencil::alloc`] with members of all kinds, which must not panic: what was claimed for the first of them would
    /// stay so.
    ///
    /// # Errors
    /// As for [`Stencil::alloc`].
    pub fn alloc_members<M>(&self, point: u64, group: M, within: Duration) -> Result<Id<Group>, AllocError>
    where
        M: IntoIterator<Item = Member> + Clone + Unpin,
    {
        self.may_wait()?;
        let mut wait = self.0.alloc_members(point, group);
        match wait::until(&mut wait, within) {
            Some(told) => Ok(told?),
            None => Ok(wait.expire().map_err(|overdue| AllocError::Expired { within, overdue: overdue.into() })??),
        }
    }

    /// Returns when a group that was accepted has all its slots.
    ///
    /// # Errors
    /// As for [`Stencil::alloc`].
    pub fn assigned(&self, group: Id<Group>, within: Duration) -> Result<(), AllocError> {
        self.may_wait()?;
        let mut wait = self.0.assigned(group);
        match wait::until(&mut wait, within) {
            Some(told) => Ok(told?),
            None => {
                wait.expire().map_err(|overdue| AllocError::Expired { within, overdue: overdue.into() })??;
                Ok(())
            }
        }
    }

    fn may_wait(&self) -> Result<(), AllocError> {
        if self.0.teller() == Some(this_thread()) { Err(AllocError::WouldDeadlock) } else { Ok(()) }
    }

    /// Hands all news to `tell`, in order and never two at once, and those that come up meanwhile as well; if another thread
    /// is at it, they are that one's. To be called after each call that may bring news. `tell` may call everything but what
    /// waits, this too.
    pub fn deliver(&self, tell: impl FnMut(Action)) {
        self.0.deliver(this_thread(), tell);
    }

    /// [`Stencil::deliver`] of what `look` makes of an action; see [`Shared::deliver_seen`].
    pub fn deliver_seen<T>(
        &self,
        look: impl FnMut(&stencil::Stencil<Vectors, N, F>, Action) -> T,
        tell: impl FnMut(T),
    ) {
        self.0.deliver_seen(this_thread(), look, tell);
    }
}

/// A number that no two living threads share.
fn this_thread() -> u64 {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    // A thread that is ending and has lost it waits for nothing that it tells itself.
    PLACE.try_with(|place| std::ptr::from_ref(place).addr() as u64).unwrap_or(0)
}

impl<N, F: Future> Deref for Stencil<N, F> {
    type Target = Shared<Owned<N, F>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
