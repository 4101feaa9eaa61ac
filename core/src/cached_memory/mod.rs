//! A cache of data of any length in one memory.
//!
//! It knows what lies where, who uses it, and what leaves. The contract is that of the
//! [forgetful slot cache](crate::cache), with a range of a memory in place of a slot: who finds its place
//! [empty](Found::Empty) fills it and says `remember`; then the content outlives its references until room is needed.
//! The memory may be anywhere; the records lie beside it, in lent arrays.
//!
//! Room for a length is not a question of how much is idle, but of where. A *run* is a longest stretch of what is free
//! or idle, between data in use. If a run is long enough, some window of it is cleared: of those with data in them that
//! were used longest ago, the one whose content costs least to load again. If no run is long enough, no eviction can
//! help, nothing is evicted, and [`PlaceError::Blocked`] says so.
//!
//! [`alloc_group`](CachedMemory::alloc_group) places several at once, or none; nobody ever holds a part of what it
//! needs while it waits, so groups cannot block each other. If nothing else is in use, a group that is not larger than
//! the memory always finds room: at the worst everything idle leaves. Who is refused takes a [`Turn`]; newcomers get no
//! room before it, and [`next_turn`](CachedMemory::next_turn) says after a `free`, and after who was first has gone, whether
//! a retry is worth while.
//!
//! ```
//! use umbra_core::cache::{Dense, Found, Slot};
//! use umbra_core::cached_memory::{CachedMemory, Lent, PlaceError, Run};
//! use umbra_core::memory::{Block, Granule};
//! let lent = Lent {
//!     blocks: [Block::default(); 9],
//!     slots: [Slot::EMPTY; 9],
//!     runs: [Run::EMPTY; 10],
//!     starts: [0; 16],
//!     bits: [0; 1],
//! };
//! let mut memory = CachedMemory::new(lent, Dense::new([0; 100]), 16 << 10, Granule::new(1 << 10).unwrap())?;
//! let picture = memory.alloc(42, 10_000)?;
//! assert_eq!((picture.offset, picture.found), (0, Found::Empty)); // Load data 42 to there, and then:
//! memory.remember(42)?;
//! assert!(matches!(memory.alloc(43, 8_000), Err(PlaceError::Blocked { .. })));
//! memory.free(42)?;
//! assert_eq!(memory.alloc(42, 10_000)?.found, Found::Remembered);
//! memory.free(42)?;
//! assert_eq!(memory.alloc(43, 8_000)?.offset, 0, "data 42 has left");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: those of the memory and of the slot cache; runs and data in use tile the memory; a refused
//! operation has changed nothing.
//!
//! *Cost*: a hit, `remember` and `forget` are O(1). A place that is taken splits a run only when more than [`UNCUT`] were
//! taken since or when a run is asked for, and if it did, its last reference joins them: one word of a bit set for each
//! factor of 64 in the number of granules. To choose what leaves, [`SEEDS`] times [`VIEW`] ranges are looked at at most;
//! each eviction is paid for by an earlier load. If none of them will do, for groups, and in
//! [`next_turn`](CachedMemory::next_turn), a run is asked for: so many split one first, and it is looked for among [`PEEK`]
//! at most if there is a longer one, else among all whose length is that by less than a part in 32; there is one run more
//! than data in use at most. At its front [`VIEW`] ranges are looked at.

mod choice;
mod error;
mod group;
mod line;
mod pinned;
mod runs;
mod single;
mod uncut;

pub use error::{LentTooLittle, PlaceError};
pub use group::Member;
pub use line::{LineFull, Turn};
pub use runs::Run;
pub use uncut::UNCUT;

use crate::cache::slot::{List, Slot};
use crate::cache::{Found, Index, Interrupted, State};
use crate::memory::bins::Bins;
use crate::memory::{Block, Figures, Granule, Tiling};
use line::{Line, Need};
use pinned::Pinned;
use uncut::Uncut;

/// Idle data, of those used longest ago, for each of which a window is looked for that it is in.
pub const SEEDS: usize = 4;
/// Ranges around one of them that are looked at, at most: no more than it takes to reach the length.
pub const VIEW: usize = 64;
/// Runs about as long as what is asked for that are looked at before a longer one is taken.
pub const PEEK: usize = 32;

/// Storage of records that is lent: an array, a `Vec`, a slice.
pub trait Lend<T>: AsRef<[T]> + AsMut<[T]> {}
impl<T, S: AsRef<[T]> + AsMut<[T]>> Lend<T> for S {}

/// What a cached memory is lent; for so many places [`records_needed`] blocks and slots, and a run more.
#[derive(Clone, Copy, Debug)]
pub struct Lent<B, S, R, T, W> {
    /// Records of ranges.
    pub blocks: B,
    /// Records of what is in them; as many.
    pub slots: S,
    /// Records of what lies between data in use; one more.
    pub runs: R,
    /// A word a granule.
    pub starts: T,
    /// A bit a granule, and some more: [`bits_needed`].
    pub bits: W,
}

/// Records for so many places: each of these and each gap beside one has its own. The index knows as many numbers.
#[must_use]
pub const fn records_needed(places: usize) -> usize {
    places.saturating_mul(2).saturating_add(1)
}

/// Words of [`Lent::bits`] for so many bytes in granules.
#[must_use]
pub fn bits_needed(capacity: u64, granule: Granule) -> usize {
    pinned::words_needed(u32::try_from(capacity / granule.bytes()).unwrap_or(u32::MAX))
}

/// A place in the memory, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Place {
    /// Bytes from the start of the memory.
    pub offset: u64,
    /// What is there.
    pub found: Found,
    /// References to the data, this one included.
    pub references: u32,
}

/// What happened since the memory was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Statistics {
    /// As a slot cache counts.
    pub cache: crate::cache::Statistics,
    /// Bytes of evicted content.
    pub evicted_bytes: u64,
    /// Times that everything idle had to leave for a group.
    pub flushes: u64,
    /// Evictions for one request at most.
    pub most_evictions: u32,
    /// Ranges looked at to choose what leaves for one request, at most.
    pub most_looks: u32,
}

/// The cached memory; `I` finds the place of data by its id.
#[derive(Clone, Debug)]
pub struct CachedMemory<B, S, R, T, W, I> {
    space: Tiling<B, T>,
    slots: S,
    runs: R,
    pinned: Pinned<W>,
    index: I,
    /// Runs by length.
    bins: Bins,
    /// Places in use that have cut no run yet.
    uncut: Uncut,
    /// The run at the bottom of the memory, which lies behind no data in use.
    bottom: u32,
    /// Idle data, the last used first.
    idle: List,
    line: Line,
    /// References given back so far: what ages are counted in.
    clock: u64,
    places: u32,
    most_places: u32,
    /// Data in use, in number and in granules.
    in_use: u32,
    in_use_len: u32,
    interrupted: bool,
    statistics: Statistics,
    /// Ranges looked at, and evictions, for the request under way.
    looks: u32,
    evictions: u32,
}

impl<B, S, R, T, W, I> CachedMemory<B, S, R, T, W, I>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
{
    /// Caches in `0..capacity` bytes, in whole granules, whatever the lent records held before.
    ///
    /// # Errors
    /// [`LentTooLittle`] says of what.
    pub fn new(
        lent: Lent<B, S, R, T, W>,
        mut index: I,
        capacity: u64,
        granule: Granule,
    ) -> Result<Self, LentTooLittle> {
        let Lent { blocks, mut slots, mut runs, starts, bits } = lent;
        let granules = u32::try_from(capacity / granule.bytes()).unwrap_or(u32::MAX).min(u32::MAX - 1);
        if granules == 0 {
            return Err(LentTooLittle::Bytes);
        }
        let records = blocks.as_ref().len();
        if records < 3 || slots.as_ref().len() < records || runs.as_ref().len() <= records {
            return Err(LentTooLittle::Records);
        }
        let (need, have) = (granules as usize, starts.as_ref().len());
        if have < need {
            return Err(LentTooLittle::Starts { need, have });
        }
        let (need, have) = (pinned::words_needed(granules), bits.as_ref().len());
        if have < need {
            return Err(LentTooLittle::Bits { need, have });
        }
        // The indices of records, and one more for the run at the bottom, are below the marks of lists and runs.
        let bottom = u32::try_from(records).unwrap_or(u32::MAX).min(runs::NO_CUT - 1);
        let most_places = (bottom - 1) / 2;
        let (need, have) = (most_places as usize, index.room());
        if have < need {
            return Err(LentTooLittle::Index { need, have });
        }
        let (need, have) = (bottom as usize, index.numbers());
        if have < need {
            return Err(LentTooLittle::Numbers { need, have });
        }
        index.clear();
        slots.as_mut().fill(Slot::EMPTY);
        runs.as_mut().fill(Run::EMPTY);
        let mut memory = CachedMemory {
            space: Tiling::new(blocks, starts, u64::from(granules) * granule.bytes(), granule),
            slots,
            runs,
            pinned: Pinned::new(bits, granules),
            index,
            bins: Bins::EMPTY,
            uncut: Uncut::EMPTY,
            bottom,
            idle: List::EMPTY,
            line: Line::EMPTY,
            clock: 0,
            places: 0,
            most_places,
            in_use: 0,
            in_use_len: 0,
            interrupted: false,
            statistics: Statistics::default(),
            looks: 0,
            evictions: 0,
        };
        memory.set_run(bottom, granules);
        Ok(memory)
    }

    fn working(&self) -> Result<(), Interrupted> {
        if self.interrupted { Err(Interrupted) } else { Ok(()) }
    }

    /// The number of the place of `data`.
    fn find(&self, data: u64) -> Option<u32> {
        self.index.find(data)
    }

    fn slot(&self, at: u32) -> &Slot {
        &self.slots.as_ref()[at as usize]
    }

    fn slot_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.slots.as_mut()[at as usize]
    }

    fn granule(&self) -> Granule {
        self.space.memory().granule()
    }

    /// Bytes of a number of granules.
    fn bytes(&self, granules: u32) -> u64 {
        self.granule().of(granules)
    }

    fn capacity(&self) -> u32 {
        self.space.memory().capacity()
    }

    /// What the place of `data` is doing; `None` if it has none.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn state(&self, data: u64) -> Result<Option<State>, Interrupted> {
        self.working()?;
        Ok(self.find(data).map(|at| self.slot(at).state()))
    }

    /// How full the memory is and how scattered; idle data count as used.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.space.memory().figures()
    }

    /// Bytes of the longest stretch in which nothing is in use, one part in 32 shorter at times. Looks at all ranges while
    /// places in use have cut no run, which is never so while somebody waits.
    #[must_use]
    pub fn longest_run(&self) -> u64 {
        self.bytes(self.longest())
    }

    /// Data in use, in number and in bytes.
    #[must_use]
    pub fn in_use(&self) -> (u32, u64) {
        (self.in_use, self.bytes(self.in_use_len))
    }

    /// Data that may leave.
    #[must_use]
    pub fn idle(&self) -> u32 {
        self.idle.len
    }

    /// Data that can have a place at once.
    #[must_use]
    pub fn most_places(&self) -> u32 {
        self.most_places
    }

    /// What happened so far; also after an interrupt.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// From now on every operation fails with `Interrupted` and has no effect. A second interrupt changes nothing.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Data whose place somebody may still be writing to, with its offset; O(records). Also after an interrupt.
    pub fn outstanding_fills(&self) -> impl Iterator<Item = (u64, u64)> {
        let places = (0..self.bottom).zip(self.slots.as_ref());
        let filling = places.filter(|(_, slot)| slot.is_filling());
        filling.map(|(at, slot)| (slot.data, self.bytes(self.space.tile(at).start)))
    }

    /// How many requests were refused, for who lets them wait instead.
    pub(crate) fn refused(&mut self) -> &mut u64 {
        &mut self.statistics.cache.refused
    }

    /// Data in use, with its offset and references; O(records).
    pub(crate) fn held(&self) -> impl Iterator<Item = (u64, u64, u32)> {
        let places = (0..self.bottom).zip(self.slots.as_ref()).filter(|(_, slot)| slot.count > 0);
        places.map(|(at, slot)| (slot.data, self.bytes(self.space.tile(at).start), slot.count))
    }

    /// Takes a place in the line of those who wait for room for these. *Cost*: O(k²) for k members.
    ///
    /// # Errors
    /// [`LineFull`].
    pub fn line_up(&mut self, members: &[Member]) -> Result<Turn, LineFull> {
        let mut need = Need::default();
        for (at, member) in members.iter().enumerate() {
            let again = members[..at].iter().any(|other| other.data() == member.data());
            if again || self.find(member.data()).is_some() {
                continue;
            }
            let len = self.space.memory().granules(member.len()).unwrap_or(0);
            need.add(len, self.capacity());
        }
        self.cut_all();
        self.line.enter(need)
    }

    /// Gives up a place in the line; whether it was one.
    pub fn leave_line(&mut self, turn: Turn) -> bool {
        self.line.leave(turn)
    }

    /// The first in the line, if a retry of it is worth while now: whoever has just become the first may find what it
    /// needs. Ask after each `free`, and when a turn was used or left the line. O(1) but for the runs that are about as
    /// long as what is needed, if none is longer.
    #[must_use]
    pub fn next_turn(&self) -> Option<Turn> {
        let (turn, need) = self.line.head()?;
        let fits = self.run_if_all_cut(need.longest).is_some() && need.total <= self.capacity() - self.in_use_len;
        (fits || self.line.has_moved() || self.in_use == 0 || self.interrupted).then_some(turn)
    }
}
