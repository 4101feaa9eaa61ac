//! The lock of a cache that many threads use, and how nobody's waker runs under it.

use core::task::Waker;

/// Mutual exclusion: of a host's threads, of a processor's interrupts, or of a model.
pub trait Lock {
    /// What it guards.
    type Value;

    /// Lets nobody else at the value meanwhile. `act` is short, does not wait and does not panic.
    fn with<T>(&self, act: impl FnOnce(&mut Self::Value) -> T) -> T;
}

/// A cache with a line of those who wait for it.
pub trait Line: sealed::Sealed {
    #[doc(hidden)]
    fn next_waker(&mut self) -> Option<Waker>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Acts under the lock, and wakes whom that answered after it.
#[inline]
pub(crate) fn act<L: Lock<Value: Line>, T>(lock: &L, act: impl FnOnce(&mut L::Value) -> T) -> T {
    let (told, mut woken) = lock.with(|cache| (act(cache), cache.next_waker()));
    while let Some(waker) = woken {
        waker.wake();
        woken = lock.with(Line::next_waker);
    }
    told
}

/// Asks until something is said: without a waker, for most need none; with a clone, if one is needed; and without again, if
/// that has changed meanwhile. To clone a waker or to drop one may run anything, the cache's own calls too, and here nobody
/// has a lock.
#[inline]
pub(crate) fn asking<T>(waker: &Waker, mut ask: impl FnMut(&mut Option<Waker>) -> Option<T>) -> T {
    let mut spare = None;
    loop {
        if let Some(told) = ask(&mut spare) {
            return told;
        }
        spare = if spare.is_none() { Some(waker.clone()) } else { None };
    }
}
