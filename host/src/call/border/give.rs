//! Data that members here offer, given to other places piece by piece.
//!
//! A place asks for pieces and is given each in frames of the length of a message, in the order in which it asked, as the
//! link takes them; so no more than a few pieces are ever on their way, and nothing is kept here. What was taken back meanwhile is said
//! to be gone.

use std::collections::VecDeque;

use umbra_core::chain::Node;
use umbra_core::key::Span;

use super::super::offer::{look_as, release};
use super::super::station::Station;
use super::landing::{PIECE, WINDOW};

/// Pieces that a place may have asked for at once, short ones and those of calls given up since included.
const PIECES: usize = 1024;

/// What is left of a piece that a place has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    place: u32,
    serial: u32,
    span: Span,
    /// With it all of a reply has gone, which nobody else reads.
    is_last: bool,
}

/// What other places have asked for.
#[derive(Debug, Default)]
pub(super) struct Give {
    pieces: VecDeque<Piece>,
    /// All of it waits for links that are full.
    is_stalled: bool,
    bytes: u64,
}

impl Give {
    /// Bytes that were given.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether anything can be given now.
    pub(super) fn is_idle(&self) -> bool {
        self.pieces.is_empty() || self.is_stalled
    }

    /// Whether links are waited for.
    pub(super) const fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// A place asks for a piece; false if it has asked for more than it may.
    pub(super) fn ask(&mut self, place: u32, serial: u32, span: Span, is_last: bool) -> bool {
        let open = self.pieces.iter().filter(|piece| piece.place == place);
        let (count, bytes) = open.fold((0, 0), |(count, bytes), piece| (count + 1, bytes + piece.span.len));
        let is_sound = count < PIECES && (1..=PIECE).contains(&span.len) && bytes + span.len <= WINDOW;
        if is_sound {
            self.pieces.push_back(Piece { place, serial, span, is_last });
            self.is_stalled = false;
        }
        is_sound
    }

    /// The way to a place is lost.
    pub(super) fn part(&mut self, place: u32) {
        self.pieces.retain(|piece| piece.place != place);
    }

    /// The next bytes for a place whose link has room: place, number, how many that were asked for do not come, and how many
    /// are at the front of `to`.
    pub(super) fn next(
        &mut self,
        station: &Station,
        has_room: impl Fn(u32) -> bool,
        to: &mut [u8],
    ) -> Option<(u32, u32, u32, usize)> {
        let at = self.pieces.iter().position(|piece| has_room(piece.place));
        self.is_stalled = at.is_none() && !self.pieces.is_empty();
        let at = at?;
        let Piece { place, serial, span, is_last } = *self.pieces.get(at)?;
        let part = Span { len: span.len.min(to.len() as u64), ..span };
        let into = to.get_mut(..part.len as usize)?;
        let (mut reader, shape) = (None, station.shape());
        let may = |one: Option<Node>| {
            reader = one;
            // A reply is nobody else's.
            one.is_none_or(|one| shape.place(one) == place)
        };
        let read = look_as(station, part, may, |bytes| bytes.read(0, into));
        if !matches!(read, Ok(Ok(()))) {
            self.pieces.remove(at);
            return Some((place, serial, span.len as u32, 0));
        }
        self.bytes += part.len;
        let rest = Span { offset: span.offset + part.len, len: span.len - part.len, ..span };
        if rest.len == 0 {
            self.pieces.remove(at);
            if let Some(reader) = reader.filter(|_| is_last) {
                release(station, span, reader);
            }
        } else if let Some(piece) = self.pieces.get_mut(at) {
            piece.span = rest;
        }
        Some((place, serial, 0, part.len as usize))
    }
}
