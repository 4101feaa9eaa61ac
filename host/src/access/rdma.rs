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
//! Pieces that are posted before wait. After a failure, and after [`Device::rebuild`], the owner is greeted again. A device
//! that is [gone](Rdma::gone) does not come back to who has it open: its user drops the [`Rdma`] and makes another one.
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
use super::line::{Line, Order, Orders, State};
use crate::sys::segment::Segment;
use crate::verbs::{self, Address, Depths, Domain, Port, Queue, Region, Remote, VerbsError};

/// Events that one look at the bell takes in.
const EVENTS: usize = 16;

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
    /// Why there was no queue pair when one was wanted last.
    trouble: Option<VerbsError>,
    /// The code by which the system said that the device is gone.
    gone: Option<i32>,
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
            trouble: None,
            gone: None,
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

    /// An owner that was greeted tells its address; what waited goes out. An answer to an older greeting, before the next one
    /// was [told](Self::greet), changes nothing.
    ///
    /// # Errors
    /// [`VerbsError`] if the address cannot be reached; what waited ends then.
    pub fn welcome(&mut self, owner: Peer, address: &Address) -> Result<(), VerbsError> {
        let awaits = self.awaits(owner);
        let Some(line) = self.lines.get_mut(&owner).filter(|_| awaits) else { return Ok(()) };
        if let Err(error) = line.queue.connect(address) {
            self.refuse(owner, Status::Unreachable);
            return Err(error);
        }
        line.state = State::Up;
        while let Some(order) = line.orders.waiting.pop_front() {
            if let Err(status) = line.post(&self.landing, order) {
                self.ended.push_back((order.name, status));
            }
        }
        Ok(())
    }

    /// An owner that was greeted cannot be reached; what waited ends with `status`. What is said of an older greeting changes
    /// nothing.
    pub fn refuse(&mut self, owner: Peer, status: Status) {
        let awaits = self.awaits(owner);
        if let Some(line) = self.lines.get_mut(&owner).filter(|_| awaits) {
            line.state = State::Broken(status);
            line.orders.end(status, &mut self.ended);
        }
    }

    /// Whether an owner was told the address of its queue pair, and has not answered. Of one that is still to be told, an answer
    /// is about the queue pair before.
    fn awaits(&self, owner: Peer) -> bool {
        self.is_greeting(owner) && !self.greetings.contains(&owner)
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

    /// What the device or the system lacked for a queue pair last, when [`Device::attach`] said [`Status::Unreachable`] or
    /// [`Device::rebuild`] made none; told once.
    pub const fn trouble(&mut self) -> Option<VerbsError> {
        self.trouble.take()
    }

    /// That the device is gone, once it was found so: [`VerbsError::Gone`]. Nothing moves any more.
    #[must_use]
    pub fn gone(&self) -> Option<VerbsError> {
        let error = std::io::Error::from_raw_os_error(self.gone?);
        Some(VerbsError::Gone { device: self.port.device.name().to_owned(), error })
    }

    /// There can be no queue pair now.
    fn lacks(&mut self, error: VerbsError) {
        self.gone = self.gone.or(error.code_of_gone());
        self.trouble = Some(error);
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
        for line in self.lines.values_mut().filter(|line| !line.orders.under_way.is_empty()) {
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
                // The descriptor would be readable for ever.
                Err(error) => {
                    self.gone = self.gone.or(error.code_of_gone());
                    self.drop_line(owner, Status::QueueBroken);
                }
            }
        }
    }

    /// Destroys the queue pair to an owner, and takes it out of the bell; what was posted ends with `status`.
    fn drop_line(&mut self, owner: Peer, status: Status) {
        let Some(Line { queue, mut orders, .. }) = self.lines.remove(&owner) else { return };
        // The bell may have lost it with the device.
        let _ = epoll::delete(&self.bell, queue.descriptor());
        // Without its queue pair the card moves nothing any more.
        drop(queue);
        orders.end(status, &mut self.ended);
    }

    /// Takes completions in.
    fn take_in(&mut self) {
        let mut failed = None;
        for (&owner, line) in &mut self.lines {
            if line.orders.under_way.is_empty() {
                continue;
            }
            let (under_way, ended, state) = (&mut line.orders.under_way, &mut self.ended, &mut line.state);
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
                failed = Some(owner);
            }
        }
        // What the card has done for it cannot be known any more. Another one that failed is found at the next look.
        if let Some(owner) = failed {
            self.drop_line(owner, Status::QueueBroken);
        }
    }

    fn has_region_of(&self, owner: Peer) -> bool {
        self.places.iter().flatten().any(|place| place.owner == owner)
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
                let orders = Orders { waiting, under_way };
                Ok(place.insert(Line { queue, state: State::Greeting, orders, armed: false }))
            }
        }
    }
}

/// Whether a call that failed may do better at once.
fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock)
}

impl Device for Rdma {
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status> {
        let ticket = &export.ticket;
        let Locator::Verbs { rkey, .. } = ticket.locator else { return Err(Status::Malformed) };
        let owner = ticket.key.owner();
        if place >= self.places.len() {
            return Err(Status::Full);
        }
        let others = self.has_region_of(owner);
        let state = match self.line(owner) {
            Ok(line) => line.state,
            Err(error) => {
                self.lacks(error);
                return Err(Status::Unreachable);
            }
        };
        // Nobody was there to have it rebuilt.
        if !others && matches!(state, State::Broken(_)) {
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
                line.orders.waiting.push_back(order);
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
        if let Some(line) = self.lines.get_mut(&owner)
            && line.start_over(&mut self.ended).is_ok()
        {
            return self.greetings.push_back(owner);
        }
        self.drop_line(owner, Status::QueueBroken);
        if self.has_region_of(owner) {
            // If there can be none, what is posted ends as broken.
            if let Err(error) = self.line(owner) {
                self.lacks(error);
            }
        }
    }

    fn forget(&mut self, owner: Peer) {
        self.drop_line(owner, Status::OwnerGone);
        // Until they are detached, nobody makes a queue pair for them.
        for place in &mut self.places {
            place.take_if(|place| place.owner == owner);
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
