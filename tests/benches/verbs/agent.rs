//! The whole read of an agent: look-up, authorisation, post, completion, answer.

use std::sync::Arc;

use umbra::access::exposure::any_port;
use umbra::access::rdma::Rdma;
use umbra::sys::segment::Segment;
use umbra_core::access::message::{Export, FETCH};
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{Descriptor, Endpoints, Group, JobKey, Shape, Table, TableBuilder};
use umbra_core::error::Status;
use umbra_core::id::{Generation, Id};
use umbra_core::key::{Access, Key, Span};
use umbra_core::memory::Block;
use umbra_core::peer::{Host, LocalRank, Peer, Rank, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::region::Entry;
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, Frame, HEAD, Token};
use umbra_tests::conformance::{LANDING, LIFE, ME, MEMORY, REGIONS, SECRET};

use crate::owner::{Owner, byte};

/// Ranks of the world, all on one host.
const RANKS: u32 = 64;
/// The rank that is read.
const READ: Rank = Rank(20);
const JOB: JobKey = JobKey::new([7; 16]);

type Arena = Endpoints<Vec<AtomicU64>, Vec<Block>>;

/// The endpoint cache of a job with one host.
fn world() -> (Arena, Id<Group>) {
    let job = Placement::one_dpu_a_host(1, ME.0 + 1, 1).expect("a job can be so");
    let mut bytes = vec![0; Descriptor::bytes_needed(RANKS)];
    let group = Descriptor::write(0, (0..RANKS).map(WorldRank), &mut bytes).expect("these are members");
    let shape = Shape::new(&group, JOB.group(&group), &job);
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).expect("there is room");
    for rank in 0..RANKS {
        let entry = job.entry(WorldRank(rank), Host(0), LocalRank(rank)).expect("the host has such a rank");
        builder.set(Rank(rank), &entry).expect("each rank comes once");
    }
    let table = builder.finish(Generation::FIRST).expect("all ranks are there");
    let words = (0..Arena::words_needed(8, table.len())).map(|_| AtomicU64::new(0)).collect();
    let mut arena = Arena::create(words, vec![Block::default(); 17], 8).expect("there is room");
    let handle = arena.publish(&Table::attach(table).expect("it was just made"), None).expect("there is room");
    (arena, handle)
}

/// An agent that may read one region of a rank, which is another process.
pub(crate) struct Agent {
    endpoints: Arena,
    world: Id<Group>,
    way: Queues<Rdma, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>,
    /// Where the region is in its owner.
    base: u64,
    bytes: Vec<u8>,
    answer: Vec<u8>,
    _owner: Owner,
}

impl Agent {
    /// Both processes, connected.
    pub(crate) fn new() -> Agent {
        let (mut process, memory) = Owner::start();
        let port = any_port().expect("there is a port");
        let landing = Segment::create("landing", LANDING as usize).expect("there is memory");
        let device = Rdma::new(&port, REGIONS, 16, Arc::new(landing)).expect("the device has room");
        let work = (0..16).map(|_| Slot::EMPTY).collect();
        let mut way = Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        let owner = Peer::rank(WorldRank(READ.0)).expect("the rank can be named");
        let key = Key::new(owner, 0, 1);
        let locator = Locator::Verbs { rkey: memory.rkey, direct: true };
        let ticket = Ticket { key, base: memory.address, len: MEMORY, access: Access::READ, locator };
        let export = Export { ticket, secret: SECRET, shadows: [ME].into_iter().collect() };
        way.import(&export, LIFE).expect("the region may be imported");
        while let Some((peer, address)) = way.device().greet() {
            let answer = process.connect(&address);
            way.device().welcome(peer, &answer).expect("the agent connects");
        }
        let (endpoints, world) = world();
        let answer = vec![0; HEAD + BODY_MAX];
        let mut agent =
            Agent { endpoints, world, way, base: memory.address, bytes: vec![0; BODY_MAX], answer, _owner: process };
        let (offset, len) = (100, 4096);
        agent.read(offset, len);
        assert!(agent.bytes[..len].iter().enumerate().all(|(at, &got)| got == byte(offset + at)), "other bytes came");
        agent
    }

    /// One read of a rank's memory: what an agent does from being asked to the answer in its queue.
    pub(crate) fn read(&mut self, offset: usize, len: usize) {
        let reader = self.endpoints.reader().expect("the cache is well-formed");
        let endpoint = reader.lookup(self.world, READ).expect("the world has this rank");
        let address = self.base + offset as u64;
        let region = self.way.regions().find(endpoint.peer, address).expect("its owner has exported it");
        let span = Span { key: region.key, offset: address - region.base, len: len as u64 };
        self.way.read(span, 0, Token(1)).expect("the key allows it");
        let mut status = None;
        while status.is_none() {
            self.way.poll(Time(1), &mut |event| {
                if let Event::Done { status: ended, .. } = event {
                    status = Some(ended);
                }
            });
        }
        assert_eq!(status, Some(Status::Ok));
        self.way.take(0, &mut self.bytes[..len]).expect("they lie in the landing area");
        let done = Frame::Done { op: FETCH, token: Token(1), status: Status::Ok, body: &self.bytes[..len] };
        done.emit(&mut self.answer).expect("an answer has room for them");
    }
}
