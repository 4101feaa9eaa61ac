//! Receiving: a message is compared with the plan before anything of it is used.

use super::channel::Channel;
use super::exchange::{Arrival, Exchange};
use super::expected::{Expected, in_slot_bytes};
use super::header::{HEAD, Head, Live, bitmap_bytes, ones};
use super::pack::{Place, Spread};
use super::peer::{Arrived, Peer};
use super::plan::Entry;
use super::refuse::{ExchangeError, Refused};
use super::unpack::Unpack;

impl<P, E, C, B> Exchange<P, E, C, B>
where
    P: AsRef<[Peer]> + AsMut<[Peer]>,
    E: AsRef<[Entry]>,
    C: AsRef<[Channel<()>]> + AsMut<[Channel<()>]>,
    B: AsRef<[u64]> + AsMut<[u64]>,
{
    /// Takes the head of a message that came from a peer.
    ///
    /// # Errors
    /// [`Refused`]; it is counted, and nothing has changed.
    pub fn on_message(&mut self, peer: usize, head: &[u8]) -> Result<Arrival, Refused> {
        let taken = self.take(peer, head);
        match taken {
            Err(Refused::OldEpoch { .. }) => self.counts.old += 1,
            Err(Refused::Duplicate { .. }) => self.counts.duplicates += 1,
            Err(_) => self.counts.refused += 1,
            Ok(_) => {}
        }
        taken
    }

    fn take(&mut self, at: usize, bytes: &[u8]) -> Result<Arrival, Refused> {
        let peer = self.peers.as_ref().get(at).ok_or(Refused::Stranger)?;
        let entries = &self.entries.as_ref()[peer.into.start as usize..peer.into.end as usize];
        let (epoch, kind, fingerprint) = (self.config.epoch, self.config.kind, peer.prints[1] as u32);
        let expected = Expected { epoch, kind, fingerprint, entries };
        let Some((head, live, arrived)) = expected.inspect(peer.seen, self.sequence, peer.always, bytes)? else {
            return Ok(Arrival::Early);
        };
        // Between what we had and what we have sent, however the numbers wrap.
        if head.credit.wrapping_sub(peer.credit) > peer.sent.wrapping_sub(peer.credit) {
            return Err(Refused::Credit { came: head.credit, sent: peer.sent });
        }
        let (room, whole) = (peer.slot_bytes(), in_slot_bytes(head.channels, arrived.in_slot));
        if whole > u64::from(room) {
            return Err(Refused::TooLong { came: whole, room });
        }
        self.accept(at, &head, live, arrived);
        Ok(if head.overflow == 0 {
            Arrival::Whole
        } else {
            Arrival::Fetch { address: head.overflow_at, key: head.overflow_key, len: head.overflow }
        })
    }

    fn accept(&mut self, at: usize, head: &Head, live: Live<'_>, arrived: Arrived) {
        let peer = &mut self.peers.as_mut()[at];
        peer.seen = head.sequence;
        peer.credit = head.credit;
        // Less than what every side begins with is never announced; a peer that does gets nothing but overflows.
        peer.announced = head.wish;
        peer.arrived = Some(arrived);
        let (words, channels) = (peer.inbound_words(), peer.into.len());
        for (nth, word) in self.live.as_mut()[words].iter_mut().enumerate() {
            *word = live.word(nth, channels);
        }
    }

    /// Before its first message a peer says how many bytes of a message it takes in a slot: its [`Peer::slot_bytes`].
    ///
    /// # Errors
    /// [`ExchangeError::NoPeer`].
    pub fn on_wish(&mut self, peer: usize, bytes: u32) -> Result<(), ExchangeError> {
        let at = peer;
        let peer = self.peers.as_mut().get_mut(at).ok_or(ExchangeError::NoPeer { peer: at })?;
        (peer.room, peer.announced) = (bytes, bytes);
        Ok(())
    }

    /// The overflow of a peer's message was fetched.
    ///
    /// # Errors
    /// [`ExchangeError::NotReceived`] if no message of it is there.
    pub fn on_fetched(&mut self, peer: usize) -> Result<(), ExchangeError> {
        let at = peer;
        let peer = self.peers.as_mut().get_mut(at).ok_or(ExchangeError::NoPeer { peer: at })?;
        let rank = peer.rank;
        let arrived = peer.arrived.as_mut().ok_or(ExchangeError::NotReceived { rank })?;
        arrived.fetched = true;
        Ok(())
    }

    /// Whether all channels from this peer are received.
    #[must_use]
    #[inline]
    pub fn is_received(&self, peer: usize) -> bool {
        let peer = self.peers.as_ref().get(peer);
        peer.is_some_and(|peer| peer.seen == self.sequence && peer.arrived.is_none_or(|arrived| arrived.fetched))
    }

    /// Whether what this peer sent in the open exchange was given up.
    #[must_use]
    pub fn is_released(&self, peer: usize) -> bool {
        self.peers.as_ref().get(peer).is_some_and(|peer| peer.released == self.sequence)
    }

    /// The channels from this peer, in plan order, each with the place of its payload if it is live.
    ///
    /// # Errors
    /// [`ExchangeError::NotReceived`].
    pub fn strips(&self, peer: usize) -> Result<impl Iterator<Item = (u32, &Entry, Option<Place>)>, ExchangeError> {
        let (entries, words, mut spread) = self.received(peer)?;
        let first = self.peers.as_ref()[peer].into.start;
        Ok((first..).zip(entries).enumerate().map(move |(nth, (at, entry))| {
            let live = words[nth / 64] >> (nth % 64) & 1 == 1;
            (at, entry, live.then(|| spread.place(entry)))
        }))
    }

    /// Walks the channels from this peer that have to be set: those of [`strips`](Self::strips) with a payload, and those
    /// without whose field is present.
    ///
    /// # Errors
    /// [`ExchangeError::NotReceived`].
    pub fn unpack(&self, peer: usize) -> Result<Unpack<'_>, ExchangeError> {
        let (entries, words, spread) = self.received(peer)?;
        Ok(Unpack::new(entries, words, spread))
    }

    /// The channels of a message that is all there, their bits, and where their payload begins.
    fn received(&self, peer: usize) -> Result<(&[Entry], &[u64], Spread), ExchangeError> {
        let at = peer;
        let peer = self.peers.as_ref().get(at).ok_or(ExchangeError::NoPeer { peer: at })?;
        let not_yet = ExchangeError::NotReceived { rank: peer.rank };
        let arrived = peer.arrived.filter(|arrived| arrived.fetched && peer.seen == self.sequence).ok_or(not_yet)?;
        let spread = Spread::new(arrived.in_slot, (HEAD + bitmap_bytes(peer.into.len() as u32)) as u32);
        let entries = &self.entries.as_ref()[peer.into.start as usize..peer.into.end as usize];
        Ok((entries, &self.live.as_ref()[peer.inbound_words()], spread))
    }

    /// The channels from this peer that came with a payload, in plan order; none before all of it is there.
    pub fn came(&self, peer: usize) -> impl Iterator<Item = &Entry> {
        let peer = self.peers.as_ref().get(peer).filter(|peer| peer.arrived.is_some_and(|arrived| arrived.fetched));
        peer.into_iter().flat_map(|peer| {
            let entries = &self.entries.as_ref()[peer.into.start as usize..peer.into.end as usize];
            ones(self.live.as_ref()[peer.inbound_words()].iter().copied()).filter_map(|nth| entries.get(nth))
        })
    }

    /// Gives up what a peer sent: all its channels become stale, and it gets credit with the next message.
    ///
    /// # Errors
    /// [`ExchangeError::NotReceived`].
    pub fn release(&mut self, peer: usize) -> Result<(), ExchangeError> {
        let at = peer;
        let peer = self.peers.as_mut().get_mut(at).ok_or(ExchangeError::NoPeer { peer: at })?;
        let rank = peer.rank;
        let arrived = peer.arrived.filter(|arrived| arrived.fetched).ok_or(ExchangeError::NotReceived { rank })?;
        (peer.arrived, peer.released) = (None, peer.seen);
        let head = HEAD + bitmap_bytes(peer.into.len() as u32);
        peer.settle(arrived.in_slot.saturating_add(arrived.overflow), head);
        Ok(())
    }
}
