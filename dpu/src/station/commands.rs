//! What host processes can ask for.

use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export, READ};
use umbra_core::access::serve::{Copy, Direction, Reply};
use umbra_core::codec::{Reader, Short};
use umbra_core::endpoints::{Group, LookupError, PublishError, Shadows, Table};
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::key::{Access, Span};
use umbra_core::log;
use umbra_core::peer::{PeerKind, Rank};
use umbra_core::region::Secret;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::window::{SHARE, ops};
use umbra_core::wire::{Frame, HEAD, INLINE, Op, Token};

use super::{Share, Station, link};

/// Bytes of an answer that fit into a line beside its status.
const RESULT: usize = INLINE - 2;

/// An answer's bytes.
#[derive(Clone, Copy, Default)]
struct Body {
    bytes: [u8; 8],
    len: usize,
}

impl Body {
    const fn of(word: u64) -> Body {
        Body { bytes: word.to_le_bytes(), len: 8 }
    }
}

impl Station<'_, '_> {
    /// Carries out what a line says.
    pub(super) fn command(&mut self, at: usize, line: &[u8; 64]) {
        let head = line.first_chunk::<HEAD>();
        let frame = head.and_then(|head| Frame::announced_len(head).ok()).and_then(|len| line.get(..len));
        let Some(Ok(frame)) = frame.map(Frame::parse) else {
            log!(warn, "lane {:?}: a line that is no frame", at);
            return;
        };
        match self.own(at, &frame) {
            Some(Ok(body)) => self.done(at, frame.op(), frame.token(), Status::Ok, &body.bytes[..body.len]),
            Some(Err(status)) => self.done(at, frame.op(), frame.token(), status, &[]),
            None => self.access(at, &frame),
        }
    }

    fn done(&mut self, at: usize, op: Op, token: Token, status: Status, body: &[u8]) {
        if status != Status::Ok {
            log!(debug, "lane {:?}: {:?} ended with {:?}", at, op, status);
        }
        self.send(at, &Frame::Done { op, token, status, body });
    }

    /// Commands that only firmware knows; `None` if it is not one of them, or is answered by the server.
    fn own(&mut self, at: usize, frame: &Frame<'_>) -> Option<Result<Body, Status>> {
        match *frame {
            Frame::Call { op: ops::LOOKUP, body, .. } => Some(self.lookup(body)),
            Frame::Offer { op: ops::PUBLISH, span, arg, .. } => Some(self.publish(at, span, arg)),
            Frame::Call { op: ops::RETIRE, body, .. } => Some(self.retire(at, body)),
            Frame::Offer { op: ops::EXPORT, token, span, arg } => {
                let exported = self.export(at, token, span, arg);
                exported.map(|status| if status == Status::Ok { Ok(Body::default()) } else { Err(status) })
            }
            _ => None,
        }
    }

    fn lookup(&self, body: &[u8]) -> Result<Body, Status> {
        let parse = || -> Result<_, Short> {
            let mut r = Reader::new(body);
            Ok((Id::<Group>::from_bits(r.u64()?), Rank(r.u32()?)))
        };
        let (group, rank) = parse().map_err(|Short| Status::Malformed)?;
        let found = self.cache.reader().and_then(|reader| reader.lookup(group, rank)).map_err(unknown)?;
        Ok(Body::of(u64::from(found.peer.to_bits()) | u64::from(found.sp.0) << 32))
    }

    fn publish(&mut self, at: usize, span: Span, wish: u64) -> Result<Body, Status> {
        self.service_only(at)?;
        let len = usize::try_from(span.len).map_err(|_| Status::OutOfBounds)?;
        let offset = usize::try_from(span.offset).map_err(|_| Status::OutOfBounds)?;
        let bytes = self.table.get_mut(..len).ok_or(Status::Full)?;
        // A copy that nobody else can change: what is checked is what is published.
        self.lanes[at].lane.landing.read_only().read(offset, bytes).map_err(|_| Status::OutOfBounds)?;
        let table = Table::attach(bytes).map_err(|error| {
            log!(warn, "lane {:?}: not a table: {:?}", at, error);
            Status::Malformed
        })?;
        let handle = self.cache.publish(&table, u32::try_from(wish).ok()).map_err(|error| {
            log!(warn, "table of {:?} ranks not published: {:?}", table.size(), error);
            match error {
                PublishError::AlreadyPublished(_) => Status::Conflict,
                PublishError::NoSlot | PublishError::NoRoom(_) => Status::Full,
                _ => Status::UnknownGroup,
            }
        })?;
        log!(info, "group of {:?} ranks is in the cache", table.size());
        Ok(Body::of(handle.to_bits()))
    }

    fn retire(&mut self, at: usize, body: &[u8]) -> Result<Body, Status> {
        self.service_only(at)?;
        let group = Id::from_bits(Reader::new(body).u64().map_err(|Short| Status::Malformed)?);
        self.cache.retire(group).map_err(unknown)?;
        log!(info, "a group was retired");
        Ok(Body::default())
    }

    /// Ranks use the cache, service processes maintain it.
    fn service_only(&self, at: usize) -> Result<(), Status> {
        match self.lanes[at].peer.map(umbra_core::peer::Peer::kind) {
            Some(PeerKind::Service(_)) => Ok(()),
            Some(PeerKind::Rank(_)) => Err(Status::PermissionDenied),
            None => Err(Status::Unauthenticated),
        }
    }

    /// Puts the export that the server knows together from one that fits into a line. Its access list is this process
    /// alone, so nobody can import the region, and its secret is never asked for.
    fn export(&mut self, at: usize, token: Token, span: Span, rights: u64) -> Option<Status> {
        let share = SHARE as u64;
        if span.offset > share || span.len > share - span.offset {
            return Some(Status::OutOfBounds);
        }
        let access = u8::try_from(rights).ok().and_then(Access::from_bits);
        let (PeerKind::Service(me), Some(access)) = (self.me.kind(), access) else { return Some(Status::Malformed) };
        let locator = Locator::Segment { segment: at as u64, offset: span.offset, size: share };
        let ticket = Ticket { key: span.key, base: span.offset, len: span.len, access, locator };
        let Ok(shadows) = Shadows::from_slice(&[me]) else { return Some(Status::Malformed) };
        let mut body = [0; EXPORT_MAX];
        let Ok(len) = (Export { ticket, secret: Secret([0; 32]), shadows }).emit(&mut body) else {
            return Some(Status::Malformed);
        };
        let frame = Frame::Call { op: EXPORT, token, body: body.get(..len)? };
        let answer = match self.serve.on_frame(link(at), &frame) {
            Reply::Attach(attach) => {
                // The same table of regions numbers the places, so there is one for each.
                let place = self.shares.get_mut(attach.place);
                let status = if place.is_some() { Status::Ok } else { Status::Full };
                if let Some(place) = place {
                    *place = Share::of(attach.link);
                }
                log!(info, "lane {:?}: {:?} is served, {:?} bytes", at, span.key, span.len);
                self.serve.attached(&attach, status)
            }
            Reply::Answer(answer) => answer,
            _ => return None,
        };
        Some(answer.status)
    }

    /// Commands of memory access.
    fn access(&mut self, at: usize, frame: &Frame<'_>) {
        match self.serve.on_frame(link(at), frame) {
            Reply::Answer(answer) => self.answer(&answer),
            Reply::Copy(copy) if copy.direction == Direction::ToFrame => self.read_inline(copy),
            Reply::Copy(copy) => {
                let status = self.copy(&copy);
                self.copied(copy, status);
            }
            Reply::Store(copy, bytes) => {
                let share = self.shares.get(copy.place).and_then(|share| self.lanes.get(share.lane));
                let stored = share.map(|open| open.lane.share.write(copy.address as usize, bytes));
                self.copied(copy, if stored == Some(Ok(())) { Status::Ok } else { Status::CopyFailed });
            }
            // The memory of an ordinary export is somewhere else.
            Reply::Attach(attach) => {
                let answer = self.serve.attached(&attach, Status::CopyFailed);
                self.answer(&answer);
            }
            Reply::Later if matches!(frame, Frame::Call { .. }) => {}
            Reply::Later => self.done(at, frame.op(), frame.token(), Status::Malformed, &[]),
        }
    }

    fn copied(&mut self, copy: Copy, status: Status) {
        if let Some(answer) = self.serve.copied(copy, status) {
            self.answer(&answer);
        }
    }

    /// Bytes that fit into the answer travel in it: one line out, one line back.
    fn read_inline(&mut self, copy: Copy) {
        let mut bytes = [0; RESULT];
        let (token, link) = (copy.token, copy.link);
        let share = self.shares.get(copy.place).and_then(|share| self.lanes.get(share.lane));
        let into = usize::try_from(copy.len).ok().and_then(|len| bytes.get_mut(..len));
        let (Some(open), Some(into)) = (share, into) else { return self.copied(copy, Status::OutOfBounds) };
        let read = open.lane.share.read_only().read(copy.address as usize, into);
        let len = into.len();
        if read.is_err() {
            return self.copied(copy, Status::CopyFailed);
        }
        if self.serve.copied(copy, Status::Ok).is_some() {
            self.done(link.index(), READ, token, Status::Ok, &bytes[..len]);
        }
    }
}

const fn unknown(error: LookupError) -> Status {
    match error {
        LookupError::RankOutOfRange { .. } => Status::RankOutOfRange,
        LookupError::StaleGeneration => Status::StaleGeneration,
        _ => Status::UnknownGroup,
    }
}
