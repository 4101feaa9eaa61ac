//! The children of a call, in the call's own memory.

use super::context::NO_KID;
use super::layout::Layout;
use super::list::List;
use crate::time::Time;
use crate::tree::{Piece, Shape};

/// What is known of a child, or to be done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Stand {
    /// The request is to be sent.
    ToSend = 0,
    /// A question is to be sent.
    ToAsk = 1,
    /// A cancellation is to be sent.
    ToCancel = 2,
    /// Asked.
    Sent = 3,
    /// It had no room; it is asked again on its credit, or in time.
    Busy = 4,
    /// Asked, and it has said that it knows of the call.
    Heard = 5,
    /// Its answer waits for the callback.
    Parked = 6,
    /// It lives here and has a place, so it needs no message.
    Home = 7,
    /// Dealt with.
    Over = 8,
    /// Never asked, and will not be: nobody in its subtree is.
    Dropped = 9,
}

impl Stand {
    const fn from_code(code: u8) -> Stand {
        match code {
            0 => Stand::ToSend,
            1 => Stand::ToAsk,
            2 => Stand::ToCancel,
            3 => Stand::Sent,
            4 => Stand::Busy,
            5 => Stand::Heard,
            6 => Stand::Parked,
            7 => Stand::Home,
            9 => Stand::Dropped,
            _ => Stand::Over,
        }
    }

    /// Whether a message to the child is due.
    pub(super) const fn is_due(self) -> bool {
        matches!(self, Stand::ToSend | Stand::ToAsk | Stand::ToCancel)
    }
}

/// A child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kid {
    pub(super) piece: Piece,
    pub(super) stand: Stand,
    /// Requests sent to it, at most 255.
    pub(super) attempts: u8,
    /// The next parked one.
    pub(super) next: u16,
    pub(super) reply_header: u16,
    pub(super) reply_data: u32,
    /// When something was last heard of it, or it was first asked.
    pub(super) heard: Time,
    /// Whether it ever said that it has no room.
    pub(super) refused: bool,
    /// Of its requests the first so many found no room on their way, and were dropped.
    pub(super) unsent: u8,
    /// Its own place here, if it is at [home](Stand::Home).
    pub(super) place: u32,
}

impl Kid {
    pub(super) const fn new(piece: Piece) -> Kid {
        Kid {
            piece,
            stand: Stand::ToSend,
            attempts: 0,
            next: NO_KID,
            reply_header: 0,
            reply_data: 0,
            heard: Time::ZERO,
            refused: false,
            unsent: 0,
            place: 0,
        }
    }

    /// Whether none of its requests is on its way or was: it knows nothing of the call.
    pub(super) const fn is_unasked(&self) -> bool {
        self.attempts == self.unsent
    }

    /// The last request to it was dropped.
    pub(super) const fn unsend(self) -> Kid {
        // The highest number is that of all requests from then on.
        let is_next = self.attempts < u8::MAX && self.unsent + 1 == self.attempts;
        Kid { unsent: if is_next { self.attempts } else { self.unsent }, ..self }
    }

    /// Whether its answer is still to come.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.stand, Stand::Parked | Stand::Over | Stand::Dropped)
    }

    /// Whether nothing of it is to come or to be combined.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stand, Stand::Over | Stand::Dropped)
    }

    fn to_words(self) -> [u64; 4] {
        let Kid { piece, stand, attempts, next, reply_header, reply_data, heard, refused, unsent, place } = self;
        [
            u64::from(piece.start) | u64::from(piece.len) << 32,
            stand as u64 | u64::from(attempts) << 8 | u64::from(next) << 16 | u64::from(reply_data) << 32,
            heard.0,
            u64::from(reply_header) | u64::from(refused) << 16 | u64::from(unsent) << 24 | u64::from(place) << 32,
        ]
    }

    pub(super) const fn from_words([a, b, heard, c]: [u64; 4]) -> Kid {
        Kid {
            piece: Piece { start: a as u32, len: (a >> 32) as u32 },
            stand: Stand::from_code(b as u8),
            attempts: (b >> 8) as u8,
            next: (b >> 16) as u16,
            reply_data: (b >> 32) as u32,
            heard: Time(heard),
            reply_header: c as u16,
            refused: c >> 16 & 1 != 0,
            unsent: (c >> 24) as u8,
            place: (c >> 32) as u32,
        }
    }
}

/// The children of a context, in its memory.
pub(super) struct Kids<'a>(&'a mut [[u64; 4]]);

impl<'a> Kids<'a> {
    pub(super) fn of(layout: &Layout, memory: &'a mut [u64]) -> Kids<'a> {
        let range = layout.kids_range();
        let words = memory.get_mut(range.start / 8..range.end / 8).unwrap_or(&mut []);
        Kids(words.as_chunks_mut::<4>().0)
    }

    /// The words of each of them.
    pub(super) fn words<'b>(layout: &Layout, memory: &'b [u64]) -> &'b [[u64; 4]] {
        let range = layout.kids_range();
        memory.get(range.start / 8..range.end / 8).unwrap_or(&[]).as_chunks::<4>().0
    }

    #[inline]
    pub(super) fn get(&self, at: u16) -> Option<Kid> {
        self.0.get(usize::from(at)).map(|&words| Kid::from_words(words))
    }

    #[inline]
    pub(super) fn set(&mut self, at: u16, kid: Kid) {
        if let Some(words) = self.0.get_mut(usize::from(at)) {
            *words = kid.to_words();
        }
    }

    /// Writes down children that have these pieces, of whom none has been asked.
    #[inline]
    pub(super) fn fill(&mut self, pieces: impl Iterator<Item = Piece>) {
        for (words, piece) in self.0.iter_mut().zip(pieces) {
            *words = Kid::new(piece).to_words();
        }
    }

    /// Whether no child was asked anything yet, or dropped.
    pub(super) fn are_fresh(&self) -> bool {
        // The lowest two bytes are stand and attempts.
        self.0.iter().all(|words| words[1] & 0xffff == Stand::ToSend as u64)
    }

    /// All children, which are [fresh](Self::are_fresh), count as dealt with.
    pub(super) fn dismiss(&mut self) {
        self.0.iter_mut().for_each(|words| words[1] |= Stand::Over as u64);
    }

    pub(super) fn len(&self) -> u16 {
        self.0.len() as u16
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, Kid)> + '_ {
        (0..).zip(self.0.iter().map(|&words| Kid::from_words(words)))
    }

    pub(super) fn update(&mut self, mut change: impl FnMut(u16, Kid) -> Option<Kid>) {
        for at in 0..self.len() {
            if let Some(changed) = self.get(at).and_then(|kid| change(at, kid)) {
                self.set(at, changed);
            }
        }
    }
}

/// The pieces of the children of whoever stands first in a list; they end early where stated sizes contradict it.
pub(super) fn pieces<'a>(shape: Shape, list: List<'a>) -> impl Iterator<Item = Piece> + use<'a> {
    let sizes = list.is_stated().then_some(move |at| list.size(at));
    pieces_by(shape, list.len(), sizes)
}

/// The same of a list of so many, whose stated sizes, if it has some, are asked for in their order.
pub(super) fn pieces_by<F: FnMut(u32) -> Option<u32>>(
    shape: Shape,
    len: u32,
    mut sizes: Option<F>,
) -> impl Iterator<Item = Piece> {
    let mut split = shape.split(len);
    let mut at = 1;
    core::iter::from_fn(move || {
        let Some(size_of) = &mut sizes else { return split.next() };
        if at >= len {
            return None;
        }
        let size = size_of(at).filter(|&size| size > 0 && size <= len - at)?;
        let piece = Piece { start: at, len: size };
        at += size;
        Some(piece)
    })
}
