//! `umbra_station_*`: where the members of chained calls of a host meet.

use std::ffi::c_int;
use std::mem::offset_of;
use std::os::fd::IntoRawFd;

use umbra::call::{Shape, Station};

use crate::call::{enter, lent, short, sized, store, takes};
use crate::object::{HANDLES, Object, with_station};
use crate::pool::keep;
use crate::status::{Code, Failure};

/// `struct umbra_station_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    members: u32,
    messages: u32,
    message_bytes: u32,
    reserved: u32,
    offer_bytes: u64,
}

/// Makes a meeting place with empty seats.
///
/// # Safety
/// `options` points to a structure that begins with its size; `station` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_station_create(options: *const Options, station: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, offset_of!(Options, offer_bytes)) }?;
        takes(station)?;
        let usual = Shape::new(short(options.members, "members")?);
        let or = |number: u32, usual: u32| if number == 0 { usual } else { number };
        let messages = or(options.messages, usual.messages);
        let message_bytes = or(options.message_bytes, usual.message_bytes);
        let shape = Shape { messages, message_bytes, offer_bytes: options.offer_bytes, ..usual };
        let made = Station::create("umbra-station", shape)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Station(made), station) }
    })
}

/// A new descriptor of the meeting place, for another process.
///
/// # Safety
/// `descriptor` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_station_share(station: u64, descriptor: *mut c_int) -> c_int {
    enter(|| {
        takes(descriptor)?;
        let shared = with_station(station, |station| Ok(station.share()?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(descriptor, shared.into_raw_fd()) }
    })
}

/// Comes to a meeting place by its descriptor, which stays the caller's.
///
/// # Safety
/// `station` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_station_attach(descriptor: c_int, station: *mut u64) -> c_int {
    enter(|| {
        takes(station)?;
        // SAFETY: the caller's promise; it is only lent until it is duplicated.
        let theirs = unsafe { lent(descriptor) }?;
        let own = theirs.try_clone_to_owned().map_err(|error| Failure::new(Code::System, error))?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Station(Station::attach(own)?), station) }
    })
}

/// Releases the handle; members keep the place.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_station_detach(station: u64) -> c_int {
    enter(|| {
        with_station(station, |_| Ok(()))?;
        HANDLES.release(station).map(drop)
    })
}
