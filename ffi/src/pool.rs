//! `umbra_pool_*`: managed memory.
//!
//! What is allocated in it is next door ([`allocation`](crate::allocation)).

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use umbra::channel::{Channel, Timeout};
use umbra::gateway::{Error as FarError, RemotePool};
use umbra::pool::{Attributes, Error, Lifetime, Memory, Pool, clean};
use umbra::sys::process::ProcessId;
use umbra_core::crew::Member;
use umbra_core::heap::AllocError;

use crate::call::{enter, numbers, short, sized, store, store_measured, store_sized, takes, text};
use crate::far::{gateways, with_any_pool};
use crate::object::{HANDLES, Object, shared_pool, with_pool};
use crate::status::{Code, Failure};
use crate::users;
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
            Error::Exists { .. } => Code::Exists,
            Error::Missing { .. } => Code::NoPool,
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

/// How long a call may take; all ones is without end.
pub(crate) fn timeout(timeout_ms: u64) -> Timeout {
    if timeout_ms == u64::MAX { Timeout::Never } else { patience(timeout_ms).into() }
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
            members: if options.members == 0 { usual.members } else { short(options.members, "members")? },
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
        unsafe { keep(Object::Pool(Pool::attach_once(name)?), pool) }
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
        unsafe { keep(Object::Pool(Pool::attach_reference_once(reference)?), pool) }
    })
}

/// As [`umbra_pool_attach_reference`], but all who attach the pool so get one handle, which the last of them releases.
///
/// # Safety
/// As for [`umbra_pool_attach_reference`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_attach_shared(reference: *const c_void, length: usize, pool: *mut u64) -> c_int {
    enter(|| {
        takes(pool)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        let handle = users::enter(Pool::attach_reference_once(reference)?)?;
        // SAFETY: and about the output.
        unsafe { store(pool, handle) }
    })
}

/// Uses the pool that a reference names, of this host or, through a gateway, of another one.
///
/// # Safety
/// As for [`umbra_pool_attach_reference`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_attach_anywhere(
    reference: *const c_void,
    length: usize,
    through: u64,
    timeout_ms: u64,
    pool: *mut u64,
) -> c_int {
    enter(|| {
        takes(pool)?;
        // SAFETY: the caller's promise about the bytes.
        let reference = unsafe { bytes(reference, length) }?;
        let object = match RemotePool::attach(reference, &gateways(through)?, timeout(timeout_ms)) {
            Err(FarError::Local) => Object::Pool(Pool::attach_reference_once(reference)?),
            far => Object::FarPool(far?),
        };
        // SAFETY: and about the output.
        unsafe { keep(object, pool) }
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
        let reference = with_any_pool(pool, |near| Ok(near.reference()?), |far| Ok(far.reference().to_vec()))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_measured(&reference, buffer, capacity, length) }
    })
}

/// A number that no other pool has, the same in every process.
///
/// # Safety
/// `instance` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_instance(pool: u64, instance: *mut u64) -> c_int {
    enter(|| {
        let drawn = with_pool(pool, |pool| Ok(pool.instance()))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(instance, drawn) }
    })
}

/// Releases the handle, if nobody else shares it; the pool ends with it if that is how it was made.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_pool_detach(pool: u64) -> c_int {
    enter(|| {
        with_any_pool(pool, |_| Ok(()), |_| Ok(()))?;
        users::leave(pool)
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
        let near = |pool: &Pool| {
            let told = pool.figures();
            Ok([told.bytes, told.free, told.asked, told.longest_free, told.blocks])
        };
        let far = |pool: &RemotePool| {
            let told = pool.used(Timeout::Now)?;
            Ok([told.bytes, told.free, told.asked, told.longest_free, told.allocations])
        };
        let [bytes, free_bytes, asked_bytes, longest_free_bytes, allocations] = with_any_pool(pool, near, far)?;
        let size = size_of::<Figures>();
        let figures = Figures { size, bytes, free_bytes, asked_bytes, longest_free_bytes, allocations };
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &figures, size_of::<Figures>()) }
    })
}

/// Ends what dead processes were doing; their allocations stay, but for destroyed channels that nobody has any more.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_pool_reclaim(pool: u64) -> c_int {
    enter(|| {
        let pool = shared_pool(pool)?;
        pool.reclaim()?;
        Channel::reclaim_in(&pool);
        Ok(())
    })
}

/// Frees what a dead process had allocated; how many allocations.
///
/// # Safety
/// `freed` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_free_allocations_of(pool: u64, pid: u32, freed: *mut usize) -> c_int {
    enter(|| {
        takes(freed)?;
        let count = with_pool(pool, |pool| free_of_dead(pool, pid))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(freed, count) }
    })
}

/// Who died with this pid is meant: by now it may be that of somebody else.
fn free_of_dead(pool: &Pool, pid: u32) -> Result<usize, Failure> {
    let of_pid = pool.users().filter(|(member, _)| member.identity.pid() == pid);
    let (living, dead): (Vec<_>, Vec<_>) = of_pid.partition(|&(_, lives)| lives);
    if dead.is_empty() && !living.is_empty() {
        return Err(Failure::new(Code::InUse, format!("process {pid} lives, and needs what it has allocated")));
    }
    // A process may be several members; all that they have goes with the first.
    let of = |(member, _): (Member, bool)| ProcessId { pid, start: member.identity.start().into() };
    dead.into_iter().try_fold(0, |freed, member| Ok(freed + pool.free_allocations_of(of(member))?))
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
