//! Owners of memory on another machine, for the one suite of memory access.
//!
//! [`own`] is the owners' side: two of them, each with a queue pair and a domain of its own, for every link that comes
//! in. [`Far`] is the importer's: it reads and writes their memory over RDMA, and tells them over the link what a test
//! does to owners. After a first byte, a request is four words and the bytes that the fourth one counts; an answer is a
//! length and so many bytes.

use std::env;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use umbra::access::exposure::{Exposure, any_port};
use umbra::access::rdma::Rdma;
use umbra::sys::segment::Segment;
use umbra::verbs::{ADDRESS_BYTES, Address, Region};
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess as _};
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::region::Entry;
use umbra_core::slots::Slot;
use umbra_core::ticket::Locator;
use umbra_core::time::Time;

use crate::conformance::{DEEP, LANDING, ME, MEMORY, REGIONS, Rig, owner};
use crate::owned;
use crate::rig::PATIENCE;

/// Names the address and port of the owners.
const OWNERS: &str = "UMBRA_TEST_OWNERS";
/// The first byte of a link: a rig's, or the last one's.
const RIG: u8 = 1;
const END: u8 = 2;
/// Bytes of a request before those that it brings.
const HEAD: usize = 4 * 8;

/// What owners are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    /// Where the memory is, and its remote key.
    Place = 1,
    /// To write their own memory.
    Poke = 2,
    /// What is in it.
    Peek = 3,
    /// To connect to the address of a queue pair; theirs.
    Connect = 4,
    /// To cut the reader off.
    Disconnect = 5,
    /// To take the memory back from the card.
    TakeBack = 6,
}

impl Ask {
    const ALL: [Ask; 6] = [Ask::Place, Ask::Poke, Ask::Peek, Ask::Connect, Ask::Disconnect, Ask::TakeBack];
}

/// One owner, where its memory is.
struct Owner {
    exposure: Exposure,
    memory: Arc<Segment>,
    region: Option<Region>,
}

impl Owner {
    fn new() -> Owner {
        let exposure = any_port().and_then(|port| Exposure::new(&port)).expect("there is a device");
        let memory = Arc::new(Segment::create("owner", MEMORY as usize).expect("there is memory"));
        let region = exposure.register(memory.clone(), Access::READ | Access::WRITE).expect("it can be registered");
        Owner { exposure, memory, region: Some(region) }
    }

    fn answer(&mut self, ask: Ask, offset: u64, len: u64, bytes: &[u8]) -> Vec<u8> {
        match ask {
            Ask::Place => {
                let base = self.memory.base().as_ptr() as u64;
                let rkey = self.region.as_ref().map_or(0, Region::rkey);
                [&base.to_le_bytes()[..], &rkey.to_le_bytes()].concat()
            }
            Ask::Poke => {
                owned::poke(&self.memory, offset, bytes);
                Vec::new()
            }
            Ask::Peek => owned::peek(&self.memory, offset, len as usize),
            Ask::Connect => {
                let reader = bytes.try_into().ok().and_then(Address::from_bytes).expect("it is an address");
                self.exposure.connect(ME, &reader).expect("the owner connects").to_bytes().to_vec()
            }
            Ask::Disconnect => {
                self.exposure.disconnect(ME);
                Vec::new()
            }
            Ask::TakeBack => {
                self.region = None;
                Vec::new()
            }
        }
    }
}

/// Owns memory for everybody who links to this address until somebody [ends](end) it; how many links there were.
///
/// # Errors
/// If nobody can link, or a link breaks between two halves of a request.
///
/// # Panics
/// If the device refuses something.
pub fn own(address: &str) -> io::Result<usize> {
    let listener = TcpListener::bind(address)?;
    thread::scope(|scope| {
        let mut links = Vec::new();
        loop {
            let (mut link, _) = listener.accept()?;
            let mut what = [0];
            link.read_exact(&mut what)?;
            if what == [END] {
                break;
            }
            links.push(scope.spawn(|| serve(link)));
        }
        let count = links.len();
        links.into_iter().try_for_each(|link| link.join().expect("no panic")).map(|()| count)
    })
}

/// Owns two memories until the link ends.
fn serve(mut link: TcpStream) -> io::Result<()> {
    link.set_nodelay(true)?;
    let mut owners = [(); 2].map(|()| Owner::new());
    let mut head = [0; HEAD];
    while link.read_exact(&mut head).is_ok() {
        let mut words = head.chunks_exact(8).map(|word| word.iter().rev().fold(0_u64, |w, b| w << 8 | u64::from(*b)));
        let [number, offset, len, more] = [(); 4].map(|()| words.next().unwrap_or_default());
        let mut bytes = vec![0; more.min(MEMORY) as usize];
        link.read_exact(&mut bytes)?;
        let ask = Ask::ALL.into_iter().find(|ask| *ask as u64 == number >> 1).ok_or(io::ErrorKind::InvalidData)?;
        let answer = owners[(number & 1) as usize].answer(ask, offset, len, &bytes);
        link.write_all(&(answer.len() as u64).to_le_bytes())?;
        link.write_all(&answer)?;
    }
    Ok(())
}

/// A link to owners.
struct Line(TcpStream);

impl Line {
    /// They may not be there yet.
    fn new(what: u8) -> Line {
        let address = env::var(OWNERS).expect("owners have an address");
        let begun = Instant::now();
        loop {
            match TcpStream::connect(&address) {
                Ok(mut link) => {
                    link.set_nodelay(true).and_then(|()| link.set_read_timeout(Some(PATIENCE))).expect("a link");
                    link.write_all(&[what]).expect("a link");
                    return Line(link);
                }
                Err(error) => assert!(begun.elapsed() < PATIENCE, "no owners at {address}: {error}"),
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn ask(&self, n: usize, ask: Ask, (offset, len): (u64, u64), bytes: &[u8]) -> Vec<u8> {
        let words = [(ask as u64) << 1 | n as u64, offset, len, bytes.len() as u64];
        let head: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut link = &self.0;
        let asked = link.write_all(&head).and_then(|()| link.write_all(bytes));
        let mut len = [0; 8];
        let answered = asked.and_then(|()| link.read_exact(&mut len)).map(|()| u64::from_le_bytes(len).min(MEMORY));
        let mut answer = vec![0; answered.expect("the owners answer") as usize];
        link.read_exact(&mut answer).expect("the owners answer");
        answer
    }

    fn place(&self, n: usize) -> (u64, u32) {
        let place = self.ask(n, Ask::Place, (0, 0), &[]);
        let (base, rkey) = place.split_first_chunk().expect("an address and a key");
        (u64::from_le_bytes(*base), u32::from_le_bytes(rkey.try_into().expect("a key")))
    }
}

/// Ends the program that owns.
///
/// # Panics
/// If it is not there.
pub fn end() {
    let _ = Line::new(END);
}

/// Owners elsewhere, and an importer here.
pub struct Far {
    line: Line,
    places: [(u64, u32); 2],
    /// Whether an owner answers greetings.
    answers: [bool; 2],
    way: Queues<Rdma, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>,
}

impl Far {
    /// The owner takes its memory back from the card, whatever readers think.
    pub fn take_back(&self, n: usize) {
        let _ = self.line.ask(n, Ask::TakeBack, (0, 0), &[]);
    }
}

impl Rig for Far {
    type Way = Queues<Rdma, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>;
    const FAULT: Status = Status::PeerFailed;

    fn missing() -> Option<String> {
        env::var_os(OWNERS).is_none().then(|| format!("{OWNERS} names no owners"))
    }

    fn new() -> Far {
        let port = any_port().expect("there is a device");
        let line = Line::new(RIG);
        let landing = Arc::new(Segment::create("landing", LANDING as usize).expect("there is memory"));
        let device = Rdma::new(&port, REGIONS, DEEP as u32 + 1, landing).expect("the device has room");
        let work = (0..=DEEP).map(|_| Slot::EMPTY).collect();
        let way = Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        Far { places: [0, 1].map(|n| line.place(n)), answers: [true; 2], line, way }
    }

    fn way(&mut self) -> &mut Self::Way {
        &mut self.way
    }

    fn base(&self, n: usize) -> u64 {
        self.places[n].0
    }

    fn locate(&mut self, n: usize, _: &umbra_core::region::Region) -> Locator {
        Locator::Verbs { rkey: self.places[n].1, direct: true }
    }

    fn poke(&self, n: usize, offset: u64, bytes: &[u8]) {
        let _ = self.line.ask(n, Ask::Poke, (offset, 0), bytes);
    }

    fn peek(&self, n: usize, offset: u64, len: usize) -> Vec<u8> {
        self.line.ask(n, Ask::Peek, (offset, len as u64), &[])
    }

    fn progress(&mut self) -> Vec<Event> {
        while let Some((peer, address)) = self.way.device().greet() {
            let n = usize::from(peer == owner(1));
            if self.answers[n] {
                let answer = self.line.ask(n, Ask::Connect, (0, 0), &address.to_bytes());
                let answer = <[u8; ADDRESS_BYTES]>::try_from(answer).ok().and_then(|a| Address::from_bytes(&a));
                self.way.device().welcome(peer, &answer.expect("an address")).expect("the owner can be reached");
            } else {
                self.way.device().refuse(peer, Status::PeerFailed);
            }
        }
        let mut events = Vec::new();
        if self.way.poll(Time(1), &mut |event| events.push(event)) == 0 {
            // Far longer than a read takes between two emulated machines: some scenarios poll only a hundred times.
            sleep(Duration::from_millis(10));
        }
        events
    }

    fn fault(&mut self, n: usize, on: bool) {
        self.answers[n] = !on;
        if on {
            let _ = self.line.ask(n, Ask::Disconnect, (0, 0), &[]);
        }
    }
}
