//! Asking for memory: the machine that reads ranks of other service processes.
//!
//! A [`Get`] says which bytes of which process, and over which link the process' first service process is
//! reached. The machine asks once where the bytes are, remembers the answer, and asks for the bytes in
//! pieces: one for each free slot of the landing segment that the server fills, or one for each inline
//! answer where there is no shared memory. What comes back is a [`Delivery`]; the last one of a request
//! says so. A request that cannot be answered ends with a [`ReadError`] that names who is missing.
//!
//! A slot is never reused before its server has answered or its link is gone: a late server writes into
//! memory that nobody looks at.
//!
//! If a server says that a key is of an older generation, or of a life of its owner that is over, the region is
//! located again and the read starts over, once; the deliveries then begin again, and say so. A region that is gone is not
//! remembered, and one that is remembered and has not all the bytes is located again before the read is refused.
//!
//! *Cost*: of a small read whose region is known: one look-up in a window of 8 entries, one frame out, one
//! frame back.

mod ask;
mod delivery;
mod known;
mod lists;
mod request;
mod room;
mod send;
mod short;

use crate::access::message::{Description, LOCATE, READ, Reach};
use crate::access::serve::INLINE_MAX;
use crate::error::{Full, Status};
use crate::id::Id;
use crate::machine::{Action, Link};
use crate::peer::{Peer, Sp};
use crate::pending::{Pending, Request};
use crate::region::Region;
use crate::slots::{Slot, Slots};
use crate::time::Time;
use crate::wire::Frame;

pub use ask::{Get, ReadError};
pub use delivery::{Bytes, Delivery, Ended, Landed, Landing};
use known::Known;
pub use known::Place;
use lists::{List, Listed};
use request::{Asked, Kind, Progress};
pub use request::{Piece, Waiting};

/// What the machine knows of one link; lent by the caller, one for each link.
#[derive(Clone, Debug, Default)]
pub struct Server {
    sp: Option<Sp>,
    in_segment: bool,
    slot_bytes: u64,
    /// Slots that nobody uses, as bits.
    free: u64,
    /// Its requests that have not ended.
    requests: u32,
    /// Requests that may send.
    waiting: List,
    /// Requests that wait for a location which somebody asked for.
    parked: List,
}

/// The machine.
#[derive(Debug)]
pub struct Reader<R, P, K, L> {
    requests: Pending<R>,
    pieces: Slots<P>,
    known: Known<K>,
    servers: L,
    /// Requests that ended and were not told.
    ended: List,
    /// The link that may send next.
    turn: u32,
    /// Requests in the waiting lists of all links.
    waits: u32,
    /// Links that are up and have no request.
    idle: u32,
    /// Whether a link may have something to send; if not, a poll looks at none.
    busy: bool,
}

impl<R, P, K, L> Reader<R, P, K, L>
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
    P: AsRef<[Slot<Piece>]> + AsMut<[Slot<Piece>]>,
    K: AsRef<[Place]> + AsMut<[Place]>,
    L: AsRef<[Server]> + AsMut<[Server]>,
{
    /// A machine over lent tables: requests, pieces under way, known regions, links.
    pub fn new(requests: R, pieces: P, known: K, mut servers: L) -> Self {
        servers.as_mut().fill(Server::default());
        Reader {
            requests: Pending::new(requests),
            pieces: Slots::new(pieces),
            known: Known::new(known),
            servers,
            ended: List::default(),
            turn: 0,
            waits: 0,
            idle: 0,
            busy: false,
        }
    }

    /// A link to a service process came up.
    ///
    /// # Errors
    /// [`Status::Full`] if the table of links has no place for this number.
    pub fn on_link(&mut self, link: Link, sp: Sp, landing: Landing) -> Result<(), Status> {
        let server = self.servers.as_mut().get_mut(link.index()).ok_or(Status::Full)?;
        let (slots, slot_bytes, in_segment) = match landing {
            Landing::Segment { slots, slot_bytes } => (slots, slot_bytes, true),
            Landing::Inline { requests } => (requests, INLINE_MAX, false),
        };
        let free = if slots >= 64 { u64::MAX } else { (1 << slots) - 1 };
        self.idle += u32::from(server.sp.is_none() || server.requests > 0);
        *server = Server { sp: Some(sp), in_segment, slot_bytes, free, ..Server::default() };
        Ok(())
    }

    /// A link went down: everything that was asked over it ends with [`ReadError::PeerFailed`].
    pub fn on_gone(&mut self, link: Link) {
        let Some(sp) = self.servers.as_mut().get_mut(link.index()).and_then(|s| s.sp.take()) else { return };
        let error = ReadError::PeerFailed { sp };
        let capacity = u32::try_from(self.pieces.capacity()).unwrap_or(u32::MAX);
        for index in 0..capacity {
            if let Some((id, piece)) = self.pieces.at(index)
                && piece.link == link
            {
                let request = piece.request;
                let _ = self.pieces.remove(id);
                self.end(request, Err(error));
            }
        }
        loop {
            let server = &self.servers.as_ref()[link.index()];
            let Some(request) = server.waiting.first().or(server.parked.first()) else { break };
            self.end(request, Err(error));
        }
        let server = core::mem::take(&mut self.servers.as_mut()[link.index()]);
        self.idle -= u32::from(server.requests == 0);
    }

    /// Forgets where the memory of a process is.
    pub fn forget(&mut self, owner: Peer) {
        self.known.forget(|region| region.key.owner() == owner);
    }

    /// Asks for bytes. Poll afterwards.
    ///
    /// # Errors
    /// [`Full`] with the request if the table is full; a delivery makes a retry worth while.
    #[inline(always)]
    pub fn get(&mut self, get: Get) -> Result<Id<Waiting>, Full<Get>> {
        let request = self.requests.begin(Waiting::new(&get), get.deadline).map_err(|_| Full(get))?;
        let up = self.servers.as_mut().get_mut(get.via.index()).filter(|s| s.sp.is_some());
        match up {
            None => self.end(request, Err(ReadError::NoLink(get.via))),
            Some(server) => {
                self.idle -= server.count();
                if get.len == 0 {
                    self.end(request, Ok(()));
                } else {
                    self.wait(request, get.via);
                }
            }
        }
        Ok(request)
    }

    /// A frame came.
    #[inline(always)]
    pub fn on_frame<'f>(&mut self, link: Link, frame: &Frame<'f>) -> Option<Delivery<'f>> {
        let &Frame::Done { op, token, status, body } = frame else { return None };
        let id = Id::<Piece>::from_bits(token.0);
        // An answer over another link than the question's, or to another question, is not an answer.
        let &Piece { request, link: asked_over, slot, ref kind } = self.pieces.get(id).ok()?;
        if asked_over != link {
            return None;
        }
        match (kind, op) {
            (&Kind::Read { at, len }, READ) => {
                let asked = Asked { request, link, slot, at, len };
                self.pieces.discard(id).ok()?;
                self.on_whole(&asked, status, body).or_else(|| self.on_read(&asked, status, body))
            }
            (&Kind::Locate { owner, address }, LOCATE) => {
                self.pieces.discard(id).ok()?;
                self.free(link, slot);
                self.on_located(link, owner, address, status, body);
                None
            }
            _ => None,
        }
    }

    #[inline(never)]
    fn on_read<'f>(&mut self, asked: &Asked, status: Status, body: &'f [u8]) -> Option<Delivery<'f>> {
        let Asked { request, link, slot, at, len } = *asked;
        let server = self.servers.as_ref().get(link.index())?;
        let (in_segment, slot_bytes) = (server.in_segment, server.slot_bytes);
        let sp = server.sp?;
        // Bytes that were asked inline come before what is said about them.
        let inline = if in_segment { 0 } else { len };
        let said = Reach::split(body, if status == Status::Ok { inline } else { 0 });
        let well_formed = if status == Status::Ok { said.is_ok() } else { body.is_empty() };
        let (inline, reach) = said.unwrap_or((&[], None));
        let bytes = if in_segment {
            Bytes::Landed(Landed { link, offset: u64::from(slot) * slot_bytes, len, slot })
        } else {
            self.free(link, slot);
            Bytes::Inline(inline)
        };
        let outcome = match status {
            _ if !well_formed => Err(ReadError::Malformed { sp }),
            Status::Ok => Ok(len),
            status => Err(ReadError::Refused(status)),
        };
        let progress = match self.requests.get_mut(request) {
            Ok(waiting) => {
                if let (true, Some(region)) = (is_gone(status), waiting.region) {
                    self.known.forget(|known| *known == region);
                }
                waiting.answered(outcome)
            }
            // It ended meanwhile, by its deadline or another piece.
            Err(_) => Progress::Nothing,
        };
        match progress {
            Progress::Delivered { tag, again, last } => {
                if last {
                    self.uncount(link);
                    let _ = self.requests.end(request);
                }
                return Some(Delivery { request, tag, at, bytes, reach, again, last });
            }
            Progress::Nothing => {}
            Progress::Stop => self.unlist(request),
            Progress::Failed(error) => self.end(request, Err(error)),
            Progress::StartOver => {
                self.unlist(request);
                self.wait(request, link);
            }
        }
        if in_segment {
            self.free(link, slot);
        }
        None
    }

    fn on_located(&mut self, link: Link, owner: Peer, address: u64, status: Status, body: &[u8]) {
        let Some(sp) = self.servers.as_ref().get(link.index()).and_then(|s| s.sp) else { return };
        let outcome = match (status, Description::parse(body)) {
            (Status::Ok, Ok(Description(region))) if region.key.owner() == owner && region.covers(address) => {
                crate::log!(debug, "{:?} is at {:?}", region.key, sp);
                self.known.learn(region);
                Ok(region)
            }
            (Status::Ok, _) => Err(ReadError::Malformed { sp }),
            (status, _) => Err(ReadError::Refused(status)),
        };
        // Whoever waited for this answer goes on; what was asked for this very address shares its fate.
        let mut parked = core::mem::take(&mut self.servers.as_mut()[link.index()].parked);
        while let Some(request) = lists::pop(&mut parked, &mut self.requests) {
            let Ok(waiting) = self.requests.get_mut(request) else { continue };
            let covered = |region: &Region| waiting.owner == owner && region.covers(waiting.address);
            match &outcome {
                Err(error) if waiting.owner == owner && waiting.address == address => {
                    self.end(request, Err(*error));
                }
                outcome => {
                    waiting.located |= outcome.as_ref().is_ok_and(covered);
                    self.wait(request, link);
                }
            }
        }
    }

    /// The driver took the bytes of a delivery out of the landing segment.
    #[inline]
    pub fn consumed(&mut self, landed: Landed) {
        self.free(landed.link, landed.slot);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        // The first of the table is the one whose deadline comes first.
        while self.requests.deadline().is_some_and(|deadline| deadline <= now) {
            let first = self.requests.iter().next().map(|(request, waiting)| (request, waiting.via));
            let Some((request, via)) = first else { return };
            let missing = self.servers.as_ref().get(via.index()).and_then(|s| s.sp);
            let error = missing.map_or(ReadError::NoLink(via), |missing| ReadError::Timeout { missing });
            self.end(request, Err(error));
            // It stays in the table until `poll` told of it, and must not expire again.
            let _ = self.requests.postpone(request, Time::NEVER);
        }
    }

    /// When [`on_time`](Self::on_time) is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.requests.deadline()
    }

    /// The next thing to do: a frame in `buffer` to send, or news of a request that ended. Poll after every
    /// other call until `None`; do not poll while the links are full.
    #[must_use]
    #[inline(always)]
    pub fn poll(&mut self, buffer: &mut [u8]) -> Option<Action<Ended>> {
        if let Some(request) = lists::pop(&mut self.ended, &mut self.requests)
            && let Ok(waiting) = self.requests.complete(request)
        {
            let outcome = waiting.outcome.unwrap_or(Ok(()));
            return Some(Action::Event(Ended { request, tag: waiting.tag, outcome }));
        }
        if !self.busy {
            return None;
        }
        self.send(buffer)
    }

    #[inline]
    fn free(&mut self, link: Link, slot: u8) {
        if let Some(server) = self.servers.as_mut().get_mut(link.index()) {
            server.free |= 1 << slot;
            self.busy |= !server.waiting.is_empty();
        }
    }

    #[inline]
    fn wait(&mut self, request: Id<Waiting>, link: Link) {
        if let Some(server) = self.servers.as_mut().get_mut(link.index()) {
            lists::push(&mut server.waiting, &mut self.requests, request, Listed::Waiting);
            self.waits += 1;
            self.busy = true;
        }
    }

    fn park(&mut self, request: Id<Waiting>, link: Link) {
        self.unlist(request);
        if let Some(server) = self.servers.as_mut().get_mut(link.index()) {
            lists::push(&mut server.parked, &mut self.requests, request, Listed::Parked);
        }
    }

    /// Ends a request; `poll` will tell.
    fn end(&mut self, request: Id<Waiting>, outcome: Result<(), ReadError>) {
        self.unlist(request);
        let Ok(waiting) = self.requests.get_mut(request) else { return };
        if waiting.outcome.is_none() {
            if let Err(why) = outcome {
                crate::log!(debug, "read of {:?} failed: {:?}", waiting.owner, why);
            }
            waiting.outcome = Some(outcome);
            let via = waiting.via;
            self.uncount(via);
            lists::push(&mut self.ended, &mut self.requests, request, Listed::Ended);
        }
    }

    /// Takes a request out of the list that it waits in; one that ended stays where it is.
    fn unlist(&mut self, request: Id<Waiting>) {
        let Ok(waiting) = self.requests.get(request) else { return };
        let (link, listed) = (waiting.via, waiting.listed);
        let Some(server) = self.servers.as_mut().get_mut(link.index()) else { return };
        match listed {
            Listed::Waiting => {
                lists::unlink(&mut server.waiting, &mut self.requests, request);
                self.waits -= 1;
            }
            Listed::Parked => lists::unlink(&mut server.parked, &mut self.requests, request),
            Listed::Ended | Listed::Nowhere => {}
        }
    }
}

/// Whether the region that was asked for is not there any more.
const fn is_gone(status: Status) -> bool {
    matches!(status, Status::StaleKey | Status::KeyRevoked | Status::OwnerGone | Status::UnknownRegion)
}
