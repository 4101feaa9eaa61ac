//! The whole wire vocabulary: `Call`, `Offer`, `Null`, `Done`.
//!
//! A frame is a 16-byte head and a body. Between processes that share a ring a frame is one 64-byte cell,
//! so its body is at most [`INLINE`] bytes; a byte stream carries bodies up to [`BODY_MAX`]. A system adds
//! an [`Op`] number, never a mechanism. A frame that can be built can be emitted, and parses back to
//! itself.
//!
//! ```text
//! 0        4     5      6     8                16
//! | body len | kind | 0 |  op  |     token      | body ...
//! ```
//!
//! ```
//! use umbra_core::wire::{Frame, Op, Token};
//! let call = Frame::Call { op: Op(7), token: Token(1), body: b"hello" };
//! let mut bytes = [0; 64];
//! let len = call.emit(&mut bytes)?;
//! assert_eq!(Frame::parse(&bytes[..len]), Ok(call));
//! # Ok::<(), umbra_core::codec::Short>(())
//! ```

use core::fmt;

use crate::codec::{Reader, Short, Writer, words};
use crate::error::Status;
use crate::key::{Key, Span};

/// Bytes of a frame's head.
pub const HEAD: usize = 16;
/// Bytes of body that fit into one 64-byte cell.
pub const INLINE: usize = 48;
/// Bytes of body that a byte stream carries at most.
pub const BODY_MAX: usize = 64 * 1024;

/// What a frame is about: the number of an operation of one system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Op(pub u16);

/// Chosen by the sender, returned in the answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Token(pub u64);

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Frame<'a> {
    /// Do something with these bytes.
    Call {
        /// Which operation.
        op: Op,
        /// The caller's name for the answer.
        token: Token,
        /// Arguments, in the operation's own layout.
        body: &'a [u8],
    },
    /// Here is a span that you may read.
    Offer {
        /// Which operation.
        op: Op,
        /// The offerer's name for the answer.
        token: Token,
        /// What may be read.
        span: Span,
        /// A word for the receiver.
        arg: u64,
    },
    /// There is nothing, and that is the news.
    Null {
        /// Which operation.
        op: Op,
        /// The sender's name for the answer.
        token: Token,
        /// A word for the receiver.
        arg: u64,
    },
    /// The answer to a frame.
    Done {
        /// Which operation.
        op: Op,
        /// The token of the frame that this answers.
        token: Token,
        /// How it ended.
        status: Status,
        /// Results, in the operation's own layout.
        body: &'a [u8],
    },
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FrameError {
    /// Fewer bytes than the head announces, or than a head has.
    Truncated,
    /// More bytes than the head announces.
    Overlong,
    /// The announced body is larger than [`BODY_MAX`].
    TooLarge,
    /// No such kind of frame.
    UnknownKind(u8),
    /// No such status.
    UnknownStatus(u16),
    /// A byte that must be zero is not.
    NotZero,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Truncated => f.write_str("frame ends early"),
            FrameError::Overlong => f.write_str("frame is followed by bytes that belong to nothing"),
            FrameError::TooLarge => write!(f, "frame announces a body over {BODY_MAX} bytes"),
            FrameError::UnknownKind(kind) => write!(f, "unknown kind of frame {kind}"),
            FrameError::UnknownStatus(code) => write!(f, "unknown status code {code}"),
            FrameError::NotZero => f.write_str("reserved byte of a frame is not zero"),
        }
    }
}
impl core::error::Error for FrameError {}

impl From<Short> for FrameError {
    fn from(Short: Short) -> Self {
        FrameError::Truncated
    }
}

const CALL: u8 = 1;
const OFFER: u8 = 2;
const NULL: u8 = 3;
const DONE: u8 = 4;
const OFFER_BODY: usize = 32;
const NULL_BODY: usize = 8;
const STATUS_BYTES: usize = 2;
const KIND_SHIFT: u32 = 32;
const OP_SHIFT: u32 = 48;

impl<'a> Frame<'a> {
    /// The frame's token.
    #[must_use]
    #[inline]
    pub const fn token(&self) -> Token {
        match *self {
            Frame::Call { token, .. }
            | Frame::Offer { token, .. }
            | Frame::Null { token, .. }
            | Frame::Done { token, .. } => token,
        }
    }

    /// The frame's operation.
    #[must_use]
    #[inline]
    pub const fn op(&self) -> Op {
        match *self {
            Frame::Call { op, .. } | Frame::Offer { op, .. } | Frame::Null { op, .. } | Frame::Done { op, .. } => op,
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    #[inline]
    pub const fn len_bytes(&self) -> usize {
        HEAD + match self {
            Frame::Call { body, .. } => body.len(),
            Frame::Offer { .. } => OFFER_BODY,
            Frame::Null { .. } => NULL_BODY,
            Frame::Done { body, .. } => STATUS_BYTES + body.len(),
        }
    }

    /// Writes the frame and returns its length in bytes.
    ///
    /// # Errors
    /// [`Short`] if the buffer is too small or the body exceeds [`BODY_MAX`]; nothing is written then.
    #[inline(always)]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Short> {
        let len = self.len_bytes();
        if len - HEAD > BODY_MAX {
            return Err(Short);
        }
        // Whole words, so that whoever takes the frame up word by word does not wait for several stores.
        let (head, rest) = buffer.get_mut(..len).and_then(|frame| frame.split_first_chunk_mut()).ok_or(Short)?;
        *head = self.first_word((len - HEAD) as u64).to_le_bytes();
        let mut w = Writer::new(rest);
        w.u64(self.token().0)?;
        match *self {
            Frame::Call { body, .. } => w.bytes(body)?,
            Frame::Offer { span, arg, .. } => {
                w.u64(span.key.to_bits())?;
                w.u64(span.offset)?;
                w.u64(span.len)?;
                w.u64(arg)?;
            }
            Frame::Null { arg, .. } => w.u64(arg)?,
            Frame::Done { status, body, .. } => {
                w.u16(status as u16)?;
                w.bytes(body)?;
            }
        }
        Ok(len)
    }

    /// The frame as the little-endian words of one 64-byte cell, zeros behind it; for rings.
    ///
    /// # Errors
    /// [`Short`] if it is longer.
    #[inline(always)]
    pub fn to_words(&self) -> Result<[u64; (HEAD + INLINE) / 8], Short> {
        // Nearly every answer is a status with hardly anything behind it. It is made in registers: a word that is loaded
        // from several narrower stores waits until they have left the core.
        if let Frame::Done { status, body, .. } = *self
            && body.len() <= 8 - STATUS_BYTES
        {
            let body_word = body.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            let first = self.first_word((STATUS_BYTES + body.len()) as u64);
            let third = body_word << (8 * STATUS_BYTES) | status as u64;
            return Ok([first, self.token().0, third, 0, 0, 0, 0, 0]);
        }
        let mut bytes = [0; HEAD + INLINE];
        self.emit(&mut bytes)?;
        Ok(words(&bytes))
    }

    /// Length of the body, kind, zero and operation.
    #[inline]
    const fn first_word(&self, body_len: u64) -> u64 {
        let kind = match self {
            Frame::Call { .. } => CALL,
            Frame::Offer { .. } => OFFER,
            Frame::Null { .. } => NULL,
            Frame::Done { .. } => DONE,
        };
        body_len | (kind as u64) << KIND_SHIFT | (self.op().0 as u64) << OP_SHIFT
    }

    /// How long the whole frame is, told by the head alone; for byte streams.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] if no valid frame starts like this.
    #[inline]
    pub fn announced_len(head: &[u8; HEAD]) -> Result<usize, FrameError> {
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        usize::try_from(len).ok().filter(|&len| len <= BODY_MAX).map(|len| HEAD + len).ok_or(FrameError::TooLarge)
    }

    /// Reads exactly one frame.
    ///
    /// # Errors
    /// [`FrameError`] if `bytes` is not exactly one well-formed frame.
    #[inline(always)]
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let head = bytes.first_chunk::<HEAD>().ok_or(FrameError::Truncated)?;
        match Self::announced_len(head)? {
            len if bytes.len() < len => return Err(FrameError::Truncated),
            len if bytes.len() > len => return Err(FrameError::Overlong),
            _ => {}
        }
        let mut r = Reader::new(bytes);
        let (first, token) = (r.u64()?, Token(r.u64()?));
        let [kind, zero] = ((first >> KIND_SHIFT) as u16).to_le_bytes();
        if zero != 0 {
            return Err(FrameError::NotZero);
        }
        let op = Op((first >> OP_SHIFT) as u16);
        let frame = match kind {
            CALL => return Ok(Frame::Call { op, token, body: r.rest() }),
            OFFER => {
                let span = Span { key: Key::from_bits(r.u64()?), offset: r.u64()?, len: r.u64()? };
                Frame::Offer { op, token, span, arg: r.u64()? }
            }
            NULL => Frame::Null { op, token, arg: r.u64()? },
            DONE => {
                let code = r.u16()?;
                let status = Status::from_code(code).ok_or(FrameError::UnknownStatus(code))?;
                return Ok(Frame::Done { op, token, status, body: r.rest() });
            }
            other => return Err(FrameError::UnknownKind(other)),
        };
        if r.rest().is_empty() { Ok(frame) } else { Err(FrameError::Overlong) }
    }
}
