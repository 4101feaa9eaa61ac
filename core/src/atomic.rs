//! The one door to atomics.
//!
//! `core` atomics by default, `portable-atomic` with the feature of that name, `loom` under `--cfg loom`. Under `--cfg crash`
//! a test ends a process before any operation on a shared word that it chooses.
//! `tests/one_door_to_atomics.rs` forbids `core::sync::atomic` elsewhere, so that no code escapes the model checker.
//!
//! Atomics that live in a mapped segment are never loom's (loom's types have no fixed layout); the loom
//! models build the same structures over storage that loom owns.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(all(not(loom), feature = "portable-atomic"))]
#[cfg_attr(crash, allow(unreachable_pub, reason = "`crash` has a word of its own"))]
mod plain {
    pub use portable_atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
#[cfg(all(not(loom), not(feature = "portable-atomic")))]
#[cfg_attr(crash, allow(unreachable_pub, reason = "`crash` has a word of its own"))]
mod plain {
    pub use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
#[cfg(all(not(loom), not(crash)))]
pub use plain::AtomicU64;
#[cfg(not(loom))]
pub use plain::{AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(all(crash, not(loom)))]
pub mod crash;
#[cfg(all(crash, not(loom)))]
pub use crash::AtomicU64;

/// A word as operating systems take it to sleep on, whatever the features are; nothing that a model checks.
pub use core::sync::atomic::AtomicU32 as SystemWord;

/// Tells the processor (or the model checker) that this is a spin loop.
#[inline]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    core::hint::spin_loop();
}
