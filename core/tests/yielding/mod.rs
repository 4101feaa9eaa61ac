//! Threads that send and receive on one processor.

use std::thread;

use umbra_core::atomic::AtomicU64;
use umbra_core::event::Wait;
use umbra_core::time::Time;

/// Gives the core away instead of sleeping.
#[derive(Clone, Copy)]
pub(crate) struct Yield;

impl Wait for Yield {
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn sleep(&self, _: &AtomicU64, _: u32, _: Time) {
        thread::yield_now();
    }
    fn wake(&self, _: &AtomicU64) {}
    fn pause(&self) {
        thread::yield_now();
    }
}

/// The bytes of a message, which its number tells.
pub(crate) fn content(n: u64) -> Vec<u8> {
    (0..n % 61).map(|i| (n + i) as u8).collect()
}
