//! Choices of an exchange.

use std::time::Duration;

use umbra_core::boundary::Kind;

/// Choices of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long an exchange, or a vote, may take; `None`: for ever.
    pub deadline: Option<Duration>,
    /// Bytes of a slot to begin with, and at least. Ranks may choose differently.
    pub smallest_slot: u32,
    /// Bytes of a slot at most, whatever its sender has: what does not fit is fetched. Not below `smallest_slot` and the heads of
    /// messages, which take 64 bytes and a bit for each channel. Ranks may choose differently. The usual `u32::MAX` is no bound:
    /// then a slot grows up to what its sender has at most.
    pub largest_slot: u32,
    /// Send to the last peer first, and set the last channel first. The outcome is the same.
    pub reversed: bool,
    /// Measure how long the transport takes to send: [`Boundary::sending`](super::Boundary::sending). It costs two looks at the
    /// clock a message.
    pub timed: bool,
    /// Which exchange it is. Two that are open at once on the same mesh, each over a transport of its own, are of two kinds: then
    /// they have no channel in common, and what one of them has sent is refused by the other. All ranks choose the same.
    pub kind: Kind,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            deadline: Some(Duration::from_secs(300)),
            smallest_slot: 1024,
            largest_slot: u32::MAX,
            reversed: false,
            timed: false,
            kind: Kind::GHOST,
        }
    }
}
