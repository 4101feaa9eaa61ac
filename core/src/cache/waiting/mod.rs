//! A line for those who wait for a slot, and a cache for many threads.
//!
//! [`Waiting`] is a [`SlotCache`](super::SlotCache) with a line of waiters, for one owner; [`Shared`] puts it behind a
//! [`Lock`], gives references that are given back when they are dropped, and futures for those who wait. A host's threads
//! wait by parking, a program without an operating system by polling: both bring a [`Waker`](core::task::Waker).
//!
//! * The line is one of data, first come first served: clients that want the same data have one place in it, and one slot.
//!   Who frees a slot gives it to the first in line in the same step, so nobody can take it in between.
//! * Content that is there already is never waited for.
//! * Who finds a slot `Assigned` can wait for its content, and is told when the filler gave up.
//! * A waiter is answered once: by what it waits for, by the interrupt, or by its own deadline. Whoever stops waiting in
//!   the moment in which a slot is given has the slot.
//! * After `interrupt` each call fails, also those that wait.
//!
//! ```
//! use core::task::Waker;
//! use umbra_core::cache::policy::Clock;
//! use umbra_core::cache::waiting::{Answer, Asked, Waiter, Waiting};
//! use umbra_core::cache::{Cache, Dense, Slot};
//! let cache = Cache::new([Slot::EMPTY; 1], Dense::new([0; 100]), Clock::new(), 0..1)?;
//! let mut waiting = Waiting::new(cache, [const { Waiter::EMPTY }; 4]);
//! let Asked::Now((pin, _)) = waiting.alloc(1, Waker::noop())? else { panic!("there was a slot") };
//! let Asked::Later(waiter) = waiting.alloc(2, Waker::noop())? else { panic!("there was none") };
//! waiting.free_pin(pin)?;
//! assert!(waiting.next_waker().is_some());
//! let Some(Answer::Slot(Ok((pin, grant)))) = waiting.poll(waiter, Waker::noop()) else { panic!("not answered") };
//! assert_eq!((pin.data(), grant.slot), (2, 0));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: while somebody is in line, every slot has references; data that somebody is in line for has no slot; each
//! waiter is woken once at most.
//!
//! *Cost*: as without a line, and a look whether somebody waits. A wait is expected O(1) to begin and to end, an interrupt is
//! O(waiters). 96 bytes a waiter. Nothing allocates.

mod answer;
mod batch;
mod future;
mod guard;
pub(crate) mod lock;
mod machine;
pub(crate) mod record;
mod shared;
pub(crate) mod waiter;

pub use answer::{Answer, Asked, ContentError, Holding, Scene, WaitError};
pub use future::{Content, Slotted};
pub use guard::{Fill, Given, Held};
pub use lock::{Line, Lock};
pub use machine::{Contract, Waiting};
pub use record::Record;
pub use shared::{Filled, Guarded, Shared};

/// The record of one who waits for a slot, or for its content.
pub type Waiter = Record<Answer>;
