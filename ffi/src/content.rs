//! What a part of an allocation contains: hashed, compared and copied.
//!
//! A part is named by where it begins in its allocation, and its length. The bytes by which others find it are here,
//! too.

use std::ffi::{c_int, c_void};

use umbra::pool::{Allocation, Pool};

use crate::allocation::{alloc, find};
use crate::call::{enter, store, store_measured, takes};
use crate::object::with_pool;
use crate::status::Failure;

pub(crate) fn part(pool: &Pool, allocation: u64, offset: u64, length: u64) -> Result<Allocation<'_>, Failure> {
    Ok(find(pool, allocation)?.part(offset, length)?)
}

/// 64 bits of the digest of its bytes.
///
/// # Safety
/// `hash` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_hash(
    pool: u64,
    allocation: u64,
    offset: u64,
    length: u64,
    hash: *mut u64,
) -> c_int {
    enter(|| {
        takes(hash)?;
        let found = with_pool(pool, |pool| Ok(part(pool, allocation, offset, length)?.hash()?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(hash, found) }
    })
}

/// Whether two parts, of one pool or of two, have the same bytes: 1 or 0.
///
/// # Safety
/// `is_equal` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_equal(
    pool: u64,
    allocation: u64,
    offset: u64,
    other_pool: u64,
    other: u64,
    other_offset: u64,
    length: u64,
    is_equal: *mut c_int,
) -> c_int {
    enter(|| {
        takes(is_equal)?;
        let found = with_pool(pool, |pool| {
            let one = part(pool, allocation, offset, length)?;
            with_pool(other_pool, |pool| Ok(one.equals(&part(pool, other, other_offset, length)?)?))
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(is_equal, found.into()) }
    })
}

/// A new allocation with the bytes of a part, of the same kind, in this pool or another one; with a timeout of 0 it does
/// not wait for room.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_copy(
    pool: u64,
    allocation: u64,
    offset: u64,
    length: u64,
    to_pool: u64,
    timeout_ms: u64,
    copy: *mut u64,
    address: *mut *mut c_void,
) -> c_int {
    enter(|| {
        takes(copy)?;
        takes(address)?;
        let (id, at) = with_pool(pool, |pool| {
            let from = part(pool, allocation, offset, length)?;
            let kind = from.kind()?;
            with_pool(to_pool, |pool| {
                let made = alloc(pool, length, kind, timeout_ms)?;
                // Nobody else knows it yet.
                from.copy_to(&made).inspect_err(|_| drop(made.free()))?;
                Ok((made.id(), made.pointer()?.as_ptr().cast()))
            })
        })?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(address, at) }?;
        // SAFETY: as above.
        unsafe { store(copy, id.to_bits()) }
    })
}

/// The bytes by which other processes find a part of an allocation.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `needed` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_part_reference(
    pool: u64,
    allocation: u64,
    offset: u64,
    length: u64,
    buffer: *mut c_void,
    capacity: usize,
    needed: *mut usize,
) -> c_int {
    enter(|| {
        let reference = with_pool(pool, |pool| Ok(part(pool, allocation, offset, length)?.reference()?))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_measured(&reference, buffer, capacity, needed) }
    })
}
