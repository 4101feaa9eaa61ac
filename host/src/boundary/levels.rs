//! Strips between blocks of two levels: where they lie, and what becomes of them.
//!
//! They are gathered before they travel, as what travels is not always what lies there. What travels is coarse both ways.
//!
//! *Cost*: O(cells of the strip), and some for its boxes. None of it is inlined: the loops over strips, most of which lie within a
//! level, need their registers.

use std::convert::Infallible;

use umbra_core::boundary::{Entry, Patch, Region, Shape, Step, StripOp, Usual};

use super::error::BoundaryError;
use super::fields::{Field, Fields};
use super::rows::Rows;
use super::strip;
use super::tasks::Boundary;
use super::transport::TransportError;

/// What is needed of a mesh of several levels.
#[derive(Debug)]
pub(super) struct Levels {
    shape: Shape,
    operation: Box<dyn StripOp>,
}

impl<T> Boundary<T> {
    /// Restricts and prolongates by this from the next exchange on; before, and in a mesh of one level for ever, by
    /// [`Usual`]. All ranks do it between the same two exchanges.
    pub fn set_operation(&mut self, operation: impl StripOp + 'static) {
        self.levels.operation = Box::new(operation);
    }

    /// Passes the strip of a channel within this rank: what it holds, or the default. The view lends one array at a time.
    #[inline(never)]
    pub(super) fn pass(&mut self, view: &mut impl Fields, channel: usize, live: bool) -> Result<(), BoundaryError> {
        let entry = &self.machine.local().1[channel];
        let (levels, strip) = (&self.levels, &mut self.between[..entry.count as usize]);
        if live {
            let (block, field) = (entry.key.sender, entry.key.field);
            let values = strip::array(view, self.strips.cells, &self.fields, entry)?;
            let values = values.ok_or(BoundaryError::Absent { block, field })?;
            levels.gather(entry, values, strip);
        }
        let Some(values) = strip::target(view, &self.strips, &self.fields, entry)? else { return Ok(()) };
        levels.unpack(&self.fields, entry, live.then_some(&*strip), values)?;
        Ok(())
    }
}

impl Levels {
    pub(super) fn new(shape: &Shape) -> Levels {
        Levels { shape: *shape, operation: Box::new(Usual) }
    }

    /// For another mesh, with the same operation.
    pub(super) const fn reshape(&mut self, shape: &Shape) {
        self.shape = *shape;
    }

    fn rows(&self, region: Region) -> Rows {
        Rows::new(region, self.shape.extents())
    }

    /// Each component of an array and of a strip by its range, and what these are to each other.
    fn patches(&self, entry: &Entry, len: usize, mut each: impl FnMut(&Patch, [std::ops::Range<usize>; 2])) {
        let cells = self.shape.len();
        let mut patch = Patch::new(&self.shape, entry.key, entry.step, 0);
        let coarse = patch.coarse.iter().product::<u32>() as usize;
        for nth in 0..len / cells {
            patch.component = nth as u32;
            each(&patch, [cells, coarse].map(|len| nth * len..(nth + 1) * len));
        }
    }

    /// What travels from the sender's array.
    fn gather(&self, entry: &Entry, values: &[f64], strip: &mut [f64]) {
        if let Step::Coarser(_) = entry.step {
            self.patches(entry, values.len(), |patch, [array, part]| {
                self.operation.restrict(patch, &values[array], &mut strip[part]);
            });
            return;
        }
        let rows = self.rows(self.shape.passage(entry.key.element, entry.step).source);
        let (cells, mut behind) = (self.shape.len(), 0);
        let Ok(()) = rows.each::<Infallible>(values.len() / cells, cells, |row| {
            strip[behind..behind + row.len()].copy_from_slice(&values[row]);
            behind += rows.len();
            Ok(())
        });
    }

    /// Packs a strip, if it holds something: what travels counts, not what it is made of.
    #[inline(never)]
    pub(super) fn pack<'b>(
        &self,
        view: &impl Fields,
        fields: &[Field],
        entry: &Entry,
        between: &'b mut [f64],
    ) -> Result<Option<&'b [f64]>, BoundaryError> {
        let Some(values) = strip::array(view, self.shape.len(), fields, entry)? else { return Ok(None) };
        let kind = fields.get(usize::from(entry.key.field)).unwrap_or(&Field::DENSE);
        let strip = &mut between[..entry.count as usize];
        self.gather(entry, values, strip);
        let live = kind.sparse.is_none_or(|sparse| sparse.is_live(strip));
        Ok(live.then_some(strip))
    }

    /// Fills the ghosts of the receiver's array from what came, or with the default.
    #[inline(never)]
    pub(super) fn unpack(
        &self,
        fields: &[Field],
        entry: &Entry,
        strip: Option<&[f64]>,
        values: &mut [f64],
    ) -> Result<(), TransportError> {
        let (cells, target) = (self.shape.len(), self.shape.passage(entry.key.element, entry.step).target);
        match (strip, entry.step) {
            (None, _) => {
                let default = fields.get(usize::from(entry.key.field)).unwrap_or(&Field::DENSE).default_value();
                self.rows(target).each(values.len() / cells, cells, |row| {
                    strip::fill(&mut values[row], default);
                    Ok(())
                })
            }
            (Some(strip), Step::Finer(_)) => {
                self.patches(entry, values.len(), |patch, [array, part]| {
                    self.operation.prolongate(patch, &strip[part], &mut values[array]);
                });
                Ok(())
            }
            (Some(strip), _) => strip::unpack(values, &self.rows(target), cells, |behind, row| {
                row.copy_from_slice(&strip[behind..behind + row.len()]);
                Ok(())
            }),
        }
    }
}
