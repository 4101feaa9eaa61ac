//! Fields on blocks, as the exchange sees them.
//!
//! A mesh code implements [`Fields`] for one stage of its own arrays. [`Store`] keeps arrays of several stages, and counts
//! what is allocated.

use umbra_core::boundary::Sparse;

use crate::sys::heap::reserved;

/// One field of a mesh.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Field {
    /// Values of a cell; three of a vector.
    pub components: u32,
    /// Whether its components are those of a vector, one for each direction: reflecting edges turn the normal one.
    pub vector: bool,
    /// Thresholds and default, if it may be absent from blocks.
    pub sparse: Option<Sparse>,
}

impl Field {
    /// A scalar field that is on every block.
    pub const DENSE: Field = Field { components: 1, vector: false, sparse: None };

    /// A scalar field that may be absent.
    #[must_use]
    pub const fn sparse(sparse: Sparse) -> Field {
        Field { sparse: Some(sparse), ..Field::DENSE }
    }

    /// What stands for a cell of a block where the field is absent.
    #[must_use]
    pub fn default_value(&self) -> f64 {
        self.sparse.map_or(0.0, |sparse| sparse.default_value())
    }
}

/// There is no memory for a field on a block. What it needs may be free after the next deallocation, unless it is none of the
/// fields or blocks that the arrays were made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no memory for field {field} on block {block}: free some, or use more ranks")]
pub struct NoMemory {
    /// The block.
    pub block: u32,
    /// The field.
    pub field: u16,
}

/// The arrays of one stage, of the blocks of this rank.
///
/// An array holds component after component; within a component x runs fastest, then y, then z, ghosts included.
pub trait Fields {
    /// The values of a field on a block; `None` if it is absent there.
    fn values(&self, block: u32, field: u16) -> Option<&[f64]>;
    /// Whether there are any, as [`values`](Self::values) would answer: if either says that there are none, nothing is sent. Each
    /// exchange asks for each channel, for many in a row: an answer without a branch is the fastest.
    fn is_present(&self, block: u32, field: u16) -> bool {
        self.values(block, field).is_some()
    }
    /// The values of a field on a block, to change them; `None` if it is absent there.
    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]>;
    /// Makes the field present on the block, in all stages, with the default in every cell, ghosts included.
    ///
    /// # Errors
    /// [`NoMemory`].
    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory>;
}

/// Arrays of all fields on all blocks of a rank, in several stages.
#[derive(Debug)]
pub struct Store {
    fields: Vec<Field>,
    cells: usize,
    /// For each block of the mesh, field and stage.
    arrays: Vec<Option<Box<[f64]>>>,
    stages: usize,
    /// Arrays that were given back, to be used again.
    spare: Vec<Vec<Box<[f64]>>>,
    idle: Vec<u32>,
    used: Usage,
}

/// How much is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Bytes of all arrays in use.
    pub bytes: u64,
    /// The most that was in use.
    pub peak: u64,
    /// Times that a field became present on a block.
    pub allocations: u64,
    /// Times that it became absent.
    pub deallocations: u64,
}

impl Store {
    /// Bytes that each field takes on each block of the mesh, in each stage, where it is absent.
    pub(crate) const ABSENT_BYTES: u64 = size_of::<Option<Box<[f64]>>>() as u64;

    /// No arrays yet, for blocks of so many cells, ghosts included.
    #[must_use]
    pub fn new(blocks: u32, cells: usize, fields: &[Field], stages: usize) -> Store {
        let places = blocks as usize * fields.len();
        let arrays = (0..places * stages).map(|_| None).collect();
        let spare = fields.iter().map(|_| Vec::new()).collect();
        Store { fields: fields.to_vec(), cells, arrays, stages, spare, idle: vec![0; places], used: Usage::default() }
    }

    /// Where a field on a block stands among all; behind them if there is none like it, which else would be one of another block.
    fn place(&self, block: u32, field: u16) -> usize {
        let (fields, field) = (self.fields.len(), usize::from(field));
        if field < fields { block as usize * fields + field } else { self.idle.len() }
    }

    fn has_place(&self, block: u32, field: u16) -> bool {
        self.place(block, field) < self.idle.len()
    }

    /// The same of its array of a stage.
    fn at(&self, block: u32, field: u16, stage: usize) -> usize {
        if stage < self.stages { self.place(block, field) * self.stages + stage } else { self.arrays.len() }
    }

    fn array(&self, block: u32, field: u16, stage: usize) -> Option<&[f64]> {
        self.arrays.get(self.at(block, field, stage))?.as_deref()
    }

    /// The arrays of one stage.
    pub const fn stage(&mut self, stage: usize) -> Stage<'_> {
        Stage { store: self, stage }
    }

    /// The values of a field on a block in a stage; `None` if it is absent.
    #[must_use]
    pub fn values(&self, block: u32, field: u16, stage: usize) -> Option<&[f64]> {
        self.array(block, field, stage)
    }

    /// The values of two stages: the first to read, the second to change.
    pub fn two_stages(&mut self, block: u32, field: u16, from: usize, to: usize) -> Option<(&[f64], &mut [f64])> {
        let first = self.place(block, field) * self.stages;
        let all = self.arrays.get_mut(first..first + self.stages)?;
        let [from, to] = all.get_disjoint_mut([from, to]).ok()?;
        Some((from.as_deref()?, to.as_deref_mut()?))
    }

    /// Makes a field present on a block.
    ///
    /// # Errors
    /// [`NoMemory`], also for a block or a field that the store was not made for; the field is as absent as it was.
    pub fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        let (none, place) = (NoMemory { block, field }, self.place(block, field));
        let first = place * self.stages;
        let kind = self.fields.get(usize::from(field)).filter(|_| place < self.idle.len()).ok_or(none)?;
        let (len, default) = (self.cells.saturating_mul(kind.components as usize), kind.default_value());
        if self.arrays.get(first).is_none_or(Option::is_some) {
            return Ok(());
        }
        let spare = &mut self.spare[usize::from(field)];
        spare.iter_mut().rev().take(self.stages).for_each(|used| used.fill(default));
        // All that are lacking, before the first is taken: what was made until one fails is a spare one.
        while spare.len() < self.stages {
            let array = reserved(len, || default).map_err(|_| none)?;
            spare.push(array.into_boxed_slice());
        }
        self.arrays[first..first + self.stages].fill_with(|| spare.pop());
        self.used.bytes += (len * self.stages * size_of::<f64>()) as u64;
        self.used.peak = self.used.peak.max(self.used.bytes);
        self.used.allocations += 1;
        self.idle[place] = 0;
        Ok(())
    }

    /// Makes a field absent from a block; its memory is kept for the next one.
    pub fn free(&mut self, block: u32, field: u16) {
        let first = self.place(block, field) * self.stages;
        let Some(all) = self.arrays.get_mut(first..first + self.stages) else { return };
        let mut bytes = 0;
        for array in all.iter_mut().filter_map(Option::take) {
            bytes += size_of_val(&*array) as u64;
            self.spare[usize::from(field)].push(array);
        }
        self.used.bytes -= bytes;
        self.used.deallocations += u64::from(bytes > 0);
    }

    /// Gives memory that no block uses back to the system; returns the bytes.
    pub fn trim(&mut self) -> u64 {
        self.spare.iter_mut().flat_map(|spare| spare.drain(..)).map(|array| size_of_val(&*array) as u64).sum()
    }

    /// Looks once at every sparse field of the blocks, ghosts included, in the first stage: what held nothing in `after`
    /// looks in a row becomes absent. Do it between exchanges, once a time step. Returns how many became absent.
    pub fn free_idle(&mut self, blocks: impl Iterator<Item = u32>, after: u32) -> usize {
        let mut freed = 0;
        for block in blocks {
            for field in 0..self.fields.len() as u16 {
                let Some(sparse) = self.fields[usize::from(field)].sparse else { continue };
                let Some(values) = self.array(block, field, 0) else { continue };
                let idle = sparse.is_idle(values);
                let place = self.place(block, field);
                self.idle[place] = if idle { self.idle[place].saturating_add(1) } else { 0 };
                if idle && self.idle[place] >= after {
                    self.free(block, field);
                    freed += 1;
                }
            }
        }
        freed
    }

    /// For how many looks in a row a field held nothing on a block: it moves with the block.
    #[must_use]
    pub fn idle(&self, block: u32, field: u16) -> u32 {
        self.idle.get(self.place(block, field)).copied().unwrap_or(0)
    }

    /// What [`idle`](Self::idle) shall say, of a block that came from another rank.
    pub fn set_idle(&mut self, block: u32, field: u16, looks: u32) {
        let place = self.place(block, field);
        if let Some(idle) = self.idle.get_mut(place) {
            *idle = looks;
        }
    }

    /// How much is allocated.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.used
    }
}

/// One stage of a [`Store`].
#[derive(Debug)]
pub struct Stage<'a> {
    store: &'a mut Store,
    stage: usize,
}

impl Fields for Stage<'_> {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        self.store.array(block, field, self.stage)
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        let at = self.store.at(block, field, self.stage);
        self.store.arrays.get_mut(at)?.as_deref_mut()
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        // Whoever asks for a field looks for it then: what has no place here is missing, and more memory would not help.
        if self.store.has_place(block, field) { self.store.allocate(block, field) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s25_what_is_idle_goes_on_exactly_the_nth_look() {
        let field = Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).unwrap());
        let mut store = Store::new(1, 4, &[field], 2);
        store.allocate(0, 0).unwrap();
        for _ in 0..2 {
            assert_eq!(store.free_idle([0].into_iter(), 3), 0);
        }
        // One cell that may well be a ghost, for one look.
        store.stage(0).values_mut(0, 0).unwrap()[0] = 1.0;
        assert_eq!(store.free_idle([0].into_iter(), 3), 0);
        store.stage(0).values_mut(0, 0).unwrap()[0] = 0.0;
        let freed: Vec<_> = (0..3).map(|_| store.free_idle([0].into_iter(), 3)).collect();
        assert_eq!(freed, [0, 0, 1]);
        assert!(store.values(0, 0, 0).is_none() && store.values(0, 0, 1).is_none(), "all stages together");
        assert_eq!(store.usage(), Usage { bytes: 0, peak: 64, allocations: 1, deallocations: 1 });
        assert_eq!(store.trim(), 64);
    }

    #[test]
    fn a_field_or_a_stage_that_there_is_not_is_absent_and_no_other_is_taken_for_it() {
        let mut store = Store::new(2, 4, &[Field::DENSE; 2], 2);
        for (block, field) in [(0, 1), (1, 0), (1, 1)] {
            store.allocate(block, field).unwrap();
        }
        let before = store.usage();
        for (field, stage) in [(0, 2), (2, 0), (3, 1), (2, 2), (u16::MAX, 0), (0, usize::MAX)] {
            assert_eq!(store.values(0, field, stage), None, "{field} {stage}");
            let mut view = store.stage(stage);
            assert!(view.values(0, field).is_none() && view.values_mut(0, field).is_none(), "{field} {stage}");
        }
        for field in [2, 3, u16::MAX] {
            assert_eq!(store.two_stages(0, field, 0, 1), None);
            store.set_idle(0, field, 7);
            store.free(0, field);
        }
        assert_eq!((store.usage(), store.idle(1, 0), store.idle(0, 2)), (before, 0, 0));
    }

    #[test]
    fn a_field_or_a_block_that_there_is_not_is_not_said_to_be_allocated() {
        let mut store = Store::new(2, 4, &[Field::DENSE; 2], 2);
        for (block, field) in [(0, 2), (1, u16::MAX), (2, 0), (2, 1), (u32::MAX, 0)] {
            assert_eq!(store.allocate(block, field), Err(NoMemory { block, field }));
        }
        assert_eq!(store.usage(), Usage::default());
        assert_eq!([store.allocate(1, 1), store.allocate(1, 1)], [Ok(()); 2], "it is there already");
    }

    #[test]
    fn looks_that_were_told_of_a_block_are_counted_no_further_than_they_can_be() {
        let mut store = Store::new(1, 4, &[Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).unwrap())], 1);
        store.allocate(0, 0).unwrap();
        store.set_idle(0, 0, u32::MAX);
        assert_eq!(store.free_idle([0].into_iter(), u32::MAX), 1);
    }

    #[test]
    fn s21_nan_is_never_given_back() {
        let mut store = Store::new(1, 4, &[Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).unwrap())], 1);
        store.allocate(0, 0).unwrap();
        store.stage(0).values_mut(0, 0).unwrap()[2] = f64::NAN;
        assert_eq!((0..9).map(|_| store.free_idle([0].into_iter(), 3)).sum::<usize>(), 0);
    }

    #[test]
    fn memory_that_is_used_again_holds_the_default() {
        let field = Field::sparse(Sparse::new(1e-3, 1e-4, 1.5).unwrap());
        let mut store = Store::new(2, 4, &[field], 1);
        store.allocate(0, 0).unwrap();
        store.stage(0).values_mut(0, 0).unwrap().fill(7.0);
        store.free(0, 0);
        store.allocate(1, 0).unwrap();
        assert_eq!(store.values(1, 0, 0), Some(&[1.5; 4][..]));
    }

    #[test]
    fn where_there_is_no_memory_a_field_stays_absent_and_what_was_made_of_it_is_spare() {
        // The memory of all machines together, and more than can be counted.
        for (cells, components) in [(1 << 57, 1), (usize::MAX, 2)] {
            let mut store = Store::new(3, cells, &[Field::DENSE, Field { components, ..Field::DENSE }], 2);
            store.spare[1].push(Box::default());
            let none = NoMemory { block: 2, field: 1 };
            assert_eq!((store.allocate(2, 1), store.stage(0).allocate(2, 1)), (Err(none), Err(none)));
            assert!((0..2).all(|stage| store.values(2, 1, stage).is_none()));
            assert_eq!((store.usage(), store.spare[1].len()), (Usage::default(), 1));
        }
    }
}
