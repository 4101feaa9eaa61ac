//! Owners, servers and askers against plain memory, over random schedules.
//!
//! A schedule is of frames, copies, revocations, deadlines and deaths. Every read ends exactly once, with the owner's
//! bytes or a typed error, and nothing is copied from a region after its revocation was answered.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use umbra_core::access::own::{Event as Owned, Owner, Question};
use umbra_core::access::read::{Bytes, Get, Landing, Piece, Place, ReadError, Reader, Server, Waiting};
use umbra_core::access::serve::{Action, Asker, Copy, Direction, Job, Reply, STEP, Serve};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::machine::{self, Link};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::pending::Request;
use umbra_core::region::{Entry, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::Locator;
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, Frame, HEAD};

const ASKERS: usize = 3;
const MEMORY: u64 = 5 * SLOT;
const BASE: u64 = 0x10_0000;
const SLOTS: u32 = 4;
/// A full slot takes two steps.
const SLOT: u64 = STEP + 3_600;
const RANK_LINK: Link = Link(ASKERS as u32);

type Serving = Serve<Vec<Entry>, Vec<Slot<Job>>, Vec<Asker>>;
type Asking = Reader<Vec<Request<Waiting>>, Vec<Slot<Piece>>, Vec<Place>, Vec<Server>>;
type Owning = Owner<Vec<Entry>, Vec<Request<Question>>>;

/// One rank, its service process, and the service processes that ask.
struct World {
    memory: Vec<u8>,
    owner: Owning,
    exported: Option<Key>,
    revoking: bool,
    serve: Serving,
    attached: HashMap<usize, Key>,
    copies: Vec<Copy>,
    askers: Vec<Asking>,
    landings: Vec<Vec<u8>>,
    /// Frames on their way, to and from each asker, and to and from the rank.
    to: Vec<VecDeque<Vec<u8>>>,
    from: Vec<VecDeque<Vec<u8>>>,
    reads: HashMap<u64, (u64, Vec<u8>, bool)>,
    ended: HashMap<u64, Result<(), ReadError>>,
    next: u64,
    now: Time,
    forbidden: Option<Key>,
}

fn frames<const N: usize>() -> Vec<VecDeque<Vec<u8>>> {
    (0..N).map(|_| VecDeque::new()).collect()
}

fn slots<T>(n: usize) -> Vec<Slot<T>> {
    (0..n).map(|_| Slot::EMPTY).collect()
}

fn requests<T>(n: usize) -> Vec<Request<T>> {
    (0..n).map(|_| Request::EMPTY).collect()
}

fn pattern(version: u8) -> Vec<u8> {
    (0..MEMORY).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ version).collect()
}

fn rank() -> Peer {
    Peer::rank(WorldRank(7)).unwrap()
}

impl World {
    fn new(in_segment: bool) -> World {
        let mut serve = Serve::new(Sp(0), vec![Entry::VACANT; 8], slots(16), vec![Asker::default(); ASKERS + 1]);
        serve.on_link(RANK_LINK, rank(), Incarnation(5), 0, 0).unwrap();
        let mut askers = Vec::new();
        for n in 0..ASKERS {
            let landing = if in_segment { u64::from(SLOTS) * SLOT } else { 0 };
            let sp = Peer::service(Sp(1 + n as u32)).unwrap();
            serve.on_link(Link(n as u32), sp, Incarnation(9), landing, SLOTS).unwrap();
            let tables = (requests(8), slots(16), vec![Place::default(); 4], vec![Server::default(); 1]);
            let mut asker: Asking = Reader::new(tables.0, tables.1, tables.2, tables.3);
            let landing = match in_segment {
                true => Landing::Segment { slots: SLOTS, slot_bytes: SLOT },
                false => Landing::Inline { requests: SLOTS },
            };
            asker.on_link(Link(0), Sp(0), landing).unwrap();
            askers.push(asker);
        }
        World {
            memory: pattern(0),
            owner: Owner::new(rank(), Incarnation(5), vec![Entry::VACANT; 2], requests(8)),
            exported: None,
            revoking: false,
            serve,
            attached: HashMap::new(),
            copies: Vec::new(),
            askers,
            landings: vec![vec![0; (u64::from(SLOTS) * SLOT) as usize]; ASKERS],
            to: frames::<{ ASKERS + 1 }>(),
            from: frames::<{ ASKERS + 1 }>(),
            reads: HashMap::new(),
            ended: HashMap::new(),
            next: 0,
            now: Time(1),
            forbidden: None,
        }
    }

    fn export(&mut self) {
        let shadows = [Sp(0)].into_iter().collect();
        let locator = Locator::Process { pid: 1, start: 1 };
        let deadline = Time::NEVER;
        let region =
            self.owner.export(BASE, MEMORY, Access::READ, shadows, Secret([3; 32]), locator, deadline).unwrap();
        self.exported = Some(region.key);
        self.pump_owner();
    }

    fn pump_owner(&mut self) {
        let mut buffer = [0; 256];
        while let Some(send) = self.owner.poll(self.now, &mut buffer) {
            assert_eq!(send.to, Sp(0));
            self.to[ASKERS].push_back(buffer[..send.len_bytes].to_vec());
        }
    }

    fn get(&mut self, asker: usize, at: u64, len: u64, patience: u64, now: bool) {
        let tag = self.next;
        self.next += 1;
        let deadline = Time(self.now.0 + patience);
        let get = Get { owner: rank(), via: Link(0), address: BASE + at, len, deadline, tag, region: None };
        let (askers, to) = (&mut self.askers, &mut self.to[asker]);
        let send = |words: [u64; 8]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let len = Frame::announced_len(bytes.first_chunk().unwrap()).unwrap();
            // A link that is full: nothing may have happened.
            let sent = tag % 5 != 4;
            if sent {
                to.push_back(bytes[..len].to_vec());
            }
            sent
        };
        let asked = now && askers[asker].get_now(&get, send).is_some();
        if asked || self.askers[asker].get(get).is_ok() {
            self.reads.insert(tag, (at, vec![0xEE; len as usize], false));
        }
        self.pump_asker(asker);
    }

    fn pump_asker(&mut self, n: usize) {
        let mut buffer = vec![0; HEAD + BODY_MAX];
        while let Some(action) = self.askers[n].poll(&mut buffer) {
            match action {
                machine::Action::Send { len_bytes, .. } => self.to[n].push_back(buffer[..len_bytes].to_vec()),
                machine::Action::Event(ended) => self.end(ended.tag, ended.outcome),
                other => panic!("{other:?}"),
            }
        }
    }

    fn end(&mut self, tag: u64, outcome: Result<(), ReadError>) {
        assert!(self.ended.insert(tag, outcome).is_none(), "read {tag} ended twice");
    }

    /// The server takes one frame of one link; `now`: its engine copies at once what may be copied at once.
    fn server_hears(&mut self, n: usize, now: bool) {
        let Some(bytes) = self.to[n].pop_front() else { return };
        let frame = Frame::parse(&bytes).unwrap();
        if now && let Some(answer) = self.serve_now(n, &frame) {
            self.from[n].push_back(answer);
            return self.server_polls(3);
        }
        match self.serve.on_frame(Link(n as u32), &frame) {
            Reply::Answer(answer) => self.from[n].push_back(emit(&answer.frame())),
            Reply::Copy(copy) => self.copies.push(copy),
            Reply::Store(..) => panic!("nobody writes here"),
            Reply::Attach(attach) => {
                self.attached.insert(attach.place, attach.region.key);
                let answer = self.serve.attached(&attach, Status::Ok);
                self.from[n].push_back(emit(&answer.frame()));
            }
            Reply::Later => {}
        }
        self.server_polls(3);
    }

    fn serve_now(&mut self, n: usize, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let World { serve, memory, attached, landings, forbidden, .. } = self;
        let answer = serve.read_now(Link(n as u32), frame, |piece| {
            let key = attached.get(&piece.place).copied();
            assert!(key.is_some() && key != *forbidden, "a copy from a region whose revocation was answered");
            assert_eq!(piece.address, BASE + piece.offset);
            assert!(piece.len <= STEP, "a step is short");
            let source = &memory[piece.offset as usize..(piece.offset + piece.len) as usize];
            landings[n][piece.landing as usize..(piece.landing + piece.len) as usize].copy_from_slice(source);
            Some(Status::Ok)
        });
        answer.map(|answer| emit(&answer.frame()))
    }

    fn server_polls(&mut self, most: usize) {
        for _ in 0..most {
            match self.serve.poll() {
                Some(Action::Copy(copy)) => self.copies.push(copy),
                Some(Action::Answer(answer)) => self.from[answer.link.index()].push_back(emit(&answer.frame())),
                Some(Action::Detach { place, key }) => assert_eq!(self.attached.remove(&place), Some(key)),
                None => break,
            }
        }
    }

    /// The server's engine carries out one of the copies that are under way.
    fn copy(&mut self, which: usize) {
        if self.copies.is_empty() {
            return;
        }
        let copy = self.copies.swap_remove(which % self.copies.len());
        let key = self.attached.get(&copy.place).copied();
        assert_eq!(copy.address, BASE + copy.offset);
        assert!(copy.len <= STEP || copy.direction == Direction::ToFrame, "a step is short");
        let range = copy.offset as usize..(copy.offset + copy.len) as usize;
        let source = self.memory[range].to_vec();
        let n = copy.link.index();
        assert!(key.is_some() && key != self.forbidden, "a copy from a region whose revocation was answered");
        let direction = copy.direction;
        if direction == Direction::ToLanding {
            self.landings[n][copy.landing as usize..(copy.landing + copy.len) as usize].copy_from_slice(&source);
        }
        if let Some(answer) = self.serve.copied(copy, Status::Ok) {
            let Frame::Done { op, token, status, body } = answer.frame() else { panic!("an answer is a Done") };
            let body = if direction == Direction::ToFrame { &source } else { body };
            self.from[n].push_back(emit(&Frame::Done { op, token, status, body }));
        }
        self.server_polls(1);
    }

    fn asker_hears(&mut self, n: usize) {
        let Some(bytes) = self.from[n].pop_front() else { return };
        let frame = Frame::parse(&bytes).unwrap();
        if n == ASKERS {
            match self.owner.on_frame(Sp(0), &frame, self.now) {
                Some(Owned::Revoked { key, last, .. }) => {
                    assert!(last);
                    self.forbidden = Some(key);
                    self.revoking = false;
                    self.exported = None;
                    // The memory is the owner's alone again: other contents, and a new region over it.
                    self.memory = pattern(self.next as u8 | 1);
                    self.export();
                }
                Some(Owned::Exported { status, .. }) => assert_eq!(status, Status::Ok),
                other => panic!("{other:?}"),
            }
            return;
        }
        if let Some(delivery) = self.askers[n].on_frame(Link(0), &frame) {
            let (at, bytes, done) = self.reads.get_mut(&delivery.tag).unwrap();
            assert!(!*done, "bytes after the last delivery");
            let (start, mut taken) = (delivery.at as usize, Vec::new());
            match delivery.bytes {
                Bytes::Inline(inline) => taken.extend_from_slice(inline),
                Bytes::Landed(landed) => {
                    let range = landed.offset as usize..(landed.offset + landed.len) as usize;
                    taken.extend_from_slice(&self.landings[n][range]);
                    self.askers[n].consumed(landed);
                }
            }
            bytes[start..start + taken.len()].copy_from_slice(&taken);
            if delivery.last {
                *done = true;
                let (at, bytes) = (*at as usize, bytes.clone());
                self.check(at, &bytes);
                self.end(delivery.tag, Ok(()));
            }
        }
        self.pump_asker(n);
    }

    /// A read that ended well has the bytes of one version of the memory, never a mixture.
    fn check(&self, at: usize, bytes: &[u8]) {
        let version = bytes[0] ^ (at as u8).wrapping_mul(31) ^ (at >> 8) as u8;
        assert_eq!(bytes, &pattern(version)[at..at + bytes.len()], "bytes of two versions, or of none");
    }

    fn time(&mut self, by: u64) {
        self.now = Time(self.now.0 + by);
        for n in 0..ASKERS {
            self.askers[n].on_time(self.now);
            self.pump_asker(n);
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let idle = self.to.iter().chain(&self.from).all(VecDeque::is_empty) && self.copies.is_empty();
            if idle && self.ended.len() == self.reads.len() && !self.revoking {
                return;
            }
            (0..=ASKERS).for_each(|n| self.server_hears(n, n % 2 == 0));
            self.copy(0);
            self.server_polls(4);
            (0..=ASKERS).for_each(|n| self.asker_hears(n));
        }
        panic!("{} of {} reads ended", self.ended.len(), self.reads.len());
    }
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len_bytes()];
    let len = frame.emit(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

#[derive(Clone, Debug)]
enum Step {
    Get { asker: usize, at: u64, len: u64, patience: u64, now: bool },
    Serve(usize, bool),
    Copy(usize),
    Hear(usize),
    Revoke,
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![3 => 1u64..64, 2 => 1u64..3 * SLOT, 1 => Just(MEMORY)];
    prop_oneof![
        3 => (0..ASKERS, 0u64..90_000, len, prop_oneof![Just(1_000_000u64), 1u64..60], any::<bool>()).prop_map(
            |(asker, at, len, patience, now)| Step::Get { asker, at, len: len.min(MEMORY - at), patience, now }
        ),
        6 => (0..=ASKERS, any::<bool>()).prop_map(|(n, now)| Step::Serve(n, now)),
        6 => any::<usize>().prop_map(Step::Copy),
        6 => (0..=ASKERS).prop_map(Step::Hear),
        1 => Just(Step::Revoke),
        1 => (0u64..20).prop_map(Step::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn every_read_ends_once_with_one_version_of_the_bytes(
        in_segment in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..250),
    ) {
        let mut world = World::new(in_segment);
        world.export();
        for step in steps {
            match step {
                Step::Get { asker, at, len, patience, now } => world.get(asker, at, len, patience, now),
                Step::Serve(n, now) => world.server_hears(n, now),
                Step::Copy(which) => world.copy(which),
                Step::Hear(n) => world.asker_hears(n),
                Step::Revoke => {
                    if let Some(key) = world.exported
                        && !world.revoking
                    {
                        world.owner.revoke(key, false, Time::NEVER).unwrap();
                        world.revoking = true;
                        world.pump_owner();
                    }
                }
                Step::Time(by) => world.time(by),
            }
        }
        world.settle();
        for (tag, outcome) in &world.ended {
            match outcome {
                Ok(()) => {}
                Err(ReadError::Timeout { missing: Sp(0) }) => {}
                Err(ReadError::Refused(Status::KeyRevoked | Status::StaleKey | Status::UnknownRegion)) => {}
                other => prop_assert!(false, "read {tag}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_server_that_dies_fails_every_read_that_was_asked_of_it() {
    let mut world = World::new(true);
    world.export();
    for n in 0..6 {
        world.get(0, n * 1000, 50_000, 1_000_000, false);
    }
    (0..4).for_each(|_| world.server_hears(0, false));
    world.askers[0].on_gone(Link(0));
    world.pump_asker(0);
    assert_eq!(world.ended.len(), 6);
    assert!(world.ended.values().all(|outcome| *outcome == Err(ReadError::PeerFailed { sp: Sp(0) })));
    assert_eq!(world.askers[0].outstanding(), 0);
}

#[test]
fn an_owner_that_dies_ends_the_reads_of_its_memory_with_owner_gone() {
    let mut world = World::new(true);
    world.export();
    world.server_hears(ASKERS, false);
    world.get(0, 0, MEMORY, 1_000_000, false);
    world.server_hears(0, false);
    world.asker_hears(0);
    (0..4).for_each(|_| world.server_hears(0, false));
    assert_eq!(world.copies.len(), 1, "a step is under way");
    world.serve.on_gone(RANK_LINK);
    world.server_polls(10);
    assert!(world.attached.is_empty(), "its memory is unmapped");
    let copy = world.copies.pop().unwrap();
    if let Some(answer) = world.serve.copied(copy, Status::OwnerGone) {
        world.from[0].push_back(emit(&answer.frame()));
    }
    world.settle();
    assert_eq!(world.ended[&0], Err(ReadError::Refused(Status::OwnerGone)));
    world.get(1, 0, 1, 1_000_000, false);
    world.settle();
    assert_eq!(world.ended[&1], Err(ReadError::Refused(Status::OwnerGone)));
}

#[test]
fn a_large_read_of_one_asker_does_not_hold_up_another() {
    let mut world = World::new(true);
    world.export();
    world.server_hears(ASKERS, false);
    for n in 0..2 {
        world.get(n, 0, SLOT, 1_000_000, false);
        world.server_hears(n, false);
        world.asker_hears(n);
        world.server_hears(n, false);
    }
    let turns: Vec<u32> = (0..2).map(|at| world.copies[at].link.0).collect();
    assert_eq!(turns, [0, 1], "the askers take turns step by step");
}

#[test]
fn credits_bound_what_an_asker_has_outstanding() {
    let mut world = World::new(true);
    world.export();
    world.server_hears(ASKERS, false);
    world.get(0, 0, MEMORY, 1_000_000, false);
    world.server_hears(0, false);
    world.asker_hears(0);
    assert_eq!(world.to[0].len(), SLOTS as usize, "one request a slot");
    // A peer that does not keep to its credit is refused, whatever it asks.
    let again: Vec<Vec<u8>> = world.to[0].iter().cloned().collect();
    world.to[0].extend(again);
    (0..2 * SLOTS).for_each(|_| world.server_hears(0, false));
    let refused = world.from[0]
        .iter()
        .filter(|bytes| matches!(Frame::parse(bytes).unwrap(), Frame::Done { status: Status::Full, .. }));
    assert_eq!(refused.count(), SLOTS as usize);
}
