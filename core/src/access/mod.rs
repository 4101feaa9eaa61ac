//! Reading and writing other processes' memory.
//!
//! A rank exports memory to its shadow service processes ([`message::Export`]). A service process that
//! wants bytes of a rank asks the rank's first shadow service process where they are ([`message::Locate`])
//! and then for the bytes ([`message::Transfer`]), which come into shared memory or inside the answer. A
//! shadow service process itself imports the region and copies directly. A rank that wants bytes of another
//! rank shows a ticket to its own service process ([`message::Fetch`]), which reads for it.
//!
//! - [`message`]: the layouts on the wire.
//! - [`own`]: the machine of a rank that exports and revokes.
//! - [`serve`]: the machine that answers.
//! - [`read`]: the machine that asks.
//! - [`relay`]: the machine that reads for ranks.
//! - [`stage`]: the machine that keeps copies of what it has read for ranks.
//! - [`direct`]: reading by remote key, and what is said about it; [`grants`]: the machine that lets others do so.
//! - [`queues`]: imports, queues and completions over any [`device`] that can copy.
//! - [`asked`]: access through a service process that is asked.
//!
//! [`MemoryAccess`] is what all ways to another process's memory have in common; one conformance suite
//! holds every implementation to it.

pub mod asked;
pub mod device;
pub mod direct;
pub mod grants;
mod imports;
pub mod message;
pub mod own;
pub mod queues;
pub mod read;
pub mod relay;
pub mod serve;
pub mod stage;

use crate::error::Status;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer};
use crate::time::Time;
use crate::transport::PostError;
use crate::wire::Token;

use message::Export;

/// What happened to accesses that were posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A read or a write ended.
    Done {
        /// The token it was posted with.
        token: Token,
        /// How.
        status: Status,
    },
    /// The server of the region confirmed an import, or refused it; only where there is a server.
    Imported {
        /// The region.
        key: Key,
        /// How.
        status: Status,
    },
    /// A revocation drained: this side does not touch the region any more.
    Revoked {
        /// The region.
        key: Key,
    },
    /// An access failed and broke the queue to this owner: what was posted behind it ends with
    /// [`Status::QueueBroken`]; call [`MemoryAccess::rebuild`].
    Broken {
        /// Whose queue.
        owner: Peer,
    },
}

/// A way to the memory of other processes, from the side of a service process.
///
/// The contract (spec 4.6), whatever moves the bytes:
/// - bounds, right, generation and access list are checked before anything is posted, and a refused access
///   leaves the queue usable;
/// - completion is asynchronous, exactly once for each accepted access, told by [`poll`](Self::poll);
/// - after [`revoke`](Self::revoke) nothing new is accepted, and once [`Event::Revoked`] was told not one
///   byte of the region moves;
/// - a key of an older generation never reaches newer bytes;
/// - a failure breaks the queue of its owner at most; others are not disturbed, and the queue can be
///   rebuilt.
///
/// Local bytes are named by their offset in a landing area that belongs to the implementation, because they
/// must stay in place until completion.
pub trait MemoryAccess {
    /// Takes over a region that its owner, in life `incarnation`, exported to this process. Its other lives are
    /// over then, as if [forgotten](Self::forget).
    ///
    /// # Errors
    /// [`Status::NotShadow`] if this process is not on the region's access list, [`Status::Unauthenticated`]
    /// if its secret is wrong, or why the memory cannot be reached.
    fn import(&mut self, export: &Export, incarnation: Incarnation) -> Result<(), Status>;

    /// Posts an access to `span`: [`Access::READ`] brings its bytes into the landing area at `landing`,
    /// [`Access::WRITE`] takes them from there.
    ///
    /// # Errors
    /// [`PostError::Refused`] with the reason, or [`PostError::Full`]; nothing is posted then.
    fn post(&mut self, way: Access, span: Span, landing: u64, token: Token) -> Result<(), PostError>;

    /// Posts a read of `from` into the landing area at `landing`.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    fn read(&mut self, from: Span, landing: u64, token: Token) -> Result<(), PostError> {
        self.post(Access::READ, from, landing, token)
    }

    /// Posts a write of bytes of the landing area at `landing` to `to`.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    fn write(&mut self, landing: u64, to: Span, token: Token) -> Result<(), PostError> {
        self.post(Access::WRITE, to, landing, token)
    }

    /// The owner takes a region back: accept no more, let what was posted end, then tell
    /// [`Event::Revoked`], once. Until that is told, no newer generation of the region is imported
    /// ([`Status::Conflict`]).
    ///
    /// # Errors
    /// [`Status::UnknownRegion`] or [`Status::StaleKey`].
    fn revoke(&mut self, key: Key) -> Result<(), Status>;

    /// Makes the queue to an owner usable again after it broke.
    fn rebuild(&mut self, owner: Peer);

    /// The owner's life `life` is over: the regions of that life are revoked at once, what was posted to them ends
    /// with [`Status::OwnerGone`], or [`Status::StaleKey`] if its number names a region of another life by then, and
    /// no [`Event::Revoked`] of them is told any more. Regions of another life stay as they are.
    fn forget(&mut self, owner: Peer, life: Incarnation);

    /// Makes progress and tells what happened; returns how much that was. Never blocks.
    fn poll(&mut self, now: Time, sink: &mut dyn FnMut(Event)) -> usize;

    /// Copies bytes out of the landing area.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`].
    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status>;

    /// Copies bytes into the landing area.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`].
    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status>;
}
