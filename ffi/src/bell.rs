//! `umbra_bell_*`: a descriptor, readable when a channel of a set is ready.

use std::ffi::c_int;
use std::os::fd::{AsFd as _, AsRawFd as _};

use umbra::channel::Bell;

use crate::call::{enter, store, takes};
use crate::named::{with_bell, with_set};
use crate::object::{HANDLES, Object};
use crate::pool::keep;

/// Makes a bell that nobody rings yet; its descriptor stays its own.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_bell_create(bell: *mut u64, descriptor: *mut c_int) -> c_int {
    enter(|| {
        takes(bell)?;
        takes(descriptor)?;
        let made = Bell::new()?;
        let number = made.as_fd().as_raw_fd();
        // SAFETY: the caller's promise about the outputs.
        unsafe { keep(Object::Bell(made), bell) }?;
        // SAFETY: as above.
        unsafe { store(descriptor, number) }
    })
}

/// Rings the bell whenever a channel of the set is ready, until the bell's end.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_channel_set_ring(set: u64, bell: u64) -> c_int {
    enter(|| with_set(set, |set| with_bell(bell, |bell| Ok(set.get().ring(bell)?))))
}

/// Takes the ring back.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_bell_rearm(bell: u64) -> c_int {
    enter(|| with_bell(bell, |bell| Ok(bell.rearm()?)))
}

/// Ends whoever rings the bell, and releases its handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_bell_end(bell: u64) -> c_int {
    enter(|| {
        with_bell(bell, |bell| {
            bell.end();
            Ok(())
        })?;
        HANDLES.release(bell).map(drop)
    })
}
