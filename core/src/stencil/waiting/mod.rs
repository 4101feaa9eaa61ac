//! A line for those who wait for a group, and a stencil cache for many threads.
//!
//! [`Stencil::submit`](super::Stencil::submit) never waits: it accepts a group, or refuses it while every record of a
//! group is taken. [`Waiting::alloc`] waits, first for a record and then until the group has all its slots, so that who
//! names one group after the other is never far ahead of the loads. [`Shared`] puts it behind a
//! [`Lock`](crate::cache::waiting::Lock), with futures, and tells the news to one client at a time.
//!
//! * The line is first come first served. A record that becomes free is kept for the first in line, who submits its
//!   group itself: the line needs no room for groups. Meanwhile nobody else submits any.
//! * Who waits is answered once: when the group has its slots, when it has failed, by the interrupt, or by its own
//!   deadline. Who stops waiting before the group is accepted leaves nothing behind. A group that is accepted goes on
//!   whether somebody waits for it or not: its news come, and it must be freed.
//! * News are told by [`Shared::deliver`] without any lock, in order and never two at once; who is told may call
//!   everything that does not wait.
//!
//! ```
//! use core::task::{Poll, Waker};
//! use umbra_core::cache::Slot;
//! use umbra_core::stencil::waiting::{Place, Waiter, Waiting};
//! use umbra_core::stencil::{Action, ByNumber, Group, Input, Limits, Member, Reference, Stencil, Storage, Unknown};
//! let storage = Storage {
//!     slots: [Slot::EMPTY; 2],
//!     buckets: [0; 16],
//!     inputs: [Input::UNBOUNDED; 9],
//!     groups: [Group::EMPTY; 1],
//!     references: [Reference::EMPTY; 2],
//! };
//! let limits = Limits { largest_group: 2, active: 1, horizon: 100 };
//! let stencil = Stencil::new(storage, ByNumber, Unknown, 0..2, limits)?;
//! let mut line = Waiting::new(stencil, [const { Waiter::EMPTY }; 4]);
//! let (mut first, mut second) = (Place::Outside, Place::Outside);
//! let Poll::Ready(group) = line.alloc(&mut first, 1, [3].map(Member::Load), Waker::noop()) else { panic!("no slot") };
//! assert!(line.alloc(&mut second, 2, [4].map(Member::Load), Waker::noop()).is_pending());
//! assert_eq!(line.poll(), Some(Action::Prepare { slot: 0, data: 3 }));
//! line.prepared(3)?;
//! assert_eq!(line.poll(), Some(Action::Ready { point: 1, group: group? }));
//! line.free_group(group?)?;
//! assert!(line.next_waker().is_some());
//! assert!(line.alloc(&mut second, 2, [4].map(Member::Load), Waker::noop()).is_ready());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Invariants: while somebody is in line, every record of a group is taken or kept for the first in line; each waiter
//! is woken once for its turn and once for its answer at most.
//!
//! *Cost*: as without a line, a look whether somebody waits, and one look-up for each group that gets its slots while
//! somebody does. Nothing allocates.

mod answer;
mod deliver;
mod future;
mod machine;
mod shared;

pub use answer::{AllocError, Answer, Overdue, Place};
pub use future::{Allocated, Assigned};
pub use machine::Waiting;
pub use shared::{Guarded, Shared};

/// The record of one who waits until its group is accepted, or has its slots.
pub type Waiter = crate::cache::waiting::Record<Answer>;
