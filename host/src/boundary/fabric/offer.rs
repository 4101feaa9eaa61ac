//! Memory of a fabric that other processes find by some numbers.
//!
//! Who makes it offers it: the numbers are told in any way, and whoever hears them opens the descriptor of that process. Numbers
//! of processes and descriptors may mean something else to whoever hears them; therefore random words stand behind the
//! fabric, and only memory with these words is taken.

use rustix::io::Errno;
use umbra_core::atomic::Ordering;

use super::{Fabric, LINE};
use crate::boundary::extent::Extent;
use crate::reference;
use crate::secret::random;
use crate::sys::process::{ProcessError, ProcessId};
use crate::sys::segment::{Mapping, Segment, SegmentError};

/// Words that tell one memory from another.
const TOKEN: usize = 2;

/// Why a process has no memory in common with others. Codes are of the system, 0 if it said nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unshared {
    /// It cannot make any.
    #[error("cannot make memory for its node, code {0}")]
    Make(i32),
    /// It does not find the descriptor that was offered, or may not open it.
    #[error("cannot open the memory of its node, code {0}")]
    Open(i32),
    /// It finds something else there.
    #[error("finds something else than the memory of its node")]
    Other,
    /// It cannot map it.
    #[error("cannot map the memory of its node, code {0}")]
    Map(i32),
}

impl Unshared {
    /// As a number that is not 0, to tell others.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        let (kind, code) = match self {
            Unshared::Make(code) => (1, code),
            Unshared::Open(code) => (2, code),
            Unshared::Other => (3, 0),
            Unshared::Map(code) => (4, code),
        };
        kind << 32 | code as u32 as u64
    }

    /// From such a number; `None` of 0.
    #[must_use]
    pub const fn from_word(word: u64) -> Option<Unshared> {
        let code = word as u32 as i32;
        match word >> 32 {
            0 if word == 0 => None,
            1 => Some(Unshared::Make(code)),
            2 => Some(Unshared::Open(code)),
            4 => Some(Unshared::Map(code)),
            _ => Some(Unshared::Other),
        }
    }
}

/// What the system said of a segment.
const fn code_of(error: &SegmentError) -> i32 {
    match error {
        SegmentError::Create { errno, .. } | SegmentError::Map { errno, .. } | SegmentError::Descriptor(errno) => {
            errno.raw_os_error()
        }
        _ => 0,
    }
}

/// Where other processes of this user on this machine find the memory of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    process: ProcessId,
    descriptor: u32,
    token: [u64; TOKEN],
}

impl Offer {
    /// Numbers of an offer.
    pub const WORDS: usize = 3 + TOKEN;

    /// As numbers, to tell others.
    #[must_use]
    pub const fn to_words(self) -> [u64; Offer::WORDS] {
        let [first, second] = self.token;
        [self.process.pid as u64, self.process.start, self.descriptor as u64, first, second]
    }

    /// From such numbers.
    #[must_use]
    pub const fn from_words([pid, start, descriptor, first, second]: [u64; Offer::WORDS]) -> Offer {
        Offer { process: ProcessId { pid: pid as u32, start }, descriptor: descriptor as u32, token: [first, second] }
    }
}

impl Fabric {
    /// Makes the segment of a fabric, as [`segment`](Self::segment), and says where others find it, for as long as this process has
    /// it.
    ///
    /// # Errors
    /// [`Unshared::Make`].
    pub fn offer(extent: Extent) -> Result<(Segment, Offer), Unshared> {
        let made = Segment::create("umbra-boundary", extent.bytes().saturating_add(LINE));
        let (segment, drawn) = (made.map_err(|error| Unshared::Make(code_of(&error)))?, random::<16>());
        let drawn = drawn.map_err(|error| Unshared::Make(error.raw_os_error().unwrap_or(0)))?;
        let bytes = drawn.as_chunks::<8>().0;
        let token = [bytes[0], bytes[1]].map(u64::from_le_bytes);
        let words = segment.words(extent.bytes(), TOKEN).map_err(|_| Unshared::Make(0))?;
        words.iter().zip(token).for_each(|(word, drawn)| word.store(drawn, Ordering::Relaxed));
        let process = ProcessId::current().map_err(|_| Unshared::Make(0))?;
        let descriptor = segment.number().map_err(|_| Unshared::Make(0))?;
        Ok((segment, Offer { process, descriptor, token }))
    }

    /// The segment that another process has offered, for a fabric of the same extent.
    ///
    /// # Errors
    /// [`Unshared`].
    pub fn accept(offer: &Offer, extent: Extent) -> Result<Segment, Unshared> {
        let opened = reference::open(offer.process, offer.descriptor).map_err(|error| match error {
            reference::Error::Descriptor { errno, .. }
            | reference::Error::Process(ProcessError::Unreadable { errno, .. }) => Unshared::Open(errno.raw_os_error()),
            reference::Error::Process(_) => Unshared::Open(Errno::SRCH.raw_os_error()),
            _ => Unshared::Other,
        })?;
        let segment = Segment::attach(opened, Mapping::ReadWrite, extent.bytes().saturating_add(LINE));
        let segment = segment.map_err(|error| match error {
            SegmentError::NotSealed | SegmentError::TooSmall { .. } => Unshared::Other,
            error => Unshared::Map(code_of(&error)),
        })?;
        let words = segment.words(extent.bytes(), TOKEN).map_err(|_| Unshared::Other)?;
        let is_it = words.iter().zip(offer.token).all(|(word, drawn)| word.load(Ordering::Relaxed) == drawn);
        if is_it { Ok(segment) } else { Err(Unshared::Other) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::boundary::Transport as _;
    use umbra_core::boundary::Vote;

    const EXTENT: Extent = Extent { ranks: 2, slots: 2, message: 4096 };

    #[test]
    fn what_is_offered_is_found_by_its_numbers() {
        let (segment, offer) = Fabric::offer(EXTENT).unwrap();
        let found = Fabric::accept(&Offer::from_words(offer.to_words()), EXTENT).unwrap();
        let [mut ours, theirs] =
            [(segment, 0), (found, 1)].map(|(segment, rank)| Fabric::attach(Arc::new(segment), EXTENT, rank).unwrap());
        let vote = Vote { epoch: 3, sequence: 2, open: 1 };
        ours.vote(1, vote).unwrap();
        assert_eq!(theirs.vote_of(0, 1).unwrap(), Some(vote));
    }

    #[test]
    fn what_is_not_the_memory_that_was_offered_is_refused() {
        let (segment, offer) = Fabric::offer(EXTENT).unwrap();
        let refused = |offer: Offer| Fabric::accept(&offer, EXTENT).map(drop).unwrap_err();
        // As large, of the same process.
        let (other, theirs) = Fabric::offer(EXTENT).unwrap();
        assert_eq!(refused(Offer { descriptor: theirs.descriptor, ..offer }), Unshared::Other);
        let small = Segment::create("small", 4096).unwrap();
        assert_eq!(refused(Offer { descriptor: small.number().unwrap(), ..offer }), Unshared::Other);
        let path = std::env::temp_dir().join(format!("umbra-test-offer-{}", std::process::id()));
        let unsealed = std::fs::File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        unsealed.set_len(1 << 20).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&unsealed) as u32;
        assert_eq!(refused(Offer { descriptor, ..offer }), Unshared::Other);
        // No such descriptor, and another life of the process.
        let gone = other.number().unwrap();
        drop(other);
        assert!(matches!(refused(Offer { descriptor: gone + 1000, ..offer }), Unshared::Open(2)));
        let before = ProcessId { start: offer.process.start + 1, ..offer.process };
        assert_eq!(refused(Offer { process: before, ..offer }), Unshared::Open(3));
        drop(segment);
    }

    #[test]
    fn why_there_is_none_is_told_as_a_number() {
        for why in [Unshared::Make(24), Unshared::Open(-1), Unshared::Other, Unshared::Map(0)] {
            assert_eq!(Unshared::from_word(why.to_word()), Some(why));
        }
        assert_eq!(Unshared::from_word(0), None);
        assert_eq!(Unshared::from_word(9 << 32), Some(Unshared::Other));
    }

    #[test]
    fn memory_that_the_system_does_not_give_is_refused_with_what_it_says() {
        let large = Extent { ranks: 4096, slots: 16, message: 1 << 27 };
        let Err(Unshared::Make(code)) = Fabric::offer(large).map(drop) else { panic!("so much was given") };
        assert_ne!(code, 0);
    }
}
