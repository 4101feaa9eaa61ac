//! Imports, queues and completions over a device that copies.
//!
//! Work is posted after the table of regions allowed it, waits in one bounded queue, and is given to the device by
//! [`poll`](MemoryAccess::poll) in order. A device that copies at once ends it there; one that works by itself keeps it,
//! with its hold on the region, until it tells the end. If the device fails, the queue of that owner is broken: its
//! work behind the failure ends with [`Status::QueueBroken`] and new work is refused until it is rebuilt, as it is with
//! a queue pair of a network card. Work of other owners goes on.
//!
//! *Cost*: a post is one look-up and one store; a poll gives at most [`BATCH`] pieces to the device.

use super::device::{Device, Moved, Piece};
use super::imports::Imports;
use super::message::Export;
use super::{Event, MemoryAccess};
use crate::error::{Full, Status};
use crate::id::Id;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};
use crate::region::{Entry, Held, Reaped, Regions};
use crate::slots::{Slot, Slots};
use crate::time::Time;
use crate::transport::PostError;
use crate::wire::Token;

/// Pieces that one poll gives to the device at most.
pub const BATCH: usize = 32;

/// One posted access; lent by the caller.
#[derive(Debug)]
pub struct Posted {
    token: Token,
    way: Access,
    landing: u64,
    span: Span,
    held: Held,
    /// The one posted behind it, while it waits.
    next: Option<Id<Posted>>,
}

/// What is known of the queue to the owner of the region at the same place; lent by the caller, one for each
/// place of the table of regions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    broken: bool,
}

/// Access through a device.
#[derive(Debug)]
pub struct Queues<D, E, W, L> {
    device: D,
    imports: Imports<E>,
    work: Slots<W>,
    /// The oldest and the newest of what the device was not given yet.
    first: Option<Id<Posted>>,
    last: Option<Id<Posted>>,
    lanes: L,
}

impl<D, E, W, L> Queues<D, E, W, L>
where
    D: Device,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    W: AsRef<[Slot<Posted>]> + AsMut<[Slot<Posted>]>,
    L: AsRef<[Lane]> + AsMut<[Lane]>,
{
    /// Service process `me` over a device and lent tables: regions, posted work, and as many lanes as
    /// regions.
    pub fn new(me: Sp, device: D, regions: E, work: W, lanes: L) -> Self {
        Queues { device, imports: Imports::new(me, regions), work: Slots::new(work), first: None, last: None, lanes }
    }

    /// The device.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// The regions that were imported.
    pub const fn regions(&self) -> &Regions<E> {
        self.imports.regions()
    }

    /// Accesses that were posted and have not ended.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.work.len()
    }

    /// Whether work on a region is refused until the queue to its owner is rebuilt.
    #[must_use]
    pub fn is_refused(&self, key: Key) -> bool {
        self.imports.regions().place(key).is_some_and(|place| self.is_broken(place))
    }

    fn is_broken(&self, place: usize) -> bool {
        self.lanes.as_ref().get(place).is_none_or(|lane| lane.broken)
    }

    fn mark(&mut self, owner: Peer, broken: bool) {
        let regions = self.imports.regions();
        for region in regions.iter().filter(|r| r.key.owner() == owner) {
            if let Some(lane) = regions.place(region.key).and_then(|at| self.lanes.as_mut().get_mut(at)) {
                lane.broken = broken;
            }
        }
    }

    /// Takes the oldest of what waits.
    fn pop(&mut self) -> Option<Id<Posted>> {
        let id = self.first?;
        self.first = self.work.get_mut(id).ok().and_then(|posted| posted.next.take());
        if self.first.is_none() {
            self.last = None;
        }
        Some(id)
    }

    fn carry_out(&mut self, id: Id<Posted>) -> Result<Moved, Status> {
        let Posted { way, landing, span, ref held, .. } = *self.work.get(id).map_err(|_| Status::QueueBroken)?;
        let place = held.place();
        match self.imports.fate(held) {
            Some(fate) => Err(fate),
            None if self.is_broken(place) => Err(Status::QueueBroken),
            None => {
                let piece = Piece { place, offset: span.offset, address: held.address(), landing, len: span.len };
                self.device.copy(way, &piece, id.to_bits())
            }
        }
    }

    /// An access has ended; tells it, and what that ends.
    fn end(&mut self, id: Id<Posted>, status: Status, sink: &mut dyn FnMut(Event)) -> usize {
        let Ok(posted) = self.work.remove(id) else { return 0 };
        let fate = self.imports.fate(&posted.held);
        let status = fate.unwrap_or(status);
        sink(Event::Done { token: posted.token, status });
        let failed = fate.is_none() && !matches!(status, Status::Ok | Status::QueueBroken);
        if failed && !self.is_broken(posted.held.place()) {
            let owner = posted.span.key.owner();
            crate::log!(warn, "queue to {:?} is broken: {:?}", owner, status);
            self.mark(owner, true);
            sink(Event::Broken { owner });
        }
        self.imports.release(posted.held);
        1 + self.imports.tell_drained(sink)
    }

    fn detach(&mut self) {
        while let Some(Reaped { place, lost, .. }) = self.imports.reap() {
            self.device.detach(place, lost);
        }
    }
}

impl<D, E, W, L> MemoryAccess for Queues<D, E, W, L>
where
    D: Device,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    W: AsRef<[Slot<Posted>]> + AsMut<[Slot<Posted>]>,
    L: AsRef<[Lane]> + AsMut<[Lane]>,
{
    fn import(&mut self, export: &Export, incarnation: Incarnation) -> Result<(), Status> {
        let owner = export.ticket.key.owner();
        if self.imports.outlive(owner, incarnation) {
            self.device.forget(owner);
        }
        let Some(place) = self.imports.admit(export, incarnation)? else { return Ok(()) };
        let (key, regions) = (export.ticket.key, self.imports.regions());
        // One broken region of an owner is enough: its queue is broken for all of them.
        let broken = regions.iter().any(|r| {
            r.key.owner() == owner && r.key != key && regions.place(r.key).is_some_and(|at| self.is_broken(at))
        });
        if let Some(lane) = self.lanes.as_mut().get_mut(place) {
            lane.broken = broken;
        }
        let attached = self.device.attach(place, export);
        if attached.is_err() {
            self.imports.reject(key);
            self.detach();
        }
        attached
    }

    fn post(&mut self, way: Access, span: Span, landing: u64, token: Token) -> Result<(), PostError> {
        let room = self.work.len() < self.work.capacity();
        let held = self.imports.hold(way, span, landing, self.device.landing_len(), room)?;
        if self.is_broken(held.place()) {
            self.imports.release(held);
            return Err(PostError::Refused(Status::QueueBroken));
        }
        let id = match self.work.take(Posted { token, way, landing, span, held, next: None }) {
            Ok(id) => id,
            Err(Full(posted)) => {
                self.imports.release(posted.held);
                return Err(PostError::Full);
            }
        };
        match self.last.replace(id).and_then(|last| self.work.get_mut(last).ok()) {
            Some(last) => last.next = Some(id),
            None => self.first = Some(id),
        }
        Ok(())
    }

    fn revoke(&mut self, key: Key) -> Result<(), Status> {
        self.imports.revoke(key)
    }

    fn rebuild(&mut self, owner: Peer) {
        crate::log!(info, "queue to {:?} is rebuilt", owner);
        self.mark(owner, false);
        self.device.rebuild(owner);
    }

    fn forget(&mut self, owner: Peer, life: Incarnation) {
        self.imports.forget(owner, life);
        // The device has one queue to an owner; it is that of the life whose regions are here.
        if !self.imports.regions().iter().any(|region| region.key.owner() == owner) {
            self.device.forget(owner);
        }
    }

    fn poll(&mut self, _now: Time, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = self.imports.tell_drained(sink);
        for _ in 0..BATCH {
            let Some(id) = self.pop() else { break };
            match self.carry_out(id) {
                Ok(Moved::Begun) => {}
                Ok(Moved::All) => told += self.end(id, Status::Ok, sink),
                Err(status) => told += self.end(id, status, sink),
            }
        }
        for _ in 0..self.work.capacity() {
            let Some((name, status)) = self.device.ended() else { break };
            told += self.end(Id::from_bits(name), status, sink);
        }
        self.detach();
        told
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        self.device.take(landing, into)
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        self.device.put(landing, from)
    }
}
