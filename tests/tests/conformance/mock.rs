//! The scripted device: both owners' memory is one array.

use umbra_core::access::message::Export;
use umbra_core::access::mock::{Alias, Mock, Script};
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::error::Status;
use umbra_core::key::Key;
use umbra_core::region::{Entry, Region};
use umbra_core::slots::Slot;
use umbra_core::ticket::Locator;
use umbra_core::time::Time;
use umbra_tests::conformance::{DEEP, LANDING, LIFE, ME, MEMORY, REGIONS, Rig};

type Device = Mock<Vec<u8>, Vec<Alias>, Vec<u8>>;

pub(crate) struct Scripted(Queues<Device, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>);

fn at(n: usize, offset: u64, len: usize) -> core::ops::Range<usize> {
    let start = n * MEMORY as usize + offset as usize;
    start..start + len
}

impl Rig for Scripted {
    type Way = Queues<Device, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>;

    fn new() -> Self {
        let memory = vec![0; 2 * MEMORY as usize];
        let device = Mock::new(memory, vec![Alias::default(); REGIONS], vec![0; LANDING as usize]);
        let work = (0..=DEEP).map(|_| Slot::EMPTY).collect();
        Scripted(Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]))
    }

    fn way(&mut self) -> &mut Self::Way {
        &mut self.0
    }

    fn base(&self, n: usize) -> u64 {
        n as u64 * MEMORY
    }

    fn locate(&mut self, n: usize, _: &Region) -> Locator {
        Locator::Fake { alias: n as u64 }
    }

    fn poke(&mut self, n: usize, offset: u64, bytes: &[u8]) {
        self.0.device().memory()[at(n, offset, bytes.len())].copy_from_slice(bytes);
    }

    fn peek(&mut self, n: usize, offset: u64, len: usize) -> Vec<u8> {
        self.0.device().memory()[at(n, offset, len)].to_vec()
    }

    fn hand_over(&mut self, _: usize, export: &Export) -> Result<(), Status> {
        self.0.import(export, LIFE)
    }

    fn begin_revoke(&mut self, key: Key) {
        self.0.revoke(key).unwrap();
    }

    fn progress(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.0.poll(Time(1), &mut |event| events.push(event));
        events
    }

    fn fault(&mut self, n: usize, on: bool) {
        let (from, to) = (n as u64 * MEMORY, (n as u64 + 1) * MEMORY);
        let script = if on { Script { bad_from: from, bad_to: to, refused_alias: None } } else { Script::default() };
        self.0.device().script(script);
    }
}

#[test]
fn an_alias_that_the_card_refuses_is_no_import() {
    let mut bench = Scripted::new();
    bench.0.device().script(Script { refused_alias: Some(0), ..Script::default() });
    let owner = umbra_tests::conformance::owner(0);
    let key = Key::new(owner, 0, 1);
    let access = umbra_core::key::Access::READ;
    let (base, locator) = (bench.base(0), Locator::Fake { alias: 0 });
    let ticket = umbra_core::ticket::Ticket { key, base, len: 64, access, locator };
    let secret = umbra_tests::conformance::SECRET;
    let export = Export { ticket, secret, shadows: [ME].into_iter().collect() };
    assert_eq!(bench.0.import(&export, LIFE), Err(Status::CopyFailed));
    let span = umbra_core::key::Span { key, offset: 0, len: 1 };
    assert!(bench.0.read(span, 0, umbra_core::wire::Token(1)).is_err());
    assert_eq!(bench.0.device().moved(), 0);
}
