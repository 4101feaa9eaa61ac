//! `umbra_cache_pin*`: references as values, and how many hold what.

use std::ffi::c_int;
use std::time::Duration;

use umbra_core::cache::Pin;

use crate::cached::{number_of, number_of_state};
use crate::call::{enter, store, takes};
use crate::object::with_cache;
use crate::status::Code;

/// `struct umbra_pin`.
#[repr(C)]
pub struct Pinned {
    data: u64,
    mark: u64,
    slot: u32,
    found: u32,
}

/// Takes a reference as `umbra_cache_alloc` does, as a value that is given back once.
///
/// # Safety
/// `pin` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_pin(cache: u64, data: u64, timeout_ms: u64, pin: *mut Pinned) -> c_int {
    enter(|| {
        takes(pin)?;
        let (taken, grant) = with_cache(cache, |cache| cache.take(data, Duration::from_millis(timeout_ms)))?;
        let (mark, slot, found) = (taken.map_or(0, Pin::into_mark), grant.slot, number_of(grant.found));
        // SAFETY: the caller's promise about the output.
        unsafe { store(pin, Pinned { data, mark, slot, found }) }
    })
}

/// Gives back the reference of a pin, whose mark is 0 then.
///
/// # Safety
/// `pin` points to a pin that nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_free_pin(cache: u64, pin: *mut Pinned) -> c_int {
    enter(|| {
        takes(pin)?;
        with_cache(cache, |cache| {
            // SAFETY: not null and aligned; that it is a pin, and nobody else's now, is the caller's promise.
            let pin = unsafe { &mut *pin };
            cache.free_pin(Pin::marked(pin.data, pin.slot, pin.mark).ok_or(Code::NoSlot)?)?;
            pin.mark = 0;
            Ok(())
        })
    })
}

/// What the slot of data is doing.
///
/// # Safety
/// `state` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_state(cache: u64, data: u64, state: *mut u32) -> c_int {
    enter(|| {
        let told = with_cache(cache, |cache| cache.state(data))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(state, number_of_state(told)) }
    })
}

/// References to data.
///
/// # Safety
/// `references` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_references(cache: u64, data: u64, references: *mut u32) -> c_int {
    enter(|| {
        let counted = with_cache(cache, |cache| cache.references(data))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(references, counted) }
    })
}
