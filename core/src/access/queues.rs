//! Imports, queues and completions over a device that copies.
//!
//! Work is posted after the table of regions allowed it, waits in one bounded queue, and is carried out by
//! [`poll`](MemoryAccess::poll) in order. If the device fails, the queue of that owner is broken: its work
//! behind the failure ends with [`Status::QueueBroken`] and new work is refused until it is rebuilt, as it
//! is with a queue pair of a network card. Work of other owners goes on.
//!
//! *Cost*: a post is one look-up and one store; a poll carries out at most [`BATCH`] pieces.

use super::device::{Device, Piece};
use super::imports::Imports;
use super::message::Export;
use super::{Event, MemoryAccess};
use crate::error::Status;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};
use crate::region::{Entry, Held};
use crate::time::Time;
use crate::transport::PostError;
use crate::wire::Token;

/// Pieces that one poll carries out at most.
pub const BATCH: usize = 32;

/// One posted access; lent by the caller.
#[derive(Debug)]
pub struct Posted {
    token: Token,
    way: Access,
    landing: u64,
    span: Span,
    held: Held,
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
    /// A circle of accesses; the oldest is at `first`.
    work: W,
    first: usize,
    len: usize,
    lanes: L,
}

impl<D, E, W, L> Queues<D, E, W, L>
where
    D: Device,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    W: AsRef<[Option<Posted>]> + AsMut<[Option<Posted>]>,
    L: AsRef<[Lane]> + AsMut<[Lane]>,
{
    /// Service process `me` over a device and lent tables: regions, posted work, and as many lanes as
    /// regions.
    pub fn new(me: Sp, device: D, regions: E, work: W, lanes: L) -> Self {
        Queues { device, imports: Imports::new(me, regions), work, first: 0, len: 0, lanes }
    }

    /// The device.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
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

    fn carry_out(&mut self, posted: &Posted) -> Result<(), Status> {
        let Posted { way, landing, span, ref held, .. } = *posted;
        let place = held.place();
        match self.imports.fate(held) {
            Some(fate) => Err(fate),
            None if self.is_broken(place) => Err(Status::QueueBroken),
            None => {
                let piece = Piece { place, offset: span.offset, address: held.address(), landing, len: span.len };
                self.device.copy(way, &piece)
            }
        }
    }

    fn detach(&mut self) {
        while let Some(place) = self.imports.reap() {
            self.device.detach(place);
        }
    }
}

impl<D, E, W, L> MemoryAccess for Queues<D, E, W, L>
where
    D: Device,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    W: AsRef<[Option<Posted>]> + AsMut<[Option<Posted>]>,
    L: AsRef<[Lane]> + AsMut<[Lane]>,
{
    fn import(&mut self, export: &Export, incarnation: Incarnation) -> Result<(), Status> {
        let Some(place) = self.imports.admit(export, incarnation)? else { return Ok(()) };
        let (key, regions) = (export.ticket.key, self.imports.regions());
        // One broken region of an owner is enough: its queue is broken for all of them.
        let broken = regions.iter().any(|r| {
            r.key.owner() == key.owner() && r.key != key && regions.place(r.key).is_some_and(|at| self.is_broken(at))
        });
        if let Some(lane) = self.lanes.as_mut().get_mut(place) {
            lane.broken = broken;
        }
        let attached = self.device.attach(place, &export.ticket);
        if attached.is_err() {
            self.imports.reject(key);
            self.detach();
        }
        attached
    }

    fn post(&mut self, way: Access, span: Span, landing: u64, token: Token) -> Result<(), PostError> {
        let capacity = self.work.as_ref().len();
        let held = self.imports.hold(way, span, landing, self.device.landing_len(), self.len < capacity)?;
        if self.is_broken(held.place()) {
            self.imports.release(held);
            return Err(PostError::Refused(Status::QueueBroken));
        }
        let at = (self.first + self.len) % capacity;
        self.work.as_mut()[at] = Some(Posted { token, way, landing, span, held });
        self.len += 1;
        Ok(())
    }

    fn revoke(&mut self, key: Key) -> Result<(), Status> {
        self.imports.revoke(key)
    }

    fn rebuild(&mut self, owner: Peer) {
        self.mark(owner, false);
    }

    fn forget(&mut self, owner: Peer) {
        self.imports.forget(owner);
    }

    fn poll(&mut self, _now: Time, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = self.imports.tell_drained(sink);
        for _ in 0..BATCH.min(self.len) {
            let capacity = self.work.as_ref().len();
            let Some(posted) = self.work.as_mut().get_mut(self.first).and_then(Option::take) else { break };
            self.first = (self.first + 1) % capacity;
            self.len -= 1;
            let status = self.carry_out(&posted).err().unwrap_or(Status::Ok);
            sink(Event::Done { token: posted.token, status });
            told += 1;
            let ended_by_device = !matches!(status, Status::Ok | Status::QueueBroken);
            if ended_by_device && self.imports.fate(&posted.held).is_none() {
                let owner = posted.span.key.owner();
                self.mark(owner, true);
                sink(Event::Broken { owner });
            }
            self.imports.release(posted.held);
            told += self.imports.tell_drained(sink);
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
