//! What the creator of a pool chooses.

use std::path::PathBuf;

use umbra_core::atomic::Ordering;
use umbra_core::heap::{Plan, PlanError};

use super::error::Error;
use super::{Pool, Word};

/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;

/// When a pool with a name ends; one without is there as long as a process has it, or its descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetime {
    /// With the handle that made it.
    #[default]
    Creator,
    /// With the last process that uses it.
    LastUser,
}

/// Where the bytes of a pool come from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// Shared memory: two files in `/dev/shm` if the pool has a name, otherwise two memfds.
    #[default]
    Shared,
    /// Two files in this folder, which may be relative to the working directory of the moment; the pool has a name.
    Folder(PathBuf),
    /// Pages of 2 MiB for the data, which the system must have set aside; the bytes are rounded up to them. No name.
    HugePages,
    /// Memory of this process alone. No name, and nobody else attaches.
    Private,
}

impl Memory {
    pub(super) const fn number(&self) -> u64 {
        match self {
            Memory::Shared => 0,
            Memory::Folder(_) => 1,
            Memory::HugePages => 2,
            Memory::Private => 3,
        }
    }

    /// The word for it, by its number.
    const fn word(number: u64) -> &'static str {
        match number {
            0 => "shared memory",
            1 => "files",
            2 => "huge pages",
            _ => "private memory",
        }
    }
}

impl Pool {
    /// What its bytes come from, in words.
    #[must_use]
    pub fn memory(&self) -> &'static str {
        Memory::word(self.word(Word::Memory).load(Ordering::Relaxed))
    }
}

/// What the creator of a pool chooses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Bytes of data.
    pub bytes: u64,
    /// Bytes that the size of each block is a multiple of; rounded up to a power of two, and to what so many bytes need.
    pub granule: u64,
    /// Most blocks at a time; 0 for as many as a share of the bytes can tell of.
    pub blocks: u32,
    /// So many blocks of so many bytes are kept for that size. They have at most 64 KiB, or in a pool of less than 4 MiB
    /// the 64th part of its bytes rounded down to a power of two (below 64 KiB the 16th part). What cannot be as long beside
    /// them is refused as too long.
    pub reserved: Vec<(u64, u32)>,
    /// Threads that use it at the same time, in all processes.
    pub members: u16,
    /// A number that its users know it by; but for 0, no two pools that a process made have the same while both live.
    pub uid: u64,
    /// When it ends, if it has a name.
    pub lifetime: Lifetime,
    /// Where its bytes come from.
    pub memory: Memory,
}

impl Default for Attributes {
    fn default() -> Self {
        let (bytes, granule, lifetime, memory) = (64 << 20, 32, Lifetime::Creator, Memory::Shared);
        Attributes { bytes, granule, blocks: 0, reserved: Vec::new(), members: 64, uid: 0, lifetime, memory }
    }
}

impl Attributes {
    /// Bytes of data that the pool will have.
    pub(super) fn data_bytes(&self) -> u64 {
        match self.memory {
            Memory::HugePages => self.bytes.checked_next_multiple_of(HUGE).unwrap_or(self.bytes),
            _ => self.bytes,
        }
    }

    pub(super) fn plan(&self) -> Result<Plan, PlanError> {
        Plan::new(self.data_bytes(), self.granule, self.blocks, self.members)
    }

    /// Words of memory that [`Pool::create_in`](super::Pool::create_in) needs for such a pool.
    ///
    /// # Errors
    /// [`Error::Plan`] if there can be none.
    pub fn words(&self) -> Result<usize, Error> {
        let data = usize::try_from(self.bytes.div_ceil(8)).map_err(|_| PlanError::TooLarge)?;
        Ok(self.plan()?.words() + data)
    }
}
