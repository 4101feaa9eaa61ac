//! The machines of a service process behind one door.
//!
//! An [`Agent`] owns no socket, no clock and no memory of its own: it sorts what comes in to the bootstrap
//! ([`Service`]), to the machine that serves memory ([`Serve`]), to the one that asks for it ([`Reader`]) and to the
//! one that remembers which ranks it asks for ([`Relay`]), and hands out what they want done. The same assembly runs in a Linux process and in firmware; only who carries out
//! the actions differs.
//!
//! ```text
//! driver ── on_link, on_frame, on_gone, on_time ──►  Agent
//! driver ◄── Incoming (from on_frame), poll_group, poll_serve, poll_read
//! ```
//!
//! Rules of the machines hold here too: poll each of the three until it has nothing more after every other call;
//! a driver whose links are full stops polling.

use umbra_core::access::message::{FETCH, Fetch};
use umbra_core::access::read::{Delivery, Ended, Landing, Piece, Place, ReadError, Reader, Server, Waiting};
use umbra_core::access::relay::{self, Ask, Fetches, Flight, Relay};
use umbra_core::access::serve::{self, Asker, Job, Reply, Serve};
use umbra_core::error::Status;
use umbra_core::group::Shelf;
use umbra_core::group::is_bootstrap;
use umbra_core::group::service::{Event, Service, Storage};
use umbra_core::machine::{Action, Identity, Link, Machine as _, Role};
use umbra_core::peer::{Incarnation, Peer, PeerKind};
use umbra_core::pending::Request;
use umbra_core::region;
use umbra_core::slots::Slot;
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Op};

/// The types of the lent storage: arrays in firmware, vectors on a host.
pub trait Memory: Storage {
    /// Regions that ranks have exported here; twice as many as are needed.
    type Regions: AsRef<[region::Entry]> + AsMut<[region::Entry]>;
    /// Long transfers and revocations that wait.
    type Jobs: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>;
    /// Links, as the server sees them; as many as [`Storage::Links`].
    type Askers: AsRef<[Asker]> + AsMut<[Asker]>;
    /// Reads that have not ended.
    type Requests: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>;
    /// Frames of reads that were not answered.
    type Pieces: AsRef<[Slot<Piece>]> + AsMut<[Slot<Piece>]>;
    /// Regions of other service processes' ranks that were located.
    type Known: AsRef<[Place]> + AsMut<[Place]>;
    /// Links, as the reader sees them; as many as [`Storage::Links`].
    type Servers: AsRef<[Server]> + AsMut<[Server]>;
    /// Fetches of ranks that wait for room among the reads.
    type Asks: AsRef<[Request<Ask>]> + AsMut<[Request<Ask>]>;
    /// Fetches of ranks that are being read; as many as [`Requests`](Self::Requests).
    type Flights: AsRef<[Flight]> + AsMut<[Flight]>;
    /// Fetches of each link; as many as [`Storage::Links`].
    type Fetches: AsRef<[Fetches]> + AsMut<[Fetches]>;
}

/// Who is at the other end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// A rank or a service process, in this life.
    Peer(Peer, Incarnation),
    /// A tool that only asks; in this life.
    Tool(Incarnation),
}

impl Party {
    const fn identity(self) -> Identity {
        match self {
            Party::Tool(incarnation) => Identity { role: Role::Observer, incarnation },
            Party::Peer(peer, incarnation) => match peer.kind() {
                PeerKind::Rank(_) => Identity { role: Role::Rank, incarnation },
                PeerKind::Service(sp) => Identity { role: Role::Service(sp), incarnation },
            },
        }
    }
}

/// What a frame turned out to be.
#[derive(Debug)]
pub enum Incoming<'f> {
    /// A machine took it; poll.
    Taken,
    /// Memory is asked for: carry this out.
    Serve(Reply<'f>),
    /// Bytes of a read have come.
    Delivered(Delivery<'f>),
    /// A rank wants bytes of another rank, or the status is what it shall be told: look the owner up, then
    /// [`Relay::ask`].
    Fetch(relay::Asker, Result<Fetch, Status>),
    /// No machine knows this operation; it may be the driver's own.
    Foreign,
}

/// Requests that one service process may have outstanding at another.
pub const CREDIT: u32 = 16;

/// The machines of one service process.
pub struct Agent<'p, S: Memory, C> {
    group: Service<'p, S, C>,
    serve: Serve<S::Regions, S::Jobs, S::Askers>,
    reader: Reader<S::Requests, S::Pieces, S::Known, S::Servers>,
    relay: Relay<S::Asks, S::Flights, S::Fetches>,
}

impl<'p, S: Memory, C: Shelf> Agent<'p, S, C> {
    /// Puts the machines together.
    pub const fn new(
        group: Service<'p, S, C>,
        serve: Serve<S::Regions, S::Jobs, S::Askers>,
        reader: Reader<S::Requests, S::Pieces, S::Known, S::Servers>,
        relay: Relay<S::Asks, S::Flights, S::Fetches>,
    ) -> Self {
        Agent { group, serve, reader, relay }
    }

    /// The bootstrap.
    pub const fn group(&self) -> &Service<'p, S, C> {
        &self.group
    }

    /// The server of memory.
    pub const fn serve(&mut self) -> &mut Serve<S::Regions, S::Jobs, S::Askers> {
        &mut self.serve
    }

    /// The reader of memory.
    pub const fn reader(&mut self) -> &mut Reader<S::Requests, S::Pieces, S::Known, S::Servers> {
        &mut self.reader
    }

    /// Who of the ranks waits for which read.
    pub const fn relay(&mut self) -> &mut Relay<S::Asks, S::Flights, S::Fetches> {
        &mut self.relay
    }

    /// Begins the next read that a rank waits for, if there is room for one; false if there was none.
    pub fn begin_fetch(&mut self) -> bool {
        let reader = &self.reader;
        let Some(get) = self.relay.pop(|via| reader.has_room_for(via)) else { return false };
        if let Ok(request) = self.reader.get(get) {
            self.relay.begun(request);
        }
        true
    }

    /// The next rank whose fetch could not begin in time, and what to answer it. Call before
    /// [`on_time`](Self::on_time), until `None`.
    #[must_use]
    pub fn late_fetch(&mut self, now: Time) -> Option<(relay::Asker, ReadError)> {
        let (asker, via) = self.relay.next_late(now)?;
        // A service process that was asked for nothing has not kept anybody waiting.
        let refused = ReadError::Refused(Status::Timeout);
        Some((asker, self.reader.awaited(via).map_or(refused, |missing| ReadError::Timeout { missing })))
    }

    /// A link came up.
    ///
    /// # Errors
    /// [`Status::Full`] if the tables have no place for a link of this number: close it.
    pub fn on_link(&mut self, link: Link, party: Party, now: Time) -> Result<(), Status> {
        if let Party::Peer(peer, incarnation) = party {
            self.serve.on_link(link, peer, incarnation, 0, CREDIT)?;
            if let PeerKind::Service(sp) = peer.kind() {
                self.reader.on_link(link, sp, Landing::Inline { requests: CREDIT })?;
            }
        }
        self.group.on_link(link, party.identity(), now);
        Ok(())
    }

    /// The peer of a link lends `bytes` of memory for answers.
    ///
    /// # Errors
    /// [`Status::Full`] if there is no such link.
    pub fn on_landing(&mut self, link: Link, peer: Peer, incarnation: Incarnation, bytes: u64) -> Result<(), Status> {
        self.serve.on_link(link, peer, incarnation, bytes, CREDIT)
    }

    /// A frame came.
    pub fn on_frame<'f>(&mut self, link: Link, frame: &Frame<'f>, now: Time) -> Incoming<'f> {
        let op = frame.op();
        if is_bootstrap(op) {
            self.group.on_frame(link, frame, now);
            return Incoming::Taken;
        }
        match *frame {
            Frame::Call { op: FETCH, token, body } => {
                let fetch = if self.serve.is_rank(link) {
                    Fetch::parse(body).map_err(|_| Status::Malformed)
                } else {
                    Err(Status::PermissionDenied)
                };
                Incoming::Fetch(relay::Asker { link, token }, fetch)
            }
            Frame::Call { .. } if is_access(op) => Incoming::Serve(self.serve.on_frame(link, frame)),
            Frame::Done { .. } if is_access(op) => {
                self.reader.on_frame(link, frame).map_or(Incoming::Taken, Incoming::Delivered)
            }
            _ => Incoming::Foreign,
        }
    }

    /// A link went down. Ask [`Relay::lost`] for the fetches that waited for it.
    pub fn on_gone(&mut self, link: Link, now: Time) {
        self.serve.on_gone(link);
        self.reader.on_gone(link);
        self.relay.on_gone(link);
        self.group.on_gone(link, now);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        self.group.on_time(now);
        self.reader.on_time(now);
    }

    /// When [`on_time`](Self::on_time) is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        [self.group.deadline(), self.reader.deadline(), self.relay.deadline()].into_iter().flatten().min()
    }

    /// The next wish of the bootstrap.
    #[must_use]
    pub fn poll_group(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action<Event>> {
        self.group.poll(now, buffer)
    }

    /// The next wish of the server.
    #[must_use]
    pub fn poll_serve(&mut self) -> Option<serve::Action> {
        self.serve.poll()
    }

    /// The next wish of the reader.
    #[must_use]
    pub fn poll_read(&mut self, buffer: &mut [u8]) -> Option<Action<Ended>> {
        self.reader.poll(buffer)
    }
}

/// Whether an operation belongs to memory access.
#[must_use]
pub const fn is_access(op: Op) -> bool {
    op.0 >> 8 == 2
}
