//! Who waits for room, in the order of arrival.

use core::fmt;

/// Waiters at most.
const PLACES: usize = 64;

/// A place in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "nobody who is new gets room while a turn is held: use it or leave the line"]
pub struct Turn {
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

impl Need {
    /// One more piece; more than the whole memory is not counted.
    pub(super) fn add(&mut self, len: u32, capacity: u32) {
        self.longest = self.longest.max(len);
        self.total = self.total.saturating_add(len).min(capacity);
    }
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

/// The line: those who wait, without gaps, so their numbers go up.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// How many wait.
    waiting: usize,
    /// How many came so far.
    came: u64,
    /// Whether somebody became the first and has not tried since: those before may have brought what it needs.
    moved: bool,
    /// What is needed, and by whose number; from `waiting` on nobody's.
    needs: [(Need, u64); PLACES],
}

impl Line {
    pub(super) const EMPTY: Self =
        Line { waiting: 0, came: 0, moved: false, needs: [(Need { longest: 0, total: 0 }, 0); PLACES] };

    pub(super) fn enter(&mut self, need: Need) -> Result<Turn, LineFull> {
        let place = self.needs.get_mut(self.waiting).ok_or(LineFull)?;
        let turn = Turn { number: self.came };
        *place = (need, turn.number);
        self.waiting += 1;
        self.came += 1;
        Ok(turn)
    }

    /// Whether the turn waited; it does not any more.
    pub(super) fn leave(&mut self, turn: Turn) -> bool {
        let Some(place) = self.place(turn) else { return false };
        self.needs.copy_within(place + 1..self.waiting, place);
        self.waiting -= 1;
        if place == 0 {
            self.moved = self.waiting > 0;
        }
        true
    }

    /// Notes that a turn was refused room, and what it lacks, if that is known.
    pub(super) fn refuse(&mut self, turn: Turn, lacks: Option<Need>) {
        let Some(place) = self.place(turn) else { return };
        if let Some(need) = lacks {
            self.needs[place].0 = need;
        }
        self.moved &= place != 0;
    }

    /// Whether the first has not tried since it is the first.
    pub(super) fn has_moved(&self) -> bool {
        self.moved
    }

    /// Whether nobody is in front of this one.
    pub(super) fn may_go(&self, turn: Option<Turn>) -> bool {
        match turn {
            None => self.waiting == 0,
            Some(turn) => self.head().is_some_and(|(first, _)| first == turn),
        }
    }

    pub(super) fn waits(&self, turn: Turn) -> bool {
        self.place(turn).is_some()
    }

    pub(super) fn head(&self) -> Option<(Turn, Need)> {
        let &(need, number) = self.needs.first()?;
        (self.waiting != 0).then_some((Turn { number }, need))
    }

    fn place(&self, turn: Turn) -> Option<usize> {
        self.needs[..self.waiting].binary_search_by_key(&turn.number, |&(_, number)| number).ok()
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
    fn who_left_keeps_nobody_out() {
        let mut line = Line::EMPTY;
        let need = |total| Need { longest: 1, total };
        let first = line.enter(need(0)).unwrap();
        // All between the first and the last one leave.
        let turns: std::vec::Vec<_> = (1..64).map(|total| line.enter(need(total)).unwrap()).collect();
        let (last, between) = turns.split_last().unwrap();
        assert!(between.iter().all(|&turn| line.leave(turn)));
        let more: std::vec::Vec<_> = (64..126).map(|total| line.enter(need(total)).unwrap()).collect();
        assert_eq!(line.enter(need(126)), Err(LineFull));
        let order = [first, *last].into_iter().chain(more).zip([0].into_iter().chain(63..));
        for (turn, total) in order {
            assert_eq!(line.head(), Some((turn, need(total))));
            assert!(line.waits(turn) && line.leave(turn) && !line.waits(turn));
        }
        assert_eq!(line.head(), None);
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
