//! Names by which agents, and ranks that look out for themselves, hold a board.
//!
//! A name says which process it is of, so that whoever meets it finds out whether that still lives, and has a number,
//! as a process may have many.

use umbra_core::atomic::{AtomicU32, AtomicU64, Ordering};
use umbra_core::crew::Identity;

use super::super::transport::TransportError;
use crate::sys::process::{ProcessId, lives};

/// What one process can have at a time: as many as the bits above its identity can count.
const NAMES: u32 = 1 << (u64::BITS - Identity::BITS);

/// Which numbers of this process are in use.
static NUMBERS: Numbers = Numbers::new();

/// A process, or one of several agents or ranks in it, as a word; never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name(pub(super) u64);

impl Name {
    pub(super) const fn pid(self) -> u32 {
        Identity::from_bits(self.0).pid()
    }

    /// Whether its process lives.
    pub(super) fn is_alive(self) -> bool {
        lives(Identity::from_bits(self.0))
    }
}

/// A name that nobody else has until this is dropped.
#[derive(Debug)]
pub(super) struct OwnName(Name);

impl OwnName {
    /// A name of this process.
    pub(super) fn new() -> Result<OwnName, TransportError> {
        let identity = Identity::from(ProcessId::current().map_err(TransportError::Process)?);
        let number = NUMBERS.take().ok_or(TransportError::NoName { most: NAMES })?;
        Ok(OwnName(Name(u64::from(number) << Identity::BITS | identity.to_bits())))
    }

    /// As the word that it is.
    pub(super) const fn word(&self) -> u64 {
        self.0.0
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        NUMBERS.give_back((self.word() >> Identity::BITS) as u32);
    }
}

/// Numbers below [`NAMES`], a bit each.
struct Numbers {
    next: AtomicU32,
    used: [AtomicU64; NAMES as usize / 64],
}

impl Numbers {
    const fn new() -> Numbers {
        Numbers { next: AtomicU32::new(0), used: [const { AtomicU64::new(0) }; NAMES as usize / 64] }
    }

    fn word(&self, number: u32) -> (&AtomicU64, u64) {
        (&self.used[number as usize / 64], 1 << (number % 64))
    }

    /// A number that is not in use, and was not for as long as possible: a rank that is stopped while it hands its board
    /// over compares with a name that it has read before.
    fn take(&self) -> Option<u32> {
        (0..NAMES).find_map(|_| {
            // ORDERING: numbers only; what a name holds is passed on by the boards.
            let number = self.next.fetch_add(1, Ordering::Relaxed) % NAMES;
            let (word, bit) = self.word(number);
            (word.fetch_or(bit, Ordering::Relaxed) & bit == 0).then_some(number)
        })
    }

    fn give_back(&self, number: u32) {
        let (word, bit) = self.word(number);
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_until_it_is_given_back_and_comes_again_last() {
        let numbers = Numbers::new();
        assert!((0..NAMES).eq(std::iter::from_fn(|| numbers.take())), "each once, and then no more");
        for number in [7, 1000, 3] {
            numbers.give_back(number);
        }
        assert_eq!(
            [numbers.take(), numbers.take(), numbers.take(), numbers.take()],
            [Some(3), Some(7), Some(1000), None]
        );
        for number in 0..NAMES {
            numbers.give_back(number);
        }
        let first = numbers.take();
        first.into_iter().for_each(|number| numbers.give_back(number));
        assert!((1..NAMES).all(|_| numbers.take() != first), "all others before");
    }

    #[test]
    fn a_name_says_whose_it_is() -> Result<(), TransportError> {
        let (one, other) = (OwnName::new()?, OwnName::new()?);
        assert_ne!(one.word(), other.word());
        let name = Name(one.word());
        assert_eq!((name.pid(), name.is_alive()), (std::process::id(), true));
        Ok(())
    }
}
