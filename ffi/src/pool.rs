//! `umbra_pool_*` and `umbra_allocation_*`: managed memory.
//!
//! An allocation is named by its pool's handle and its number, which is the same in all processes.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use umbra::pool::{Allocation, Attributes, Error, Lifetime, Memory, Pool, clean};
use umbra_core::heap::{AllocError, BlockId};

use crate::call::{enter, numbers, sized, store, store_bytes, store_sized, takes, text};
use crate::object::{HANDLES, Object, with_pool};
use crate::status::{Code, Failure};
use umbra_core::error::Status;

/// `struct umbra_pool_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    bytes: u64,
    granule: u64,
    uid: u64,
    blocks: u32,
    members: u32,
    memory: u32,
    lifetime: u32,
    folder: *const c_char,
}

/// `struct umbra_pool_statistics`.
#[repr(C)]
pub struct Figures {
    size: usize,
    bytes: u64,
    free_bytes: u64,
    asked_bytes: u64,
    longest_free_bytes: u64,
    allocations: u64,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::Stale => Code::Stale,
            Error::Destroyed => Code::Destroyed,
            Error::Timeout { .. } => Code::Status(Status::Timeout),
            Error::Alloc(AllocError::NotAvailable { .. } | AllocError::OutOfEntries) | Error::Members { .. } => {
                Code::Status(Status::Full)
            }
            Error::Alloc(AllocError::TooLarge { .. }) => Code::Never,
            Error::OutOfBounds { .. } => Code::Status(Status::OutOfBounds),
            Error::Reference(reference) => return (*reference).into(),
            Error::File { .. } | Error::Segment(_) | Error::HugePages { .. } | Error::Random(_) | Error::Process(_) => {
                Code::System
            }
            Error::Damaged | Error::Alloc(AllocError::Damaged) => Code::Damaged,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

impl From<umbra::reference::Error> for Failure {
    fn from(error: umbra::reference::Error) -> Failure {
        use umbra::reference::Error as Reference;
        use umbra_core::reference::ReferenceError;
        let code = match error {
            Reference::Bytes(ReferenceError::Version(_)) => Code::Version,
            Reference::NonLocal => Code::NonLocal,
            Reference::Replaced | Reference::Process(_) => Code::Destroyed,
            Reference::Descriptor { .. } => Code::System,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

/// Patience in milliseconds; all ones is without end.
pub(crate) fn patience(timeout_ms: u64) -> Duration {
    if timeout_ms == u64::MAX { Duration::MAX } else { Duration::from_millis(timeout_ms) }
}

/// Keeps an object and stores its handle.
///
/// # Safety
/// As for [`store`].
pub(crate) unsafe fn keep(object: Object, out: *mut u64) -> Result<(), Failure> {
    takes(out)?;
    let handle = HANDLES.keep(object)?;
    // SAFETY: the caller's promise; it was checked as far as an address tells.
    unsafe { store(out, handle) }
}

/// Stores a reference and its length; if it does not fit, only the length.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `length` is valid for writing.
pub(crate) unsafe fn store_reference(
    bytes: &[u8],
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise about `length`.
    unsafe { store(length, bytes.len()) }?;
    // SAFETY: the caller's promise about `buffer`.
    unsafe { store_bytes(bytes, buffer, capacity) }
}

/// The caller's bytes.
///
/// # Safety
/// `bytes` points to `length` bytes that do not change during the call.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise; any bits are a byte.
    unsafe { numbers(bytes.cast::<u8>(), length) }
}

/// A name that may be null.
///
/// # Safety
/// `name` is null, or ends with a zero.
unsafe fn optional<'a>(name: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(name, what) }.map(Some)
}

/// Makes a pool, under a name or, with a null one, without.
///
/// # Safety
/// `name` is null or ends with a zero; `options` points to a structure that begins with its size; `pool` is valid for
/// writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_create(name: *const c_char, options: *const Options, pool: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        // SAFETY: the caller's promise about `name`.
        let name = unsafe { optional(name, "name") }?;
        // SAFETY: and about the folder.
        let folder = unsafe { optional(options.folder, "folder") }?;
        let unknown = |what: &str, number: u32| Failure::new(Code::Invalid, format!("no {what} is called {number}"));
        let usual = Attributes::default();
        let memory = match (options.memory, folder) {
            (0, None) => Memory::Shared,
            (1, Some(folder)) => Memory::Folder(folder.into()),
            (2, None) => Memory::HugePages,
            (3, None) => Memory::Private,
            (0..=3, _) => return Err(Failure::new(Code::Invalid, "a folder belongs to memory in files")),
            (other, _) => return Err(unknown("memory", other)),
        };
        let attributes = Attributes {
            bytes: if options.bytes == 0 { usual.bytes } else { options.bytes },
            granule: if options.granule == 0 { usual.granule } else { options.granule },
            blocks: options.blocks,
            reserved: Vec::new(),
            members: match options.members {
                0 => usual.members,
                members => u16::try_from(members).map_err(|_| unknown("number of members", members))?,
            },
            uid: options.uid,
            lifetime: match options.lifetime {
                0 => Lifetime::Creator,
                1 => Lifetime::LastUser,
                other => return Err(unknown("lifetime", other)),
            },
            memory,
        };
        takes(pool)?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Pool(Pool::create(name, &attributes)?.into()), pool) }
    })
}

/// Uses a pool by its name.
///
/// # Safety
/// `name` ends with a zero; `pool` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_attach(name: *const c_char, pool: *mut u64) -> c_int {
    enter(|| {
        takes(pool)?;
        // SAFETY: the caller's promise about the name.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: and about the output.
        unsafe { keep(Object::Pool(Pool::attach(name)?.into()), pool) }
    })
}

/// Uses the pool that a reference names, or in which there is what it names.
///
/// # Safety
/// `reference` points to `length` bytes; `pool` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_attach_reference(reference: *const c_void, length: usize, pool: *mut u64) -> c_int {
    enter(|| {
        takes(pool)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        // SAFETY: and about the output.
        unsafe { keep(Object::Pool(Pool::attach_reference(reference)?.into()), pool) }
    })
}

/// The bytes by which other processes attach.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `length` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_reference(
    pool: u64,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    enter(|| {
        with_pool(pool, |pool| {
            // SAFETY: the caller's promise about the outputs.
            unsafe { store_reference(&pool.reference()?, buffer, capacity, length) }
        })
    })
}

/// Releases the handle; the pool ends with it if that is how it was made.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_pool_detach(pool: u64) -> c_int {
    enter(|| {
        with_pool(pool, |_| Ok(()))?;
        HANDLES.release(pool).map(drop)
    })
}

/// Ends the pool for all; the handle is still to be released.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_pool_destroy(pool: u64) -> c_int {
    enter(|| with_pool(pool, |pool| Ok(pool.destroy()?)))
}

/// Tells how much is used.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_statistics(pool: u64, statistics: *mut Figures) -> c_int {
    enter(|| {
        let figures = with_pool(pool, |pool| Ok(pool.figures()))?;
        let figures = Figures {
            size: size_of::<Figures>(),
            bytes: figures.bytes,
            free_bytes: figures.free,
            asked_bytes: figures.asked,
            longest_free_bytes: figures.longest_free,
            allocations: figures.blocks,
        };
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &figures, size_of::<Figures>()) }
    })
}

/// Ends what dead processes were doing; their allocations stay.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_pool_reclaim(pool: u64) -> c_int {
    enter(|| with_pool(pool, |pool| Ok(pool.reclaim().map(drop)?)))
}

/// Removes the pools in `/dev/shm` that nobody needs any more; how many.
///
/// # Safety
/// `removed` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_clean(removed: *mut usize) -> c_int {
    enter(|| {
        takes(removed)?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(removed, clean()?.len()) }
    })
}

/// Allocates; with a timeout of 0 it does not wait.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_alloc(
    pool: u64,
    length: u64,
    kind: u32,
    timeout_ms: u64,
    allocation: *mut u64,
    address: *mut *mut c_void,
) -> c_int {
    enter(|| {
        takes(allocation)?;
        takes(address)?;
        with_pool(pool, |pool| {
            let made = match timeout_ms {
                0 => pool.alloc(length, kind),
                _ => pool.alloc_within(length, kind, patience(timeout_ms)),
            }?;
            // SAFETY: the caller's promise about the outputs.
            unsafe { store(address, made.pointer()?.as_ptr().cast()) }?;
            // SAFETY: as above.
            unsafe { store(allocation, made.id().to_bits()) }
        })
    })
}

fn find(pool: &Pool, allocation: u64) -> Result<Allocation<'_>, Failure> {
    Ok(pool.allocation(BlockId::from_bits(allocation))?)
}

/// Frees an allocation, whoever made it.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_allocation_free(pool: u64, allocation: u64) -> c_int {
    enter(|| with_pool(pool, |pool| Ok(find(pool, allocation)?.free()?)))
}

/// Where an allocation is in this process, and how long.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_look(
    pool: u64,
    allocation: u64,
    address: *mut *mut c_void,
    length: *mut u64,
) -> c_int {
    enter(|| {
        takes(address)?;
        with_pool(pool, |pool| {
            let found = find(pool, allocation)?;
            // SAFETY: the caller's promise about the outputs.
            unsafe { store(length, found.len()) }?;
            // SAFETY: as above.
            unsafe { store(address, found.pointer()?.as_ptr().cast()) }
        })
    })
}

/// The bytes by which other processes find an allocation.
///
/// # Safety
/// `buffer` points to `capacity` bytes; `length` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_reference(
    pool: u64,
    allocation: u64,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    enter(|| {
        with_pool(pool, |pool| {
            let reference = find(pool, allocation)?.reference()?;
            // SAFETY: the caller's promise about the outputs.
            unsafe { store_reference(&reference, buffer, capacity, length) }
        })
    })
}

/// The allocation of this pool that a reference names, and the range of it.
///
/// # Safety
/// `reference` points to `reference_length` bytes; the outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_allocation_find(
    pool: u64,
    reference: *const c_void,
    reference_length: usize,
    allocation: *mut u64,
    address: *mut *mut c_void,
    length: *mut u64,
) -> c_int {
    enter(|| {
        takes(allocation)?;
        takes(address)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, reference_length) }?;
        with_pool(pool, |pool| {
            let found = pool.allocation_of(reference)?;
            // SAFETY: the caller's promise about the outputs.
            unsafe { store(length, found.len()) }?;
            // SAFETY: as above.
            unsafe { store(address, found.pointer()?.as_ptr().cast()) }?;
            // SAFETY: as above.
            unsafe { store(allocation, found.id().to_bits()) }
        })
    })
}
