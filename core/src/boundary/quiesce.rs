//! Agreeing that all ranks are between the same two exchanges.
//!
//! Only then may the mesh change.
//!
//! ```
//! use umbra_core::boundary::{Vote, VoteError, agree};
//! let vote = Vote { epoch: 1, sequence: 40, open: 0 };
//! assert_eq!(agree(&[Some(vote), Some(vote)]), Ok(2));
//! assert_eq!(agree(&[Some(vote), None]), Err(VoteError::Missing { rank: 1 }));
//! let busy = Vote { open: 3, ..vote };
//! assert_eq!(agree(&[Some(vote), Some(busy)]), Err(VoteError::Open { rank: 1, channels: 3 }));
//! assert_eq!(agree(&[Some(busy), None]), Err(VoteError::Missing { rank: 1 }), "which may be what the other waits for");
//! assert_eq!(agree(&[Some(vote), Some(Vote::REFUSAL)]), Err(VoteError::Refuses { rank: 1 }));
//! ```
//!
//! Each rank refuses new exchanges, ends the open one, and says how many it has done. Every rank takes part, also one
//! without blocks. When all say the same, every message of the epoch was used; the next epoch begins with new plans,
//! and whatever is late is recognised by its epoch.

use core::fmt;

/// What one rank says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Vote {
    /// Its epoch.
    pub epoch: u32,
    /// Exchanges that it has begun in it.
    pub sequence: u32,
    /// Channels that are not stale, or more than there can be: see [`REFUSAL`](Vote::REFUSAL).
    pub open: u32,
}

impl Vote {
    /// What a rank says that cannot use the mesh or the plans.
    pub const REFUSAL: Vote = Vote { epoch: 0, sequence: 0, open: u32::MAX };
}

/// Why the mesh may not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum VoteError {
    /// A rank has not said anything.
    Missing {
        /// Which.
        rank: u32,
    },
    /// A rank has an open exchange.
    Open {
        /// Which.
        rank: u32,
        /// Channels that are not stale.
        channels: u32,
    },
    /// A rank cannot use the mesh or the plans.
    Refuses {
        /// Which.
        rank: u32,
    },
    /// A rank is elsewhere than the first one.
    Apart {
        /// Which.
        rank: u32,
        /// What it says.
        vote: Vote,
        /// What the first one says.
        first: Vote,
    },
}

impl fmt::Display for VoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VoteError::Missing { rank } => write!(f, "rank {rank} does not take part: is it alive?"),
            VoteError::Open { rank, channels } => {
                write!(f, "rank {rank} has {channels} channels in an open exchange: finish it first")
            }
            VoteError::Refuses { rank } => write!(f, "rank {rank} cannot use this mesh: see its error"),
            VoteError::Apart { rank, vote, first } => write!(
                f,
                "rank {rank} has done {} exchanges of epoch {}, rank 0 {} of epoch {}: all must do the same",
                vote.sequence, vote.epoch, first.sequence, first.epoch
            ),
        }
    }
}
impl core::error::Error for VoteError {}

/// The next epoch, if all ranks say that they are between the same two exchanges. A rank that refuses is named first, then one that
/// is missing, for others may be open because of it.
///
/// # Errors
/// [`VoteError`], the same on every rank that has the same votes.
pub fn agree(votes: &[Option<Vote>]) -> Result<u32, VoteError> {
    let mut first = None;
    // Who has refused has said why; who is open may be so because a rank is missing.
    let of = |vote: fn(&Option<Vote>) -> bool| (0..).zip(votes).find_map(|(rank, said)| vote(said).then_some(rank));
    if let Some(rank) = of(|vote| vote.is_some_and(|vote| vote.open == Vote::REFUSAL.open)) {
        return Err(VoteError::Refuses { rank });
    }
    if let Some(rank) = of(Option::is_none) {
        return Err(VoteError::Missing { rank });
    }
    for (rank, vote) in (0..).zip(votes.iter().flatten().copied()) {
        if vote.open > 0 {
            return Err(VoteError::Open { rank, channels: vote.open });
        }
        let first = *first.get_or_insert(vote);
        if vote != first {
            return Err(VoteError::Apart { rank, vote, first });
        }
    }
    Ok(first.map_or(1, |vote| vote.epoch.wrapping_add(1)))
}
