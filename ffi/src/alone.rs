//! Values that one thread may use, while the library that they call is up.
//!
//! Handles are known to all threads of a process, and to children that it forks off; some libraries that carry messages are used
//! by one thread of one process.

use std::mem::ManuallyDrop;
use std::thread::{self, ThreadId};

use crate::maker::Maker;
use crate::status::{Code, Failure};

/// Whether the library may be called still.
pub type Up = fn() -> Result<(), Failure>;

/// The thread that may use something, and until when.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    thread: ThreadId,
    maker: Maker,
    up: Up,
}

impl Owner {
    /// Whether this thread is it, and the library is up.
    pub(crate) fn usable(&self) -> Result<(), Failure> {
        self.maker
            .refuse_heirs("it belongs to the process that forked this one off, which alone may use its library")?;
        if self.thread != thread::current().id() {
            let detail = "another thread has made it, and only that thread may use and release it";
            return Err(Failure::new(Code::Invalid, detail));
        }
        (self.up)()
    }
}

/// A value of the thread that has made it. Whoever else asks for it is refused; where it may not end, it stays for good.
pub struct Alone<T> {
    value: ManuallyDrop<T>,
    owner: Owner,
}

// SAFETY: whoever is not the thread that made the value gets no reference to it, and does not drop it (`usable` is asked before
// both), so no other thread comes near it. What else is here may go and be seen anywhere.
unsafe impl<T> Send for Alone<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Alone<T> {}

impl<T> Alone<T> {
    /// For this thread, as long as `up` says so.
    pub fn new(value: T, up: Up) -> Alone<T> {
        let owner = Owner { thread: thread::current().id(), maker: Maker::this(), up };
        Alone { value: ManuallyDrop::new(value), owner }
    }

    /// Another value of the same thread, as long.
    pub(crate) fn beside<U>(&self, value: U) -> Alone<U> {
        Alone { value: ManuallyDrop::new(value), owner: self.owner }
    }

    /// Who may use it.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// The value.
    ///
    /// # Errors
    /// [`Failure`] on another thread or in a child that was forked off, and when the library is not up any more.
    pub fn get(&self) -> Result<&T, Failure> {
        self.owner.usable().map(|()| &*self.value)
    }

    /// The value, to change.
    pub(crate) fn get_mut(&mut self) -> Result<&mut T, Failure> {
        self.owner.usable().map(|()| &mut *self.value)
    }
}

impl<T> Drop for Alone<T> {
    fn drop(&mut self) {
        if self.owner.usable().is_ok() {
            // SAFETY: nobody uses it after this, and it is dropped once.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use umbra_core::atomic::{AtomicU64, Ordering};

    use super::*;

    static DOWN: AtomicU64 = AtomicU64::new(0);

    fn up() -> Result<(), Failure> {
        if DOWN.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Code::Destroyed.into()) }
    }

    #[test]
    fn other_threads_and_calls_after_the_end_are_refused_and_nothing_is_dropped_there() {
        let value = Rc::new(7);
        let make = || Alone::new(Rc::clone(&value), up);
        let mut alone = make();
        assert_eq!(alone.get().map(|value| **value).ok(), Some(7));
        assert!(alone.get_mut().is_ok());
        let refused =
            thread::scope(|scope| scope.spawn(|| alone.get().err().map(|failure| failure.code)).join().ok().flatten());
        assert_eq!(refused, Some(Code::Invalid));
        drop(alone);
        assert_eq!(Rc::strong_count(&value), 1, "dropped here");
        let moved = make();
        assert!(thread::spawn(move || drop(moved)).join().is_ok());
        assert_eq!(Rc::strong_count(&value), 2, "left where another thread has dropped it");
        let late = make();
        DOWN.store(1, Ordering::Relaxed);
        assert_eq!(late.get().err().map(|failure| failure.code), Some(Code::Destroyed));
        drop(late);
        assert_eq!(Rc::strong_count(&value), 3, "left when the library was down");
    }
}
