//! Memory of this machine: a segment by its descriptor, or the heap of a process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra::access::device::Local;
use umbra::sys::process::ProcessId;
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::Incarnation;
use umbra_core::region::{Entry, Region};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_tests::conformance::{DEEP, LANDING, LIFE, ME, MEMORY, REGIONS, Rig, owner};

/// How an owner's memory is reached.
pub(crate) trait Kind {
    /// What the ticket says of the memory that begins at `offset`.
    fn locate(n: usize, offset: u64) -> Locator;
    /// What travels beside the ticket.
    fn descriptor(memory: &Segment) -> Option<OwnedFd>;
}

/// By its descriptor.
pub(crate) struct Shared;

impl Kind for Shared {
    fn locate(n: usize, offset: u64) -> Locator {
        Locator::Segment { segment: n as u64, offset, size: MEMORY }
    }
    fn descriptor(memory: &Segment) -> Option<OwnedFd> {
        Some(memory.share().unwrap())
    }
}

/// By the process it belongs to, which knows nothing of descriptors.
pub(crate) struct Heap;

impl Kind for Heap {
    fn locate(_: usize, _: u64) -> Locator {
        let ProcessId { pid, start } = ProcessId::current().unwrap();
        Locator::Process { pid, start }
    }
    fn descriptor(_: &Segment) -> Option<OwnedFd> {
        None
    }
}

/// Two owners in this process.
pub(crate) struct Owners {
    memory: [Segment; 2],
}

impl Owners {
    pub(crate) fn new() -> Owners {
        let make = |name| Segment::create(name, MEMORY as usize).unwrap();
        Owners { memory: [make("owner 0"), make("owner 1")] }
    }

    pub(crate) fn memory(&self, n: usize) -> &Segment {
        &self.memory[n]
    }

    pub(crate) fn descriptor<K: Kind>(&self, n: usize) -> Option<OwnedFd> {
        K::descriptor(&self.memory[n])
    }
}

/// A device whose copies from some owners fail, however they would be made.
pub(crate) struct Flaky {
    inner: Local,
    owners: Vec<Option<umbra_core::peer::Peer>>,
    failing: [bool; 2],
}

impl Device for Flaky {
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status> {
        self.owners[place] = Some(export.ticket.key.owner());
        self.inner.attach(place, export)
    }
    fn detach(&mut self, place: usize, lost: bool) {
        self.inner.detach(place, lost);
    }
    fn copy(&mut self, way: Access, piece: &Piece, name: u64) -> Result<Moved, Status> {
        let failing = (0..2).any(|n| self.failing[n] && self.owners[piece.place] == Some(owner(n)));
        if failing { Err(Status::CopyFailed) } else { self.inner.copy(way, piece, name) }
    }
    fn landing_len(&self) -> u64 {
        self.inner.landing_len()
    }
    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        self.inner.take(landing, into)
    }
    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        self.inner.put(landing, from)
    }
}

type Way = Queues<Flaky, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>;

pub(crate) struct Rigged<K> {
    owners: Owners,
    way: Way,
    kind: std::marker::PhantomData<K>,
}

impl<K: Kind> Rig for Rigged<K> {
    type Way = Way;

    fn new() -> Self {
        let landing = Arc::new(Segment::create("landing", LANDING as usize).unwrap());
        let device = Flaky { inner: Local::new(REGIONS, landing), owners: vec![None; REGIONS], failing: [false; 2] };
        let work = (0..=DEEP).map(|_| Slot::EMPTY).collect();
        let way = Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        Rigged { owners: Owners::new(), way, kind: std::marker::PhantomData }
    }

    fn way(&mut self) -> &mut Way {
        &mut self.way
    }

    fn memory(&self, n: usize) -> &Segment {
        self.owners.memory(n)
    }

    fn locate(&mut self, n: usize, region: &Region) -> Locator {
        K::locate(n, region.base - self.base(n))
    }

    fn hand_over(&mut self, n: usize, export: &Export, life: Incarnation) -> Result<(), Status> {
        if let Some(descriptor) = self.owners.descriptor::<K>(n) {
            self.way.device().inner.receive(owner(n), n as u64, descriptor);
        }
        self.way.import(export, life)
    }

    fn progress(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.way.poll(Time(1), &mut |event| events.push(event));
        events
    }

    fn fault(&mut self, n: usize, on: bool) {
        self.way.device().failing[n] = on;
    }
}

#[test]
fn a_region_without_its_descriptor_is_no_import() {
    let mut rig = Rigged::<Shared>::new();
    let (base, locator) = (rig.base(0), Shared::locate(0, 0));
    let ticket = Ticket { key: Key::new(owner(0), 0, 1), base, len: 64, access: Access::READ, locator };
    let secret = umbra_tests::conformance::SECRET;
    let export = Export { ticket, secret, shadows: [ME].into_iter().collect() };
    assert_eq!(rig.way.import(&export, LIFE), Err(Status::Malformed));
    // A descriptor of less memory than the ticket says does not help.
    let small = Segment::create("small", 100).unwrap();
    rig.way.device().inner.receive(owner(0), 0, small.share().unwrap());
    assert_eq!(rig.way.import(&export, LIFE), Err(Status::OutOfBounds));
    assert_eq!(rig.hand_over(0, &export, LIFE), Ok(()));
}

#[test]
fn s45_a_segment_exported_for_reading_is_mapped_for_reading() {
    let memory = Segment::create("read only", 64).unwrap();
    memory.forbid_new_writers().unwrap();
    assert!(Segment::attach(memory.share().unwrap(), Mapping::ReadWrite, 64).is_err());
    assert!(Segment::attach(memory.share().unwrap(), Mapping::ReadOnly, 64).is_ok());
}
