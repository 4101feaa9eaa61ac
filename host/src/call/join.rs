//! How a member comes to its seat.

use umbra_core::chain::{Life, Node};

use super::station::{Station, StationError};
use crate::sys::process::{Process, ProcessError, ProcessId};

/// Why a member cannot take its seat.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The meeting place.
    #[error(transparent)]
    Station(#[from] StationError),
    /// Somebody sits there and lives.
    #[error("member {node} is process {pid}: take another seat, or wait until it has left")]
    Taken {
        /// The seat.
        node: Node,
        /// The process.
        pid: u32,
    },
    /// This process cannot say who it is.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Takes a seat, for whoever receives at `home`: its life before this one, and this one.
pub(super) fn sit(station: &Station, node: Node, home: Node) -> Result<(Life, Life), JoinError> {
    let seat = station.seat(node)?;
    let before = seat.sitter();
    let taken = |pid| JoinError::Taken { node, pid };
    if let Some(process) = before.process
        && Process::open(process).is_ok_and(|process| process.is_alive())
    {
        return Err(taken(process.pid));
    }
    let life = seat.take(before, ProcessId::current()?, home).ok_or_else(|| taken(0))?;
    Ok((before.life, life))
}
