//! Requests to the gateway of another host, and its answers.
//!
//! They are about the channels and streams there. A line is one handle, or one end of a conversation: it opens with a
//! reference and what is to be done with what that names, and then carries one request at a time, each answered once.
//! So the messages of one send handle stay in order, and nobody waits behind another handle. A handle whose line broke
//! says so over its next one, which the gateway answers when nothing of the broken line is under way any more. The
//! bytes are bodies of [`Call`](crate::wire::Frame::Call) and [`Done`](crate::wire::Frame::Done) frames of the
//! operation [`CHANNEL`]; all integers are little-endian.
//!
//! ```text
//! open     | 1 | version | returns | 0 | client u64 | handle 2 x u64 | reference ... |
//! send     | 2 | patience u64 | hints u64 | bytes ... |
//! receive  | 3 | patience u64 | how u8 | room u32 |
//! poll     | 4 | patience u64 | event i32 |
//! converse | 5 | version | end | how | patience u64 | deposit after u32 | reference ... |
//! write    | 6 | patience u64 | arg u64 | kept u8 | bytes ... |
//! read     | 7 | patience u64 | room u32 |
//! close    | 8 | patience u64 |
//! ask      | 9 | patience u64 | what u8 |
//! pool     | 10 | version | reference ... |
//! alloc    | 11 | patience u64 | length u64 | kind u32 |
//! look     | 12 | block u64 |
//! get      | 13 | block u64 | at u64 | length u32 |
//! put      | 14 | block u64 | at u64 | bytes ... |
//! free     | 15 | block u64 |
//! leave    | 16 | block u64 |
//! figures  | 17 |
//! barrier  | 18 | patience u64 |
//! cut      | 19 | life u64 |
//!
//! opened   | 1 | capacity u32 | block u32 | uid u64 |
//! done     | 2 | number u64 |
//! message  | 3 | hints u64 | client u64 | handle 2 x u64 | whole length u32 | bytes ... |
//! refused  | 4 | why u16 | two numbers, 2 x u64 |
//! begun    | 5 | mode u8 | uid u64 |
//! piece    | 6 | arg u64 | is last u8 | bytes ... |
//! counts   | 7 | idle, waiting, offered, kept, room, 5 x u32 |
//! lent     | 8 | bytes u64 | uid u64 |
//! block    | 9 | block u64 | length u64 | kind u32 |
//! bytes    | 10 | bytes ... |
//! used     | 11 | bytes, free, asked, blocks, longest free, 5 x u64 |
//! counted  | 12 | is last u8 | round u32 |
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

mod answer;
pub mod client;
mod pool;
mod request;

use core::fmt;

use crate::codec::{Reader, Short, Writer};
use crate::time::Lapse;
use crate::wire::{BODY_MAX, Op};

pub use answer::Answer;
pub use pool::PoolRequest;
pub use request::{End, Matter, Request, Take};

/// The operation of all frames of a line.
pub const CHANNEL: Op = Op(0x0501);
/// Most bytes of a message that travels.
pub const MESSAGE_MAX: usize = BODY_MAX - 64;
/// The version of these bytes.
pub const VERSION: u8 = 5;

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

/// A byte that is 0 or 1.
fn flag(r: &mut Reader<'_>) -> Result<bool, ParseError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ParseError::Nonsense),
    }
}
