//! Many links, one loop: the side of a process that waits.
//!
//! A [`Driver`] owns listeners and links and polls them. It accepts, dials with retries, shakes hands and
//! hands out [`Event`]s; the machines that know what frames mean stay outside. It never blocks but in
//! [`wait`](Driver::wait), which sleeps in the kernel until something happens or the caller's deadline, so an
//! idle process costs nothing.
//!
//! Order: events of one link come in the order of the link; `Up` first, `Gone` last, and the number of a
//! link is not reused before its `Gone` was handed out.

mod doors;
mod poll;
mod watch;

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Frame;

use crate::link::{Address, Close, Codec, Dial, Identity, Input, Listener, Party, SendError, Side, Stream};
use crate::secret::{self, Secret};
pub use crate::sys::clock::now;

/// Names a link of a [`Driver`]; numbers are reused after the link is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// What happened on a link.
#[derive(Debug)]
pub enum Event {
    /// The peer has proven that it belongs to the job.
    Up {
        /// Which link.
        link: LinkId,
        /// Who it is.
        peer: Identity,
        /// Its process id, if the link is a Unix socket.
        pid: Option<u32>,
    },
    /// A frame came; its bytes are in the buffer given to [`Driver::next`].
    Frame {
        /// From where.
        link: LinkId,
        /// What came with it.
        descriptors: Vec<OwnedFd>,
    },
    /// The link is over, or could not be made before its deadline.
    Gone {
        /// Which link.
        link: LinkId,
        /// Who was, or should have been, there; `None` for a stranger who never authenticated.
        party: Option<Party>,
        /// Why.
        why: Close,
    },
    /// A descriptor given to [`Driver::watch`] became readable.
    Readable(usize),
}

/// Limits of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Links at once, dials and strangers included.
    pub links: usize,
    /// Bytes that wait to be sent on one link.
    pub outbound: usize,
    /// How long each half of a handshake may take: until the peer says who it is, and until it proves that.
    pub handshake: Lapse,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { links: 4096, outbound: 1 << 20, handshake: Lapse::from_secs(5) }
    }
}

enum Slot {
    Free,
    /// Between two attempts.
    Pausing(Dial, Expected),
    /// An attempt is under way.
    Connecting(Dial, Expected, OwnedFd),
    Shaking {
        stream: Stream,
        until: Time,
        greeted: bool,
        /// How to try again, if this side dialled.
        dial: Option<(Dial, Expected)>,
    },
    Up(Stream, Party),
    /// `Gone` was queued; the number is free once it was handed out.
    Ended,
}

/// Who must be at the other end.
type Expected = Party;
/// The links of one process.
pub struct Driver {
    me: Identity,
    secret: Secret,
    limits: Limits,
    listeners: Vec<Listener>,
    /// Of the process that listens.
    life: Option<u32>,
    watched: Vec<Option<OwnedFd>>,
    slots: Vec<Slot>,
    /// Links that may have unparsed bytes.
    fresh: VecDeque<LinkId>,
    events: VecDeque<Event>,
    /// Memory of the next look.
    lists: poll::Lists,
    /// No listener is looked at before.
    accepts_from: Time,
    looked: Time,
    wakeups: u64,
}

impl Driver {
    /// A process without links.
    #[must_use]
    pub const fn new(me: Identity, secret: Secret, limits: Limits) -> Driver {
        Driver {
            me,
            secret,
            limits,
            listeners: Vec::new(),
            life: None,
            watched: Vec::new(),
            slots: Vec::new(),
            fresh: VecDeque::new(),
            events: VecDeque::new(),
            lists: poll::Lists::NONE,
            accepts_from: Time::ZERO,
            looked: Time::ZERO,
            wakeups: 0,
        }
    }

    /// Who this process is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.me
    }

    /// How often [`wait`](Self::wait) woke this process; stands still while nothing happens.
    #[must_use]
    pub const fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// When [`wait`](Self::wait) looked at the links last: what came before is an event by now. A look that has left something
    /// of a link counts only after 64 others. A machine that takes silence for death is told this time and not that of the
    /// clock: peers speak also while this process is stopped or has other things to do.
    #[must_use]
    pub const fn looked(&self) -> Time {
        self.looked
    }

    /// Begins to connect to `expected` at `address`; ends in [`Event::Up`] or, at `deadline` at the latest,
    /// in [`Event::Gone`].
    ///
    /// # Errors
    /// [`SendError::Full`] if there are as many links as the limit.
    pub fn dial(&mut self, address: Address, expected: Party, deadline: Time) -> Result<LinkId, SendError> {
        self.dial_at(now(), address, expected, deadline)
    }

    /// Like [`dial`](Self::dial), but not before `start`.
    ///
    /// # Errors
    /// [`SendError::Full`] if there are as many links as the limit.
    pub fn dial_at(
        &mut self,
        start: Time,
        address: Address,
        expected: Party,
        deadline: Time,
    ) -> Result<LinkId, SendError> {
        let dial = Dial::new(address, start, deadline);
        self.place(Slot::Pausing(dial, expected)).ok_or(SendError::Full)
    }

    /// Takes over a connected socket; `side` must be the opposite of the other end's.
    ///
    /// # Errors
    /// [`Close`] if the socket refuses, or random bytes or room are missing.
    pub fn adopt(&mut self, socket: OwnedFd, is_unix: bool, side: Side) -> Result<LinkId, Close> {
        self.adopt_until(now() + self.limits.handshake, socket, is_unix, side)
    }

    /// Like [`adopt`](Self::adopt), but the other end has until `until` to say who it is, and then at least the limit for its proof.
    ///
    /// # Errors
    /// See [`adopt`](Self::adopt).
    pub fn adopt_until(&mut self, until: Time, socket: OwnedFd, is_unix: bool, side: Side) -> Result<LinkId, Close> {
        let stream = self.stream(socket, is_unix, side)?;
        self.place(Slot::Shaking { stream, until, greeted: false, dial: None }).ok_or(Close::Local)
    }

    fn stream(&self, socket: OwnedFd, is_unix: bool, side: Side) -> Result<Stream, Close> {
        let challenge = secret::random::<32>().map_err(|e| Close::Io(e.raw_os_error().unwrap_or(0)))?;
        Stream::new(socket, Codec::new(side, self.me, &self.secret, challenge, self.limits.outbound), is_unix)
    }

    fn place(&mut self, slot: Slot) -> Option<LinkId> {
        let free = self.slots.iter().position(|s| matches!(s, Slot::Free));
        let index = match free {
            Some(index) => index,
            None if self.slots.len() < self.limits.links => {
                self.slots.push(Slot::Free);
                self.slots.len() - 1
            }
            None => return None,
        };
        *self.slots.get_mut(index)? = slot;
        u32::try_from(index).ok().map(LinkId)
    }

    /// Queues a frame on a link.
    ///
    /// # Errors
    /// [`SendError`]; nothing is queued then.
    pub fn send(&mut self, link: LinkId, frame: &Frame<'_>, descriptors: Vec<OwnedFd>) -> Result<(), SendError> {
        match self.slots.get_mut(link.0 as usize) {
            Some(Slot::Up(stream, _)) => stream.send(frame, descriptors),
            _ => Err(SendError::NotUp),
        }
    }

    /// Ends a link; what is queued is sent as far as the socket takes it at once. No event follows.
    pub fn close(&mut self, link: LinkId) {
        if let Some(slot) = self.slots.get_mut(link.0 as usize) {
            if let Slot::Up(stream, _) = slot {
                stream.write();
            }
            if !matches!(slot, Slot::Ended) {
                *slot = Slot::Free;
            }
        }
        self.events.retain(|event| match event {
            Event::Frame { link: l, .. } | Event::Up { link: l, .. } => *l != link,
            _ => true,
        });
    }

    /// Bytes that wait to be sent on a link.
    #[must_use]
    pub fn unsent(&self, link: LinkId) -> usize {
        match self.slots.get(link.0 as usize) {
            Some(Slot::Up(stream, _)) => stream.unsent(),
            _ => 0,
        }
    }

    /// The socket of a link that is up.
    #[must_use]
    pub fn socket(&self, link: LinkId) -> Option<BorrowedFd<'_>> {
        match self.slots.get(link.0 as usize) {
            Some(Slot::Up(stream, _)) => Some(stream.as_fd()),
            _ => None,
        }
    }

    /// Whether [`next`](Self::next) may have something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.fresh.is_empty()
    }

    /// Whether anything waits to be sent.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Up(stream, _) if stream.wants_to_write()))
    }

    /// Sends what the sockets take now, without waiting. That a peer is gone is told after what it sent.
    pub fn flush(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Up(stream, _) = slot {
                stream.write();
            }
        }
    }

    /// The next event; a frame's bytes replace the content of `frame`. `None`: [`wait`](Self::wait) next.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                if let Event::Gone { link, .. } = &event
                    && let Some(slot) = self.slots.get_mut(link.0 as usize)
                    && matches!(slot, Slot::Ended)
                {
                    *slot = Slot::Free;
                }
                return Some(event);
            }
            let link = *self.fresh.front()?;
            match self.take(link, frame) {
                Some(event) => return Some(event),
                None => {
                    self.fresh.pop_front();
                    self.prolong(link);
                }
            }
        }
    }

    fn take(&mut self, link: LinkId, frame: &mut Vec<u8>) -> Option<Event> {
        let index = link.0 as usize;
        let slot = self.slots.get_mut(index)?;
        let (Slot::Shaking { stream, .. } | Slot::Up(stream, _)) = slot else { return None };
        match stream.take(frame) {
            Ok(None) => None,
            Ok(Some((Input::Frame(_), descriptors))) => Some(Event::Frame { link, descriptors }),
            Ok(Some((Input::Up(peer), _))) => {
                let pid = stream.pid();
                match std::mem::replace(slot, Slot::Free) {
                    Slot::Shaking { dial: Some((_, expected)), .. } if expected != peer.party => {
                        let why = Close::WrongParty(peer.party);
                        umbra_core::log!(warn, "link {}: {} is wanted there: {}", link.0, expected, why);
                        *slot = Slot::Ended;
                        Some(Event::Gone { link, party: Some(expected), why })
                    }
                    Slot::Shaking { stream, .. } => {
                        *slot = Slot::Up(stream, peer.party);
                        Some(Event::Up { link, peer, pid })
                    }
                    other => {
                        *slot = other;
                        None
                    }
                }
            }
            Err(why) => {
                self.settle(index, Err(why));
                None
            }
        }
    }

    /// Ends the link in slot `index` if its last step failed: a dial tries again, others are gone.
    fn settle(&mut self, index: usize, result: Result<(), Close>) {
        let Err(why) = result else { return };
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Ok(number) = u32::try_from(index) else { return };
        let (party, why) = match std::mem::replace(slot, Slot::Ended) {
            Slot::Pausing(mut dial, expected)
            | Slot::Connecting(mut dial, expected, _)
            | Slot::Shaking { dial: Some((mut dial, expected)), .. } => match dial.failed(why, now()) {
                Ok(()) => {
                    umbra_core::log!(trace, "{} cannot be reached yet", expected);
                    *slot = Slot::Pausing(dial, expected);
                    return;
                }
                Err(why) => (Some(expected), why),
            },
            Slot::Shaking { mut stream, dial: None, .. } => {
                // Tells a stranger why; it may be gone already.
                stream.write();
                (None, why)
            }
            Slot::Up(_, party) => (Some(party), why),
            other @ (Slot::Free | Slot::Ended) => {
                *slot = other;
                return;
            }
        };
        umbra_core::log!(debug, "link {} is over: {}", number, why);
        self.events.push_back(Event::Gone { link: LinkId(number), party, why });
    }

    /// Sleeps until something happens, or `deadline`, or a dial or handshake is due; then moves bytes. If it was the
    /// deadline, it has [looked](Self::looked) at the links after that.
    ///
    /// # Errors
    /// What the system said of the poll itself; links that fail are events.
    pub fn wait(&mut self, deadline: Time) -> std::io::Result<()> {
        if !self.events.is_empty() || !self.fresh.is_empty() {
            return self.poll(Time::ZERO);
        }
        let due = self.slots.iter().map(|slot| match slot {
            Slot::Pausing(dial, _) => dial.due(),
            Slot::Connecting(dial, ..) => dial.deadline(),
            Slot::Shaking { until, .. } => *until,
            _ => Time::NEVER,
        });
        let deadline = due.fold(deadline, Time::min);
        let deadline = if self.accepts_from > now() { deadline.min(self.accepts_from) } else { deadline };
        self.poll(deadline)?;
        if self.looked < deadline && deadline <= now() { self.poll(Time::ZERO) } else { Ok(()) }
    }
}
