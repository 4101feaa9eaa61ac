//! What the machine is lent: slots, and the tables around them.

use super::kept::Keeping;
use super::line::{List, Waiter};
use crate::cache;
use crate::key::{Key, Span};
use crate::machine::Link;
use crate::map::Entry;
use crate::slots::Slot;

/// What is in a slot, or will be; lent by the caller, one for each slot.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    pub(super) span: Span,
    pub(super) via: Link,
    pub(super) state: State,
    /// The content may stay once it is there.
    pub(super) keep: bool,
    /// Who said that he will read it, as long as nobody has.
    pub(super) hinted: Option<Link>,
    /// The read under way was made ahead.
    pub(super) early: bool,
    pub(super) waiting: List,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing is under way.
    Quiet,
    /// Waits for leave to keep.
    Parked,
    /// Waits for its turn to be read.
    Queued,
    /// Waits to be read ahead, when nobody waits for anything else.
    Ahead,
    Flying,
    /// Was read, well or not; those who wait are being told.
    Ended,
    /// Will not be kept; those who wait read elsewhere.
    Refused,
}

impl Tag {
    /// Of a slot that was never used.
    pub const NONE: Tag = Tag {
        span: Span { key: Key::from_bits(0), offset: 0, len: 0 },
        via: Link(0),
        state: State::Quiet,
        keep: false,
        hinted: None,
        early: false,
        waiting: List::EMPTY,
    };
}

/// The types of the lent storage.
pub trait Storage {
    /// Records of slots.
    type Slots: AsRef<[cache::Slot]> + AsMut<[cache::Slot]>;
    /// Where slots are found by their spans: [`cache::Line::for_ids`] tells how many.
    type Places: AsRef<[cache::Line]> + AsMut<[cache::Line]>;
    /// The ids of their spans, as many as slots.
    type Ids: AsRef<[u64]> + AsMut<[u64]>;
    /// As many as slots.
    type Tags: AsRef<[Tag]> + AsMut<[Tag]>;
    /// As many as slots.
    type Queue: AsRef<[u32]> + AsMut<[u32]>;
    /// Regions of which spans are kept.
    type Regions: AsRef<[Slot<Keeping>]> + AsMut<[Slot<Keeping>]>;
    /// Where these are found by key; a seventh more.
    type Keys: AsRef<[Entry<u64, u32>]> + AsMut<[Entry<u64, u32>]>;
    /// Ranks that wait, once for each span.
    type Waiters: AsRef<[Slot<Waiter>]> + AsMut<[Slot<Waiter>]>;
    /// Counts, one for each link.
    type Links: AsRef<[u32]> + AsMut<[u32]>;
}

/// The lent storage itself.
#[allow(missing_docs, reason = "each field is described where its type is")]
pub struct Lent<S: Storage> {
    pub slots: S::Slots,
    pub places: S::Places,
    pub ids: S::Ids,
    pub tags: S::Tags,
    pub queue: S::Queue,
    pub ahead: S::Queue,
    pub regions: S::Regions,
    pub keys: S::Keys,
    pub waiters: S::Waiters,
    pub links: S::Links,
    pub hints: S::Links,
    pub flying: S::Links,
}
