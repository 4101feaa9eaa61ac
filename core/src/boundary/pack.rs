//! Packing a message: where each live strip goes, and the head in the end.

use super::exchange::{Config, Counts, Exchange};
use super::header::{HEAD, Head, bitmap_bytes};
use super::peer::Peer;
use super::plan::Entry;
use super::refuse::ExchangeError;
use super::unpack::wanted;

/// Where the payload of a strip lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// So many bytes behind the beginning of the slot.
    Slot(u32),
    /// So many bytes behind the beginning of the overflow.
    Overflow(u32),
}

/// Spreads live strips over slot and overflow, in plan order: with the first that does not fit, the overflow begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    first: u32,
    room: u32,
    used: u32,
    overflow: u32,
}

impl Spread {
    /// A slot with room for so many bytes of payload, which begins there.
    pub(super) const fn new(room: u32, first: u32) -> Spread {
        Spread { first, room, used: 0, overflow: 0 }
    }

    /// A plan has less than 4 GiB, so no sum wraps.
    #[inline]
    pub(super) const fn place(&mut self, entry: &Entry) -> Place {
        let bytes = entry.bytes() as u32;
        if self.overflow == 0 && bytes <= self.room - self.used {
            let at = self.used;
            self.used += bytes;
            Place::Slot(self.first + at)
        } else {
            let at = self.overflow;
            self.overflow += bytes;
            Place::Overflow(at)
        }
    }
}

/// A message that was packed; the transport carries `head` bytes of its head, the payload in the slot, and keeps the
/// overflow until the receiver has fetched it.
#[must_use = "the peer waits for this message"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// To which rank.
    pub rank: u32,
    /// Which exchange.
    pub sequence: u32,
    /// In which of the peer's slots.
    pub slot: u32,
    /// Bytes of head and bitmap.
    pub head: usize,
    /// Bytes of payload in the slot.
    pub in_slot: u32,
    /// Bytes of payload in the overflow.
    pub overflow: u32,
}

/// A message under construction. Until [`commit`](Self::commit) nothing has happened.
#[derive(Debug)]
pub struct Pack<'a> {
    config: &'a Config,
    sequence: u32,
    stage: u8,
    counts: &'a mut Counts,
    to: &'a mut Peer,
    head: &'a mut [u8],
    spread: Spread,
    /// The channels to the peer, and their bits.
    entries: &'a [Entry],
    bits: &'a mut [u64],
    packed: usize,
    /// A word of channels, and those of it that may have a payload, as [`nulls`](Self::nulls) was told.
    asked: (usize, u64),
    live: u32,
}

impl<'a> Pack<'a> {
    pub(super) fn new<P, E, C, B>(
        exchange: &'a mut Exchange<P, E, C, B>,
        peer: usize,
        head: &'a mut [u8],
    ) -> Result<Self, ExchangeError>
    where
        P: AsMut<[Peer]>,
        E: AsRef<[Entry]>,
        B: AsMut<[u64]>,
    {
        let Exchange { peers, entries, live, config, sequence, stage, counts, .. } = exchange;
        let to = P::as_mut(peers).get_mut(peer).ok_or(ExchangeError::NoPeer { peer })?;
        let first = HEAD + bitmap_bytes(to.out.len() as u32);
        if head.len() < first {
            return Err(ExchangeError::Short { need: first });
        }
        let spread = Spread::new(to.room.saturating_sub(first as u32), first as u32);
        let entries = &E::as_ref(entries)[to.out.start as usize..to.out.end as usize];
        let bits = &mut B::as_mut(live)[to.out_words()];
        bits.fill(0);
        let (sequence, stage, asked) = (*sequence, *stage, (usize::MAX, 0));
        Ok(Pack { config, sequence, stage, counts, to, head, spread, entries, bits, packed: 0, asked, live: 0 })
    }

    /// The slot that the message goes into.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.sequence % self.config.slots
    }

    /// The next channel to pack, by [`live`](Self::live) or [`null`](Self::null).
    #[must_use]
    #[inline]
    pub fn channel(&self) -> Option<&'a Entry> {
        self.entries.get(self.packed)
    }

    const fn incomplete(&self) -> ExchangeError {
        ExchangeError::Incomplete { packed: self.packed as u32 + 1, channels: self.entries.len() as u32 }
    }

    /// The channel has a payload; write exactly its elements to this place.
    ///
    /// # Errors
    /// [`ExchangeError::Incomplete`] if all channels were packed.
    #[inline]
    pub fn live(&mut self) -> Result<Place, ExchangeError> {
        let entry = self.channel().ok_or_else(|| self.incomplete())?;
        if let Some(word) = self.bits.get_mut(self.packed / 64) {
            *word |= 1 << (self.packed % 64);
        }
        self.packed += 1;
        self.live += 1;
        Ok(self.spread.place(entry))
    }

    /// The channel has none.
    ///
    /// # Errors
    /// [`ExchangeError::NeverNull`] for a dense field; [`ExchangeError::Incomplete`] if all channels were packed.
    #[inline]
    pub fn null(&mut self) -> Result<(), ExchangeError> {
        match self.channel() {
            None => Err(self.incomplete()),
            Some(entry) if entry.always => Err(ExchangeError::NeverNull { key: entry.key }),
            Some(_) => {
                self.packed += 1;
                Ok(())
            }
        }
    }

    /// Passes over channels for as long as this says that they have none: the same as [`null`](Self::null) of each, with less
    /// to do for one. It is asked about up to 64 channels ahead, once about each, and not about those of dense fields.
    ///
    /// *Cost*: O(channels passed).
    #[inline]
    pub fn nulls(&mut self, mut is_null: impl FnMut(&Entry) -> bool) {
        while let Some(rest) = self.entries.get(self.packed..).filter(|rest| !rest.is_empty()) {
            let (word, passed) = (self.packed / 64, self.packed % 64);
            if self.asked.0 != word {
                let channels = &rest[..rest.len().min(64 - passed)];
                self.asked = (word, wanted(channels, |entry| !is_null(entry)) << passed);
            }
            let may = self.asked.1 >> passed;
            if may != 0 {
                self.packed += may.trailing_zeros() as usize;
                return;
            }
            self.packed = self.entries.len().min((word + 1) * 64);
        }
    }

    /// Finishes the message: its head is complete, and the channels are sending. The overflow, if there is any, lies at
    /// this address of memory that this key names.
    ///
    /// # Errors
    /// [`ExchangeError::Incomplete`].
    pub fn commit(self, overflow_at: u64, overflow_key: u32) -> Result<Message, ExchangeError> {
        let slot = self.slot();
        let Pack { config, sequence, stage, counts, to, head, spread, entries, bits, packed, live, .. } = self;
        let count = entries.len() as u32;
        if packed != entries.len() {
            return Err(ExchangeError::Incomplete { packed: packed as u32, channels: count });
        }
        for (bytes, word) in head[HEAD..].as_chunks_mut::<8>().0.iter_mut().zip(bits) {
            *bytes = word.to_le_bytes();
        }
        let whole = Head {
            epoch: config.epoch,
            sequence,
            stage,
            kind: config.kind.0,
            fingerprint: to.prints[0] as u32,
            channels: count,
            payload: u64::from(spread.used) + u64::from(spread.overflow),
            overflow_at: if spread.overflow > 0 { overflow_at } else { 0 },
            overflow_key: if spread.overflow > 0 { overflow_key } else { 0 },
            overflow: spread.overflow,
            credit: to.released,
            wish: to.wish,
        };
        let len = whole.emit(live as usize, head).map_err(|_| ExchangeError::Short { need: HEAD })?;
        (to.sent, to.held) = (sequence, true);
        counts.messages += 1;
        counts.head_bytes += len as u64;
        counts.payload_bytes += whole.payload;
        counts.overflows += u64::from(spread.overflow > 0);
        counts.overflow_bytes += u64::from(spread.overflow);
        counts.live += u64::from(live);
        counts.null += u64::from(count - live);
        Ok(Message { rank: to.rank, sequence, slot, head: len, in_slot: spread.used, overflow: spread.overflow })
    }
}
