//! Which process something belongs to.
//!
//! A child that was forked off has it in its memory, and must not use it.

use std::sync::{Mutex, MutexGuard};

use umbra::sys::fork;

use crate::status::{Code, Failure};

/// The process that made something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Maker(u32);

impl Maker {
    /// This process.
    pub(crate) fn this() -> Maker {
        fork::watch();
        Maker(fork::life())
    }

    /// Whether this process was forked off from it.
    pub(crate) fn is_parent(self) -> bool {
        self != Maker(fork::life())
    }

    /// Refuses a child that was forked off.
    pub(crate) fn refuse_heirs(self, detail: impl ToString) -> Result<(), Failure> {
        if self.is_parent() { Err(Failure::new(Code::Stale, detail)) } else { Ok(()) }
    }

    /// Locks what it made. In a child a thread that the child lacks may have it for ever: then it is stale.
    pub(crate) fn lock<T>(self, what: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
        if self.is_parent() {
            what.try_lock().map_err(|_| Code::Stale.into())
        } else {
            what.lock().map_err(|_| Code::Panic.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_of_the_parent_has_locked_is_stale_and_not_waited_for() {
        let (what, parent) = (Mutex::new(7), Maker(Maker::this().0.wrapping_add(1)));
        assert!(parent.is_parent() && !Maker::this().is_parent());
        assert_eq!(parent.lock(&what).ok().as_deref(), Some(&7), "nobody had it");
        let _kept = what.lock();
        assert!(parent.lock(&what).is_err_and(|failure| failure.code == Code::Stale));
    }
}
