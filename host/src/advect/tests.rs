//! The demonstrator beside a model that knows where the blobs are.
//!
//! It knows which blocks have a field, and what ranks send.

use std::collections::{BTreeMap, BTreeSet};

use super::domain::Blob;
use super::{AdvectError, Options, Problem, run};
use crate::boundary::{Mesh as _, Tree};

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

/// What the ranks send each other: by time step and rank, live strips and the bytes of these; in each exchange, strips of one
/// field from each rank.
struct Sent {
    live: Vec<Vec<[u64; 2]>>,
    strips: Vec<u64>,
}

/// Where the blobs of a plane are at each exchange says it all.
fn sent(options: &Options, mesh: &Tree) -> Sent {
    let (blocks, cells) = (i64::from(options.blocks), i64::from(options.cells));
    let ranks = options.ranks as usize;
    // What a block shows to a neighbour: whether a cell is of that strip, and how many there are.
    let part = |at: i64, off: i64| match off {
        -1 => at < GHOSTS,
        0 => true,
        _ => at >= cells - GHOSTS,
    };
    let len = |off: i64| if off == 0 { cells } else { GHOSTS };
    let neighbours = || (0..9).map(|n| [n % 3 - 1, n / 3 - 1]).filter(|off| *off != [0, 0]);
    let owner = |at: [i64; 2]| {
        let [x, y] = at.map(|n| n.rem_euclid(blocks) as u32);
        mesh.owner(mesh.find(0, [x, y, 0]).unwrap()) as usize
    };
    let peers = |at: [i64; 2], off: [i64; 2]| {
        let (here, there) = (owner(at), owner([at[0] + off[0], at[1] + off[1]]));
        (here != there).then_some(here)
    };
    let mut strips = vec![0; ranks];
    for at in (0..blocks * blocks).map(|n| [n % blocks, n / blocks]) {
        neighbours().filter_map(|off| peers(at, off)).for_each(|rank| strips[rank] += 1);
    }
    let mut live = vec![vec![[0; 2]; ranks]; options.cycles as usize];
    for field in 0..options.fields {
        let blob = Blob::new(options.seed, field, blocks * cells, options.radius, options.dimensions);
        let mut cells_of: Vec<[i64; 3]> = blob.cells(0).collect();
        for cycle in &mut live {
            for direction in 0..2 {
                let mut shown = BTreeSet::new();
                for [x, y, _] in &cells_of {
                    let [x, y] = [x, y].map(|n| n.rem_euclid(blocks * cells));
                    let off = neighbours().filter(|off| part(x % cells, off[0]) && part(y % cells, off[1]));
                    shown.extend(off.map(|off| ([x / cells, y / cells], off)));
                }
                for (at, off) in shown {
                    let Some(rank) = peers(at, off) else { continue };
                    let bytes = 8 * len(off[0]) * len(off[1]);
                    cycle[rank] = [cycle[rank][0] + 1, cycle[rank][1] + bytes as u64];
                }
                cells_of.iter_mut().for_each(|cell| cell[direction] += blob.signs[direction]);
            }
        }
    }
    Sent { live, strips }
}

#[test]
fn s37_each_rank_sends_exactly_the_strips_that_the_blobs_are_in() {
    let reference = Options::new(Problem::Shift, 2);
    let small = Options { blocks: BLOCKS as u32, cells: CELLS as u32, fields: 3, radius: 2, cycles: 60, ..reference };
    for options in [reference, Options { ranks: 3, seed: 7, ..small }, Options { ranks: 8, idle: 1, ..small }] {
        let mesh = options.mesh().unwrap();
        let Sent { live, strips } = sent(&options, &mesh);
        let outcome = run(&options, |_| ()).unwrap();
        let total = live.iter().flatten().map(|sent| sent[1]).sum::<u64>();
        assert!(total > 0);
        for (nth, rank) in outcome.ranks.iter().enumerate() {
            for (cycle, (came, expected)) in rank.cycle_bytes.iter().zip(&live).enumerate() {
                assert_eq!(*came, expected[nth][1], "rank {nth} of {}, step {cycle}", options.ranks);
            }
            let [all_live, bytes] = [0, 1].map(|what| live.iter().map(|cycle| cycle[nth][what]).sum::<u64>());
            let all = strips[nth] * u64::from(options.fields) * 2 * u64::from(options.cycles);
            assert_eq!((rank.cycle_bytes.len(), rank.counts[1]), (live.len(), bytes), "rank {nth}");
            assert_eq!(
                [rank.counts[3], rank.counts[4]],
                [all_live, all - all_live],
                "live and null strips of rank {nth}"
            );
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
