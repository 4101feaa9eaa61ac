//! The exchange of one rank with all its peers, without input or output.
//!
//! A rank begins an exchange, packs one message for each peer, hands in what came from each, uses the strips and
//! gives them up. Who carries the bytes is not this machine's business; how many go where is:
//!
//! ```text
//! begin -> for each peer: pack ... commit -> the transport carries head, slot part, overflow offer
//!          for each peer: on_message -> (fetch the overflow, on_fetched) -> strips -> release
//! ```
//!
//! The receiver chooses how large a slot is and announces it with each message; what does not fit is offered, and
//! fetched. A peer may be one exchange ahead, and no more than there are slots: the credit for a slot travels in the
//! message of the other direction, which must have come before the next exchange can begin, so nobody waits for
//! credit in a circle.
//!
//! Invariants: a message is taken whole or refused and counted; each exchange of a peer is taken once, in order; a
//! message of another epoch is never delivered.
//!
//! *Cost*: `pack`, `on_message` and `release` are O(channels of the peer); nothing allocates.

use core::ops::Range;

use super::channel::Channel;
use super::header::{HEAD, bitmap_bytes};
use super::pack::Pack;
use super::peer::Peer;
use super::plan::{Entry, Kind};
use super::refuse::{BuildError, ExchangeError, Missing};
use super::state::{Refusal, State};
use crate::time::{Lapse, Time};

/// What an exchange must know before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Which life of the mesh: one more after each change of it.
    pub epoch: u32,
    /// Which kind of exchange.
    pub kind: Kind,
    /// Slots of each ordered pair, so many messages may be under way; two let a peer be ahead.
    pub slots: u32,
    /// Bytes of a slot at least; that is what it begins with.
    pub smallest: u32,
    /// How long an exchange may take; `None`: for ever.
    pub deadline: Option<Lapse>,
}

/// What happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages that were sent, one for each peer and exchange.
    pub messages: u64,
    /// Bytes of their heads.
    pub head_bytes: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Messages of which some went by way of the overflow.
    pub overflows: u64,
    /// Bytes of that.
    pub overflow_bytes: u64,
    /// Strips that were sent.
    pub live: u64,
    /// Nulls that were sent.
    pub null: u64,
    /// Messages of an earlier epoch that came and were dropped.
    pub old: u64,
    /// Messages that came again and were dropped.
    pub duplicates: u64,
    /// Messages that were refused for any other reason.
    pub refused: u64,
}

/// What became of a message that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// All of it is there.
    Whole,
    /// So many bytes at this address of the sender's memory must be fetched: see
    /// [`on_fetched`](Exchange::on_fetched).
    Fetch {
        /// Where, as the sender's transport names it.
        address: u64,
        /// What its memory is named by.
        key: u32,
        /// How many bytes.
        len: u32,
    },
    /// It belongs to the next exchange, or the next epoch: leave it in its slot and hand it in again then.
    Early,
}

/// All that an [`Exchange`] works in; each may be an array, a vector or a slice.
#[derive(Clone, Debug)]
pub struct Storage<P, E, C> {
    /// A record for each peer.
    pub peers: P,
    /// The channels of all plans and those within the rank, each plan sorted by key.
    pub entries: E,
    /// A channel for each entry, with the role that this rank has in it.
    pub channels: C,
    /// The channels within the rank, as a range of the entries.
    pub local: Range<u32>,
}

/// The machine.
#[derive(Debug)]
pub struct Exchange<P, E, C> {
    pub(super) peers: P,
    pub(super) entries: E,
    pub(super) channels: C,
    local: Range<u32>,
    pub(super) config: Config,
    pub(super) sequence: u32,
    pub(super) stage: u8,
    closing: bool,
    due: Time,
    pub(super) counts: Counts,
}

impl<P, E, C> Exchange<P, E, C>
where
    P: AsRef<[Peer]> + AsMut<[Peer]>,
    E: AsRef<[Entry]>,
    C: AsRef<[Channel<()>]> + AsMut<[Channel<()>]>,
{
    /// An exchange that was not begun.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(storage: Storage<P, E, C>, config: Config) -> Result<Self, BuildError> {
        let Storage { mut peers, entries, channels, local } = storage;
        let all = entries.as_ref();
        let (have, lent) = (all.len(), channels.as_ref().len());
        let inside = |range: &Range<u32>| range.start <= range.end && range.end as usize <= have;
        let ranges = peers.as_ref().iter().all(|peer| inside(&peer.out) && inside(&peer.into));
        if have != lent || !ranges || !inside(&local) {
            return Err(BuildError::Storage { entries: have, channels: lent });
        }
        if config.slots == 0 {
            return Err(BuildError::NoSlots);
        }
        for peer in peers.as_mut() {
            peer.plan(config.epoch, all, config.smallest)
                .map_err(|error| BuildError::Plan { rank: peer.rank, error })?;
        }
        let due = Time::NEVER;
        let (sequence, stage, closing, counts) = (0, 0, false, Counts::default());
        Ok(Exchange { peers, entries, channels, local, config, sequence, stage, closing, due, counts })
    }

    /// The peers; their place is their number.
    #[must_use]
    pub fn peers(&self) -> &[Peer] {
        self.peers.as_ref()
    }

    /// All channels' entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        self.entries.as_ref()
    }

    /// The state of a channel.
    #[must_use]
    #[inline]
    pub fn state(&self, channel: u32) -> Option<State> {
        self.channels.as_ref().get(channel as usize).map(Channel::state)
    }

    /// The channels within the rank, whose two ends are here.
    pub fn local(&mut self) -> (Range<u32>, &[Entry], &mut [Channel<()>]) {
        let Range { start, end } = self.local;
        let range = start as usize..end as usize;
        let entries = self.entries.as_ref().get(range.clone()).unwrap_or(&[]);
        (start..end, entries, self.channels.as_mut().get_mut(range).unwrap_or(&mut []))
    }

    /// The exchange that is open or was the last; 0 before the first.
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        self.sequence
    }

    /// What it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Goes on counting where the exchange of an earlier epoch ended.
    pub const fn resume(&mut self, counts: Counts) {
        self.counts = counts;
    }

    /// When the open exchange should be over.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Channels that keep the exchange from being over: of messages that were not sent, not received, or not given up.
    #[must_use]
    pub fn open(&self) -> u32 {
        let sequence = self.sequence;
        let remote = self.peers.as_ref().iter().map(|peer| {
            let unsent = if peer.sent == sequence { 0 } else { peer.out.len() };
            unsent + if peer.released == sequence { 0 } else { peer.into.len() }
        });
        let local = self.channels.as_ref().get(self.local.start as usize..self.local.end as usize).unwrap_or(&[]);
        let local = local.iter().filter(|channel| channel.state() != State::Stale).count();
        (remote.sum::<usize>() + local) as u32
    }

    /// Begins the next exchange.
    ///
    /// # Errors
    /// [`ExchangeError::Open`], [`ExchangeError::Closing`]; [`ExchangeError::Channel`] if a message of the last exchange
    /// is still with the transport.
    pub fn begin(&mut self, stage: u8, now: Time) -> Result<u32, ExchangeError> {
        if self.closing {
            return Err(ExchangeError::Closing);
        }
        match self.open() {
            0 => {}
            channels => return Err(ExchangeError::Open { channels }),
        }
        let (entries, channels) = (self.entries.as_ref(), self.channels.as_mut());
        for peer in self.peers.as_ref() {
            for at in peer.out.clone() {
                let (key, channel) = (entries[at as usize].key, &mut channels[at as usize]);
                match channel.is_available_for_write() {
                    Ok(true) => {}
                    Ok(false) => {
                        let refusal = Refusal::NotWritable { state: channel.state() };
                        return Err(ExchangeError::Channel { key, refusal });
                    }
                    Err(refusal) => return Err(ExchangeError::Channel { key, refusal }),
                }
            }
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.stage = stage;
        self.due = self.config.deadline.map_or(Time::NEVER, |lapse| now + lapse);
        Ok(self.sequence)
    }

    /// Gets all receivers ready. Whoever leaves it out gets the same; it can be repeated.
    ///
    /// # Errors
    /// [`ExchangeError::Channel`] if a channel is none of this rank's.
    pub fn start_receive(&mut self) -> Result<(), ExchangeError> {
        let (entries, channels) = (self.entries.as_ref(), self.channels.as_mut());
        for peer in self.peers.as_ref() {
            for at in peer.into.clone() {
                let start = channels[at as usize].try_start_receive(|| Some(()));
                start.map_err(|refusal| ExchangeError::Channel { key: entries[at as usize].key, refusal })?;
            }
        }
        Ok(())
    }

    /// Whether the message to this peer can be packed now.
    ///
    /// # Errors
    /// [`ExchangeError`] that says what to wait for.
    pub fn may_pack(&self, peer: usize) -> Result<(), ExchangeError> {
        let (at, peer) = (peer, self.peers.as_ref().get(peer));
        let peer = peer.ok_or(ExchangeError::NoPeer { peer: at })?;
        let (rank, sequence, credit) = (peer.rank, self.sequence, peer.credit);
        if sequence == 0 {
            Err(ExchangeError::NotOpen)
        } else if peer.sent == sequence {
            Err(ExchangeError::Sent { rank })
        } else if sequence.wrapping_sub(credit) > self.config.slots {
            Err(ExchangeError::NoCredit { rank, sequence, credit })
        } else {
            Ok(())
        }
    }

    /// Begins the message to a peer; its head is built in `head`, which needs [`head_bytes`](Self::head_bytes).
    ///
    /// # Errors
    /// As [`may_pack`](Self::may_pack), and [`ExchangeError::Short`].
    pub fn pack<'a>(&'a mut self, peer: usize, head: &'a mut [u8]) -> Result<Pack<'a, P, E, C>, ExchangeError> {
        self.may_pack(peer)?;
        let need = self.head_bytes();
        if head.len() < need {
            return Err(ExchangeError::Short { need });
        }
        Pack::new(self, peer, head)
    }

    /// The transport is done with the message to this peer: what was packed may change again.
    pub fn on_sent(&mut self, peer: usize) {
        let Some(peer) = self.peers.as_ref().get(peer) else { return };
        for at in peer.out.clone() {
            self.channels.as_mut()[at as usize].on_sent();
        }
    }

    /// Bytes of the longest head, bitmap included.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        let most = self.peers.as_ref().iter().map(|peer| peer.out.len().max(peer.into.len()));
        HEAD + bitmap_bytes(most.max().unwrap_or(0) as u32)
    }

    /// Who is missing: all channels of the open exchange that are not received.
    pub fn missing(&self) -> impl Iterator<Item = Missing> + '_ {
        let late = self.peers.as_ref().iter().filter(|peer| peer.released != self.sequence);
        late.flat_map(move |peer| {
            let fetching = peer.arrived.is_some_and(|arrived| !arrived.fetched);
            peer.into.clone().filter_map(move |at| {
                let (key, state) =
                    (self.entries.as_ref()[at as usize].key, self.channels.as_ref()[at as usize].state());
                let missing = Missing { rank: peer.rank, key, state, seen: peer.seen, fetching };
                (!state.is_received()).then_some(missing)
            })
        })
    }

    /// From now on no exchange is begun; see [`agree`](super::agree).
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// What this rank says when the mesh is to change.
    #[must_use]
    pub fn vote(&self) -> super::Vote {
        super::Vote { epoch: self.config.epoch, sequence: self.sequence, open: self.open() }
    }
}
