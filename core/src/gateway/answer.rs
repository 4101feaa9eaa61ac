//! What a gateway answers.

use super::{ParseError, flag, written};
use crate::codec::{Reader, Short, Writer};
use crate::heap::BlockId;

const OPENED: u8 = 1;
const DONE: u8 = 2;
const MESSAGE: u8 = 3;
const REFUSED: u8 = 4;
const BEGUN: u8 = 5;
const PIECE: u8 = 6;
const COUNTS: u8 = 7;
const LENT: u8 = 8;
const BLOCK: u8 = 9;
const BYTES: u8 = 10;
const USED: u8 = 11;
const COUNTED: u8 = 12;

/// What the gateway answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Answer<'a> {
    /// The channel is there.
    Opened {
        /// Messages that wait at once.
        capacity: u32,
        /// Bytes of a block.
        block: u32,
        /// The id that its creator chose.
        uid: u64,
    },
    /// It is done; the number that was asked for.
    Done(u64),
    /// The first message, or as much of it as there was room for.
    Message {
        /// The 64 bits beside it.
        hints: u64,
        /// Who sent it.
        client: u64,
        /// Through which handle.
        handle: [u64; 2],
        /// How long all of it is.
        len: u32,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The conversation has begun, or the streams are there.
    Begun {
        /// How conversations begin there, as the layer above numbers it.
        mode: u8,
        /// The id that their creator chose.
        uid: u64,
    },
    /// Bytes of a message.
    Piece {
        /// The 64 bits beside it.
        arg: u64,
        /// Whether it ends with them.
        is_last: bool,
        /// They.
        bytes: &'a [u8],
    },
    /// How many streams are idle, conversations wait, receivers wait, streams are kept, and messages there is room for.
    Counts([u32; 5]),
    /// The pool is there.
    Lent {
        /// Bytes of its data.
        bytes: u64,
        /// The id that its creator chose.
        uid: u64,
    },
    /// The block is there.
    Block {
        /// Its name in the pool.
        id: BlockId,
        /// Bytes that were asked for.
        len: u64,
        /// What it is for.
        kind: u32,
    },
    /// Bytes of a block.
    Bytes(&'a [u8]),
    /// How many bytes there are, are free and were asked for, how many blocks, and bytes of the longest free one.
    Used([u64; 5]),
    /// A party is counted in at the barrier.
    Counted {
        /// Whether it is the last one.
        is_last: bool,
        /// The [round](crate::barrier::Glance::round) that it is counted for.
        round: u32,
    },
    /// It is not done.
    Refused {
        /// Why: a number of the layer above.
        why: u16,
        /// What belongs to that.
        numbers: [u64; 2],
    },
}

impl<'a> Answer<'a> {
    /// Writes it to the front of `buffer`; how many bytes it has.
    ///
    /// # Errors
    /// [`Short`] if they do not fit.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, Short> {
        match *self {
            Answer::Opened { capacity, block, uid } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(OPENED)?;
                    w.u32(capacity)?;
                    w.u32(block)?;
                    w.u64(uid)
                };
                written(buffer, head, &[])
            }
            Answer::Done(number) => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(DONE)?;
                    w.u64(number)
                };
                written(buffer, head, &[])
            }
            Answer::Message { hints, client, handle: [first, second], len, bytes } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(MESSAGE)?;
                    [hints, client, first, second].iter().try_for_each(|&word| w.u64(word))?;
                    w.u32(len)
                };
                written(buffer, head, bytes)
            }
            Answer::Begun { mode, uid } => {
                let head = |w: &mut Writer<'_>| {
                    w.bytes(&[BEGUN, mode])?;
                    w.u64(uid)
                };
                written(buffer, head, &[])
            }
            Answer::Piece { arg, is_last, bytes } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(PIECE)?;
                    w.u64(arg)?;
                    w.u8(is_last.into())
                };
                written(buffer, head, bytes)
            }
            Answer::Counts(counts) => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(COUNTS)?;
                    counts.iter().try_for_each(|&count| w.u32(count))
                };
                written(buffer, head, &[])
            }
            Answer::Lent { bytes, uid } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(LENT)?;
                    w.u64(bytes)?;
                    w.u64(uid)
                };
                written(buffer, head, &[])
            }
            Answer::Block { id, len, kind } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(BLOCK)?;
                    w.u64(id.to_bits())?;
                    w.u64(len)?;
                    w.u32(kind)
                };
                written(buffer, head, &[])
            }
            Answer::Bytes(bytes) => written(buffer, |w| w.u8(BYTES), bytes),
            Answer::Used(numbers) => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(USED)?;
                    numbers.iter().try_for_each(|&number| w.u64(number))
                };
                written(buffer, head, &[])
            }
            Answer::Counted { is_last, round } => {
                let head = |w: &mut Writer<'_>| {
                    w.bytes(&[COUNTED, is_last.into()])?;
                    w.u32(round)
                };
                written(buffer, head, &[])
            }
            Answer::Refused { why, numbers } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(REFUSED)?;
                    w.u16(why)?;
                    numbers.iter().try_for_each(|&number| w.u64(number))
                };
                written(buffer, head, &[])
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Answer<'a>, ParseError> {
        let mut r = Reader::new(bytes);
        let answer = match r.u8()? {
            OPENED => Answer::Opened { capacity: r.u32()?, block: r.u32()?, uid: r.u64()? },
            DONE => Answer::Done(r.u64()?),
            MESSAGE => {
                let (hints, client, handle, len) = (r.u64()?, r.u64()?, [r.u64()?, r.u64()?], r.u32()?);
                let bytes = r.rest();
                if bytes.len() > len as usize {
                    return Err(ParseError::Length);
                }
                return Ok(Answer::Message { hints, client, handle, len, bytes });
            }
            BEGUN => Answer::Begun { mode: r.u8()?, uid: r.u64()? },
            PIECE => {
                let (arg, is_last) = (r.u64()?, flag(&mut r)?);
                return Ok(Answer::Piece { arg, is_last, bytes: r.rest() });
            }
            COUNTS => Answer::Counts([r.u32()?, r.u32()?, r.u32()?, r.u32()?, r.u32()?]),
            LENT => Answer::Lent { bytes: r.u64()?, uid: r.u64()? },
            BLOCK => Answer::Block { id: BlockId::from_bits(r.u64()?), len: r.u64()?, kind: r.u32()? },
            BYTES => return Ok(Answer::Bytes(r.rest())),
            USED => Answer::Used([r.u64()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?]),
            COUNTED => Answer::Counted { is_last: flag(&mut r)?, round: r.u32()? },
            REFUSED => Answer::Refused { why: r.u16()?, numbers: [r.u64()?, r.u64()?] },
            _ => return Err(ParseError::Nonsense),
        };
        if r.rest().is_empty() { Ok(answer) } else { Err(ParseError::Length) }
    }
}
