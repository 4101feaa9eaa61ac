//! The demonstrator beside a model that knows where the blobs are.
//!
//! It knows which blocks have a field, and what ranks send.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::domain::Blob;
use super::rank::run_rank_seen;
use super::{AdvectError, Options, Problem, run};
use crate::boundary::{Fabric, Mesh as _, Store, Tree};

/// Of small cases.
const BLOCKS: u32 = 6;
const CELLS: u32 = 8;
const GHOSTS: i64 = 2;

/// The blocks whose interior, or else whose ghosts, hold a cell of the blob.
fn met(options: &Options, blob: &[[i64; 3]], ghosts: bool) -> BTreeSet<u32> {
    let (blocks, cells) = (i64::from(options.blocks), i64::from(options.cells));
    let block = |[x, y]: [i64; 2]| {
        let [x, y] = [x, y].map(|n| n.rem_euclid(blocks * cells) / cells);
        (y * blocks + x) as u32
    };
    let mut met = BTreeSet::new();
    for &[x, y, _] in blob {
        let own = block([x, y]);
        if !ghosts {
            met.insert(own);
            continue;
        }
        // No block is smaller than its ghosts, so the cells at both ends of their reach lie in all that are met.
        let reach = || [-GHOSTS, 0, GHOSTS].into_iter();
        let around = reach().flat_map(|dx| reach().map(move |dy| [x + dx, y + dy]));
        met.extend(around.map(block).filter(|&met| met != own));
    }
    met
}

/// The fields and blocks that have them, before each time step and after the last one.
type Present = Vec<BTreeSet<(u16, u32)>>;

/// What a model knows of it: a block has a field from the step in which its interior or its ghosts get a cell of the blob, until
/// it had none in so many looks.
fn expected(options: &Options) -> Present {
    let mut all = vec![BTreeSet::new(); options.cycles as usize + 1];
    for field in 0..options.fields {
        let extent = i64::from(options.blocks * options.cells);
        let blob = Blob::new(options.seed, field, extent, options.radius, options.dimensions);
        let mut at: Vec<[i64; 3]> = blob.cells(0).collect();
        let begin = met(options, &at, false).into_iter().map(|block| (block, 0));
        let mut present: BTreeMap<u32, u32> = begin.collect();
        for all in &mut all {
            all.extend(present.keys().map(|&block| (field, block)));
            let mut in_ghosts = BTreeSet::new();
            for direction in 0..2 {
                in_ghosts = met(options, &at, true);
                for &block in &in_ghosts {
                    present.entry(block).or_insert(0);
                }
                at.iter_mut().for_each(|cell| cell[direction] += blob.signs[direction]);
            }
            let inside = met(options, &at, false);
            present.retain(|block, looks| {
                let idle = !inside.contains(block) && !in_ghosts.contains(block);
                *looks = if idle { *looks + 1 } else { 0 };
                *looks < options.idle
            });
        }
    }
    all
}

/// What a run of all ranks has.
fn seen(options: &Options) -> Present {
    let (extent, blocks) = (options.extent().unwrap(), options.mesh().unwrap().blocks());
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let rank = |rank| {
        let end = Fabric::attach(segment.clone(), extent, rank).unwrap();
        let mut seen = Present::new();
        let look = |store: &Store| {
            let all = (0..options.fields).flat_map(|field| (0..blocks).map(move |block| (field, block)));
            seen.push(all.filter(|&(field, block)| store.values(block, field, 0).is_some()).collect());
        };
        let outcome = run_rank_seen(options, rank, end, |_| (), look).unwrap();
        assert_eq!(outcome.wrong, Some(0));
        seen
    };
    let ranks: Vec<Present> = std::thread::scope(|scope| {
        let rank = &rank;
        let ranks: Vec<_> = (0..options.ranks).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let mut all = Present::new();
    for cycle in 0..=options.cycles as usize {
        let together: BTreeSet<_> = ranks.iter().flat_map(|rank| rank[cycle].iter().copied()).collect();
        assert_eq!(together.len(), ranks.iter().map(|rank| rank[cycle].len()).sum(), "a block has one owner");
        all.push(together);
    }
    all
}

#[test]
fn s36_exactly_the_blocks_that_a_blob_meets_or_met_lately_have_its_field() {
    let reference = Options::new(Problem::Shift, 2);
    let small = Options { blocks: BLOCKS, cells: CELLS, fields: 3, radius: 2, cycles: 60, ..reference };
    let others =
        [(1, 1, 5), (3, 2, 5), (4, 3, 1), (2, 4, 9)].map(|(ranks, seed, idle)| Options { ranks, seed, idle, ..small });
    for options in std::iter::once(reference).chain(others) {
        let (seen, expected) = (seen(&options), expected(&options));
        assert_eq!(seen.len(), options.cycles as usize + 1);
        for (cycle, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
            assert_eq!(seen, expected, "{} fields, seed {}, step {cycle}", options.fields, options.seed);
        }
        let most = expected.iter().map(BTreeSet::len).max().unwrap();
        assert!(options != reference || (most > 8 && most <= 4 * 8), "at most four blocks a field, not {most}");
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
    let small = Options { blocks: BLOCKS, cells: CELLS, fields: 3, radius: 2, cycles: 60, ..reference };
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
