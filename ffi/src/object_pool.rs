//! `umbra_object_*`: places in memory of the program, with owners that are counted.

use std::ffi::{c_int, c_void};

use umbra::sys::heap::reserved;
use umbra_core::boundary::{Class, Weak};

use crate::call::{enter, numbers, sized, store, store_sized, store_unless_null, takes, takes_unless_null};
use crate::object::{HANDLES, Object, with_objects};
use crate::owners::Owned;
use crate::status::{Code, Failure};

/// `struct umbra_object_class`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sizes {
    bytes: u32,
    count: u32,
}

/// `struct umbra_object_pool_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    classes: *const Sizes,
    class_count: usize,
    owners: u32,
}

/// `struct umbra_object_pool_statistics`.
#[repr(C)]
pub struct Told {
    size: usize,
    live: u32,
    free: u32,
    high_water: u32,
    failures: u32,
    retired: u32,
    owners: u32,
    bytes: u64,
}

type GiveBack = unsafe extern "C" fn(*mut c_void, u64, u32);

/// The size of the class for objects of so many bytes.
///
/// # Safety
/// `class_bytes` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_class_for(bytes: u32, class_bytes: *mut u32) -> c_int {
    enter(|| {
        let none = || Failure::new(Code::Never, format!("no class has {bytes} bytes"));
        let size = Class::size_for(bytes).ok_or_else(none)?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(class_bytes, size) }
    })
}

/// Makes a pool.
///
/// # Safety
/// `options` points to a structure that begins with its size, and its list to as many classes as it says; `created` is
/// valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_pool_create(options: *const Options, created: *mut u64) -> c_int {
    enter(|| {
        takes(created)?;
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        // SAFETY: the caller's promise about the list; any bits are a class.
        let wanted = unsafe { numbers(options.classes, options.class_count) }?;
        let mut sizes = wanted.iter();
        let class = || sizes.next().map_or(Class::new(0, 0), |sizes| Class::new(sizes.bytes, sizes.count));
        let classes = reserved(wanted.len(), class).map_err(|error| Failure::new(Code::System, error))?;
        let handle = HANDLES.keep(Object::Objects(Owned::new(classes, options.owners)?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

/// Releases the handle of a pool of which nothing is in use.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_object_pool_destroy(pool: u64) -> c_int {
    enter(|| {
        with_objects(pool, Owned::end_unused)?;
        HANDLES.release(pool).map(drop)
    })
}

/// How many bytes the program's memory must have.
///
/// # Safety
/// `bytes` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_pool_arena(pool: u64, bytes: *mut u64) -> c_int {
    enter(|| {
        let arena = with_objects(pool, Owned::arena_bytes)?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(bytes, arena) }
    })
}

/// Makes every owner and every handle from before stale.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_object_pool_reset(pool: u64) -> c_int {
    enter(|| with_objects(pool, Owned::reset))
}

/// Calls `give_back` with the place of each object that is free.
///
/// # Safety
/// `give_back` may be called with `context`, and returns; `bytes` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_pool_trim(
    pool: u64,
    give_back: Option<GiveBack>,
    context: *mut c_void,
    bytes: *mut u64,
) -> c_int {
    enter(|| {
        takes_unless_null(bytes)?;
        let give_back = give_back.ok_or_else(|| Failure::new(Code::Invalid, "give_back is null"))?;
        // SAFETY: the caller's promise about the function.
        let given = with_objects(pool, |pool| pool.trim(|offset, len| unsafe { give_back(context, offset, len) }))?;
        // SAFETY: and about the output.
        unsafe { store_unless_null(bytes, given) }
    })
}

/// Tells what happened so far.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_pool_statistics(pool: u64, statistics: *mut Told) -> c_int {
    enter(|| {
        let (told, owners) = with_objects(pool, Owned::statistics)?;
        let told = Told {
            size: size_of::<Told>(),
            live: told.live,
            free: told.free,
            high_water: told.high_water,
            failures: told.failures,
            retired: told.retired,
            owners,
            bytes: told.bytes,
        };
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &told, size_of::<Told>()) }
    })
}

/// Takes an object of at least so many bytes; its first owner.
///
/// # Safety
/// `owner` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_get(pool: u64, bytes: u32, owner: *mut u64) -> c_int {
    enter(|| {
        takes(owner)?;
        let number = with_objects(pool, |pool| pool.get(bytes))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(owner, number) }
    })
}

/// Another owner of the object of one.
///
/// # Safety
/// `other` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_share(pool: u64, owner: u64, other: *mut u64) -> c_int {
    enter(|| {
        takes(other)?;
        let number = with_objects(pool, |pool| pool.share(owner))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(other, number) }
    })
}

/// Drops an owner, and the object with the last one.
///
/// # Safety
/// `last` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_drop(pool: u64, owner: u64, last: *mut c_int) -> c_int {
    enter(|| {
        takes_unless_null(last)?;
        let was_last = with_objects(pool, |pool| pool.drop(owner))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store_unless_null(last, c_int::from(was_last)) }
    })
}

/// Where the object of an owner lies.
///
/// # Safety
/// `offset` is valid for writing; `length` too, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_place(pool: u64, owner: u64, offset: *mut u64, length: *mut u32) -> c_int {
    enter(|| {
        takes(offset)?;
        takes_unless_null(length)?;
        let (at, len) = with_objects(pool, |pool| pool.place(owner))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(offset, at) }?;
        // SAFETY: as above.
        unsafe { store_unless_null(length, len) }
    })
}

/// The handle of the object of an owner, which keeps nothing.
///
/// # Safety
/// `weak` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_weak(pool: u64, owner: u64, weak: *mut Weak) -> c_int {
    enter(|| {
        let handle = with_objects(pool, |pool| pool.weak(owner))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(weak, handle) }
    })
}

/// Whether the object that a handle names has owners.
///
/// # Safety
/// `valid` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_is_valid(pool: u64, weak: Weak, valid: *mut c_int) -> c_int {
    enter(|| {
        let is_valid = with_objects(pool, |pool| pool.is_valid(weak))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(valid, c_int::from(is_valid)) }
    })
}

/// Becomes an owner of the object that a handle names, if it still has one.
///
/// # Safety
/// `owner` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_object_upgrade(pool: u64, weak: Weak, owner: *mut u64) -> c_int {
    enter(|| {
        takes(owner)?;
        let number = with_objects(pool, |pool| pool.upgrade(weak))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(owner, number) }
    })
}
