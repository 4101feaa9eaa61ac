//! `umbra_library_version`, `umbra_error_text`, `umbra_error_detail`.

use std::ffi::{c_char, c_int};

use crate::call::{enter, store, store_text, takes};
use crate::status::{Code, Failure, detail};

/// Tells the version of the library.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_library_version(major: *mut u32, minor: *mut u32, patch: *mut u32) -> c_int {
    enter(|| {
        let parts = [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
        [major, minor, patch].into_iter().try_for_each(takes)?;
        for (part, out) in parts.into_iter().zip([major, minor, patch]) {
            let number = part.parse().map_err(|e| Failure::new(Code::System, e))?;
            // SAFETY: the caller's promise about the outputs.
            unsafe { store(out, number) }?;
        }
        Ok(())
    })
}

/// Says what a code means: at most `capacity` bytes with a final zero.
///
/// # Safety
/// `buffer` has `capacity` bytes; `length` is valid for writing or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_error_text(
    code: c_int,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    enter(|| {
        let code = Code::from_number(code).ok_or_else(|| Failure::new(Code::Invalid, format!("{code} is no code")))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_text(code.text(), buffer, capacity, length) }
    })
}

/// Tells the whole story of this thread's last failure, for people.
///
/// # Safety
/// `buffer` has `capacity` bytes; `length` is valid for writing or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_error_detail(buffer: *mut c_char, capacity: usize, length: *mut usize) -> c_int {
    enter(|| {
        let detail = detail();
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_text(&detail, buffer, capacity, length) }
    })
}
