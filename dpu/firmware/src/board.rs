//! The board that the image is for: start, console, clock.

#[cfg(target_arch = "aarch64")]
#[path = "board/virt_aarch64.rs"]
mod this;
#[cfg(target_arch = "riscv64")]
#[path = "board/virt_riscv64.rs"]
mod this;

use core::fmt;

use umbra_core::time::Time;

pub(crate) use this::{NAME, WINDOW, halt, ticks};

/// The time since the board's clock began.
pub(crate) fn now() -> Time {
    let (ticks, frequency) = ticks();
    let frequency = frequency.max(1);
    // In two parts, so that nothing overflows for centuries.
    Time((ticks / frequency) * 1_000_000_000 + (ticks % frequency) * 1_000_000_000 / frequency)
}

/// The board's console: for what must be told even if there is no window.
pub(crate) struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(this::put);
        Ok(())
    }
}
