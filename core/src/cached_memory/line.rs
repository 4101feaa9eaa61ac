//! Who waits for room, in the order of arrival.

use core::fmt;

/// Waiters at most.
const PLACES: u64 = 64;

/// A place in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "nobody who is new gets room while a turn is held: use it or leave the line"]
pub struct Turn {
    /// Counted from the first who ever was first; used again when those behind it have left.
    place: u64,
    /// One for each who came.
    number: u64,
}

/// What a waiter needs before a retry is worth while, in granules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Need {
    /// Its longest piece.
    pub(super) longest: u32,
    /// All of its pieces.
    pub(super) total: u32,
}

/// 64 wait already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LineFull;

impl fmt::Display for LineFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64 wait for room already: wait in a line of your own until one of them has gone")
    }
}
impl core::error::Error for LineFull {}

/// The line: turns are numbers, and a bit tells whether the one who holds it still waits.
#[derive(Clone, Debug)]
pub(super) struct Line {
    first: u64,
    /// Bit `n`: turn `first + n` waits.
    waiting: u64,
    /// How many came so far.
    came: u64,
    /// By place: what is needed, and by whose number.
    needs: [(Need, u64); PLACES as usize],
}

impl Line {
    pub(super) const EMPTY: Self =
        Line { first: 0, waiting: 0, came: 0, needs: [(Need { longest: 0, total: 0 }, 0); PLACES as usize] };

    pub(super) fn enter(&mut self, need: Need) -> Result<Turn, LineFull> {
        let behind = u64::from(u64::BITS - self.waiting.leading_zeros());
        if behind >= PLACES {
            return Err(LineFull);
        }
        self.waiting |= 1 << behind;
        let turn = Turn { place: self.first + behind, number: self.came };
        self.came += 1;
        self.needs[(turn.place % PLACES) as usize] = (need, turn.number);
        Ok(turn)
    }

    /// Whether the turn waited; it does not any more.
    pub(super) fn leave(&mut self, turn: Turn) -> bool {
        let Some(bit) = self.bit(turn) else { return false };
        self.waiting &= !bit;
        // The first place is always that of somebody who waits.
        let gone = self.waiting.trailing_zeros();
        if self.waiting == 0 {
            self.first = turn.place + 1;
        } else {
            self.waiting >>= gone;
            self.first += u64::from(gone);
        }
        true
    }

    /// Whether nobody is in front of this one.
    pub(super) fn may_go(&self, turn: Option<Turn>) -> bool {
        match turn {
            None => self.waiting == 0,
            Some(turn) => self.head().is_some_and(|(first, _)| first == turn),
        }
    }

    pub(super) fn waits(&self, turn: Turn) -> bool {
        self.bit(turn).is_some()
    }

    pub(super) fn head(&self) -> Option<(Turn, Need)> {
        let (need, number) = self.needs[(self.first % PLACES) as usize];
        (self.waiting != 0).then_some((Turn { place: self.first, number }, need))
    }

    fn bit(&self, turn: Turn) -> Option<u64> {
        let place = turn.place.checked_sub(self.first).filter(|&place| place < PLACES)?;
        let is_its = self.needs[(turn.place % PLACES) as usize].1 == turn.number;
        Some(1 << place).filter(|bit| is_its && self.waiting & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_in_the_order_of_arrival_and_those_who_left_are_skipped() {
        let mut line = Line::EMPTY;
        let turns: std::vec::Vec<_> = (0..64).map(|_| line.enter(Need::default()).unwrap()).collect();
        assert_eq!(line.enter(Need::default()), Err(LineFull));
        assert!(line.may_go(Some(turns[0])) && !line.may_go(Some(turns[1])) && !line.may_go(None));
        assert!(line.leave(turns[1]) && !line.leave(turns[1]));
        assert!(line.leave(turns[0]));
        assert_eq!(line.head().map(|head| head.0), Some(turns[2]));
        assert!(line.enter(Need::default()).is_ok());
        for turn in &turns[2..] {
            assert!(line.leave(*turn));
        }
        let (last, _) = line.head().unwrap();
        assert!(line.leave(last) && line.head().is_none() && line.may_go(None));
        assert!(line.enter(Need::default()).is_ok_and(|turn| line.may_go(Some(turn))));
    }

    #[test]
    fn a_turn_that_is_over_is_not_that_of_who_comes_next() {
        for stays in [true, false] {
            let mut line = Line::EMPTY;
            let (first, spent) = (line.enter(Need::default()).unwrap(), line.enter(Need::default()).unwrap());
            assert!(line.leave(spent) && (stays || line.leave(first)));
            let next = line.enter(Need::default()).unwrap();
            assert!(!line.leave(spent) && !line.waits(spent) && !line.may_go(Some(spent)));
            assert!(line.waits(next) && line.leave(next));
        }
    }
}
