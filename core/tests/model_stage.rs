//! Copies that a service process keeps, against plain sets, over random schedules.
//!
//! A schedule is of asks, leaves, reads that end well or badly, revocations, links that go and deadlines. Who was told
//! to wait is answered exactly once, a slot that is told holds the span that was asked for, and nothing of a region is
//! told after its copies were dropped.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use umbra_core::access::read::Get;
use umbra_core::access::relay::{Asker, CREDIT};
use umbra_core::access::stage::{Counters, Keeping, Lent, Reply, SLOT_BYTES, Stage, Storage, Tag, Waiter, Want};
use umbra_core::cache;
use umbra_core::error::Status;
use umbra_core::key::{Key, Span};
use umbra_core::machine::Link;
use umbra_core::map::Entry;
use umbra_core::peer::{Peer, WorldRank};
use umbra_core::slots::Slot;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Token;

const SLOTS: usize = 4;
const RANKS: u32 = 3;
const SERVERS: u32 = 2;
const KEYS: u32 = 6;
const PATIENCE: Lapse = Lapse(1_000);

enum Vectors {}

impl Storage for Vectors {
    type Slots = Vec<cache::Slot>;
    type Places = Vec<cache::Line>;
    type Ids = Vec<u64>;
    type Tags = Vec<Tag>;
    type Queue = Vec<u32>;
    type Regions = Vec<Slot<Keeping>>;
    type Keys = Vec<Entry<u64, u32>>;
    type Waiters = Vec<Slot<Waiter>>;
    type Links = Vec<u32>;
}

/// Regions are found over the link of their number modulo the servers; the last one is never to be kept.
fn via(region: u32) -> Link {
    Link(RANKS + region % SERVERS)
}

struct World {
    stage: Stage<Vectors>,
    /// What the driver has put into each slot.
    memory: Vec<Option<Span>>,
    /// Generations of the regions: one more after each revocation.
    generations: Vec<u32>,
    /// Leaves asked for and not answered, in order.
    leaves: Vec<(Link, Token, Key)>,
    fills: Vec<Get>,
    /// Who was told to wait, for what, until when.
    waiting: HashMap<u64, (u32, Span, Time)>,
    /// Keys whose copies were dropped.
    dropped: HashSet<Key>,
    read: u64,
    next: u64,
    now: Time,
    /// A link that the reader has no room for.
    deaf: Option<Link>,
}

impl World {
    fn new() -> World {
        World::of(SLOTS)
    }

    fn of(slots: usize) -> World {
        let lent = Lent {
            slots: vec![cache::Slot::EMPTY; slots],
            places: vec![cache::Line::EMPTY; cache::Line::for_ids(slots).max(2)],
            ids: vec![0; slots],
            tags: vec![Tag::NONE; slots],
            queue: vec![0; slots],
            ahead: vec![0; slots],
            regions: (0..4).map(|_| Slot::EMPTY).collect(),
            keys: vec![Entry::EMPTY; 8],
            waiters: (0..12).map(|_| Slot::EMPTY).collect(),
            links: vec![0; (RANKS + SERVERS) as usize],
            hints: vec![0; (RANKS + SERVERS) as usize],
            flying: vec![0; (RANKS + SERVERS) as usize],
        };
        World {
            stage: Stage::new(lent, (1, 2), PATIENCE).unwrap(),
            memory: vec![None; slots],
            generations: vec![1; KEYS as usize],
            leaves: Vec::new(),
            fills: Vec::new(),
            waiting: HashMap::new(),
            dropped: HashSet::new(),
            read: 0,
            next: 0,
            now: Time(0),
            deaf: None,
        }
    }

    fn key(&self, region: u32) -> Key {
        Key::new(Peer::rank(WorldRank(7)).unwrap(), region, self.generations[region as usize])
    }

    fn ask(&mut self, rank: u32, region: u32, offset: u64, len: u64, patience: u64) {
        self.ask_by_key(rank, self.key(region), offset, len, patience);
    }

    fn ask_by_key(&mut self, rank: u32, key: Key, offset: u64, len: u64, patience: u64) {
        let span = Span { key, offset, len };
        let asker = Asker { link: Link(rank), token: Token(self.next) };
        let want = Want { span, via: via(key.region()), deadline: self.now + Lapse(patience) };
        self.next += 1;
        let waits = self.waiting.values().filter(|(link, ..)| *link == rank).count();
        match self.stage.ask(asker, want, self.now) {
            Ok(Reply::Here(slot)) => {
                assert_eq!(self.memory[slot as usize], Some(span));
                assert!(!self.dropped.contains(&span.key), "a copy of a region that was taken back");
            }
            Ok(Reply::Later) => {
                assert!(waits < CREDIT as usize && (1..=SLOT_BYTES).contains(&len));
                self.waiting.insert(asker.token.0, (rank, span, want.deadline));
            }
            Ok(Reply::Elsewhere) => {}
            Err(status) => assert_eq!(status, Status::Full),
        }
    }

    fn expect(&mut self, rank: u32, key: Key, offset: u64, len: u64) -> Result<(), Status> {
        let taken = self.stage.expect(Link(rank), Span { key, offset, len }, via(key.region()), self.now);
        assert!(taken != Ok(()) || (1..=SLOT_BYTES).contains(&len));
        taken
    }

    fn answered(&mut self, asker: Asker) -> (Span, Time) {
        let (rank, span, deadline) = self.waiting.remove(&asker.token.0).expect("an answer to whoever waits, once");
        assert_eq!(Link(rank), asker.link);
        (span, deadline)
    }

    /// Takes all that the machine wants.
    fn turn(&mut self) {
        while let Some(leave) = self.stage.poll_keep() {
            self.leaves.push(leave);
        }
        while let Some((asker, span, deadline)) = self.stage.poll_elsewhere() {
            assert_eq!(self.answered(asker), (span, deadline));
        }
        while let Some(get) = self.stage.poll_fill(self.now, |via| Some(via) != self.deaf) {
            assert_eq!(get.deadline, self.now + PATIENCE);
            self.fills.push(get);
        }
        while let Some((asker, _)) = self.stage.next_late(self.now) {
            assert!(self.answered(asker).1 <= self.now);
        }
    }

    /// Asks for bytes of a region, and has its owner give leave to keep them.
    fn ask_with_leave(&mut self, rank: u32, region: u32, offset: u64) {
        self.ask(rank, region, offset, 8, 100);
        self.turn();
        self.leave();
        self.turn();
    }

    fn leave(&mut self) {
        if self.leaves.is_empty() {
            return;
        }
        let (link, token, key) = self.leaves.remove(0);
        let current = key == self.key(key.region()) && key.region() != KEYS - 1;
        let status = if current { Status::Ok } else { Status::PermissionDenied };
        // Whoever was not asked has no say.
        self.stage.answered(Link(link.0 ^ 1), token, Status::Ok, self.now);
        self.stage.answered(link, token, status, self.now);
        self.stage.answered(link, token, Status::Ok, self.now);
    }

    fn fill(&mut self, which: usize, comes: bool) {
        if self.fills.is_empty() {
            return;
        }
        let get = self.fills.remove(which % self.fills.len());
        let slot = Stage::<Vectors>::slot_of(get.tag).unwrap();
        let span = Span { key: get.region.unwrap().key, offset: get.address, len: get.len };
        if comes {
            self.memory[slot as usize] = Some(span);
            self.read += 1;
        }
        self.stage.ended(slot, comes);
        while let Some(asker) = self.stage.next_answer(slot) {
            assert_eq!(self.answered(asker).0, span);
        }
    }

    fn revoke(&mut self, region: u32) {
        let key = self.key(region);
        // Over another link it is not the region's server who asks.
        self.stage.dropped(Link(via(region).0 ^ 1), key);
        self.stage.dropped(via(region), key);
        self.dropped.insert(key);
        self.generations[region as usize] += 1;
    }

    /// A link goes and comes back: what was asked over it ends.
    fn gone(&mut self, link: u32) {
        self.stage.on_gone(Link(link));
        self.waiting.retain(|_, (rank, ..)| *rank != link);
        self.leaves.retain(|(over, ..)| over.0 != link);
        while let Some(at) = self.fills.iter().position(|get| get.via.0 == link) {
            self.fill(at, false);
        }
    }

    fn step(&mut self, step: (u8, u32, u32, u8)) {
        let (kind, a, b, c) = step;
        match kind {
            0..=9 => {
                let len = [8, 8, 16, 0, SLOT_BYTES, SLOT_BYTES + 1][b as usize % 6];
                // Some ask by a key that they got before a revocation.
                let key = self.key(b % KEYS);
                let before = Key::new(key.owner(), key.region(), (key.generation() - u32::from(c % 4 == 3)).max(1));
                self.ask_by_key(a % RANKS, before, u64::from(c % 3) * 8, len, 50 + u64::from(c));
            }
            10..=12 => self.leave(),
            13..=16 => self.fill(a as usize, c % 5 > 0),
            17 => self.revoke(a % KEYS),
            18 => self.gone(a % (RANKS + SERVERS)),
            19..=22 => {
                let len = [8, 8, 16, 0, SLOT_BYTES, SLOT_BYTES + 1][b as usize % 6];
                let _ = self.expect(a % RANKS, self.key(b % KEYS), u64::from(c % 3) * 8, len);
            }
            _ => self.now = self.now + Lapse(u64::from(c)),
        }
        self.turn();
        assert!(self.stage.used() as usize <= SLOTS && self.stage.regions() <= 4);
        let Counters { prefetched, used, wasted, .. } = self.stage.counters();
        let unused = self.stage.unused();
        assert_eq!(prefetched, used + wasted + u64::from(unused), "each hint that was taken ends once");
        assert!(unused as usize <= SLOTS / 2, "{unused} slots for what nobody may ever read");
    }

    fn finish(&mut self) {
        self.turn();
        while !(self.leaves.is_empty() && self.fills.is_empty()) {
            self.leave();
            self.turn();
            self.fill(0, true);
            self.turn();
        }
        assert!(self.waiting.is_empty(), "{:?} still wait", self.waiting);
        let counted = self.stage.statistics();
        assert!(counted.loads >= self.read, "{} reads that no ask made necessary", self.read);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn everybody_who_waits_is_answered_once_and_no_copy_outlives_its_region(
        steps in prop::collection::vec((0_u8..26, any::<u32>(), any::<u32>(), any::<u8>()), 1..300)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.finish();
    }
}

#[test]
fn a_span_is_read_once_for_all_who_want_it_and_again_only_after_its_region_was_taken_back() {
    let mut world = World::new();
    for rank in 0..RANKS {
        world.ask(rank, 0, 0, 8, 100);
    }
    world.turn();
    assert_eq!((world.leaves.len(), world.fills.len()), (1, 0), "first the leave, once");
    world.leave();
    world.turn();
    assert_eq!(world.fills.len(), 1, "one read for three");
    world.fill(0, true);
    assert!(world.waiting.is_empty());
    for rank in 0..RANKS {
        world.ask(rank, 0, 0, 8, 100);
    }
    assert!(world.waiting.is_empty(), "all three were answered out of the slot");
    assert_eq!((world.stage.counters().bytes, world.stage.statistics().hits), (24, 3));
    world.revoke(0);
    assert_eq!((world.stage.used(), world.stage.regions()), (0, 0));
    world.ask(0, 0, 0, 8, 100);
    world.turn();
    assert_eq!(world.leaves.len(), 1, "another key, another leave");
    world.finish();
    assert_eq!(world.read, 2);
}

#[test]
fn a_read_that_fails_is_told_to_all_who_wait_and_made_again_for_the_next() {
    let mut world = World::new();
    world.ask_with_leave(0, 1, 0);
    world.ask(1, 1, 0, 8, 100);
    world.fill(0, false);
    assert!(world.waiting.is_empty());
    world.ask(1, 1, 0, 8, 100);
    world.turn();
    assert_eq!(world.fills.len(), 1);
    world.finish();
}

#[test]
fn what_may_not_be_kept_is_read_elsewhere_and_not_asked_for_all_the_time() {
    let mut world = World::new();
    let region = KEYS - 1;
    world.ask_with_leave(0, region, 0);
    assert!(world.waiting.is_empty() && world.fills.is_empty());
    for _ in 0..10 {
        world.ask(0, region, 0, 8, 100);
        world.turn();
    }
    assert!(world.leaves.is_empty() && world.waiting.is_empty());
    world.now = world.now + Lapse::from_secs(2);
    world.ask(0, region, 0, 8, 100);
    world.turn();
    assert_eq!(world.leaves.len(), 1, "its owner may have changed its mind");
}

/// What was prefetched, used, wasted, refused.
fn hints(world: &World) -> [u64; 4] {
    let Counters { prefetched, used, wasted, refused, .. } = world.stage.counters();
    [prefetched, used, wasted, refused]
}

#[test]
fn a_hinted_span_is_read_before_it_is_asked_for_and_what_ranks_wait_for_is_read_first() {
    let mut world = World::new();
    let key = world.key(0);
    assert_eq!(world.expect(0, key, 0, 8), Ok(()));
    world.turn();
    assert!(world.fills.is_empty(), "first the leave");
    world.leave();
    world.turn();
    world.fill(0, true);
    // It waits for the next turn; what is asked for after it does not.
    assert_eq!(world.expect(1, key, 8, 8), Ok(()));
    world.ask(2, 0, 16, 8, 100);
    world.turn();
    assert_eq!(world.fills.iter().map(|get| get.address).collect::<Vec<_>>(), [16, 8]);
    world.fill(0, true);
    world.ask(0, 0, 0, 8, 100);
    assert!(world.waiting.is_empty(), "it was there");
    // Another rank asks while it is on its way.
    world.ask(0, 0, 8, 8, 100);
    world.ask(1, 0, 8, 8, 100);
    assert_eq!((world.waiting.len(), world.fills.len()), (2, 1), "one read for two");
    assert_eq!(hints(&world), [2, 2, 0, 0]);
    world.finish();
    assert_eq!(world.read, 3);
}

#[test]
fn hints_take_half_of_the_slots_one_rank_s_a_quarter_and_never_what_is_read() {
    let mut world = World::new();
    let key = world.key(0);
    world.ask_with_leave(0, 0, 80);
    assert_eq!(world.expect(0, key, 0, 8), Ok(()));
    assert_eq!(world.expect(0, key, 0, 8), Ok(()), "it is on its way");
    assert_eq!(world.expect(0, key, 8, 8), Err(Status::Full), "a quarter of four slots");
    assert_eq!(world.expect(1, key, 8, 8), Ok(()));
    assert_eq!(world.expect(2, key, 16, 8), Err(Status::Full), "half of four slots");
    assert_eq!(world.expect(7, key, 16, 8), Err(Status::Full), "nobody's link");
    for len in [0, SLOT_BYTES + 1] {
        assert_eq!(world.expect(2, key, 24, len), Err(Status::OutOfBounds));
    }
    assert_eq!(hints(&world), [2, 0, 0, 5]);
    world.turn();
    // All four slots are waited for: there is no room for a hint, and none for what another wants.
    world.ask(0, 0, 0, 8, 100);
    world.ask(0, 0, 8, 8, 100);
    world.ask(0, 0, 88, 8, 100);
    assert_eq!(hints(&world), [2, 2, 0, 5]);
    assert_eq!((world.stage.used(), world.expect(2, key, 96, 8)), (4, Err(Status::Full)));
    world.finish();
    // Copies that nobody reads now make way.
    assert_eq!(world.expect(2, key, 96, 8), Ok(()));
    world.finish();
}

#[test]
fn what_is_not_used_before_it_leaves_is_wasted_and_makes_room_for_other_hints() {
    let mut world = World::new();
    let (key, other) = (world.key(0), world.key(1));
    assert_eq!((world.expect(0, key, 0, 8), world.expect(1, other, 0, 8)), (Ok(()), Ok(())));
    world.turn();
    world.leave();
    world.leave();
    world.turn();
    assert_eq!(world.fills.len(), 2);
    world.fill(0, true);
    // Its region is taken back while the second is on its way, and the first is there.
    world.revoke(0);
    world.revoke(1);
    world.fill(0, true);
    assert_eq!((hints(&world), world.stage.used()), ([2, 0, 2, 0], 0));
    // Who asks by the old key is asked for leave anew, and by the new one as well.
    world.ask_by_key(0, key, 0, 8, 100);
    assert!(world.waiting.len() == 1, "nothing of it is there");
    world.finish();

    // A rank that goes: what it expected is not read, and others find what was.
    let key = world.key(2);
    assert_eq!(world.expect(0, key, 0, 8), Ok(()));
    world.turn();
    world.gone(0);
    world.finish();
    assert_eq!((hints(&world), world.stage.unused()), ([3, 0, 3, 0], 0));
    // A read ahead that fails is no copy.
    assert_eq!(world.expect(1, key, 8, 8), Ok(()));
    world.turn();
    world.fill(0, false);
    assert_eq!((hints(&world), world.stage.used()), ([4, 0, 4, 0], 1));
    // Content that was asked for since pushes what was expected out.
    assert_eq!(world.expect(1, key, 16, 8), Ok(()));
    world.finish();
    for offset in (32..64).step_by(8) {
        world.ask(2, 2, offset, 8, 100);
        world.turn();
        world.fill(0, true);
    }
    assert_eq!(hints(&world), [5, 0, 5, 0]);
}

#[test]
fn a_server_that_does_not_answer_keeps_no_slot_of_another_one_from_being_filled() {
    let mut world = World::new();
    // Leave for both regions first.
    for region in 0..2 {
        world.ask_with_leave(0, region, 0);
        world.fill(0, true);
    }
    world.deaf = Some(via(0));
    world.ask(0, 0, 8, 8, 100);
    world.ask(0, 0, 16, 8, 100);
    world.ask(1, 1, 8, 8, 100);
    world.turn();
    assert_eq!(world.fills.iter().map(|get| get.via).collect::<Vec<_>>(), [via(1)]);
    world.deaf = None;
    world.turn();
    assert_eq!(
        world.fills.iter().map(|get| (get.via, get.address)).collect::<Vec<_>>()[1..],
        [(via(0), 8), (via(0), 16)]
    );
    world.finish();
}

#[test]
fn a_server_that_does_not_answer_keeps_nothing_from_being_read_ahead_over_another_link() {
    let mut world = World::of(24);
    for region in 0..2 {
        world.ask_with_leave(0, region, 0);
        world.fill(0, true);
    }
    let [silent, other] = [0, 1].map(|region| world.key(region));
    for at in 1..=6 {
        assert_eq!(world.expect(0, silent, 8 * at, 8), Ok(()));
    }
    assert_eq!(world.expect(1, other, 8, 8), Ok(()));
    world.turn();
    let over: Vec<Link> = world.fills.iter().map(|get| get.via).collect();
    assert_eq!(over, [via(0), via(0), via(0), via(0), via(1)], "few over each link");
    world.fill(0, false);
    world.turn();
    assert_eq!(world.fills.iter().map(|get| get.address).collect::<Vec<_>>(), [16, 24, 32, 8, 40], "in turn");
    world.finish();
}

#[test]
fn a_server_that_does_not_answer_keeps_no_slot_for_which_nobody_waits_any_more() {
    // It gives no leave, or is not read over although it gave leave; who waits is late, or goes.
    for (leave, late) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut world = World::new();
        if leave {
            world.ask_with_leave(0, 0, 80);
            world.fill(0, true);
            world.deaf = Some(via(0));
        }
        for at in 0..SLOTS as u64 {
            world.ask(1, 0, 8 * at, 8, 100);
        }
        world.turn();
        assert_eq!((world.waiting.len(), world.fills.len()), (SLOTS, 0));
        if late {
            world.now = world.now + Lapse(100);
            world.turn();
        } else {
            world.gone(1);
        }
        assert!(world.waiting.is_empty());
        world.leaves.clear();
        world.ask_with_leave(2, 1, 0);
        assert_eq!(world.fills.iter().map(|get| get.via).collect::<Vec<_>>(), [via(1)], "{leave}, {late}");
        world.finish();
        assert_eq!(world.stage.counters().elsewhere, 0);
    }
}

#[test]
fn what_waits_to_be_read_over_a_link_that_goes_is_read_elsewhere() {
    let mut world = World::new();
    world.ask_with_leave(0, 0, 0);
    world.fill(0, true);
    world.deaf = Some(via(0));
    world.ask(0, 0, 8, 8, 100);
    world.ask(1, 0, 8, 8, 100);
    world.turn();
    assert_eq!(world.waiting.len(), 2);
    world.gone(via(0).0);
    world.deaf = None;
    world.turn();
    assert!(world.waiting.is_empty() && world.fills.is_empty());
    assert_eq!((world.stage.used(), world.stage.counters().elsewhere), (0, 2));
    world.finish();
}
