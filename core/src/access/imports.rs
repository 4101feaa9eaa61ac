//! What a service process has imported, and what of it may be touched.
//!
//! The table also knows which revocations nobody was told of. It is the half that all ways to memory share. A way asks
//! for a hold before it posts, gives it back when the access has ended, looks up its fate before it moves a byte, and
//! lets the table tell what has drained.
//!
//! Invariant: a revocation that was begun is told once, unless the owner died first; until then the region
//! keeps its place, so the next generation of its number is refused with [`Status::Conflict`].

use super::Event;
use super::message::Export;
use crate::error::Status;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};
use crate::region::{Entry, Held, Reaped, Region, Regions};
use crate::transport::PostError;

/// The regions that one service process imported.
#[derive(Debug)]
pub(super) struct Imports<E> {
    me: Sp,
    regions: Regions<E>,
}

impl<E: AsRef<[Entry]> + AsMut<[Entry]>> Imports<E> {
    pub(super) fn new(me: Sp, entries: E) -> Self {
        Imports { me, regions: Regions::new(entries) }
    }

    pub(super) const fn regions(&self) -> &Regions<E> {
        &self.regions
    }

    /// Takes a region over; its place if it was not known before.
    pub(super) fn admit(&mut self, export: &Export, incarnation: Incarnation) -> Result<Option<usize>, Status> {
        let Export { ticket, secret, shadows } = export;
        let region = Region { key: ticket.key, incarnation, base: ticket.base, len: ticket.len, access: ticket.access };
        let known = self.regions.get(region.key) == Some(&region);
        self.regions.admit(self.me, region, shadows.clone(), *secret)?;
        if known {
            return Ok(None);
        }
        self.regions.place(region.key).map(Some).ok_or(Status::UnknownRegion)
    }

    /// All checks before an access is posted: the landing area's bounds, room in the queue, then what the
    /// owner allowed.
    pub(super) fn hold(
        &mut self,
        way: Access,
        span: Span,
        landing: u64,
        landing_len: u64,
        room: bool,
    ) -> Result<Held, PostError> {
        if landing > landing_len || span.len > landing_len - landing {
            return Err(PostError::Refused(Status::OutOfBounds));
        }
        if !room {
            return Err(PostError::Full);
        }
        self.regions.hold(span, way, self.me).map_err(|error| PostError::Refused(error.into()))
    }

    /// An access has ended. Revocations are told by [`tell_drained`](Self::tell_drained) only.
    pub(super) fn release(&mut self, held: Held) {
        let acknowledged = self.regions.release(held);
        debug_assert_eq!(acknowledged, None, "every revocation here is pinned");
    }

    /// How an access must end, if its region was taken away by force or died with its owner.
    pub(super) fn fate(&self, held: &Held) -> Option<Status> {
        self.regions.fate(held).map(Status::from)
    }

    pub(super) fn revoke(&mut self, key: Key) -> Result<(), Status> {
        self.regions.revoke_pinned(key)?;
        Ok(())
    }

    /// Nothing can be done with a region after all; whoever tries is told that it was taken back.
    pub(super) fn reject(&mut self, key: Key) {
        // It may have ended meanwhile; then there is nothing to reject.
        let _ = self.regions.force(key);
    }

    /// The owner's life `life` is over.
    pub(super) fn forget(&mut self, owner: Peer, life: Incarnation) {
        self.regions.orphan(owner, |ended| ended == life);
    }

    /// The owner lives in `life` now: its other lives are over. True if a region went with one.
    pub(super) fn outlive(&mut self, owner: Peer, life: Incarnation) -> bool {
        self.regions.orphan(owner, |ended| ended != life) > 0
    }

    /// Tells every revocation that has drained; returns how many.
    pub(super) fn tell_drained(&mut self, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = 0;
        while let Some(key) = self.regions.next_drained() {
            sink(Event::Revoked { key });
            told += 1;
        }
        told
    }

    /// A region that ended: unmap what is kept under its place. Call until `None`.
    pub(super) fn reap(&mut self) -> Option<Reaped> {
        self.regions.reap()
    }
}
