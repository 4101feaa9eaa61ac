//! The devices of this machine: shared mappings and the memory of processes.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;
use umbra_core::ticket::Locator;

use super::landing;
use super::source::Source;
use crate::sys::segment::Segment;

/// Copies between regions on this machine and a landing segment, however each region is reached.
#[derive(Debug)]
pub struct Local {
    sources: Vec<Option<Source>>,
    landing: Arc<Segment>,
    /// Descriptors that came ahead of the tickets that name them.
    received: HashMap<(Peer, u64), OwnedFd>,
}

impl Local {
    /// Room for a table of regions of `capacity` places, over a landing segment.
    #[must_use]
    pub fn new(capacity: usize, landing: Arc<Segment>) -> Local {
        Local { sources: vec![None; capacity], landing, received: HashMap::new() }
    }

    /// An owner passed the descriptor of its segment number `segment`; a ticket that names it comes next.
    pub fn receive(&mut self, owner: Peer, segment: u64, descriptor: OwnedFd) {
        self.received.insert((owner, segment), descriptor);
    }

    /// The landing segment.
    #[must_use]
    pub const fn landing(&self) -> &Arc<Segment> {
        &self.landing
    }
}

impl Device for Local {
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status> {
        let ticket = &export.ticket;
        let owner = ticket.key.owner();
        let descriptor = match ticket.locator {
            Locator::Segment { segment, .. } => self.received.remove(&(owner, segment)),
            _ => None,
        };
        let slot = self.sources.get_mut(place).ok_or(Status::Full)?;
        *slot = None;
        *slot = Some(Source::open(ticket.locator, ticket.access, descriptor, None)?);
        Ok(())
    }

    fn detach(&mut self, place: usize, _lost: bool) {
        if let Some(slot) = self.sources.get_mut(place) {
            *slot = None;
        }
    }

    fn copy(&mut self, way: Access, piece: &Piece, _: u64) -> Result<Moved, Status> {
        let source = self.sources.get(piece.place).and_then(Option::as_ref).ok_or(Status::CopyFailed)?;
        let Piece { offset, address, landing, len, .. } = *piece;
        match way {
            Access::WRITE => source.write_from(offset, address, &self.landing, landing, len)?,
            _ => source.read_into(offset, address, &self.landing, landing, len)?,
        }
        Ok(Moved::All)
    }

    fn landing_len(&self) -> u64 {
        self.landing.len() as u64
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        landing::take(&self.landing, landing, into)
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        landing::put(&self.landing, landing, from)
    }
}
