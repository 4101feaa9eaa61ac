//! `umbra_session_read`, `umbra_read_*`: memory of other ranks, by tickets.
//!
//! A ticket is made by `umbra_region_ticket`, and `umbra_ticket_describe` tells what it names.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

use umbra::session::{Posted, Session};
use umbra::sys::heap::reserved;
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::peer::PeerKind;
use umbra_core::ticket::{TICKET, Ticket};

use crate::call::{enter, store, store_bytes, takes};
use crate::object::{HANDLES, Memory, Object, Progress, Reading, session, with_read, with_region};
use crate::status::{Code, Failure};

/// A ticket as C holds it: `struct umbra_ticket`. Plain bytes; their version is inside.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicketBytes {
    bytes: [u8; TICKET],
}

/// # Safety
/// `from` is null, or points to a ticket that does not change during the call.
unsafe fn ticket(from: *const TicketBytes) -> Result<Ticket, Failure> {
    if from.is_null() {
        return Err(Failure::new(Code::Invalid, "ticket is null"));
    }
    // SAFETY: not null, and bytes have no alignment; that a ticket is there is the caller's promise.
    let bytes = unsafe { from.read() };
    Ticket::parse(&bytes.bytes).map_err(|error| Failure::new(Status::Malformed, error))
}

fn lock(reading: &Reading) -> Result<MutexGuard<'_, Progress>, Failure> {
    reading.session.lock(&reading.state)
}

/// Lets the session do something for a read; what it answers becomes the state.
fn advance(
    reading: &Reading,
    state: &mut Progress,
    act: impl FnOnce(&mut Session, Id<Posted>) -> Result<Option<Vec<u8>>, Failure>,
) {
    let Progress::Flying(read) = *state else { return };
    match reading.session.change(|s| act(s, read)) {
        Ok(Some(bytes)) => *state = Progress::Done(bytes),
        Ok(None) => {}
        Err(failure) => *state = Progress::Failed(failure.code, failure.detail),
    }
}

/// # Safety
/// `buffer` has room for `capacity` bytes.
unsafe fn deliver(state: &Progress, buffer: *mut c_void, capacity: usize) -> Result<bool, Failure> {
    match state {
        Progress::Flying(_) => Ok(false),
        // SAFETY: the caller's promise.
        Progress::Done(bytes) => unsafe { store_bytes(bytes, buffer, capacity) }.map(|()| true),
        Progress::Failed(code, detail) => Err(Failure::new(*code, detail)),
    }
}

/// Makes the ticket of an exported region, to be given to whom may read it.
///
/// # Safety
/// `out` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_region_ticket(region: u64, out: *mut TicketBytes) -> c_int {
    enter(|| {
        let made = with_region(region, |held| {
            let memory = held.session.lock(&held.memory)?;
            let Memory::Exported(key) = *memory else {
                return Err(Failure::new(Status::UnknownRegion, "region is not exported"));
            };
            held.session.ask(|s| s.ticket(key).ok_or_else(|| Status::UnknownRegion.into()))
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(out, TicketBytes { bytes: made.to_bytes() }) }
    })
}

/// Tells whose memory a ticket names and how long it is.
///
/// # Safety
/// `from` points to a ticket; the outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_ticket_describe(from: *const TicketBytes, world_rank: *mut u32, len: *mut u64) -> c_int {
    enter(|| {
        takes(world_rank)?;
        takes(len)?;
        // SAFETY: the caller's promise about the ticket.
        let ticket = unsafe { ticket(from) }?;
        let PeerKind::Rank(owner) = ticket.key.owner().kind() else { return Err(Status::UnknownRegion.into()) };
        // SAFETY: the caller's promise about the output.
        unsafe { store(world_rank, owner.0) }?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(len, ticket.len) }
    })
}

/// Reads bytes of another rank's region; returns when they are there.
///
/// # Safety
/// `from` points to a ticket; `buffer` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_read(
    joined: u64,
    from: *const TicketBytes,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the ticket.
        let ticket = unsafe { ticket(from) }?;
        let session = session(joined)?;
        let own = memory_for(&ticket, len)?;
        let bytes = session.change(|s| {
            let read = s.post_read(&ticket, offset, own)?;
            Ok(s.wait_read(read)?)
        })?;
        // SAFETY: the caller's promise about the buffer.
        unsafe { store_bytes(&bytes, buffer, len) }
    })
}

/// Says what this rank will read, so that its service process reads it ahead.
///
/// # Safety
/// `from` points to a ticket; `said` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_read_ahead(
    joined: u64,
    from: *const TicketBytes,
    offset: u64,
    len: u64,
    said: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the ticket.
        let ticket = unsafe { ticket(from) }?;
        let bytes = session(joined)?.change(|s| Ok(s.read_ahead(&ticket, offset, len)?))?;
        if said.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise about the output.
        unsafe { store(said, bytes) }
    })
}

/// Memory for a read of that many bytes. A ticket may name more than there is memory for; a length that no read of it has is
/// no reason to run out of memory.
fn memory_for(ticket: &Ticket, len: usize) -> Result<Vec<u8>, Failure> {
    if len as u64 > ticket.len {
        return Err(Status::OutOfBounds.into());
    }
    // All of it is written until the read is over.
    reserved(len, || 0).map_err(|error| Failure::new(Code::System, error))
}

/// Begins to read bytes of another rank's region, and returns at once.
///
/// # Safety
/// `from` points to a ticket; `read` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_read_post(
    joined: u64,
    from: *const TicketBytes,
    offset: u64,
    len: usize,
    read: *mut u64,
) -> c_int {
    enter(|| {
        takes(read)?;
        // SAFETY: the caller's promise about the ticket.
        let ticket = unsafe { ticket(from) }?;
        let session = session(joined)?;
        let own = memory_for(&ticket, len)?;
        let posted = session.change(|s| Ok(s.post_read(&ticket, offset, own)?))?;
        let state = Mutex::new(Progress::Flying(posted));
        let kept = HANDLES.keep(Object::Read(Reading { session: Arc::clone(&session), len, state }));
        let handle = kept.inspect_err(|_| {
            // Nobody could ever ask for a read without its handle.
            let _ = session.change(|s| Ok(s.cancel_read(posted)?));
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(read, handle) }
    })
}

/// Makes progress without waiting; stores the bytes and 1 if they are there, else 0.
///
/// # Safety
/// `buffer` has room for `capacity` bytes; `done` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_read_poll(read: u64, buffer: *mut c_void, capacity: usize, done: *mut c_int) -> c_int {
    enter(|| {
        takes(done)?;
        with_read(read, |reading| {
            let mut state = lock(reading)?;
            fits(reading, capacity)?;
            advance(reading, &mut state, |s, read| Ok(s.poll_read(read)?));
            // SAFETY: the caller's promise about the buffer.
            let there = unsafe { deliver(&state, buffer, capacity) }?;
            // SAFETY: the caller's promise about the output.
            unsafe { store(done, c_int::from(there)) }
        })
    })
}

/// Waits for the bytes of a posted read.
///
/// # Safety
/// `buffer` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_read_wait(read: u64, buffer: *mut c_void, capacity: usize) -> c_int {
    enter(|| {
        with_read(read, |reading| {
            let mut state = lock(reading)?;
            fits(reading, capacity)?;
            advance(reading, &mut state, |s, read| Ok(Some(s.wait_read(read)?)));
            // SAFETY: the caller's promise about the buffer.
            unsafe { deliver(&state, buffer, capacity) }.map(|_| ())
        })
    })
}

fn fits(reading: &Reading, capacity: usize) -> Result<(), Failure> {
    if capacity >= reading.len {
        return Ok(());
    }
    Err(Failure::new(Code::TooSmall, format!("buffer holds {capacity} bytes, {} are read", reading.len)))
}

/// Releases a read; one that has not ended is given up.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_read_free(read: u64) -> c_int {
    enter(|| {
        with_read(read, |reading| {
            match lock(reading) {
                // A thread of the parent has it.
                Err(failure) if failure.code == Code::Stale => {}
                state => {
                    if let Progress::Flying(posted) = *state? {
                        // A session that is over has forgotten it already.
                        let _ = reading.session.change(|s| Ok(s.cancel_read(posted)?));
                    }
                }
            }
            Ok(())
        })?;
        HANDLES.release(read).map(|_| ())
    })
}

#[cfg(test)]
mod tests {
    use umbra::sys::heap::total;
    use umbra_core::key::{Access, Key};
    use umbra_core::peer::{Peer, Sp, WorldRank};
    use umbra_core::ticket::Locator;

    use super::*;

    #[test]
    fn a_read_of_more_than_is_free_is_refused_though_the_system_would_promise_it() {
        let bytes = total().unwrap() as usize - (1 << 20);
        let key = Key::new(Peer::rank(WorldRank(1)).unwrap(), 0, 1);
        let ticket = Ticket { key, base: 0, len: 7, access: Access::READ, locator: Locator::Asked { sp: Sp(0) } };
        // Without the bytes, which nobody could print.
        let refused = |len| memory_for(&Ticket { len, ..ticket }, bytes).err().map(|failure| failure.code);
        assert_eq!([refused(u64::MAX), refused(7)], [Some(Code::System), Some(Code::Status(Status::OutOfBounds))]);
    }
}
