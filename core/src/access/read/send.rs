//! What goes out next, and over which link.

use super::lists;
use super::request::Kind;
use super::{Ended, Piece, Place, ReadError, Reader, Server, Waiting};
use crate::access::message::{LOCATE, Locate, READ, Transfer};
use crate::error::Status;
use crate::id::Id;
use crate::key::Span;
use crate::machine::{Action, Link};
use crate::peer::Peer;
use crate::pending::Request;
use crate::region::Region;
use crate::slots::Slot;
use crate::wire::{Frame, Token};

impl<R, P, K, L> Reader<R, P, K, L>
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
    P: AsRef<[Slot<Piece>]> + AsMut<[Slot<Piece>]>,
    K: AsRef<[Place]> + AsMut<[Place]>,
    L: AsRef<[Server]> + AsMut<[Server]>,
{
    /// The next frame over the links in turn; notes when there is none, so that the next poll costs nothing.
    #[inline(always)]
    pub(super) fn send(&mut self, buffer: &mut [u8]) -> Option<Action<Ended>> {
        // Nearly always somebody asked the link whose turn it is for what is known: no loop keeps anything for later.
        let link = Link(self.turn);
        match self.ask(link, buffer) {
            Some(len_bytes) => Some(Action::Send { link, len_bytes }),
            None => self.send_in_turn(buffer),
        }
    }

    #[inline(never)]
    fn send_in_turn(&mut self, buffer: &mut [u8]) -> Option<Action<Ended>> {
        let links = u32::try_from(self.servers.as_ref().len()).unwrap_or(u32::MAX);
        for _ in 0..links {
            if self.turn >= links {
                self.turn = 0;
            }
            let link = Link(self.turn);
            if let Some(len_bytes) = self.send_over(link, buffer) {
                return Some(Action::Send { link, len_bytes });
            }
            self.turn += 1;
        }
        // Nothing can be sent before a slot is freed, a location arrives or somebody asks.
        self.busy = false;
        match self.ended.is_empty() {
            true => None,
            false => self.poll(buffer),
        }
    }

    fn send_over(&mut self, link: Link, buffer: &mut [u8]) -> Option<usize> {
        loop {
            if let Some(len_bytes) = self.ask(link, buffer) {
                return Some(len_bytes);
            }
            let server = self.servers.as_ref().get(link.index())?;
            let request = server.waiting.first()?;
            if server.free == 0 {
                return None;
            }
            let waiting = self.requests.get(request).ok()?;
            let Waiting { owner, address, len, .. } = *waiting;
            let may_be_outdated = waiting.may_be_outdated();
            match waiting.region.or_else(|| self.known.find(owner, address)) {
                // Every piece is under way.
                Some(region) if offset_in(&region, address, len).is_some() => return None,
                // Its owner may have exported more since: nobody was asked.
                Some(region) if may_be_outdated => self.known.forget(|known| *known == region),
                Some(_) => self.end(request, Err(ReadError::Refused(Status::OutOfBounds))),
                None if self.is_asked(link, owner) => self.park(request, link),
                None => return self.locate(link, request, Locate { owner, address }, buffer),
            }
        }
    }

    /// Asks for the next piece of the first request of a link, if the link has a free slot and the region that has all
    /// the bytes is known.
    #[inline(always)]
    fn ask(&mut self, link: Link, buffer: &mut [u8]) -> Option<usize> {
        let server = self.servers.as_mut().get_mut(link.index())?;
        let request = server.waiting.first()?;
        if server.free == 0 {
            return None;
        }
        let waiting = self.requests.get_mut(request).ok()?;
        let Waiting { owner, address, len, .. } = *waiting;
        let region = waiting.region.or_else(|| self.known.find(owner, address))?;
        let offset = offset_in(&region, address, len)?;
        let slot = server.free.trailing_zeros() as u8;
        let at = waiting.issued;
        let piece_len = (len - at).min(server.slot_bytes);
        let kind = Kind::Read { at, len: piece_len };
        let id = self.pieces.take(Piece { request, link, slot, kind }).ok()?;
        let transfer = Transfer {
            span: Span { key: region.key, offset: offset + at, len: piece_len },
            incarnation: region.incarnation,
            landing: server.in_segment.then(|| u64::from(slot) * server.slot_bytes),
        };
        server.free &= !(1 << slot);
        waiting.region = Some(region);
        if waiting.issue(piece_len) {
            lists::pop(&mut server.waiting, &mut self.requests);
            self.waits -= 1;
            self.busy = self.waits > 0;
        }
        Frame::Call { op: READ, token: Token(id.to_bits()), body: &transfer.to_bytes() }.emit(buffer).ok()
    }

    /// Whether somebody asks already where the memory of a process is.
    #[cold]
    fn is_asked(&self, link: Link, owner: Peer) -> bool {
        self.pieces.iter().any(|(_, piece)| piece.link == link && piece.locates(owner))
    }

    /// Asks where the memory of a request is; the link has a free slot.
    #[cold]
    fn locate(&mut self, link: Link, request: Id<Waiting>, question: Locate, buffer: &mut [u8]) -> Option<usize> {
        let server = self.servers.as_mut().get_mut(link.index())?;
        let slot = server.free.trailing_zeros() as u8;
        let Locate { owner, address } = question;
        let id = self.pieces.take(Piece { request, link, slot, kind: Kind::Locate { owner, address } }).ok()?;
        server.free &= !(1 << slot);
        self.park(request, link);
        Frame::Call { op: LOCATE, token: Token(id.to_bits()), body: &question.to_bytes() }.emit(buffer).ok()
    }
}

/// Where in a region the bytes begin, if it has them all.
#[inline(always)]
pub(super) fn offset_in(region: &Region, address: u64, len: u64) -> Option<u64> {
    let offset = address.wrapping_sub(region.base);
    (offset <= region.len && len <= region.len - offset).then_some(offset)
}
