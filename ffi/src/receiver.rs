//! `umbra_receiver_*`: the receiving end of a conversation.

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex};

use umbra::gateway::RemoteStreams;
use umbra::stream::{Message, ReceiveOptions, Receiver};

use crate::call::{
    by_copy, enter, fresh, sized, store, store_measured, store_unless_null, takes, takes_unless_null, zeros,
};
use crate::channel::mode;
use crate::conversed::{Ear, FarEar, Hearer, Streams, Talk, chunk_of};
use crate::far::{with_any_hearing, with_any_stream};
use crate::named::{with_hearing, with_supplied};
use crate::object::{HANDLES, Object};
use crate::pool::{keep, timeout};
use crate::sender::uid_of;
use crate::status::{Code, Failure};

/// Bytes of a message that are received at once into the caller's memory.
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
    pub(crate) pool: u64,
    pub(crate) allocation: u64,
    pub(crate) address: *mut c_void,
    pub(crate) length: u64,
    pub(crate) arg: u64,
    pub(crate) lent: u32,
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
        let (placed_in, wait, timeout) = (uid_of(options.pool)?, mode(options.wait_mode)?, timeout(timeout_ms));
        let opened = with_supplied(options.supplied, |supplied| {
            let how = ReceiveOptions { stream: supplied, placed_in, mode: wait, ..ReceiveOptions::default() };
            let near = |streams: &Streams| {
                let hearer = Hearer::try_new(streams.adapter.clone(), |adapter| {
                    let mut end = adapter.receive(&how, timeout)?;
                    end.set_frees(options.keep_memory == 0);
                    Ok::<_, umbra::stream::Error>(Talk::Open(end))
                })?;
                let ear = Ear { hearer, pools: Arc::clone(&streams.pools), message: Vec::new() };
                Ok(Object::Receiver(Mutex::new(ear)))
            };
            let far = |streams: &RemoteStreams| {
                let ear = FarEar { hearing: Talk::Open(streams.receive(&how, timeout)?), message: Vec::new() };
                Ok(Object::FarReceiver(Mutex::new(ear)))
            };
            with_any_stream(stream, near, far)
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(opened, receiver) }
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
        takes_unless_null(arg)?;
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::new(Code::Invalid, "buffer is null"));
        }
        if exactly != 0 && isize::try_from(capacity).is_err() {
            return Err(Failure::new(Code::Invalid, format!("no buffer has {capacity} bytes")));
        }
        let timeout = timeout(timeout_ms);
        let room = if exactly == 0 { capacity.min(AT_ONCE) } else { capacity };
        // SAFETY: the caller's promise about the buffer.
        let pad = |len: usize| unsafe { fresh(buffer, len.min(room)) };
        let piece = with_any_hearing(
            receiver,
            |near, _, _| {
                let end = near.open()?;
                Ok(match exactly {
                    0 => end.receive_into_with(room, pad, timeout),
                    _ => end.receive_exact_with(room, pad, timeout),
                }?)
            },
            |far, _| {
                let (end, own) = (far.open()?, zeros(room)?);
                let ask = |own: &mut [u8]| {
                    let read =
                        if exactly == 0 { end.receive_into(own, timeout) } else { end.receive_exact(own, timeout) };
                    read.map(|piece| (piece, piece.len))
                };
                // SAFETY: as above.
                Ok(unsafe { by_copy(buffer, own, ask) }?)
            },
        )?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_unless_null(arg, piece.arg) }?;
        // SAFETY: as above.
        unsafe { store(length, piece.len) }
    })
}

/// Receives a whole message into the caller's memory; one that does not fit comes again.
///
/// # Safety
/// `buffer` points to `capacity` bytes; the outputs are valid for writing, `arg` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_receiver_receive_whole(
    receiver: u64,
    buffer: *mut c_void,
    capacity: usize,
    timeout_ms: u64,
    length: *mut usize,
    arg: *mut u64,
) -> c_int {
    enter(|| {
        takes(length)?;
        takes_unless_null(arg)?;
        let timeout = timeout(timeout_ms);
        let copy = |message: &Message| {
            // SAFETY: the caller's promise about the buffer and the length.
            unsafe { store_measured(&message.bytes, buffer, capacity, length) }.map(|()| message.arg)
        };
        let beside = with_any_hearing(
            receiver,
            |near, _, _| {
                let end = near.open()?;
                let message = end.receive(timeout)?;
                copy(&message).inspect_err(|_| end.put_back(message))
            },
            |far, _| {
                let end = far.open()?;
                let message = end.receive(timeout)?;
                copy(&message).inspect_err(|_| end.put_back(message))
            },
        )?;
        // SAFETY: as above.
        unsafe { store_unless_null(arg, beside) }
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
        takes_unless_null(arg)?;
        let timeout = timeout(timeout_ms);
        let keep = |message: Message, last: &mut Vec<u8>| {
            *last = message.bytes;
            Ok((last.as_ptr(), last.len(), message.arg))
        };
        let (start, len, beside) = with_any_hearing(
            receiver,
            |near, _, last| keep(near.open()?.receive(timeout)?, last),
            |far, last| keep(far.open()?.receive(timeout)?, last),
        )?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_unless_null(arg, beside) }?;
        // SAFETY: as above.
        unsafe { store(length, len) }?;
        // SAFETY: as above.
        unsafe { store(bytes, start.cast()) }
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
        let is_over = with_any_hearing(
            receiver,
            |near, _, _| Ok(near.open()?.has_ended()),
            |far, _| Ok(far.open()?.has_ended()),
        )?;
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
            let file = hearing.open_file(chunk, Receiver::into_file)?;
            // SAFETY: the caller's promise about the output.
            unsafe { store(descriptor, file.into_raw_fd()) }
        })
    })
}

/// Waits until the stream has ended, or the descriptor was closed.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_receiver_finish_file(receiver: u64, timeout_ms: u64) -> c_int {
    enter(|| with_hearing(receiver, |hearing, _, _| hearing.finish_file(|file| file.finish(timeout(timeout_ms)))))
}

/// Ends the conversation and releases the handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_receiver_close(receiver: u64, timeout_ms: u64) -> c_int {
    enter(|| {
        let timeout = timeout(timeout_ms);
        let ended = with_any_hearing(
            receiver,
            |near, _, _| near.close(|end| end.close(timeout)),
            |far, _| far.close(|end| end.close(timeout)),
        )?;
        // Another close that found it over may have done so.
        let _ = HANDLES.release(receiver);
        ended
    })
}
