//! What is said about a channel of another host: requests to the gateway there, and its answers.
//!
//! A line is one handle: it opens with the channel's reference and the handle's identity, and then carries one request at
//! a time, each answered once. So the messages of one send handle stay in order, and nobody waits behind another handle.
//! The bytes are bodies of [`Call`](crate::wire::Frame::Call) and [`Done`](crate::wire::Frame::Done) frames of the
//! operation [`CHANNEL`]; all integers are little-endian.
//!
//! ```text
//! open     | 1 | version | returns | 0 | client u64 | handle 2 x u64 | reference ... |
//! send     | 2 | patience u64 | hints u64 | bytes ... |
//! receive  | 3 | patience u64 | how u8 | room u32 |
//! poll     | 4 | patience u64 | event i32 |
//!
//! opened   | 1 | capacity u32 | block u32 | uid u64 |
//! done     | 2 | number u64 |
//! message  | 3 | hints u64 | client u64 | handle 2 x u64 | whole length u32 | bytes ... |
//! refused  | 4 | why u16 | two numbers, 2 x u64 |
//! ```
//!
//! ```
//! use umbra_core::gateway::{Answer, Patience, Request};
//! let mut buffer = [0; 64];
//! let request = Request::Send { patience: Patience::Never, hints: 7, bytes: b"hello" };
//! let len = request.write(&mut buffer)?;
//! assert_eq!(Request::parse(&buffer[..len]), Ok(request));
//! assert!(Answer::parse(&buffer[..3]).is_err());
//! # Ok::<(), umbra_core::codec::Short>(())
//! ```
//!
//! *Cost*: one pass over the fields.

use core::fmt;

use crate::codec::{Reader, Short, Writer};
use crate::time::Lapse;
use crate::wire::{BODY_MAX, Op};

/// The operation of all frames of a line.
pub const CHANNEL: Op = Op(0x0501);
/// Most bytes of a message that travels.
pub const MESSAGE_MAX: usize = BODY_MAX - 64;
/// The version of these bytes.
pub const VERSION: u8 = 1;

/// How long the gateway may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Patience {
    /// One try.
    Now,
    /// So long, from when it gets the request; not nothing.
    After(Lapse),
    /// For ever.
    Never,
}

/// What is done with the first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Take {
    /// It is received; if it does not fit it stays the first.
    Receive,
    /// As much of it as there is room for is copied, and it stays the first.
    Peek,
    /// It is removed.
    Pop,
}

/// What a line asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Request<'a> {
    /// The first one: which channel, and whose handle it is.
    Open {
        /// Whether sends return when their message was received.
        on_receipt: bool,
        /// Goes along with each message.
        client: u64,
        /// The id of the send handle.
        handle: [u64; 2],
        /// The bytes of the channel's reference.
        reference: &'a [u8],
    },
    /// Send a message.
    Send {
        /// How long to wait for room.
        patience: Patience,
        /// The 64 bits beside it.
        hints: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Do something with the first message.
    Receive {
        /// How long to wait for one.
        patience: Patience,
        /// What.
        take: Take,
        /// Bytes that there is room for.
        room: u32,
    },
    /// Wait for an event, or ask for a number.
    Poll {
        /// How long to wait.
        patience: Patience,
        /// The event's number.
        event: i32,
    },
}

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
    /// It is not done.
    Refused {
        /// Why: a number of the layer above.
        why: u16,
        /// What belongs to that.
        numbers: [u64; 2],
    },
}

/// Why bytes are neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ParseError {
    /// They end before the last field, or go on after it.
    Length,
    /// Another version.
    Version(u8),
    /// A field has a value that means nothing.
    Nonsense,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Length => f.write_str("words of a gateway have another length"),
            ParseError::Version(version) => {
                write!(f, "gateway speaks version {version}, this program {VERSION}: use one build on both sides")
            }
            ParseError::Nonsense => f.write_str("words of a gateway mean nothing"),
        }
    }
}
impl core::error::Error for ParseError {}

impl From<Short> for ParseError {
    fn from(Short: Short) -> Self {
        ParseError::Length
    }
}

const OPEN: u8 = 1;
const SEND: u8 = 2;
const RECEIVE: u8 = 3;
const POLL: u8 = 4;
const OPENED: u8 = 1;
const DONE: u8 = 2;
const MESSAGE: u8 = 3;
const REFUSED: u8 = 4;

impl Patience {
    fn write(self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u64(match self {
            Patience::Now => 0,
            Patience::After(lapse) => lapse.0.clamp(1, u64::MAX - 1),
            Patience::Never => u64::MAX,
        })
    }

    fn parse(r: &mut Reader<'_>) -> Result<Patience, Short> {
        Ok(match r.u64()? {
            0 => Patience::Now,
            u64::MAX => Patience::Never,
            nanos => Patience::After(Lapse(nanos)),
        })
    }
}

/// All of `buffer` that was written.
fn written(
    buffer: &mut [u8],
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>,
    tail: &[u8],
) -> Result<usize, Short> {
    let room = buffer.len();
    let mut w = Writer::new(buffer);
    write(&mut w)?;
    w.bytes(tail)?;
    Ok(room - w.room())
}

impl<'a> Request<'a> {
    /// Writes it to the front of `buffer`; how many bytes it has.
    ///
    /// # Errors
    /// [`Short`] if they do not fit.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, Short> {
        match *self {
            Request::Open { on_receipt, client, handle: [first, second], reference } => {
                let head = |w: &mut Writer<'_>| {
                    w.bytes(&[OPEN, VERSION, on_receipt.into(), 0])?;
                    [client, first, second].iter().try_for_each(|&word| w.u64(word))
                };
                written(buffer, head, reference)
            }
            Request::Send { patience, hints, bytes } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(SEND)?;
                    patience.write(w)?;
                    w.u64(hints)
                };
                written(buffer, head, bytes)
            }
            Request::Receive { patience, take, room } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(RECEIVE)?;
                    patience.write(w)?;
                    w.u8(take as u8)?;
                    w.u32(room)
                };
                written(buffer, head, &[])
            }
            Request::Poll { patience, event } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(POLL)?;
                    patience.write(w)?;
                    w.u32(event.cast_unsigned())
                };
                written(buffer, head, &[])
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, ParseError> {
        let mut r = Reader::new(bytes);
        let request = match r.u8()? {
            OPEN => {
                let [version, on_receipt, zero] = r.array()?;
                if version != VERSION {
                    return Err(ParseError::Version(version));
                }
                if on_receipt > 1 || zero != 0 {
                    return Err(ParseError::Nonsense);
                }
                let (client, handle) = (r.u64()?, [r.u64()?, r.u64()?]);
                return Ok(Request::Open { on_receipt: on_receipt == 1, client, handle, reference: r.rest() });
            }
            SEND => {
                let (patience, hints) = (Patience::parse(&mut r)?, r.u64()?);
                return Ok(Request::Send { patience, hints, bytes: r.rest() });
            }
            RECEIVE => {
                let patience = Patience::parse(&mut r)?;
                let take = match r.u8()? {
                    0 => Take::Receive,
                    1 => Take::Peek,
                    2 => Take::Pop,
                    _ => return Err(ParseError::Nonsense),
                };
                Request::Receive { patience, take, room: r.u32()? }
            }
            POLL => Request::Poll { patience: Patience::parse(&mut r)?, event: r.u32()?.cast_signed() },
            _ => return Err(ParseError::Nonsense),
        };
        if r.rest().is_empty() { Ok(request) } else { Err(ParseError::Length) }
    }
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
            REFUSED => Answer::Refused { why: r.u16()?, numbers: [r.u64()?, r.u64()?] },
            _ => return Err(ParseError::Nonsense),
        };
        if r.rest().is_empty() { Ok(answer) } else { Err(ParseError::Length) }
    }
}
