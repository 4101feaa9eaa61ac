//! The read of an agent: through the table of imported regions, and the queue pair to their owner.

use std::sync::Arc;

use umbra::access::exposure::{Exposure, any_port};
use umbra::access::rdma::Rdma;
use umbra::sys::segment::Segment;
use umbra::verbs::Region;
use umbra_core::access::message::Export;
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::region::Entry;
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_core::wire::Token;
use umbra_tests::conformance::{LANDING, LIFE, ME, MEMORY, REGIONS, SECRET, owner};

/// An agent that imported one region, and its owner.
pub(crate) struct Agent {
    way: Queues<Rdma, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>,
    key: Key,
    _memory: Region,
    owner: Exposure,
}

impl Agent {
    /// Both on one port, connected.
    pub(crate) fn new() -> Agent {
        let port = any_port().expect("there is a port");
        let exposure = Exposure::new(&port).expect("the device has a domain left");
        let segment = |name, len| Arc::new(Segment::create(name, len as usize).expect("there is memory"));
        let memory = exposure.register(segment("owner", MEMORY), Access::READ).expect("it can be registered");
        let device = Rdma::new(&port, REGIONS, 16, segment("landing", LANDING)).expect("the device has room");
        let work = (0..16).map(|_| Slot::EMPTY).collect();
        let mut way = Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        let key = Key::new(owner(0), 0, 1);
        let locator = Locator::Verbs { rkey: memory.rkey(), direct: true };
        let ticket = Ticket { key, base: memory.address(0), len: MEMORY, access: Access::READ, locator };
        let export = Export { ticket, secret: SECRET, shadows: [ME].into_iter().collect() };
        way.import(&export, LIFE).expect("the region may be imported");
        let mut agent = Agent { way, key, _memory: memory, owner: exposure };
        agent.post(8);
        // The first read waits until its queue pair is connected.
        while !agent.is_done() {
            while let Some((peer, address)) = agent.way.device().greet() {
                let answer = agent.owner.connect(ME, &address).expect("the owner connects");
                agent.way.device().welcome(peer, &answer).expect("the agent connects");
            }
        }
        agent
    }

    fn post(&mut self, bytes: usize) {
        let span = Span { key: self.key, offset: 0, len: bytes as u64 };
        self.way.read(span, 0, Token(1)).expect("the key allows it");
    }

    fn is_done(&mut self) -> bool {
        let mut done = false;
        self.way.poll(Time(1), &mut |event| {
            if let Event::Done { status, .. } = event {
                assert_eq!(status, Status::Ok);
                done = true;
            }
        });
        done
    }

    /// One read, from the request to the event that answers it.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.post(bytes);
        while !self.is_done() {}
    }
}
