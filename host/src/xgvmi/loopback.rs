//! Moving bytes by queue pairs that are connected to themselves.
//!
//! Work names memory of another function by the local key of an alias, and the landing area by its remote key: a WRITE
//! brings bytes into the landing area, a READ takes them from there. Each owner has a queue pair of its own, so a piece
//! that the card refuses breaks nobody else's.
//!
//! *Cost*: of a piece: one work request, one completion; no lock, no allocation, no system call of ours.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use umbra_core::access::device::Moved;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;

use super::device::Mover;
use crate::sys::segment::Segment;
use crate::verbs::{Depths, Domain, Piece, Port, Queue, Region, Remote, VerbsError, Work, WorkStatus};

/// The queue pair for one owner's memory.
#[derive(Debug)]
struct Line {
    queue: Queue,
    whole: bool,
    /// What the card works on, in the order in which it ends.
    under_way: VecDeque<u64>,
}

/// Queue pairs and a landing area.
#[derive(Debug)]
pub struct Loopback {
    lines: BTreeMap<Peer, Line>,
    landing: Region,
    port: Port,
    depth: u32,
    ended: VecDeque<(u64, Status)>,
}

impl Line {
    fn new(domain: &Arc<Domain>, port: &Port, depth: u32) -> Result<Line, VerbsError> {
        let queue = Queue::new(domain, port, Depths { work: depth, receives: 1 })?;
        let mut line = Line { queue, whole: false, under_way: VecDeque::with_capacity(depth as usize) };
        line.connect()?;
        Ok(line)
    }

    fn connect(&mut self) -> Result<(), VerbsError> {
        let own = self.queue.address();
        self.queue.connect(&own)?;
        self.whole = true;
        Ok(())
    }
}

impl Loopback {
    /// Speaks through a port, with at most `depth` pieces at once; aliases must be made in the same `domain`.
    ///
    /// # Errors
    /// [`VerbsError`] if the landing area cannot be registered.
    pub fn new(domain: &Arc<Domain>, port: &Port, depth: u32, landing: Arc<Segment>) -> Result<Loopback, VerbsError> {
        let landing = Region::register(domain, landing, Access::READ | Access::WRITE)?;
        let (lines, ended) = (BTreeMap::new(), VecDeque::with_capacity(depth as usize));
        Ok(Loopback { lines, landing, port: port.clone(), depth, ended })
    }

    fn line(&mut self, owner: Peer) -> Result<&mut Line, VerbsError> {
        match self.lines.entry(owner) {
            std::collections::btree_map::Entry::Occupied(line) => Ok(line.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                Ok(place.insert(Line::new(self.landing.domain(), &self.port, self.depth)?))
            }
        }
    }

    fn take_in(&mut self) {
        let Loopback { lines, ended, .. } = self;
        lines.retain(|_, line| {
            let Line { queue, whole, under_way } = line;
            if under_way.is_empty() {
                return true;
            }
            let polled = queue.poll(&mut |done| {
                // Each piece was posted by itself and ends by itself, in order.
                if let Some(name) = under_way.pop_front() {
                    ended.push_back((name, done.status.status()));
                }
                *whole &= done.status == WorkStatus::Success;
            });
            // Nobody will tell the other ends: without its queue pair the card moves nothing any more. The next piece finds a new
            // one, or learns that there can be none.
            if polled.is_err() {
                ended.extend(under_way.drain(..).map(|name| (name, Status::QueueBroken)));
            }
            polled.is_ok()
        });
    }
}

impl Mover for Loopback {
    fn begin(&mut self, way: Access, owner: Peer, theirs: Piece<'_>, landing: u64, name: u64) -> Result<Moved, Status> {
        let at = usize::try_from(landing).map_err(|_| Status::OutOfBounds)?;
        self.landing.segment().at(at, theirs.len as usize).map_err(|_| Status::OutOfBounds)?;
        let here = Remote { address: self.landing.address(at), rkey: self.landing.rkey() };
        let work = match way {
            Access::WRITE => Work::Read { from: here, to: theirs },
            _ => Work::Write { from: theirs, to: here, immediate: None },
        };
        let line = self.line(owner).map_err(|_| Status::QueueBroken)?;
        if !line.whole {
            return Err(Status::QueueBroken);
        }
        match line.queue.post(&[(name, work)]) {
            Ok(()) => {
                line.under_way.push_back(name);
                Ok(Moved::Begun)
            }
            Err(VerbsError::OutOfBounds { .. }) => Err(Status::OutOfBounds),
            Err(VerbsError::Call { .. }) => {
                // The driver refused, and nobody else will tell that the queue is of no use any more.
                line.whole = false;
                Err(Status::CopyFailed)
            }
            Err(_) => Err(Status::QueueBroken),
        }
    }

    fn ended(&mut self) -> Option<(u64, Status)> {
        if self.ended.is_empty() {
            self.take_in();
        }
        self.ended.pop_front()
    }

    fn rebuild(&mut self, owner: Peer) {
        let Some(line) = self.lines.get_mut(&owner) else { return };
        self.ended.extend(line.under_way.drain(..).map(|name| (name, Status::QueueBroken)));
        line.whole = false;
        if line.queue.reset().and_then(|()| line.connect()).is_err() {
            // The next piece finds a new queue pair, or learns that there can be none.
            self.lines.remove(&owner);
        }
    }

    fn forget(&mut self, owner: Peer) {
        // Without its queue pair the card moves nothing any more.
        if let Some(line) = self.lines.remove(&owner) {
            self.ended.extend(line.under_way.iter().map(|&name| (name, Status::OwnerGone)));
        }
    }

    fn landing(&self) -> &Segment {
        self.landing.segment()
    }
}
