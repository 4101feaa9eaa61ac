//! What firmware says of itself: only it writes here.

use super::APART;
use crate::atomic::{AtomicU64, Ordering};
use crate::peer::Incarnation;
use crate::time::Time;

pub(super) const STATE_BYTES: usize = 4 * APART;

/// What the firmware is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u64)]
#[non_exhaustive]
pub enum Phase {
    /// It tests itself.
    Testing = 1,
    /// It answers commands.
    Serving = 2,
    /// It gave up: its console says why.
    Failed = 3,
}

const BOARD: usize = 0;
const LIFE: usize = 1;
const PHASE: usize = 2;
const STACK: usize = 3;
const STACK_USED: usize = 4;
const BEATS: usize = 16;
const BEAT_AT: usize = 17;
const SERVED: usize = 32;
const REFUSED: usize = 33;
const STATE_WORDS: usize = STATE_BYTES / 8;

/// The words.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    words: &'a [AtomicU64; STATE_WORDS],
}

/// One look at the heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beat {
    /// How many there were.
    pub count: u64,
    /// When the last one was, on the firmware's clock, which begins near zero when it starts.
    pub at: Time,
}

impl<'a> State<'a> {
    pub(super) fn of(words: &'a [AtomicU64]) -> Option<Self> {
        words.first_chunk().map(|words| State { words })
    }

    pub(super) fn begin(&self, board: [u8; 8], life: Incarnation) {
        self.word(BOARD).store(u64::from_le_bytes(board), Ordering::Relaxed);
        // ORDERING: the life is what an attached host process looks at first.
        self.word(LIFE).store(life.0, Ordering::Release);
    }

    fn word(&self, at: usize) -> &'a AtomicU64 {
        &self.words[at]
    }

    /// The name of the board, filled with zeros.
    #[must_use]
    pub fn board(&self) -> [u8; 8] {
        self.word(BOARD).load(Ordering::Relaxed).to_le_bytes()
    }

    /// Which life of the firmware this is.
    #[must_use]
    pub fn life(&self) -> Incarnation {
        Incarnation(self.word(LIFE).load(Ordering::Acquire))
    }

    /// What it is doing; `None` for a number that no version defines.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        let phase = self.word(PHASE).load(Ordering::Acquire);
        [Phase::Testing, Phase::Serving, Phase::Failed].into_iter().find(|&known| known as u64 == phase)
    }

    /// The firmware enters a phase.
    pub fn enter(&self, phase: Phase) {
        // ORDERING: what it did before is visible to whoever sees the phase.
        self.word(PHASE).store(phase as u64, Ordering::Release);
    }

    /// The last heartbeat.
    #[must_use]
    pub fn beat(&self) -> Beat {
        let count = self.word(BEATS).load(Ordering::Acquire);
        Beat { count, at: Time(self.word(BEAT_AT).load(Ordering::Relaxed)) }
    }

    /// The firmware is alive now.
    pub fn set_beat(&self, beat: Beat) {
        self.word(BEAT_AT).store(beat.at.0, Ordering::Relaxed);
        self.word(BEATS).store(beat.count, Ordering::Release);
    }

    /// Bytes of its stack, and how many of them were ever used.
    #[must_use]
    pub fn stack(&self) -> (u64, u64) {
        (self.word(STACK).load(Ordering::Relaxed), self.word(STACK_USED).load(Ordering::Relaxed))
    }

    /// The firmware measured its stack.
    pub fn set_stack(&self, size: u64, used: u64) {
        self.word(STACK).store(size, Ordering::Relaxed);
        self.word(STACK_USED).store(used, Ordering::Relaxed);
    }

    /// Transfers that ended well, and requests that were refused.
    #[must_use]
    pub fn counters(&self) -> (u64, u64) {
        (self.word(SERVED).load(Ordering::Relaxed), self.word(REFUSED).load(Ordering::Relaxed))
    }

    /// The firmware counted.
    pub fn set_counters(&self, served: u64, refused: u64) {
        self.word(SERVED).store(served, Ordering::Relaxed);
        self.word(REFUSED).store(refused, Ordering::Relaxed);
    }
}
