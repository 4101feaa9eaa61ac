//! What goes out next, and over which link.

use super::request::Kind;
use super::{Ended, Get, Piece, Place, ReadError, Reader, Server, Waiting};
use crate::access::message::{LOCATE, Locate, READ, Transfer};
use crate::error::Status;
use crate::key::Span;
use crate::machine::{Action, Link};
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
    #[inline]
    pub(super) fn send(&mut self, buffer: &mut [u8]) -> Option<Action<Ended>> {
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

    #[inline]
    fn send_over(&mut self, link: Link, buffer: &mut [u8]) -> Option<usize> {
        loop {
            let server = self.servers.as_ref().get(link.index())?;
            let request = server.waiting.first()?;
            if server.free == 0 {
                return None;
            }
            let (slot, slot_bytes, in_segment) =
                (server.free.trailing_zeros() as u8, server.slot_bytes, server.in_segment);
            let waiting = self.requests.get_mut(request).ok()?;
            let Get { owner, address, len, .. } = waiting.get;
            if waiting.region.is_none() {
                waiting.region = self.known.find(owner, address);
            }
            let Some(region) = waiting.region else {
                let asked = self.pieces.iter().any(|(_, p)| p.link == link && p.locates(owner));
                if asked {
                    self.park(request, link);
                    continue;
                }
                let kind = Kind::Locate { owner, address };
                let id = self.pieces.take(Piece { request, link, slot, kind }).ok()?;
                self.take(link, slot);
                self.park(request, link);
                let body = Locate { owner, address }.to_bytes();
                return Frame::Call { op: LOCATE, token: Token(id.to_bits()), body: &body }.emit(buffer).ok();
            };
            let offset = address.wrapping_sub(region.base);
            if offset > region.len || len > region.len - offset {
                self.end(request, Err(ReadError::Refused(Status::OutOfBounds)));
                continue;
            }
            let at = waiting.issued;
            let piece_len = (len - at).min(slot_bytes);
            let kind = Kind::Read { at, len: piece_len };
            let id = self.pieces.take(Piece { request, link, slot, kind }).ok()?;
            let done = waiting.issue(piece_len);
            if done {
                self.unlist(request);
            }
            self.take(link, slot);
            let transfer = Transfer {
                span: Span { key: region.key, offset: offset + at, len: piece_len },
                incarnation: region.incarnation,
                landing: in_segment.then(|| u64::from(slot) * slot_bytes),
            };
            return Frame::Call { op: READ, token: Token(id.to_bits()), body: &transfer.to_bytes() }.emit(buffer).ok();
        }
    }
}
