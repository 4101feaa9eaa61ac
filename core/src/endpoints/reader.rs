//! Looking up endpoints in an arena that its writer may change at any time.
//!
//! The hot look-up is two dependent array reads: the slot of the group, then the first shadow of the rank; an affine group
//! has all it takes in the slot. World ranks that are not the ranks themselves lie beside the first shadows. Around the
//! reads stand a bounds check and a generation check; there is no lock, no allocation and no write. All other look-ups are
//! those of [`Table`], inside [`read`](Reader::read).
//!
//! A look-up begins with the slot's second word and ends with the first; unless both have the generation asked for, whatever
//! was read between is dropped and the answer is [`StaleGeneration`](LookupError::StaleGeneration).
//!
//! *Cost*: [`lookup`](Reader::lookup) touches one or two cache lines and takes one to three
//! nanoseconds if they are near. [`lookup_all`](Reader::lookup_all) takes about one for each rank, and overlaps the reads of
//! far ones. [`find`](Reader::find) touches a few lines more.

use super::Group;
use super::arena::{Arena, ArenaError, Slot, load};
use super::identity::GroupKey;
use super::lanes::{asked, is_form, size};
use super::lookup::{Endpoint, LookupError};
use super::table::Table;
use super::words::{Live, Words};
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::id::{Generation, Id};
use crate::peer::{Peer, Rank, Sp, WorldRank};

/// A group of an arena, as listed by [`Reader::groups`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its handle.
    pub handle: Id<Group>,
    /// Its key.
    pub key: GroupKey,
    /// The runtime's number for it.
    pub id: u32,
    /// Number of ranks.
    pub size: u32,
}

/// Reads endpoints; cheap to copy, one for each thread or process that looks something up.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub(super) arena: Arena<'a>,
}

impl<'a> Reader<'a> {
    /// Looks into an arena that is mapped here, if only for reading.
    ///
    /// The header is checked now, everything else where it is used: a writer that breaks the rules can make answers
    /// wrong, but not make a reader fault or hang.
    ///
    /// # Errors
    /// [`ArenaError`] if the words hold no arena or not all of it.
    pub fn attach(words: &'a [AtomicU64]) -> Result<Reader<'a>, ArenaError> {
        Arena::attach(words).map(|(arena, _)| Reader { arena })
    }

    /// The process of a rank and its first shadow service process: the hot look-up (L1, L2).
    ///
    /// # Errors
    /// [`LookupError::UnknownGroup`], [`LookupError::StaleGeneration`] or [`LookupError::RankOutOfRange`].
    // A call takes longer than the look-up, and the compiler would rather call.
    #[inline(always)]
    pub fn lookup(&self, group: Id<Group>, rank: Rank) -> Result<Endpoint, LookupError> {
        let slot = self.arena.slot_or_nobody(group.index());
        let form = asked(load(slot.shape()), group.generation(), rank);
        // ORDERING: pairs with the release store of the slot's second word in `Endpoints::publish`: the table is complete.
        fence(Ordering::Acquire);
        let Some((world_rank, sp)) = self.arena.locate(slot, form, rank) else {
            return Err(refused(slot, group, rank, form));
        };
        // ORDERING: everything above was read before the first word is; pairs with the release fence between the slot's
        // new word and the first change of what it led to.
        fence(Ordering::Acquire);
        if load(slot.state()) != group.to_bits() {
            return Err(LookupError::StaleGeneration);
        }
        endpoint(world_rank, sp)
    }

    /// [`lookup`](Self::lookup) for many ranks at once, all of one generation: for whoever is about to talk to all of them.
    ///
    /// Answers go to `found` in the order of `ranks`, as many as both have places for; gives their number. The group's slot
    /// is read and checked once, so an answer takes about as long as reading it from a bare array.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup), about the first rank that is refused. Then nothing in `found` is an answer.
    pub fn lookup_all(&self, group: Id<Group>, ranks: &[Rank], found: &mut [Endpoint]) -> Result<usize, LookupError> {
        let slot = self.arena.slot_or_nobody(group.index());
        let shape = load(slot.shape());
        let (form, size) = (asked(shape, group.generation(), Rank(0)), size(shape));
        // ORDERING: as in `lookup`.
        fence(Ordering::Acquire);
        let locate = self.arena.locator(slot, form);
        for (&rank, found) in ranks.iter().zip(&mut *found) {
            let place = if rank.0 < size { locate(rank) } else { None };
            let Some((world_rank, sp)) = place else { return Err(refused(slot, group, rank, form)) };
            *found = endpoint(world_rank, sp)?;
        }
        // ORDERING: as in `lookup`.
        fence(Ordering::Acquire);
        if load(slot.state()) != group.to_bits() {
            return Err(LookupError::StaleGeneration);
        }
        Ok(ranks.len().min(found.len()))
    }

    /// Asks any number of questions about one generation of a group; if it ends meanwhile, all answers are dropped.
    ///
    /// What the closure copies elsewhere counts only if the whole call succeeds. The closure must not rely on two
    /// answers agreeing with each other for its own termination or memory safety.
    ///
    /// # Errors
    /// [`LookupError::UnknownGroup`], [`LookupError::StaleGeneration`], or [`LookupError::Damaged`] if the writer
    /// broke the rules.
    pub fn read<R>(&self, group: Id<Group>, ask: impl FnOnce(&Table<Live<'a>>) -> R) -> Result<R, LookupError> {
        let slot = self.arena.slot(group.index()).ok_or(LookupError::UnknownGroup)?;
        self.is_ready(group)?;
        // ORDERING: pairs with the release store of the slot's first word in `Endpoints::publish`: the table is complete.
        fence(Ordering::Acquire);
        let unchanged = || {
            // ORDERING: as in `lookup`.
            fence(Ordering::Acquire);
            if load(slot.state()) == group.to_bits() { Ok(()) } else { Err(LookupError::StaleGeneration) }
        };
        let table = self.arena.table(slot).map(|words| Table::open(Live(words)));
        unchanged()?;
        let Some(Ok(table)) = table else { return Err(LookupError::Damaged) };
        let answer = ask(&table);
        unchanged()?;
        Ok(answer)
    }

    /// As [`read`](Self::read), for questions that can fail themselves.
    ///
    /// # Errors
    /// As [`read`](Self::read), or the closure's own.
    pub fn ask<R>(
        &self,
        group: Id<Group>,
        question: impl FnOnce(&Table<Live<'a>>) -> Result<R, LookupError>,
    ) -> Result<R, LookupError> {
        self.read(group, question)?
    }

    /// Whether the group's table is published (L5). Only complete tables are, so there is nothing between absent and
    /// ready.
    ///
    /// # Errors
    /// [`LookupError::UnknownGroup`] or [`LookupError::StaleGeneration`] if it is not.
    pub fn is_ready(&self, group: Id<Group>) -> Result<(), LookupError> {
        let slot = self.arena.slot(group.index()).ok_or(LookupError::UnknownGroup)?;
        if load(slot.state()) == group.to_bits() { Ok(()) } else { Err(absent(slot)) }
    }

    /// Whether a rank is in the group (L4).
    ///
    /// # Errors
    /// [`LookupError::UnknownGroup`] or [`LookupError::StaleGeneration`]: neither is an answer.
    pub fn knows(&self, group: Id<Group>, rank: Rank) -> Result<bool, LookupError> {
        match self.lookup(group, rank) {
            Ok(_) => Ok(true),
            Err(LookupError::RankOutOfRange { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The handle of the group with this key.
    ///
    /// # Errors
    /// [`LookupError::UnknownGroup`].
    pub fn find(&self, key: GroupKey) -> Result<Id<Group>, LookupError> {
        // The handle that was seen to have this key, and not what the slot holds a moment later.
        let holding = |slot| self.current(slot).filter(|&group| self.read(group, Table::key) == Ok(key));
        self.arena.find(key, holding)?.ok_or(LookupError::UnknownGroup)
    }

    /// The handle of the group that a slot holds now, if it holds one.
    #[must_use]
    pub fn current(&self, slot: u32) -> Option<Id<Group>> {
        Some(Id::from_bits(load(self.arena.slot(slot)?.state()))).filter(|group| group.index() == slot)
    }

    /// Number of slots: groups that the arena can hold at once.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.arena.slots.len() as u32
    }

    /// The groups held now, by slot (L25); one that ends meanwhile is left out.
    pub fn groups(&self) -> impl Iterator<Item = Listed> + use<'a> {
        let reader = *self;
        (0..reader.slots()).filter_map(move |slot| {
            let handle = reader.current(slot)?;
            let list =
                |table: &Table<Live<'a>>| Listed { handle, key: table.key(), id: table.id(), size: table.size() };
            reader.read(handle, list).ok()
        })
    }

    /// Copies the bytes of a group's table, for a message or a file; gives their number.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Ok(None)` if the buffer is too small.
    pub fn copy_table(&self, group: Id<Group>, out: &mut [u8]) -> Result<Option<usize>, LookupError> {
        self.read(group, |table| {
            let out = out.get_mut(..table.len_bytes())?;
            for (at, bytes) in out.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&table.words.word(at)?.to_le_bytes());
            }
            Some(out.len())
        })
    }
}

#[inline(always)]
fn endpoint(world_rank: u32, sp: Sp) -> Result<Endpoint, LookupError> {
    // A published world rank can be named, so the mask changes nothing; it stands for a branch that would have to
    // wait for the rank's word.
    let peer = Peer::rank(WorldRank(world_rank & (Peer::CAPACITY - 1))).ok_or(LookupError::Damaged)?;
    Ok(Endpoint { peer, sp })
}

/// Why there is no answer about a rank, to which the slot said this when it was asked.
#[cold]
fn refused(slot: Slot<'_>, group: Id<Group>, rank: Rank, form: u64) -> LookupError {
    if load(slot.state()) != group.to_bits() {
        return absent(slot);
    }
    // ORDERING: as in `Reader::read`.
    fence(Ordering::Acquire);
    let size = size(load(slot.shape()));
    // ORDERING: as in `Reader::lookup`.
    fence(Ordering::Acquire);
    match () {
        () if load(slot.state()) != group.to_bits() => LookupError::StaleGeneration,
        () if rank.0 >= size => LookupError::RankOutOfRange { rank, size },
        () if is_form(form) => LookupError::Damaged,
        // The group was published in between.
        () => LookupError::StaleGeneration,
    }
}

/// Why a slot does not hold the group asked for.
#[cold]
fn absent(slot: Slot<'_>) -> LookupError {
    match Id::<Group>::from_bits(load(slot.state())).generation() {
        Generation::NEVER => LookupError::UnknownGroup,
        _ => LookupError::StaleGeneration,
    }
}
