//! The word of a place: who has which end of the conversation, and how far it is.
//!
//! Sender, receiver and keeper (10 bits each, the number of a member plus one), flags (8 bits) and a generation (26
//! bits) that moves on when the place is free again. Who slept through 2^26 conversations of one place may take the new
//! one for the old.

use crate::atomic::{AtomicU64, Ordering};

const NUMBER: u64 = 0x3ff;
const SENDER: u32 = 0;
const RECEIVER: u32 = 10;
const KEEPER: u32 = 20;
const GENERATION: u32 = 38;

/// Begun by its sender; any receiver may meet him.
pub(super) const WAITS: u64 = 1 << 30;
/// Begun by its receiver; any sender may accept.
pub(super) const OFFERED: u64 = 1 << 31;
/// The sender has said everything.
pub(super) const ENDED: u64 = 1 << 32;
/// The sender died, or gave up in the middle.
pub(super) const FORSAKEN: u64 = 1 << 33;
/// The receiver went before the end.
pub(super) const LEFT: u64 = 1 << 34;
/// The receiver died.
pub(super) const BEREFT: u64 = 1 << 35;
/// The receiver need not listen to the end.
pub(super) const BRIEF: u64 = 1 << 36;
const FLAGS: u64 = 0xff << 30;

/// What the word of a place said when it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(u64);

const fn named(by: u16) -> u64 {
    (by as u64 + 1) & NUMBER
}

impl Word {
    pub(super) const FIRST: Word = Word(1 << GENERATION);

    const fn number(self, at: u32) -> Option<u16> {
        ((self.0 >> at & NUMBER) as u16).checked_sub(1)
    }
    const fn with(self, at: u32, number: u64) -> Word {
        Word(self.0 & !(NUMBER << at) | number << at)
    }
    pub(super) const fn sender(self) -> Option<u16> {
        self.number(SENDER)
    }
    pub(super) const fn receiver(self) -> Option<u16> {
        self.number(RECEIVER)
    }
    pub(super) const fn keeper(self) -> Option<u16> {
        self.number(KEEPER)
    }
    pub(super) const fn generation(self) -> u32 {
        (self.0 >> GENERATION) as u32
    }
    pub(super) const fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }
    /// Whether no conversation is in the place.
    pub(super) const fn is_quiet(self) -> bool {
        self.0 & (FLAGS | NUMBER << SENDER | NUMBER << RECEIVER) == 0
    }
    /// Whether anybody may have the place.
    pub(super) const fn is_idle(self) -> bool {
        self.is_quiet() && self.keeper().is_none()
    }
    /// Whether nobody will read any more what is sent.
    pub(super) const fn is_unheard(self) -> bool {
        self.has(LEFT | BEREFT)
    }

    pub(super) const fn sent_by(self, by: u16) -> Word {
        self.with(SENDER, named(by))
    }
    pub(super) const fn received_by(self, by: u16) -> Word {
        self.with(RECEIVER, named(by))
    }
    pub(super) const fn kept_by(self, by: u16) -> Word {
        self.with(KEEPER, named(by))
    }
    pub(super) const fn without_sender(self) -> Word {
        self.with(SENDER, 0)
    }
    pub(super) const fn without_receiver(self) -> Word {
        self.with(RECEIVER, 0)
    }
    pub(super) const fn without_keeper(self) -> Word {
        self.with(KEEPER, 0)
    }
    pub(super) const fn set(self, flags: u64) -> Word {
        Word(self.0 | flags)
    }
    pub(super) const fn unset(self, flags: u64) -> Word {
        Word(self.0 & !flags)
    }
    /// Quiet, in the next generation; the keeper stays.
    pub(super) const fn freed(self) -> Word {
        Word((self.0 >> GENERATION).wrapping_add(1) << GENERATION | self.0 & NUMBER << KEEPER)
    }

    #[inline]
    pub(super) fn load(word: &AtomicU64) -> Word {
        // ORDERING: acquire: who sees that a party is gone sees all that it did.
        Word(word.load(Ordering::Acquire))
    }

    /// Replaces exactly this word.
    #[inline]
    pub(super) fn swap(self, word: &AtomicU64, new: Word) -> bool {
        // ORDERING: release and acquire, because the place changes hands. Sequentially consistent, so that a notification
        // may follow without a fence.
        word.compare_exchange(self.0, new.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Sets a word that nobody else looks at yet.
    pub(super) fn store(self, word: &AtomicU64) {
        word.store(self.0, Ordering::Relaxed);
    }
}
