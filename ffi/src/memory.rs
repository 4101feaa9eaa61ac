//! `umbra_memory_*`: ranges of a memory, for the threads of a process.

use std::ffi::c_int;
use std::mem::offset_of;
use std::time::Duration;

use umbra::cache::{MakeError, Memory, RangeUnmet, Unmet};
use umbra_core::memory::{AllocError, Figures, Granule};
use umbra_core::room::{RangeError, WaitError};

use crate::cache::WAITERS;
use crate::cached::{FULL, INTERRUPTED, TIMEOUT, failures};
use crate::call::{enter, sized, store, store_sized, takes};
use crate::object::{HANDLES, Object, with_memory};
use crate::status::{Code, Failure};

/// `struct umbra_memory_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    capacity: u64,
    granule: u64,
    ranges: u32,
    waiters: u32,
}

/// What a memory is to be made of.
pub(crate) struct Plan {
    pub(crate) capacity: u64,
    pub(crate) granule: Granule,
    pub(crate) ranges: u32,
    pub(crate) waiters: usize,
}

impl Options {
    /// What the caller wants.
    ///
    /// # Safety
    /// `from` points to a structure that begins with its size.
    pub(crate) unsafe fn plan(from: *const Options) -> Result<Plan, Failure> {
        // SAFETY: the caller's promise; zeros are valid options.
        let Options { capacity, granule, ranges, waiters, .. } = unsafe { sized(from, size_of::<Options>()) }?;
        let none = || Failure::new(Code::Invalid, format!("a granule of {granule} bytes: take a power of two"));
        Ok(Plan {
            capacity,
            granule: if granule == 0 { Granule::LINE } else { Granule::new(granule).ok_or_else(none)? },
            ranges,
            waiters: if waiters == 0 { WAITERS } else { waiters as usize },
        })
    }
}

/// `struct umbra_memory_figures`.
#[repr(C)]
pub struct Told {
    size: usize,
    capacity: u64,
    free: u64,
    largest: u64,
    used_ranges: u32,
    free_ranges: u32,
    waiting: u32,
}

impl Told {
    /// Bytes of the figures that know nothing of those who wait.
    const LEAST: usize = offset_of!(Told, waiting);

    fn new(figures: Figures, waiting: u32) -> Told {
        let Figures { capacity, free, largest, used_ranges, free_ranges, .. } = figures;
        Told { size: size_of::<Told>(), capacity, free, largest, used_ranges, free_ranges, waiting }
    }
}

/// Makes a memory.
///
/// # Safety
/// `options` points to a structure that begins with its size; `created` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_memory_create(options: *const Options, created: *mut u64) -> c_int {
    enter(|| {
        takes(created)?;
        // SAFETY: the caller's promise about `options`.
        let Plan { capacity, granule, ranges, waiters } = unsafe { Options::plan(options) }?;
        let memory = Memory::with_waiters(capacity, granule, ranges, waiters)?;
        let handle = HANDLES.keep(Object::Memory(Box::new(memory)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

/// Interrupts the memory and releases its handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_memory_destroy(memory: u64) -> c_int {
    enter(|| {
        with_memory(memory, |memory| {
            memory.interrupt();
            Ok(())
        })?;
        HANDLES.release(memory).map(drop)
    })
}

/// Takes a range, waiting in line for room for so long; with 0 it does not wait.
///
/// # Safety
/// `offset` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_memory_alloc(
    memory: u64,
    len: u64,
    align: u64,
    timeout_ms: u64,
    offset: *mut u64,
) -> c_int {
    enter(|| {
        with_memory(memory, |memory| {
            // A range is taken once: first of all there must be a place for what it says.
            takes(offset)?;
            let align = align.max(1);
            let range = match timeout_ms {
                0 => memory.try_alloc(len, align)?,
                _ => memory.alloc(len, align, Duration::from_millis(timeout_ms))?,
            };
            // SAFETY: the caller's promise about the output.
            unsafe { store(offset, range.into_offset()) }
        })
    })
}

/// Gives the range back that starts there.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_memory_free(memory: u64, offset: u64) -> c_int {
    enter(|| with_memory(memory, |memory| Ok(memory.free_range(offset).map(drop)?)))
}

/// Ends every wait, and makes every later call fail.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_memory_interrupt(memory: u64) -> c_int {
    enter(|| {
        with_memory(memory, |memory| {
            memory.interrupt();
            Ok(())
        })
    })
}

/// Tells how full the memory is, and how scattered.
///
/// # Safety
/// `figures` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_memory_figures(memory: u64, figures: *mut Told) -> c_int {
    enter(|| {
        let told =
            with_memory(memory, |memory| Ok(Told::new(memory.look(|ranges| ranges.figures()), memory.waiting())))?;
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(figures, &told, Told::LEAST) }
    })
}

fn code(error: &RangeError) -> Code {
    match error {
        RangeError::Interrupted => INTERRUPTED,
        RangeError::Refused(AllocError::TooLarge { .. }) => Code::Never,
        RangeError::Refused(AllocError::ZeroSize | AllocError::BadAlign { .. }) => Code::Invalid,
        RangeError::NotAllocated(_) => Code::Unused,
        _ => FULL,
    }
}

failures! {
    RangeError {
        error => code(error),
    }
    RangeUnmet {
        Unmet::Interrupted => INTERRUPTED,
        Unmet::Expired { .. } => TIMEOUT,
        Unmet::Refused(WaitError::TooManyWaiters { .. }) => FULL,
        Unmet::Refused(WaitError::Refused(error)) => code(error),
    }
    MakeError {
        MakeError::NoMemory { .. } => Code::System,
    }
}
