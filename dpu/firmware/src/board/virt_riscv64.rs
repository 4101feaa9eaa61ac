//! QEMU's board `virt` with a 64-bit RISC-V processor.
//!
//! It has the instruction set of BlueField-3's data-path accelerator. One hart in machine mode, physical addresses; a
//! 16550 as console; the machine timer as clock. No log: symbols of `defmt` lie near zero, and code at 2 GiB cannot
//! reach them.
//!
//! Source: RISC-V Privileged Architecture 1.12; hw/riscv/virt.c for the addresses.

use core::arch::{asm, global_asm};

global_asm!(include_str!("virt_riscv64.s"));

/// What the window calls it.
pub(crate) const NAME: [u8; 8] = *b"virt-r64";
/// Where the window begins: 16 MiB into the memory.
pub(crate) const WINDOW: usize = 0x8100_0000;
/// The timer counts ten times a microsecond, as the board's device tree says.
const FREQUENCY: u64 = 10_000_000;
const UART: *mut u8 = 0x1000_0000 as *mut u8;
const UART_STATUS: *mut u8 = 0x1000_0005 as *mut u8;
/// It takes a byte.
const EMPTY: u8 = 1 << 5;

/// Prints one byte.
pub(crate) fn put(byte: u8) {
    // A console that never becomes ready must not stop anything.
    for _ in 0..1_000_000 {
        // SAFETY: the register of this board's console; reading it forgets errors that nobody asks for.
        if unsafe { UART_STATUS.read_volatile() } & EMPTY != 0 {
            break;
        }
    }
    // SAFETY: as above; writing it prints.
    unsafe { UART.write_volatile(byte) };
}

/// The clock and its frequency.
pub(crate) fn ticks() -> (u64, u64) {
    let now: u64;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) now) };
    (now, FREQUENCY)
}

/// Sleeps for ever.
pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: waits; no interrupt is enabled.
        unsafe { asm!("wfi") };
    }
}
