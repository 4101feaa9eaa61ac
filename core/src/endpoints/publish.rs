//! The writer of an arena: makes it, publishes tables, retires them.
//!
//! There is one writer. It publishes complete tables only, so a group is absent or final; to change a group is to
//! retire it and to publish its next generation. Space and slots of a retired group are free at once: readers that
//! are still at it notice.
//!
//! ```
//! use umbra_core::atomic::AtomicU64;
//! use umbra_core::endpoints::{Descriptor, Endpoints, JobKey, LookupError, Reader, Shape, Table, TableBuilder};
//! use umbra_core::id::Generation;
//! use umbra_core::memory::Block;
//! use umbra_core::peer::{Host, LocalRank, Rank, Sp, WorldRank};
//! use umbra_core::placement::Placement;
//!
//! let job = Placement::one_dpu_a_host(2, 2, 1)?;
//! let mut bytes = [0; Descriptor::WORLD_BYTES];
//! let world = Descriptor::write_world(0, 8, &mut bytes)?;
//! let shape = Shape::new(&world, JobKey::new([1; 16]).group(&world), &job);
//! let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape)?;
//! for rank in 0..8 {
//!     let entry = job.entry(WorldRank(rank), Host(rank / 4), LocalRank(rank % 4)).unwrap();
//!     builder.set(Rank(rank), &entry)?;
//! }
//! let table = Table::attach(builder.finish(Generation::FIRST)?)?;
//!
//! let words: Vec<_> = (0..1024).map(|_| AtomicU64::new(0)).collect();
//! let mut endpoints = Endpoints::create(&words[..], [Block::default(); 9], 4)?;
//! let handle = endpoints.publish(&table, None)?;
//!
//! let reader = Reader::attach(&words)?;
//! assert_eq!(reader.lookup(handle, Rank(5))?.sp, Sp(3));
//! endpoints.retire(handle)?;
//! assert_eq!(reader.lookup(handle, Rank(5)), Err(LookupError::StaleGeneration));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: publishing is linear in the table's bytes, retiring is O(1).

use core::fmt;

use super::Group;
use super::arena::{Arena, ArenaError, FREE, HEADER_WORDS, LINE_WORDS, MAGIC, Plan, Slot, VERSION, load, store};
use super::lanes::NOBODY;
use super::layout::{halves, pair};
use super::lookup::LookupError;
use super::reader::Reader;
use super::table::Table;
use super::words::Words;
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::id::{Generation, Id};
use crate::memory::{AllocError, Block, Memory};
use crate::peer::Incarnation;

/// All groups known here: the writer's end of an arena.
///
/// `S` lends the arena's words, which readers may see; `B` lends the private bookkeeping of its space, two records a
/// slot and one more.
#[derive(Debug)]
pub struct Endpoints<S, B> {
    words: S,
    plan: Plan,
    space: Memory<B>,
    /// Ends of the list of free slots, as slot + 1; 0 where there is none.
    free: (u32, u32),
    live: u32,
}

/// Why a table was not published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PublishError {
    /// The group is published; retire it first.
    AlreadyPublished(Id<Group>),
    /// All slots hold groups; retiring one makes a retry worth while.
    NoSlot,
    /// There is no room for the table; retiring a group makes a retry worth while.
    NoRoom(AllocError),
    /// The arena was written by somebody else.
    Damaged,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::AlreadyPublished(handle) => {
                write!(f, "group is published as {handle:?}: retire it before its next generation")
            }
            PublishError::NoSlot => f.write_str("all slots hold groups: retire one or make a larger arena"),
            PublishError::NoRoom(error) => write!(f, "no room for the group table: {error}"),
            PublishError::Damaged => f.write_str("endpoint arena was written by somebody else"),
        }
    }
}
impl core::error::Error for PublishError {}

impl From<LookupError> for PublishError {
    fn from(_: LookupError) -> Self {
        PublishError::Damaged
    }
}

impl<S: AsRef<[AtomicU64]>, B: AsRef<[Block]> + AsMut<[Block]>> Endpoints<S, B> {
    /// Words of an arena with this many slots and room for `table_bytes` of tables, each rounded up to 64 bytes.
    #[must_use]
    pub fn words_needed(slots: u32, table_bytes: usize) -> usize {
        let tables = Plan::new(slots).map_or(usize::MAX, |plan| plan.tables);
        tables.saturating_add(table_bytes.div_ceil(8).saturating_add(LINE_WORDS - 1) & !(LINE_WORDS - 1))
    }

    /// Makes an empty arena in these words, whatever they held.
    ///
    /// Readers that were attached to an earlier arena in the same words must be gone.
    ///
    /// # Errors
    /// [`ArenaError::TooSmall`].
    pub fn create(words: S, blocks: B, slots: u32) -> Result<Self, ArenaError> {
        Self::create_in_life(words, blocks, slots, Incarnation::ANY)
    }

    /// [`create`](Self::create) for a writer that may be started again while others keep handles of an earlier life: these are
    /// [`LookupError::StaleGeneration`] in this one, and name no other group, for generations of slots begin elsewhere in each
    /// life.
    ///
    /// # Errors
    /// [`ArenaError::TooSmall`].
    pub fn create_in_life(words: S, blocks: B, slots: u32, life: Incarnation) -> Result<Self, ArenaError> {
        let plan = Plan::new(slots).ok_or(ArenaError::Malformed)?;
        let all = words.as_ref();
        let arena = Arena::cut(all, &plan)?;
        let too_small = ArenaError::TooSmall { needed: plan.tables };
        let room = all.len().checked_sub(plan.tables).ok_or(too_small)?;
        let [first, header @ ..] = all.get(..HEADER_WORDS).ok_or(too_small)? else { return Err(too_small) };
        store(first, 0);
        // ORDERING: whoever sees a word of the new arena sees that the old magic is gone.
        fence(Ordering::Release);
        header.iter().chain(arena.cells).for_each(|word| store(word, 0));
        let fresh = |cell: Slot<'_>, unheld: Id<Group>| {
            cell.lanes().iter().chain([cell.place()]).for_each(|word| store(word, 0));
            store(cell.shape(), NOBODY);
            store(cell.state(), FREE | unheld.to_bits());
        };
        fresh(arena.nobody, Id::new(slots, Generation::NEVER));
        let before_first = Generation(life.first_generation(u32::BITS));
        for slot in 1..=slots {
            let cell = arena.slot(slot - 1).ok_or(too_small)?;
            fresh(cell, Id::new(slot - 1, before_first));
            store(cell.private(), pair(slot - 1, if slot < slots { slot + 1 } else { 0 }));
        }
        for (word, value) in header.iter().zip([all.len() as u64, pair(slots, plan.cells)]) {
            store(word, value);
        }
        // ORDERING: whoever sees the magic sees the header and the empty directory; pairs with `Arena::attach`.
        fence(Ordering::Release);
        store(first, pair(MAGIC, VERSION));
        let space = Memory::new(blocks, room as u64 * 8);
        let free = if slots == 0 { (0, 0) } else { (1, slots) };
        Ok(Endpoints { words, plan, space, free, live: 0 })
    }

    fn arena(&self) -> Result<Arena<'_>, LookupError> {
        Arena::cut(self.words.as_ref(), &self.plan).map_err(|_| LookupError::Damaged)
    }

    /// A reader in this process.
    ///
    /// # Errors
    /// [`LookupError::Damaged`] if the lent words shrank.
    pub fn reader(&self) -> Result<Reader<'_>, LookupError> {
        self.arena().map(|arena| Reader { arena })
    }

    /// The words of the arena.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.words.as_ref()
    }

    /// Number of groups published now.
    #[must_use]
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Bytes of table space that are free.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.space.free_bytes()
    }

    /// Publishes a table and gives the group's handle.
    ///
    /// The group gets the preferred slot if that is free, so a caller with dense group numbers finds its groups at
    /// exactly these; otherwise it gets some slot, from the upper end.
    ///
    /// # Errors
    /// [`PublishError`]; nothing changed then.
    pub fn publish(&mut self, table: &Table<&[u8]>, preferred: Option<u32>) -> Result<Id<Group>, PublishError> {
        if let Ok(handle) = self.reader()?.find(table.key()) {
            return Err(PublishError::AlreadyPublished(handle));
        }
        let slot = self.free_slot(preferred)?;
        let extent = self.space.alloc(table.len_bytes() as u64).map_err(PublishError::NoRoom)?;
        let first_line = self.plan.tables / LINE_WORDS;
        let first_line = extent.offset / 64 + first_line as u64;
        self.take(slot)?;
        let arena = self.arena()?;
        let cell = arena.slot(slot).ok_or(PublishError::Damaged)?;
        let (_, generation) = halves(load(cell.state()));
        // ORDERING: the space and the slot may have been another group's: whoever sees a word written below sees
        // that group's slot without it. Pairs with the second fence of a look-up.
        fence(Ordering::Release);
        let handle = Id::new(slot, Generation(generation).next());
        let numbers = table.slot_numbers(first_line, handle.generation());
        store(cell.place(), numbers.place);
        for (at, word) in arena.table(cell).into_iter().flatten().enumerate().take(table.words_used()) {
            store(word, table.words.word(at).unwrap_or(0));
        }
        cell.lanes().iter().zip(numbers.lanes).for_each(|(word, number)| store(word, number));
        store(cell.private(), extent.block.to_bits());
        // ORDERING: whoever sees either word sees the table; pairs with the first fence of a look-up, or of a reading.
        cell.shape().store(numbers.shape.to_le(), Ordering::Release);
        cell.state().store(handle.to_bits().to_le(), Ordering::Release);
        arena.insert(table.key(), slot)?;
        self.live += 1;
        Ok(handle)
    }

    /// Takes a group away; its handle is stale from now on, its slot and space are free.
    ///
    /// # Errors
    /// [`LookupError::UnknownGroup`] or [`LookupError::StaleGeneration`]; nothing changed then.
    pub fn retire(&mut self, group: Id<Group>) -> Result<(), LookupError> {
        let reader = self.reader()?;
        let key = reader.read(group, Table::key)?;
        let slot = group.index();
        let arena = reader.arena;
        let cell = arena.slot(slot).ok_or(LookupError::Damaged)?;
        let block = Id::from_bits(load(cell.private()));
        arena.remove(key, slot)?;
        // Free, in the same generation: the next holder's is the following one.
        store(cell.state(), FREE | group.to_bits());
        self.space.free_block(block).map_err(|_| LookupError::Damaged)?;
        self.live = self.live.saturating_sub(1);
        self.put_back(slot)
    }

    /// A free slot: the preferred one, or the last of the list.
    fn free_slot(&self, preferred: Option<u32>) -> Result<u32, PublishError> {
        let arena = self.arena()?;
        let is_free = |slot: &u32| arena.slot(*slot).is_some_and(|slot| load(slot.state()) & FREE != 0);
        preferred.filter(is_free).or_else(|| self.free.1.checked_sub(1)).ok_or(PublishError::NoSlot)
    }

    fn private(&self, slot: u32) -> Result<&AtomicU64, LookupError> {
        self.arena()?.slot(slot).map(Slot::private).ok_or(LookupError::Damaged)
    }

    /// Changes the links of a free slot; slots are counted from 1 here.
    fn relink(&self, slot: u32, change: impl FnOnce((u32, u32)) -> (u32, u32)) -> Result<(), LookupError> {
        let word = self.private(slot - 1)?;
        let (before, after) = change(halves(load(word)));
        store(word, pair(before, after));
        Ok(())
    }

    /// Takes a slot out of the list of free slots.
    fn take(&mut self, slot: u32) -> Result<(), LookupError> {
        let (before, after) = halves(load(self.private(slot)?));
        match before {
            0 => self.free.0 = after,
            before => self.relink(before, |(first, _)| (first, after))?,
        }
        match after {
            0 => self.free.1 = before,
            after => self.relink(after, |(_, last)| (before, last))?,
        }
        Ok(())
    }

    /// Appends a slot to the list of free slots.
    fn put_back(&mut self, slot: u32) -> Result<(), LookupError> {
        let last = self.free.1;
        self.relink(slot + 1, |_| (last, 0))?;
        match last {
            0 => self.free.0 = slot + 1,
            last => self.relink(last, |(first, _)| (first, slot + 1))?,
        }
        self.free.1 = slot + 1;
        Ok(())
    }
}
