//! Which blocks have a field, against a model that knows where the blob is.

use std::collections::{BTreeMap, BTreeSet};

use super::domain::Blob;
use super::{AdvectError, Options, Problem, run};

const BLOCKS: i64 = 6;
const CELLS: i64 = 8;
const GHOSTS: i64 = 2;

/// The blocks whose interior, or whose ghosts, hold a cell of the blob.
fn met(cells: &[[i64; 3]], ghosts: bool) -> BTreeSet<u32> {
    let extent = BLOCKS * CELLS;
    let reach = if ghosts { GHOSTS } else { 0 };
    let mut blocks = BTreeSet::new();
    for cell in cells {
        for block in 0..BLOCKS * BLOCKS {
            let low = [block % BLOCKS * CELLS, block / BLOCKS * CELLS];
            // How far behind the first cell that counts, around the box.
            let behind = [0, 1].map(|d| (cell[d] - low[d] + reach).rem_euclid(extent));
            let inside = |d: usize| (reach..reach + CELLS).contains(&behind[d]);
            let within = behind.iter().all(|&n| n < CELLS + 2 * reach);
            if within && ghosts != (inside(0) && inside(1)) {
                blocks.insert(block as u32);
            }
        }
    }
    blocks
}

#[test]
fn s36_exactly_the_blocks_that_the_blob_meets_or_met_lately_have_the_field() {
    let usual = Options::new(Problem::Shift, 2);
    for (ranks, seed, idle) in [(1, 1, 5), (3, 2, 5), (4, 3, 1), (2, 4, 9)] {
        let (blocks, cells) = (BLOCKS as u32, CELLS as u32);
        let options =
            Options { blocks, cells, fields: 1, radius: 2, cycles: 60, ranks, seed, idle, frames: 1, ..usual };
        let outcome = run(&options, |_| ()).unwrap();
        let blob = Blob::new(seed, 0, BLOCKS * CELLS, 2, 2);
        let mut at: Vec<[i64; 3]> = blob.cells(0).collect();
        let mut present: BTreeMap<u32, u32> = met(&at, false).into_iter().map(|block| (block, 0)).collect();
        for cycle in 0..=options.cycles as usize {
            let frames = outcome.ranks.iter().flat_map(|rank| &rank.frames[cycle].blocks);
            let came: BTreeSet<u32> = frames.map(|(block, _)| *block).collect();
            let expected: BTreeSet<u32> = present.keys().copied().collect();
            assert_eq!(came, expected, "seed {seed}, step {cycle}");
            let mut in_ghosts = BTreeSet::new();
            for direction in 0..2 {
                in_ghosts = met(&at, true);
                for &block in &in_ghosts {
                    present.entry(block).or_insert(0);
                }
                at.iter_mut().for_each(|cell| cell[direction] += blob.signs[direction]);
            }
            let inside = met(&at, false);
            present.retain(|block, looks| {
                let idle = !inside.contains(block) && !in_ghosts.contains(block);
                *looks = if idle { *looks + 1 } else { 0 };
                *looks < options.idle
            });
        }
    }
}

#[test]
fn a_mesh_that_ranks_have_no_memory_for_is_refused_before_it_is_made() {
    let refine = "0..1024".parse().unwrap();
    let usual =
        Options { blocks: 1024, cells: 4, radius: 1, fields: 1024, ranks: 256, ..Options::new(Problem::Smooth, 3) };
    for (options, blocks) in [(usual, 1 << 30), (Options { refine: Some(refine), ..usual }, 1_u64 << 33)] {
        let refused = options.fits(options.ranks);
        assert!(
            matches!(refused, Err(AdvectError::NoMemory { blocks: all, ranks: 256, bytes }) if all == blocks && bytes > 1 << 52),
            "{refused:?}"
        );
    }
}

#[test]
fn a_mesh_that_is_too_large_for_all_ranks_is_none_that_one_of_them_refuses() {
    let options = Options { ranks: u32::MAX, ..Options::tiny(Problem::Smooth, 3) };
    assert!(matches!(options.fits(options.ranks), Err(AdvectError::NoMemory { blocks: 8, .. })));
    assert!(options.check().is_ok() && options.fits(1).is_ok(), "as a rank that others have begun beside asks");
}
