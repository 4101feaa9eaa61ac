//! The device that reads and writes the memory of other processes over RDMA.
//!
//! An [`Rdma`] is a [`Device`] for [`Queues`](umbra_core::access::queues::Queues): pieces of registered memory go
//! between their owners and a registered landing area, and the owners' processors are not involved. Each owner has a
//! queue pair of its own here, so that what breaks one disturbs no other. A queue pair is connected by its user, over
//! whatever link leads to the owner:
//!
//! ```text
//! greet()  ──> (owner, address) ──> the owner connects a queue pair of its own to that address
//! welcome(owner, its address) <── and tells its address; refuse(owner) if it does not
//! ```
//!
//! Pieces that are posted before wait. After a failure, and after [`Device::rebuild`], the owner is greeted again.
//!
//! *Cost*: of a read: one work request, one completion; no lock, no allocation, no system call of ours.

use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;
use umbra_core::ticket::Locator;

use super::landing;
use crate::sys::segment::Segment;
use crate::verbs::{self, Address, Depths, Domain, Port, Queue, Region, Remote, VerbsError, Work};

/// Events that one look at the bell takes in.
const EVENTS: usize = 16;

/// A piece of work, by the name that its user gave it.
#[derive(Clone, Copy, Debug)]
struct Order {
    name: u64,
    way: Access,
    remote: Remote,
    landing: usize,
    len: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The owner was or will be told our address.
    Greeting,
    Up,
    /// Why it cannot be used.
    Broken(Status),
}

/// The queue pair to one owner.
#[derive(Debug)]
struct Line {
    queue: Queue,
    state: State,
    /// Posted before the queue pair was connected.
    waiting: VecDeque<Order>,
    /// Names of what the card works on, in the order in which it ends.
    under_way: VecDeque<u64>,
    /// It rings the bell for the next completion.
    armed: bool,
}

/// A remote key, and whose it is; kept under the place of its region.
#[derive(Clone, Copy, Debug)]
struct Place {
    owner: Peer,
    rkey: u32,
}

/// Moves bytes between registered memory of other processes and a landing area.
#[derive(Debug)]
pub struct Rdma {
    places: Vec<Option<Place>>,
    lines: BTreeMap<Peer, Line>,
    landing: Region,
    domain: Arc<Domain>,
    port: Port,
    /// Pieces that one owner's queue pair takes.
    depth: u32,
    greetings: VecDeque<Peer>,
    ended: VecDeque<(u64, Status)>,
    bell: OwnedFd,
}

impl Rdma {
    /// Speaks through a port: room for a table of regions of `places` places and for `depth` pieces at once, over a
    /// landing segment.
    ///
    /// # Errors
    /// [`VerbsError`]: the landing segment cannot be registered, or the device or the system lacks something.
    pub fn new(port: &Port, places: usize, depth: u32, landing: Arc<Segment>) -> Result<Rdma, VerbsError> {
        let domain = Domain::new(&port.device)?;
        let landing = Region::register(&domain, landing, Access::empty())?;
        let bell = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| VerbsError::Call { what: "making a bell for completions", error: errno.into() })?;
        Ok(Rdma {
            places: vec![None; places],
            lines: BTreeMap::new(),
            landing,
            domain,
            port: port.clone(),
            depth,
            greetings: VecDeque::new(),
            ended: VecDeque::with_capacity(depth as usize),
            bell,
        })
    }

    /// The landing segment.
    #[must_use]
    pub const fn landing(&self) -> &Arc<Segment> {
        self.landing.segment()
    }

    /// An owner that has to be told an address of ours; `None` if there is none now.
    pub fn greet(&mut self) -> Option<(Peer, Address)> {
        loop {
            let owner = self.greetings.pop_front()?;
            match self.lines.get(&owner) {
                Some(line) if line.state == State::Greeting => return Some((owner, line.queue.address())),
                _ => {}
            }
        }
    }

    /// An owner that was greeted tells its address; what waited goes out. An answer to an older greeting changes
    /// nothing.
    ///
    /// # Errors
    /// [`VerbsError`] if the address cannot be reached; what waited ends then.
    pub fn welcome(&mut self, owner: Peer, address: &Address) -> Result<(), VerbsError> {
        let Some(line) = self.lines.get_mut(&owner).filter(|line| line.state == State::Greeting) else { return Ok(()) };
        if let Err(error) = line.queue.connect(address) {
            self.refuse(owner, Status::Unreachable);
            return Err(error);
        }
        line.state = State::Up;
        while let Some(order) = line.waiting.pop_front() {
            if let Err(status) = line.post(&self.landing, order) {
                self.ended.push_back((order.name, status));
            }
        }
        Ok(())
    }

    /// An owner that was greeted cannot be reached; what waited ends with `status`.
    pub fn refuse(&mut self, owner: Peer, status: Status) {
        if let Some(line) = self.lines.get_mut(&owner).filter(|line| line.state == State::Greeting) {
            line.state = State::Broken(status);
            self.ended.extend(line.waiting.drain(..).map(|order| (order.name, status)));
        }
    }

    /// Whether the queue pair to an owner is connected, or will be as soon as the owner answers.
    #[must_use]
    pub fn is_usable(&self, owner: Peer) -> bool {
        self.lines.get(&owner).is_some_and(|line| !matches!(line.state, State::Broken(_)))
    }

    /// Whether an owner has yet to answer a greeting.
    #[must_use]
    pub fn is_greeting(&self, owner: Peer) -> bool {
        self.lines.get(&owner).is_some_and(|line| line.state == State::Greeting)
    }

    /// Queue pairs, connected or not.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Readable when something completes after [`arm`](Self::arm).
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Makes the bell ring at the next completion, before its user sleeps. True if something has completed already:
    /// then nothing rings for it, and the user must not sleep.
    pub fn arm(&mut self) -> bool {
        for line in self.lines.values_mut().filter(|line| !line.under_way.is_empty()) {
            if !line.armed {
                // If the device refuses, its completions are found when the user looks the next time.
                line.armed = line.queue.arm().is_ok();
            }
        }
        self.take_in();
        !self.ended.is_empty()
    }

    /// Makes the bell silent again.
    pub fn quiet(&mut self) {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((rung, _)) = epoll::wait(&self.bell, &mut events, Some(&none)) else { return };
        for event in rung {
            let owner = u32::try_from(event.data.u64()).ok().and_then(Peer::from_bits);
            let Some((owner, line)) = owner.and_then(|owner| Some((owner, self.lines.get_mut(&owner)?))) else {
                continue;
            };
            // It is readable, so this does not wait.
            match line.queue.take_event() {
                Ok(()) => line.armed = false,
                Err(VerbsError::Call { error, .. }) if is_passing(&error) => {}
                // The device is gone, and the descriptor would be readable for ever.
                Err(_) => self.drop_line(owner),
            }
        }
    }

    /// Takes the queue pair to an owner out of use for good, and out of the bell.
    fn drop_line(&mut self, owner: Peer) {
        let Some(mut line) = self.lines.remove(&owner) else { return };
        // The bell may have lost it with the device.
        let _ = epoll::delete(&self.bell, line.queue.descriptor());
        line.reset(&mut self.ended);
        self.ended.extend(line.waiting.drain(..).map(|order| (order.name, Status::QueueBroken)));
    }

    /// Takes completions in.
    fn take_in(&mut self) {
        for line in self.lines.values_mut() {
            if line.under_way.is_empty() {
                continue;
            }
            let (under_way, ended, state) = (&mut line.under_way, &mut self.ended, &mut line.state);
            let polled = line.queue.poll(&mut |done| {
                // Each piece was posted by itself and ends by itself, in order.
                if let Some(name) = under_way.pop_front() {
                    ended.push_back((name, done.status.status()));
                }
                if done.status != verbs::WorkStatus::Success {
                    *state = State::Broken(Status::QueueBroken);
                }
            });
            if polled.is_err() {
                line.state = State::Broken(Status::QueueBroken);
                // Whether it says so or not, the card writes nothing more for it: what is told to have ended gives its place
                // of the landing area to somebody else.
                let _ = line.queue.reset();
                ended.extend(line.under_way.drain(..).map(|name| (name, Status::QueueBroken)));
            }
        }
    }

    fn line(&mut self, owner: Peer) -> Result<&mut Line, VerbsError> {
        match self.lines.entry(owner) {
            std::collections::btree_map::Entry::Occupied(line) => Ok(line.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                let queue = Queue::new(&self.domain, &self.port, Depths { work: self.depth, receives: 1 })?;
                let data = epoll::EventData::new_u64(u64::from(owner.to_bits()));
                epoll::add(&self.bell, queue.descriptor(), data, epoll::EventFlags::IN)
                    .map_err(|errno| VerbsError::Call { what: "listening for completions", error: errno.into() })?;
                let depth = self.depth as usize;
                let (waiting, under_way) = (VecDeque::with_capacity(depth), VecDeque::with_capacity(depth));
                self.greetings.push_back(owner);
                Ok(place.insert(Line { queue, state: State::Greeting, waiting, under_way, armed: false }))
            }
        }
    }
}

/// Whether a call that failed may do better at once.
fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock)
}

impl Line {
    fn post(&mut self, landing: &Region, order: Order) -> Result<(), Status> {
        let Order { name, way, remote, landing: offset, len } = order;
        let piece = verbs::Piece { region: landing, offset, len };
        let work = match way {
            Access::WRITE => Work::Write { from: piece, to: remote, immediate: None },
            _ => Work::Read { from: remote, to: piece },
        };
        match self.queue.post(&[(name, work)]) {
            Ok(()) => {
                self.under_way.push_back(name);
                Ok(())
            }
            Err(VerbsError::OutOfBounds { .. }) => Err(Status::OutOfBounds),
            Err(VerbsError::Call { .. }) => {
                // The driver refused, and nobody else will tell that the queue is of no use any more.
                self.state = State::Broken(Status::QueueBroken);
                Err(Status::CopyFailed)
            }
            Err(_) => Err(Status::QueueBroken),
        }
    }

    /// Starts over: nothing of before moves a byte any more.
    fn reset(&mut self, ended: &mut VecDeque<(u64, Status)>) {
        let reset = self.queue.reset();
        // Told after: with its end a place of the landing area goes to somebody else, and the card may write until here.
        ended.extend(self.under_way.drain(..).map(|name| (name, Status::QueueBroken)));
        self.state = if reset.is_ok() { State::Greeting } else { State::Broken(Status::QueueBroken) };
    }
}

impl Device for Rdma {
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status> {
        let ticket = &export.ticket;
        let Locator::Verbs { rkey, .. } = ticket.locator else { return Err(Status::Malformed) };
        let owner = ticket.key.owner();
        if place >= self.places.len() {
            return Err(Status::Full);
        }
        let others = self.places.iter().flatten().any(|place| place.owner == owner);
        let line = self.line(owner).map_err(|_| Status::Unreachable)?;
        // Nobody was there to have it rebuilt.
        if !others && matches!(line.state, State::Broken(_)) {
            self.rebuild(owner);
        }
        if let Some(slot) = self.places.get_mut(place) {
            *slot = Some(Place { owner, rkey });
        }
        Ok(())
    }

    fn detach(&mut self, place: usize, _lost: bool) {
        if let Some(slot) = self.places.get_mut(place) {
            *slot = None;
        }
    }

    fn copy(&mut self, way: Access, piece: &Piece, name: u64) -> Result<Moved, Status> {
        let Place { owner, rkey } = self.places.get(piece.place).copied().flatten().ok_or(Status::UnknownRegion)?;
        let line = self.lines.get_mut(&owner).ok_or(Status::QueueBroken)?;
        let landing = usize::try_from(piece.landing).map_err(|_| Status::OutOfBounds)?;
        let len = u32::try_from(piece.len).map_err(|_| Status::OutOfBounds)?;
        let order = Order { name, way, remote: Remote { address: piece.address, rkey }, landing, len };
        match line.state {
            State::Broken(why) => Err(why),
            _ if len == 0 => Ok(Moved::All),
            State::Greeting => {
                line.waiting.push_back(order);
                Ok(Moved::Begun)
            }
            State::Up => line.post(&self.landing, order).map(|()| Moved::Begun),
        }
    }

    fn ended(&mut self) -> Option<(u64, Status)> {
        if self.ended.is_empty() {
            self.take_in();
        }
        self.ended.pop_front()
    }

    fn rebuild(&mut self, owner: Peer) {
        if let Some(line) = self.lines.get_mut(&owner) {
            line.reset(&mut self.ended);
            line.armed = false;
            self.greetings.push_back(owner);
        }
    }

    fn forget(&mut self, owner: Peer) {
        // Without its queue pair the card moves nothing any more.
        if let Some(line) = self.lines.remove(&owner) {
            let names = line.waiting.iter().map(|order| order.name).chain(line.under_way.iter().copied());
            self.ended.extend(names.map(|name| (name, Status::OwnerGone)));
        }
    }

    fn landing_len(&self) -> u64 {
        self.landing.segment().len() as u64
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        landing::take(self.landing.segment(), landing, into)
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        landing::put(self.landing.segment(), landing, from)
    }
}
