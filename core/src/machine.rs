//! The contract between a protocol machine and the driver that runs it.
//!
//! A machine reads no clock, opens no socket and calls nobody back. The driver hands it what happened
//! ([`on_link`](Machine::on_link), [`on_frame`](Machine::on_frame), [`on_gone`](Machine::on_gone),
//! [`on_time`](Machine::on_time)) and then calls [`poll`](Machine::poll) until it answers `None`:
//!
//! ```text
//! loop {
//!     wait for a frame, a link event, or machine.deadline()
//!     machine.on_...(…, now)
//!     while let Some(action) = machine.poll(now, &mut buffer) { carry it out }
//! }
//! ```
//!
//! * Back-pressure is not polling: a driver whose links are full stops calling `poll` and loses nothing.
//! * A frame that cannot be sent because its link broke meanwhile may be dropped: machines repeat what
//!   was not acknowledged.
//! * `now` never runs backwards.

use crate::error::Status;
use crate::peer::{Incarnation, Sp};
use crate::time::Time;
use crate::wire::Frame;

/// A link to another process: a small number chosen by the driver, which may reuse it after
/// [`on_gone`](Machine::on_gone).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Link(pub u32);

impl Link {
    /// The number as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the process at the other end of a link is, proven by the driver's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Role {
    /// A service process.
    Service(Sp),
    /// An application process; which rank it is it says itself, and the service process checks it.
    Rank,
    /// A process that only asks for reports.
    Observer,
}

/// Who is at the other end of a link, proven by the driver's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Identity {
    /// What it is.
    pub role: Role,
    /// Which life of it.
    pub incarnation: Incarnation,
}

/// What a machine wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action<E> {
    /// Send the frame that lies in the first `len_bytes` of the polled buffer.
    Send {
        /// Over which link.
        link: Link,
        /// Length of the frame.
        len_bytes: usize,
    },
    /// A link to this service process is wanted. Asked again with back-off while there is none; a driver
    /// that opens all links by itself may ignore it.
    Connect {
        /// To whom.
        sp: Sp,
    },
    /// Close the link; the machine has forgotten it already.
    Close {
        /// Which link.
        link: Link,
        /// Why, for the log and for the peer.
        reason: Status,
    },
    /// News for the machine's owner.
    Event(E),
}

/// A sans-I/O protocol machine.
pub trait Machine {
    /// What it reports to its owner.
    type Event;

    /// A link came up; its peer has proven `identity`.
    fn on_link(&mut self, link: Link, identity: Identity, now: Time);

    /// A frame arrived. Frames of foreign operations and malformed ones are counted, never trusted.
    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time);

    /// A link went down.
    fn on_gone(&mut self, link: Link, now: Time);

    /// Time has passed; call it at [`deadline`](Machine::deadline), more often does no harm.
    fn on_time(&mut self, now: Time);

    /// The next thing to do, or `None` until the next `on_...` call. `buffer` holds at least one frame of
    /// the largest body ([`HEAD`](crate::wire::HEAD) + [`BODY_MAX`](crate::wire::BODY_MAX) bytes); a
    /// smaller one makes messages smaller, down to 512 bytes.
    #[must_use]
    fn poll(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action<Self::Event>>;

    /// When [`on_time`](Machine::on_time) is due, if ever.
    #[must_use]
    fn deadline(&self) -> Option<Time>;
}
