//! What was given, and is given back when it is dropped.

use super::shared::{Cached, Offset, Shared};
use crate::cache::waiting::Lock;
use crate::cache::{FillError, Found};
use crate::cached_memory::{Member, Place};

/// A range. Dropping it gives it back; after an interrupt that does nothing.
#[must_use = "a range that is dropped is given back"]
pub struct HeldRange<'a, L: Lock<Value: Offset>> {
    shared: &'a Shared<L>,
    offset: u64,
    len: u64,
    frees: bool,
}

impl<'a, L: Lock<Value: Offset>> HeldRange<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, offset: u64, len: u64) -> Self {
        HeldRange { shared, offset, len, frees: true }
    }

    /// Where it begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that were wished for.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes; it has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The offset without the duty to give the range back: [`Shared::free_range`] does that, by anybody.
    pub fn into_offset(mut self) -> u64 {
        self.frees = false;
        self.offset
    }
}

impl<L: Lock<Value: Offset>> Drop for HeldRange<'_, L> {
    fn drop(&mut self) {
        if self.frees {
            // After an interrupt, and if somebody freed it by its offset, there is nothing to give back.
            let _ = self.shared.free_range(self.offset);
        }
    }
}

/// References to the places of some data, and the duty to fill those that were found empty. Dropping it gives all of them
/// back, and gives up what was not filled; after an interrupt that does nothing.
#[must_use = "references that are dropped are given back"]
pub struct Held<'a, L: Lock<Value: Cached>, G: AsRef<[Member]>> {
    shared: &'a Shared<L>,
    /// Gone once they were given away.
    members: Option<G>,
}

impl<'a, L: Lock<Value: Cached>, G: AsRef<[Member]>> Held<'a, L, G> {
    pub(super) fn new(shared: &'a Shared<L>, members: G) -> Self {
        Held { shared, members: Some(members) }
    }

    /// The members, in the order of the request.
    pub fn members(&self) -> &[Member] {
        self.members.as_ref().map_or(&[], AsRef::as_ref)
    }

    /// The place of a member; `None` beyond the last one.
    pub fn place(&self, at: usize) -> Option<Place> {
        self.members().get(at).and_then(Member::place)
    }

    /// Where a member begins, in bytes; `None` beyond the last one.
    pub fn offset(&self, at: usize) -> Option<u64> {
        self.place(at).map(|place| place.offset)
    }

    /// The members without the duty to give them back: [`Shared::free`] does that for each, by anybody.
    pub fn into_members(mut self) -> Option<G> {
        self.members.take()
    }
}

impl<L: Lock<Value: Cached>, G: AsRef<[Member]> + AsMut<[Member]>> Held<'_, L, G> {
    /// The members that were found empty are filled, all of them.
    ///
    /// # Errors
    /// [`FillError`] if the memory was interrupted, or if somebody else said so before; what comes behind is still to be
    /// filled.
    pub fn remember(&mut self) -> Result<(), FillError> {
        let Some(members) = &mut self.members else { return Ok(()) };
        for member in members.as_mut() {
            if let Some(place) = member.place()
                && place.found == Found::Empty
            {
                self.shared.act(|memory| memory.filled(member.data()))?;
                member.put(Place { found: Found::Remembered, ..place });
            }
        }
        Ok(())
    }
}

impl<L: Lock<Value: Cached>, G: AsRef<[Member]>> Drop for Held<'_, L, G> {
    fn drop(&mut self) {
        if let Some(members) = self.members.take() {
            self.shared.act(|memory| memory.take_back(members.as_ref()));
        }
    }
}
