//! Whether this process was forked off from the one that made a handle.
//!
//! A forked child has its parent's memory, and so its parent's handles, but it is another process: what it takes must not
//! be taken in its parent's name. A handle notes [`life`] when it is made, and compares it when it is used.
//!
//! ```
//! use umbra::sys::fork;
//! let made_in = fork::life();
//! assert_eq!(made_in, fork::life(), "nobody forked between the two");
//! ```
//!
//! *Cost*: one load. A child that was made by the bare system call, without `fork(3)`, is not noticed.
//!
//! Source: `pthread_atfork(3)`.

use std::sync::Once;

use umbra_core::atomic::{AtomicU32, Ordering};

static LIFE: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn forked() {
    LIFE.fetch_add(1, Ordering::Relaxed);
}

/// From now on forks are counted; whoever makes a handle calls this first.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the function only adds to a static word, which is allowed in a child of a program with many threads.
        let watched = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        debug_assert_eq!(watched, 0, "there is memory for one more handler");
    });
}

/// How many forks made this process out of the one that first [watched](watch).
#[must_use]
#[inline]
pub fn life() -> u32 {
    LIFE.load(Ordering::Relaxed)
}
