//! `umbra_shared_cache_*`: a slot cache that processes of a host share.

use std::ffi::{c_int, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};

use umbra_core::shared_cache::Sharing;

use crate::cache::{alloc_telling, forget_telling};
use crate::cache_batch::Done;
use crate::cached::number_of_state;
use crate::call::{announced, enter, lent, numbers, sized, store, store_sized, takes};
use crate::joint::Joint;
use crate::object::{HANDLES, Object, with_shared_cache};
use crate::pool::{keep, patience};
use crate::status::{Code, Failure};

/// Processes that can use a cache at once, if nobody says how many.
const PROCESSES: u32 = 8;
/// Bits of all counts of the references to one slot.
const BITS: u32 = 40;

/// `struct umbra_shared_cache_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    contract: u32,
    slots: u32,
    processes: u32,
    references: u32,
}

impl Options {
    fn sharing(&self) -> Result<Sharing, Failure> {
        let processes = if self.processes == 0 { PROCESSES } else { self.processes };
        let most = (1_u64 << (BITS / processes).min(u32::BITS)) - 1;
        let references = if self.references == 0 { most as u32 } else { self.references };
        let sharing = u8::try_from(processes).ok().and_then(|processes| Sharing::new(processes, references));
        sharing.ok_or_else(|| {
            let detail =
                format!("{processes} processes with {references} references: at most 30, and {BITS} bits for all");
            Failure::new(Code::Invalid, detail)
        })
    }
}

/// `struct umbra_shared_cache_reclaimed`.
#[repr(C)]
pub struct Reclaimed {
    size: usize,
    references: u64,
    fills: u64,
    emptied: u64,
}

/// `struct umbra_shared_cache_statistics`.
#[repr(C)]
pub struct Figures {
    size: usize,
    loads: u64,
    evictions: u64,
    refused: u64,
    slots: u32,
    empty: u32,
    processes: u32,
    reserved: u32,
}

/// Is told of each fill that a dead process had begun.
type Abandoned = Option<unsafe extern "C" fn(user: *mut c_void, slot: u32, data: u64)>;

/// Makes an empty cache, and takes a place at it.
///
/// # Safety
/// `options` points to a structure that begins with its size; `cache` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_create(options: *const Options, cache: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        takes(cache)?;
        let made = Joint::create(options.contract, options.slots, options.sharing()?)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::SharedCache(made), cache) }
    })
}

/// A new descriptor of the cache, for another process.
///
/// # Safety
/// `descriptor` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_share(cache: u64, descriptor: *mut c_int) -> c_int {
    enter(|| {
        takes(descriptor)?;
        let shared = with_shared_cache(cache, Joint::share)?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(descriptor, shared.into_raw_fd()) }
    })
}

/// The caller's descriptor, once more.
///
/// # Safety
/// `descriptor` is open during the call, unless it is negative.
unsafe fn again(descriptor: c_int) -> Result<OwnedFd, Failure> {
    // SAFETY: the caller's promise; it is only lent until it is duplicated.
    let theirs = unsafe { lent(descriptor) }?;
    theirs.try_clone_to_owned().map_err(|error| Failure::new(Code::System, error))
}

/// Takes a place at a cache by its descriptor, which stays the caller's.
///
/// # Safety
/// `cache` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_attach(descriptor: c_int, contract: u32, cache: *mut u64) -> c_int {
    enter(|| {
        takes(cache)?;
        // SAFETY: the caller's promise, and the system's to say if it is not open.
        let memory = unsafe { again(descriptor) }?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::SharedCache(Joint::attach(contract, memory)?), cache) }
    })
}

/// The same, if need be in the place of a dead process, whose fills are told.
///
/// # Safety
/// `abandoned` is null or may be called from this thread with `user`; `cache` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_attach_or_succeed(
    descriptor: c_int,
    contract: u32,
    abandoned: Abandoned,
    user: *mut c_void,
    cache: *mut u64,
) -> c_int {
    enter(|| {
        takes(cache)?;
        // SAFETY: the caller's promise, and the system's to say if it is not open.
        let memory = unsafe { again(descriptor) }?;
        // SAFETY: the caller's promise about the function.
        let tell = |slot, data| unsafe { tell(abandoned, user, slot, data) };
        let place = Joint::attach_or_succeed(contract, memory, tell)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::SharedCache(place), cache) }
    })
}

/// Tells of a fill that a dead process had begun, if somebody wants to know.
///
/// # Safety
/// `abandoned` is null or may be called from this thread with `user`.
unsafe fn tell(abandoned: Abandoned, user: *mut c_void, slot: u32, data: u64) {
    if let Some(abandoned) = abandoned {
        // SAFETY: the caller's promise.
        unsafe { abandoned(user, slot, data) }
    }
}

/// Releases the handle; the place, and all that this process holds, goes with the last call that uses it.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_shared_cache_leave(cache: u64) -> c_int {
    enter(|| {
        with_shared_cache(cache, |_| Ok(()))?;
        HANDLES.release(cache).map(drop)
    })
}

/// Takes a reference to the slot of data, waiting for one for so long; with 0 it does not wait.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_alloc(
    cache: u64,
    data: u64,
    timeout_ms: u64,
    slot: *mut u32,
    found: *mut u32,
) -> c_int {
    let alloc = || {
        let grant = with_shared_cache(cache, |joint| joint.alloc(data, patience(timeout_ms)))?;
        Ok((grant.slot, grant.found))
    };
    // SAFETY: forwarded.
    enter(|| unsafe { alloc_telling(slot, found, alloc) })
}

/// Waits until the slot of data is filled, for so long.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_shared_cache_wait_filled(cache: u64, data: u64, timeout_ms: u64) -> c_int {
    enter(|| with_shared_cache(cache, |joint| joint.filled(data, patience(timeout_ms))))
}

/// Gives a reference back.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_shared_cache_free(cache: u64, data: u64, timeout_ms: u64) -> c_int {
    enter(|| with_shared_cache(cache, |joint| joint.free(data, patience(timeout_ms))))
}

/// Gives references to data back in order, up to the first that is refused.
///
/// # Safety
/// `data` points to `count` ids that do not change during the call; `done` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_free_all(
    cache: u64,
    data: *const u64,
    count: usize,
    timeout_ms: u64,
    done: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the output. Whatever is refused, nothing is done yet.
        unsafe { store(done, 0) }?;
        // SAFETY: the caller's promise about the ids.
        let data = unsafe { numbers(data, count) }?;
        let ended = with_shared_cache(cache, |joint| Ok(joint.free_all(data, patience(timeout_ms))))?;
        // SAFETY: the caller's promise about the output.
        unsafe { Done::all(count, ended).tell(done) }
    })
}

/// The content is there, says who found the slot empty.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_shared_cache_remember(cache: u64, data: u64, timeout_ms: u64) -> c_int {
    enter(|| with_shared_cache(cache, |joint| joint.remember(data, patience(timeout_ms))))
}

/// The content will not come, says who found the slot empty; the reference is freed as usual.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_shared_cache_abandon(cache: u64, data: u64, timeout_ms: u64) -> c_int {
    enter(|| with_shared_cache(cache, |joint| joint.abandon(data, patience(timeout_ms))))
}

/// Empties the slot of content that nobody uses.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_forget(
    cache: u64,
    data: u64,
    timeout_ms: u64,
    forgotten: *mut c_int,
) -> c_int {
    // SAFETY: forwarded.
    enter(|| unsafe { forget(cache, data, false, timeout_ms, forgotten) })
}

/// The same, but content in use leaves with its last reference.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_forget_later(
    cache: u64,
    data: u64,
    timeout_ms: u64,
    forgotten: *mut c_int,
) -> c_int {
    // SAFETY: forwarded.
    enter(|| unsafe { forget(cache, data, true, timeout_ms, forgotten) })
}

/// # Safety
/// `forgotten` is valid for writing, or null.
unsafe fn forget(cache: u64, data: u64, later: bool, timeout_ms: u64, forgotten: *mut c_int) -> Result<(), Failure> {
    let forget = || with_shared_cache(cache, |joint| joint.forget(data, later, patience(timeout_ms)));
    // SAFETY: the caller's promise.
    unsafe { forget_telling(forgotten, forget) }
}

/// What the slot of data is doing.
///
/// # Safety
/// `state` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_state(cache: u64, data: u64, timeout_ms: u64, state: *mut u32) -> c_int {
    enter(|| {
        let told = with_shared_cache(cache, |joint| joint.state(data, patience(timeout_ms)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(state, number_of_state(told)) }
    })
}

/// References of all processes to data.
///
/// # Safety
/// `references` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_references(
    cache: u64,
    data: u64,
    timeout_ms: u64,
    references: *mut u32,
) -> c_int {
    enter(|| {
        let counted = with_shared_cache(cache, |joint| joint.references(data, patience(timeout_ms)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(references, counted) }
    })
}

/// Takes back what dead processes hold, and tells of their fills.
///
/// # Safety
/// `abandoned` is null or may be called from this thread with `user`; `reclaimed` is null, or points to a structure that
/// begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_reclaim(
    cache: u64,
    timeout_ms: u64,
    abandoned: Abandoned,
    user: *mut c_void,
    reclaimed: *mut Reclaimed,
) -> c_int {
    enter(|| {
        if !reclaimed.is_null() {
            // SAFETY: the caller's promise. What is told is told once: first of all there must be a place for it.
            unsafe { announced(reclaimed.cast_const(), size_of::<Reclaimed>()) }?;
        }
        // SAFETY: the caller's promise about the function.
        let tell = |slot, data| unsafe { tell(abandoned, user, slot, data) };
        let (done, ended) = with_shared_cache(cache, |joint| joint.reclaim(patience(timeout_ms), tell))?;
        if !reclaimed.is_null() {
            let (references, fills, emptied) = (done.references, done.fills, done.emptied);
            let told = Reclaimed { size: size_of::<Reclaimed>(), references, fills, emptied };
            // SAFETY: the caller's promise about the structure.
            unsafe { store_sized(reclaimed, &told, size_of::<Reclaimed>()) }?;
        }
        ended
    })
}

/// Makes every later call of every process fail, for good.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_shared_cache_interrupt(cache: u64) -> c_int {
    enter(|| with_shared_cache(cache, Joint::interrupt))
}

/// Tells what happened so far, in all processes; also after an interrupt.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_shared_cache_statistics(cache: u64, statistics: *mut Figures) -> c_int {
    enter(|| {
        let doing = with_shared_cache(cache, Joint::doing)?;
        let figures = Figures {
            size: size_of::<Figures>(),
            loads: doing.counted.loads,
            evictions: doing.counted.evictions,
            refused: doing.counted.refused,
            slots: doing.slots,
            empty: doing.empty,
            processes: doing.processes,
            reserved: 0,
        };
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &figures, size_of::<Figures>()) }
    })
}
