//! Exchanges of ghost cells that handles name, and what their errors are in C.

use std::sync::{Mutex, TryLockError};

use umbra::boundary::{BoundaryError, Field};
use umbra_core::boundary::VoteError;
use umbra_core::error::Status;

use crate::alone::Owner;
use crate::exchange::Exchange;
use crate::maker::Maker;
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

/// The same, for one call at a time, of the process that has built it: a child that was forked off would send as the same rank.
pub(crate) struct Bounded {
    maker: Maker,
    /// Of an exchange that only one thread may use. Others are refused before they look: the exchange is not in use by them.
    owner: Option<Owner>,
    /// None once it is closed.
    inner: Mutex<Option<Inner>>,
}

impl Bounded {
    pub(crate) fn new(inner: Inner) -> Bounded {
        Bounded { maker: Maker::this(), owner: inner.kept.owner(), inner: Mutex::new(Some(inner)) }
    }

    fn usable(&self) -> Result<(), Failure> {
        let heir =
            "the exchange belongs to the process that forked this one off: build one of another rank in this process";
        self.owner.map_or_else(|| self.maker.refuse_heirs(heir), |owner| owner.usable())
    }

    /// Uses the exchange. Who would wait for another call may be in a callback of it, so nobody waits.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Open<'_>) -> Result<R, Failure>) -> Result<R, Failure> {
        self.usable()?;
        match self.inner.try_lock() {
            Ok(mut inner) => {
                let Inner { kept, mesh, fields, lengths } = inner.as_mut().ok_or(Code::Stale)?;
                act(&mut Open { boundary: kept.exchange()?, mesh, fields, lengths })
            }
            Err(TryLockError::WouldBlock) => {
                Err(Failure::new(Code::InUse, "another call uses this exchange: one at a time, and none in a callback"))
            }
            Err(TryLockError::Poisoned(_)) => Err(Code::Panic.into()),
        }
    }

    /// Ends the exchange in this thread, whoever has its object still. One that another call uses ends with that call.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.usable()?;
        let inner = match self.inner.try_lock() {
            Ok(mut inner) => inner.take(),
            Err(TryLockError::Poisoned(lock)) => lock.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        drop(inner);
        Ok(())
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
            | BoundaryError::NotReceived { .. } => Code::NotReady,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}
