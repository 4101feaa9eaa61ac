//! The head of a message: 64 bytes, and a bit for each channel of the plan.
//!
//! There is one message for each ordered pair of ranks and exchange. Behind the head lie the payloads of the live channels
//! in plan order, without anything between them; their sizes are in the plan. A null costs a bit.
//!
//! ```text
//!  0  magic u16, version u8, flags u8        32  overflow address u64
//!  4  epoch u32                              40  overflow key u32, overflow length u32
//!  8  sequence u32                           48  credit u32, slot wish u32
//! 12  stage u8, kind u8, zero u16            56  checksum u32, zero u32
//! 16  fingerprint u32, channels u32          64  bitmap, whole words; absent if all or none are live
//! 24  payload bytes u64                          by the flags
//! ```
//!
//! What does not fit into the receiver's slot lies behind the overflow address, in the sender's memory, until the receiver
//! has fetched it. Bytes from a peer are hostile: [`Head::parse`] accepts nothing that this file did not write, and the
//! exchange compares every number with its plan before it uses it.

use core::fmt;
use core::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::plan::Kind;
use crate::codec::{Reader, Short, Writer};

/// Bytes of a head without its bitmap.
pub const HEAD: usize = 64;
const MAGIC: u16 = u16::from_le_bytes(*b"uB");
const VERSION: u8 = 1;
const CHECKSUM: usize = 56;
/// No channel is live, and there is no bitmap.
const ALL_NULL: u8 = 4;
/// All channels are live, and there is no bitmap.
const ALL_LIVE: u8 = 8;
/// Some payload lies behind the overflow address.
const OVERFLOW: u8 = 2;

/// Which channels of a message are live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Live<'a> {
    /// None.
    None,
    /// All.
    All,
    /// Those whose bit is set, the first in the lowest bit of the first byte.
    Some(&'a [u8]),
}

impl Live<'_> {
    /// Whether this channel is.
    #[must_use]
    #[inline]
    pub fn is(&self, channel: usize) -> bool {
        match self {
            Live::None => false,
            Live::All => true,
            Live::Some(bits) => bits.get(channel / 8).is_some_and(|byte| byte >> (channel % 8) & 1 == 1),
        }
    }

    /// The bits of channels from the 64th times `nth` on, of so many channels.
    #[inline]
    pub(super) fn word(&self, nth: usize, channels: usize) -> u64 {
        match self {
            Live::None => 0,
            Live::All => u64::MAX >> (64 - channels.saturating_sub(nth * 64).clamp(1, 64)),
            Live::Some(bits) => bits.as_chunks::<8>().0.get(nth).map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        }
    }
}

/// Bytes of the bitmap for so many channels.
#[must_use]
pub const fn bitmap_bytes(channels: u32) -> usize {
    channels.div_ceil(64) as usize * 8
}

/// The places of the bits that are set.
#[inline]
pub(super) fn ones(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    let mut words = words.enumerate();
    let (mut first, mut rest) = (0, 0u64);
    core::iter::from_fn(move || {
        while rest == 0 {
            let (nth, word) = words.next()?;
            (first, rest) = (nth * 64, word);
        }
        let at = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(first + at)
    })
}

/// Words for a bit of each of so many channels.
pub(super) const fn bitmap_words(channels: usize) -> usize {
    channels.div_ceil(64)
}

/// The numbers in a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Which life of the mesh.
    pub epoch: u32,
    /// Which exchange of it, from 1.
    pub sequence: u32,
    /// Which stage of a time step; for reports only.
    pub stage: u8,
    /// Which kind of exchange.
    pub kind: u8,
    /// The lower half of the plan's fingerprint.
    pub fingerprint: u32,
    /// Channels in the plan.
    pub channels: u32,
    /// Bytes of payload, overflow included.
    pub payload: u64,
    /// Where the sender keeps what did not fit.
    pub overflow_at: u64,
    /// What the sender's memory is named by, for transports that need it.
    pub overflow_key: u32,
    /// Bytes that did not fit.
    pub overflow: u32,
    /// The last exchange of the other direction whose message the sender has given up.
    pub credit: u32,
    /// Bytes that a message of the other direction shall have at most in the slot.
    pub wish: u32,
}

/// Bytes that are no head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HeadError {
    /// They end before the head does.
    Short,
    /// They begin with something else.
    Foreign,
    /// Another version of the format.
    Version {
        /// Which.
        version: u8,
    },
    /// The checksum is not that of the bytes.
    Damaged,
    /// Flags or bits that no sender sets.
    Impossible,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::Short => f.write_str("message ends within its head"),
            HeadError::Foreign => f.write_str("message is none of a boundary exchange"),
            HeadError::Version { version } => {
                write!(f, "message is of version {version} and not {VERSION}: run the same version everywhere")
            }
            HeadError::Damaged => f.write_str("head of a message was damaged on its way"),
            HeadError::Impossible => f.write_str("head of a message says what no sender says"),
        }
    }
}
impl core::error::Error for HeadError {}

impl From<Short> for HeadError {
    fn from(_: Short) -> Self {
        HeadError::Short
    }
}

fn checksum(head: &[u8], bitmap: &[u8]) -> u32 {
    let mut hash = SipHasher13::new();
    hash.write(head.get(..CHECKSUM).unwrap_or(&[]));
    hash.write(bitmap);
    hash.finish() as u32
}

impl Head {
    /// Writes it in front of the bitmap that lies in `bytes[64..]` already, and returns the length of both.
    ///
    /// # Errors
    /// [`Short`] if `bytes` has no room for head and bitmap.
    pub fn emit(&self, live: usize, bytes: &mut [u8]) -> Result<usize, Short> {
        let (flags, bitmap) = match live {
            0 => (ALL_NULL, 0),
            n if n == self.channels as usize => (ALL_LIVE, 0),
            _ => (0, bitmap_bytes(self.channels)),
        };
        let flags = flags | if self.overflow > 0 { OVERFLOW } else { 0 };
        let (head, rest) = bytes.split_at_mut_checked(HEAD).ok_or(Short)?;
        let bitmap = rest.get(..bitmap).ok_or(Short)?;
        let mut to = Writer::new(head);
        to.u16(MAGIC)?;
        to.bytes(&[VERSION, flags])?;
        to.u32(self.epoch)?;
        to.u32(self.sequence)?;
        to.bytes(&[self.stage, self.kind, 0, 0])?;
        to.u32(self.fingerprint)?;
        to.u32(self.channels)?;
        to.u64(self.payload)?;
        to.u64(self.overflow_at)?;
        to.u32(self.overflow_key)?;
        to.u32(self.overflow)?;
        to.u32(self.credit)?;
        to.u32(self.wish)?;
        to.u64(0)?;
        let sum = checksum(head, bitmap);
        Writer::new(head.get_mut(CHECKSUM..).ok_or(Short)?).u32(sum)?;
        Ok(HEAD + bitmap.len())
    }

    /// Reads a head and its bitmap.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn parse(bytes: &[u8]) -> Result<(Head, Live<'_>), HeadError> {
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or(HeadError::Short)?;
        let mut from = Reader::new(head);
        if from.u16()? != MAGIC {
            return Err(HeadError::Foreign);
        }
        let (version, flags) = (from.u8()?, from.u8()?);
        if version != VERSION {
            return Err(HeadError::Version { version });
        }
        let (epoch, sequence) = (from.u32()?, from.u32()?);
        let [stage, kind, zero, also_zero] = from.array()?;
        let mut parsed = Head { epoch, sequence, stage, kind, ..Head::default() };
        (parsed.fingerprint, parsed.channels) = (from.u32()?, from.u32()?);
        (parsed.payload, parsed.overflow_at) = (from.u64()?, from.u64()?);
        (parsed.overflow_key, parsed.overflow) = (from.u32()?, from.u32()?);
        (parsed.credit, parsed.wish) = (from.u32()?, from.u32()?);
        let (sum, reserved) = (from.u32()?, from.u32()?);
        let live = match flags & !OVERFLOW {
            ALL_NULL => Live::None,
            ALL_LIVE => Live::All,
            0 => Live::Some(rest.get(..bitmap_bytes(parsed.channels)).ok_or(HeadError::Short)?),
            _ => return Err(HeadError::Impossible),
        };
        let bitmap = if let Live::Some(bits) = live { bits } else { &[] };
        if checksum(head, bitmap) != sum {
            return Err(HeadError::Damaged);
        }
        let rest = parsed.channels % 64;
        let stray = rest > 0 && bitmap.last_chunk::<8>().is_some_and(|last| u64::from_le_bytes(*last) >> rest != 0);
        let reserved = (zero, also_zero, reserved) != (0, 0, 0);
        let overflow = (parsed.overflow > 0) != (flags & OVERFLOW != 0) || u64::from(parsed.overflow) > parsed.payload;
        if stray || reserved || overflow { Err(HeadError::Impossible) } else { Ok((parsed, live)) }
    }

    /// The kind of exchange.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_OF_TEN: Head = Head {
        epoch: 3,
        sequence: 77,
        stage: 1,
        kind: 0,
        fingerprint: 0xdead_beef,
        channels: 10,
        payload: 4096,
        overflow_at: 0x1234_5678_9abc,
        overflow_key: 5,
        overflow: 1024,
        credit: 76,
        wish: 8192,
    };

    fn emitted(head: &Head, bits: [u8; 8], live: usize) -> ([u8; 72], usize) {
        let mut bytes = [0; 72];
        bytes[64..].copy_from_slice(&bits);
        let len = head.emit(live, &mut bytes).unwrap();
        (bytes, len)
    }

    #[test]
    fn a_head_comes_back_as_it_was() {
        let (bytes, len) = emitted(&HEAD_OF_TEN, [0b101, 0b10, 0, 0, 0, 0, 0, 0], 3);
        assert_eq!(len, 72);
        let (head, live) = Head::parse(&bytes[..len]).unwrap();
        assert_eq!(head, HEAD_OF_TEN);
        let set: std::vec::Vec<_> = (0..12).filter(|&at| live.is(at)).collect();
        assert_eq!(set, [0, 2, 9]);
    }

    #[test]
    fn all_or_nothing_costs_64_bytes() {
        let none = Head { overflow: 0, payload: 0, ..HEAD_OF_TEN };
        let (bytes, len) = emitted(&none, [0; 8], 0);
        assert_eq!((len, Head::parse(&bytes[..len])), (64, Ok((none, Live::None))));
        let (bytes, len) = emitted(&HEAD_OF_TEN, [0xff; 8], 10);
        assert_eq!((len, Head::parse(&bytes[..len])), (64, Ok((HEAD_OF_TEN, Live::All))));
    }

    #[test]
    fn s45_every_damaged_bit_and_every_missing_byte_is_noticed() {
        let (bytes, len) = emitted(&HEAD_OF_TEN, [0b101, 0b10, 0, 0, 0, 0, 0, 0], 3);
        for bit in 0..len * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::parse(&damaged).is_err(), "bit {bit}");
        }
        for short in 0..len {
            assert!(Head::parse(&bytes[..short]).is_err(), "{short} bytes");
        }
    }

    #[test]
    fn bits_behind_the_last_channel_are_refused_although_the_checksum_is_right() {
        for bits in [[0b101, 0b110, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 1]] {
            let (bytes, _) = emitted(&HEAD_OF_TEN, bits, 3);
            assert_eq!(Head::parse(&bytes), Err(HeadError::Impossible));
        }
        let (bytes, _) = emitted(&Head { overflow: 5000, ..HEAD_OF_TEN }, [1, 0, 0, 0, 0, 0, 0, 0], 1);
        assert_eq!(Head::parse(&bytes), Err(HeadError::Impossible), "more overflow than payload");
    }
}
