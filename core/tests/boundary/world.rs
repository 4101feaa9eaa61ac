//! Ranks with real exchanges over a network that fails as its seed says.
//!
//! The network delays, repeats, loses and damages messages.

use std::collections::VecDeque;

use umbra_core::boundary::{
    Arrival, BuildError, Channel, Config, Element, Entry, Exchange, Key, Kind, Peer, Place, Role, State, Step, Storage,
};
use umbra_core::time::{Lapse, Time};

use crate::random::Random;

pub(crate) type Machine = Exchange<Vec<Peer>, Vec<Entry>, Vec<Channel<()>>, Vec<u64>>;

/// What a message is on its way: head, slot, overflow.
#[derive(Clone)]
pub(crate) struct Parcel {
    pub(crate) head: Vec<u8>,
    pub(crate) slot: Vec<u8>,
    pub(crate) overflow: Vec<u8>,
}

pub(crate) struct Rank {
    pub(crate) machine: Machine,
    /// The message in hand of each peer.
    pub(crate) taken: Vec<Option<Parcel>>,
    pub(crate) waiting: Vec<VecDeque<Parcel>>,
}

pub(crate) struct World {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) random: Random,
    pub(crate) live_percent: u64,
    pub(crate) now: Time,
    seed: u64,
    /// What became late: (from, to, parcel), released at random.
    pub(crate) network: Vec<VecDeque<Parcel>>,
}

/// The channels between all ranks: from each to each as many as the seed says, some of them dense.
pub(crate) fn entries(ranks: usize, seed: u64) -> Vec<(u32, u32, Entry)> {
    let mut random = Random(seed ^ 0xc0ffee);
    let elements: Vec<_> = (0..27).filter_map(Element::from_number).collect();
    let mut all = Vec::new();
    for from in 0..ranks as u32 {
        for to in 0..ranks as u32 {
            let mut keys: Vec<_> = (0..1 + random.index(70))
                .map(|_| Key {
                    sender: from * 100 + random.index(4) as u32,
                    receiver: to * 100 + random.index(4) as u32,
                    field: random.index(3) as u16,
                    element: elements[random.index(26)],
                    kind: Kind::GHOST,
                })
                .collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let (count, always) = (1 + random.index(40) as u32, random.happens(10));
                all.push((from, to, Entry { key, count, always, step: Step::Same }));
            }
        }
    }
    all
}

pub(crate) fn machine(me: u32, ranks: usize, all: &[(u32, u32, Entry)], config: Config) -> Machine {
    try_machine(me, ranks, all, config).unwrap()
}

pub(crate) fn try_machine(
    me: u32,
    ranks: usize,
    all: &[(u32, u32, Entry)],
    config: Config,
) -> Result<Machine, BuildError> {
    let (mut list, mut peers) = (Vec::new(), Vec::new());
    let mut add = |from: u32, to: u32| {
        let start = list.len() as u32;
        for (_, _, entry) in all.iter().filter(|(a, b, _)| (*a, *b) == (from, to)) {
            list.push(*entry);
        }
        start..list.len() as u32
    };
    for other in (0..ranks as u32).filter(|&other| other != me) {
        peers.push(Peer::new(other, add(me, other), add(other, me)));
    }
    let local = add(me, me);
    let within = &list[local.start as usize..];
    let channels = within.iter().map(|entry| Channel::new(Role::Local, entry.count)).collect();
    let live = vec![0; peers.iter().map(Peer::words).sum()];
    Exchange::new(Storage { peers, entries: list, channels, live, local }, config)
}

pub(crate) const CONFIG: Config = Config {
    epoch: 1,
    kind: Kind::GHOST,
    slots: 2,
    smallest: 128,
    largest: u32::MAX,
    deadline: Some(Lapse::from_millis(5)),
};

/// Whether a strip is live in an exchange, and what is in it: known to both sides.
pub(crate) fn content(seed: u64, live_percent: u64, sequence: u32, entry: &Entry) -> Option<u64> {
    let key = entry.key;
    let name = (u64::from(key.sender) << 32 | u64::from(key.receiver))
        ^ u64::from(key.field) << 50
        ^ u64::from(key.element.number()) << 56;
    let mut random = Random(seed ^ name.wrapping_mul(31) ^ u64::from(sequence).wrapping_mul(0x1234_5678_9abc_def1));
    let live = entry.always || random.happens(live_percent);
    live.then(|| random.bits() | 1)
}

impl World {
    pub(crate) fn new(ranks: usize, seed: u64, live_percent: u64, config: Config) -> World {
        let all = entries(ranks, seed);
        let each = |me| Rank {
            machine: machine(me, ranks, &all, config),
            taken: vec![None; ranks - 1],
            waiting: vec![VecDeque::new(); ranks - 1],
        };
        World {
            ranks: (0..ranks as u32).map(each).collect(),
            random: Random(seed),
            live_percent,
            now: Time(0),
            seed,
            network: vec![VecDeque::new(); ranks * ranks],
        }
    }

    /// Packs and posts the message of a rank to its peer; false if there is no credit yet.
    pub(crate) fn send(&mut self, rank: usize, peer: usize) -> bool {
        let (seed, percent, ranks) = (self.seed, self.live_percent, self.ranks.len());
        let machine = &mut self.ranks[rank].machine;
        if machine.may_pack(peer).is_err() {
            return false;
        }
        let sequence = machine.sequence();
        let mut head = vec![0; machine.head_bytes()];
        let (mut slot, mut overflow) = (Vec::new(), Vec::new());
        let mut pack = machine.pack(peer, &mut head).unwrap();
        for turn in sequence.. {
            // Now many at once, now one for itself.
            if turn.is_multiple_of(2) {
                pack.nulls(|entry| content(seed, percent, sequence, entry).is_none());
            }
            let Some(entry) = pack.channel() else { break };
            let Some(value) = content(seed, percent, sequence, entry) else {
                pack.null().unwrap();
                continue;
            };
            let (area, at) = match pack.live().unwrap() {
                Place::Slot(at) => (&mut slot, at as usize),
                Place::Overflow(at) => (&mut overflow, at as usize),
            };
            let end = at + entry.bytes() as usize;
            area.resize(area.len().max(end), 0);
            area[at..end].as_chunks_mut::<8>().0.iter_mut().for_each(|to| *to = value.to_le_bytes());
        }
        let message = pack.commit(0x1000, 7).unwrap();
        machine.on_sent(peer);
        head.truncate(message.head);
        assert_eq!(overflow.len() as u32, message.overflow);
        self.network[rank * ranks + message.rank as usize].push_back(Parcel { head, slot, overflow });
        true
    }

    /// One message of the network arrives at its rank, in the order of its pair.
    pub(crate) fn deliver(&mut self, from: usize, to: usize) {
        let at = from * self.ranks.len() + to;
        if let Some(parcel) = self.network[at].pop_front() {
            self.ranks[to].waiting[from - usize::from(from > to)].push_back(parcel);
        }
    }

    /// A rank looks at what came from a peer; what it is not ready for stays.
    pub(crate) fn receive(&mut self, rank: usize, peer: usize) {
        let Rank { machine, taken, waiting } = &mut self.ranks[rank];
        let Some(parcel) = waiting[peer].front() else { return };
        match machine.on_message(peer, &parcel.head) {
            Ok(Arrival::Early) => {}
            Ok(arrival) => {
                if let Arrival::Fetch { address, key, len } = arrival {
                    assert_eq!((address, key, len as usize), (0x1000, 7, parcel.overflow.len()));
                    assert!(!machine.is_received(peer), "some is still with the sender");
                    machine.on_fetched(peer).unwrap();
                }
                taken[peer] = waiting[peer].pop_front();
            }
            Err(_) => {
                waiting[peer].pop_front();
            }
        }
    }

    /// Compares all strips of a peer with what they must be, and gives them up.
    pub(crate) fn set(&mut self, rank: usize, peer: usize) {
        let (seed, percent) = (self.seed, self.live_percent);
        let Rank { machine, taken, .. } = &mut self.ranks[rank];
        let (sequence, parcel) = (machine.sequence(), taken[peer].take().unwrap());
        // Fields are present in some places, as it happens.
        let present = |entry: &Entry| (u64::from(entry.key.field) ^ seed ^ u64::from(sequence)).is_multiple_of(3);
        let (mut handed, mut asked) = (Vec::new(), 0);
        let mut channels = machine.unpack(peer).unwrap();
        while let Some((entry, place)) = channels.payload() {
            handed.push((entry.key, Some(place)));
        }
        while let Some(entry) = channels.null(|entry| {
            asked += 1;
            present(entry)
        }) {
            handed.push((entry.key, None));
        }
        let mut listed: Vec<_> = machine.strips(peer).unwrap().map(|(_, entry, place)| (*entry, place)).collect();
        assert_eq!(asked, listed.iter().filter(|(entry, _)| !entry.always).count(), "seed {seed}: once about each");
        listed.retain(|(entry, place)| place.is_some() || present(entry));
        listed.sort_by_key(|(_, place)| place.is_none());
        assert_eq!(handed, listed.iter().map(|(entry, place)| (entry.key, *place)).collect::<Vec<_>>(), "seed {seed}");
        for (at, entry, place) in machine.strips(peer).unwrap() {
            let expected = content(seed, percent, sequence, entry);
            assert_eq!(place.is_some(), expected.is_some(), "seed {seed}: {}", entry.key);
            assert_eq!(machine.state(at), Some(if place.is_some() { State::Received } else { State::ReceivedNull }));
            let Some(place) = place else { continue };
            let bytes = match place {
                Place::Slot(at) => &parcel.slot[at as usize..],
                Place::Overflow(at) => &parcel.overflow[at as usize..],
            };
            for word in bytes[..entry.bytes() as usize].as_chunks::<8>().0 {
                assert_eq!(Some(u64::from_le_bytes(*word)), expected, "seed {seed}: {}", entry.key);
            }
        }
        machine.release(peer).unwrap();
    }

    /// The channels within a rank, all at once.
    pub(crate) fn pass_local(&mut self, rank: usize) {
        let (_, _, channels) = self.ranks[rank].machine.local();
        for channel in channels {
            channel.send().unwrap();
            assert_eq!(channel.try_receive(|| None), Ok(true));
            channel.stale().unwrap();
        }
    }

    /// Runs until every rank has done so many exchanges, in an order that the seed chooses; false if nothing moves.
    pub(crate) fn run(&mut self, exchanges: u32) -> bool {
        let ranks = self.ranks.len();
        let mut idle = 0;
        while idle < 20_000 {
            let rank = self.random.index(ranks);
            if self.ranks.iter().all(|rank| rank.machine.sequence() == exchanges && rank.machine.open() == 0) {
                return true;
            }
            idle += 1;
            let machine = &mut self.ranks[rank].machine;
            if machine.open() == 0 && machine.sequence() < exchanges {
                machine.begin((machine.sequence() % 3) as u8, self.now).unwrap();
                self.pass_local(rank);
                idle = 0;
            }
            if ranks == 1 {
                continue;
            }
            let peer = self.random.index(ranks - 1);
            let other = peer + usize::from(peer >= rank);
            match self.random.index(4) {
                0 => idle *= usize::from(!self.send(rank, peer)),
                1 => self.deliver(other, rank),
                2 => self.receive(rank, peer),
                _ if self.ranks[rank].machine.is_received(peer) && self.ranks[rank].taken[peer].is_some() => {
                    self.set(rank, peer);
                    idle = 0;
                }
                _ => {}
            }
        }
        false
    }
}
