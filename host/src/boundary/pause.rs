//! Waiting for other ranks, on a processor that they may want as well.

use std::time::Duration;

use umbra_core::atomic::spin_hint;

use crate::sys::clock::now;
use crate::sys::wait::Crowd;

/// Looks in vain until whoever is alone on the processor gives way all the same: some microseconds.
const SPINS: u32 = 200;

/// How often to give way until nobody is to be expected soon.
const YIELDS: u32 = 2_000;

/// How long to sleep between two looks then.
const SLEEP: Duration = Duration::from_micros(100);

/// How whoever waits spends the time between two looks.
#[derive(Debug, Default)]
pub(super) struct Pause {
    crowd: Crowd,
    spins: u32,
    yields: u32,
}

impl Pause {
    /// Something came, or another wait begins.
    pub(super) const fn worked(&mut self) {
        (self.spins, self.yields) = (0, 0);
    }

    /// Nothing came. Where several ranks share a processor, one of those that are waited for has to run.
    pub(super) fn take(&mut self) {
        if self.spins < self.crowd.spins(SPINS) {
            self.spins += 1;
            spin_hint();
        } else if self.yields < YIELDS {
            self.yields += 1;
            let _ = self.crowd.give_way(now());
        } else {
            std::thread::sleep(SLEEP);
        }
    }
}
