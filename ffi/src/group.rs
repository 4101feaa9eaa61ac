//! `umbra_group_create`, `_free`, `_end`: the life of a group.

use std::ffi::c_int;
use std::sync::Arc;

use umbra_core::peer::WorldRank;

use crate::call::{enter, numbers, store, takes};
use crate::object::{Grouped, HANDLES, Object, session, with_group};
use crate::standing::Standing;
use crate::status::{Code, Failure};

/// Creates a group together with its other members, in this order; returns when it is full.
///
/// # Safety
/// `members` points to `count` numbers; `created` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_group_create(
    joined: u64,
    id: u32,
    members: *const u32,
    count: usize,
    created: *mut u64,
) -> c_int {
    enter(|| {
        takes(created)?;
        let session = session(joined)?;
        // SAFETY: the caller's promise about `members`.
        let members: Vec<WorldRank> = unsafe { numbers(members, count) }?.iter().copied().map(WorldRank).collect();
        let group = session.change(|s| s.create_group(id, &members).map_err(Failure::from))?;
        let kept = HANDLES.keep(Object::Group(Grouped {
            session: Arc::clone(&session),
            group: Standing::new(group),
            is_world: false,
        }));
        let handle = kept.inspect_err(|_| {
            // Nobody could ever leave a group without its handle.
            let _ = session.change(|s| Ok(s.free_group(group)?));
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

fn leave(handle: u64, wait: bool) -> Result<(), Failure> {
    with_group(handle, |g| {
        if g.is_world {
            return Ok(());
        }
        g.session.change(|s| {
            s.free_group(g.group.made())?;
            if wait { s.wait_ended(g.group.made()).map(|_| ()).map_err(Failure::from) } else { Ok(()) }
        })
    })
}

/// Leaves a group and releases its handle; does not wait for the others. The world group is left with the session, its
/// handle is only released.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_group_free(handle: u64) -> c_int {
    enter(|| {
        with_group(handle, |_| Ok(()))?;
        let left = leave(handle, false);
        HANDLES.release(handle)?;
        left
    })
}

/// Leaves a group, waits until it has ended for all its members, and releases its handle. Not for the world group.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_group_end(handle: u64) -> c_int {
    enter(|| {
        if with_group(handle, |g| Ok(g.is_world))? {
            return Err(Failure::new(Code::Invalid, "the world group ends with the job: leave the session"));
        }
        let left = leave(handle, true);
        HANDLES.release(handle)?;
        left
    })
}
