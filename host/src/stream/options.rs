//! What the creator of an adapter and those who begin conversations choose.

use umbra_core::stream::{Mode, Shape};

use super::Supplied;
use crate::channel::{Timeout, WaitMode};

/// What the creator of an adapter chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Its id, which users may choose as they like.
    pub uid: u64,
    /// Who begins conversations in which streams.
    pub mode: Mode,
    /// Conversations of any length at once; none in the mode [`Buffered`](Mode::Buffered), one in [`Single`](Mode::Single).
    pub streams: u32,
    /// Bytes of such a one that may be under way at once.
    pub ring: u32,
    /// Conversations at once that are one message; none in the modes [`Single`](Mode::Single) and
    /// [`ReceiverSupplied`](Mode::ReceiverSupplied).
    pub messages: u32,
    /// Bytes of such a one.
    pub block: u32,
    /// Processes that use it at once.
    pub members: u16,
    /// Whether it counts tasks.
    pub tasks: bool,
    /// Waits that spin at once; the others sleep.
    pub max_spinners: u32,
}

/// Eight streams of 64 KiB.
impl Default for Attributes {
    fn default() -> Self {
        Attributes::of(Mode::Nominal)
    }
}

impl Attributes {
    /// Usual values for a mode.
    #[must_use]
    pub const fn of(mode: Mode) -> Attributes {
        let (streams, messages) = match mode {
            Mode::Buffered => (0, 100),
            Mode::Single => (1, 0),
            Mode::ReceiverSupplied => (8, 0),
            Mode::Nominal | Mode::SenderSupplied => (8, 16),
        };
        Attributes {
            uid: 0,
            mode,
            streams,
            ring: 64 << 10,
            messages,
            block: 1000,
            members: 32,
            tasks: false,
            max_spinners: 32,
        }
    }

    pub(super) const fn shape(&self) -> Shape {
        let Attributes { mode, streams, ring, messages, block, .. } = *self;
        Shape { mode, streams, ring, messages, block }
    }
}

/// How a conversation is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions<'a> {
    /// As one message, which is sent at the close; always so in the mode [`Buffered`](Mode::Buffered).
    pub buffered: bool,
    /// Whether the receiver may close before the end; else his close waits for it.
    pub may_be_cut: bool,
    /// The stream to use, in the mode [`SenderSupplied`](Mode::SenderSupplied).
    pub stream: Option<&'a Supplied<'a>>,
    /// After how many messages receivers hear of it, or as soon as there is no room for so many; at once if 0.
    pub deposit_after: u32,
    /// Place what is sent in the pool with this uid, instead of copying it through the stream.
    pub placed_in: Option<u64>,
    /// The 64 bits beside what is written as into a file.
    pub arg: u64,
    /// How long writes as into a file wait.
    pub timeout: Timeout,
    /// How to wait.
    pub mode: WaitMode,
}

/// How a conversation is received.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveOptions<'a> {
    /// The stream to use, in the mode [`ReceiverSupplied`](Mode::ReceiverSupplied).
    pub stream: Option<&'a Supplied<'a>>,
    /// Where bytes land that are received as memory: the pool with this uid, instead of the adapter's first.
    pub placed_in: Option<u64>,
    /// How long reads as from a file wait.
    pub timeout: Timeout,
    /// How to wait.
    pub mode: WaitMode,
}
