//! `umbra_pool_alloc` and `umbra_allocation_*`: what is allocated in a pool.
//!
//! An allocation is named by its pool's handle and its number, which is the same in all processes, on all hosts.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use umbra::channel::Timeout;
use umbra::gateway::RemotePool;
use umbra::pool::{Allocation, Pool};
use umbra_core::error::Status;
use umbra_core::heap::BlockId;

use crate::call::{by_copy, enter, fresh, store, store_measured, takes, zeros};
use crate::far::with_any_pool;
use crate::object::with_pool;
use crate::pool::{bytes, patience, timeout};
use crate::status::{Code, Failure};

/// Allocates; with a timeout of 0 it does not wait.
pub(crate) fn alloc(pool: &Pool, length: u64, kind: u32, timeout_ms: u64) -> Result<Allocation<'_>, Failure> {
    Ok(match timeout_ms {
        0 => pool.alloc(length, kind),
        _ => pool.alloc_within(length, kind, patience(timeout_ms)),
    }?)
}

/// Allocates; with a timeout of 0 it does not wait.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_alloc(
    pool: u64,
    length: u64,
    kind: u32,
    timeout_ms: u64,
    allocation: *mut u64,
    address: *mut *mut c_void,
) -> c_int {
    enter(|| {
        takes(allocation)?;
        takes(address)?;
        let near = |pool: &Pool| {
            let made = alloc(pool, length, kind, timeout_ms)?;
            Ok((made.id(), made.pointer()?.as_ptr().cast()))
        };
        let far = |pool: &RemotePool| Ok((pool.alloc(length, kind, timeout(timeout_ms))?.id(), null_mut()));
        let (id, at) = with_any_pool(pool, near, far)?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(address, at) }?;
        // SAFETY: as above.
        unsafe { store(allocation, id.to_bits()) }
    })
}

pub(crate) fn find(pool: &Pool, allocation: u64) -> Result<Allocation<'_>, Failure> {
    Ok(pool.allocation(BlockId::from_bits(allocation))?)
}

/// Frees an allocation, whoever made it.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_allocation_free(pool: u64, allocation: u64) -> c_int {
    enter(|| {
        let far = |pool: &RemotePool| Ok(pool.free(BlockId::from_bits(allocation), Timeout::Now)?);
        with_any_pool(pool, |pool| Ok(find(pool, allocation)?.free()?), far)
    })
}

/// Leaves an allocation to its pool when the handle goes; at hand that is what happens anyway.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_allocation_leave(pool: u64, allocation: u64) -> c_int {
    enter(|| {
        let far = |pool: &RemotePool| Ok(pool.leave(BlockId::from_bits(allocation), Timeout::Now)?);
        with_any_pool(pool, |pool| find(pool, allocation).map(drop), far)
    })
}

/// Where an allocation is in this process, and how long.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_look(
    pool: u64,
    allocation: u64,
    address: *mut *mut c_void,
    length: *mut u64,
) -> c_int {
    enter(|| {
        takes(address)?;
        let near = |pool: &Pool| {
            let found = find(pool, allocation)?;
            Ok((found.len(), found.pointer()?.as_ptr().cast()))
        };
        let far = |pool: &RemotePool| {
            let found = pool.allocation(BlockId::from_bits(allocation), Timeout::Now)?;
            Ok((found.len(), null_mut()))
        };
        let (len, at) = with_any_pool(pool, near, far)?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(length, len) }?;
        // SAFETY: as above.
        unsafe { store(address, at) }
    })
}

/// Copies bytes out of an allocation.
///
/// # Safety
/// `buffer` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_read(
    pool: u64,
    allocation: u64,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        if buffer.is_null() && length > 0 {
            return Err(Failure::new(Code::Invalid, "buffer is null"));
        }
        let timeout = timeout(timeout_ms);
        let near = |pool: &Pool| {
            let part = find(pool, allocation)?.part(offset, length as u64)?;
            // SAFETY: the caller's promise.
            Ok(part.read(0, unsafe { fresh(buffer, length) })?)
        };
        let far = |pool: &RemotePool| {
            // Before memory is taken for it: a length that nothing there has is no reason to run out of memory.
            if length as u64 > pool.bytes() {
                return Err(Status::OutOfBounds.into());
            }
            let (id, own) = (BlockId::from_bits(allocation), zeros(length)?);
            let ask = |own: &mut [u8]| pool.read(id, offset, own, timeout).map(|()| ((), length));
            // SAFETY: the caller's promise.
            Ok(unsafe { by_copy(buffer, own, ask) }?)
        };
        with_any_pool(pool, near, far)
    })
}

/// Copies bytes into an allocation.
///
/// # Safety
/// `from` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_write(
    pool: u64,
    allocation: u64,
    offset: u64,
    from: *const c_void,
    length: usize,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let from = unsafe { bytes(from, length) }?;
        let timeout = timeout(timeout_ms);
        let far = |pool: &RemotePool| Ok(pool.write(BlockId::from_bits(allocation), offset, from, timeout)?);
        with_any_pool(pool, |pool| Ok(find(pool, allocation)?.write(offset, from)?), far)
    })
}

/// The bytes by which other processes find an allocation.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `length` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_reference(
    pool: u64,
    allocation: u64,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    enter(|| {
        with_pool(pool, |pool| {
            let reference = find(pool, allocation)?.reference()?;
            // SAFETY: the caller's promise about the outputs.
            unsafe { store_measured(&reference, buffer, capacity, length) }
        })
    })
}

/// The allocation of this pool that a reference names, and the range of it.
///
/// # Safety
/// `reference` points to `reference_length` bytes; the outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_find(
    pool: u64,
    reference: *const c_void,
    reference_length: usize,
    allocation: *mut u64,
    address: *mut *mut c_void,
    length: *mut u64,
) -> c_int {
    enter(|| {
        takes(allocation)?;
        takes(address)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, reference_length) }?;
        let near = |pool: &Pool| {
            let found = pool.allocation_of(reference)?;
            Ok((found.id(), found.len(), found.pointer()?.as_ptr().cast()))
        };
        let far = |pool: &RemotePool| {
            let found = pool.allocation_of(reference, Timeout::Now)?;
            Ok((found.id(), found.len(), null_mut()))
        };
        let (id, len, at) = with_any_pool(pool, near, far)?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(length, len) }?;
        // SAFETY: as above.
        unsafe { store(address, at) }?;
        // SAFETY: as above.
        unsafe { store(allocation, id.to_bits()) }
    })
}
