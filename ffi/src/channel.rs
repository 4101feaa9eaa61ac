//! `umbra_channel_*`: bounded queues of messages between processes.

use std::ffi::{c_int, c_void};

use umbra::channel::{Attributes, Channel, Error, Event, Kind, Message, SendOptions, WaitMode};
use umbra::gateway::{Error as FarError, RemoteChannel};
use umbra_core::error::Status;
use umbra_core::gateway::MESSAGE_MAX;

use crate::call::{
    by_copy, enter, fresh, short, sized, store, store_measured, store_unless_null, takes, takes_unless_null, zeros,
};
use crate::far::{gateways, with_any_channel};
use crate::object::{HANDLES, Object, with_channel};
use crate::pool::{bytes, keep, timeout};
use crate::status::{Code, Failure};

/// `struct umbra_channel_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    uid: u64,
    capacity: u32,
    block: u32,
    members: u32,
    max_spinners: u32,
    kind: u32,
    bounded: u32,
    initial: u64,
}

impl Options {
    pub(crate) fn attributes(&self) -> Result<Attributes, Failure> {
        let usual = Attributes::default();
        let or = |number: u32, usual: u32| if number == 0 { usual } else { number };
        let kind = match self.kind {
            0 => Kind::Messages,
            1 => Kind::Semaphore { initial: self.initial, bounded: self.bounded != 0 },
            other => return Err(Failure::new(Code::Invalid, format!("no kind of channel is called {other}"))),
        };
        Ok(Attributes {
            uid: self.uid,
            capacity: or(self.capacity, usual.capacity),
            block: or(self.block, usual.block),
            spares: usual.spares,
            members: short(or(self.members, usual.members.into()), "members")?,
            max_spinners: or(self.max_spinners, usual.max_spinners),
            kind,
        })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error {
            Error::Empty => Code::Empty,
            Error::Full | Error::TooManyMembers(_) | Error::SemaphoreFull => Code::Status(Status::Full),
            Error::Timeout | Error::NotReceived => Code::Status(Status::Timeout),
            Error::Destroyed => Code::Destroyed,
            Error::MessageTooLarge { .. } => Code::Never,
            Error::PadTooSmall { .. } => Code::TooSmall,
            Error::WrongKind => Code::WrongKind,
            Error::BarrierBroken => Code::Broken,
            Error::BarrierTryAgain => Code::NotReady,
            Error::BarrierMixed => Code::InUse,
            Error::VersionMismatch(_) => Code::Version,
            Error::Damaged => Code::Damaged,
            Error::Forked => Code::Stale,
            Error::Reference(reference) => return reference.into(),
            Error::Pool(pool) => return pool.into(),
            Error::Segment(_) | Error::NoMemory(_) | Error::Random(_) | Error::Descriptor(_) | Error::Process(_) => {
                Code::System
            }
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

pub(crate) fn mode(mode: u32) -> Result<WaitMode, Failure> {
    match mode {
        0 => Ok(WaitMode::Adaptive),
        1 => Ok(WaitMode::Idle),
        2 => Ok(WaitMode::Spin),
        other => Err(Failure::new(Code::Invalid, format!("no wait mode is called {other}"))),
    }
}

/// Makes a channel.
///
/// # Safety
/// `options` points to a structure that begins with its size; `channel` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_create(options: *const Options, channel: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let attributes = unsafe { sized(options, size_of::<Options>()) }?.attributes()?;
        takes(channel)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Channel(Channel::create(&attributes)?.into()), channel) }
    })
}

/// Uses the channel that a reference names.
///
/// # Safety
/// `reference` points to `length` bytes; `channel` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_attach_reference(
    reference: *const c_void,
    length: usize,
    channel: *mut u64,
) -> c_int {
    enter(|| {
        takes(channel)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        // SAFETY: and about the output.
        unsafe { keep(Object::Channel(Channel::attach_reference_once(reference)?), channel) }
    })
}

/// Uses the channel that a reference names, of this host or, through a gateway, of another one.
///
/// # Safety
/// As for [`umbra_channel_attach_reference`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_attach_anywhere(
    reference: *const c_void,
    length: usize,
    through: u64,
    timeout_ms: u64,
    channel: *mut u64,
) -> c_int {
    enter(|| {
        takes(channel)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        let object = match RemoteChannel::attach(reference, &gateways(through)?, timeout(timeout_ms)) {
            Err(FarError::Local) => Object::Channel(Channel::attach_reference_once(reference)?),
            far => Object::FarChannel(far?),
        };
        // SAFETY: and about the output.
        unsafe { keep(object, channel) }
    })
}

/// The bytes by which other processes attach.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `length` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_reference(
    channel: u64,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    enter(|| {
        let reference = with_any_channel(channel, |near| Ok(near.reference()?), |far| Ok(far.reference().to_vec()))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_measured(&reference, buffer, capacity, length) }
    })
}

/// Releases the handle; the channel stays with the others.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_channel_detach(channel: u64) -> c_int {
    enter(|| {
        with_any_channel(channel, |_| Ok(()), |_| Ok(()))?;
        HANDLES.release(channel).map(drop)
    })
}

/// Ends the channel for all; the handle is still to be released.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_channel_destroy(channel: u64) -> c_int {
    enter(|| with_channel(channel, |channel| Ok(channel.destroy()?)))
}

/// Takes back what dead processes held.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_channel_reclaim(channel: u64) -> c_int {
    enter(|| with_channel(channel, |channel| Ok(channel.reap().map(drop)?)))
}

/// Sends a copy of the bytes, and 64 bits beside them.
///
/// # Safety
/// `message` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_send(
    channel: u64,
    message: *const c_void,
    length: usize,
    hints: u64,
    wait_mode: u32,
    timeout_ms: u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let message = unsafe { bytes(message, length) }?;
        let (options, timeout) =
            (SendOptions { mode: mode(wait_mode)?, ..SendOptions::default() }, timeout(timeout_ms));
        let near = |channel: &Channel| Ok(channel.sender(options)?.send(message, hints, timeout)?);
        with_any_channel(channel, near, |far| Ok(far.send(message, hints, timeout)?))
    })
}

/// Receives the first message into the caller's memory.
///
/// # Safety
/// `buffer` points to `capacity` bytes; the outputs are valid for writing, `hints` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_receive(
    channel: u64,
    buffer: *mut c_void,
    capacity: usize,
    wait_mode: u32,
    timeout_ms: u64,
    length: *mut usize,
    hints: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { first(channel, (buffer, capacity), wait_mode, timeout_ms, (length, hints), false) }
}

/// Looks at the first message: as much of it as there is room for, and how long it is.
///
/// # Safety
/// `buffer` points to `capacity` bytes; the outputs are valid for writing, `hints` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_peek(
    channel: u64,
    buffer: *mut c_void,
    capacity: usize,
    wait_mode: u32,
    timeout_ms: u64,
    length: *mut usize,
    hints: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { first(channel, (buffer, capacity), wait_mode, timeout_ms, (length, hints), true) }
}

/// Has the first message put into the caller's memory, or a part of it if it stays, and says how long it is.
///
/// # Safety
/// As for [`umbra_channel_receive`].
unsafe fn first(
    channel: u64,
    (buffer, capacity): (*mut c_void, usize),
    wait_mode: u32,
    timeout_ms: u64,
    (length, hints): (*mut usize, *mut u64),
    it_stays: bool,
) -> c_int {
    enter(|| {
        // A message is received once: first of all there must be places for what it says.
        takes(length)?;
        takes_unless_null(hints)?;
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::new(Code::Invalid, "buffer is null"));
        }
        let (mode, timeout) = (mode(wait_mode)?, timeout(timeout_ms));
        // SAFETY: the caller's promise about the buffer.
        let pad = |len: usize| unsafe { fresh(buffer, capacity.min(len)) };
        let told = |message: Message| (message, message.len);
        let near = |channel: &Channel| {
            let receiver = channel.receiver(mode)?;
            if !it_stays {
                return Ok(receiver.receive_with(capacity, pad, timeout).map_err(Into::into));
            }
            // Others may take the message while it is copied, and then there is none.
            let (seen, message) = match receiver.peek_up_to(capacity, timeout) {
                Ok(seen) => seen,
                Err(error) => return Ok(Err(error.into())),
            };
            pad(seen.len()).copy_from_slice(&seen);
            Ok(Ok(message))
        };
        let far = |channel: &RemoteChannel| {
            let ask = |own: &mut [u8]| {
                let done = if it_stays { channel.peek(own, timeout) } else { channel.receive(own, timeout) };
                done.map(told)
            };
            // Of a channel in a pool, messages may be longer than a block.
            let own = zeros(capacity.min(MESSAGE_MAX))?;
            // SAFETY: as above.
            Ok(unsafe { by_copy(buffer, own, ask) })
        };
        let message = match with_any_channel(channel, near, far)? {
            Err(FarError::Channel(Error::PadTooSmall { len, pad })) => {
                // SAFETY: the caller's promise about the outputs.
                unsafe { store(length, len) }?;
                return Err(Error::PadTooSmall { len, pad }.into());
            }
            done => done?,
        };
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_unless_null(hints, message.hints) }?;
        // SAFETY: as above.
        unsafe { store(length, message.len) }
    })
}

/// Waits for an event, or asks for a number, or does what the event says.
///
/// # Safety
/// `result` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_poll(
    channel: u64,
    event: c_int,
    wait_mode: u32,
    timeout_ms: u64,
    result: *mut u64,
) -> c_int {
    enter(|| {
        takes_unless_null(result)?;
        let (event, mode, timeout) = (Event::try_from(event)?, mode(wait_mode)?, timeout(timeout_ms));
        let near = |channel: &Channel| Ok(channel.poll(event, mode, timeout)?);
        let polled = with_any_channel(channel, near, |far| Ok(far.poll(event, timeout)?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store_unless_null(result, polled) }
    })
}

/// One wait at the channel's barrier: how many came before.
///
/// # Safety
/// `came` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_channel_barrier(channel: u64, wait_mode: u32, timeout_ms: u64, came: *mut u32) -> c_int {
    enter(|| {
        takes(came)?;
        let (mode, timeout) = (mode(wait_mode)?, timeout(timeout_ms));
        let near = |channel: &Channel| Ok(channel.barrier()?.wait(mode, timeout)?);
        let number = with_any_channel(channel, near, |far| Ok(far.meet(timeout)?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(came, number) }
    })
}
