//! Data of members elsewhere that is here or on its way, and who wants it.

use umbra_core::chain::{CallId, Life, Node};
use umbra_core::channel::Header;
use umbra_core::key::Span;
use umbra_core::time::Time;

use super::super::offer::{Offer, Shelf, Table};
use super::super::station::{Station, StationError};

/// Bytes that are asked for by one frame.
pub(super) const PIECE: u64 = 64 << 10;
/// Bytes that are asked of one place and have not come.
pub(super) const WINDOW: u64 = 4 * PIECE;

/// Where it lies: data of calls, and replies, which have one reader each.
#[derive(Debug)]
pub(super) struct Shelves {
    data: Shelf,
    replies: Shelf,
}

impl Shelves {
    pub(super) fn new(station: &Station, door: (Node, Life)) -> Result<Shelves, StationError> {
        let shelf = |table| Shelf::new(station, door, table);
        Ok(Shelves { data: shelf(Table::Offers)?, replies: shelf(Table::Replies)? })
    }

    /// The one for what this reader has, or anybody.
    pub(super) const fn of(&mut self, reader: Option<Node>) -> &mut Shelf {
        if reader.is_some() { &mut self.replies } else { &mut self.data }
    }
}

/// A request over fetched data that has no answer yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct User {
    pub(super) call: CallId,
    pub(super) from: Node,
    pub(super) to: Node,
    pub(super) until: Time,
}

impl User {
    /// Whether this is the same request.
    pub(super) fn is(&self, other: &User) -> bool {
        (self.call, self.from, self.to) == (other.call, other.from, other.to)
    }
}

/// Data that is here, or on its way.
#[derive(Debug)]
pub(super) struct Landing {
    /// By which number its pieces are asked for.
    pub(super) serial: u32,
    /// From where it comes.
    pub(super) place: u32,
    /// As it is called where its maker has laid it.
    pub(super) span: Span,
    pub(super) offer: Offer,
    /// It is the reply of an answer, which this member reads.
    pub(super) reader: Option<Node>,
    /// The way to its maker was lost: there other data may be called so by now.
    pub(super) is_cut_off: bool,
    pub(super) asked: u64,
    pub(super) come: u64,
    pub(super) users: Vec<User>,
    /// Requests that wait for it.
    pub(super) waiting: Vec<Waiting>,
}

impl Landing {
    /// Who has laid it out.
    pub(super) fn maker(&self) -> Node {
        Node(self.span.key.owner().to_bits())
    }

    /// Whether all of it has come.
    pub(super) const fn is_here(&self) -> bool {
        self.come == self.span.len
    }

    /// Bytes of the next piece to be asked for, where so many were asked of its place and have not come; zero: none now.
    pub(super) fn next(&self, asked: u64) -> u64 {
        let len = PIECE.min(self.span.len - self.asked);
        if asked + len <= WINDOW { len } else { 0 }
    }

    /// Whether a request is over this data: of the same name, where that names it still. A reply is for one answer alone.
    pub(super) fn is_for(&self, span: Span, reader: Option<Node>, user: &User) -> bool {
        let is_same = self.span == span && self.reader == reader && !self.is_cut_off;
        is_same && (reader.is_none() || self.users.iter().any(|other| user.is(other)))
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) user: User,
    pub(super) header: Header,
    pub(super) message: Vec<u8>,
}
