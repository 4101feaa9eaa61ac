//! Handles of pools that several users in this process share.
//!
//! The users are counted: the last one releases the handle.

use std::sync::{Arc, Mutex, PoisonError};

use umbra::pool::Pool;
use umbra::sys::fork;

use crate::object::{HANDLES, Object};
use crate::status::Failure;

/// A handle that is shared.
struct Shared {
    handle: u64,
    pool: Arc<Pool>,
    users: usize,
}

static SHARED: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

/// A list is whole whatever its user was doing.
fn with_shared<R>(act: impl FnOnce(&mut Vec<Shared>) -> R) -> R {
    fork::undivided(|| act(&mut SHARED.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The handle that all users of a pool share, of whom there is one more.
pub(crate) fn enter(pool: Arc<Pool>) -> Result<u64, Failure> {
    with_shared(|shared| {
        if let Some(known) = shared.iter_mut().find(|known| Arc::ptr_eq(&known.pool, &pool)) {
            known.users += 1;
            return Ok(known.handle);
        }
        let handle = HANDLES.keep(Object::Pool(Arc::clone(&pool)))?;
        shared.push(Shared { handle, pool, users: 1 });
        Ok(handle)
    })
}

/// Releases a handle, unless it is shared and there are other users.
pub(crate) fn leave(handle: u64) -> Result<(), Failure> {
    let others = with_shared(|shared| {
        let Some(at) = shared.iter().position(|known| known.handle == handle) else { return 0 };
        shared[at].users -= 1;
        let others = shared[at].users;
        if others == 0 {
            // The pool may end with its handle, below, but not in here, where others would wait for it.
            shared.swap_remove(at);
        }
        others
    });
    if others == 0 { HANDLES.release(handle).map(drop) } else { Ok(()) }
}
