//! `umbra_uid_draw`: a number for a pool or a channel that nobody else has.

use std::ffi::c_int;

use crate::call::{enter, store, takes};
use crate::status::{Code, Failure};

/// Draws a number.
///
/// # Safety
/// `uid` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_uid_draw(uid: *mut u64) -> c_int {
    enter(|| {
        takes(uid)?;
        let drawn = umbra::uid::draw().map_err(|error| Failure::new(Code::System, error))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(uid, drawn) }
    })
}
