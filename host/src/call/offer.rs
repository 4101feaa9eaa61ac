//! Large data that lies with its maker: copied once, read there by many members.
//!
//! Every member has memory of its own for it in the station ([`Shape::offer_bytes`](super::Shape::offer_bytes)).
//! [`Member::offer`] copies data into it, a call carries the [span](Offer::data), and functions read where it lies
//! ([`Local::read`], [`Local::look`]): the tree moves 24 bytes, whatever it looks like. Its maker takes it back when
//! nobody needs it any more, usually after the call.
//!
//! ```
//! use umbra::call::{Member, Shape, Station};
//! use umbra_core::chain::{Call, Node, Tag, Verdict};
//!
//! let station = Station::create("example", Shape { offer_bytes: 1 << 20, ..Shape::new(1) })?;
//! let mut member = Member::join(&station, Node(0))?;
//! member.register_local("first", |work, local| {
//!     let mut first = [0; 5];
//!     let read = local.read(work.data, 0, &mut first);
//!     if read.is_ok() && &first == b"large" { Verdict::Done } else { Verdict::Fault(1) }
//! })?;
//! let offer = member.offer(b"large data")?;
//! let handle = member.start(&Call { data: offer.data(), ..Call::new(Tag::of("first"), &[]) })?;
//! assert_eq!(member.wait(handle, std::time::Duration::from_secs(1))?.members, 1);
//! member.take_back(offer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A reader may be at it still when the data is taken back, as after a call that failed elsewhere: it is told so after
//! it has read, and nothing that it read counts. Nobody counts readers, so one that dies holds nothing.
//!
//! ```text
//! table    32 offers of 128 bytes: serial, where it begins, its length; an odd serial: it is there; the serial of the
//!          last one that had one reader, which was done with it; and who that is
//! memory   what is offered
//! ```

use umbra_core::atomic::{AtomicU64, Ordering, fence};
use umbra_core::cell::{Bytes, CellError};
use umbra_core::chain::{Data, Life, Node};
use umbra_core::key::{Key, Span};
use umbra_core::memory::{AllocError, Block, Extent, Memory};
use umbra_core::peer::{Peer, WorldRank};

use super::forked::Forked;
use super::local::Local;
use super::member::Member;
use super::shape::LINE;
use super::station::{Station, StationError};

/// Offers of one member at once, and long replies.
pub(super) const OFFERS: usize = 32;

/// Which table of a member a line is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    /// What calls carry down: it stays until they end.
    Offers,
    /// What answers carry up: calls wait for it, so it has memory of its own, which it leaves as soon as it is read.
    Replies,
}

impl Table {
    /// How keys name a line of it.
    const fn region(self, slot: usize) -> u32 {
        match self {
            Table::Offers => slot as u32,
            Table::Replies => (OFFERS + slot) as u32,
        }
    }

    /// The line that a key names.
    fn of(key: Key) -> Option<(Table, usize)> {
        let at = key.region() as usize;
        if at < OFFERS {
            Some((Table::Offers, at))
        } else {
            Some((Table::Replies, at - OFFERS)).filter(|&(_, at)| at < OFFERS)
        }
    }
}

/// Whether a key names a place where this member lays replies out.
pub(super) fn is_reply_of(key: Key, node: Node) -> bool {
    Node(key.owner().to_bits()) == node && matches!(Table::of(key), Some((Table::Replies, _)))
}

/// Why data cannot be offered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// There is no memory for it, or not now.
    #[error("no memory to offer data in: {0}; give the station more of it, or take offers back")]
    Memory(#[from] AllocError),
    /// There are as many as there can be.
    #[error("{OFFERS} offers of this member are there: take one back")]
    TooMany,
    /// The station.
    #[error(transparent)]
    Station(#[from] StationError),
    /// The memory to offer it in is another process's.
    #[error(transparent)]
    Forked(#[from] Forked),
}

impl OfferError {
    /// Whether there may be room later.
    pub(super) const fn is_for_now(&self) -> bool {
        match self {
            OfferError::TooMany => true,
            OfferError::Memory(error) => !matches!(error, AllocError::TooLarge { .. } | AllocError::ZeroSize),
            OfferError::Station(_) | OfferError::Forked(_) => false,
        }
    }
}

/// Why offered data cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It came with the request.
    #[error("the data came with the request: read it there")]
    NotOffered,
    /// Its maker has taken it back, or is another one by now, or the way to the host where it lies was lost; what was read of
    /// it counts for nothing.
    #[error("the data was taken back by its maker, or its host was lost: its call is over")]
    Gone,
    /// It has fewer bytes.
    #[error(transparent)]
    Range(#[from] CellError),
    /// The station.
    #[error(transparent)]
    Station(#[from] StationError),
}

/// Data that a member offers; it stays until it is [taken back](Member::take_back), or its member leaves.
#[derive(Debug)]
#[must_use = "data stays until it is taken back"]
pub struct Offer {
    /// The number of the shelf that it lies on.
    shelf: u64,
    slot: usize,
    extent: Extent,
    span: Span,
}

impl Offer {
    /// What a call over it carries.
    #[must_use]
    pub const fn data(&self) -> Data<'static> {
        Data::Span(self.span)
    }

    /// A part of it, for a call of its own.
    #[must_use]
    pub fn part(&self, offset: u64, len: u64) -> Option<Data<'static>> {
        let end = offset.checked_add(len)?;
        (end <= self.span.len).then_some(Data::Span(Span { offset: self.span.offset + offset, len, ..self.span }))
    }

    /// Whether its reader has [released](release) it.
    pub(super) fn is_released(&self, station: &Station) -> bool {
        let Some((slot, serial)) = laid(station, self.span.key) else { return false };
        // ORDERING: pairs with the store in `release`: what is laid there later is not seen by whoever reads this.
        slot.done.load(Ordering::Acquire) == serial
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a> {
    pub(super) serial: &'a AtomicU64,
    pub(super) offset: &'a AtomicU64,
    pub(super) len: &'a AtomicU64,
    /// The serial number that its reader was done with.
    pub(super) done: &'a AtomicU64,
    /// Who alone reads it: one more than his number, or zero if anybody may.
    pub(super) reader: &'a AtomicU64,
}

/// The generation that a serial number has in keys.
const fn generation(serial: u64) -> u32 {
    (serial >> 1) as u32 & ((1 << Key::GENERATION_BITS) - 1)
}

/// The memory of a member that it offers data in, or that in which its long replies lie.
#[derive(Debug)]
pub(super) struct Shelf {
    /// No other one of this process has it.
    number: u64,
    node: Node,
    table: Table,
    memory: Memory<Vec<Block>>,
    taken: u32,
    /// Bytes that were copied in.
    pub(super) copied: u64,
}

impl Shelf {
    /// Takes the memory over as this life of the member, from an earlier one of whose offers none is there any more.
    pub(super) fn new(station: &Station, (node, life): (Node, Life), table: Table) -> Result<Shelf, StationError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bytes = station.shape().offer_bytes;
        // Whoever is the first does not touch it: looking takes memory as well.
        let is_fresh = bytes == 0 || life == station.first_life();
        for at in 0..if is_fresh { 0 } else { OFFERS } {
            station.offer(node, table, at)?.take_back();
        }
        // There are whole lines of it, so that all the bytes that were asked for can be had at once.
        let memory = Memory::new(vec![Block::default(); 2 * OFFERS + 1], bytes.next_multiple_of(8 * LINE as u64));
        Ok(Shelf { number: NEXT.fetch_add(1, Ordering::Relaxed), node, table, memory, taken: 0, copied: 0 })
    }

    /// Copies data to where others read it, or this one does.
    pub(super) fn offer(&mut self, station: &Station, bytes: &[u8], reader: Option<Node>) -> Result<Offer, OfferError> {
        let mut offer = self.reserve(bytes.len() as u64)?;
        let laid = self.fill(station, &offer, 0, bytes).and_then(|()| self.lay(station, &mut offer, reader));
        if let Err(error) = laid {
            self.take_back(station, &offer);
            return Err(error.into());
        }
        self.copied += bytes.len() as u64;
        Ok(offer)
    }

    /// Memory for so many bytes, which nobody sees before they are [laid](Self::lay).
    pub(super) fn reserve(&mut self, len: u64) -> Result<Offer, OfferError> {
        let slot = (!self.taken).trailing_zeros() as usize;
        if slot >= OFFERS {
            return Err(OfferError::TooMany);
        }
        let owner = Peer::rank(WorldRank(self.node.0)).ok_or(StationError::NoSeat(self.node))?;
        let extent = self.memory.alloc(len)?;
        self.taken |= 1 << slot;
        Ok(Offer {
            shelf: self.number,
            slot,
            extent,
            span: Span { key: Key::new(owner, self.table.region(slot), 0), offset: 0, len },
        })
    }

    /// Writes a part of such memory.
    pub(super) fn fill(&self, station: &Station, offer: &Offer, at: u64, bytes: &[u8]) -> Result<(), StationError> {
        let end = at.checked_add(bytes.len() as u64).filter(|&end| end <= offer.span.len);
        let start = end.and_then(|_| usize::try_from(offer.extent.offset + at).ok()).ok_or(StationError::NotStation)?;
        station.offered(self.node, self.table)?.write(start, bytes).map_err(|_| StationError::NotStation)
    }

    /// From now on it is read, by anybody or by this one.
    pub(super) fn lay(&self, station: &Station, offer: &mut Offer, reader: Option<Node>) -> Result<(), StationError> {
        let serial = station.offer(self.node, self.table, offer.slot)?.lay(offer.extent.offset, offer.span.len, reader);
        let key = offer.span.key;
        offer.span.key = Key::new(key.owner(), key.region(), generation(serial));
        Ok(())
    }

    pub(super) fn take_back(&mut self, station: &Station, offer: &Offer) {
        if offer.shelf != self.number {
            return;
        }
        if let Ok(slot) = station.offer(self.node, self.table, offer.slot) {
            slot.take_back();
        }
        self.taken &= !(1 << offer.slot);
        let freed = self.memory.free(offer.extent);
        debug_assert!(freed.is_ok(), "an offer is taken back once");
    }
}

impl Slot<'_> {
    fn lay(self, offset: u64, len: u64, reader: Option<Node>) -> u64 {
        self.reader.store(reader.map_or(0, |reader| u64::from(reader.0) + 1), Ordering::Relaxed);
        self.offset.store(offset, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        let serial = self.serial.load(Ordering::Relaxed) | 1;
        // ORDERING: pairs with the load in `serial_of`: whoever sees the serial number sees the data.
        self.serial.store(serial, Ordering::Release);
        serial
    }

    /// Who alone reads what lies there; `None` if anybody may.
    fn reader(self) -> Option<Node> {
        let reader = self.reader.load(Ordering::Relaxed).checked_sub(1)?;
        u32::try_from(reader).ok().map(Node)
    }

    /// Its serial number, if what lies there has this key.
    fn serial_of(self, key: Key) -> Option<u64> {
        // ORDERING: pairs with the store in `lay`.
        let serial = self.serial.load(Ordering::Acquire);
        (serial & 1 == 1 && generation(serial) == key.generation()).then_some(serial)
    }

    fn take_back(self) {
        let serial = self.serial.load(Ordering::Relaxed);
        if serial & 1 == 1 {
            self.serial.store(serial.wrapping_add(1), Ordering::Relaxed);
            // ORDERING: pairs with the fence in `look`: whoever sees data that is laid there later sees that this is gone.
            fence(Ordering::Release);
        }
    }
}

/// Where data of this key is laid, and its serial number, if it is there.
fn laid(station: &Station, key: Key) -> Option<(Slot<'_>, u64)> {
    let (table, at) = Table::of(key)?;
    let slot = station.offer(Node(key.owner().to_bits()), table, at).ok()?;
    Some((slot, slot.serial_of(key)?))
}

/// Has `act` look at offered data; what it made of it counts only if the data was there all the time.
///
/// # Errors
/// [`ReadError`]. On [`ReadError::Gone`] `act` may have seen anything.
pub fn look<R>(station: &Station, data: Data<'_>, act: impl FnOnce(Bytes<'_>) -> R) -> Result<R, ReadError> {
    let Data::Span(span) = data else { return Err(ReadError::NotOffered) };
    look_as(station, span, |reader| reader.is_none(), act)
}

/// The same for whoever `may` look at what is for this reader alone, or for anybody; else the data is gone.
pub(super) fn look_as<R>(
    station: &Station,
    span: Span,
    may: impl FnOnce(Option<Node>) -> bool,
    act: impl FnOnce(Bytes<'_>) -> R,
) -> Result<R, ReadError> {
    let node = Node(span.key.owner().to_bits());
    let (table, at) = Table::of(span.key).ok_or(ReadError::Gone)?;
    let shape = station.shape();
    // What lies on another host is here only as long as a border has fetched it, and then has another key.
    let is_elsewhere = node.0 < shape.all && !shape.is_here(node);
    if shape.offer_bytes == 0 || is_elsewhere {
        return Err(ReadError::Gone);
    }
    let slot = station.offer(node, table, at)?;
    let serial = slot.serial_of(span.key).ok_or(ReadError::Gone)?;
    if !may(slot.reader()) {
        return Err(ReadError::Gone);
    }
    let (offset, len) = (slot.offset.load(Ordering::Relaxed), slot.len.load(Ordering::Relaxed));
    let out = || CellError::OutOfRange { offset: span.offset as usize, len: span.len as usize, size: len as usize };
    let inside = span.offset.checked_add(span.len).is_some_and(|end| end <= len);
    let start = offset.checked_add(span.offset).filter(|_| inside).ok_or_else(out)?;
    let bytes = station.offered(node, table)?.read_only().part(start as usize, span.len as usize)?;
    let made = act(bytes);
    // ORDERING: pairs with the fence in `take_back`.
    fence(Ordering::Acquire);
    if slot.serial.load(Ordering::Relaxed) == serial { Ok(made) } else { Err(ReadError::Gone) }
}

/// Says that data is not needed any more, to the member that offers it to this reader alone.
pub(super) fn release(station: &Station, span: Span, reader: Node) {
    if let Some((slot, serial)) = laid(station, span.key).filter(|(slot, _)| slot.reader() == Some(reader)) {
        slot.done.store(serial, Ordering::Release);
    }
}

impl Local<'_> {
    /// Has `act` look at the data of a request where its maker has laid it, without a copy.
    ///
    /// # Errors
    /// [`ReadError`]. On [`ReadError::Gone`] `act` may have seen anything.
    pub fn look<R>(&self, data: Data<'_>, act: impl FnOnce(Bytes<'_>) -> R) -> Result<R, ReadError> {
        look(self.station, data, act)
    }

    /// Copies a part of such data out.
    ///
    /// # Errors
    /// [`ReadError`]; then `into` holds anything.
    pub fn read(&self, data: Data<'_>, offset: usize, into: &mut [u8]) -> Result<(), ReadError> {
        Ok(look(self.station, data, |bytes| bytes.read(offset, into))??)
    }
}

impl Member {
    /// Copies data to where the functions of others read it. Long replies of this member have memory of their own.
    ///
    /// # Errors
    /// [`OfferError`].
    pub fn offer(&mut self, bytes: &[u8]) -> Result<Offer, OfferError> {
        self.refuse_heirs()?;
        self.shelf.offer(&self.station, bytes, None)
    }

    /// Nobody is to read it any more; its memory is free for other data at once. Does nothing with an offer of another member,
    /// or where this one is [inherited](Self::is_inherited).
    pub fn take_back(&mut self, offer: Offer) {
        if !self.is_inherited() {
            self.shelf.take_back(&self.station, &offer);
        }
    }

    /// Bytes that were copied to be read by others: what was offered, and long replies.
    #[must_use]
    pub const fn offered_bytes(&self) -> u64 {
        self.shelf.copied + self.replies.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    #[test]
    fn an_offer_of_another_member_stays_and_takes_none_of_ours_along() {
        let station = Station::create("offers", Shape { offer_bytes: 4096, ..Shape::new(2) }).unwrap();
        let [mut first, mut second] = [0, 1].map(|node| Member::join(&station, Node(node)).unwrap());
        let (ours, theirs) = (first.offer(b"ours").unwrap(), second.offer(b"theirs").unwrap());
        let (data, other) = (ours.data(), theirs.data());
        let is_there = |data| look(&station, data, |_| ()).is_ok();
        first.take_back(theirs);
        assert!(is_there(data) && is_there(other));
        first.take_back(ours);
        assert!(!is_there(data) && is_there(other));
    }
}
