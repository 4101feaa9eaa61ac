//! Two connected queue pairs on one port of this machine's RDMA device.
//!
//! They come with memory to move bytes between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::access::exposure::any_port;
use umbra::boundary::{Extent, VerbsRing};
use umbra::sys::segment::Segment;
use umbra::verbs::{
    Completion, Depths, Device, Domain, Hello, Piece, Port, Queue, Region, Remote, Verbs, VerbsError, Work,
};
use umbra_core::key::Access;

use crate::rig;
use crate::transport_conformance::peer;

/// A small page: what most regions of these tests hold.
pub const PAGE: usize = 4096;
/// No completion takes longer; far beyond what a device tries before it gives up.
const DEADLINE: Duration = Duration::from_secs(20);
/// What both queues can hold.
pub const DEPTHS: Depths = Depths { work: 64, receives: 16 };

/// The device of this machine, or none, which is told.
///
/// # Panics
/// If there is one that cannot be opened.
#[must_use]
pub fn device() -> Option<Arc<Device>> {
    if_any(Device::open(None))
}

/// The port that programs use who name none, or none, which is told.
///
/// # Panics
/// If there is a device of which no port can be used.
#[must_use]
pub fn port() -> Option<Port> {
    if_any(any_port())
}

/// An end of a boundary exchange for each rank, connected to all others.
///
/// # Panics
/// If the device has no room for them.
#[must_use]
pub fn rings(port: &Port, extent: Extent) -> Vec<VerbsRing> {
    let end = |rank| VerbsRing::new(port, extent, rank).expect("the device has room");
    let mut ends: Vec<_> = (0..extent.ranks).map(end).collect();
    for from in 0..extent.ranks {
        for to in (0..extent.ranks).filter(|&to| to != from) {
            let greeting = ends[from as usize].greeting(to).expect("another rank");
            ends[to as usize].connect(from, &greeting).expect("it is there");
        }
    }
    ends
}

fn if_any<T>(opened: Result<T, VerbsError>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(why @ (VerbsError::NoDevice | VerbsError::NoLibrary(_))) => {
            rig::skip(why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Both ends.
#[derive(Debug)]
pub struct Pair {
    /// To which everything here belongs.
    pub domain: Arc<Domain>,
    /// Through which both ends speak.
    pub port: Port,
    /// The ends, connected.
    pub ends: [Queue; 2],
}

impl Pair {
    /// Two connected ends on the first port.
    ///
    /// # Panics
    /// If the device does not make them.
    #[must_use]
    pub fn new(device: &Arc<Device>) -> Pair {
        Pair::on(&device.active_port(1, None).expect("the port is active"))
    }

    /// Two connected ends on a port.
    ///
    /// # Panics
    /// If the device does not make them.
    #[must_use]
    pub fn on(port: &Port) -> Pair {
        let domain = Domain::new(&port.device).expect("the device has a domain left");
        let mut ends = [(); 2].map(|()| Queue::new(&domain, port, DEPTHS).expect("the device has a queue pair left"));
        connect(&mut ends);
        Pair { domain, port: port.clone(), ends }
    }

    /// New memory that others may use so.
    ///
    /// # Panics
    /// If it cannot be registered.
    #[must_use]
    pub fn memory(&self, len: usize, peers: Access) -> Region {
        let segment = Segment::create("verbs-test", len).expect("there is memory");
        Region::register(&self.domain, Arc::new(segment), peers).expect("it can be registered")
    }

    /// Makes both ends whole again.
    ///
    /// # Panics
    /// If the device refuses.
    pub fn rebuild(&mut self) {
        self.ends.iter_mut().for_each(|end| end.reset().expect("a queue can be reset"));
        connect(&mut self.ends);
    }

    /// Posts one piece of work at the first end.
    ///
    /// # Panics
    /// If it is refused.
    pub fn post(&mut self, id: u64, work: Work<'_>) {
        self.ends[0].post(&[(id, work)]).expect("a whole queue takes work");
    }

    /// Waits for the one completion that is due at the first end.
    ///
    /// # Panics
    /// If it does not come, or more do.
    pub fn hear(&mut self) -> Completion {
        match hear(&mut self.ends[0], 1)[..] {
            [completion] => completion,
            ref several => panic!("one was due: {several:?}"),
        }
    }
}

/// Connects two ends to each other.
///
/// # Panics
/// If they were connected and not reset since.
pub fn connect(ends: &mut [Queue; 2]) {
    let [a, b] = ends.each_ref().map(Queue::address);
    ends[0].connect(&b).expect("the first end reaches the second");
    ends[1].connect(&a).expect("the second end reaches the first");
}

/// Two connected ends of a transport on one port, each of which takes so much work at once.
///
/// # Panics
/// If the device does not make them.
#[must_use]
pub fn ends_on(port: &Port, depth: u32) -> [Verbs; 2] {
    let mut ends = [0, 1].map(|n| Verbs::new(peer(n), port, depth).expect("the device has a queue pair left"));
    let greetings = [0, 1].map(|n: usize| ends[n].greet(peer(1 - n as u32)).expect("an end greets"));
    for (n, greeting) in greetings.iter().enumerate() {
        // As it would come over a link.
        let heard = Hello::from_bytes(&greeting.to_bytes()).expect("a greeting is whole");
        ends[1 - n].connect(peer(n as u32), &heard).expect("the ends reach each other");
    }
    ends
}

/// Waits for so many completions.
///
/// # Panics
/// If they do not come.
pub fn hear(queue: &mut Queue, count: usize) -> Vec<Completion> {
    let (begun, mut heard) = (Instant::now(), Vec::new());
    while heard.len() < count {
        let waited = queue.wait(Duration::from_millis(50), &mut |completion| heard.push(completion));
        waited.expect("the queue can be polled");
        assert!(begun.elapsed() < DEADLINE, "{} of {count} completions came: {heard:?}", heard.len());
    }
    heard
}

/// A whole region.
///
/// # Panics
/// If it is larger than 4 GiB.
#[must_use]
pub fn all(region: &Region) -> Piece<'_> {
    Piece { region, offset: 0, len: u32::try_from(region.segment().len()).expect("memory of tests is small") }
}

/// A byte of a region as a peer names it.
#[must_use]
pub fn at(region: &Region, offset: usize) -> Remote {
    Remote { address: region.address(offset), rkey: region.rkey() }
}

/// Fills a region with bytes that `seed` makes, and gives them.
///
/// # Panics
/// If it cannot be written.
pub fn fill(region: &Region, seed: u8) -> Vec<u8> {
    let bytes: Vec<u8> = (0..region.segment().len()).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect();
    region.segment().write(0, &bytes).expect("our own memory can be written");
    bytes
}

/// What is in a region.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn bytes(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.segment().len()];
    region.segment().read(0, &mut bytes).expect("our own memory can be read");
    bytes
}
