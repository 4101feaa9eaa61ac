//! The lock of a cache that threads share.

use std::sync::{Mutex, PoisonError};

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

impl<T> Lock for Guard<T> {
    type Value = T;

    #[inline]
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
