//! Memory that several processes map: a header that is checked, and parts inside.
//!
//! A segment is an array of 64-bit atomic words; nothing in it is a pointer, so every process may map it
//! elsewhere. Its creator carves parts, names them and publishes; others attach and check. The bytes may be
//! changed at any time by whoever maps them: a part's place is checked each time it is looked up, against
//! the length of the mapping of *this* process, so damage gives an error and never a reach outside.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::segment::{Draft, Kind, Segment};
//! const RINGS: Kind = Kind(7);
//! let mut memory = [0_u64; 64];
//! let words = BytesMut::from_words(&mut memory).words(0, 64)?;
//!
//! let mut draft = Draft::new(words)?;
//! assert!(Segment::attach(words, RINGS).is_err(), "not published yet");
//! let ring = draft.carve(128, 64)?;
//! draft.name(0, ring)?;
//! draft.publish(RINGS);
//!
//! let segment = Segment::attach(words, RINGS)?;
//! assert_eq!(segment.named(0)?.len(), 128 / 8);
//! assert!(segment.named(1).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Header, in words: magic, layout version and kind, length in bytes, zero, then offset and length in
//! bytes of each named part.

use core::fmt;

use crate::atomic::{AtomicU64, Ordering};

/// How many parts can be named.
pub const NAMES: usize = 6;
/// Version of the layout of headers and of everything in core that lives in a segment.
pub const VERSION: u32 = 1;

const MAGIC: u64 = u64::from_le_bytes(*b"umbraseg");
const WORD: usize = size_of::<u64>();
const HEADER: usize = 4 + 2 * NAMES;

/// What a segment is for; told apart when attaching.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Kind(pub u32);

/// A range inside a segment, in bytes; multiples of eight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Part {
    /// Bytes from the segment's start.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// Why a part cannot be carved or named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CarveError {
    /// Fewer bytes are left than asked for.
    NoRoom {
        /// Bytes asked for.
        len: usize,
        /// Bytes left.
        left: usize,
    },
    /// The alignment is no power of two.
    BadAlignment(usize),
    /// No such name, or no such part.
    BadName(usize),
}

impl fmt::Display for CarveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CarveError::NoRoom { len, left } => {
                write!(f, "{len} bytes do not fit into the {left} bytes left: make the segment larger")
            }
            CarveError::BadAlignment(align) => write!(f, "alignment {align} is not a power of two"),
            CarveError::BadName(index) => write!(f, "part {index} cannot be named: names are 0..{NAMES}"),
        }
    }
}
impl core::error::Error for CarveError {}

/// Why a mapping is no usable segment, or has no such part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AttachError {
    /// The mapping is smaller than a header, or than the header says; in bytes.
    TooSmall {
        /// Bytes mapped.
        mapped: usize,
        /// Bytes needed.
        needed: u64,
    },
    /// The magic word is missing: not a segment, or not published yet. A retry is worth while in the
    /// second case.
    NotPublished,
    /// It has another layout version.
    WrongVersion(u32),
    /// It is for another purpose.
    WrongKind(Kind),
    /// No part has this name, or its place is not inside the segment.
    BadPart(usize),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::TooSmall { mapped, needed } => {
                write!(f, "mapping of {mapped} bytes is smaller than the segment, which needs {needed}")
            }
            AttachError::NotPublished => f.write_str("mapping holds no segment, or one that is not published yet"),
            AttachError::WrongVersion(version) => {
                write!(f, "segment has layout version {version}, this program knows {VERSION}")
            }
            AttachError::WrongKind(kind) => write!(f, "segment is of kind {}, which is not the one expected", kind.0),
            AttachError::BadPart(index) => write!(f, "segment has no valid part {index}"),
        }
    }
}
impl core::error::Error for AttachError {}

/// A segment that its creator is laying out.
#[derive(Debug)]
pub struct Draft<'a> {
    words: &'a [AtomicU64],
    cursor: usize,
}

impl<'a> Draft<'a> {
    /// Starts laying out; until [`publish`](Self::publish) nobody can attach.
    ///
    /// # Errors
    /// [`CarveError::NoRoom`] if not even the header fits.
    pub fn new(words: &'a [AtomicU64]) -> Result<Self, CarveError> {
        let left = words.len().saturating_mul(WORD);
        let header = words.get(..HEADER).ok_or(CarveError::NoRoom { len: HEADER * WORD, left })?;
        for word in header {
            word.store(0, Ordering::Relaxed);
        }
        Ok(Draft { words, cursor: HEADER * WORD })
    }

    /// Sets aside `len` bytes, rounded up to whole words, at a multiple of `align` from the start.
    ///
    /// # Errors
    /// [`CarveError`]; nothing is set aside then.
    pub fn carve(&mut self, len: usize, align: usize) -> Result<Part, CarveError> {
        if !align.is_power_of_two() {
            return Err(CarveError::BadAlignment(align));
        }
        let size = self.words.len() * WORD;
        let no_room = CarveError::NoRoom { len, left: size - self.cursor };
        let offset = self.cursor.checked_next_multiple_of(align.max(WORD)).ok_or(no_room)?;
        let len = len.checked_next_multiple_of(WORD).ok_or(no_room)?;
        let end = offset.checked_add(len).filter(|&end| end <= size).ok_or(no_room)?;
        self.cursor = end;
        Ok(Part { offset, len })
    }

    /// The words of a part.
    ///
    /// # Errors
    /// [`CarveError::BadName`] if the part is not of this segment.
    pub fn words(&self, part: Part) -> Result<&'a [AtomicU64], CarveError> {
        words_of(self.words, part).ok_or(CarveError::BadName(part.offset))
    }

    /// Lets others find a part under a small number.
    ///
    /// # Errors
    /// [`CarveError::BadName`].
    pub fn name(&mut self, index: usize, part: Part) -> Result<(), CarveError> {
        self.words(part)?;
        if index >= NAMES {
            return Err(CarveError::BadName(index));
        }
        self.words[4 + 2 * index].store(part.offset as u64, Ordering::Relaxed);
        self.words[5 + 2 * index].store(part.len as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Lets others attach; everything that was written to the parts before is visible to them.
    pub fn publish(self, kind: Kind) -> Segment<'a> {
        let size = self.words.len() * WORD;
        self.words[1].store(u64::from(VERSION) | u64::from(kind.0) << 32, Ordering::Relaxed);
        self.words[2].store(size as u64, Ordering::Relaxed);
        // ORDERING: pairs with the load in `Segment::attach`.
        self.words[0].store(MAGIC, Ordering::Release);
        Segment { words: self.words }
    }
}

/// A published segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Segment<'a> {
    /// Checks the header of a mapping; `words` may be longer than the segment.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64], kind: Kind) -> Result<Self, AttachError> {
        let mapped = words.len().saturating_mul(WORD);
        if words.len() < HEADER {
            return Err(AttachError::TooSmall { mapped, needed: (HEADER * WORD) as u64 });
        }
        // ORDERING: pairs with the store in `Draft::publish`.
        if words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotPublished);
        }
        let word = words[1].load(Ordering::Relaxed);
        let (version, its_kind) = (word as u32, Kind((word >> 32) as u32));
        if version != VERSION {
            return Err(AttachError::WrongVersion(version));
        }
        if its_kind != kind {
            return Err(AttachError::WrongKind(its_kind));
        }
        let needed = words[2].load(Ordering::Relaxed);
        let whole = usize::try_from(needed).ok().filter(|&n| n >= HEADER * WORD && n % WORD == 0);
        match whole.and_then(|len| words.get(..len / WORD)) {
            Some(words) => Ok(Segment { words }),
            None => Err(AttachError::TooSmall { mapped, needed }),
        }
    }

    /// Bytes in the segment.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.words.len() * WORD
    }

    /// The words of a part.
    ///
    /// # Errors
    /// [`AttachError::BadPart`] with the part's offset if it does not lie inside.
    pub fn part(&self, part: Part) -> Result<&'a [AtomicU64], AttachError> {
        words_of(self.words, part).ok_or(AttachError::BadPart(part.offset))
    }

    /// Where the part lies that the creator named `index`.
    ///
    /// # Errors
    /// [`AttachError::BadPart`] if there is none, or the header is damaged.
    pub fn place(&self, index: usize) -> Result<Part, AttachError> {
        let bad = AttachError::BadPart(index);
        if index >= NAMES {
            return Err(bad);
        }
        let field = |at: usize| usize::try_from(self.words[at].load(Ordering::Relaxed)).map_err(|_| bad);
        let part = Part { offset: field(4 + 2 * index)?, len: field(5 + 2 * index)? };
        if part.offset < HEADER * WORD || words_of(self.words, part).is_none() {
            return Err(bad);
        }
        Ok(part)
    }

    /// The words of the part that the creator named `index`.
    ///
    /// # Errors
    /// [`AttachError::BadPart`] if there is none, or the header is damaged.
    pub fn named(&self, index: usize) -> Result<&'a [AtomicU64], AttachError> {
        words_of(self.words, self.place(index)?).ok_or(AttachError::BadPart(index))
    }
}

fn words_of(words: &[AtomicU64], part: Part) -> Option<&[AtomicU64]> {
    if !part.offset.is_multiple_of(WORD) || !part.len.is_multiple_of(WORD) {
        return None;
    }
    words.get(part.offset / WORD..)?.get(..part.len / WORD)
}
