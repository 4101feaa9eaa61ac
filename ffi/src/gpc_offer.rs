//! `umbra_gpc_offer` and what goes with it: large data that functions read.
//!
//! It is read where its maker has laid it.

use std::ffi::{c_int, c_void};

use umbra::call::ReadError;
use umbra_core::cell::Bytes;

use crate::call::{enter, fresh, store, takes};
use crate::gpc_member::{Seen, inside};
use crate::object::with_member;
use crate::pool::bytes;
use crate::status::{Code, Failure};

/// Copies data to where the functions of others read it.
///
/// # Safety
/// `data` points to `length` bytes that do not change during the call; `offer` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_offer(member: u64, data: *const c_void, length: usize, offer: *mut u64) -> c_int {
    enter(|| {
        takes(offer)?;
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, length) }?;
        let number = with_member(member, |seat| seat.offer(data))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(offer, number) }
    })
}

/// Nobody is to read it any more.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gpc_take_back(member: u64, offer: u64) -> c_int {
    enter(|| with_member(member, |seat| seat.take_back(offer)))
}

/// Copies a part of the data that is offered to the function that runs.
///
/// # Safety
/// `work` is what the function was given, and it runs; `buffer` points to `length` bytes, or is null with `length` 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_read(
    work: *const Seen,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let inside = unsafe { inside(work) }?;
        if buffer.is_null() && length > 0 {
            return Err(Failure::new(Code::Invalid, "buffer is null"));
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let copy = |bytes: Bytes<'_>| {
            let part = bytes.part(offset, length)?;
            // SAFETY: the caller's promise.
            part.read(0, unsafe { fresh(buffer, length) })
        };
        Ok(inside.local.look(inside.data, copy)?.map_err(ReadError::from)?)
    })
}
