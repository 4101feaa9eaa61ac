//! Regions of other functions as a [`Device`].
//!
//! That is what the one contract of memory access asks for.

use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;

use super::card::Commands;
use super::import::{AliasId, Importer};
use crate::access::landing;
use crate::sys::segment::Segment;
use crate::verbs::{self, Local};

/// What moves bytes between local memory, which may be an alias, and a landing area. What fails for one owner's memory
/// does not disturb work with another's.
pub trait Mover {
    /// Begins to move a piece of `owner`'s memory into the landing area at `landing`, or from there for
    /// [`Access::WRITE`]; `name` is what [`ended`](Self::ended) calls it.
    ///
    /// # Errors
    /// Why it cannot be begun.
    fn begin(
        &mut self,
        way: Access,
        owner: Peer,
        theirs: verbs::Piece<'_>,
        landing: u64,
        name: u64,
    ) -> Result<Moved, Status>;

    /// The name of a piece that has ended, and how.
    fn ended(&mut self) -> Option<(u64, Status)>;

    /// Makes work with an owner's memory possible again after a failure.
    fn rebuild(&mut self, owner: Peer);

    /// No byte of an owner's memory moves any more.
    fn forget(&mut self, owner: Peer);

    /// The landing area.
    fn landing(&self) -> &Segment;
}

/// A region: whose, and by which alias.
#[derive(Debug)]
struct Place<O> {
    owner: Peer,
    alias: AliasId<O>,
}

/// Memory of other functions, each region by an alias.
#[derive(Debug)]
pub struct Aliased<C: Commands, M> {
    importer: Importer<C>,
    places: Vec<Option<Place<C::Object>>>,
    mover: M,
}

impl<C: Commands, M: Mover> Aliased<C, M> {
    /// Room for a table of regions of `capacity` places.
    pub fn new(importer: Importer<C>, capacity: usize, mover: M) -> Aliased<C, M> {
        Aliased { importer, places: (0..capacity).map(|_| None).collect(), mover }
    }

    /// The aliases.
    pub const fn importer(&self) -> &Importer<C> {
        &self.importer
    }

    fn release(&mut self, place: usize, keep: bool) {
        if let Some(Place { alias, .. }) = self.places.get_mut(place).and_then(Option::take) {
            // An alias that cannot be destroyed is not used any more all the same, and ends with this process.
            let _ = self.importer.release(alias, keep);
        }
    }
}

impl<C: Commands, M: Mover> Device for Aliased<C, M> {
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status> {
        self.release(place, false);
        let slot = self.places.get_mut(place).ok_or(Status::Full)?;
        let alias = self.importer.import(&export.ticket, &export.secret).map_err(|why| why.status())?;
        *slot = Some(Place { owner: export.ticket.key.owner(), alias });
        Ok(())
    }

    fn detach(&mut self, place: usize, lost: bool) {
        self.release(place, lost);
    }

    fn copy(&mut self, way: Access, piece: &Piece, name: u64) -> Result<Moved, Status> {
        let Place { owner, alias } = self.places.get(piece.place).and_then(Option::as_ref).ok_or(Status::CopyFailed)?;
        // The last check before anything is posted: an alias whose registration ended is stale, whatever its key opens.
        let region = self.importer.alias(*alias).ok_or(Status::StaleKey)?;
        let offset = usize::try_from(piece.offset).map_err(|_| Status::OutOfBounds)?;
        let len = u32::try_from(piece.len).map_err(|_| Status::OutOfBounds)?;
        if region.address(offset) != piece.address {
            return Err(Status::CopyFailed);
        }
        if len == 0 {
            return Ok(Moved::All);
        }
        self.mover.begin(way, *owner, verbs::Piece { region, offset, len }, piece.landing, name)
    }

    fn ended(&mut self) -> Option<(u64, Status)> {
        self.mover.ended()
    }

    fn rebuild(&mut self, owner: Peer) {
        self.mover.rebuild(owner);
    }

    fn forget(&mut self, owner: Peer) {
        self.mover.forget(owner);
    }

    fn landing_len(&self) -> u64 {
        self.mover.landing().len() as u64
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        landing::take(self.mover.landing(), landing, into)
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        landing::put(self.mover.landing(), landing, from)
    }
}
