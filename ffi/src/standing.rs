//! A group that outlives the service process that gave its handle.

use umbra::session::{Endpoints, GroupHandle, Session};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::endpoints::Group;
use umbra_core::error::Status;
use umbra_core::id::Id;

use crate::status::{Code, Failure};

/// A group as it was made, and what it is looked up with now.
pub(crate) struct Standing {
    made: GroupHandle,
    /// As bits: another one than at first once the service process was started again.
    handle: AtomicU64,
}

impl Standing {
    pub(crate) fn new(made: GroupHandle) -> Standing {
        Standing { made, handle: AtomicU64::new(made.handle.to_bits()) }
    }

    /// The group as it was made.
    pub(crate) const fn made(&self) -> GroupHandle {
        self.made
    }

    /// Looks something up by the handle of the group, and if that is stale by the one that the group has now.
    pub(crate) fn look_up<R>(
        &self,
        session: &Session,
        look: impl Fn(Endpoints<'_>, Id<Group>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        // ORDERING: a number alone; what it leads to is ordered by the arena.
        let handle = Id::from_bits(self.handle.load(Ordering::Relaxed));
        let found = look(session.endpoints(), handle);
        let is_stale = |code| matches!(code, Code::Status(Status::StaleGeneration | Status::UnknownGroup));
        if !found.as_ref().is_err_and(|failure| is_stale(failure.code)) {
            return found;
        }
        let Some(now) = session.current(self.made).filter(|now| now.handle != handle) else { return found };
        // ORDERING: as above.
        self.handle.store(now.handle.to_bits(), Ordering::Relaxed);
        look(session.endpoints(), now.handle)
    }
}
