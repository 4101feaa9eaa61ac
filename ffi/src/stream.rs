//! `umbra_stream_*`: adapters, through which processes begin conversations.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use umbra::gateway::{Error as FarError, RemoteStreams};
use umbra::stream::{Adapter, Attributes, Mode};

use crate::call::{enter, numbers, short, sized, store_measured, store_sized, takes};
use crate::channel::mode;
use crate::conversed::{Place, Pools, Streams};
use crate::far::{gateways, with_any_stream};
use crate::named::{with_stream, with_supplied};
use crate::object::{HANDLES, Object, shared_pool};
use crate::pool::{bytes, keep, timeout};
use crate::status::{Code, Failure};

/// `struct umbra_stream_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    uid: u64,
    mode: u32,
    streams: u32,
    ring: u32,
    messages: u32,
    block: u32,
    members: u32,
    tasks: u32,
}

/// `struct umbra_stream_statistics`.
#[repr(C)]
pub struct Figures {
    size: usize,
    idle: u64,
    waiting: u64,
    offered: u64,
    kept: u64,
    room: u64,
}

/// The pools that these handles name.
///
/// # Safety
/// `pools` points to `count` handles.
unsafe fn pools(pools: *const u64, count: usize) -> Result<Pools, Failure> {
    // SAFETY: the caller's promise; any bits are a handle.
    let handles = unsafe { numbers(pools, count) }?;
    handles.iter().map(|&handle| Ok((handle, shared_pool(handle)?))).collect()
}

fn known(pools: &Pools) -> impl Iterator<Item = Arc<umbra::pool::Pool>> {
    pools.iter().map(|(_, pool)| Arc::clone(pool))
}

fn attributes(options: &Options) -> Result<Attributes, Failure> {
    let mode = match options.mode {
        0 => Mode::Nominal,
        1 => Mode::Buffered,
        2 => Mode::SenderSupplied,
        3 => Mode::ReceiverSupplied,
        4 => Mode::Single,
        other => return Err(Failure::new(Code::Invalid, format!("no mode of streams is called {other}"))),
    };
    let usual = Attributes::of(mode);
    let or = |number: u32, usual: u32| if number == 0 { usual } else { number };
    Ok(Attributes {
        uid: options.uid,
        mode,
        streams: or(options.streams, usual.streams),
        ring: or(options.ring, usual.ring),
        messages: or(options.messages, usual.messages),
        block: or(options.block, usual.block),
        members: short(or(options.members, usual.members.into()), "members")?,
        tasks: options.tasks != 0,
        max_spinners: usual.max_spinners,
    })
}

/// Makes an adapter.
///
/// # Safety
/// `options` points to a structure that begins with its size; `pool_handles` to `count` handles; `stream` is valid for
/// writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stream_create(
    options: *const Options,
    pool_handles: *const u64,
    count: usize,
    stream: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        takes(stream)?;
        // SAFETY: the caller's promise about the pools.
        let pools = unsafe { pools(pool_handles, count) }?;
        let adapter = Adapter::create(&attributes(&options)?, known(&pools))?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Stream(Streams { adapter, pools }), stream) }
    })
}

/// Uses the adapter that a reference names.
///
/// # Safety
/// `reference` points to `length` bytes, `pool_handles` to `count` handles; `stream` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stream_attach_reference(
    reference: *const c_void,
    length: usize,
    pool_handles: *const u64,
    count: usize,
    stream: *mut u64,
) -> c_int {
    enter(|| {
        takes(stream)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        // SAFETY: and about the pools.
        let pools = unsafe { pools(pool_handles, count) }?;
        let adapter = Adapter::attach_reference(reference, known(&pools))?;
        // SAFETY: and about the output.
        unsafe { keep(Object::Stream(Streams { adapter, pools }), stream) }
    })
}

/// Uses the adapter that a reference names, of this host or, through a gateway, of another one.
///
/// # Safety
/// As for [`umbra_stream_attach_reference`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stream_attach_anywhere(
    reference: *const c_void,
    length: usize,
    pool_handles: *const u64,
    count: usize,
    through: u64,
    timeout_ms: u64,
    stream: *mut u64,
) -> c_int {
    enter(|| {
        takes(stream)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        // SAFETY: and about the pools.
        let pools = unsafe { pools(pool_handles, count) }?;
        let object = match RemoteStreams::attach(reference, &gateways(through)?, timeout(timeout_ms)) {
            Err(FarError::Local) => {
                let adapter = Adapter::attach_reference(reference, known(&pools))?;
                Object::Stream(Streams { adapter, pools })
            }
            far => Object::FarStream(far?),
        };
        // SAFETY: and about the output.
        unsafe { keep(object, stream) }
    })
}

/// The bytes by which other processes attach.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `length` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stream_reference(
    stream: u64,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    enter(|| {
        let near = |streams: &Streams| Ok(streams.adapter.reference()?);
        let reference = with_any_stream(stream, near, |far| Ok(far.reference().to_vec()))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_measured(&reference, buffer, capacity, length) }
    })
}

/// Releases the handle; conversations of this process go on, and the adapter stays with the others.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stream_detach(stream: u64) -> c_int {
    enter(|| {
        with_any_stream(stream, |_| Ok(()), |_| Ok(()))?;
        HANDLES.release(stream).map(drop)
    })
}

/// Ends the adapter for all; the handle is still to be released.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stream_destroy(stream: u64) -> c_int {
    enter(|| with_stream(stream, |streams| Ok(streams.adapter.destroy()?)))
}

/// Tells how many places are what.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stream_statistics(stream: u64, statistics: *mut Figures) -> c_int {
    enter(|| {
        let counts = with_any_stream(stream, |streams| Ok(streams.adapter.counts()?), |far| Ok(far.counts()?))?;
        let figures = Figures {
            size: size_of::<Figures>(),
            idle: counts.idle as u64,
            waiting: counts.waiting as u64,
            offered: counts.offered as u64,
            kept: counts.kept as u64,
            room: counts.room as u64,
        };
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &figures, size_of::<Figures>()) }
    })
}

/// Takes back what dead processes held.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stream_reclaim(stream: u64) -> c_int {
    enter(|| with_stream(stream, |streams| Ok(streams.adapter.reap().map(drop)?)))
}

/// Takes a stream to keep and begin conversations in.
///
/// # Safety
/// `supplied` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stream_supply(stream: u64, supplied: *mut u64) -> c_int {
    enter(|| {
        takes(supplied)?;
        let adapter = with_stream(stream, |streams| Ok(streams.adapter.clone()))?;
        let place = Place::try_new(adapter, Adapter::supply)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Supplied(place), supplied) }
    })
}

/// Gives a kept stream up.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_supplied_release(supplied: u64) -> c_int {
    enter(|| {
        with_supplied(supplied, |found| found.map(drop).ok_or_else(|| Code::Stale.into()))?;
        HANDLES.release(supplied).map(drop)
    })
}

/// Counts a task that is to be done.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stream_new_task(stream: u64) -> c_int {
    enter(|| with_any_stream(stream, |streams| Ok(streams.adapter.new_task()?), |far| Ok(far.new_task()?)))
}

/// Counts a task as done.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stream_task_done(stream: u64) -> c_int {
    enter(|| with_any_stream(stream, |streams| Ok(streams.adapter.task_done()?), |far| Ok(far.task_done()?)))
}

/// Waits until all tasks are done.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stream_join_tasks(stream: u64, wait_mode: u32, timeout_ms: u64) -> c_int {
    enter(|| {
        let (mode, timeout) = (mode(wait_mode)?, timeout(timeout_ms));
        let near = |streams: &Streams| Ok(streams.adapter.join_tasks(mode, timeout)?);
        with_any_stream(stream, near, |far| Ok(far.join_tasks(timeout)?))
    })
}
