//! One who waits for a slot, in a word.

use crate::atomic::{AtomicU64, Ordering};
use crate::shared_slots::Owner;

use super::RECORDS;

/// A record as it was read: a ticket (32 bits); in the half that is slept on how often its users answered (16), a hash of the
/// data that is waited for (8), the owner and one (6), and what he does (2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shared_cache) struct Record(pub(super) u64);

pub(super) const GONE: u64 = 0;
pub(super) const WAITS: u64 = 1;
pub(super) const CALLED: u64 = 2;
const DOES: u64 = 3;
const OWNER: u32 = 2;
const OWNER_MASK: u64 = 0x3f << OWNER;
const DATA: u32 = 8;
const DATA_MASK: u64 = 0xff << DATA;
const ANSWER: u64 = 1 << 16;
const LOWER: u64 = u32::MAX as u64;

impl Record {
    pub(super) fn of(word: &AtomicU64) -> Record {
        Record(word.load(Ordering::Acquire))
    }
    /// Of one who has gone, a round before this ticket.
    pub(super) const fn before(ticket: u32) -> Record {
        Record((ticket.wrapping_sub(RECORDS as u32) as u64) << 32 | GONE)
    }
    pub(in crate::shared_cache) const fn ticket(self) -> u32 {
        (self.0 >> 32) as u32
    }
    pub(super) const fn does(self) -> u64 {
        self.0 & DOES
    }
    pub(in crate::shared_cache) const fn is_called(self) -> bool {
        self.does() == CALLED
    }
    pub(super) const fn is_in_line(self) -> bool {
        matches!(self.does(), WAITS | CALLED)
    }
    pub(in crate::shared_cache) const fn owner(self) -> u8 {
        (((self.0 & OWNER_MASK) >> OWNER) as u8).wrapping_sub(1)
    }
    /// Whether it may be this data that he waits for.
    pub(super) const fn may_want(self, data: u64) -> bool {
        self.0 & DATA_MASK == hash(data)
    }
    pub(super) const fn doing(self, what: u64) -> Record {
        Record(self.0 & !DOES | what)
    }
    pub(super) const fn answered(self) -> Record {
        let answers = self.0.wrapping_add(ANSWER) & LOWER;
        Record(self.0 & !LOWER | answers).doing(WAITS)
    }
    /// The next who waits in it; his answers go on where those of the last one ended, so no two users look the same.
    pub(super) const fn taken(self, ticket: u32, owner: Owner, data: u64) -> Record {
        let lower = self.answered().0 & LOWER & !OWNER_MASK & !DATA_MASK;
        Record((ticket as u64) << 32 | lower | hash(data) | (owner.number() as u64 + 1) << OWNER)
    }
    pub(super) fn replace(self, word: &AtomicU64, next: Record) -> bool {
        // ORDERING: who is called sees what was done before; fences do the rest.
        word.compare_exchange(self.0, next.0, Ordering::SeqCst, Ordering::Acquire).is_ok()
    }
}

/// What a record has of data, in its place there: two that look alike cost a wake in vain.
const fn hash(data: u64) -> u64 {
    // Source: Knuth's multiplicative method; the highest bits depend on all others.
    data.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 << DATA
}
