//! Where members of chained calls meet: a seat and an inbox each, in one segment.
//!
//! ```text
//! header   magic, members, messages of an inbox, bytes of a message, bytes to offer data in, number of the first
//!          member, members on all hosts, first life of every seat, how often seats were taken and left, 7 zero
//! seats    for each member on all hosts 16 words: the process that sits there, its life, and whose inbox is its own; of the first
//!          in each place, one more than the number of the machine, or zero
//! inboxes  for each member here a channel; only its owner receives
//! offers   if there are bytes to offer data in: for each member here a table and these bytes; only that one writes
//! replies  the same once more for each, for long replies that are to be read
//! ```
//!
//! A meeting place can be one of several that are joined ([`border`](super::border)): then members on other hosts have
//! a seat here, too, which whoever joins the places takes for them, and what is sent to them goes to the inbox of the
//! first member.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::chain::{Life, Node};
use umbra_core::channel::{self, Form, Messages, ShapeError};
use umbra_core::crew::Identity;

use super::offer::{OFFERS, Slot, Table};
use super::shape::{self, LINE, SEAT_BITS, Shape};
use crate::sys::process::ProcessId;
use crate::sys::segment::{Mapping, Segment, SegmentError};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrcal9");
/// Lives that a place begins in a second; those that it has had when another one takes its seat are numbered lower.
const LIVES: u128 = 16;
/// Lives that follow each other and have a number each. With one more, the highest number would be a member's: in an inbox
/// it is nobody's.
const LIVES_TOLD: u32 = (1 << (u16::BITS - SEAT_BITS)) - 1;
/// Where in the header it says how often seats were taken and left.
const CHANGES: usize = 8;

/// Why there is no meeting place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// The segment.
    #[error("meeting place of calls: {0}")]
    Segment(#[from] SegmentError),
    /// The segment is something else, or contradicts itself.
    #[error("segment is no meeting place of calls: take the descriptor that its maker shared")]
    NotStation,
    /// The inboxes cannot be so large.
    #[error("inboxes of calls: {0}")]
    Shape(ShapeError),
    /// An inbox is damaged, or cannot be made.
    #[error("inbox of calls: {0}")]
    Inbox(channel::AttachError),
    /// More seats than there can be, and how many there can be.
    #[error("{0} members, at most {1} can meet")]
    TooMany(u32, u32),
    /// More bytes to offer data in than there can be.
    #[error("{0} bytes for each member to offer data in, at most 64 GiB are taken")]
    TooLarge(u64),
    /// There is no such member.
    #[error("there is no seat for member {0}")]
    NoSeat(Node),
}

/// A meeting place; copies are cheap.
#[derive(Clone, Debug)]
pub struct Station {
    segment: Arc<Segment>,
    shape: Shape,
    /// What all inboxes look like.
    inbox: Form,
    first_life: Life,
}

impl Station {
    /// Makes a meeting place with empty seats; `name` is only shown in `/proc/PID/maps`.
    ///
    /// # Errors
    /// [`StationError`].
    pub fn create(name: &str, shape: Shape) -> Result<Station, StationError> {
        let words = shape.checked()?.words().map_err(StationError::Shape)?;
        // Whoever made this place before on this host, and died, may be remembered elsewhere.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first_life = Life(((since.as_nanos() * LIVES / 1_000_000_000) as u32).max(1));
        let inbox = Form::of(shape.inbox()).map_err(StationError::Shape)?;
        let station = Station { segment: Arc::new(Segment::create(name, words * 8)?), shape, inbox, first_life };
        for node in shape.here() {
            Messages::create_in_zeros(station.memory_of(node)?, shape.inbox()).map_err(StationError::Inbox)?;
        }
        let (members, messages, bytes) = (shape.members.into(), shape.messages.into(), shape.message_bytes.into());
        let joined = [shape.first.into(), shape.all.into(), first_life.0.into()];
        for (at, value) in [members, messages, bytes, shape.offer_bytes].into_iter().chain(joined).enumerate() {
            station.segment.word((at + 1) * 8)?.store(value, Ordering::Relaxed);
        }
        // ORDERING: pairs with the load in `attach`.
        station.segment.word(0)?.store(MAGIC, Ordering::Release);
        Ok(station)
    }

    /// Comes to a meeting place that another process made and [shared](Self::share).
    ///
    /// # Errors
    /// [`StationError`].
    pub fn attach(descriptor: OwnedFd) -> Result<Station, StationError> {
        let size = rustix::fs::fstat(&descriptor).map_err(SegmentError::Descriptor)?.st_size;
        let len = usize::try_from(size).map_err(|_| StationError::NotStation)?;
        let segment = Segment::attach(descriptor, Mapping::ReadWrite, len)?;
        // ORDERING: pairs with the store in `create`.
        if segment.word(0)?.load(Ordering::Acquire) != MAGIC {
            return Err(StationError::NotStation);
        }
        let stated = |at: usize| Ok::<u64, SegmentError>(segment.word(at * 8)?.load(Ordering::Relaxed));
        let shape = Shape {
            members: u16::try_from(stated(1)?).map_err(|_| StationError::NotStation)?,
            first: u32::try_from(stated(5)?).map_err(|_| StationError::NotStation)?,
            all: u32::try_from(stated(6)?).map_err(|_| StationError::NotStation)?,
            messages: u32::try_from(stated(2)?).map_err(|_| StationError::NotStation)?,
            message_bytes: u32::try_from(stated(3)?).map_err(|_| StationError::NotStation)?,
            offer_bytes: stated(4)?,
        };
        if shape.checked()?.words().map_err(StationError::Shape)?.checked_mul(8).is_none_or(|bytes| bytes > len) {
            return Err(StationError::NotStation);
        }
        let first_life = Life((stated(7)? as u32).max(1));
        let inbox = Form::of(shape.inbox()).map_err(StationError::Shape)?;
        Ok(Station { segment: Arc::new(segment), shape, inbox, first_life })
    }

    /// A descriptor by which another process can [attach](Self::attach).
    ///
    /// # Errors
    /// [`StationError::Segment`] if no descriptor is left.
    pub fn share(&self) -> Result<OwnedFd, StationError> {
        Ok(self.segment.share()?)
    }

    /// What it has room for.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The life of whoever is the first to sit anywhere here.
    pub(super) const fn first_life(&self) -> Life {
        self.first_life
    }

    /// The lives from one on that were before another, as far as they have numbers which the other has not.
    pub(super) fn lives(from: Life, before: Life) -> impl Iterator<Item = Life> {
        let count = if before.is_after(from) { before.0.wrapping_sub(from.0) } else { 0 };
        (1..=count.min(LIVES_TOLD - 1)).rev().map(move |back| Life(before.0.wrapping_sub(back)))
    }

    /// By which number one life of a member here is known in inboxes: another life must not be taken for a dead one.
    pub(super) const fn number(&self, node: Node, life: Life) -> u16 {
        ((life.0 % LIVES_TOLD) as u16) << SEAT_BITS | node.0.wrapping_sub(self.shape.first) as u16
    }

    /// The how-manieth of those here a member is.
    fn at(&self, node: Node) -> Result<usize, StationError> {
        let at = self.shape.is_here(node).then(|| node.0 - self.shape.first);
        at.map(|at| at as usize).ok_or(StationError::NoSeat(node))
    }

    /// The memory of the inbox of a member.
    #[inline]
    fn memory_of(&self, node: Node) -> Result<BytesMut<'_>, StationError> {
        let len = shape::in_lines(self.inbox.words());
        let at = self.shape.inboxes_at() + self.at(node)? * len;
        self.segment.bytes_mut()?.part(at * 8, len * 8).map_err(|_| StationError::NotStation)
    }

    /// The inbox of a member.
    #[inline]
    pub(super) fn inbox(&self, node: Node) -> Result<Messages<'_>, StationError> {
        Messages::attach_in(self.memory_of(node)?, &self.inbox).map_err(StationError::Inbox)
    }

    /// Where a table of a member begins.
    fn offers_at(&self, node: Node, table: Table) -> Result<usize, StationError> {
        let (words, at) = (self.shape.offer_words(), self.at(node)?);
        let area = if table == Table::Replies { usize::from(self.shape.members) + at } else { at };
        if words == 0 || area >= self.shape.offer_areas() {
            return Err(StationError::NoSeat(node));
        }
        Ok(self.shape.offers_at().map_err(StationError::Shape)? + area * words)
    }

    /// A line of such a table.
    pub(super) fn offer(&self, node: Node, table: Table, at: usize) -> Result<Slot<'_>, StationError> {
        match self.segment.words((self.offers_at(node, table)? + at.min(OFFERS - 1) * LINE) * 8, 5)? {
            [serial, offset, len, done, reader] => Ok(Slot { serial, offset, len, done, reader }),
            _ => Err(StationError::NotStation),
        }
    }

    /// The memory of what is in such a table.
    pub(super) fn offered(&self, node: Node, table: Table) -> Result<BytesMut<'_>, StationError> {
        let at = self.offers_at(node, table)? + OFFERS * LINE;
        let len = self.shape.offer_words() - OFFERS * LINE;
        self.segment.bytes_mut()?.part(at * 8, len * 8).map_err(|_| StationError::NotStation)
    }

    /// The seat of a member.
    pub(super) fn seat(&self, node: Node) -> Result<Seat<'_>, StationError> {
        let at = self.shape.seats_at() + node.index() * LINE;
        if node.0 >= self.shape.all {
            return Err(StationError::NoSeat(node));
        }
        let changes = self.segment.word(CHANGES * 8)?;
        match self.segment.words(at * 8, 3)? {
            [process, life, home] => Ok(Seat { process, life, home, changes, first: self.first_life }),
            _ => Err(StationError::NotStation),
        }
    }

    /// A word that says on which machine a place is.
    pub(super) fn machine_word(&self, place: u32) -> Result<&AtomicU64, StationError> {
        let first = Node(place.saturating_mul(self.shape.members.into()));
        if first.0 >= self.shape.all {
            return Err(StationError::NoSeat(first));
        }
        // Of the seat of its first member.
        Ok(self.segment.word((self.shape.seats_at() + first.index() * LINE + 3) * 8)?)
    }

    /// How often seats were taken and left; whoever is killed leaves none.
    pub(super) fn changes(&self) -> u64 {
        // ORDERING: pairs with the additions of seats: whoever sees one sees what was changed.
        self.segment.word(CHANGES * 8).map_or(0, |changes| changes.load(Ordering::Acquire))
    }
}

/// Who sits where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<'a> {
    /// Pid and start in one word, so that whoever has won the seat is known at once. Zero: nobody.
    process: &'a AtomicU64,
    life: &'a AtomicU64,
    home: &'a AtomicU64,
    changes: &'a AtomicU64,
    /// The life of whoever is the first to sit here.
    first: Life,
}

/// Who sits there, and in which life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sitter {
    pub(super) life: Life,
    /// In whose inbox messages for it go.
    pub(super) home: Node,
    /// `None`: it has left.
    pub(super) process: Option<Identity>,
}

impl Seat<'_> {
    /// Who sits there now.
    pub(super) fn sitter(self) -> Sitter {
        // ORDERING: pairs with the store in `take`: whoever sees a life sees the process that began it, or a later one.
        let life = Life(self.life.load(Ordering::Acquire) as u32);
        let home = Node(self.home.load(Ordering::Acquire) as u32);
        let process = self.process.load(Ordering::Acquire);
        Sitter { life, home, process: (process != 0).then(|| Identity::from_bits(process)) }
    }

    /// Elects who sits down: not this process if somebody else sits there by now than was `seen`.
    pub(super) fn wins(self, seen: Sitter, process: ProcessId) -> bool {
        let before = seen.process.map_or(0, Identity::to_bits);
        let mine = Identity::from(process).to_bits();
        // ORDERING: acquire pairs with the store in `leave`; what others look at is published by the life.
        self.process.compare_exchange(before, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Sits down at this home, if this process [wins](Self::wins); the life that begins.
    pub(super) fn take(self, seen: Sitter, process: ProcessId, home: Node) -> Option<Life> {
        if !self.wins(seen, process) {
            return None;
        }
        // Somebody may have come and left since the seat was seen. Now nobody else begins a life there.
        let last = Life(self.life.load(Ordering::Acquire) as u32);
        self.home.store(u64::from(home.0), Ordering::Release);
        // Zero is no life.
        let life = if last == Life(0) { self.first } else { Life(last.0.wrapping_add(1).max(1)) };
        self.life.store(u64::from(life.0), Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
        Some(life)
    }

    /// Stands up, if this process sits there: a child that was forked off does not take the seat of its parent.
    pub(super) fn leave(self) {
        // A process that cannot say who it is leaves the seat to whoever finds that it has ended.
        let Ok(process) = ProcessId::current() else { return };
        let mine = Identity::from(process).to_bits();
        if self.process.compare_exchange(mine, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Member;
    use super::*;

    #[test]
    fn memory_for_offers_and_replies_takes_none_before_it_is_used() {
        const PAGE: usize = 4096;
        let shape = Shape { messages: 16, offer_bytes: 1 << 20, ..Shape::new(64) };
        let station = Station::create("station", shape).unwrap();
        let (from, to) = (shape.offers_at().unwrap() * 8, shape.words().unwrap() * 8);
        assert_eq!(to - from, 2 * 64 * (OFFERS * LINE * 8 + (1 << 20)));
        // The first page may be that of an inbox as well.
        let first = from.next_multiple_of(PAGE);
        let held = || station.segment.held(first, to - first);
        let mut members: Vec<Member> = shape.here().map(|node| Member::join(&station, node).unwrap()).collect();
        assert_eq!(held(), 0);
        let offer = members[1].offer(&[1; 10 * PAGE]).unwrap();
        assert!((10..=13).contains(&(held() / PAGE as u64)), "{}", held());
        members[1].take_back(offer);
    }

    #[test]
    fn inboxes_that_nobody_has_used_take_hardly_any_memory_also_when_somebody_has_left() {
        let shape = Shape { messages: 16, message_bytes: 8 << 10, ..Shape::new(200) };
        let station = Station::create("station", shape).unwrap();
        let all = shape.words().unwrap() * 8;
        let is_little = |held: u64| assert!(held > 0 && held * 100 < all as u64, "{held} of {all} bytes");
        is_little(station.segment.held(0, all));
        let mut first = Member::join(&station, Node(0)).unwrap();
        (2..150).for_each(|node| first.house(Node(node)).unwrap());
        let second = Member::join(&station, Node(1)).unwrap();
        assert_eq!(first.sees(&[Node(1)]), None);
        drop(second);
        assert_eq!(first.sees(&[Node(1)]), Some(Node(1)));
        is_little(station.segment.held(0, all));
    }
}
