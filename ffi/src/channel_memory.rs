//! `umbra_channel_*_memory`: memory of pools through channels, without a copy.
//!
//! Such a channel lies in a pool.

use std::ffi::c_int;

use umbra::channel::{Channel, SendOptions};

use crate::call::{enter, sized, store, takes};
use crate::channel::{Options, mode};
use crate::content::part;
use crate::object::{Object, shared_pool, with_channel, with_pool};
use crate::pool::{keep, timeout};
use crate::receiver::Received;
use crate::status::{Code, Failure};

/// Makes a channel in a pool, of which its messages may be about memory.
///
/// # Safety
/// `options` points to a structure that begins with its size; `channel` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_create_in(pool: u64, options: *const Options, channel: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let attributes = unsafe { sized(options, size_of::<Options>()) }?.attributes()?;
        takes(channel)?;
        let pool = shared_pool(pool)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Channel(Channel::create_in(&pool, &attributes)?.into()), channel) }
    })
}

/// Hands a part of an allocation over, with all of it, or lends the part.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_channel_send_memory(
    channel: u64,
    pool: u64,
    allocation: u64,
    offset: u64,
    length: u64,
    is_lent: u32,
    hints: u64,
    wait_mode: u32,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        let (options, patience) =
            (SendOptions { mode: mode(wait_mode)?, ..SendOptions::default() }, timeout(timeout_ms));
        with_pool(pool, |pool| {
            let memory = part(pool, allocation, offset, length)?;
            with_channel(channel, |channel| {
                let sender = channel.sender(options)?;
                match is_lent {
                    0 => Ok(sender.send_memory(memory, hints, patience)?),
                    1 => Ok(sender.lend_memory(&memory, hints, patience)?),
                    other => Err(Failure::new(Code::Invalid, format!("lent is 0 or 1, not {other}"))),
                }
            })
        })
    })
}

/// Receives the first message as memory of a pool: where it lies, if it lies there, or else in a new allocation.
///
/// # Safety
/// `received` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_receive_memory(
    channel: u64,
    pool: u64,
    wait_mode: u32,
    timeout_ms: u64,
    received: *mut Received,
) -> c_int {
    enter(|| {
        takes(received)?;
        let (mode, patience) = (mode(wait_mode)?, timeout(timeout_ms));
        let found = with_pool(pool, |near| {
            with_channel(channel, |channel| {
                let parcel = channel.receiver(mode)?.receive_placed(near, patience)?;
                let (id, offset) = parcel.place()?;
                let length = parcel.message().len as u64;
                // The channel may know the pool by another handle, which has it elsewhere.
                let address = near.allocation(id)?.part(offset, length)?.pointer()?.as_ptr().cast();
                let (allocation, arg) = (id.to_bits(), parcel.message().hints);
                Ok(Received { pool, allocation, address, length, arg, lent: parcel.is_lent().into() })
            })
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(received, found) }
    })
}
