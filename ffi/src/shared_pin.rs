//! `umbra_shared_cache_pin*`: references to a shared cache as values, one or many.

use std::cell::Cell;
use std::ffi::c_int;

use umbra_core::shared_cache::Grant;

use crate::cache_batch::{AT_ONCE, Done};
use crate::cached::number_of;
use crate::call::{enter, numbers, store, takes, takes_list};
use crate::object::with_shared_cache;
use crate::pool::patience;

/// `struct umbra_shared_pin`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Pinned {
    data: u64,
    mark: u64,
    slot: u32,
    found: u32,
}

impl Pinned {
    fn new(data: u64, grant: Grant) -> Pinned {
        Pinned { data, mark: grant.mark(), slot: grant.slot, found: number_of(grant.found) }
    }
}

/// Takes a reference as `umbra_shared_cache_alloc` does, as a value that is given back without looking for the data.
///
/// # Safety
/// `pin` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_pin(cache: u64, data: u64, timeout_ms: u64, pin: *mut Pinned) -> c_int {
    enter(|| {
        takes(pin)?;
        let grant = with_shared_cache(cache, |joint| joint.alloc(data, patience(timeout_ms)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(pin, Pinned::new(data, grant)) }
    })
}

/// Gives back the reference of a pin, whose mark is 0 then.
///
/// # Safety
/// `pin` points to a pin that nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_free_pin(cache: u64, pin: *mut Pinned) -> c_int {
    enter(|| {
        takes(pin)?;
        with_shared_cache(cache, |joint| {
            // SAFETY: not null and aligned; that it is a pin, and nobody else's now, is the caller's promise.
            let pin = unsafe { &mut *pin };
            joint.free_marked(pin.data, pin.mark)?;
            pin.mark = 0;
            Ok(())
        })
    })
}

/// Takes pins of all data in order, without waiting for slots, up to the first that is refused.
///
/// # Safety
/// `data` points to `count` ids that do not change during the call; `pins` has room for as many pins, which nobody else
/// uses; `done` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_pin_all(
    cache: u64,
    data: *const u64,
    count: usize,
    timeout_ms: u64,
    pins: *mut Pinned,
    done: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the output. Whatever is refused, nothing is done yet.
        unsafe { store(done, 0) }?;
        // SAFETY: the caller's promise about the ids.
        let data = unsafe { numbers(data, count) }?;
        takes_list(pins, count)?;
        let told = |at, data, grant| {
            // SAFETY: the caller has room for all; what was checked once is not null.
            let _ = unsafe { store(pins.wrapping_add(at), Pinned::new(data, grant)) };
        };
        let ended = with_shared_cache(cache, |joint| Ok(joint.alloc_all(data, patience(timeout_ms), told)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { Done::all(count, ended).tell(done) }
    })
}

/// Gives back the references of pins in order, up to the first that is refused; the marks of those are 0 then.
///
/// # Safety
/// `pins` points to `count` pins that nobody else uses during the call; `done` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_free_pins(
    cache: u64,
    pins: *mut Pinned,
    count: usize,
    done: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the output. Whatever is refused, nothing is done yet.
        unsafe { store(done, 0) }?;
        // SAFETY: the caller's promise about the pins, whose marks are changed one by one and by nobody else.
        let pins = unsafe { numbers(pins.cast_const().cast::<Cell<Pinned>>(), count) }?;
        let far = with_shared_cache(cache, |joint| {
            Ok(Done::of(pins, |_, pins| {
                let mut references = [(0, 0); AT_ONCE];
                for (reference, pin) in references.iter_mut().zip(pins) {
                    *reference = (pin.get().data, pin.get().mark);
                }
                let ended = joint.free_all_marked(references.get(..pins.len()).unwrap_or_default());
                let freed = ended.as_ref().err().map_or(pins.len(), |&(done, _)| done);
                for pin in pins.iter().take(freed) {
                    pin.set(Pinned { mark: 0, ..pin.get() });
                }
                ended
            }))
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { far.tell(done) }
    })
}
