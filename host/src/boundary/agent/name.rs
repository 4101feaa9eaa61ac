//! Names by which agents, and ranks that look out for themselves, hold a board.
//!
//! A name says which process it is of, so that whoever meets it finds out whether that still lives, and has a number,
//! as a process may have many.

use umbra_core::atomic::{AtomicU32, AtomicU64, Ordering};
use umbra_core::crew::{Identity, Liveness as _, Member};

use super::super::transport::TransportError;
use crate::sys::process::{ProcessId, Processes};

const START_BITS: u32 = 31;
const PID_BITS: u32 = 22;
/// What one process can have at a time: the bits that are left.
pub(super) const NAMES: u32 = 1 << (64 - START_BITS - PID_BITS);

/// Which numbers of this process are in use.
static NUMBERS: Numbers = Numbers::new();

/// A process, or one of several agents or ranks in it, as a word; never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name(pub(super) u64);

impl Name {
    const fn identity(self) -> Identity {
        let pid = (self.0 >> START_BITS) as u32 & ((1 << PID_BITS) - 1);
        Identity::new(pid, self.0)
    }

    pub(super) const fn pid(self) -> u32 {
        self.identity().pid()
    }

    /// Whether its process lives.
    pub(super) fn is_alive(self) -> bool {
        Processes.is_alive(Member { number: 0, generation: 0, identity: self.identity() })
    }
}

/// A name that nobody else has until this is dropped.
#[derive(Debug)]
pub(super) struct OwnName(Name);

impl OwnName {
    /// A name of this process.
    pub(super) fn new() -> Result<OwnName, TransportError> {
        let ProcessId { pid, start } = ProcessId::current().map_err(TransportError::Process)?;
        let identity = Identity::new(pid, start);
        let number = NUMBERS.take().ok_or(TransportError::NoName { most: NAMES })?;
        let number = u64::from(number) << (PID_BITS + START_BITS);
        Ok(OwnName(Name(number | u64::from(identity.pid()) << START_BITS | u64::from(identity.start()))))
    }

    /// As the word that it is.
    pub(super) const fn word(&self) -> u64 {
        self.0.0
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        NUMBERS.give_back((self.word() >> (PID_BITS + START_BITS)) as u32);
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
