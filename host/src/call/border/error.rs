//! What is wrong with a frame of another place.

/// Why a frame of another place cannot be what it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BorderError {
    /// It is cut short, or speaks of members of others.
    #[error("frame of chained calls is malformed")]
    Malformed,
    /// The places are not of one kind.
    #[error(
        "a place with {theirs} seats for members and messages of {bytes} bytes cannot be joined to one with {ours}: start all agents with the same --members"
    )]
    Differs {
        /// Seats there.
        theirs: u32,
        /// The longest message there.
        bytes: u32,
        /// Seats here.
        ours: u32,
    },
}
