//! `umbra_cache_alloc_all`, `umbra_cache_free_all`: many references at once.

use std::ffi::c_int;

use umbra_core::cache::{Found, Grant};

use crate::cached::number_of;
use crate::call::{enter, numbers, store, takes_list};
use crate::object::with_cache;
use crate::status::Failure;

/// References that are taken or given back at once; in a cache for threads, under one lock.
pub(crate) const AT_ONCE: usize = 64;

/// `struct umbra_cache_grant`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Granted {
    slot: u32,
    found: u32,
    references: u32,
    hint: u32,
}

impl From<Grant> for Granted {
    fn from(grant: Grant) -> Granted {
        let Grant { slot, found, references, .. } = grant;
        Granted { slot, found: number_of(found), references, hint: grant.hint() }
    }
}

/// How far a batch came, and why not further.
pub(crate) struct Done {
    count: usize,
    failure: Option<Failure>,
}

impl Done {
    /// All of so many, unless it ended sooner.
    pub(crate) fn all(count: usize, ended: Result<(), (usize, Failure)>) -> Done {
        let Err((count, Failure { code, detail })) = ended else { return Done { count, failure: None } };
        let detail = format!("after {count} of the batch: {detail}");
        Done { count, failure: Some(Failure { code, detail }) }
    }

    /// Acts upon some elements at a time, up to the first that is refused.
    pub(crate) fn of<T>(all: &[T], mut act: impl FnMut(usize, &[T]) -> Result<(), (usize, Failure)>) -> Done {
        let mut count = 0;
        for some in all.chunks(AT_ONCE) {
            if let Err((done, failure)) = act(count, some) {
                return Done::all(all.len(), Err((count + done, failure)));
            }
            count += some.len();
        }
        Done::all(count, Ok(()))
    }

    /// Stores how far it came, in any case.
    ///
    /// # Safety
    /// As for [`store`].
    pub(crate) unsafe fn tell(self, done: *mut usize) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        unsafe { store(done, self.count) }?;
        self.failure.map_or(Ok(()), Err)
    }
}

/// Takes references to the slots of all data in order, without waiting, up to the first that is refused.
///
/// # Safety
/// `data` points to `count` ids that do not change during the call; `grants` has room for as many grants, which nobody else
/// uses; `done` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_alloc_all(
    cache: u64,
    data: *const u64,
    count: usize,
    grants: *mut Granted,
    done: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the output. Whatever is refused, nothing is done yet.
        unsafe { store(done, 0) }?;
        // SAFETY: the caller's promise about the ids.
        let data = unsafe { numbers(data, count) }?;
        takes_list(grants, count)?;
        let far = with_cache(cache, |cache| {
            Ok(Done::of(data, |before, data| {
                let mut taken = [Grant::NONE; AT_ONCE];
                let ended = cache.alloc_all(data, &mut taken);
                let count = ended.as_ref().err().map_or(data.len(), |&(done, _)| done);
                for (at, &grant) in taken.iter().enumerate().take(count) {
                    // SAFETY: the caller has room for all; what was checked once is not null.
                    let _ = unsafe { store(grants.wrapping_add(before + at), grant.into()) };
                }
                ended
            }))
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { far.tell(done) }
    })
}

/// Gives references to data back in order, by grants if there are some, up to the first that is refused.
///
/// # Safety
/// `data` points to `count` ids, and `grants` to as many grants, or is null; they do not change during the call. `done` is
/// valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_cache_free_all(
    cache: u64,
    data: *const u64,
    grants: *const Granted,
    count: usize,
    done: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the output. Whatever is refused, nothing is done yet.
        unsafe { store(done, 0) }?;
        // SAFETY: the caller's promise about the ids.
        let data = unsafe { numbers(data, count) }?;
        let grants = if grants.is_null() {
            None
        } else {
            // SAFETY: and about the grants; any bits are one.
            Some(unsafe { numbers(grants, count) }?)
        };
        let far = with_cache(cache, |cache| {
            Ok(Done::of(data, |before, data| {
                let Some(grants) = grants else { return cache.free_all(data, None) };
                let mut kept = [Grant::NONE; AT_ONCE];
                for (kept, grant) in kept.iter_mut().zip(grants.iter().skip(before)) {
                    // Only the hint is looked at.
                    *kept = Grant::new(grant.slot, Found::Empty, grant.references).hinted(grant.hint);
                }
                cache.free_all(data, Some(&kept))
            }))
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { far.tell(done) }
    })
}
