//! `umbra_region_*`: memory that service processes may read.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use umbra::session::Left;
use umbra_core::error::Status;
use umbra_core::key::Access;

use crate::call::{enter, store, store_unless_null, takes, takes_unless_null};
use crate::object::{HANDLES, Held, Memory, Object, allocate, session, with_region};
use crate::status::{Code, Failure};

fn lock(region: &Held) -> Result<MutexGuard<'_, Memory>, Failure> {
    region.session.lock(&region.memory)
}

/// Does something with where the memory is, and its length; an exported one stays there meanwhile, for leaving the session
/// waits for that.
fn at_its_place<R>(
    region: &Held,
    memory: &Memory,
    act: impl FnOnce(u64, u64) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match memory {
        Memory::Ours(exported) => {
            let (address, len) = exported.span();
            act(address, len)
        }
        Memory::Exported(key) => region.session.ask(|session| {
            let (address, len) = session.exported(*key).ok_or(Status::UnknownRegion)?;
            act(address, len)
        }),
        Memory::Gone => Err(Status::KeyRevoked.into()),
    }
}

/// Allocates zeroed memory that can be exported; it belongs to the region until that is freed.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_region_allocate(
    joined: u64,
    len: usize,
    memory: *mut *mut c_void,
    region: *mut u64,
) -> c_int {
    enter(|| {
        takes(memory)?;
        takes(region)?;
        let held = Held { session: session(joined)?, memory: Mutex::new(allocate(len)?) };
        let address = at_its_place(&held, &*lock(&held)?, |address, _| Ok(address))?;
        let handle = HANDLES.keep(Object::Region(held))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(memory, std::ptr::with_exposed_provenance_mut(address as usize)) }?;
        // SAFETY: as above.
        unsafe { store(region, handle) }
    })
}

/// Exports a region; memory that is not exported stays the region's.
///
/// # Safety
/// `key` is valid for writing, or null.
unsafe fn export(region: u64, key: *mut u64, access: Access) -> Result<(), Failure> {
    takes_unless_null(key)?;
    with_region(region, |held| {
        let mut memory = lock(held)?;
        let name = held.session.change(|session| {
            let exported = match std::mem::replace(&mut *memory, Memory::Gone) {
                Memory::Ours(exported) => exported,
                other => {
                    *memory = other;
                    let why = "region is exported, or a failed export of it is not over yet: revoke it first";
                    return Err(Failure::new(Code::Invalid, why));
                }
            };
            session.export(exported, access).map_err(|why| {
                *memory = match why.memory {
                    Left::Back(exported) => Memory::Ours(exported),
                    Left::Held(key) => Memory::Exported(key),
                    Left::Lost => Memory::Gone,
                };
                Failure::from(*why.error)
            })
        })?;
        *memory = Memory::Exported(name);
        // SAFETY: the caller's promise about the output.
        unsafe { store_unless_null(key, name.to_bits()) }
    })
}

/// Exports a region for reading; returns when all shadow service processes of this rank can read it.
///
/// # Safety
/// `key` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_region_export(region: u64, key: *mut u64) -> c_int {
    // SAFETY: forwarded.
    enter(|| unsafe { export(region, key, Access::READ) })
}

/// Exports a region that does not change until it is revoked, so that service processes may keep copies of it.
///
/// # Safety
/// `key` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_region_export_constant(region: u64, key: *mut u64) -> c_int {
    // SAFETY: forwarded.
    enter(|| unsafe { export(region, key, Access::READ | Access::CONSTANT) })
}

/// Copies bytes out of a region of this process, with the same checks of bounds that a remote reader meets.
///
/// # Safety
/// `buffer` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_region_read(region: u64, offset: u64, buffer: *mut c_void, len: usize) -> c_int {
    enter(|| {
        with_region(region, |held| {
            // The lock keeps the region from being revoked until the copy is made.
            let memory = lock(held)?;
            at_its_place(held, &memory, |address, size| {
                let within = offset.checked_add(len as u64).is_some_and(|end| end <= size);
                if !within {
                    return Err(Status::OutOfBounds.into());
                }
                if buffer.is_null() && len > 0 {
                    return Err(Failure::new(Code::Invalid, "buffer is null"));
                }
                let from: *const u8 = std::ptr::with_exposed_provenance((address + offset) as usize);
                // SAFETY: `within` says that the range lies in the region, which stays mapped in here while `memory` is
                // locked, and is only ever written by this program, which must not do so during a read of its own.
                unsafe { std::ptr::copy(from, buffer.cast::<u8>(), len) };
                Ok(())
            })
        })
    })
}

/// Takes a region back; when this returns no service process reads it any more. It can be exported again.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_region_revoke(region: u64) -> c_int {
    enter(|| {
        with_region(region, |held| {
            let mut memory = lock(held)?;
            let Memory::Exported(key) = *memory else {
                return Err(Failure::new(Status::UnknownRegion, "region is not exported"));
            };
            *memory = Memory::Ours(held.session.change(|s| s.revoke(key).map_err(Failure::from))?);
            Ok(())
        })
    })
}

/// Revokes a region if it is exported, frees its memory and releases its handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_region_free(region: u64) -> c_int {
    enter(|| {
        with_region(region, |held| {
            let mut memory = match lock(held) {
                // A thread of the parent has it.
                Err(failure) if failure.code == Code::Stale => return Ok(()),
                memory => memory?,
            };
            if let Memory::Exported(key) = *memory {
                match held.session.change(|s| s.revoke(key).map_err(Failure::from)) {
                    Ok(_) => {}
                    // The session is over, and its memory with it.
                    Err(failure) if failure.code == Code::Stale => {}
                    Err(failure) => return Err(failure),
                }
            }
            *memory = Memory::Gone;
            Ok(())
        })?;
        HANDLES.release(region).map(|_| ())
    })
}
