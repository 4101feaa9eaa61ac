//! How a request carries a list: every word, or runs of them if these are shorter.
//!
//! The members of a job mostly have numbers that follow one another, and nearly all subtrees have one member, so that a list
//! of thousands is a few runs. A short list is not looked at for them, as it takes no longer to send than to look.

use crate::codec::{Reader, Short, Writer};

/// Words up to which a column is sent as it is: a kibibyte.
const PLAIN: usize = 256;
/// Bytes of a word, and of a run.
const WORD: usize = 4;
const RUN: usize = 8;
/// Words that are compared at once.
const BLOCK: usize = 16;

/// A column of a list as a request has it. As long as a run lasts, each word is by `STEP` more than the one before it: 1 for
/// the names of members, 0 for the sizes of their subtrees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column<'a, const STEP: u32> {
    /// Every word.
    Words(&'a [[u8; WORD]]),
    /// The first word of every run, and how many it has.
    Runs(&'a [[u8; RUN]]),
}

const fn word(bytes: [u8; WORD]) -> u32 {
    u32::from_le_bytes(bytes)
}

/// The first word of a run, and how many it has.
const fn run(bytes: [u8; RUN]) -> (u32, u32) {
    let both = u64::from_le_bytes(bytes);
    (both as u32, (both >> 32) as u32)
}

/// The word of this number in a run that begins with `first`.
#[inline]
const fn later<const STEP: u32>(first: u32, nth: u32) -> u32 {
    first.wrapping_add(STEP.wrapping_mul(nth))
}

impl<'a, const STEP: u32> Column<'a, STEP> {
    /// Reads a column of so many words, which is in so many runs, or none; `None` if it is not.
    pub(super) fn parse(from: &mut Reader<'a>, len: u32, runs: u16) -> Option<Self> {
        if runs == 0 {
            let bytes = from.bytes(usize::try_from(len).ok()?.checked_mul(WORD)?).ok()?;
            return Some(Column::Words(bytes.as_chunks().0));
        }
        let runs = from.bytes(usize::from(runs) * RUN).ok()?.as_chunks().0;
        let of_runs = runs.iter().map(|&bytes| u64::from(run(bytes).1));
        (of_runs.sum::<u64>() == u64::from(len)).then_some(Column::Runs(runs))
    }

    /// Writes it, as runs if it has many words and so becomes shorter: how many runs, none if it is written as it is.
    pub(super) fn emit(self, to: &mut Writer<'_>) -> Result<u16, Short> {
        match self {
            Column::Words(words) => {
                let packed = if words.len() > PLAIN { to.part(|room| pack::<STEP>(words, room)) } else { None };
                match packed {
                    Some(bytes) => Ok((bytes / RUN) as u16),
                    None => to.bytes(words.as_flattened()).map(|()| 0),
                }
            }
            Column::Runs(runs) => {
                let count = u16::try_from(runs.len()).map_err(|_| Short)?;
                to.bytes(runs.as_flattened()).map(|()| count)
            }
        }
    }

    /// The first word, if there is one.
    pub(super) fn first(self) -> Option<u32> {
        self.words().next()
    }

    /// All words.
    #[inline]
    pub(super) fn words(self) -> impl Iterator<Item = u32> + use<'a, STEP> {
        let (words, runs) = match self {
            Column::Words(words) => (words, &[][..]),
            Column::Runs(runs) => (&[][..], runs),
        };
        let of_run = |&bytes: &[u8; RUN]| {
            let (first, len) = run(bytes);
            (0..len).map(move |nth| later::<STEP>(first, nth))
        };
        words.iter().map(|&bytes| word(bytes)).chain(runs.iter().flat_map(of_run))
    }

    /// Finds the words at these places, which may only go up.
    pub(super) fn finder(self) -> impl FnMut(u32) -> Option<u32> + use<'a, STEP> {
        let (mut begin, mut nth) = (0, 0);
        move |at| match self {
            Column::Words(words) => words.get(at as usize).map(|&bytes| word(bytes)),
            Column::Runs(runs) => loop {
                let (first, len) = run(*runs.get(nth)?);
                match at.checked_sub(begin)? {
                    into if into < len => return Some(later::<STEP>(first, into)),
                    _ => (begin, nth) = (begin + len, nth + 1),
                }
            },
        }
    }

    /// Writes all words to `place`, which is as long.
    pub(super) fn write(self, place: &mut [u8]) {
        match self {
            Column::Words(words) => place.copy_from_slice(words.as_flattened()),
            Column::Runs(runs) => {
                let mut rest = place.as_chunks_mut().0;
                for &bytes in runs {
                    let (first, len) = run(bytes);
                    let Some((of_run, after)) = rest.split_at_mut_checked(len as usize) else { return };
                    for (place, nth) in of_run.iter_mut().zip(0..) {
                        *place = later::<STEP>(first, nth).to_le_bytes();
                    }
                    rest = after;
                }
            }
        }
    }

    /// The most bytes of any piece of it in a request.
    pub(super) fn most(self, len: u32) -> usize {
        match self {
            Column::Words(words) => words.len() * WORD,
            Column::Runs(runs) => bytes_of(len as usize, runs.len()),
        }
    }
}

/// The most bytes of any piece of a column of so many words that has so many runs: a piece has no more of either, and is sent
/// as it is if it is short.
fn bytes_of(len: usize, runs: usize) -> usize {
    let runs = if runs > usize::from(u16::MAX) { usize::MAX } else { runs * RUN };
    (len * WORD).min(runs.max(PLAIN * WORD))
}

/// The most bytes of any piece of a column of these words in a request.
pub(super) fn most<const STEP: u32>(words: impl Iterator<Item = u32>) -> usize {
    let (mut len, mut runs, mut next) = (0, 0, None);
    for word in words {
        len += 1;
        runs += usize::from(next != Some(word));
        next = Some(word.wrapping_add(STEP));
    }
    bytes_of(len, runs)
}

/// Writes the runs of these words; how many bytes, or `None` if they are not shorter.
fn pack<const STEP: u32>(words: &[[u8; WORD]], to: &mut [u8]) -> Option<usize> {
    let most = ((words.len() * WORD - 1) / RUN).min(usize::from(u16::MAX));
    let mut places = to.as_chunks_mut::<RUN>().0.iter_mut().take(most);
    let (mut rest, mut runs) = (words, 0);
    while let Some(&first) = rest.first() {
        let len = run_len::<STEP>(word(first), rest);
        *places.next()? = (u64::from(word(first)) | (len as u64) << 32).to_le_bytes();
        rest = &rest[len..];
        runs += 1;
    }
    Some(runs * RUN)
}

/// How many words the run has that these begin with.
fn run_len<const STEP: u32>(first: u32, words: &[[u8; WORD]]) -> usize {
    let expected = |nth: usize| later::<STEP>(first, nth as u32);
    let differs = |(at, block): (usize, &[[u8; WORD]; BLOCK])| {
        let each = block.iter().enumerate();
        each.fold(0, |sum, (nth, &bytes)| sum | (word(bytes) ^ expected(at * BLOCK + nth))) != 0
    };
    let blocks = words.as_chunks::<BLOCK>().0;
    let begin = BLOCK * blocks.iter().enumerate().position(differs).unwrap_or(blocks.len());
    let rest = words[begin..].iter().enumerate();
    begin + rest.take_while(|&(nth, &bytes)| word(bytes) == expected(begin + nth)).count()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn flat(words: &[u32]) -> Vec<[u8; WORD]> {
        words.iter().map(|word| word.to_le_bytes()).collect()
    }

    /// What is written of these words, in how many runs, and what is read of that.
    fn there_and_back<const STEP: u32>(words: &[u32]) -> (usize, u16) {
        let mut bytes = std::vec![0; words.len() * WORD];
        let mut to = Writer::new(&mut bytes);
        let plain = flat(words);
        let runs = Column::<STEP>::Words(&plain).emit(&mut to).unwrap();
        let len = to.len();
        let mut from = Reader::new(&bytes[..len]);
        let read = Column::<STEP>::parse(&mut from, words.len() as u32, runs).unwrap();
        assert!(from.rest().is_empty());
        assert!(read.words().eq(words.iter().copied()));
        assert_eq!(read.first(), words.first().copied());
        let mut find = read.finder();
        assert!((0..).step_by(3).zip(words.iter().step_by(3)).all(|(at, word)| find(at) == Some(*word)));
        assert_eq!(find(words.len() as u32), None);
        let mut place = std::vec![0; words.len() * WORD];
        read.write(&mut place);
        assert_eq!(place, plain.as_flattened());
        let again = most::<STEP>(words.iter().copied());
        assert_eq!(again, if runs == 0 { words.len() * WORD } else { (usize::from(runs) * RUN).max(PLAIN * WORD) });
        assert_eq!(read.most(words.len() as u32), again);
        (len, runs)
    }

    #[test]
    fn names_in_a_row_are_one_run() {
        let words: Vec<u32> = (7..70_000).collect();
        assert_eq!(there_and_back::<1>(&words), (8, 1));
        assert_eq!(there_and_back::<0>(&[1; 65_536]), (8, 1));
    }

    #[test]
    fn runs_of_all_lengths_come_back() {
        // Runs of 1, 2, 3, … words, so that they begin and end at all places of a block.
        for longest in [40, 63] {
            let words: Vec<u32> = (1..=longest).flat_map(|len| 1000 * len..1000 * len + len).collect();
            assert_eq!(there_and_back::<1>(&words), (8 * longest as usize, longest as u16));
            let words: Vec<u32> = (1..=longest).flat_map(|len| (0..len).map(move |_| len)).collect();
            assert_eq!(there_and_back::<0>(&words), (8 * longest as usize, longest as u16));
        }
    }

    #[test]
    fn what_gets_no_shorter_is_sent_as_it_is() {
        let words: Vec<u32> = (0..300).map(|at| 2 * at).collect();
        assert_eq!(there_and_back::<1>(&words), (1200, 0));
        // Two words a run are as long as the words.
        let words: Vec<u32> = (0..150).flat_map(|at| [3 * at, 3 * at + 1]).collect();
        assert_eq!(there_and_back::<1>(&words), (1200, 0));
        let words: Vec<u32> = (0..256).collect();
        assert_eq!(there_and_back::<1>(&words), (1024, 0));
        assert_eq!(there_and_back::<1>(&[]), (0, 0));
    }

    #[test]
    fn more_runs_than_are_counted_are_sent_as_words() {
        let words: Vec<u32> = (0..70_000).flat_map(|at| [5 * at, 5 * at + 1, 5 * at + 2]).collect();
        assert_eq!(there_and_back::<1>(&words), (840_000, 0));
    }

    #[test]
    fn runs_that_are_not_so_many_words_are_refused() {
        let run = |first: u32, len: u32| [first.to_le_bytes(), len.to_le_bytes()].concat();
        let parse = |bytes: &[u8], len, runs| Column::<1>::parse(&mut Reader::new(bytes), len, runs).is_some();
        assert!(parse(&[run(4, 2), run(9, 3)].concat(), 5, 2));
        assert!(!parse(&[run(4, 2), run(9, 3)].concat(), 4, 2));
        assert!(!parse(&[run(4, 2), run(9, 3)].concat(), 6, 2));
        assert!(!parse(&run(4, 2), 5, 2));
        assert!(!parse(&[run(4, u32::MAX), run(0, u32::MAX)].concat(), u32::MAX - 1, 2));
    }
}
