//! `umbra_thread_slices`: how long the calling thread runs in one piece.

use std::ffi::c_int;

use umbra::sys::slices;

use crate::call::{enter, store, takes};
use crate::status::{Code, Failure};

/// Has the calling thread run in short slices, or in usual ones again; `short_now`: whether they are short.
///
/// # Safety
/// `short_now` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_thread_slices(are_short: c_int, short_now: *mut c_int) -> c_int {
    enter(|| {
        takes(short_now)?;
        let set = if are_short == 0 { slices::restore().map(|()| false) } else { slices::shorten() };
        let is_short = set.map_err(|error| Failure::new(Code::System, error))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(short_now, is_short.into()) }
    })
}
