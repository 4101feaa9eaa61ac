//! Reads in one piece: asked for by one call, and ended by one answer.
//!
//! One call is enough only if the region is known.

use super::request::{Asked, Kind};
use super::send::offset_in;
use super::{Bytes, Delivery, Get, Landed, Piece, Place, Reader, Server, Waiting};
use crate::access::message::{READ, Reach, Transfer};
use crate::error::Status;
use crate::id::Id;
use crate::key::Span;
use crate::pending::Request;
use crate::slots::Slot;
use crate::wire::{Frame, Token};

impl<R, P, K, L> Reader<R, P, K, L>
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
    P: AsRef<[Slot<Piece>]> + AsMut<[Slot<Piece>]>,
    K: AsRef<[Place]> + AsMut<[Place]>,
    L: AsRef<[Server]> + AsMut<[Server]>,
{
    /// As [`get`](Self::get) and the poll after it, of bytes that can be asked for at once and in one piece: their region
    /// is known, the link has a free slot that holds them all, and nobody waits for one.
    ///
    /// `send` sends the frame that lies in a cell over the link, and says whether it could: the rest is written down while
    /// the frame is on its way.
    ///
    /// `None` if it is otherwise, a table is full, or it could not be sent; nothing was asked, so `get`.
    #[inline(always)]
    pub fn get_now(&mut self, get: &Get, send: impl FnOnce([u64; 8]) -> bool) -> Option<Id<Waiting>> {
        let &Get { owner, via: link, address, len, .. } = get;
        let server = self.servers.as_mut().get_mut(link.index())?;
        if server.free == 0 || len == 0 || len > server.slot_bytes || !server.waiting.is_empty() {
            return None;
        }
        let region = match &get.region {
            Some(region) => region,
            None => self.known.at_home(owner, address)?,
        };
        let offset = offset_in(region, address, len)?;
        let (request, id) = (self.requests.next()?, self.pieces.next()?);
        let slot = server.free.trailing_zeros() as u8;
        let transfer = Transfer {
            span: Span { key: region.key, offset, len },
            incarnation: region.incarnation,
            landing: server.in_segment.then(|| u64::from(slot) * server.slot_bytes),
        };
        let frame = Frame::Call { op: READ, token: Token(id.to_bits()), body: &transfer.to_bytes() };
        if !send(frame.to_words().ok()?) {
            return None;
        }
        server.free &= server.free - 1;
        self.idle -= server.count();
        let begun = self.requests.begin(Waiting::under_way(get, region), get.deadline);
        let taken = self.pieces.take(Piece { request, link, slot, kind: Kind::Read { at: 0, len } });
        debug_assert!(begun.is_ok_and(|begun| begun == request) && taken.is_ok_and(|taken| taken == id), "the next");
        Some(request)
    }

    /// The answer to a piece that is a whole read, whose bytes have landed; `None` if it is another answer.
    #[inline(always)]
    pub(super) fn on_whole<'f>(&mut self, asked: &Asked, status: Status, body: &[u8]) -> Option<Delivery<'f>> {
        let Asked { request, link, slot, len, .. } = *asked;
        let server = self.servers.as_mut().get_mut(link.index()).filter(|server| server.in_segment)?;
        let reach = Reach::parse(body).ok().filter(|_| status == Status::Ok)?;
        let Ok(waiting) = self.requests.get(request) else { return None };
        if !waiting.is_whole(len) {
            return None;
        }
        let (tag, again) = (waiting.tag, waiting.again);
        self.requests.end(request).ok()?;
        self.idle += server.uncount();
        let bytes = Bytes::Landed(Landed { link, offset: u64::from(slot) * server.slot_bytes, len, slot });
        Some(Delivery { request, tag, at: 0, bytes, reach, again, last: true })
    }
}
