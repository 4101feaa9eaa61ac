//! Boundary exchange over MPI without receives: messages are put into a window.
//!
//! The window is that of the receiver. As within a machine, a message becomes visible by one word, which the receiver
//! looks at. It is put when the message has arrived; so a receiver that sees any part of it sees all of the message.
//! What does not fit into the slot that the receiver has chosen stays in a window of the sender, from where the
//! receiver gets it.
//!
//! ```text
//! stamps    a line for each rank: a word a slot, epoch and exchange of the message in it
//! areas     for each rank: its slots, then as many for what this rank has for it and did not fit there
//! ```
//!
//! What was put has no length of its own that could be compared with what the head says; the sender waits until all of a message
//! has arrived, and then puts the word.
//!
//! *Cost*: two puts and two flushes a message, a load a look; a copy more than within a machine. Publishing waits until
//! the network has delivered, and so does fetching: some libraries need the other rank to call MPI for that.

use std::ops::Deref;
use std::time::Duration;

use umbra::boundary::{Held, Transport, TransportError};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::{Entry, HEAD, Message, Peer, Place, Vote, bitmap_bytes};

use crate::ballot::Ballot;
use crate::raw::{Communicator, Window};
use crate::slot;

/// Two let a peer be one exchange ahead.
const SLOTS: u32 = 2;
/// Words of a line of stamps.
const LINE: usize = 16;

/// What is kept here of the messages of a peer.
#[derive(Debug, Default)]
struct Ends {
    /// What is packed for it.
    out: Vec<u64>,
    /// Words in front of the first payload of a message to it.
    head: usize,
    /// What was fetched from it, by slot.
    fetched: [Option<Vec<u64>>; SLOTS as usize],
    /// Stamps that were taken.
    taken: [u64; SLOTS as usize],
    /// Those of the messages that were looked at last: only these can be taken. What was put there since is another.
    seen: [u64; SLOTS as usize],
}

/// One rank's end, over a window that is lent or shared.
#[derive(Debug)]
pub struct MpiRma<W> {
    ballot: Ballot,
    window: W,
    /// Words of the largest message.
    capacity: usize,
    /// By rank.
    peers: Vec<Ends>,
}

impl MpiRma<&Window> {
    /// Words of the [`Window`] that so many ranks need for messages of so many bytes, their heads counted.
    #[must_use]
    pub const fn words(ranks: u32, message: u32) -> usize {
        ranks as usize * (LINE + 2 * SLOTS as usize * (message as usize).div_ceil(8))
    }
}

impl<W: Deref<Target = Window>> MpiRma<W> {
    /// The end of this process among those of a communicator, whose processes have made this window; made as
    /// [`MpiSlot`](crate::MpiSlot::new). Messages may be as large as was said for [`words`](MpiRma::words).
    ///
    /// # Errors
    /// [`TransportError::Silent`] names who did not come.
    pub fn new(world: Communicator, window: W, deadline: Option<Duration>) -> Result<MpiRma<W>, TransportError> {
        let ranks = world.size() as usize;
        let capacity = (window.len() / ranks.max(1)).saturating_sub(LINE) / (2 * SLOTS as usize);
        let peers = (0..ranks).map(|_| Ends::default()).collect();
        // Epochs begin again, so a stamp of the ends before could be the one of a message to come.
        let clear = || {
            window.sync()?;
            window.words().iter().take(ranks * LINE).for_each(|stamp| stamp.store(0, Ordering::Relaxed));
            Ok(window.sync()?)
        };
        let ballot = Ballot::new(world, deadline, clear)?;
        Ok(MpiRma { ballot, window, capacity, peers })
    }

    fn ends(&self, rank: u32) -> Result<&Ends, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
        self.peers.get(rank as usize).ok_or(none)
    }

    fn ends_mut(&mut self, rank: u32) -> Result<&mut Ends, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
        self.peers.get_mut(rank as usize).ok_or(none)
    }

    /// Where a rank's stamp of a slot is, in the window of its receiver.
    const fn stamp(from: u32, slot: u32) -> usize {
        from as usize * LINE + (slot % SLOTS) as usize
    }

    /// Where a slot for messages from that rank begins, or what did not fit there of those to it.
    const fn area(&self, rank: u32, slot: u32, overflow: bool) -> usize {
        let nth = (rank as usize * 2 + overflow as usize) * SLOTS as usize + (slot % SLOTS) as usize;
        self.peers.len() * LINE + nth * self.capacity
    }

    /// So many words of this rank's window.
    fn own(&self, area: usize, first: usize, len: usize) -> Result<&[AtomicU64], TransportError> {
        let (end, capacity) = ((first + len) as u64 * 8, self.capacity as u64 * 8);
        let words = self.window.words().get(area + first..area + first + len);
        words.filter(|_| end <= capacity).ok_or(TransportError::SlotTooSmall { end, capacity })
    }
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
        for peer in peers {
            let out = peer.out();
            let head = HEAD + bitmap_bytes(out.len() as u32);
            let payload: u64 = entries[out.start as usize..out.end as usize].iter().map(Entry::bytes).sum();
            let (end, capacity) = (head as u64 + payload, self.capacity as u64 * 8);
            if end > capacity {
                return Err(TransportError::SlotTooSmall { end, capacity });
            }
            let ends = self.ends_mut(peer.rank())?;
            (ends.head, ends.out) = (head / 8, vec![0; end as usize / 8]);
        }
        Ok(())
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        match place {
            Place::Slot(at) => slot::store(&mut self.ends_mut(to)?.out, at as usize / 8 + behind, values),
            Place::Overflow(at) => {
                let words = self.own(self.area(to, slot, true), at as usize / 8 + behind, values.len())?;
                for (word, value) in words.iter().zip(values) {
                    word.store(value.to_bits().to_le(), Ordering::Relaxed);
                }
                Ok(())
            }
        }
    }

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let (to, from) = (message.rank, self.rank());
        let area = self.area(from, message.slot, false);
        let ends = self.ends_mut(to)?;
        for (word, bytes) in ends.out.iter_mut().zip(head.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let words = if message.in_slot > 0 { ends.head + message.in_slot as usize / 8 } else { head.len() / 8 };
        let (ends, capacity) = (self.ends(to)?, self.capacity as u64 * 8);
        let whole = ends.out.get(..words).ok_or(TransportError::SlotTooSmall { end: words as u64 * 8, capacity })?;
        if message.overflow > 0 {
            self.window.sync()?;
        }
        self.window.put(to, area, whole)?;
        let stamp = u64::from(epoch) << 32 | u64::from(message.sequence);
        Ok(self.window.put(to, Self::stamp(from, message.slot), &[stamp])?)
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        self.window.sync()?;
        // ORDERING: acquire; the sender has put the stamp when the message was there.
        let stamp = self.window.words().get(Self::stamp(from, slot)).map_or(0, |word| word.load(Ordering::Acquire));
        let ends = self.ends_mut(from)?;
        if stamp == ends.taken[(slot % SLOTS) as usize] {
            // Some libraries let others write only while this process is in a call that receives.
            self.ballot.progress()?;
            return Ok(false);
        }
        ends.seen[(slot % SLOTS) as usize] = stamp;
        let words = self.own(self.area(from, slot, false), 0, head.len() / 8)?;
        for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        Ok(true)
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        let area = self.area(self.rank(), slot, true);
        let (end, capacity) = (u64::from(bytes), self.capacity as u64 * 8);
        if end > capacity {
            return Err(TransportError::SlotTooSmall { end, capacity });
        }
        let at = (slot % SLOTS) as usize;
        if self.ends(from)?.fetched[at].is_none() {
            let mut words = vec![0; bytes.div_ceil(8) as usize];
            self.window.get(from, area, &mut words)?;
            self.ends_mut(from)?.fetched[at] = Some(words);
        }
        Ok(true)
    }

    fn taken(&mut self, from: u32, slot: u32, _room: u32) -> Result<(), TransportError> {
        let (ends, slot) = (self.ends_mut(from)?, (slot % SLOTS) as usize);
        (ends.fetched[slot], ends.taken[slot]) = (None, ends.seen[slot]);
        Ok(())
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        match place {
            Place::Slot(at) => {
                let words = self.own(self.area(from, slot, false), at as usize / 8 + behind, into.len())?;
                for (value, word) in into.iter_mut().zip(words) {
                    *value = f64::from_bits(u64::from_le(word.load(Ordering::Relaxed)));
                }
                Ok(())
            }
            Place::Overflow(at) => {
                let fetched = self.ends(from)?.fetched[(slot % SLOTS) as usize].as_deref().unwrap_or(&[]);
                slot::load(fetched, at as usize / 8 + behind, into)
            }
        }
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.ballot.vote(round, vote)
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.ballot.vote_of(rank, round)
    }

    fn held(&self) -> Option<Held> {
        // The window has one size for ever: a half of it for slots, a half for what does not fit there.
        let words = |of: fn(&Ends) -> usize| self.peers.iter().map(of).sum::<usize>() as u64 * 8;
        let half = self.peers.len() as u64 * u64::from(SLOTS) * self.capacity as u64 * 8;
        let fetched = words(|ends| ends.fetched.iter().flatten().map(Vec::len).sum());
        Some(Held { receive: half + fetched, send: half + words(|ends| ends.out.len()) })
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.ballot.write_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.ballot.read_plan(from)
    }
}
