//! Bricks of a field in the memory of ranks, and a source that reads them there.
//!
//! Rank after rank holds bricks in ascending order, about as many each. In the memory that a rank exports, they lie one
//! behind the other, each where a slot's length begins: so a brick is one span, and a load is one read.

use std::ops::Range;
use std::time::Instant;

use umbra_core::ticket::Ticket;

use super::Bricks;
use crate::session::SharedSession;
use crate::stencil::{LoadError, Source};

/// Which rank holds which bricks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// How the field is cut.
    pub bricks: Bricks,
    /// Bytes of a number.
    pub element_bytes: usize,
    /// Ranks that hold bricks.
    pub holders: u32,
}

impl Spread {
    /// The bricks that a holder has, by number; none if there are more holders than bricks, or no such holder.
    #[must_use]
    pub fn of(&self, holder: u32) -> Range<u64> {
        if holder >= self.holders {
            return 0..0;
        }
        let begin = |holder: u32| self.bricks.count() * u64::from(holder) / u64::from(self.holders);
        begin(holder)..begin(holder + 1)
    }

    /// Bytes from the beginning of a brick to that of the next one; `None` if no memory holds a brick.
    #[must_use]
    pub fn stride(&self) -> Option<usize> {
        usize::try_from(self.bricks.points_of_one()).ok()?.checked_mul(self.element_bytes)
    }

    /// Bytes of the memory of a holder; `None` if that is more than memory can be.
    #[must_use]
    pub fn bytes_of(&self, holder: u32) -> Option<usize> {
        let numbers = self.of(holder);
        usize::try_from(numbers.end - numbers.start).ok()?.checked_mul(self.stride()?)
    }

    /// Where a brick lies: its holder, the offset in the holder's memory, and its bytes.
    #[must_use]
    pub fn place(&self, number: u64) -> Option<(u32, u64, usize)> {
        let brick = self.bricks.brick(number)?;
        // The last holder that begins with this brick or an earlier one.
        let holder = ((number + 1) * u64::from(self.holders)).div_ceil(self.bricks.count()).checked_sub(1)?;
        let holder = u32::try_from(holder).ok()?;
        let offset = (number - self.of(holder).start).checked_mul(self.stride()? as u64)?;
        Some((holder, offset, brick.len() * self.element_bytes))
    }
}

/// Bricks in the memory of ranks as inputs.
#[derive(Clone, Debug)]
pub struct BrickRanks<'s> {
    /// Who reads.
    pub session: &'s SharedSession,
    /// Who holds what.
    pub spread: Spread,
    /// What each holder has exported; `None` of one that holds nothing.
    pub tickets: Vec<Option<Ticket>>,
    /// Bricks of which the agent is told before they are loaded, so that it reads them ahead; 0 for none.
    pub ahead: usize,
}

impl Source for BrickRanks<'_> {
    fn load(&self, data: u64, into: &mut [u8], _: Instant) -> Result<(), LoadError> {
        let unknown = LoadError::Size { need: 0, have: into.len() };
        let Some((holder, offset, need)) = self.spread.place(data) else { return Err(unknown) };
        let ticket = self.tickets.get(holder as usize).and_then(Option::as_ref);
        let have = into.len();
        let into = into.get_mut(..need).ok_or(LoadError::Size { need, have })?;
        let read = self.session.read(ticket.ok_or(unknown)?, offset, into);
        read.map_err(|error| LoadError::Other(error.into()))
    }

    fn ahead(&self) -> usize {
        self.ahead
    }

    fn expect(&self, data: u64) {
        let Some((holder, offset, bytes)) = self.spread.place(data) else { return };
        if let Some(ticket) = self.tickets.get(holder as usize).and_then(Option::as_ref) {
            // A session that is over says so to the load.
            let _ = self.session.read_ahead(ticket, offset, bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_brick_has_one_place_and_places_do_not_overlap() {
        for (extents, edges, holders) in
            [([1, 7, 9], [1, 3, 4], 1), ([1, 7, 9], [1, 3, 4], 2), ([5, 6, 7], [2, 4, 7], 7), ([1, 1, 3], [1; 3], 5)]
        {
            let bricks = Bricks::new(extents, edges).unwrap();
            let spread = Spread { bricks, element_bytes: 8, holders };
            let mut next = 0;
            for holder in 0..holders {
                let numbers = spread.of(holder);
                assert_eq!(numbers.start, next, "{extents:?} {holders}");
                next = numbers.end;
                let stride = spread.stride().unwrap();
                for (number, at) in numbers.zip((0..).step_by(stride)) {
                    let (of, offset, bytes) = spread.place(number).unwrap();
                    assert_eq!((of, offset), (holder, at), "brick {number} of {extents:?} in {holders}");
                    assert!(bytes <= stride && at as usize + stride <= spread.bytes_of(holder).unwrap());
                }
            }
            assert_eq!((next, spread.place(next), spread.of(holders)), (bricks.count(), None, 0..0));
        }
    }
}
