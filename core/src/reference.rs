//! Where an object is, as bytes that any process may be handed.
//!
//! The object is a pool, an allocation, a channel or streams. A reference opens nothing by itself: whoever attaches
//! must be allowed to map the memory, and compares the number that was drawn for the object when it was made, so that
//! another object of the same name is never taken for it. All integers are little-endian.
//!
//! ```text
//! 0      4         5        6        8      16         24    32
//! | UMRF | version | object | length | host | instance | uid | bytes |
//! 40      48       56       64       72     74     76
//! | block | offset | extent | second | kind | zero | place … | checksum |
//! ```
//!
//! Every truncation and every changed byte is refused: the length is part of the bytes, and the checksum covers them.
//!
//! ```
//! use umbra_core::reference::{LONGEST, Object, Place, Reference, ReferenceError};
//! let place = Place::Files("/dev/shm/umbra-pool.sums");
//! let pool = Reference { host: 1, instance: 2, uid: 3, bytes: 1 << 20, object: Object::Pool, place };
//! let mut buffer = [0; LONGEST];
//! let len = pool.write(&mut buffer)?;
//! assert_eq!(Reference::parse(&buffer[..len]), Ok(pool));
//! buffer[20] ^= 1;
//! assert_eq!(Reference::parse(&buffer[..len]), Err(ReferenceError::Damaged));
//! # Ok::<(), umbra_core::codec::Short>(())
//! ```
//!
//! *Cost*: one pass over at most [`LONGEST`] bytes.

use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::codec::{Reader, Short, Writer};
use crate::heap::BlockId;

/// Most bytes of a reference.
pub const LONGEST: usize = HEAD + LONGEST_PATH + SUM;
/// Most bytes of a path.
pub const LONGEST_PATH: usize = 255;

const MAGIC: [u8; 4] = *b"UMRF";
const VERSION: u8 = 1;
const HEAD: usize = 76;
const SUM: usize = 8;

/// What is named.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Object {
    /// A pool.
    Pool,
    /// A range of an allocation of a pool.
    Allocation {
        /// The allocation.
        id: BlockId,
        /// Where in the allocation the range begins.
        offset: u64,
        /// Bytes of the range.
        len: u64,
    },
    /// A channel in memory of its own.
    Channel,
    /// A channel in an allocation of a pool.
    PooledChannel {
        /// The allocation.
        id: BlockId,
        /// The channel's own instance.
        instance: u64,
    },
    /// Streams in memory of their own.
    Streams,
}

/// Where the memory is found on its host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Place<'a> {
    /// In files whose paths begin with this.
    Files(&'a str),
    /// At descriptors of a process that has it mapped.
    Process {
        /// Its pid.
        pid: u32,
        /// When it started, in clock ticks since boot: tells it from a later holder of the pid.
        start: u64,
        /// The numbers of its descriptors: a pool's manifest and data, or a channel or streams and 0.
        files: [u32; 2],
    },
}

/// The serialized descriptor of something that processes share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reference<'a> {
    /// The host whose memory it is, by a number that holds for one boot of it.
    pub host: u64,
    /// Drawn when the memory was made: nothing else has it.
    pub instance: u64,
    /// The number that its users know it by.
    pub uid: u64,
    /// Bytes of data of the pool, or of the memory of the channel or the streams.
    pub bytes: u64,
    /// What is named.
    pub object: Object,
    /// Where it is.
    pub place: Place<'a>,
}

/// Why bytes are not a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReferenceError {
    /// Not as many bytes as a reference has, or as this one says.
    Length(usize),
    /// Something else than a reference.
    NotAReference,
    /// A reference of another version.
    Version(u8),
    /// The checksum does not fit.
    Damaged,
    /// The checksum fits but the contents mean nothing: another program made it.
    Nonsense,
}

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReferenceError::Length(len) => {
                write!(f, "{len} bytes are no whole reference to a pool, channel or streams")
            }
            ReferenceError::NotAReference => f.write_str("these bytes are no reference to a pool, channel or streams"),
            ReferenceError::Version(version) => {
                write!(f, "reference of version {version}, this program reads {VERSION}: use one build on both sides")
            }
            ReferenceError::Damaged => f.write_str("reference is damaged: ask its maker for another"),
            ReferenceError::Nonsense => f.write_str("reference names nothing that this program knows"),
        }
    }
}
impl core::error::Error for ReferenceError {}

impl From<Short> for ReferenceError {
    fn from(_: Short) -> Self {
        ReferenceError::Nonsense
    }
}

const POOL: u8 = 1;
const ALLOCATION: u8 = 2;
const CHANNEL: u8 = 3;
const POOLED_CHANNEL: u8 = 4;
const STREAMS: u8 = 5;
const FILES: u8 = 1;
const PROCESS: u8 = 2;

impl<'a> Reference<'a> {
    /// Writes it to the front of `buffer`; [`LONGEST`] bytes are enough for each. How many bytes it has.
    ///
    /// # Errors
    /// [`Short`] if they do not fit, or the path is longer than [`LONGEST_PATH`].
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, Short> {
        let (object, block, offset, extent, second) = match self.object {
            Object::Pool => (POOL, 0, 0, 0, 0),
            Object::Allocation { id, offset, len } => (ALLOCATION, id.to_bits(), offset, len, 0),
            Object::Channel => (CHANNEL, 0, 0, 0, 0),
            Object::PooledChannel { id, instance } => (POOLED_CHANNEL, id.to_bits(), 0, 0, instance),
            Object::Streams => (STREAMS, 0, 0, 0, 0),
        };
        let (kind, place) = match &self.place {
            Place::Files(path) => (FILES, path.len()),
            Place::Process { .. } => (PROCESS, 20),
        };
        if place > LONGEST_PATH {
            return Err(Short);
        }
        let len = HEAD + place + SUM;
        let mut w = Writer::new(buffer.get_mut(..len).ok_or(Short)?);
        w.bytes(&MAGIC)?;
        w.u8(VERSION)?;
        w.u8(object)?;
        w.u16(len as u16)?;
        for field in [self.host, self.instance, self.uid, self.bytes, block, offset, extent, second] {
            w.u64(field)?;
        }
        w.u16(kind.into())?;
        w.u16(0)?;
        match self.place {
            Place::Files(path) => w.bytes(path.as_bytes())?,
            Place::Process { pid, start, files } => {
                w.u32(pid)?;
                w.u64(start)?;
                files.iter().try_for_each(|&file| w.u32(file))?;
            }
        }
        let (checked, sum) = buffer.get_mut(..len).ok_or(Short)?.split_at_mut(len - SUM);
        sum.copy_from_slice(&checksum(checked).to_le_bytes());
        Ok(len)
    }

    /// Reads what [`write`](Self::write) wrote, and nothing else.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Reference<'a>, ReferenceError> {
        let length = ReferenceError::Length(bytes.len());
        if !(HEAD + SUM + 1..=LONGEST).contains(&bytes.len()) {
            return Err(length);
        }
        let (checked, sum) =
            bytes.split_last_chunk::<SUM>().map(|(checked, sum)| (checked, u64::from_le_bytes(*sum))).ok_or(length)?;
        let mut r = Reader::new(checked);
        if r.array()? != MAGIC {
            return Err(ReferenceError::NotAReference);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(ReferenceError::Version(version));
        }
        let object = r.u8()?;
        if usize::from(r.u16()?) != bytes.len() {
            return Err(length);
        }
        if checksum(checked) != sum {
            return Err(ReferenceError::Damaged);
        }
        let (host, instance, uid, size) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        let (id, offset, len, second) = (BlockId::from_bits(r.u64()?), r.u64()?, r.u64()?, r.u64()?);
        let (kind, zero) = (r.u16()?, r.u16()?);
        let object = match (object, id.to_bits(), offset, len, second) {
            (POOL, 0, 0, 0, 0) => Object::Pool,
            (ALLOCATION, 1.., _, _, 0) if offset.checked_add(len).is_some_and(|end| end <= size) => {
                Object::Allocation { id, offset, len }
            }
            (CHANNEL, 0, 0, 0, 0) => Object::Channel,
            (POOLED_CHANNEL, 1.., 0, 0, instance) => Object::PooledChannel { id, instance },
            (STREAMS, 0, 0, 0, 0) => Object::Streams,
            _ => return Err(ReferenceError::Nonsense),
        };
        let place = match kind {
            _ if zero != 0 => return Err(ReferenceError::Nonsense),
            kind if kind == FILES.into() => {
                let path = core::str::from_utf8(r.rest()).map_err(|_| ReferenceError::Nonsense)?;
                if path.contains('\0') {
                    return Err(ReferenceError::Nonsense);
                }
                Place::Files(path)
            }
            kind if kind == PROCESS.into() => {
                let place = Place::Process { pid: r.u32()?, start: r.u64()?, files: [r.u32()?, r.u32()?] };
                if !r.rest().is_empty() {
                    return Err(ReferenceError::Nonsense);
                }
                place
            }
            _ => return Err(ReferenceError::Nonsense),
        };
        Ok(Reference { host, instance, uid, bytes: size, object, place })
    }
}

/// Finds damage; that it is the object that was meant is proven by its instance.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(u64::from_le_bytes(*b"umbra re"), u64::from_le_bytes(*b"ference1"));
    hasher.write(bytes);
    hasher.finish()
}
