//! Where the parts of an adapter lie, and what its creator chose.

use super::error::{AttachError, ShapeError};
use super::table::Table;
use super::word::Word;
use crate::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrstr1");
const MODE: usize = 1;
const STREAMS: usize = 2;
const RING: usize = 3;
const MESSAGES: usize = 4;
const BLOCK: usize = 5;
pub(super) const DESTROYED: usize = 6;
const EXTRA: usize = 7;
const HEADER: usize = 16;
/// What receivers wait for, and the number of the next conversation.
pub(super) const MAIN: usize = HEADER;
pub(super) const TICKET: usize = MAIN + 1;
/// What senders wait for, and where a free place was seen last, for streams and for messages.
pub(super) const MANAGER: usize = MAIN + 16;
pub(super) const HINTS: usize = MANAGER + 1;
const WORDS: usize = MANAGER + 16;
const LINE: usize = 8;
/// Words of a place before its ring: a pair of lines for each end.
pub(super) const CONTROL: usize = 32;
/// Most places.
pub const PLACES_MAX: u32 = 1 << 14;
/// Bytes that each message costs beside its own.
pub(super) const RECORD: usize = 16;

/// Who begins conversations in which places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Mode {
    /// Senders take an idle stream, receivers meet them in the order in which they began.
    #[default]
    Nominal,
    /// A conversation is one message; there are no streams.
    Buffered,
    /// Senders bring streams that they keep.
    SenderSupplied,
    /// Receivers bring streams that they keep, and senders take those.
    ReceiverSupplied,
    /// One stream, which one sender and one receiver use, whoever comes first.
    Single,
}

impl Mode {
    const fn from_number(number: u64) -> Option<Mode> {
        Some(match number {
            0 => Mode::Nominal,
            1 => Mode::Buffered,
            2 => Mode::SenderSupplied,
            3 => Mode::ReceiverSupplied,
            4 => Mode::Single,
            _ => return None,
        })
    }
}

/// What an adapter has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shape {
    /// How conversations begin.
    pub mode: Mode,
    /// Conversations at once that can be of any length.
    pub streams: u32,
    /// Bytes of such a one that are under way at once; rounded up to a power of two.
    pub ring: u32,
    /// Conversations at once that are one message.
    pub messages: u32,
    /// Bytes of such a one.
    pub block: u32,
}

/// What a place is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Class {
    /// A stream.
    Stream,
    /// A conversation that is one message.
    Message,
}

/// Places of the parts, in words; rings in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) streams: usize,
    pub(super) ring: usize,
    pub(super) messages: usize,
    pub(super) block: usize,
    tickets_at: usize,
    pub(super) places_at: usize,
    pub(super) words: usize,
}

impl Plan {
    pub(super) const fn places(&self) -> usize {
        self.streams + self.messages
    }

    /// Where a place begins, and the bytes of its ring.
    pub(super) const fn place(&self, index: usize) -> (usize, usize) {
        let (stream, message) = (CONTROL + self.ring / 8, CONTROL + self.block / 8);
        if index < self.streams {
            (self.places_at + index * stream, self.ring)
        } else {
            (self.places_at + self.streams * stream + (index - self.streams) * message, self.block)
        }
    }
}

impl Shape {
    pub(super) const fn plan(self) -> Result<Plan, ShapeError> {
        let places = self.streams as u64 + self.messages as u64;
        if places == 0 {
            return Err(ShapeError::NoPlaces);
        }
        if places > PLACES_MAX as u64 {
            return Err(ShapeError::TooManyPlaces(places));
        }
        let fits = match self.mode {
            Mode::Buffered => self.streams == 0,
            Mode::Single => self.streams == 1 && self.messages == 0,
            Mode::Nominal | Mode::SenderSupplied => self.streams > 0,
            Mode::ReceiverSupplied => self.streams > 0 && self.messages == 0,
        };
        if !fits {
            return Err(ShapeError::NotOfMode(self.mode));
        }
        if self.ring > 1 << 30 || self.block > 1 << 30 {
            return Err(ShapeError::TooLarge);
        }
        let (streams, messages) = (self.streams as usize, self.messages as usize);
        // A record of one byte fits at least; a line, so that places do not share any.
        let (ring, block) = ((self.ring as usize).next_power_of_two(), self.block as usize + RECORD);
        let (ring, block) = (if ring < 64 { 64 } else { ring }, block.next_power_of_two());
        let block = if block < 64 { 64 } else { block };
        let tickets_at = WORDS + (places as usize).next_multiple_of(LINE);
        let places_at = (tickets_at + places as usize).next_multiple_of(LINE);
        let (stream, message) = (CONTROL + ring / 8, CONTROL + block / 8);
        let (Some(all), Some(more)) = (streams.checked_mul(stream), messages.checked_mul(message)) else {
            return Err(ShapeError::TooLarge);
        };
        let Some(words) = places_at.checked_add(all) else { return Err(ShapeError::TooLarge) };
        let Some(words) = words.checked_add(more) else { return Err(ShapeError::TooLarge) };
        Ok(Plan { streams, ring, messages, block, tickets_at, places_at, words })
    }

    /// Words of memory that an adapter of this shape needs.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub const fn words(self) -> Result<usize, ShapeError> {
        match self.plan() {
            Ok(plan) => Ok(plan.words),
            Err(error) => Err(error),
        }
    }
}

impl<'a> Table<'a> {
    /// Makes an adapter in which nobody talks; nobody may use the memory as one meanwhile.
    ///
    /// # Errors
    /// [`AttachError`] if the shape is impossible or does not fit.
    pub fn create(words: &'a [AtomicU64], shape: Shape) -> Result<Self, AttachError> {
        let plan = shape.plan().map_err(AttachError::BadShape)?;
        let words = fit(words, &plan)?;
        for word in &words[..plan.places_at] {
            word.store(0, Ordering::Relaxed);
        }
        for index in 0..plan.places() {
            let (at, _) = plan.place(index);
            words[at..at + CONTROL].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        let table = Self::over(words, plan, shape);
        table.words.iter().for_each(|word| Word::FIRST.store(word));
        let header = [shape.mode as u32, shape.streams, shape.ring, shape.messages, shape.block];
        for (word, value) in words[MODE..].iter().zip(header) {
            word.store(value.into(), Ordering::Relaxed);
        }
        // ORDERING: pairs with the load in `attach`.
        words[0].store(MAGIC, Ordering::Release);
        Ok(table)
    }

    /// Looks at an adapter that another process created; `words` may be longer than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `create`.
        if words.len() < HEADER || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotStreams);
        }
        let stated = |at: usize| u32::try_from(words[at].load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        let mode = Mode::from_number(words[MODE].load(Ordering::Relaxed)).ok_or(AttachError::NotStreams)?;
        let (streams, ring, messages, block) = (stated(STREAMS), stated(RING), stated(MESSAGES), stated(BLOCK));
        let shape = Shape { mode, streams, ring, messages, block };
        let plan = shape.plan().map_err(AttachError::BadShape)?;
        Ok(Self::over(fit(words, &plan)?, plan, shape))
    }

    fn over(words: &'a [AtomicU64], plan: Plan, shape: Shape) -> Self {
        let places = plan.places();
        Table {
            header: &words[..WORDS],
            words: &words[WORDS..WORDS + places],
            tickets: &words[plan.tickets_at..plan.tickets_at + places],
            plan,
            shape,
        }
    }

    /// Words of the header that the layer above this one may use as it likes; zero at first.
    #[must_use]
    pub fn extra(&self) -> &'a [AtomicU64] {
        &self.header[EXTRA..HEADER]
    }
}

fn fit<'a>(words: &'a [AtomicU64], plan: &Plan) -> Result<&'a [AtomicU64], AttachError> {
    words.get(..plan.words).ok_or(AttachError::TooSmall { words: words.len(), needed: plan.words })
}
