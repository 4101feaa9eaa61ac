//! QEMU's board `virt` with a 64-bit Arm processor.
//!
//! It is the nearest to BlueField's Arm cores that runs everywhere. One core, exception level 1, identity mapping with
//! cacheable memory; a PL011 as console; the generic timer as clock.
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), D8 (translation), D12 (generic timer); PL011 (DDI 0183).

use core::arch::{asm, global_asm};

global_asm!(include_str!("virt_aarch64.s"));

/// What the window calls it.
pub(crate) const NAME: [u8; 8] = *b"virt-a64";
/// Where the window begins: 16 MiB into the memory.
pub(crate) const WINDOW: usize = 0x4100_0000;
const UART: *mut u32 = 0x0900_0000 as *mut u32;
const UART_FLAGS: *mut u32 = 0x0900_0018 as *mut u32;
/// Its queue is full.
const FULL: u32 = 1 << 5;

/// Prints one byte.
pub(crate) fn put(byte: u8) {
    // A console that never becomes ready must not stop anything.
    for _ in 0..1_000_000 {
        // SAFETY: the register of this board's console; reading it changes nothing.
        if unsafe { UART_FLAGS.read_volatile() } & FULL == 0 {
            break;
        }
    }
    // SAFETY: as above; writing it prints.
    unsafe { UART.write_volatile(u32::from(byte)) };
}

/// The clock and its frequency.
pub(crate) fn ticks() -> (u64, u64) {
    let (now, frequency): (u64, u64);
    // SAFETY: reads two registers that exist at every exception level.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", "mrs {}, cntfrq_el0", out(reg) now, out(reg) frequency) };
    (now, frequency)
}

/// Sleeps for ever.
pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: waits; changes nothing.
        unsafe { asm!("wfe") };
    }
}
