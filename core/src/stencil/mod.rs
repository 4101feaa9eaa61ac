//! A cache that serves whole neighbourhoods of a stencil.
//!
//! A stencil computes each output point from a group of inputs. [`Stencil::submit`] takes such a group; what is
//! missing in the slots is asked for by [`Action::Prepare`], and when all of it is there, [`Action::Ready`] says
//! so. Each input is loaded once for all who wait for it, and leaves when its last use is over: the [`Input`]
//! records say how often each is used. What leaves before is what is used again last, as far as that is known: of
//! groups that were submitted already, and of a [`Future`] that is computed, as by [`Grid`] and [`Swept`].
//!
//! ```
//! use umbra_core::cache::Slot;
//! use umbra_core::stencil::{Action, ByNumber, Group, Input, Limits, Reference, Stencil, Storage, Unknown, count};
//! // A line of 9 inputs, and three points between them.
//! let groups: [&[u64]; 3] = [&[0, 1, 2], &[2, 3, 4], &[3, 4, 5]];
//! let mut inputs = [Input::NOT_USED; 9];
//! for group in groups {
//!     count(&mut inputs, group)?;
//! }
//! let storage = Storage {
//!     slots: [Slot::EMPTY; 4],
//!     buckets: [0; 16],
//!     inputs,
//!     groups: [Group::EMPTY; 2],
//!     references: [Reference::EMPTY; 6],
//! };
//! let limits = Limits { largest_group: 3, active: 2, horizon: 100 };
//! let mut stencil = Stencil::new(storage, ByNumber, Unknown, 0..4, limits)?;
//! let (mut points, mut next) = (0, 0);
//! while points < 3 {
//!     while next < 3 && stencil.submit(next as u64, groups[next]).is_ok() {
//!         next += 1;
//!     }
//!     match stencil.poll() {
//!         Some(Action::Prepare { data, .. }) => stencil.prepared(data)?, // after the load
//!         Some(Action::Ready { group, .. }) => {
//!             assert_eq!(stencil.slots(group)?.count(), 3); // compute
//!             stencil.free_group(group)?;
//!             points += 1;
//!         }
//!         _ => break,
//!     }
//! }
//! assert_eq!((points, stencil.statistics().loads), (3, 6));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Nothing can deadlock, in whatever order groups are submitted: only the oldest group that waits for slots may
//! hold some, so all others that hold slots have all of theirs, and come to an end; a group with more inputs than
//! there are slots is refused. That each `Prepare` is answered, and each `Ready` group is freed without waiting
//! for a later one, is the caller's part.
//!
//! Invariants: an input's references that wait for their turn are in its queue, in order of submission; a slot that
//! is being filled keeps its input until the fill was answered; a refused operation has changed nothing.
//!
//! *Cost*: `submit` and `free_group` are O(members), `prepared` is O(groups that wait for it); all else is O(1).
//! Nothing allocates. Bytes: 24 a slot, 16 an input, 16 a reference, 48 a group, 4 a bucket.

mod claim;
mod complete;
mod error;
mod future;
mod grid;
mod group;
mod hilbert;
mod input;
mod kept;
mod life;
mod machine;
mod marks;
mod order;
mod overtake;
mod reciprocal;
mod rows;
mod storage;
mod strips;
mod swept;
mod turn;
pub mod waiting;

pub use complete::Action;
pub use error::{BuildError, FreeError, GroupError, PreparedError, SubmitError, UsageError};
pub use future::{Future, Runs, Unknown, Use};
pub use grid::{Grid, Shape};
pub use group::{Group, Reference};
pub use input::{ById, ByNumber, Input, Names, count};
pub use machine::{Limits, Member, Stencil};
pub use order::{Order, Points};
pub use storage::{Lent, Parts, Storage};
pub use strips::Strips;
pub use swept::Swept;
