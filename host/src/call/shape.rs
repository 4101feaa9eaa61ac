//! How large a meeting place is, and where in its segment what lies.
//!
//! Where several places are joined, the shape says which members are in which.

use umbra_core::chain::Node;
use umbra_core::channel::{self, ShapeError};
use umbra_core::tree::domains::Place;
use umbra_core::tree::explicit::ROOT;

use super::offer::OFFERS;
use super::station::StationError;

/// Words of a line; the header has one, and each seat.
pub(super) const LINE: usize = 16;
const OFFER_MAX: u64 = 64 << 30;
/// Bits of the number of a member of one place.
pub(super) const SEAT_BITS: u32 = 10;
/// Members on all hosts.
const ALL_MAX: u32 = 1 << 14;

/// So many words, and the rest of their last line.
pub(super) const fn in_lines(words: usize) -> usize {
    words.next_multiple_of(LINE)
}

/// How many members meet, and how much an inbox holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Members here, at most 1024.
    pub members: u16,
    /// The number of the first of them; zero where members meet in one place only.
    pub first: u32,
    /// Members in all places that are joined, at most 16384; as many as there are here where there is one place.
    pub all: u32,
    /// Messages that can wait in an inbox.
    pub messages: u32,
    /// Bytes of the longest message.
    pub message_bytes: u32,
    /// Bytes in which each member can offer data, and as many besides in which it keeps long replies for whoever reads them; what
    /// was never used of both takes no memory.
    pub offer_bytes: u64,
}

impl Shape {
    /// For so many members: inboxes of 128 messages of 4 KiB, and nothing to offer data in.
    #[must_use]
    pub const fn new(members: u16) -> Shape {
        Shape { members, first: 0, all: members as u32, messages: 128, message_bytes: 4096, offer_bytes: 0 }
    }

    /// The same as one of so many places that are joined, the how-manieth.
    #[must_use]
    pub const fn joined(self, place: u32, places: u32) -> Shape {
        let members = self.members as u32;
        Shape { first: members.saturating_mul(place), all: members.saturating_mul(places), ..self }
    }

    /// Everybody, on all hosts.
    pub fn nodes(self) -> impl Iterator<Item = Node> {
        (0..self.all).map(Node)
    }

    /// Those who meet here.
    pub fn here(self) -> impl Iterator<Item = Node> {
        (self.first..self.first.saturating_add(self.members.into())).map(Node)
    }

    /// Whether a member meets the others here.
    #[must_use]
    pub const fn is_here(self, node: Node) -> bool {
        node.0 >= self.first && node.0 - self.first < self.members as u32
    }

    /// In which of the joined places a member is.
    #[must_use]
    pub const fn place(self, node: Node) -> u32 {
        if self.members == 0 { 0 } else { node.0 / self.members as u32 }
    }

    /// Where a member is in the tree of places; a member that there is not is nowhere.
    pub(super) fn place_of(self, member: Option<Node>) -> Place {
        let node = member.unwrap_or(Node(u32::MAX));
        Place { domain: self.place(node), leads: node.0 == self.place(node) * u32::from(self.members) }
    }

    /// How many places are joined.
    #[must_use]
    pub const fn places(self) -> u32 {
        if self.members == 0 { 1 } else { self.all / self.members as u32 }
    }

    /// The first so many members of every place; all of them, if a place has fewer.
    #[must_use]
    pub fn residents(self, each: u32) -> Vec<Node> {
        let each = each.min(self.members.into());
        let firsts = (0..self.places()).map(|place| place * u32::from(self.members));
        firsts.flat_map(|first| (first..first + each).map(Node)).collect()
    }

    /// A stopped member keeps one slot of an inbox, so there are as many spare ones.
    pub(super) const fn inbox(self) -> channel::Shape {
        channel::Shape { capacity: self.messages, spares: self.members as u32 + 1, block: self.message_bytes }
    }

    pub(super) fn checked(self) -> Result<Shape, StationError> {
        if u32::from(self.members) > 1 << SEAT_BITS {
            return Err(StationError::TooMany(self.members.into(), 1 << SEAT_BITS));
        }
        if self.all > ALL_MAX {
            return Err(StationError::TooMany(self.all, ALL_MAX));
        }
        if self.first.checked_add(self.members.into()).is_none_or(|end| end > self.all) {
            return Err(StationError::NoSeat(Node(self.all)));
        }
        if self.offer_bytes > OFFER_MAX {
            return Err(StationError::TooLarge(self.offer_bytes));
        }
        Ok(self)
    }

    pub(super) fn inbox_words(self) -> Result<usize, ShapeError> {
        Ok(in_lines(self.inbox().words()?))
    }

    pub(super) const fn seats_at(self) -> usize {
        LINE
    }

    pub(super) const fn inboxes_at(self) -> usize {
        self.seats_at() + self.all as usize * LINE
    }

    /// Of one table and its memory.
    pub(super) const fn offer_words(self) -> usize {
        let words = (self.offer_bytes as usize).div_ceil(8 * LINE) * LINE;
        if words == 0 { 0 } else { OFFERS * LINE + words }
    }

    pub(super) fn offers_at(self) -> Result<usize, ShapeError> {
        Ok(self.inboxes_at() + usize::from(self.members) * self.inbox_words()?)
    }

    /// Tables and memories: for the offers of each member here, and behind these for the long replies of each.
    pub(super) const fn offer_areas(self) -> usize {
        2 * self.members as usize
    }

    pub(super) fn words(self) -> Result<usize, ShapeError> {
        Ok(self.offers_at()? + self.offer_areas() * self.offer_words())
    }
}

/// A stated tree with one more at its top, who makes the call, and is not among its members.
#[must_use]
pub fn below(parents: &[u32]) -> Vec<u32> {
    std::iter::once(ROOT).chain(parents.iter().map(|&above| above.wrapping_add(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_has_more_residents_than_members() {
        let shape = Shape::new(4).joined(0, 3);
        assert_eq!(shape.residents(2), [0, 1, 4, 5, 8, 9].map(Node));
        for each in [4, 5, 1000, u32::MAX] {
            assert!(shape.residents(each).into_iter().eq(shape.nodes()), "{each}");
        }
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        assert!(Shape::new(1024).joined(15, 16).checked().is_ok());
        assert_eq!(Shape::new(1024).joined(0, 17).checked(), Err(StationError::TooMany(17 << 10, ALL_MAX)));
        assert!(matches!(Shape::new(8).joined(3, 3).checked(), Err(StationError::NoSeat(_))));
        assert!(matches!(Shape::new(1025).checked(), Err(StationError::TooMany(1025, 1024))));
    }
}
