//! Work posted to a function of the card in memory.

use std::collections::{BTreeSet, VecDeque};

use umbra::sys::segment::Segment;
use umbra::verbs::Piece;
use umbra::xgvmi::Mover;
use umbra_core::access::device::Moved;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;

use super::Function;

/// Work that was begun: what a card reads from its queue later.
#[derive(Debug)]
struct Order {
    way: Access,
    owner: Peer,
    lkey: u32,
    address: u64,
    len: u32,
    landing: u64,
    name: u64,
}

/// Work of one function, between memory that its keys open and a landing area. It is done when somebody asks for its
/// end, with the keys that exist then.
#[derive(Debug)]
pub struct Worker {
    function: Function,
    landing: Segment,
    orders: VecDeque<Order>,
    ended: VecDeque<(u64, Status)>,
    broken: BTreeSet<Peer>,
}

impl Worker {
    /// Work of `function` with a landing area.
    #[must_use]
    pub fn new(function: Function, landing: Segment) -> Worker {
        let (orders, ended, broken) = (VecDeque::new(), VecDeque::new(), BTreeSet::new());
        Worker { function, landing, orders, ended, broken }
    }

    fn carry_out(&self, order: &Order) -> Result<(), Status> {
        let &Order { way, lkey, address, len, landing, .. } = order;
        let inside = self.function.card.0.borrow();
        let found = inside.find(self.function.vhca, lkey, address, u64::from(len), way);
        let (memory, at) = found.ok_or(Status::CopyFailed)?;
        let (landing, len) = (usize::try_from(landing).map_err(|_| Status::OutOfBounds)?, len as usize);
        let moved = match way {
            Access::WRITE => self.landing.copy(landing, &memory, at, len),
            _ => memory.copy(at, &self.landing, landing, len),
        };
        moved.map_err(|_| Status::CopyFailed)
    }

    fn end(&mut self, owner: Peer, status: Status) {
        let (theirs, others) = self.orders.drain(..).partition(|order| order.owner == owner);
        self.orders = others;
        let theirs: VecDeque<Order> = theirs;
        self.ended.extend(theirs.iter().map(|order| (order.name, status)));
    }
}

impl Mover for Worker {
    fn begin(&mut self, way: Access, owner: Peer, theirs: Piece<'_>, landing: u64, name: u64) -> Result<Moved, Status> {
        let Piece { region, offset, len } = theirs;
        if self.broken.contains(&owner) {
            return Err(Status::QueueBroken);
        }
        let (lkey, address) = (region.lkey(), region.address(offset));
        self.orders.push_back(Order { way, owner, lkey, address, len, landing, name });
        Ok(Moved::Begun)
    }

    fn ended(&mut self) -> Option<(u64, Status)> {
        if let Some(order) = self.orders.pop_front() {
            let done = self.carry_out(&order);
            self.ended.push_back((order.name, done.err().unwrap_or(Status::Ok)));
            if done.is_err() {
                // As a queue pair does: what was posted behind is flushed.
                self.broken.insert(order.owner);
                self.end(order.owner, Status::QueueBroken);
            }
        }
        self.ended.pop_front()
    }

    fn rebuild(&mut self, owner: Peer) {
        self.end(owner, Status::QueueBroken);
        self.broken.remove(&owner);
    }

    fn forget(&mut self, owner: Peer) {
        self.end(owner, Status::OwnerGone);
        self.broken.remove(&owner);
    }

    fn landing(&self) -> &Segment {
        &self.landing
    }
}
