//! `umbra_sender_*`: the sending end of a conversation.

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::sync::Mutex;

use umbra::gateway::RemoteStreams;
use umbra::stream::{SendOptions, Sender};
use umbra_core::heap::BlockId;

use crate::call::{enter, sized, store, store_measured, store_unless_null, takes, takes_unless_null};
use crate::channel::mode;
use crate::conversed::{Speaker, Streams, Talk, chunk_of};
use crate::far::{with_any_speech, with_any_stream};
use crate::named::{with_speech, with_supplied};
use crate::object::{HANDLES, Object, with_pool};
use crate::pool::{bytes, keep, timeout};
use crate::status::{Code, Failure};

/// `struct umbra_sender_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    supplied: u64,
    pool: u64,
    arg: u64,
    buffered: u32,
    may_be_cut: u32,
    deposit_after: u32,
    wait_mode: u32,
}

/// The uid of a pool that a handle names; 0 is none.
pub(crate) fn uid_of(pool: u64) -> Result<Option<u64>, Failure> {
    if pool == 0 { Ok(None) } else { with_pool(pool, |pool| Ok(Some(pool.uid()))) }
}

/// Begins a conversation as its sender.
///
/// # Safety
/// `options` points to a structure that begins with its size; `sender` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_sender_open(
    stream: u64,
    options: *const Options,
    timeout_ms: u64,
    sender: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        takes(sender)?;
        let (placed_in, wait, timeout) = (uid_of(options.pool)?, mode(options.wait_mode)?, timeout(timeout_ms));
        let opened = with_supplied(options.supplied, |supplied| {
            let options = SendOptions {
                buffered: options.buffered != 0,
                may_be_cut: options.may_be_cut != 0,
                stream: supplied,
                deposit_after: options.deposit_after,
                placed_in,
                arg: options.arg,
                mode: wait,
                ..SendOptions::default()
            };
            let near = |streams: &Streams| {
                let adapter = streams.adapter.clone();
                let speaker = Speaker::try_new(adapter, |adapter| adapter.send(&options, timeout).map(Talk::Open))?;
                Ok(Object::Sender(Mutex::new(speaker)))
            };
            let far = |streams: &RemoteStreams| {
                Ok(Object::FarSender(Mutex::new(Talk::Open(streams.send(&options, timeout)?))))
            };
            with_any_stream(stream, near, far)
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(opened, sender) }
    })
}

/// Sends bytes, and 64 bits beside them.
///
/// # Safety
/// `message` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_sender_send(
    sender: u64,
    message: *const c_void,
    length: usize,
    arg: u64,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let message = unsafe { bytes(message, length) }?;
        let timeout = timeout(timeout_ms);
        with_any_speech(
            sender,
            |near| Ok(near.open()?.send(message, arg, timeout)?),
            |far| Ok(far.open()?.send(message, arg, timeout)?),
        )
    })
}

/// Keeps bytes to be sent with what comes next, or with the close.
///
/// # Safety
/// `message` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_sender_keep(sender: u64, message: *const c_void, length: usize, arg: u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let message = unsafe { bytes(message, length) }?;
        with_any_speech(sender, |near| Ok(near.open()?.keep(message, arg)?), |far| Ok(far.open()?.keep(message, arg)?))
    })
}

/// Takes back what was kept.
///
/// # Safety
/// `buffer` points to `capacity` bytes; the outputs are valid for writing, `arg` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_sender_take_kept(
    sender: u64,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    arg: *mut u64,
) -> c_int {
    enter(|| {
        takes(length)?;
        takes_unless_null(arg)?;
        with_speech(sender, |speech| {
            let end = speech.open()?;
            // SAFETY: the caller's promise about the outputs and the buffer.
            unsafe { store_measured(end.kept(), buffer, capacity, length) }?;
            let (_, first) = end.take_kept();
            // SAFETY: as above.
            unsafe { store_unless_null(arg, first) }
        })
    })
}

/// Sends what was kept.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_sender_flush(sender: u64, timeout_ms: u64) -> c_int {
    enter(|| {
        let timeout = timeout(timeout_ms);
        with_any_speech(sender, |near| Ok(near.open()?.flush(timeout)?), |far| Ok(far.open()?.flush(timeout)?))
    })
}

/// Hands an allocation over, or lends it.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_sender_send_memory(
    sender: u64,
    pool: u64,
    allocation: u64,
    is_lent: u32,
    arg: u64,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        with_pool(pool, |pool| {
            let memory = pool.allocation(BlockId::from_bits(allocation))?;
            with_speech(sender, |speech| {
                let (end, patience) = (speech.open()?, timeout(timeout_ms));
                match is_lent {
                    0 => Ok(end.send_memory(memory, arg, patience)?),
                    1 => Ok(end.lend_memory(&memory, arg, patience)?),
                    other => Err(Failure::new(Code::Invalid, format!("lent is 0 or 1, not {other}"))),
                }
            })
        })
    })
}

/// A descriptor: what is written to it is sent.
///
/// # Safety
/// `descriptor` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_sender_open_file(sender: u64, chunk: usize, descriptor: *mut c_int) -> c_int {
    enter(|| {
        takes(descriptor)?;
        let chunk = chunk_of(chunk)?;
        with_speech(sender, |speech| {
            let file = speech.open_file(chunk, Sender::into_file)?;
            // SAFETY: the caller's promise about the output.
            unsafe { store(descriptor, file.into_raw_fd()) }
        })
    })
}

/// Waits until the descriptor is closed and all of it was sent.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_sender_finish_file(sender: u64, timeout_ms: u64) -> c_int {
    enter(|| with_speech(sender, |speech| speech.finish_file(|file| file.finish(timeout(timeout_ms)))))
}

/// Ends the conversation and releases the handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_sender_close(sender: u64, timeout_ms: u64) -> c_int {
    enter(|| {
        let timeout = timeout(timeout_ms);
        let ended = with_any_speech(
            sender,
            |near| near.close(|end| end.close(timeout)),
            |far| far.close(|end| end.close(timeout)),
        )?;
        // Another close that found it over may have done so.
        let _ = HANDLES.release(sender);
        ended
    })
}
