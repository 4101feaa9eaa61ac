//! Cells that all lanes of a process receive into.
//!
//! The pool begins with as many cells as one peer may use. When the card warns that few are left, it grows, as far as the
//! shared queue goes; from then on senders wait for each other.

use std::sync::Arc;

use umbra_core::key::Access;

use super::lane::{CELLS, segment};
use super::memory::{Domain, Region};
use super::shared::SharedReceives;
use super::work::Piece;
use super::{VerbsError, WorkStatus};
use crate::shm::{CELL, Cell};

/// Cells at most.
const MOST: u32 = 1024;
/// Cells that the pool grows by.
const PART: u64 = CELLS;
/// With fewer cells left than this it grows.
const FEW: u32 = CELLS as u32 / 4;

/// Cells that are posted, or arrived and not read yet.
#[derive(Debug)]
pub(super) struct Pool {
    receives: SharedReceives,
    parts: Vec<Region>,
    /// The card has warned, and the pool has not grown since.
    low: bool,
}

impl Pool {
    pub(super) fn new(domain: &Arc<Domain>) -> Result<Pool, VerbsError> {
        let mut pool = Pool { receives: SharedReceives::new(domain, MOST)?, parts: Vec::new(), low: false };
        pool.grow()?;
        match pool.receives.warn_below(FEW) {
            // Without a warning it has to be large enough from the beginning.
            Err(VerbsError::NoWarning { .. }) => while pool.grow()? {},
            warned => warned?,
        }
        Ok(pool)
    }

    pub(super) const fn receives(&self) -> &SharedReceives {
        &self.receives
    }

    /// Adds cells; false if there can be no more.
    fn grow(&mut self) -> Result<bool, VerbsError> {
        let first = self.parts.len() as u64 * PART;
        if first + PART > u64::from(self.receives.capacity()) {
            return Ok(false);
        }
        let cells = segment("umbra-pool", PART as usize * CELL)?;
        self.parts.push(Region::register(self.receives.domain(), cells, Access::empty())?);
        (first..first + PART).try_for_each(|number| self.post(number))?;
        Ok(true)
    }

    /// After so many batches everything was taken that had arrived before the first.
    pub(super) const fn batches(&self) -> usize {
        self.receives.capacity() as usize / super::BATCH + 1
    }

    /// Grows if the card warned.
    pub(super) fn look(&mut self) -> Result<(), VerbsError> {
        // The card warns once: if the pool cannot grow now, it tries again.
        self.low |= self.receives.is_low()?;
        if self.low {
            if self.grow()? {
                self.receives.warn_below(FEW)?;
            }
            self.low = false;
        }
        Ok(())
    }

    fn place(&self, number: u64) -> Option<(&Region, usize)> {
        let part = self.parts.get(usize::try_from(number / PART).ok()?)?;
        Some((part, (number % PART) as usize * CELL))
    }

    fn post(&self, number: u64) -> Result<(), VerbsError> {
        match self.place(number) {
            Some((region, offset)) => self.receives.post(number, Piece { region, offset, len: CELL as u32 }),
            None => Ok(()),
        }
    }

    /// Tells what arrived, at most one batch, with the number of the queue pair that it came over; no cell if that broke.
    /// How many.
    pub(super) fn take(&mut self, sink: &mut dyn FnMut(u32, Option<&Cell>)) -> Result<usize, VerbsError> {
        let mut ended = [None; super::BATCH];
        let mut places = ended.iter_mut();
        let taken = self.receives.poll(&mut |number, done| {
            if let Some(place) = places.next() {
                *place = Some((number, done));
            }
        })?;
        for (number, done) in ended.into_iter().flatten() {
            let mut cell = Cell([0; CELL]);
            let len = (done.bytes as usize).min(CELL);
            let read = self.place(done.id).map(|(region, offset)| region.segment().read(offset, &mut cell.0[..len]));
            let whole = done.status == WorkStatus::Success && matches!(read, Some(Ok(())));
            // It is free again before the peer learns that its frame was taken.
            self.post(done.id)?;
            sink(number, whole.then_some(&cell));
        }
        Ok(taken)
    }
}
