//! The storage that a rank's machine is lent.

use super::{Event, Membership};
use crate::map::Entry;
use crate::memory::Block;

/// The types of the lent storage.
pub trait Storage {
    /// Groups of which the rank is a member, and ended ones whose generation is remembered; the world group
    /// takes one.
    type Groups: AsRef<[Membership]> + AsMut<[Membership]>;
    /// Where each group's record is; a third more than groups.
    type Index: AsRef<[Entry<u128, u32>]> + AsMut<[Entry<u128, u32>]>;
    /// Words for the descriptors of groups.
    type Words: AsRef<[u64]> + AsMut<[u64]>;
    /// Records of the allocator over the words: two a group and one.
    type Blocks: AsRef<[Block]> + AsMut<[Block]>;
    /// Events waiting for the owner; one that does not fit is lost.
    type Events: AsRef<[Option<Event>]> + AsMut<[Option<Event>]>;
}

/// The lent storage itself.
#[derive(Debug)]
pub struct Lent<S: Storage> {
    /// See [`Storage::Groups`].
    pub groups: S::Groups,
    /// See [`Storage::Index`].
    pub index: S::Index,
    /// See [`Storage::Words`].
    pub words: S::Words,
    /// See [`Storage::Blocks`].
    pub blocks: S::Blocks,
    /// See [`Storage::Events`].
    pub events: S::Events,
}
