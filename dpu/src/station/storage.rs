//! The tables of a station: as large as firmware can afford, all of them static.

use umbra_core::access::serve::{Asker, Job};
use umbra_core::machine::Link;
use umbra_core::memory::Block;
use umbra_core::region::Entry;
use umbra_core::slots::Slot;
use umbra_core::window::{GROUPS, LANES};

/// Regions that are served at once; twice as many places as are needed.
const REGIONS: usize = 128;
/// Long transfers and revocations that wait.
const JOBS: usize = 64;
/// Bytes of the largest table that is taken.
pub const TABLE: usize = 64 << 10;

/// Where the memory of a region lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// In the share of this lane.
    pub(super) lane: usize,
}

impl Share {
    /// Nowhere.
    pub(super) const NONE: Share = Share { lane: usize::MAX };

    pub(super) const fn of(link: Link) -> Share {
        Share { lane: link.index() }
    }
}

/// What a [`Station`](super::Station) keeps; lent by the caller, in firmware from a `static`.
#[derive(Debug)]
pub struct Storage {
    pub(super) regions: [Entry; REGIONS],
    pub(super) jobs: [Slot<Job>; JOBS],
    pub(super) askers: [Asker; LANES],
    pub(super) blocks: [Block; 2 * GROUPS as usize + 1],
    pub(super) shares: [Share; REGIONS],
}

impl Storage {
    /// Nothing is known yet.
    #[must_use]
    pub const fn new() -> Storage {
        Storage {
            regions: [const { Entry::VACANT }; REGIONS],
            jobs: [const { Slot::EMPTY }; JOBS],
            askers: [const { Asker::NONE }; LANES],
            blocks: [Block::SPARE; 2 * GROUPS as usize + 1],
            shares: [Share::NONE; REGIONS],
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Storage::new()
    }
}
