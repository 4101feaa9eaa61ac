//! Imports, queues and completions over a device that copies.
//!
//! Work is posted after the table of regions allowed it, waits in one bounded queue, and is carried out by
//! [`poll`](MemoryAccess::poll) in order. If the device fails, the queue of that owner is broken: its work
//! behind the failure ends with [`Status::QueueBroken`] and new work is refused until it is rebuilt, as it
//! is with a queue pair of a network card. Work of other owners goes on.
//!
//! *Cost*: a post is one look-up and one store; a poll carries out at most [`BATCH`] pieces.

use super::device::{Device, Piece};
use super::message::Export;
use super::{Event, MemoryAccess};
use crate::error::Status;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};
use crate::region::{Entry, Held, Region, Regions};
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
    me: Sp,
    device: D,
    regions: Regions<E>,
    /// A circle of accesses; the oldest is at `first`.
    work: W,
    first: usize,
    len: usize,
    lanes: L,
    /// A region that drained and was not told.
    drained: Option<Key>,
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
        Queues { me, device, regions: Regions::new(regions), work, first: 0, len: 0, lanes, drained: None }
    }

    /// The device.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
    }

    fn is_broken(&self, place: usize) -> bool {
        self.lanes.as_ref().get(place).is_none_or(|lane| lane.broken)
    }

    fn mark(&mut self, owner: Peer, broken: bool) {
        for region in self.regions.iter().filter(|r| r.key.owner() == owner) {
            if let Some(lane) = self.regions.place(region.key).and_then(|at| self.lanes.as_mut().get_mut(at)) {
                lane.broken = broken;
            }
        }
    }

    fn post(&mut self, way: Access, span: Span, landing: u64, token: Token) -> Result<(), PostError> {
        let there = self.device.landing_len();
        if landing > there || span.len > there - landing {
            return Err(PostError::Refused(Status::OutOfBounds));
        }
        let capacity = self.work.as_ref().len();
        if self.len == capacity {
            return Err(PostError::Full);
        }
        let held = self.regions.hold(span, way, self.me).map_err(|error| PostError::Refused(error.into()))?;
        if self.is_broken(held.place()) {
            // The region is live, so this cannot have been its last hold.
            self.regions.release(held);
            return Err(PostError::Refused(Status::QueueBroken));
        }
        let at = (self.first + self.len) % capacity;
        self.work.as_mut()[at] = Some(Posted { token, way, landing, span, held });
        self.len += 1;
        Ok(())
    }

    fn carry_out(&mut self, posted: &Posted) -> Result<(), Status> {
        let Posted { way, landing, span, ref held, .. } = *posted;
        let place = held.place();
        match self.regions.get(span.key) {
            Some(_) if self.is_broken(place) => Err(Status::QueueBroken),
            Some(_) => {
                let piece = Piece { place, offset: span.offset, address: held.address(), landing, len: span.len };
                self.device.copy(way, &piece)
            }
            // It was taken away by force, or its owner died.
            None => Err(match self.regions.find(span.key.owner(), held.address()) {
                Err(crate::region::HoldError::OwnerGone) => Status::OwnerGone,
                _ => Status::KeyRevoked,
            }),
        }
    }

    fn reap(&mut self) {
        while let Some((place, _)) = self.regions.reap() {
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
        let Export { ticket, secret, shadows } = export;
        let region = Region { key: ticket.key, incarnation, base: ticket.base, len: ticket.len, access: ticket.access };
        let known = self.regions.get(region.key) == Some(&region);
        self.regions.admit(self.me, region, shadows.clone(), *secret)?;
        if known {
            return Ok(());
        }
        let place = self.regions.place(region.key).ok_or(Status::UnknownRegion)?;
        // One broken region of an owner is enough: its queue is broken for all of them.
        let owner = region.key.owner();
        let broken = self.regions.iter().any(|r| {
            r.key.owner() == owner
                && r.key != region.key
                && self.regions.place(r.key).is_some_and(|at| self.is_broken(at))
        });
        if let Some(lane) = self.lanes.as_mut().get_mut(place) {
            lane.broken = broken;
        }
        let attached = self.device.attach(place, ticket);
        if attached.is_err() {
            // It was admitted just now, so the table knows it.
            let _ = self.regions.force(region.key);
            self.reap();
        }
        attached
    }

    fn read(&mut self, from: Span, landing: u64, token: Token) -> Result<(), PostError> {
        self.post(Access::READ, from, landing, token)
    }

    fn write(&mut self, landing: u64, to: Span, token: Token) -> Result<(), PostError> {
        self.post(Access::WRITE, to, landing, token)
    }

    fn revoke(&mut self, key: Key) -> Result<(), Status> {
        let already = self.regions.get(key).is_none();
        if self.regions.revoke(key)?.in_flight == 0 && !already {
            self.drained = Some(key);
        }
        Ok(())
    }

    fn rebuild(&mut self, owner: Peer) {
        self.mark(owner, false);
    }

    fn forget(&mut self, owner: Peer) {
        self.regions.orphan(owner, |_| {});
    }

    fn poll(&mut self, _now: Time, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = 0;
        if let Some(key) = self.drained.take() {
            sink(Event::Revoked { key });
            told += 1;
        }
        for _ in 0..BATCH.min(self.len) {
            let capacity = self.work.as_ref().len();
            let Some(posted) = self.work.as_mut().get_mut(self.first).and_then(Option::take) else { break };
            self.first = (self.first + 1) % capacity;
            self.len -= 1;
            let status = self.carry_out(&posted).err().unwrap_or(Status::Ok);
            sink(Event::Done { token: posted.token, status });
            told += 1;
            let ended_by_device = !matches!(status, Status::Ok | Status::QueueBroken);
            if ended_by_device && self.regions.get(posted.span.key).is_some() {
                let owner = posted.span.key.owner();
                self.mark(owner, true);
                sink(Event::Broken { owner });
            }
            if let Some(key) = self.regions.release(posted.held) {
                sink(Event::Revoked { key });
                told += 1;
            }
        }
        self.reap();
        told
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        self.device.take(landing, into)
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        self.device.put(landing, from)
    }
}
