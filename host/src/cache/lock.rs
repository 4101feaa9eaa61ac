//! The lock of a cache that threads share.

use std::hint::spin_loop;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use umbra_core::cache::waiting::Lock;

/// A mutex; a thread that panics while it looks at the value has left it whole.
///
/// Only what callers hand in can panic meanwhile: members of groups, which then keep what was claimed for them.
#[derive(Debug)]
pub struct Guard<T>(Mutex<T>);

impl<T> Guard<T> {
    pub(crate) const fn new(value: T) -> Self {
        Guard(Mutex::new(value))
    }
}

/// Looks at a lock that somebody else has before a thread sleeps, each after twice as many pauses as the one before.
// Who has it does nothing that takes long, and to put a thread to sleep and to wake it takes much longer.
const LOOKS: u32 = 7;

impl<T> Guard<T> {
    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        for look in 0..LOOKS {
            (0..1_u32 << look).for_each(|_| spin_loop());
            if let Ok(value) = self.0.try_lock() {
                return value;
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Lock for Guard<T> {
    type Value = T;

    #[inline]
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let mut value = match self.0.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(whole)) => whole.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        };
        act(&mut value)
    }
}
