//! Reads in one piece: asked for by one call if the region is known, and ended by one answer.

use super::request::{Asked, Kind};
use super::send::offset_in;
use super::{Bytes, Delivery, Get, Landed, Piece, Place, Reader, Server, Waiting};
use crate::access::message::{READ, Reach, TRANSFER, Transfer};
use crate::error::Status;
use crate::id::Id;
use crate::key::Span;
use crate::pending::Request;
use crate::slots::Slot;
use crate::wire::{Frame, Token};

/// A frame to send to the server that was asked.
#[derive(Clone, Copy, Debug)]
#[must_use = "nobody answers what is not sent"]
pub struct Question {
    /// The read.
    pub request: Id<Waiting>,
    token: Token,
    body: [u8; TRANSFER],
}

impl Question {
    /// The frame; it fits into one cell.
    #[inline(always)]
    #[must_use]
    pub const fn frame(&self) -> Frame<'_> {
        Frame::Call { op: READ, token: self.token, body: &self.body }
    }
}

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
    /// `None` if it is otherwise, or a table is full; nothing was asked, so `get`.
    #[inline(always)]
    pub fn get_now(&mut self, get: &Get) -> Option<Question> {
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
        if self.pieces.len() == self.pieces.capacity() {
            return None;
        }
        let request = self.requests.begin(Waiting::under_way(get, region), get.deadline).ok()?;
        let slot = server.free.trailing_zeros() as u8;
        let id = self.pieces.take(Piece { request, link, slot, kind: Kind::Read { at: 0, len } }).ok()?;
        server.free &= server.free - 1;
        let transfer = Transfer {
            span: Span { key: region.key, offset, len },
            incarnation: region.incarnation,
            landing: server.in_segment.then(|| u64::from(slot) * server.slot_bytes),
        };
        Some(Question { request, token: Token(id.to_bits()), body: transfer.to_bytes() })
    }

    /// The answer to a piece that is a whole read, whose bytes have landed; `None` if it is another answer.
    #[inline(always)]
    pub(super) fn on_whole<'f>(&mut self, asked: &Asked, status: Status, body: &[u8]) -> Option<Delivery<'f>> {
        let Asked { request, link, slot, len, .. } = *asked;
        let server = self.servers.as_ref().get(link.index()).filter(|server| server.in_segment)?;
        let reach = Reach::parse(body).ok().filter(|_| status == Status::Ok)?;
        let Ok(waiting) = self.requests.get(request) else { return None };
        if !waiting.is_whole(len) {
            return None;
        }
        let tag = waiting.tag;
        self.requests.end(request).ok()?;
        let bytes = Bytes::Landed(Landed { link, offset: u64::from(slot) * server.slot_bytes, len, slot });
        Some(Delivery { request, tag, at: 0, bytes, reach, last: true })
    }
}
