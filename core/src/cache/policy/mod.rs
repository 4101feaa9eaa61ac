//! Which idle content leaves when a slot is needed.
//!
//! A policy sees what a cache does with slots that hold content, keeps their order in lists through the
//! slots themselves, and names the victim. Content in use stays: where the search meets it, it is taken out of
//! the order and comes back, as new, with its last reference. So each use costs the search one step at most, and
//! nothing has to be moved when a reference is taken.
//!
//! | policy | a hit costs | good for |
//! |---|---|---|
//! | [`Fifo`] | nothing | content that is used once |
//! | [`Lru`] | a note; each 16th time 16 moves in a list | recency; the yardstick |
//! | [`Clock`] | a bit | recency without moves: the choice if nothing is known |
//! | [`Sieve`] | a bit | skewed ids |
//! | [`S3Fifo`] | a counter | skewed ids with many that come once |
//! | [`NextUse`] | a move in a list, at times | a known future: stencils |

mod clock;
mod fifo;
mod lru;
mod next_use;
mod s3fifo;
mod sieve;

pub use clock::Clock;
pub use fifo::Fifo;
pub use lru::Lru;
pub use next_use::NextUse;
pub use s3fifo::S3Fifo;
pub use sieve::Sieve;

use super::slot::Slot;

/// When content is needed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At this point of the caller's own count.
    At(u64),
    /// Nobody knows.
    Unknown,
}

/// An order of eviction; the types of this module are all there are.
pub trait Policy: sealed::Sealed {
    /// Forgets all order, for these slots, none of which is used any more.
    fn clear(&mut self, slots: &mut [Slot]);

    /// Whether what this policy notes in a record stays there when the slot gets other content.
    const NOTES_STAY: bool = false;

    /// Up to how many uses of content that is in the order already this policy counts, if it does no more with them. Then
    /// further uses need not be told to [`Policy::hit`], and none earlier than when the search comes by; and that the last
    /// reference to such content was given back is told to [`Policy::idle_again`]. `None` if it has to be told all.
    const USES: Option<u32> = None;

    /// Content was found by a client.
    fn hit(slot: &mut Slot);

    /// The last reference to content was given back.
    fn idle(&mut self, slots: &mut [Slot], slot: u32, next: Next);

    /// The last reference was given back to content that is in the order already, and whose uses this policy
    /// [only counts](Policy::USES); when it is needed again is not known.
    #[inline]
    fn idle_again(&mut self, _slots: &mut [Slot], _slot: u32) {}

    /// Content leaves other than as the victim.
    fn leave(&mut self, slots: &mut [Slot], slot: u32);

    /// Has fetched what [`Policy::idle`] will need of new content.
    #[inline]
    fn will_enter(&self, _slots: &[Slot], _data: u64) {}

    /// Takes the idle slot out of the order whose content is given up first. The watch is told each record that the
    /// search comes by, before it is judged.
    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32>;
}

/// Who accompanies the search for a victim.
pub trait Watch {
    /// The search comes by this record, and judges it next.
    fn comes_by(&mut self, slot: &mut Slot);

    /// The search will come by this record soon: what is needed then can be fetched.
    fn will_come_by(&mut self, slot: &Slot);
}

/// Nobody.
impl Watch for () {
    fn comes_by(&mut self, _: &mut Slot) {}
    fn will_come_by(&mut self, _: &Slot) {}
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fifo {}
    impl Sealed for super::Lru {}
    impl Sealed for super::Clock {}
    impl Sealed for super::Sieve {}
    impl Sealed for super::S3Fifo {}
    impl<H> Sealed for super::NextUse<H> {}
    impl Sealed for super::Never {}
}

/// Nothing ever leaves: content goes with its last reference, so there is nothing to evict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

impl Policy for Never {
    fn clear(&mut self, _: &mut [Slot]) {}
    fn hit(_: &mut Slot) {}
    fn idle(&mut self, _: &mut [Slot], _: u32, _: Next) {}
    fn leave(&mut self, _: &mut [Slot], _: u32) {}
    fn victim(&mut self, _: &mut [Slot], _: &mut impl Watch) -> Option<u32> {
        None
    }
}
