//! How the endpoint cache fills: from single ranks to the same table everywhere.
//!
//! Two machines without I/O: a [`Service`] in every service process and a [`Member`] in every rank. Each rank tells
//! its service process who it is and which groups it joins. Per group the service processes form a k-ary tree
//! rooted at the group's *authority*, the service process of group rank 0 (of the world group: the lowest service
//! process that is alive). What is known goes up the tree as a union of runs, the authority builds the one table,
//! and its bytes go down again, so all full caches of one generation are byte-identical.
//!
//! ```text
//! rank   HELLO JOIN LEAVE ->    service process    PART (joined, left) ->     parent ... authority
//!        <- READY ENDED         (one a DPU core)   <- SNAPSHOT, END
//! ```
//!
//! * **Sets, not counters.** Everything said is a member of a set that only grows within one generation: joined,
//!   left. Messages may be lost, repeated, delayed, reordered; what is not acknowledged is repeated with back-off.
//! * **Generations.** A rank joins generation `after + 1`, where `after` is the last one it has seen end; the
//!   authority confirms it, or answers which generation ended last. A generation ends, for all, when the authority
//!   knows that every member has left or died. A message of an ended generation is dropped and counted; one of a
//!   later generation proves that the one still held has ended. Whoever knows of an end tells its neighbours in the
//!   tree, in both directions, so the end is one fact for all even if the authority has lost its memory.
//! * **Every wait ends.** A group that is not full in time ends with a [`Cause`] that names who is missing.
//!
//! | state | entered when | left when |
//! |---|---|---|
//! | `Absent` | nothing is known | a local rank joins, or a message of the group arrives |
//! | `Collecting` | ranks served here are missing | all of them have joined; at once where none is served |
//! | `LocalDone` | they have joined, there is no way to the parent | the link to the parent comes up |
//! | `Exchanging` | told the parent, others are missing | the table is built or has come |
//! | `Full` | the table is published | every local member has taken note |
//! | `Pushed` | they have | the first member leaves |
//! | `Revoking` | a member has left or died | all have |
//! | `Ended` | the generation is over | the next one starts |
//!
//! Source: spec 2.4, 2.7, 8.5, 8.6.

mod bits;
mod cause;
mod draft;
mod heap;
pub mod member;
pub mod message;
mod record;
pub mod service;
mod shelf;
mod timers;

pub use cause::{Cause, MISSING_RUNS, Missing, Stretch, Who};
pub use member::Member;
pub use message::{Field, is_bootstrap, ops};
pub use record::{Record, Stage};
pub use service::GroupReport;
pub use service::Service;
pub use shelf::{Shelf, ShelfError};
