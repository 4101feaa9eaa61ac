//! Ranges of a memory, which somebody may wait for.

use core::fmt;

use super::line::{Refused, Room, Waiter, Waiting, sealed};
use crate::cache::Interrupted;
use crate::memory::{AllocError, Block, Figures, NotAllocated, Offsets};

/// A wish for a range of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    len: u64,
    align: u64,
    offset: Option<u64>,
}

impl Range {
    /// A wish for so many bytes anywhere.
    #[must_use]
    pub const fn new(len: u64) -> Range {
        Range::aligned(len, 1)
    }

    /// A wish for so many bytes at a multiple of `align`, a power of two.
    #[must_use]
    pub const fn aligned(len: u64, align: u64) -> Range {
        Range { len, align, offset: None }
    }

    /// Bytes wished for.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether no bytes are wished for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the range begins, in bytes from the start of the memory, once it was given.
    #[must_use]
    pub const fn offset(&self) -> Option<u64> {
        self.offset
    }
}

/// Why no range is given, or taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RangeError {
    /// The memory was interrupted; every operation fails from now on.
    Interrupted,
    /// There is no such range, now or ever.
    Refused(AllocError),
    /// Others wait for room, and were there before.
    OthersWait,
    /// No range in use starts there.
    NotAllocated(NotAllocated),
}

impl From<Interrupted> for RangeError {
    fn from(_: Interrupted) -> Self {
        RangeError::Interrupted
    }
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Interrupted => Interrupted.fmt(f),
            RangeError::Refused(error) => error.fmt(f),
            RangeError::OthersWait => f.write_str("others wait for room: wait behind them"),
            RangeError::NotAllocated(error) => error.fmt(f),
        }
    }
}
impl core::error::Error for RangeError {}

/// What was known when somebody stopped waiting for a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crowded {
    /// Bytes that were awaited.
    pub len: u64,
    /// How full the memory was.
    pub figures: Figures,
    /// Others who wait on.
    pub waiting: u32,
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { capacity, free, largest, used_ranges, .. } = self.figures;
        write!(
            f,
            "{free} of {capacity} bytes are free, {largest} of them side by side, between {used_ranges} ranges in use; \
             others that wait: {}",
            self.waiting
        )
    }
}

/// A memory by offsets that can be interrupted, and that somebody waits for.
#[derive(Clone, Debug)]
pub struct Ranges<S, T, L = [u32; 0]> {
    memory: Offsets<S, T, L>,
    /// What the first in line needs side by side, while somebody is first.
    wanted: Option<u64>,
    interrupted: bool,
}

impl<S, T, L> Ranges<S, T, L>
where
    S: AsRef<[Block]> + AsMut<[Block]>,
    T: AsRef<[u32]> + AsMut<[u32]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
{
    /// Lets clients wait for ranges of this memory.
    pub fn new(memory: Offsets<S, T, L>) -> Self {
        Ranges { memory, wanted: None, interrupted: false }
    }

    /// How full the memory is, and how scattered.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.memory.figures()
    }

    fn is_empty(&self) -> bool {
        self.figures().used_ranges == 0
    }
}

impl<S, T, L> sealed::Sealed for Ranges<S, T, L> {}

impl<S, T, L> Room for Ranges<S, T, L>
where
    S: AsRef<[Block]> + AsMut<[Block]>,
    T: AsRef<[u32]> + AsMut<[u32]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
{
    type Wish = Range;
    type Error = RangeError;
    type Scene = Crowded;

    fn take(&mut self, first: bool, wish: &mut Range) -> Result<(), Refused<RangeError>> {
        wish.offset = None;
        if self.interrupted {
            return Err(Refused::Ever(RangeError::Interrupted));
        }
        if self.wanted.is_some() && !first {
            return Err(Refused::Now(RangeError::OthersWait));
        }
        // Nobody may free anything while somebody sleeps, so none of the holes is overlooked.
        match self.memory.alloc_any(wish.len, wish.align) {
            Ok(offset) => {
                wish.offset = Some(offset);
                Ok(())
            }
            Err(error) => {
                let room = matches!(
                    error,
                    AllocError::OutOfMemory { .. } | AllocError::Fragmented { .. } | AllocError::NoRecord
                );
                let error = RangeError::Refused(error);
                // What does not fit into an empty memory never will.
                Err(if room && !self.is_empty() { Refused::Now(error) } else { Refused::Ever(error) })
            }
        }
    }

    fn keep(&mut self, wish: Option<&Range>) {
        self.wanted = Some(wish.map_or(0, |wish| wish.len));
    }

    fn open(&mut self) {
        self.wanted = None;
    }

    fn is_worth_while(&self) -> bool {
        let figures = self.figures();
        // The longest may be told one part in 32 too short.
        self.wanted.is_some_and(|len| figures.largest >= len - len / 32) || figures.used_ranges == 0
    }

    fn scene(&self, wish: &Range, waiting: u32) -> Crowded {
        Crowded { len: wish.len, figures: self.figures(), waiting }
    }

    fn stop(&mut self) {
        self.interrupted = true;
    }
}

impl<S, T, L, R> Waiting<Ranges<S, T, L>, R>
where
    S: AsRef<[Block]> + AsMut<[Block]>,
    T: AsRef<[u32]> + AsMut<[u32]>,
    L: AsRef<[u32]> + AsMut<[u32]>,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    /// Gives the range that starts at this offset back, and tells its length in bytes.
    ///
    /// # Errors
    /// [`RangeError`] if no range in use starts there, or after an interrupt; nothing has changed then.
    pub fn free(&mut self, offset: u64) -> Result<u64, RangeError> {
        if self.room().interrupted {
            return Err(RangeError::Interrupted);
        }
        // Who waits was refused, so nothing was kept then, and nothing is until the line is empty: what lies side by side
        // is known to the byte.
        let free = |room: &mut Ranges<S, T, L>| match room.wanted {
            Some(_) => room.memory.free_joined(offset),
            None => room.memory.free(offset),
        };
        self.change(free).map_err(RangeError::NotAllocated)
    }
}
