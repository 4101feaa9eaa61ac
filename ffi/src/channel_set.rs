//! `umbra_channel_set_*`: waiting for several channels at once.

use std::ffi::c_int;

use umbra::channel::Event;

use crate::call::{enter, numbers, store, takes};
use crate::channel::mode;
use crate::conversed::Set;
use crate::named::{self, with_set};
use crate::object::{HANDLES, Object};
use crate::pool::{keep, timeout};

/// Makes a set; its channels stay in use while it is.
///
/// # Safety
/// `channels` points to `count` handles; `set` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_set_create(
    channels: *const u64,
    count: usize,
    event: c_int,
    set: *mut u64,
) -> c_int {
    enter(|| {
        takes(set)?;
        // SAFETY: the caller's promise; any bits are a handle.
        let channels = unsafe { numbers(channels, count) }?;
        let made = Set::new(named::channels(channels)?, Event::try_from(event)?)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Set(made), set) }
    })
}

/// Waits until a channel of the set is ready: which one, and for what; 0 if it was destroyed.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_set_poll(
    set: u64,
    wait_mode: u32,
    timeout_ms: u64,
    index: *mut usize,
    event: *mut c_int,
) -> c_int {
    enter(|| {
        takes(index)?;
        takes(event)?;
        let ready = with_set(set, |set| Ok(set.get().poll(mode(wait_mode)?, timeout(timeout_ms))?))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(index, ready.index) }?;
        // SAFETY: as above.
        unsafe { store(event, ready.event.map_or(0, |event| event as c_int)) }
    })
}

/// Releases the set; its channels stay.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_channel_set_release(set: u64) -> c_int {
    enter(|| {
        with_set(set, |_| Ok(()))?;
        HANDLES.release(set).map(drop)
    })
}
