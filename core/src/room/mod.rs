//! A line for those who wait for room in a memory, and memories for many threads.
//!
//! [`Waiting`] is a memory with a line of waiters, for one owner: [`Ranges`] is a [`Memory`](crate::memory::Memory) by
//! offsets, [`Places`] a [`CachedMemory`](crate::cached_memory::CachedMemory). [`Shared`] puts it behind a
//! [`Lock`](crate::cache::waiting::Lock), and gives futures for those who wait and references that are given back when they
//! are dropped.
//!
//! * First come, first served. Only the first in line gets room while there is a line, so nobody slips in, and what is wished
//!   for at once is given at once or not at all: nobody holds a part of what it needs while it waits.
//! * What is there already is never waited for.
//! * Who finds a place `Assigned` can wait for its content, and is told when the filler gave up.
//! * A waiter is answered once: by what it wished for, by the interrupt, or by its own deadline. Whoever stops waiting in the
//!   moment in which there is room has it.
//! * After `interrupt` each call fails, also those that wait.
//!
//! ```
//! use core::task::{Poll, Waker};
//! use umbra_core::memory::{Block, Granule, Offsets};
//! use umbra_core::room::{Range, Ranges, Stand, Waiter, Waiting};
//! let memory = Offsets::new([Block::default(); 9], [0; 16], 1 << 10, Granule::LINE);
//! let mut waiting = Waiting::new(Ranges::new(memory), [const { Waiter::EMPTY }; 4]);
//! let (mut all, mut some) = (Range::new(1 << 10), Range::new(100));
//! let (mut first, mut second) = (Stand::default(), Stand::default());
//! assert_eq!(waiting.ask(&mut first, &mut all, Waker::noop()), Poll::Ready(Ok(())));
//! assert_eq!(waiting.ask(&mut second, &mut some, Waker::noop()), Poll::Pending);
//! waiting.free(0)?;
//! assert!(waiting.next_waker().is_some());
//! assert_eq!(waiting.ask(&mut second, &mut some, Waker::noop()), Poll::Ready(Ok(())));
//! assert_eq!(some.offset(), Some(0));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: while somebody is in line, somebody is first, and the memory refuses room to all others; each waiter is
//! woken when it becomes the first, and as the first when a retry is worth while.
//!
//! *Cost*: as without a line, and a look whether somebody waits. Before [`Ranges`] refuse anything they look at all free ranges
//! that may be long enough, since nobody may free one while somebody waits. A wait is expected O(1) to begin and to end, an
//! interrupt is O(waiters). Nothing allocates.

mod cached;
mod future;
mod guard;
mod line;
mod ranges;
mod shared;

pub use cached::{Holding, Places, Scene, Told};
pub use future::{Content, Roomy};
pub use guard::{Held, HeldRange};
pub use line::{Answer, Refused, Room, Stand, WaitError, Waiter, Waiting};
pub use ranges::{Crowded, Range, RangeError, Ranges};
pub use shared::{Queue, Shared};
