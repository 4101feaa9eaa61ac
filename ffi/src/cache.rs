//! `umbra_cache_*`: slot caches for the threads of a process.

use std::ffi::c_int;
use std::time::Duration;

use umbra_core::cache::Found;

use crate::cached::{Plan, number_of};
use crate::call::{enter, sized, store, store_list, store_sized, store_unless_null, takes, takes_unless_null};
use crate::object::{HANDLES, Object, with_cache};
use crate::statistics::Counted;
use crate::status::Failure;

/// Threads that can wait at once, if nobody says how many.
pub(crate) const WAITERS: usize = 1024;

/// `struct umbra_cache_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    contract: u32,
    policy: u32,
    first_slot: u32,
    slots: u32,
    ids: u64,
    waiters: u32,
}

impl Options {
    /// What the caller wants.
    ///
    /// # Safety
    /// `from` points to a structure that begins with its size.
    pub(crate) unsafe fn plan(from: *const Options) -> Result<Plan, Failure> {
        // SAFETY: the caller's promise; zeros are valid options.
        let options = unsafe { sized(from, size_of::<Options>()) }?;
        Ok(Plan {
            contract: options.contract,
            policy: options.policy,
            first: options.first_slot,
            slots: options.slots,
            ids: options.ids,
            waiters: if options.waiters == 0 { WAITERS } else { options.waiters as usize },
        })
    }
}

/// Makes a cache of slots.
///
/// # Safety
/// `options` points to a structure that begins with its size; `created` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_create(options: *const Options, created: *mut u64) -> c_int {
    enter(|| {
        takes(created)?;
        // SAFETY: the caller's promise about `options`.
        let plan = unsafe { Options::plan(options) }?;
        let handle = HANDLES.keep(Object::Cache(plan.build()?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

/// Interrupts the cache and releases its handle; its memory goes when the last call that uses it has returned.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_destroy(cache: u64) -> c_int {
    enter(|| {
        with_cache(cache, |cache| {
            cache.interrupt();
            Ok(())
        })?;
        HANDLES.release(cache).map(drop)
    })
}

/// Takes a reference to the slot of data, waiting for one in line for so long; with 0 it does not wait.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_alloc(
    cache: u64,
    data: u64,
    timeout_ms: u64,
    slot: *mut u32,
    found: *mut u32,
) -> c_int {
    enter(|| {
        with_cache(cache, |cache| {
            // SAFETY: forwarded.
            unsafe { alloc_telling(slot, found, || cache.alloc(data, Duration::from_millis(timeout_ms))) }
        })
    })
}

/// Takes the reference that `alloc` takes, and stores what is told with it; none is taken if that cannot be stored.
///
/// # Safety
/// The outputs are valid for writing.
pub(crate) unsafe fn alloc_telling(
    slot: *mut u32,
    found: *mut u32,
    alloc: impl FnOnce() -> Result<(u32, Found), Failure>,
) -> Result<(), Failure> {
    takes(slot)?;
    takes(found)?;
    let (number, what) = alloc()?;
    // SAFETY: the caller's promise about the outputs.
    unsafe { store(slot, number) }?;
    // SAFETY: as above.
    unsafe { store(found, number_of(what)) }
}

/// Waits until the slot of data is filled, for so long.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_wait_filled(cache: u64, data: u64, timeout_ms: u64) -> c_int {
    enter(|| with_cache(cache, |cache| cache.filled(data, Duration::from_millis(timeout_ms))))
}

/// Gives a reference back.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_free(cache: u64, data: u64) -> c_int {
    enter(|| with_cache(cache, |cache| cache.free(data)))
}

/// The content is there, says who found the slot empty.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_remember(cache: u64, data: u64) -> c_int {
    enter(|| with_cache(cache, |cache| cache.remember(data)))
}

/// The content will not come, says who found the slot empty; the reference is freed as usual.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_abandon(cache: u64, data: u64) -> c_int {
    enter(|| with_cache(cache, |cache| cache.abandon(data)))
}

/// Empties the slot of content that nobody uses.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_forget(cache: u64, data: u64, forgotten: *mut c_int) -> c_int {
    // SAFETY: forwarded.
    enter(|| with_cache(cache, |cache| unsafe { forget_telling(forgotten, || cache.forget(data, false)) }))
}

/// The same, but content in use leaves with its last reference.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_forget_later(cache: u64, data: u64, forgotten: *mut c_int) -> c_int {
    // SAFETY: forwarded.
    enter(|| with_cache(cache, |cache| unsafe { forget_telling(forgotten, || cache.forget(data, true)) }))
}

/// Forgets what `forget` does, and stores whether it did; nothing is forgotten if that cannot be stored.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
pub(crate) unsafe fn forget_telling(
    forgotten: *mut c_int,
    forget: impl FnOnce() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    takes_unless_null(forgotten)?;
    let done = forget()?;
    // SAFETY: the caller's promise.
    unsafe { store_unless_null(forgotten, c_int::from(done)) }
}

/// Ends every wait, and makes every later call fail.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_interrupt(cache: u64) -> c_int {
    enter(|| {
        with_cache(cache, |cache| {
            cache.interrupt();
            Ok(())
        })
    })
}

/// Lists the slots that somebody may still be writing to.
///
/// # Safety
/// `buffer` has room for `capacity` numbers; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_outstanding(
    cache: u64,
    buffer: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise about the outputs.
    enter(|| with_cache(cache, |cache| unsafe { store_list(&cache.outstanding(), buffer, capacity, count) }))
}

/// Tells an interrupted cache that nobody writes to this slot any more.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_settle(cache: u64, slot: u32) -> c_int {
    enter(|| {
        with_cache(cache, |cache| {
            cache.settle(slot);
            Ok(())
        })
    })
}

/// Makes an interrupted cache ready again, and empty.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cache_reset(cache: u64) -> c_int {
    enter(|| with_cache(cache, |cache| cache.reset()))
}

/// Tells what happened so far; also after an interrupt.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_statistics(cache: u64, statistics: *mut Counted) -> c_int {
    enter(|| {
        let counted = with_cache(cache, |cache| Ok(Counted::new(cache.statistics(), cache.waiting())))?;
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &counted, Counted::LEAST) }
    })
}
