//! One region: its description, secret, place in the table, and a hold on it.

use core::fmt;

use crate::endpoints::Shadows;
use crate::key::{Access, Key};
use crate::peer::Incarnation;

/// 256 random bits that whoever imports a region must present.
///
/// Its owner gives them only to its shadow service processes, over an authenticated link. They are never
/// printed, and compared in a time that does not depend on where they differ.
#[derive(Clone, Copy)]
pub struct Secret(pub [u8; 32]);

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |seen, (a, b)| seen | (a ^ b));
        // Keeps the comparison from being turned into an early exit.
        core::hint::black_box(differing) == 0
    }
}
impl Eq for Secret {}
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A region as its owner describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its name.
    pub key: Key,
    /// Which life of the owner exported it.
    pub incarnation: Incarnation,
    /// Where it starts in the owner's address space.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// What its access list may do.
    pub access: Access,
}

impl Region {
    /// Whether the region holds the owner's address `address`.
    #[must_use]
    pub const fn covers(&self, address: u64) -> bool {
        address >= self.base && address - self.base < self.len
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Vacant,
    Live,
    /// No new holds; waits for the old ones, and to be asked if it is pinned.
    Revoking,
    Revoked,
    /// The owner died.
    Orphaned,
}

/// One place in the table; lent by the caller.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) region: Region,
    pub(super) state: State,
    pub(super) in_flight: u32,
    /// Counts the regions that this place had: one that is exported again has the key of the one before.
    pub(super) tenancy: u32,
    /// When it ended, in ends counted by the table; the oldest end is overwritten first.
    pub(super) ended: u32,
    /// Being revoked, and ends only when somebody asks for it.
    pub(super) pinned: bool,
    /// Ended, and the driver was not told yet.
    pub(super) unreaped: bool,
    pub(super) shadows: Shadows,
    pub(super) secret: Secret,
}

impl Entry {
    /// An unused place.
    pub const VACANT: Entry = Entry {
        region: Region {
            key: Key::from_bits(0),
            incarnation: Incarnation(0),
            base: 0,
            len: 0,
            access: Access::empty(),
        },
        state: State::Vacant,
        in_flight: 0,
        tenancy: 0,
        ended: 0,
        pinned: false,
        unreaped: false,
        shadows: Shadows::new(),
        secret: Secret([0; 32]),
    };

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Live | State::Revoking)
    }

    /// Nobody holds it any more, and whoever has to know was not told yet.
    pub(super) const fn has_drained(&self) -> bool {
        self.pinned && self.in_flight == 0
    }
}

/// Leave to touch one span; give it back with [`Regions::release`](super::Regions::release).
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a hold that is not released keeps its region from ever being revoked"]
pub struct Held {
    pub(super) place: u32,
    pub(super) tenancy: u32,
    pub(super) key: Key,
    pub(super) address: u64,
}

impl Held {
    /// The span's first byte in the owner's address space.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The region's name.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The place of the region in the table; a driver keeps what it needs to copy under this number.
    #[must_use]
    pub const fn place(&self) -> usize {
        self.place as usize
    }
}
