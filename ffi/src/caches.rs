//! `umbra_caches_*`: several slot caches, each under a key.

use std::ffi::c_int;

use umbra::cache::{BuildError, Caches, EndKeyError};
use umbra_core::cache::keyed::{CreateError, UnknownKey};

use crate::cache::Options;
use crate::cached::{FULL, failures};
use crate::call::{enter, store, takes};
use crate::object::{HANDLES, Object, Tenant, with_caches};
use crate::status::{Code, Failure};

/// Makes a table for so many caches.
///
/// # Safety
/// `created` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_caches_create(capacity: u32, created: *mut u64) -> c_int {
    enter(|| {
        takes(created)?;
        let handle = HANDLES.keep(Object::Caches(Caches::new(capacity as usize)?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

/// Makes a cache and puts it under a key.
///
/// # Safety
/// `options` points to a structure that begins with its size; `added` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_caches_add(caches: u64, key: u64, options: *const Options, added: *mut u64) -> c_int {
    enter(|| {
        with_caches(caches, |caches| {
            takes(added)?;
            // SAFETY: the caller's promise about `options`.
            let plan = unsafe { Options::plan(options) }?;
            let handle = HANDLES.keep(Object::Cache(plan.build()?))?;
            // A cache that gets no key is gone again, and its handle with it.
            caches.create(key, Tenant::new(handle)?)?;
            // SAFETY: the caller's promise about the output.
            unsafe { store(added, handle) }
        })
    })
}

/// The cache with a key.
///
/// # Safety
/// `found` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_caches_find(caches: u64, key: u64, found: *mut u64) -> c_int {
    enter(|| {
        with_caches(caches, |caches| {
            let handle = caches.find(key)?.handle();
            // SAFETY: the caller's promise about the output.
            unsafe { store(found, handle) }
        })
    })
}

/// Ends the cache with a key, if nobody holds a slot of it or waits; its handle is stale then.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_caches_end(caches: u64, key: u64) -> c_int {
    enter(|| with_caches(caches, |caches| Ok(caches.end(key)?)))
}

/// Interrupts the cache with a key, and ends it unless its slots may still be written to.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_caches_interrupt_and_end(caches: u64, key: u64) -> c_int {
    enter(|| with_caches(caches, |caches| Ok(caches.interrupt_and_end(key)?)))
}

/// Interrupts all caches of the table, and releases their handles and its own.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_caches_destroy(caches: u64) -> c_int {
    enter(|| {
        with_caches(caches, |_| Ok(()))?;
        HANDLES.release(caches).map(drop)
    })
}

failures! {
    CreateError {
        CreateError::DuplicateKey { .. } => Code::KeyTaken,
        CreateError::TableFull { .. } => FULL,
    }
    UnknownKey {
        UnknownKey { .. } => Code::UnknownKey,
    }
    EndKeyError {
        EndKeyError::UnknownKey(_) => Code::UnknownKey,
        EndKeyError::Refused { .. } => Code::InUse,
    }
    BuildError {
        BuildError::NoMemory { .. } => Code::System,
    }
}
