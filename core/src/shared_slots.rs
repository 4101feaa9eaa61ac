//! A bounded table of slots in a segment that processes take, share and give back.
//!
//! The word of a slot holds everything that matters: its generation and *who* holds it, one bit an owner.
//! The very compare-and-swap that takes a slot records the owner, and the one that lets go forgets it. So
//! however a process ends, at whatever instruction, every slot it held is still marked as its own, and
//! [`SharedSlots::reclaim`] gives back exactly those. A counter could not tell whose count it was.
//!
//! To find a free slot without a search there is a bitmap of hints beside the words. Hints decide nothing:
//! one that is set wrongly is cleared by whoever stumbles over it; one that is missing (a process died
//! between freeing a slot and saying so) is restored by `reclaim`. That is why this is no linked free list:
//! a slot unlinked by a process that dies before it marks the slot as its own would be lost, and no one
//! could repair the list beside running processes.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::shared_slots::{Owner, SharedSlots, words_for};
//! let mut memory = vec![0_u64; words_for(8).ok_or("too many")?];
//! let words = BytesMut::from_words(&mut memory).words(0, words_for(8).unwrap_or(0))?;
//! let slots = SharedSlots::create(words, 8)?;
//! let (a, b) = (Owner::new(0).ok_or("0")?, Owner::new(1).ok_or("1")?);
//!
//! let id = slots.take(a)?;
//! assert_eq!(slots.retain(id, b), Ok(true));
//! assert_eq!(slots.release(id, b), Ok(false), "a still holds it");
//! assert_eq!(slots.reclaim(a), 1, "a died: its only slot is free again");
//! assert!(slots.release(id, a).is_err(), "the id is stale");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction: no slot ever has two
//! takers; nobody waits for anybody; a slot held by a dead owner stays held until `reclaim(owner)`, and
//! after it every slot that nobody else holds can be taken again. Not guaranteed: that `take` finds a slot
//! while others take and free all the time. An owner's number may be given to another process only after
//! `reclaim`, and `reclaim` may be called only when that owner will not run again.
//!
//! ABA: a slot's word changes its generation whenever the slot becomes free, so a compare-and-swap by
//! someone who slept succeeds wrongly only if he slept through exactly 2^32 uses of one slot.
//!
//! Layout, in words: magic, number of slots, 14 places; one bit a slot of hints, filled up to 16 words; one
//! word a slot: generation (32 bits), a mark (1 bit, for structures built on this), holders (31 bits). A place
//! is one more than the word of hints in which some owners found a slot last, or zero; it decides nothing either.
//!
//! *Cost*: `take` and `release` are two read-modify-writes each; `take` looks at one word of hints for 64
//! slots, and begins where its owner found the last one (next fit): in a table with a free slot in every 64
//! it looks at one or two words, however large the table. `reclaim` is one pass.

use core::fmt;

use crate::atomic::{AtomicU64, Ordering};
use crate::error::{Full, Stale};
use crate::id::{Generation, Id};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrslt1");
const HEADER: usize = 16;
/// The first word of places.
const PLACES: usize = 2;
/// Set while a mailbox slot waits for its receiver.
pub(crate) const MARKED: u64 = 1 << 31;
const HOLDERS: u64 = MARKED - 1;
/// Compare-and-swaps that may fail before an operation gives up: others are never that fast, but memory may
/// be damaged on purpose.
const ATTEMPTS: u32 = 1 << 16;
/// Passes over the hints in which others may be faster before a take answers "full".
const PASSES: u32 = 8;

/// Why memory is no usable table of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The magic word is missing: another structure, or not created yet.
    NotSlots,
    /// The number of slots that the header states does not fit into the memory.
    BadCount(u64),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NotSlots => f.write_str("memory holds no table of slots, or one that is not created yet"),
            AttachError::BadCount(n) => write!(f, "table states {n} slots, which do not fit the memory"),
        }
    }
}
impl core::error::Error for AttachError {}

/// What an [`Id`] of a shared slot names.
#[derive(Debug)]
pub enum Held {}

/// Who holds slots: a number that the processes of one segment agree on, `0..Owner::COUNT`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Owner(u8);

impl Owner {
    /// How many owners a segment can have.
    pub const COUNT: u8 = 30;
    /// Holder of messages whose sender died; no process has this number.
    pub(crate) const ORPHANAGE: Owner = Owner(Self::COUNT);

    /// The owner with this number, if there can be one.
    #[must_use]
    pub const fn new(number: u8) -> Option<Owner> {
        if number < Self::COUNT { Some(Owner(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.0)
    }
}

/// Words of memory that `count` slots need; `None` if that is too many (2^31).
#[must_use]
pub const fn words_for(count: usize) -> Option<usize> {
    if count >= 1 << 31 {
        return None;
    }
    Some(HEADER + hint_words(count) + count)
}

const fn hint_words(count: usize) -> usize {
    count.div_ceil(64).next_multiple_of(16)
}

/// The table; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct SharedSlots<'a> {
    places: &'a [AtomicU64],
    hints: &'a [AtomicU64],
    slots: &'a [AtomicU64],
}

impl<'a> SharedSlots<'a> {
    /// Makes a table of free slots; nobody may use the memory as one meanwhile.
    ///
    /// # Errors
    /// [`AttachError::BadCount`] if it does not fit.
    pub fn create(words: &'a [AtomicU64], count: usize) -> Result<Self, AttachError> {
        let bad = AttachError::BadCount(count as u64);
        let words = words.get(..words_for(count).ok_or(bad)?).ok_or(bad)?;
        let (header, rest) = words.split_at(HEADER);
        let (hints, slots) = rest.split_at(hint_words(count));
        for (index, hint) in hints.iter().enumerate() {
            let here = count.saturating_sub(index * 64).min(64) as u32;
            hint.store(u64::MAX.checked_shr(64 - here).unwrap_or(0), Ordering::Relaxed);
        }
        for slot in slots {
            slot.store(free_word(Generation::FIRST), Ordering::Relaxed);
        }
        for place in &header[PLACES..] {
            place.store(0, Ordering::Relaxed);
        }
        header[1].store(count as u64, Ordering::Relaxed);
        // ORDERING: pairs with the load in `attach`.
        header[0].store(MAGIC, Ordering::Release);
        Ok(SharedSlots { places: &header[PLACES..], hints, slots })
    }

    /// Looks at a table that another process created; `words` may be longer than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < HEADER || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotSlots);
        }
        let stated = words[1].load(Ordering::Relaxed);
        let bad = AttachError::BadCount(stated);
        let count = usize::try_from(stated).map_err(|_| bad)?;
        let words = words.get(..words_for(count).ok_or(bad)?).ok_or(bad)?;
        let (header, rest) = words.split_at(HEADER);
        let (hints, slots) = rest.split_at(hint_words(count));
        Ok(SharedSlots { places: &header[PLACES..], hints, slots })
    }

    /// Slots in the table.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Takes a free slot for `owner`, who is then its only holder.
    ///
    /// # Errors
    /// [`Full`]; a release makes a retry worth while.
    pub fn take(&self, owner: Owner) -> Result<Id<Held>, Full<()>> {
        self.take_as(owner, 0)
    }

    pub(crate) fn take_as(&self, owner: Owner, mark: u64) -> Result<Id<Held>, Full<()>> {
        let words = self.capacity().div_ceil(64);
        let place = &self.places[usize::from(owner.0) % self.places.len()];
        let start = match usize::try_from(place.load(Ordering::Relaxed)) {
            Ok(last @ 1..) if last <= words => last - 1,
            // Owners begin at different hints, so that they seldom meet.
            _ => usize::from(owner.0) * words / usize::from(Owner::COUNT + 1),
        };
        // Full is what a whole pass without any hint says; a pass that lost a race says nothing.
        for _ in 0..PASSES {
            let mut hinted = false;
            for at in (start..words).chain(0..start) {
                let mut bits = self.hints[at].load(Ordering::Relaxed);
                while bits != 0 {
                    let index = at * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let Some(slot) = self.slots.get(index) else { break };
                    hinted = true;
                    let word = slot.load(Ordering::Relaxed);
                    if is_free(word) {
                        let taken = word | owner.bit() | mark;
                        // ORDERING: acquire pairs with the release of whoever freed the slot: he is done with it.
                        if slot.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                            self.hint(index).fetch_and(!hint_bit(index), Ordering::Relaxed);
                            // Seldom: the lines of places are shared by all owners.
                            if at != start {
                                place.store(at as u64 + 1, Ordering::Relaxed);
                            }
                            return Ok(id_of(index, word));
                        }
                    } else {
                        self.clear_wrong_hint(index);
                    }
                }
            }
            if !hinted {
                break;
            }
        }
        Err(Full(()))
    }

    /// Adds `owner` to the holders; `false` if he was one already. One hold an owner: who hands out several
    /// within his process counts them himself.
    ///
    /// # Errors
    /// [`Stale`] if nobody holds it in this generation any more.
    pub fn retain(&self, id: Id<Held>, owner: Owner) -> Result<bool, Stale> {
        let old = self.change(id, |word| Ok(word | owner.bit()))?;
        Ok(old & owner.bit() == 0)
    }

    /// Replaces `from` by `to` among the holders, in one step.
    ///
    /// # Errors
    /// [`Stale`] if `from` does not hold it.
    pub fn transfer(&self, id: Id<Held>, from: Owner, to: Owner) -> Result<(), Stale> {
        self.change(id, |word| if word & from.bit() == 0 { Err(Stale) } else { Ok(word & !from.bit() | to.bit()) })?;
        Ok(())
    }

    /// Removes `owner` from the holders; `true` if he was the last, so that the slot is free.
    ///
    /// # Errors
    /// [`Stale`] if he does not hold it.
    pub fn release(&self, id: Id<Held>, owner: Owner) -> Result<bool, Stale> {
        let old =
            self.change(id, |word| if word & owner.bit() == 0 { Err(Stale) } else { Ok(without(word, owner)) })?;
        let freed = is_free(without(old, owner));
        if freed {
            self.set_hint(id.index() as usize);
        }
        Ok(freed)
    }

    /// Whether `owner` holds the slot in this generation.
    #[must_use]
    pub fn holds(&self, id: Id<Held>, owner: Owner) -> bool {
        self.word(id.index() as usize).is_some_and(|word| is_of(word, id) && word & owner.bit() != 0)
    }

    /// How many slots this owner holds right now; O(capacity).
    #[must_use]
    pub fn held_by(&self, owner: Owner) -> usize {
        self.slots.iter().filter(|slot| slot.load(Ordering::Relaxed) & owner.bit() != 0).count()
    }

    /// How many slots nobody holds right now; O(capacity).
    #[must_use]
    pub fn free(&self) -> usize {
        self.slots.iter().filter(|slot| is_free(slot.load(Ordering::Relaxed))).count()
    }

    /// Removes an owner that will not run again from the holders of every slot, restores lost hints, and
    /// returns how many slots became free. May run beside all other operations, and beside itself; if it is
    /// cut off, run it again.
    pub fn reclaim(&self, owner: Owner) -> usize {
        let mut freed = 0;
        for index in 0..self.slots.len() {
            if self.word(index).is_some_and(|word| word & owner.bit() != 0) {
                let last =
                    self.change_any(
                        index,
                        |word| {
                            if word & owner.bit() == 0 { Err(Stale) } else { Ok(without(word, owner)) }
                        },
                    );
                freed += usize::from(last.is_ok_and(|old| is_free(without(old, owner))));
            }
            // Also of slots that a dead process freed without saying so.
            if self.word(index).is_some_and(is_free) {
                self.set_hint(index);
            }
        }
        freed
    }

    /// The word of a slot. Acquire, because a mailbox compares what it loads before and after.
    pub(crate) fn word(&self, index: usize) -> Option<u64> {
        self.slots.get(index).map(|slot| slot.load(Ordering::Acquire))
    }

    /// Replaces exactly this word.
    pub(crate) fn swap(&self, index: usize, old: u64, new: u64) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|s| s.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    fn change(&self, id: Id<Held>, new: impl Fn(u64) -> Result<u64, Stale>) -> Result<u64, Stale> {
        self.change_any(id.index() as usize, |word| if is_of(word, id) { new(word) } else { Err(Stale) })
    }

    fn change_any(&self, index: usize, new: impl Fn(u64) -> Result<u64, Stale>) -> Result<u64, Stale> {
        let slot = self.slots.get(index).ok_or(Stale)?;
        let mut word = slot.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS {
            // ORDERING: release, so that what this owner did with the slot is over before the next taker
            // begins; acquire, so that the last to leave has seen what the others did.
            match slot.compare_exchange_weak(word, new(word)?, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(old) => return Ok(old),
                Err(now) => word = now,
            }
        }
        Err(Stale)
    }

    fn hint(&self, index: usize) -> &AtomicU64 {
        // Indices are below the capacity here, and there are hints for every slot.
        &self.hints[index / 64]
    }

    fn set_hint(&self, index: usize) {
        // ORDERING: release, so that whoever clears this hint as wrong sees the slot free (next function).
        self.hint(index).fetch_or(hint_bit(index), Ordering::Release);
    }

    fn clear_wrong_hint(&self, index: usize) {
        // ORDERING: acquire pairs with `set_hint`. If the hint that we clear was set after the slot became
        // free, we see that here and set it again; if it is set later, it stays.
        self.hint(index).fetch_and(!hint_bit(index), Ordering::Acquire);
        if self.word(index).is_some_and(is_free) {
            self.set_hint(index);
        }
    }
}

const fn hint_bit(index: usize) -> u64 {
    1 << (index % 64)
}

pub(crate) const fn is_free(word: u64) -> bool {
    word & HOLDERS == 0
}

const fn free_word(generation: Generation) -> u64 {
    (generation.0 as u64) << 32
}

/// The word after `owner` has left: with the last holder the slot enters its next generation.
const fn without(word: u64, owner: Owner) -> u64 {
    let left = word & !owner.bit();
    if is_free(left) { free_word(generation_of(word).next()) } else { left }
}

const fn generation_of(word: u64) -> Generation {
    Generation((word >> 32) as u32)
}

fn is_of(word: u64, id: Id<Held>) -> bool {
    !is_free(word) && generation_of(word) == id.generation()
}

pub(crate) const fn id_of(index: usize, word: u64) -> Id<Held> {
    Id::new(index as u32, generation_of(word))
}
