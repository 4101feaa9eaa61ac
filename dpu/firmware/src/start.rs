//! What Rust can't say safely: entry, faults, the window's memory, the stack.

use core::fmt::Write as _;
use core::panic::PanicInfo;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use umbra_core::cell::BytesMut;
use umbra_core::window::BYTES;

use crate::board::{self, Console};

/// What the start code writes over the stack.
const PAINT: u64 = 0x7061_696e_7465_6421;

// SAFETY: the names are those of the linker script; only their addresses mean something.
unsafe extern "C" {
    static __stack_guard: u8;
    static __stack_bottom: u8;
    static __stack_top: u8;
}

/// Called by the board's start code once there is a stack.
#[unsafe(no_mangle)]
extern "C" fn firmware_main() -> ! {
    crate::run()
}

/// Called by the board's vectors.
#[unsafe(no_mangle)]
extern "C" fn firmware_fault(cause: u64, at: u64, address: u64) -> ! {
    let (guard, bottom, top) = (&raw const __stack_guard, &raw const __stack_bottom, &raw const __stack_top);
    // A fault while this is told must not tell itself for ever; the console takes no memory.
    if (guard as u64..bottom as u64).contains(&address) {
        let size = top as usize - bottom as usize;
        let _ = writeln!(Console, "umbra-firmware: a stack of {size} bytes is too small for what is at {at:#x}");
    } else {
        let _ = writeln!(Console, "umbra-firmware: fault {cause:#x} at {at:#x}, address {address:#x}");
    }
    crate::give_up()
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "umbra-firmware: {info}");
    crate::give_up()
}

/// The memory that host processes map as well.
pub(crate) fn window() -> Option<BytesMut<'static>> {
    let base = NonNull::new(with_exposed_provenance_mut(board::WINDOW))?;
    // SAFETY: the board has memory there, and the linker script asserts that the image lies below it; everything here
    // reaches it through such cells alone.
    Some(unsafe { BytesMut::from_raw(base, BYTES) })
}

/// Bytes of the stack, and how many of them were ever used.
pub(crate) fn stack() -> (u64, u64) {
    let (bottom, top) = (&raw const __stack_bottom, &raw const __stack_top);
    let size = top as usize - bottom as usize;
    let mut untouched = 0;
    while untouched < size {
        // SAFETY: between the two ends of the stack, at a multiple of eight; nothing else runs meanwhile.
        let word = unsafe { bottom.add(untouched).cast::<u64>().read_volatile() };
        if word != PAINT {
            break;
        }
        untouched += 8;
    }
    (size as u64, (size - untouched) as u64)
}
