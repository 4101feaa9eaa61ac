//! Memory of replies that are over, which others use again.

use crate::sys::heap::filled;

/// Pieces that are kept.
const MOST: usize = 4;

/// The longest pieces that were given back.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// Memory of at least so many bytes, which hold anything; an empty piece if there is none.
    pub(super) fn take(&mut self, len: usize) -> Vec<u8> {
        let fits = self.0.iter().enumerate().filter(|(_, memory)| memory.len() >= len);
        match fits.min_by_key(|(_, memory)| memory.len()) {
            Some((at, _)) => self.0.swap_remove(at),
            None => filled(0, len).unwrap_or_default(),
        }
    }

    /// Such memory is not needed any more.
    pub(super) fn give(&mut self, memory: Vec<u8>) {
        self.0.push(memory);
        if self.0.len() > MOST {
            let shortest = self.0.iter().enumerate().min_by_key(|(_, memory)| memory.len());
            shortest.map(|(at, _)| at).map(|at| self.0.swap_remove(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_piece_that_is_long_enough_is_used_again_and_the_longest_are_kept() {
        let mut spare = Spare::default();
        (1..=6).for_each(|len| spare.give(vec![0; 10 * len]));
        let len = |memory: Vec<u8>| memory.len();
        assert_eq!([41, 41, 1, 1].map(|least| len(spare.take(least))), [50, 60, 30, 40]);
        assert_eq!([7, 0].map(|least| len(spare.take(least))), [7, 0]);
    }
}
