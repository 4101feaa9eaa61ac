//! `umbra_cached_memory_*`: places for data of any length, for a process' threads.

use std::ffi::c_int;
use std::time::Duration;

use umbra::cache::{CachedMemory, ContentUnmet, PlaceUnmet, Unmet};
use umbra_core::cache::Found;
use umbra_core::cache::waiting::ContentError;
use umbra_core::cached_memory::{Member, PlaceError, records_needed};
use umbra_core::memory::Figures;
use umbra_core::room::WaitError;

use crate::cache::forget_telling;
use crate::cached::{FULL, INTERRUPTED, TIMEOUT, failures, number_of, sparse};
use crate::call::{counted, enter, numbers, store, store_counted, store_sized, takes};
use crate::memory::{Options, Plan};
use crate::object::{HANDLES, Object, with_cached_memory};
use crate::statistics::Counted;
use crate::status::{Code, Failure};

/// `struct umbra_placed`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Asked {
    data: u64,
    len: u64,
    offset: u64,
    found: u32,
}

/// Makes a memory that caches.
///
/// # Safety
/// `options` points to a structure that begins with its size; `created` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_create(options: *const Options, created: *mut u64) -> c_int {
    enter(|| {
        takes(created)?;
        // SAFETY: the caller's promise about `options`.
        let Plan { capacity, granule, ranges, waiters } = unsafe { Options::plan(options) }?;
        let index = sparse(ranges, records_needed(ranges as usize))?;
        let memory = CachedMemory::with_waiters(capacity, granule, ranges, index, waiters)?;
        let handle = HANDLES.keep(Object::CachedMemory(Box::new(memory)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

/// Interrupts the memory and releases its handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_destroy(memory: u64) -> c_int {
    enter(|| {
        with_cached_memory(memory, |memory| {
            memory.interrupt();
            Ok(())
        })?;
        HANDLES.release(memory).map(drop)
    })
}

/// Takes references to the places of all members or of none, waiting in line for room for so long; with 0 it does not wait.
///
/// # Safety
/// `members` points to `count` members that nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_alloc(
    memory: u64,
    members: *mut Asked,
    count: usize,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        with_cached_memory(memory, |memory| {
            // SAFETY: the caller's promise; all bits are a member.
            let asked = unsafe { numbers(members.cast_const(), count) }?;
            let mut group: Vec<_> = asked.iter().map(|asked| Member::new(asked.data, asked.len)).collect();
            let held = match timeout_ms {
                0 => memory.try_alloc_group(&mut group)?,
                _ => memory.alloc_group(&mut group, Duration::from_millis(timeout_ms))?,
            };
            // C holds the references by the ids of the data from here on.
            for (at, member) in held.into_members().iter().flat_map(|group| group.iter()).enumerate() {
                let place = member.place();
                let (offset, found) = place.map_or((0, Found::Empty), |place| (place.offset, place.found));
                let told = Asked { data: member.data(), len: member.len(), offset, found: number_of(found) };
                // SAFETY: below `count`, by the caller's promise.
                let to = unsafe { members.add(at) };
                // SAFETY: as above.
                unsafe { store(to, told) }?;
            }
            Ok(())
        })
    })
}

/// Waits until the place of data is filled, for so long.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_wait_filled(memory: u64, data: u64, timeout_ms: u64) -> c_int {
    enter(|| with_cached_memory(memory, |memory| Ok(memory.filled(data, Duration::from_millis(timeout_ms))?)))
}

/// Gives a reference back.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_free(memory: u64, data: u64) -> c_int {
    enter(|| with_cached_memory(memory, |memory| Ok(memory.free(data)?)))
}

/// The content is there, says who found the place empty.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_remember(memory: u64, data: u64) -> c_int {
    enter(|| with_cached_memory(memory, |memory| Ok(memory.remember(data)?)))
}

/// The content will not come, says who found the place empty; the reference is freed as usual.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_abandon(memory: u64, data: u64) -> c_int {
    enter(|| with_cached_memory(memory, |memory| Ok(memory.abandon(data)?)))
}

/// Frees the place of content that nobody uses.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_forget(memory: u64, data: u64, forgotten: *mut c_int) -> c_int {
    // SAFETY: forwarded.
    enter(|| with_cached_memory(memory, |memory| unsafe { forget_telling(forgotten, || Ok(memory.forget(data)?)) }))
}

/// The same, but content in use leaves with its last reference.
///
/// # Safety
/// `forgotten` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_forget_later(memory: u64, data: u64, forgotten: *mut c_int) -> c_int {
    enter(|| {
        with_cached_memory(memory, |memory| {
            // SAFETY: forwarded.
            unsafe { forget_telling(forgotten, || Ok(memory.forget_later(data)?)) }
        })
    })
}

/// Ends every wait, and makes every later call fail.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_interrupt(memory: u64) -> c_int {
    enter(|| {
        with_cached_memory(memory, |memory| {
            memory.interrupt();
            Ok(())
        })
    })
}

/// Tells what happened so far; also after an interrupt.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_statistics(memory: u64, statistics: *mut Counted) -> c_int {
    enter(|| {
        let told = with_cached_memory(memory, |memory| {
            let waiting = memory.waiting().saturating_add(memory.waiting_for_content());
            Ok(Counted::new(memory.look(|places| places.statistics().cache), waiting))
        })?;
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &told, Counted::LEAST) }
    })
}

/// `struct umbra_cached_memory_figures`.
#[repr(C)]
pub struct Told {
    size: usize,
    capacity: u64,
    free: u64,
    largest: u64,
    in_use: u64,
    longest_run: u64,
    used_ranges: u32,
    free_ranges: u32,
    data_in_use: u32,
}

/// `struct umbra_fill`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Filled {
    data: u64,
    offset: u64,
}

/// Tells how full the memory is, and how scattered; also after an interrupt.
///
/// # Safety
/// `figures` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_figures(memory: u64, figures: *mut Told) -> c_int {
    enter(|| {
        let told = with_cached_memory(memory, |memory| {
            Ok(memory.look(|places| {
                let Figures { capacity, free, largest, used_ranges, free_ranges, .. } = places.figures();
                let ((data_in_use, in_use), longest_run) = (places.in_use(), places.longest_run());
                let size = size_of::<Told>();
                Told { size, capacity, free, largest, in_use, longest_run, used_ranges, free_ranges, data_in_use }
            }))
        })?;
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(figures, &told, size_of::<Told>()) }
    })
}

/// Lists the data whose places somebody may still be writing to.
///
/// # Safety
/// `buffer` has room for `capacity` of them; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cached_memory_outstanding(
    memory: u64,
    buffer: *mut Filled,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        let (fills, all) = with_cached_memory(memory, |memory| {
            memory.look(|places| {
                counted(|| places.outstanding_fills().map(|(data, offset)| Filled { data, offset }), capacity)
            })
        })?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_counted((fills.into_iter(), all), buffer, capacity, count) }
    })
}

/// Tells an interrupted memory that nobody writes to the place of this data any more.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_cached_memory_settle(memory: u64, data: u64) -> c_int {
    enter(|| {
        with_cached_memory(memory, |memory| {
            memory.settle(data);
            Ok(())
        })
    })
}

fn code(error: &PlaceError) -> Code {
    match error {
        PlaceError::Interrupted => INTERRUPTED,
        PlaceError::TooLarge { .. } => Code::Never,
        PlaceError::TooMany { .. } => Code::TooLarge,
        PlaceError::Blocked { .. }
        | PlaceError::NoPlace { .. }
        | PlaceError::OthersWait
        | PlaceError::TooManyReferences { .. } => FULL,
        _ => Code::Invalid,
    }
}

failures! {
    PlaceError {
        error => code(error),
    }
    PlaceUnmet {
        Unmet::Interrupted => INTERRUPTED,
        Unmet::Expired { .. } => TIMEOUT,
        Unmet::Refused(WaitError::TooManyWaiters { .. }) => FULL,
        Unmet::Refused(WaitError::Refused(error)) => code(error),
    }
    ContentUnmet {
        Unmet::Interrupted => INTERRUPTED,
        Unmet::Expired { .. } => TIMEOUT,
        Unmet::Refused(ContentError::NotAssigned { .. }) => Code::NoSlot,
        Unmet::Refused(ContentError::Abandoned { .. }) => Code::Abandoned,
        Unmet::Refused(ContentError::TooManyWaiters { .. }) => FULL,
    }
}
