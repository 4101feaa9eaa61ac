//! `umbra_thread_slices`: how long the calling thread runs in one piece.

use std::ffi::c_int;

use umbra::sys::slices;

use crate::call::{enter, store, takes};
use crate::status::{Code, Failure};

/// Has the calling thread run in short slices, or in usual ones again; `done`: whether this system has such.
///
/// # Safety
/// `done` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_thread_slices(are_short: c_int, done: *mut c_int) -> c_int {
    enter(|| {
        takes(done)?;
        let set = if are_short == 0 { slices::restore() } else { slices::shorten() };
        let is_done = set.map_err(|error| Failure::new(Code::System, error))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(done, is_done.into()) }
    })
}
