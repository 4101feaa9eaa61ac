//! Look-ups in the endpoint cache.

use umbra_core::endpoints::{Endpoint, Group, LookupError, Reader};
use umbra_core::id::Id;
use umbra_core::peer::Rank;

use super::{GroupHandle, Session};

impl Session {
    /// A group as it is to be looked up now, if this generation of it lives on: the handle that was given for it is
    /// `StaleGeneration` once the service process was started again.
    #[must_use]
    pub fn current(&self, group: GroupHandle) -> Option<GroupHandle> {
        self.group(group.key).filter(|now| now.generation == group.generation)
    }
}

/// The endpoint cache as a rank sees it.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints<'a>(pub(super) Option<Reader<'a>>);

impl<'a> Endpoints<'a> {
    /// The process of a rank and its first shadow service process: the hot look-up.
    ///
    /// # Errors
    /// [`LookupError`].
    #[inline]
    pub fn lookup(&self, group: Id<Group>, rank: Rank) -> Result<Endpoint, LookupError> {
        self.reader().ok_or(LookupError::UnknownGroup)?.lookup(group, rank)
    }

    /// [`lookup`](Self::lookup) for many ranks at once, as [`Reader::lookup_all`].
    ///
    /// # Errors
    /// [`LookupError`], about the first rank that is refused.
    pub fn lookup_all(&self, group: Id<Group>, ranks: &[Rank], found: &mut [Endpoint]) -> Result<usize, LookupError> {
        self.reader().ok_or(LookupError::UnknownGroup)?.lookup_all(group, ranks, found)
    }

    /// All other look-ups; `None` while the service process has not shared its cache.
    #[inline]
    #[must_use]
    pub const fn reader(&self) -> Option<Reader<'a>> {
        self.0
    }
}
