//! Forks: whether this process made a handle, and what they must not interrupt.
//!
//! A forked child has its parent's memory, and so its parent's handles, but it is another process: what it takes must
//! not be taken in its parent's name. A handle notes [`life`] when it is made, and compares it when it is used.
//!
//! ```
//! use umbra::sys::fork;
//! let made_in = fork::life();
//! assert_eq!(made_in, fork::life(), "nobody forked between the two");
//! ```
//!
//! Of the threads only the one that forks comes along, so a lock that another one holds at that moment is held for ever
//! in the child. What is done under a lock that children need is done [undivided]: a fork waits until nobody does such
//! a thing.
//!
//! ```
//! use std::sync::Mutex;
//! use umbra::sys::fork;
//! static TABLE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
//! fork::undivided(|| TABLE.lock().map(|mut table| table.push(7)).ok());
//! ```
//!
//! *Cost*: one load; a lock that only forks want. A child that was made by the bare system call, without `fork(3)`, is
//! not noticed.
//!
//! Source: `pthread_atfork(3)`.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::net::{Shutdown, shutdown};
use umbra_core::atomic::{AtomicU32, Ordering};

static LIFE: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();
/// Who does something undivided is inside, who forks shuts it.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// While this thread forks.
    static SHUT: Cell<Option<RwLockWriteGuard<'static, ()>>> = const { Cell::new(None) };
}

extern "C" fn shut() {
    // Who forks inside would wait for itself.
    if !IS_INSIDE.get() {
        let gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
        // A thread that is about to end keeps nothing any more.
        let _ = SHUT.try_with(|shut| shut.set(Some(gate)));
    }
}

extern "C" fn open() {
    let _ = SHUT.try_with(Cell::take);
}

extern "C" fn forked() {
    LIFE.fetch_add(1, Ordering::Relaxed);
    open();
}

/// A thread inside of the gate.
struct Inside {
    _gate: RwLockReadGuard<'static, ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

/// Does something that is done, or not begun, in each child that is forked off: no [fork](watch) comes in between. It should
/// be short, and wait for no other thread that does such a thing.
#[inline]
pub fn undivided<R>(act: impl FnOnce() -> R) -> R {
    watch();
    if IS_INSIDE.get() {
        return act();
    }
    let _inside = Inside { _gate: GATE.read().unwrap_or_else(PoisonError::into_inner) };
    IS_INSIDE.set(true);
    act()
}

/// From now on forks are counted; whoever makes a handle calls this first.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the functions take and give back a lock of this module, whose holder is the thread that forks and so comes
        // along, and add to a static word: all of that may be done in a child of a program with many threads.
        let watched = unsafe { libc::pthread_atfork(Some(shut), Some(open), Some(forked)) };
        debug_assert_eq!(watched, 0, "there is memory for one more handler");
    });
}

/// How many forks made this process out of the one that first [watched](watch).
#[must_use]
#[inline]
pub fn life() -> u32 {
    LIFE.load(Ordering::Relaxed)
}

/// Shuts a socket, also one at which others come, for all who hold it: a child may, that was forked off.
pub(crate) fn shut_for_all(socket: impl AsFd) {
    // One that has no peer any more is as good as shut.
    let _ = shutdown(socket, Shutdown::Both);
}
