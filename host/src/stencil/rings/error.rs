//! Why the rings of a stencil cache refuse.

use std::time::Duration;

use umbra_core::ring::Unfit;
use umbra_core::stencil::{GroupError, PreparedError};

use super::super::error::BuildError;
use crate::quantity::counted;

fn count(groups: usize) -> String {
    counted(groups as u64, "group", "groups")
}

/// Why there are no rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingsError {
    /// Their length is no power of two.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// No memory for them.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Groups of an earlier client are in the cache.
    #[error("an earlier client left {} in the cache: interrupt and reset it, or take a new one", count(*groups))]
    InUse {
        /// How many.
        groups: usize,
    },
}

/// Why nothing was done for the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing came, or nothing could be sent, in this time; a retry may help.
    #[error("the owner of the cache did nothing for {within:?}: answer the loads and free the groups, or wait longer")]
    Expired {
        /// How long it waited.
        within: Duration,
    },
    /// The owner has ended; its own error says why.
    #[error("the owner of the cache has ended: its own error says why")]
    Gone,
    /// As many groups are submitted as may be at once.
    #[error("every group is taken, of {groups} in all: free one that is ready, then retry")]
    GroupsFull {
        /// How many.
        groups: usize,
    },
    /// There is no such group.
    #[error("there is no group {number}, only {have} from 0 on")]
    NoGroup {
        /// The number.
        number: u64,
        /// Groups of the list.
        have: usize,
    },
}

/// Why the owner ended before its client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did nothing in this time: it asked for nothing, or left a full ring as it is. A later call goes on.
    #[error("the client did nothing for {within:?}, with {} under way: serve longer, or look where it is", count(*groups))]
    Expired {
        /// How long the owner waited.
        within: Duration,
        /// Groups that have not ended.
        groups: usize,
    },
    /// The client has ended and left groups in the cache, which may have loads under way.
    #[error("the client ended with {} under way: interrupt the cache, and reset it when no load goes on", count(*groups))]
    Left {
        /// Groups that have not ended.
        groups: usize,
    },
    /// The client answered a load that nobody asked for.
    #[error(transparent)]
    Answer(#[from] PreparedError),
    /// The client freed a group that was not its own to free.
    #[error(transparent)]
    Group(#[from] GroupError),
}
