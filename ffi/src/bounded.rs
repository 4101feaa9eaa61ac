//! Exchanges of ghost cells, and the memory through which they go.

use std::sync::{Arc, Mutex, TryLockError};

use umbra::boundary::{Boundary, BoundaryError, Extent, Fabric, Field};
use umbra::sys::segment::Segment;
use umbra_core::boundary::VoteError;
use umbra_core::error::Status;

use crate::mesh::Mesh;
use crate::status::{Code, Failure};

/// The memory that all ranks have mapped.
pub(crate) struct Woven {
    pub(crate) segment: Arc<Segment>,
    pub(crate) extent: Extent,
    pub(crate) fields: Vec<Field>,
}

impl Woven {
    pub(crate) fn new(segment: Segment, extent: Extent, fields: Vec<Field>) -> Woven {
        Woven { segment: Arc::new(segment), extent, fields }
    }

    /// An end of a rank, which can be built on one of them.
    pub(crate) fn end(&self, rank: u32) -> Result<Fabric, Failure> {
        let end = Fabric::attach(Arc::clone(&self.segment), self.extent, rank);
        Ok(end.map_err(BoundaryError::from)?)
    }
}

/// The exchange of one rank.
pub(crate) struct Inner {
    pub(crate) boundary: Boundary<Fabric>,
    /// What it was built for.
    pub(crate) mesh: Mesh,
    pub(crate) fields: Vec<Field>,
    /// Values of an array of each field.
    pub(crate) lengths: Vec<usize>,
}

/// The same, for one call at a time.
pub(crate) struct Bounded(Mutex<Inner>);

impl Bounded {
    pub(crate) fn new(inner: Inner) -> Bounded {
        Bounded(Mutex::new(inner))
    }

    /// Uses the exchange. Who would wait for another call may be in a callback of it, so nobody waits.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Inner) -> Result<R, Failure>) -> Result<R, Failure> {
        match self.0.try_lock() {
            Ok(mut inner) => act(&mut inner),
            Err(TryLockError::WouldBlock) => {
                Err(Failure::new(Code::InUse, "another call uses this exchange: one at a time, and none in a callback"))
            }
            Err(TryLockError::Poisoned(_)) => Err(Code::Panic.into()),
        }
    }
}

impl From<BoundaryError> for Failure {
    fn from(error: BoundaryError) -> Failure {
        use umbra::boundary::TransportError as Transport;
        let code = match &error {
            BoundaryError::Late(_)
            | BoundaryError::Vote(VoteError::Missing { .. })
            | BoundaryError::Transport(Transport::Silent { .. }) => Code::Status(Status::Timeout),
            BoundaryError::Differs(_)
            | BoundaryError::RefusedElsewhere(_)
            | BoundaryError::Vote(VoteError::Refuses { .. }) => Code::Status(Status::Conflict),
            BoundaryError::NoMemory { .. } => Code::Status(Status::Full),
            BoundaryError::Transport(Transport::NoRank { .. }) => Code::Status(Status::RankOutOfRange),
            BoundaryError::Transport(Transport::WasBuilt { .. }) => Code::InUse,
            BoundaryError::Transport(Transport::SlotTooSmall { .. }) => Code::TooLarge,
            BoundaryError::Spent | BoundaryError::Lost(_) | BoundaryError::Transport(Transport::Ended { .. }) => {
                Code::Destroyed
            }
            BoundaryError::Transport(_) => Code::System,
            BoundaryError::Exchange(_)
            | BoundaryError::Vote(_)
            | BoundaryError::StillOpen(_)
            | BoundaryError::OtherHalf
            | BoundaryError::NotReceived => Code::NotReady,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}
