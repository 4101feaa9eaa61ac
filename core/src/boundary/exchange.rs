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
//! Channels between ranks change their states together, by the message that they share; so what is kept of them is a bit
//! each, whether it is live, and the state follows from how far the message is.
//!
//! *Cost*: packing is O(channels of the peer), using what came O(channels), all else O(channels / 64); nothing allocates.

use core::ops::Range;

use super::channel::Channel;
use super::header::{HEAD, bitmap_bytes};
use super::pack::Pack;
use super::peer::Peer;
use super::plan::{Entry, Kind};
use super::refuse::{BuildError, ExchangeError, Missing};
use super::state::State;
use crate::time::{Lapse, Time};

/// What an exchange must know before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Which life of the mesh: one more after each change of it.
    pub epoch: u32,
    /// Which kind of exchange.
    pub kind: Kind,
    /// Slots of each ordered pair, so many messages may be under way: two or a larger power of two.
    pub slots: u32,
    /// Bytes of a slot at least; that is what it begins with. A peer is taken to have chosen the same until it says otherwise:
    /// [`on_wish`](Exchange::on_wish).
    pub smallest: u32,
    /// Bytes of a slot at most, whatever comes; more of a message is fetched. A message is never larger than `u32::MAX`.
    pub largest: u32,
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
pub struct Storage<P, E, C, B> {
    /// A record for each peer.
    pub peers: P,
    /// The channels of all plans and those within the rank, each plan sorted by key.
    pub entries: E,
    /// A channel for each entry within the rank.
    pub channels: C,
    /// A bit for each channel of a plan: as many as [`Peer::words`] says, of all peers together.
    pub live: B,
    /// The channels within the rank, as a range of the entries.
    pub local: Range<u32>,
}

/// The machine.
#[derive(Debug)]
pub struct Exchange<P, E, C, B> {
    pub(super) peers: P,
    pub(super) entries: E,
    channels: C,
    pub(super) live: B,
    local: Range<u32>,
    pub(super) config: Config,
    pub(super) sequence: u32,
    /// Whether an exchange was begun in this epoch: their numbers come round, and 0 is one of them.
    begun: bool,
    pub(super) stage: u8,
    closing: bool,
    due: Time,
    pub(super) counts: Counts,
}

impl<P, E, C, B> Exchange<P, E, C, B>
where
    P: AsRef<[Peer]> + AsMut<[Peer]>,
    E: AsRef<[Entry]>,
    C: AsRef<[Channel<()>]> + AsMut<[Channel<()>]>,
    B: AsRef<[u64]> + AsMut<[u64]>,
{
    /// An exchange that was not begun.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(storage: Storage<P, E, C, B>, config: Config) -> Result<Self, BuildError> {
        let Storage { mut peers, entries, channels, live, local } = storage;
        let all = entries.as_ref();
        let (have, lent) = (all.len(), channels.as_ref().len());
        let inside = |range: &Range<u32>| range.start <= range.end && range.end as usize <= have;
        let ranges = peers.as_ref().iter().all(|peer| inside(&peer.out) && inside(&peer.into));
        if local.len() != lent || !ranges || !inside(&local) {
            return Err(BuildError::Storage { entries: have, channels: lent });
        }
        // Credit for a message travels with the next one, so one slot would wait for itself. And numbers of exchanges, which
        // come round, go from slot to slot also where they do.
        if config.slots < 2 || !config.slots.is_power_of_two() {
            return Err(BuildError::Slots { slots: config.slots });
        }
        let Config { smallest, largest, .. } = config;
        if smallest > largest {
            return Err(BuildError::Bounds { smallest, largest });
        }
        let mut words = 0;
        for peer in peers.as_mut() {
            let (rank, head) = (peer.rank, (HEAD + bitmap_bytes(peer.into.len() as u32)) as u64);
            if head > u64::from(largest) {
                return Err(BuildError::Head { rank, head, largest });
            }
            peer.plan(config.epoch, all, [smallest, largest])
                .map_err(|error| BuildError::Plan { rank: peer.rank, error })?;
            peer.first_word = words;
            words += peer.words();
        }
        let lent = live.as_ref().len();
        if lent < words {
            return Err(BuildError::Live { lent, words });
        }
        let due = Time::NEVER;
        let (sequence, begun, stage, closing, counts) = (0, false, 0, false, Counts::default());
        Ok(Exchange { peers, entries, channels, live, local, config, sequence, begun, stage, closing, due, counts })
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

    /// The state of a channel, by its place among the entries.
    #[must_use]
    pub fn state(&self, channel: u32) -> Option<State> {
        if self.local.contains(&channel) {
            return self.channels.as_ref().get((channel - self.local.start) as usize).map(Channel::state);
        }
        let is_live = |words: &[u64], nth: u32| words.get(nth as usize / 64).is_some_and(|w| w >> (nth % 64) & 1 == 1);
        self.peers.as_ref().iter().find_map(|peer| {
            if peer.out.contains(&channel) {
                let live = is_live(&self.live.as_ref()[peer.out_words()], channel - peer.out.start);
                Some(if !peer.held {
                    State::Stale
                } else if live {
                    State::Sending
                } else {
                    State::SendingNull
                })
            } else if peer.into.contains(&channel) {
                let live = is_live(&self.live.as_ref()[peer.inbound_words()], channel - peer.into.start);
                Some(match peer.arrived {
                    None => State::Stale,
                    Some(_) if !live => State::ReceivedNull,
                    Some(arrived) if arrived.has(channel - peer.into.start) => State::Received,
                    Some(_) => State::Stale,
                })
            } else {
                None
            }
        })
    }

    /// The channels within the rank, whose two ends are here.
    pub fn local(&mut self) -> (Range<u32>, &[Entry], &mut [Channel<()>]) {
        let Range { start, end } = self.local;
        let entries = self.entries.as_ref().get(start as usize..end as usize).unwrap_or(&[]);
        (start..end, entries, self.channels.as_mut())
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

    /// Changes how long an exchange may take, from the next one on.
    pub const fn set_deadline(&mut self, deadline: Option<Lapse>) {
        self.config.deadline = deadline;
    }

    /// Channels that keep the exchange from being over: of messages that were not sent, not received, or not given up.
    #[must_use]
    pub fn open(&self) -> u32 {
        let sequence = self.sequence;
        let remote = self.peers.as_ref().iter().map(|peer| {
            let unsent = if peer.sent == sequence { 0 } else { peer.out.len() };
            unsent + if peer.released == sequence { 0 } else { peer.into.len() }
        });
        let local = self.channels.as_ref().iter().filter(|channel| channel.state() != State::Stale).count();
        (remote.sum::<usize>() + local) as u32
    }

    /// Begins the next exchange.
    ///
    /// # Errors
    /// [`ExchangeError::Open`], [`ExchangeError::Closing`]; [`ExchangeError::Held`] if a message of the last exchange is
    /// still with the transport.
    pub fn begin(&mut self, stage: u8, now: Time) -> Result<u32, ExchangeError> {
        if self.closing {
            return Err(ExchangeError::Closing);
        }
        match self.open() {
            0 => {}
            channels => return Err(ExchangeError::Open { channels }),
        }
        if let Some(peer) = self.peers.as_ref().iter().find(|peer| peer.held) {
            return Err(ExchangeError::Held { rank: peer.rank });
        }
        for peer in self.peers.as_mut() {
            peer.room = peer.announced;
        }
        (self.sequence, self.begun) = (self.sequence.wrapping_add(1), true);
        self.stage = stage;
        self.due = self.config.deadline.map_or(Time::NEVER, |lapse| now + lapse);
        Ok(self.sequence)
    }

    /// Whether the message to this peer can be packed now.
    ///
    /// # Errors
    /// [`ExchangeError`] that says what to wait for.
    pub fn may_pack(&self, peer: usize) -> Result<(), ExchangeError> {
        let (at, peer) = (peer, self.peers.as_ref().get(peer));
        let peer = peer.ok_or(ExchangeError::NoPeer { peer: at })?;
        let (rank, sequence, credit) = (peer.rank, self.sequence, peer.credit);
        if !self.begun {
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
    pub fn pack<'a>(&'a mut self, peer: usize, head: &'a mut [u8]) -> Result<Pack<'a>, ExchangeError> {
        self.may_pack(peer)?;
        let need = self.head_bytes();
        if head.len() < need {
            return Err(ExchangeError::Short { need });
        }
        Pack::new(self, peer, head)
    }

    /// The transport is done with the message to this peer: what was packed may change again.
    pub fn on_sent(&mut self, peer: usize) {
        if let Some(peer) = self.peers.as_mut().get_mut(peer) {
            peer.held = false;
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
                let (key, state) = (self.entries.as_ref()[at as usize].key, self.state(at).unwrap_or(State::Stale));
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

#[cfg(all(test, not(loom)))]
mod tests;
