//! A process that dies before any operation on a shared word: for tests only.
//!
//! Under `--cfg crash` every operation on an [`AtomicU64`] of this crate is counted, and [`before`] ends what it runs at the
//! operation that the test chooses. `core/tests/crash_points_*.rs` end each of their scripts before each of its operations
//! in turn, and look at what is left of a structure.
//!
//! The end is an unwind that leaves the operation undone. To whoever is left it is the same as `kill -9` between that
//! operation and the one before:
//!
//! - All that others can see of a process are the words that it shares with them, and those stay as its last operation left
//!   them. Its own memory is lost with it, as are the variables of the script, which nobody uses after the unwind.
//! - A process that is killed between the same two operations, earlier or later, leaves the same words. An operation itself
//!   is done or not. So there are no more ways to die than operations, and one.
//! - A killed process runs no destructor. An unwind does, and one that used a shared word would tidy up what a killed process
//!   leaves: so no operation has an effect while it unwinds, though it seems to succeed.
//!
//! What shared words only order (bytes that are copied between processes, and words of 32 bits) is not counted, and neither
//! are orders of two processes that run at once: those are for loom. The word is laid out as any other, so the same
//! structures also lie in mapped memory.

use std::boxed::Box;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{Ordering, plain};

/// How long the process that runs in this thread lives.
#[derive(Clone, Copy)]
enum Life {
    /// It is none that [`before`] runs.
    Endless,
    /// So many operations more.
    Left(u64),
    /// It is being unwound.
    Over,
}

/// What an end unwinds with.
struct End;

std::thread_local! {
    static LIFE: Cell<Life> = const { Cell::new(Life::Endless) };
}

/// Runs a process that dies before its operation of this number, of which the first one is number zero; `None` if it came so
/// far and died. Processes run in the thread that calls, one at a time.
///
/// # Panics
/// As the process does.
pub fn before<T>(operation: u64, process: impl FnOnce() -> T) -> Option<T> {
    LIFE.set(Life::Left(operation));
    // Its own memory is lost with it, in whatever state it is.
    let ended = catch_unwind(AssertUnwindSafe(process));
    LIFE.set(Life::Endless);
    match ended {
        Ok(value) => Some(value),
        Err(why) if why.is::<End>() => None,
        Err(why) => resume_unwind(why),
    }
}

/// Stands before every operation; whether that has an effect.
fn count() -> bool {
    match LIFE.get() {
        Life::Endless => true,
        Life::Left(0) => {
            LIFE.set(Life::Over);
            // No hook prints anything of it.
            resume_unwind(Box::new(End));
        }
        Life::Left(operations) => {
            LIFE.set(Life::Left(operations - 1));
            true
        }
        // A destructor, which a killed process does not run.
        Life::Over => false,
    }
}

/// As the type of that name in `core`, and counted.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicU64(plain::AtomicU64);

/// Operations of `core` that take operands and orders, and are one operation; and what they say of the word if it stays as it
/// is, because their process is dead.
macro_rules! counted {
    ($($name:ident($($operand:ident: $of:ty),*) -> $result:ty, or $left:expr;)*) => {
        $(
            #[doc = concat!("As `", stringify!($name), "` in `core`.")]
            #[inline]
            pub fn $name(&self, $($operand: $of),*) -> $result {
                if count() {
                    return self.0.$name($($operand),*);
                }
                $left(self.0.load(Ordering::Relaxed))
            }
        )*
    };
}

impl AtomicU64 {
    /// As `new` in `core`.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        AtomicU64(plain::AtomicU64::new(value))
    }

    counted! {
        load(order: Ordering) -> u64, or (|now| now);
        store(value: u64, order: Ordering) -> (), or (|_| ());
        swap(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_add(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_sub(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_and(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_or(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_xor(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_max(value: u64, order: Ordering) -> u64, or (|now| now);
        fetch_min(value: u64, order: Ordering) -> u64, or (|now| now);
        compare_exchange(seen: u64, value: u64, order: Ordering, failed: Ordering) -> Result<u64, u64>, or (|_| Ok(seen));
        compare_exchange_weak(seen: u64, value: u64, order: Ordering, failed: Ordering) -> Result<u64, u64>, or (|_| Ok(seen));
    }

    /// As `fetch_update` in `core`: a load, and a compare-and-swap until one succeeds, each of them counted.
    ///
    /// # Errors
    /// The word, if `change` says `None` of it.
    pub fn fetch_update(
        &self,
        order: Ordering,
        failed: Ordering,
        mut change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let mut seen = self.load(failed);
        while let Some(value) = change(seen) {
            match self.compare_exchange_weak(seen, value, order, failed) {
                Ok(before) => return Ok(before),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// As `get_mut` in `core`: whoever has the word alone shares it with nobody, so it is not counted.
    pub fn get_mut(&mut self) -> &mut u64 {
        self.0.get_mut()
    }

    /// As `into_inner` in `core`, for the same reason not counted.
    #[must_use]
    pub fn into_inner(self) -> u64 {
        self.0.into_inner()
    }
}
