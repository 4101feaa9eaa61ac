//! Boundary exchange over MPI whose messages stay with their sender to be read.
//!
//! The window is that of the sender, who packs a message there and tells its receiver, in one word, how long it is in
//! the slot. The receiver reads so much into the slot that it has chosen, if that has room, and exactly what did not fit.
//!
//! ```text
//! areas     for each rank: what goes into its slots, then as many for what did not fit there
//! tag 2n    a message into slot n is there: bytes of it in the slot
//! ```
//!
//! Nobody waits in a call: what is told, and what is read, goes on while the exchange looks. So a rank that has died or
//! stalls is missing at the deadline, also where the library needs it for others to read its memory.
//!
//! A message that is not as long as its head says is refused, with the rank that has sent it.
//!
//! *Cost*: a message of a word and a read of a window a message, one read more where not all of it fits; a copy from the
//! field and one into it; the head of what came is read once more.

use std::ops::Deref;
use std::time::Duration;

use umbra::boundary::{Held, Transport, TransportError};
use umbra_core::boundary::{Entry, HEAD, Message, Peer, Place, Vote, bitmap_bytes};

use crate::ballot::Ballot;
use crate::heads;
use crate::raw::{Buffer, Came, Communicator, MpiError, Window};
use crate::slot::{self, SLOTS};

/// Bytes of the word that tells of a message.
const TOLD: usize = size_of::<u64>();

/// What comes into a slot.
#[derive(Debug)]
struct Coming {
    told: Buffer,
    slot: Buffer,
    overflow: Buffer,
    /// Bytes that may come into the slot.
    room: usize,
    /// What was told, once it was.
    came: Option<Came>,
    /// Bytes that are read into the slot, or were.
    bytes: Option<usize>,
    /// Whether what did not fit is being read, or was.
    fetched: bool,
}

impl Coming {
    fn new(room: usize) -> Coming {
        let [told, slot, overflow] = [TOLD, room, 0].map(Buffer::new);
        Coming { told, slot, overflow, room, came: None, bytes: None, fetched: false }
    }

    /// How long the message for the slot is, once a rank has told it.
    fn told(&mut self, from: u32) -> Result<Option<usize>, TransportError> {
        if self.came.is_none() {
            self.came = self.told.test()?;
        }
        let Some(came) = self.came else { return Ok(None) };
        let size = |bytes, came| Err(TransportError::MessageSize { rank: from, bytes, came });
        if came != Came::Bytes(TOLD) {
            return size(TOLD as u64, came.bytes());
        }
        let bytes = self.told.words().and_then(<[u64]>::first).map_or(0, |word| u64::from_le(*word));
        match usize::try_from(bytes) {
            Ok(some) if some <= self.room => Ok(Some(some)),
            _ => size(self.room as u64, Some(bytes)),
        }
    }
}

/// Both directions with one peer.
#[derive(Debug)]
struct Ends {
    /// What it is told, by slot.
    told: [Buffer; SLOTS as usize],
    into: [Coming; SLOTS as usize],
    /// Bytes in front of the first payload of a message to it.
    head: usize,
    /// The same of a message from it.
    head_of: usize,
}

/// One rank's end, over a window that is lent or shared.
#[derive(Debug)]
pub struct MpiRma<W: Deref<Target = Window>> {
    ballot: Ballot,
    window: W,
    /// Words of the largest message.
    capacity: usize,
    /// By rank; `None` for those that nothing is exchanged with.
    peers: Vec<Option<Ends>>,
}

impl MpiRma<&Window> {
    /// Words of the [`Window`] that so many ranks need for messages of so many bytes, their heads counted.
    #[must_use]
    pub const fn words(ranks: u32, message: u32) -> usize {
        ranks as usize * 2 * SLOTS as usize * (message as usize).div_ceil(8)
    }
}

impl<W: Deref<Target = Window>> MpiRma<W> {
    /// The end of this process among those of a communicator, whose processes have made this window; made as
    /// [`MpiSlot`](crate::MpiSlot::new). Messages may be as large as was said for [`words`](MpiRma::words).
    ///
    /// # Errors
    /// [`TransportError::Silent`] names who did not come; [`TransportError::HasEnd`] if another end packs messages in this window,
    /// [`TransportError::OtherProcesses`] if it is none of these processes.
    pub fn new(world: Communicator, window: W, deadline: Option<Duration>) -> Result<MpiRma<W>, TransportError> {
        let capacity = window.len() / (world.size() as usize * 2 * SLOTS as usize).max(1);
        if !window.is_of(&world)? {
            return Err(TransportError::OtherProcesses);
        }
        if !window.lend() {
            return Err(TransportError::HasEnd);
        }
        let ballot = Ballot::new(world, deadline).inspect_err(|_| window.take_back())?;
        Ok(MpiRma { peers: (0..world.size()).map(|_| None).collect(), ballot, window, capacity })
    }

    fn ends(&self, rank: u32) -> Result<&Ends, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
        self.peers.get(rank as usize).and_then(Option::as_ref).ok_or(none)
    }

    fn ends_mut(&mut self, rank: u32) -> Result<&mut Ends, TransportError> {
        ends_of(&mut self.peers, rank)
    }

    /// Where what goes into a rank's slot begins in the window of its sender, or what does not fit there.
    const fn area(&self, to: u32, slot: u32, overflow: bool) -> usize {
        let nth = (to as usize * 2 + overflow as usize) * SLOTS as usize + (slot % SLOTS) as usize;
        nth * self.capacity
    }

    /// Writes words of a message into this rank's window, from one of an area on.
    fn store(
        &self,
        area: usize,
        first: usize,
        values: impl ExactSizeIterator<Item = u64>,
    ) -> Result<(), TransportError> {
        let (end, capacity) = (first + values.len(), self.capacity);
        if end <= capacity && self.window.store(area + first, values) {
            return Ok(());
        }
        let [end, capacity] = [end, capacity].map(|words| words as u64 * 8);
        Err(TransportError::SlotTooSmall { end, capacity })
    }
}

impl<W: Deref<Target = Window>> Drop for MpiRma<W> {
    fn drop(&mut self) {
        self.window.take_back();
    }
}

/// As [`MpiRma::ends_mut`], beside the window.
fn ends_of(peers: &mut [Option<Ends>], rank: u32) -> Result<&mut Ends, TransportError> {
    let none = TransportError::NoRank { rank, ranks: peers.len() as u32 };
    peers.get_mut(rank as usize).and_then(Option::as_mut).ok_or(none)
}

impl<W: Deref<Target = Window>> Transport for MpiRma<W> {
    fn rank(&self) -> u32 {
        self.ballot.world().rank()
    }

    fn ranks(&self) -> u32 {
        self.ballot.world().size()
    }

    fn slots(&self) -> u32 {
        SLOTS
    }

    fn plans(&mut self, _epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        let world = *self.ballot.world();
        // Nothing is under way but the receives that were posted for exchanges that never were.
        self.peers.iter_mut().for_each(|ends| *ends = None);
        for peer in peers {
            let (out, rank) = (peer.out(), peer.rank());
            let [head, head_of] = [&out, &peer.inbound()].map(|entries| HEAD + bitmap_bytes(entries.len() as u32));
            let payload: u64 = entries[out.start as usize..out.end as usize].iter().map(Entry::bytes).sum();
            let (end, capacity) = (head as u64 + payload, self.capacity as u64 * 8);
            if end > capacity {
                return Err(TransportError::SlotTooSmall { end, capacity });
            }
            let mut into = [(); SLOTS as usize].map(|()| Coming::new(peer.slot_bytes() as usize));
            for (slot, coming) in (0..).zip(&mut into) {
                coming.told.receive(&world, rank, slot::tags(slot).0, TOLD)?;
            }
            let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
            let told = [(); SLOTS as usize].map(|()| Buffer::new(TOLD));
            *self.peers.get_mut(rank as usize).ok_or(none)? = Some(Ends { told, into, head, head_of });
        }
        Ok(())
    }

    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        Ok(self.ends_mut(to)?.told[(slot % SLOTS) as usize].test()?.is_some())
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let (at, overflow) = match place {
            Place::Slot(at) => (at, false),
            Place::Overflow(at) => (at, true),
        };
        let words = values.iter().map(|value| value.to_bits().to_le());
        self.store(self.area(to, slot, overflow), at as usize / 8 + behind, words)
    }

    fn publish(&mut self, message: &Message, _epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let (to, world) = (message.rank, *self.ballot.world());
        let words = head.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        self.store(self.area(to, message.slot, false), 0, words)?;
        self.window.sync()?;
        let ends = self.ends_mut(to)?;
        let bytes = if message.in_slot > 0 { ends.head + message.in_slot as usize } else { head.len() };
        let told = &mut ends.told[(message.slot % SLOTS) as usize];
        told.test()?;
        let word = told.words_mut().and_then(<[u64]>::first_mut);
        *word.ok_or(MpiError::Failed { call: "MPI_Isend", code: -1 })? = (bytes as u64).to_le();
        Ok(told.send(&world, to, slot::tags(message.slot).0, 0..TOLD)?)
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        let (area, window) = (self.area(self.rank(), slot, false), &*self.window);
        let ends = ends_of(&mut self.peers, from)?;
        let coming = &mut ends.into[(slot % SLOTS) as usize];
        let bytes = match coming.bytes {
            Some(bytes) => bytes,
            None => {
                let Some(bytes) = coming.told(from)? else { return Ok(false) };
                coming.slot.get(window, from, area, bytes)?;
                *coming.bytes.insert(bytes)
            }
        };
        if coming.slot.test()?.is_none() {
            return Ok(false);
        }
        heads::in_slot(from, Some(Came::Bytes(bytes)), (&coming.slot, coming.room), head, ends.head_of)?;
        Ok(true)
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        let (area, window) = (self.area(self.rank(), slot, true), &*self.window);
        let (end, capacity) = (u64::from(bytes), self.capacity as u64 * 8);
        if end > capacity {
            return Err(TransportError::SlotTooSmall { end, capacity });
        }
        let coming = &mut ends_of(&mut self.peers, from)?.into[(slot % SLOTS) as usize];
        if !coming.fetched {
            coming.overflow.resize(bytes as usize);
            coming.overflow.get(window, from, area, bytes as usize)?;
            coming.fetched = true;
        }
        Ok(coming.overflow.test()?.is_some())
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        let (world, (tag, _)) = (*self.ballot.world(), slot::tags(slot));
        let coming = &mut self.ends_mut(from)?.into[(slot % SLOTS) as usize];
        (coming.came, coming.bytes, coming.fetched, coming.room) = (None, None, false, room as usize);
        coming.overflow.resize(0);
        coming.slot.resize(room as usize);
        Ok(coming.told.receive(&world, from, tag, TOLD)?)
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let coming = &self.ends(from)?.into[(slot % SLOTS) as usize];
        let (buffer, at) = match place {
            Place::Slot(at) => (&coming.slot, at),
            Place::Overflow(at) => (&coming.overflow, at),
        };
        slot::load(buffer.words().unwrap_or(&[]), at as usize / 8 + behind, into)
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.ballot.vote(round, vote)
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.ballot.vote_of(rank, round)
    }

    fn held(&self) -> Option<Held> {
        // The window has one size for ever.
        let send = (self.peers.len() * 2 * SLOTS as usize * self.capacity * 8) as u64;
        let into = self.peers.iter().flatten().flat_map(|ends| &ends.into);
        let receive = into.map(|coming| coming.slot.bytes() + coming.overflow.bytes()).sum();
        Some(Held { receive, send })
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.ballot.write_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.ballot.read_plan(from)
    }
}
