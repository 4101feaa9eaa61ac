//! `umbra_library_version`, `umbra_error_text`, `_detail` and `_put`.

use std::ffi::{c_char, c_int};

use crate::call::{enter, store, store_text, takes, text};
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

fn known(number: c_int) -> Result<Code, Failure> {
    Code::from_number(number).ok_or_else(|| Failure::new(Code::Invalid, format!("{number} is no code")))
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
        let code = known(code)?;
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

/// Makes a failure of whoever is on top of this interface the last one of this thread.
///
/// # Safety
/// `detail` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_error_put(code: c_int, detail: *const c_char) -> c_int {
    enter(|| {
        let code = known(code)?;
        if code.number() == 0 {
            return Err(Failure::new(Code::Invalid, "0 is no failure"));
        }
        // SAFETY: the caller's promise.
        Err(Failure::new(code, unsafe { text(detail, "detail") }?))
    })
}
