//! Handles: 64-bit ids of the objects that C holds.
//!
//! A handle is a slot and its generation, so one that was released is stale and not a wild pointer. An object lives until
//! its handle is released and the last call that uses it has returned. Zero is never a handle.

use std::sync::{Arc, Mutex, PoisonError};

use umbra::sys::fork;
use umbra_core::id::Id;
use umbra_core::slots::{Slot, Slots};

use crate::status::{Code, Failure};

/// Objects that one process can hold at once.
const CAPACITY: usize = 1 << 16;

type Table<T> = Slots<Vec<Slot<Arc<T>>>>;

/// All objects of one kind of interface.
pub(crate) struct Handles<T> {
    table: Mutex<Option<Table<T>>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles { table: Mutex::new(None) }
    }

    /// A panic elsewhere does not spoil the table: every change to it is complete before the lock is released. Nor does a
    /// fork: no child finds it in the middle of a change, or locked.
    fn with<R>(&self, act: impl FnOnce(&mut Option<Table<T>>) -> R) -> R {
        fork::undivided(|| act(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Keeps an object and gives its handle.
    pub(crate) fn keep(&self, object: T) -> Result<u64, Failure> {
        let taken = self.with(|table| {
            let table = table.get_or_insert_with(|| Slots::new((0..CAPACITY).map(|_| Slot::EMPTY).collect()));
            table.take(Arc::new(object))
        });
        match taken {
            Ok(id) => Ok(id.to_bits()),
            Err(_) => Err(Failure::new(Code::System, format!("all {CAPACITY} handles are in use: release some"))),
        }
    }

    /// The object of a handle; it stays alive while the caller holds it.
    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>, Failure> {
        self.with(|table| table.as_ref()?.get(Id::from_bits(handle)).cloned().ok()).ok_or_else(|| Code::Stale.into())
    }

    /// Releases a handle and gives its object back.
    pub(crate) fn release(&self, handle: u64) -> Result<Arc<T>, Failure> {
        match self.with(|table| table.as_mut()?.release(Id::from_bits(handle)).ok()) {
            Some(Some(object)) => Ok(object),
            _ => Err(Code::Stale.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_handle_is_stale_even_when_its_slot_is_used_again() {
        let handles = Handles::new();
        let first = handles.keep("first").unwrap();
        assert_ne!(first, 0);
        assert_eq!(*handles.get(first).unwrap(), "first");
        handles.release(first).unwrap();
        let second = handles.keep("second").unwrap();
        assert_eq!(handles.get(first).unwrap_err().code, Code::Stale);
        assert_eq!(handles.release(first).unwrap_err().code, Code::Stale);
        assert_eq!(*handles.get(second).unwrap(), "second");
    }

    #[test]
    fn made_up_handles_are_stale() {
        let handles = Handles::new();
        assert_eq!(handles.get(7).unwrap_err().code, Code::Stale);
        handles.keep(1).unwrap();
        for made_up in [0, 1, u64::MAX, 1 << 32 | 0xffff_ffff] {
            assert_eq!(handles.get(made_up).unwrap_err().code, Code::Stale, "{made_up:x}");
        }
    }

    #[test]
    fn an_object_outlives_its_handle_while_a_call_uses_it() {
        let handles = Handles::new();
        let handle = handles.keep(String::from("used")).unwrap();
        let used = handles.get(handle).unwrap();
        drop(handles.release(handle).unwrap());
        assert_eq!(*used, "used");
    }
}
