//! `umbra_receiver_*`: the receiving end of a conversation.

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex};

use umbra::stream::ReceiveOptions;

use crate::call::{enter, sized, store, takes};
use crate::channel::{fresh, mode, timeout};
use crate::conversed::{Ear, Hearer, Talk, chunk_of};
use crate::named::{with_hearing, with_stream, with_supplied};
use crate::object::{HANDLES, Object};
use crate::pool::keep;
use crate::sender::uid_of;
use crate::status::{Code, Failure};

/// Bytes of a message that are received at once into the caller's memory, which is made zero before.
const AT_ONCE: usize = 64 << 10;

/// `struct umbra_receiver_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    supplied: u64,
    pool: u64,
    wait_mode: u32,
    keep_memory: u32,
}

/// `struct umbra_received`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Received {
    pool: u64,
    allocation: u64,
    address: *mut c_void,
    length: u64,
    arg: u64,
    lent: u32,
}

/// Meets the sender of the oldest conversation that waits.
///
/// # Safety
/// `options` points to a structure that begins with its size; `receiver` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_open(
    stream: u64,
    options: *const Options,
    timeout_ms: u64,
    receiver: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        takes(receiver)?;
        let (adapter, pools) = with_stream(stream, |found| Ok((found.adapter.clone(), Arc::clone(&found.pools))))?;
        let (placed_in, wait) = (uid_of(options.pool)?, mode(options.wait_mode)?);
        let hearer = with_supplied(options.supplied, |supplied| {
            let how = ReceiveOptions { stream: supplied, placed_in, mode: wait, ..ReceiveOptions::default() };
            Ok(Hearer::try_new(adapter, |adapter| {
                let mut end = adapter.receive(&how, timeout(timeout_ms))?;
                end.set_frees(options.keep_memory == 0);
                Ok::<_, umbra::stream::Error>(Talk::Open(end))
            })?)
        })?;
        let ear = Ear { hearer, pools, message: Vec::new() };
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Receiver(Mutex::new(ear)), receiver) }
    })
}

/// Receives into the caller's memory: what there is of the next message, or, if `exactly`, as many bytes as that has.
///
/// # Safety
/// `buffer` points to `capacity` bytes; the outputs are valid for writing, `arg` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_receive(
    receiver: u64,
    buffer: *mut c_void,
    capacity: usize,
    exactly: u32,
    timeout_ms: u64,
    length: *mut usize,
    arg: *mut u64,
) -> c_int {
    enter(|| {
        // What is received is gone from the stream: first of all there must be places for what it says.
        takes(length)?;
        if !arg.is_null() {
            takes(arg)?;
        }
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::new(Code::Invalid, "buffer is null"));
        }
        with_hearing(receiver, |hearing, _, _| {
            let end = hearing.open()?;
            let room = if exactly == 0 { capacity.min(AT_ONCE) } else { capacity };
            // SAFETY: the caller's promise about the buffer.
            let pad = unsafe { fresh(buffer, room) };
            let piece = match exactly {
                0 => end.receive_into(pad, timeout(timeout_ms)),
                _ => end.receive_exact(pad, timeout(timeout_ms)),
            }?;
            if !arg.is_null() {
                // SAFETY: the caller's promise about the outputs.
                unsafe { store(arg, piece.arg) }?;
            }
            // SAFETY: as above.
            unsafe { store(length, piece.len) }
        })
    })
}

/// Receives a whole message, which stays where it is until the next call with this receiver.
///
/// # Safety
/// The outputs are valid for writing, `arg` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_receive_message(
    receiver: u64,
    timeout_ms: u64,
    bytes: *mut *const c_void,
    length: *mut usize,
    arg: *mut u64,
) -> c_int {
    enter(|| {
        takes(bytes)?;
        takes(length)?;
        if !arg.is_null() {
            takes(arg)?;
        }
        with_hearing(receiver, |hearing, _, kept| {
            let message = hearing.open()?.receive(timeout(timeout_ms))?;
            *kept = message.bytes;
            if !arg.is_null() {
                // SAFETY: the caller's promise about the outputs.
                unsafe { store(arg, message.arg) }?;
            }
            // SAFETY: as above.
            unsafe { store(length, kept.len()) }?;
            // SAFETY: as above.
            unsafe { store(bytes, kept.as_ptr().cast()) }
        })
    })
}

/// Receives the next message as memory of a pool.
///
/// # Safety
/// `received` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_receive_memory(
    receiver: u64,
    timeout_ms: u64,
    received: *mut Received,
) -> c_int {
    enter(|| {
        takes(received)?;
        with_hearing(receiver, |hearing, pools, _| {
            let found = hearing.open()?.receive_memory(timeout(timeout_ms))?;
            let memory = found.memory;
            let pool = pools.iter().find(|(_, pool)| pool.allocation(memory.id()).is_ok_and(|of| of.is_same(&memory)));
            let (pool, _) = pool.ok_or(Code::Stale)?;
            let what = Received {
                pool: *pool,
                allocation: memory.id().to_bits(),
                address: memory.pointer()?.as_ptr().cast(),
                length: memory.len(),
                arg: found.arg,
                lent: found.is_lent.into(),
            };
            // SAFETY: the caller's promise about the output.
            unsafe { store(received, what) }
        })
    })
}

/// Whether the sender has said everything, and it was received.
///
/// # Safety
/// `ended` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_has_ended(receiver: u64, ended: *mut c_int) -> c_int {
    enter(|| {
        takes(ended)?;
        let is_over = with_hearing(receiver, |hearing, _, _| Ok(hearing.open()?.has_ended()))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(ended, is_over.into()) }
    })
}

/// A descriptor from which what is received can be read.
///
/// # Safety
/// `descriptor` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_open_file(receiver: u64, chunk: usize, descriptor: *mut c_int) -> c_int {
    enter(|| {
        takes(descriptor)?;
        let chunk = chunk_of(chunk)?;
        with_hearing(receiver, |hearing, _, _| {
            let (file, copier) = hearing.take()?.into_file(chunk)?;
            *hearing = Talk::File(copier);
            // SAFETY: the caller's promise about the output.
            unsafe { store(descriptor, file.into_raw_fd()) }
        })
    })
}

/// Waits until the stream has ended, or the descriptor was closed.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_receiver_finish_file(receiver: u64, timeout_ms: u64) -> c_int {
    enter(|| {
        with_hearing(receiver, |hearing, _, _| {
            let (end, why) = hearing.file()?.finish(timeout(timeout_ms))?;
            *hearing = Talk::Open(end);
            why.map_or(Ok(()), |error| Err(error.into()))
        })
    })
}

/// Ends the conversation and releases the handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_receiver_close(receiver: u64, timeout_ms: u64) -> c_int {
    enter(|| {
        let ended = with_hearing(receiver, |hearing, _, _| Ok(hearing.take()?.close(timeout(timeout_ms))))?;
        HANDLES.release(receiver)?;
        Ok(ended?)
    })
}
