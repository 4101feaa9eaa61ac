//! One lane: the memory between firmware and one host process.

use super::{APART, LANDING, LINES, SHARE, WindowError};
use crate::atomic::{AtomicU64, Ordering};
use crate::cell::BytesMut;
use crate::peer::{Incarnation, Peer};
use crate::ring::line;

const CLAIM_BYTES: usize = 2 * APART;
const RING_BYTES: usize = match line::words_for(LINES) {
    Some(words) => (words * 8).next_multiple_of(APART),
    None => 0,
};
const ANSWERS_AT: usize = CLAIM_BYTES + RING_BYTES;
const LANDING_AT: usize = (ANSWERS_AT + RING_BYTES).next_multiple_of(4096);
const SHARE_AT: usize = LANDING_AT + LANDING;
pub(super) const LANE_BYTES: usize = SHARE_AT + SHARE;

const CLAIM: usize = 0;
const READY: usize = 1;
const PEER: usize = 2;
const OWNER_LIFE: usize = 3;
const ACCEPTED: usize = APART / 8;

/// The memory.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    claim: &'a [AtomicU64],
    /// Ring, host to firmware.
    pub commands: &'a [AtomicU64],
    /// Ring, firmware to host.
    pub answers: &'a [AtomicU64],
    /// Where bytes arrive that were read, and leave that shall be written.
    pub landing: BytesMut<'a>,
    /// Memory of the host process.
    pub share: BytesMut<'a>,
}

/// A host process that wants a lane, as the firmware sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Tells it from all others; never zero.
    pub mark: u64,
    /// Who it says it is; `None` for a number that names nobody.
    pub peer: Option<Peer>,
    /// Which life of it.
    pub life: Incarnation,
}

impl<'a> Lane<'a> {
    pub(super) fn of(bytes: BytesMut<'a>) -> Result<Self, WindowError> {
        Ok(Lane {
            claim: bytes.words(0, CLAIM_BYTES / 8)?,
            commands: bytes.words(CLAIM_BYTES, RING_BYTES / 8)?,
            answers: bytes.words(ANSWERS_AT, RING_BYTES / 8)?,
            landing: bytes.part(LANDING_AT, LANDING)?,
            share: bytes.part(SHARE_AT, SHARE)?,
        })
    }

    pub(super) fn clear(&self) {
        self.claim.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn word(&self, at: usize) -> u64 {
        self.claim.get(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.claim.get(at) {
            // ORDERING: whoever sees the word sees those that were set before it; pairs with `word`.
            word.store(value, Ordering::Release);
        }
    }

    /// Host process: the mark of whoever has claimed the lane, or zero.
    #[must_use]
    pub fn owner(&self) -> u64 {
        self.word(CLAIM)
    }

    /// Host process: claims the lane in place of `former`, which is zero or the mark of a process that is dead.
    #[must_use]
    pub fn take(&self, former: u64, claim: &Claim) -> bool {
        let exchange =
            |word: &AtomicU64| word.compare_exchange(former, claim.mark, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !self.claim.get(CLAIM).is_some_and(exchange) {
            return false;
        }
        self.set(PEER, claim.peer.map_or(u64::MAX, |peer| u64::from(peer.to_bits())));
        self.set(OWNER_LIFE, claim.life.0);
        self.set(READY, claim.mark);
        true
    }

    /// Host process: gives the lane back; the firmware forgets its owner.
    pub fn give_back(&self) {
        self.set(READY, 0);
        self.set(CLAIM, 0);
    }

    /// Host process: the mark of the owner that the firmware serves now, or zero.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.word(ACCEPTED)
    }

    /// Firmware: lays out both rings, so that nothing is left of what a former owner did to them. Nobody may use them
    /// meanwhile.
    ///
    /// # Errors
    /// [`WindowError::Ring`] if the memory is too small.
    pub fn lay_rings(&self) -> Result<(), WindowError> {
        line::Ring::create(self.commands, LINES)?;
        line::Ring::create(self.answers, LINES)?;
        Ok(())
    }

    /// Firmware: who wants the lane now, if somebody does.
    #[must_use]
    pub fn wanted(&self) -> Option<Claim> {
        let mark = self.word(READY);
        let peer = u32::try_from(self.word(PEER)).ok().and_then(Peer::from_bits);
        (mark != 0).then(|| Claim { mark, peer, life: Incarnation(self.word(OWNER_LIFE)) })
    }

    /// Firmware: the mark of who wants the lane, or zero: what a loop looks at.
    #[must_use]
    pub fn wanted_mark(&self) -> u64 {
        self.word(READY)
    }

    /// Firmware: serves this owner from now on; zero for nobody.
    pub fn accept(&self, mark: u64) {
        self.set(ACCEPTED, mark);
    }
}
