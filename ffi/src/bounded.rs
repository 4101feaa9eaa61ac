//! Exchanges of ghost cells that handles name, and what their errors are in C.

use std::sync::{Mutex, TryLockError};

use umbra::boundary::{BoundaryError, Field};
use umbra_core::boundary::VoteError;
use umbra_core::error::Status;

use crate::exchange::Exchange;
use crate::mesh::Mesh;
use crate::status::{Code, Failure};
use crate::woven::Kept;

/// The exchange of one rank.
pub(crate) struct Inner {
    pub(crate) kept: Box<dyn Kept>,
    /// What it was built for.
    pub(crate) mesh: Mesh,
    pub(crate) fields: Vec<Field>,
    /// Values of an array of each field.
    pub(crate) lengths: Vec<usize>,
}

/// The same in the hands of a thread that may use it.
pub(crate) struct Open<'a> {
    pub(crate) boundary: &'a mut dyn Exchange,
    pub(crate) mesh: &'a mut Mesh,
    pub(crate) fields: &'a [Field],
    pub(crate) lengths: &'a mut Vec<usize>,
}

/// The same, for one call at a time.
pub(crate) struct Bounded(Mutex<Inner>);

impl Bounded {
    pub(crate) fn new(inner: Inner) -> Bounded {
        Bounded(Mutex::new(inner))
    }

    /// Uses the exchange. Who would wait for another call may be in a callback of it, so nobody waits.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Open<'_>) -> Result<R, Failure>) -> Result<R, Failure> {
        match self.0.try_lock() {
            Ok(mut inner) => {
                let Inner { kept, mesh, fields, lengths } = &mut *inner;
                act(&mut Open { boundary: kept.exchange()?, mesh, fields, lengths })
            }
            Err(TryLockError::WouldBlock) => {
                Err(Failure::new(Code::InUse, "another call uses this exchange: one at a time, and none in a callback"))
            }
            Err(TryLockError::Poisoned(_)) => Err(Code::Panic.into()),
        }
    }

    /// Whether this thread may release it: an exchange that another call uses, or that is lost, it may.
    pub(crate) fn releasable(&self) -> Result<(), Failure> {
        self.0.try_lock().map_or(Ok(()), |mut inner| inner.kept.exchange().map(drop))
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
            BoundaryError::Transport(Transport::WasBuilt { .. } | Transport::HasEnd) => Code::InUse,
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
