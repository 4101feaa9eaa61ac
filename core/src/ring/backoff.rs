//! How to wait for the other end of a queue without an operating system.

use crate::atomic::spin_hint;

/// Waits longer after every failure, and says when to stop spinning.
///
/// What decides the speed of a stream is how seldom the two cores touch each other's line; an end that
/// polls at once after a failure tears the line away from the end that is about to fill it. So failures
/// double the pause up to 64 spin hints. After [`Backoff::spent`] the caller should give the core away
/// (yield, sleep, wait for an event), if its system has a way.
///
/// ```
/// use umbra_core::ring::Backoff;
/// let mut backoff = Backoff::new();
/// while !backoff.spent() {
///     backoff.spin();
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    const LONGEST: u32 = 6;
    const SPENT: u32 = 32;
    const FIRST_RETREAT: u32 = 4;
    const LONGEST_RETREAT: u32 = 8;

    /// No failure yet.
    #[must_use]
    pub const fn new() -> Self {
        Backoff { step: 0 }
    }

    /// Pauses after a failed attempt: 1, 2, 4 … 64, 64 … spin hints.
    #[inline]
    pub fn spin(&mut self) {
        self.pause(self.step.min(Self::LONGEST));
    }

    /// Pauses after a lost race for an index: 16, 32 … 256, 256 … spin hints.
    ///
    /// The lines that all ends want are then with the winner, and he does many operations in the time that it
    /// takes to move them; so the longer he is left alone, the more is done in all.
    #[cold]
    pub(super) fn retreat(&mut self) {
        self.pause(self.step.saturating_add(Self::FIRST_RETREAT).min(Self::LONGEST_RETREAT));
    }

    #[inline]
    fn pause(&mut self, log: u32) {
        for _ in 0..1_u32 << log {
            spin_hint();
            // One switch is all that the model checker needs.
            if cfg!(loom) {
                break;
            }
        }
        self.step = self.step.saturating_add(1);
    }

    /// Whether spinning longer is not worth while: some microseconds have passed.
    #[must_use]
    pub const fn spent(&self) -> bool {
        self.step >= Self::SPENT
    }

    /// Forgets the failures; call after a success.
    #[inline]
    pub const fn reset(&mut self) {
        self.step = 0;
    }
}
