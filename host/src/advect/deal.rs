//! Blocks that are dealt anew among the ranks, with all that belongs to them.
//!
//! Blocks lie in a row, those of each rank together. With each deal the row moves on by half of what a rank has, so half of a
//! rank's blocks stay and the others go to its neighbour in the row; all ranks keep as many blocks as they had.
//!
//! What goes with a block is a record for each field that it has, of words: the block and the field, for how many looks in
//! a row the field held nothing, and the arrays of all stages.

use umbra_core::codec::Reader;

use crate::boundary::{BoundaryError, Fields as _, Mesh, NoMemory, Store};
use crate::sys::heap;

/// Words of a record in front of the arrays.
const HEAD: usize = 2;

/// The owners of all blocks of a mesh.
pub(super) fn owners(mesh: &impl Mesh) -> Vec<u32> {
    (0..mesh.blocks()).map(|block| mesh.owner(block)).collect()
}

/// The owners of all blocks after so many deals, if they were these before the first one.
pub(super) fn dealt(first: &[u32], ranks: u32, deals: u32) -> Vec<u32> {
    let mut row: Vec<usize> = (0..first.len()).collect();
    row.sort_by_key(|&block| first[block]);
    let all = row.len().max(1);
    let halves = u64::from(ranks.max(1)) * 2;
    let on = (u64::from(deals) % halves * all as u64 / halves) as usize;
    let mut owners = vec![0; row.len()];
    for (block, before) in row.iter().zip(row.iter().cycle().skip(on)) {
        owners[*block] = first[*before];
    }
    owners
}

/// How fields lie on a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) fields: u16,
    pub(super) stages: usize,
    pub(super) cells: usize,
}

impl Layout {
    /// Bytes of a record.
    const fn record(&self) -> usize {
        8 * (HEAD + self.stages * self.cells)
    }

    /// Bytes of so many blocks that have every field.
    pub(super) const fn most(&self, blocks: u32) -> u64 {
        (blocks as u64).saturating_mul(self.fields as u64).saturating_mul(self.record() as u64)
    }

    /// Moves a block out of a store, behind what is in a parcel already; how many fields it has.
    pub(super) fn pack(&self, store: &mut Store, block: u32, parcel: &mut Vec<u8>) -> Result<u64, NoMemory> {
        let mut moved = 0;
        for field in 0..self.fields {
            if store.values(block, field, 0).is_none() {
                continue;
            }
            heap::more(parcel, self.record()).map_err(|_| NoMemory { block, field })?;
            let head = [u64::from(block) | u64::from(field) << 32, store.idle(block, field).into()];
            let values = (0..self.stages).filter_map(|stage| store.values(block, field, stage)).flatten();
            let words = head.into_iter().chain(values.map(|value| value.to_bits()));
            words.for_each(|word| parcel.extend_from_slice(&word.to_le_bytes()));
            store.free(block, field);
            moved += 1;
        }
        Ok(moved)
    }

    /// Moves what a rank has sent into a store, if it may send it; how many fields on blocks that is.
    pub(super) fn unpack(
        &self,
        store: &mut Store,
        parcel: &[u8],
        [from, me]: [u32; 2],
        may_come: impl Fn(u32) -> bool,
    ) -> Result<u64, BoundaryError> {
        let refused = |why| BoundaryError::Parcel { rank: from, why };
        let mut records = parcel.chunks_exact(self.record());
        let mut moved = 0;
        for record in &mut records {
            let mut words = Reader::new(record);
            let mut word = || words.u64().map_err(|_| refused(CUT));
            let (place, idle) = (word()?, word()?);
            let (block, field) = (place as u32, (place >> 32) as u16);
            let is_known = place >> 48 == 0 && field < self.fields && may_come(block);
            if !is_known || store.values(block, field, 0).is_some() {
                return Err(refused(OTHERS));
            }
            store.allocate(block, field).map_err(|what| BoundaryError::NoMemory { rank: me, what })?;
            store.set_idle(block, field, u32::try_from(idle).map_err(|_| refused(OTHERS))?);
            for stage in 0..self.stages {
                let mut stage = store.stage(stage);
                for value in stage.values_mut(block, field).into_iter().flatten() {
                    *value = f64::from_bits(word()?);
                }
            }
            moved += 1;
        }
        if records.remainder().is_empty() { Ok(moved) } else { Err(refused(CUT)) }
    }
}

const CUT: &str = "ends within a block: use one version of the program";
const OTHERS: &str = "is of blocks that it did not have: give all ranks the same options";

#[cfg(test)]
mod tests {
    use umbra_core::boundary::{Shape, Sparse};

    use super::*;
    use crate::boundary::{Field, Grid};

    const LAYOUT: Layout = Layout { fields: 2, stages: 2, cells: 3 };

    fn store() -> Store {
        Store::new(4, 3, &[Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).unwrap()); 2], 2)
    }

    fn packed() -> Vec<u8> {
        let (mut store, mut parcel) = (store(), Vec::new());
        store.allocate(2, 1).unwrap();
        for stage in 0..2 {
            store.stage(stage).values_mut(2, 1).unwrap().copy_from_slice(&[stage as f64, -0.0, f64::NAN]);
        }
        store.set_idle(2, 1, 7);
        assert_eq!(LAYOUT.pack(&mut store, 2, &mut parcel), Ok(1));
        assert!(store.values(2, 1, 0).is_none() && parcel.len() as u64 <= LAYOUT.most(1));
        parcel
    }

    #[test]
    fn half_of_the_blocks_stay_and_every_rank_keeps_as_many() {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        for ranks in [1, 2, 3, 4, 20] {
            let grid = Grid::new(shape, [4, 4, 1], [true; 3], ranks);
            let count = |owners: &[u32], rank| owners.iter().filter(|&&owner| owner == rank).count();
            let first = owners(&grid);
            for deals in 0..9 {
                let dealt = dealt(&first, ranks, deals);
                assert!((0..ranks).all(|rank| count(&dealt, rank) == count(&first, rank)), "{ranks}: {dealt:?}");
                assert!(deals % (2 * ranks) != 0 || dealt == first);
            }
            let stay = first.iter().zip(&dealt(&first, ranks, 1)).filter(|(before, after)| before == after).count();
            assert!(!matches!(ranks, 2 | 4) || stay == 8, "{ranks}: {stay}");
        }
    }

    #[test]
    fn a_block_comes_as_it_went_with_its_looks() {
        let mut store = store();
        assert_eq!(LAYOUT.unpack(&mut store, &packed(), [1, 0], |block| block == 2), Ok(1));
        let bits = |stage| store.values(2, 1, stage).unwrap().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for stage in 0..2 {
            assert_eq!(bits(stage), [stage as f64, -0.0, f64::NAN].map(f64::to_bits));
        }
        assert_eq!((store.idle(2, 1), store.values(2, 0, 0)), (7, None));
    }

    #[test]
    fn parcels_that_no_rank_makes_are_refused_and_none_is_taken_past_its_end() {
        let good = packed();
        let refused = |parcel: &[u8], why| {
            let outcome = LAYOUT.unpack(&mut store(), parcel, [1, 0], |block| block == 2);
            assert_eq!(outcome, Err(BoundaryError::Parcel { rank: 1, why }), "{parcel:?}");
        };
        (1..good.len()).for_each(|len| refused(&good[..len], CUT));
        refused(&[&good[..], &good].concat(), OTHERS);
        // Another block, a field that is not there, more than a field, more looks than there can be.
        for (at, byte) in [(0, 1), (3, 1), (4, 2), (6, 1), (7, 128), (12, 1)] {
            let mut bad = good.clone();
            bad[at] = byte;
            refused(&bad, OTHERS);
        }
    }
}
