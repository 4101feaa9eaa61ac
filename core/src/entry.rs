//! What the cache says about one rank of a group.

use crate::peer::{Host, Sp, WorldRank};

/// Most shadow service processes that a rank can have.
pub const MAX_SHADOWS: usize = 8;

/// The shadow service processes of a rank, in order; the first one serves its memory.
pub type Shadows = heapless::Vec<Sp, MAX_SHADOWS>;

/// One rank of a group: its process, its host and its shadow service processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The application process.
    pub world_rank: WorldRank,
    /// The host on which it runs.
    pub host: Host,
    /// Its shadow service processes, in order; at least one.
    pub shadows: Shadows,
}
