//! What chained calls are, what goes on below a member, and what members have done.
//!
//! `umbra_gpc_work_members`, `_list`, `_call` and `_rewrite` are for functions that run, `umbra_gpc_figures` is for their members.

use std::ffi::{c_int, c_void};

use umbra_core::chain::{CallId, Figures, Members, RewriteError};

use crate::call::{announced, enter, store, store_counted, store_sized, takes, takes_list};
use crate::gpc_member::{Seen, inside};
use crate::object::with_member;
use crate::pool::bytes;
use crate::status::{Code, Failure};

/// `struct umbra_gpc_name`.
#[repr(C)]
pub struct Name {
    maker: u32,
    life: u32,
    number: u64,
}

/// `struct umbra_gpc_figures`.
#[repr(C)]
pub struct Told {
    size: usize,
    open: u64,
    requests: u64,
    request_bytes: u64,
    responses: u64,
    response_bytes: u64,
    failures: u64,
    repeated: u64,
    busy: u64,
    credits: u64,
    asks: u64,
    alive: u64,
    cancels: u64,
    at_home: u64,
    runs: u64,
    stale: u64,
    malformed: u64,
}

impl Told {
    fn new(open: usize, figures: Figures) -> Told {
        let Figures { requests, request_bytes, responses, response_bytes, failures, repeated, busy, .. } = figures;
        let Figures { credits, asks, alive, cancels, at_home, runs, stale, malformed, .. } = figures;
        Told {
            size: size_of::<Told>(),
            open: open as u64,
            requests,
            request_bytes,
            responses,
            response_bytes,
            failures,
            repeated,
            busy,
            credits,
            asks,
            alive,
            cancels,
            at_home,
            runs,
            stale,
            malformed,
        }
    }
}

/// The members below and with the one that runs the function.
///
/// # Safety
/// `work` is what the function was given, and it runs; `members` points to `capacity` numbers, or is null with `capacity` 0;
/// `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_members(
    work: *const Seen,
    members: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let list = unsafe { inside(work) }?.members.clone();
        // SAFETY: as above.
        unsafe { store_members(list, members, capacity, count) }
    })
}

/// All members of the call.
///
/// # Safety
/// As for [`umbra_gpc_work_members`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_list(
    work: *const Seen,
    members: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let list = unsafe { inside(work) }?.all.clone();
        let without = || Failure::new(Code::Invalid, "the call does not take its whole list to every member");
        // SAFETY: as above.
        unsafe { store_members(list.ok_or_else(without)?, members, capacity, count) }
    })
}

/// Stores members, and how many they are; if there is no room for all, only that.
///
/// # Safety
/// That of [`store_counted`].
unsafe fn store_members(
    list: Members<'_>,
    members: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    let all = list.len();
    if all <= capacity {
        takes_list(members, all)?;
    }
    // SAFETY: the caller's promise.
    unsafe { store_counted((list.map(|member| member.0), all), members, capacity, count) }
}

/// Which call the function runs for.
///
/// # Safety
/// `work` is what the function was given, and it runs; `name` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_call(work: *const Seen, name: *mut Name) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let CallId { root, life, seq } = unsafe { inside(work) }?.call;
        takes(name)?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(name, Name { maker: root.0, life: life.0, number: seq }) }
    })
}

/// Replaces the header that the children get.
///
/// # Safety
/// `work` is what the function was given, and it runs; `header` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_rewrite(work: *const Seen, header: *const c_void, length: usize) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let below = unsafe { inside(work) }?.below.as_mut();
        // SAFETY: as above.
        let header = unsafe { bytes(header, length) }?;
        Ok(below.ok_or(RewriteError::NotAllowed)?.set(header)?)
    })
}

impl From<RewriteError> for Failure {
    fn from(error: RewriteError) -> Failure {
        let code = match error {
            RewriteError::TooLong { .. } => Code::TooLong,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

/// Tells what a member has done.
///
/// # Safety
/// `figures` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_figures(member: u64, figures: *mut Told) -> c_int {
    enter(|| {
        let least = size_of::<Told>();
        // SAFETY: the caller's promise about the structure.
        unsafe { announced(figures.cast_const(), least) }?;
        let told = with_member(member, |seat| Ok(Told::new(seat.member.calls(), *seat.member.figures())))?;
        // SAFETY: as above.
        unsafe { store_sized(figures, &told, least) }
    })
}
