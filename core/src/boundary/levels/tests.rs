//! Boxes of both levels against numbers of cells in the whole mesh.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::*;

/// Shapes of all dimensions and ghosts, with blocks as small as can be and larger.
fn shapes() -> impl Iterator<Item = Shape> {
    let all = (1..=3).flat_map(|dimensions| (1..=4).map(move |ghosts| (dimensions, ghosts)));
    all.flat_map(|(dimensions, ghosts)| [2 * ghosts, 2 * ghosts + 2].map(|cells| (dimensions, ghosts, cells)))
        .map(|(dimensions, ghosts, cells)| {
            let on = |n: u32, off| core::array::from_fn(|d| if d < dimensions { n } else { off });
            Shape::new(on(cells, 1), on(ghosts, 0)).unwrap()
        })
        .chain([Shape::new([6, 5, 4], [3, 0, 1]).unwrap()])
}

/// The cells of a region of a block's array, by their number along each direction from the first interior cell of block 0 on,
/// for a block at this place among those of its level.
fn cells(shape: Shape, region: Region, block: [i32; 3]) -> Vec<[i32; 3]> {
    let mut all = Vec::new();
    for z in region.low[2]..region.low[2] + region.len[2] {
        for y in region.low[1]..region.low[1] + region.len[1] {
            for x in region.low[0]..region.low[0] + region.len[0] {
                let at = [x, y, z];
                all.push(core::array::from_fn(|d| {
                    block[d] * shape.cells()[d] as i32 + at[d] as i32 - shape.ghosts()[d] as i32
                }));
            }
        }
    }
    all
}

/// The coarse cell that a fine one lies in.
fn coarse(shape: Shape, fine: [i32; 3]) -> [i32; 3] {
    core::array::from_fn(|d| fine[d].div_euclid(shape.ratio()[d] as i32))
}

fn children(shape: Shape) -> impl Iterator<Item = Octant> {
    (0..8).filter_map(Octant::new).filter(move |octant| (0..3).all(|d| octant.upper(d) < shape.ratio()[d]))
}

/// Fine blocks are children of the coarse block at zero.
fn place(octant: Octant) -> [i32; 3] {
    core::array::from_fn(|d| octant.upper(d) as i32)
}

#[test]
fn a_fine_block_gets_exactly_the_coarse_cells_that_its_ghosts_lie_in() {
    for shape in shapes() {
        for (child, ghosts) in children(shape).flat_map(|child| shape.elements().map(move |e| (child, e))) {
            let Some(outward) = ghosts.outward(child) else { continue };
            let passage = shape.passage(ghosts.opposite(), Step::Finer(child));
            assert_eq!(passage.target, shape.receive_box(ghosts));
            assert_eq!(passage.len, passage.source.len);
            let sent = cells(shape, passage.source, outward.offsets().map(i32::from));
            let mut used: BTreeMap<_, u32> = sent.iter().map(|&cell| (cell, 0)).collect();
            for ghost in cells(shape, passage.target, place(child)) {
                *used.get_mut(&coarse(shape, ghost)).unwrap() += 1;
            }
            assert!(used.values().all(|&n| n > 0), "{shape:?}, child {child:?}, ghosts {ghosts}");
        }
    }
}

#[test]
fn the_finer_blocks_beside_a_coarse_one_fill_its_ghosts_once_each_with_what_lies_there() {
    for shape in shapes() {
        for ghosts in shape.elements() {
            let mut filled = BTreeMap::new();
            for child in shape.octants(ghosts) {
                let passage = shape.passage(ghosts.opposite(), Step::Coarser(child));
                // The coarse block that has the parent of the children in this direction.
                let targets = cells(shape, passage.target, ghosts.opposite().offsets().map(i32::from));
                assert_eq!(targets.len() as u64, passage.cells());
                let mut parts: BTreeMap<_, u32> = targets.iter().map(|&cell| (cell, 0)).collect();
                for cell in cells(shape, passage.source, place(child)) {
                    *parts.get_mut(&coarse(shape, cell)).unwrap() += 1;
                }
                let each: u32 = shape.ratio().iter().product();
                assert!(parts.values().all(|&n| n == each), "{shape:?}, child {child:?}, ghosts {ghosts}");
                targets.into_iter().for_each(|cell| *filled.entry(cell).or_insert(0) += 1);
            }
            let all = cells(shape, shape.receive_box(ghosts), ghosts.opposite().offsets().map(i32::from));
            assert!(all.len() == filled.len() && all.iter().all(|cell| filled[cell] == 1), "{shape:?}, {ghosts}");
        }
    }
}

/// What a coarse block sees in one direction, its neighbours there see in those whose way out of the parent is the opposite.
#[test]
fn the_two_levels_agree_who_touches_whom() {
    for shape in shapes() {
        for (child, element) in children(shape).flat_map(|child| shape.elements().map(move |e| (child, e))) {
            let touches = shape.octants(element.opposite()).any(|octant| octant == child);
            assert_eq!(element.outward(child) == Some(element), touches, "{child:?}, {element}");
        }
    }
}

#[test]
fn within_a_level_boxes_pass_as_they_are() {
    for shape in shapes() {
        for element in shape.elements() {
            let Passage { source, target, len } = shape.passage(element, Step::Same);
            assert_eq!((source, target), (shape.send_box(element), shape.receive_box(element.opposite())));
            assert_eq!(len, source.len);
        }
    }
}

#[test]
fn steps_have_numbers_and_other_numbers_are_none() {
    let steps: Vec<Step> = (0..=255).filter_map(Step::from_number).collect();
    assert_eq!(steps.len(), 17);
    assert!(steps.iter().all(|step| Step::from_number(step.number()) == Some(*step)));
    assert_eq!(steps.iter().filter(|step| !step.crosses()).count(), 1);
    assert_eq!(Step::default().number(), 0);
    assert_eq!(Octant::new(8), None);
}

#[test]
fn shapes_that_cannot_be_halved_are_refused() {
    let shape = |cells, ghosts| Shape::new([8, cells, 7], [2, ghosts, 0]).unwrap();
    assert_eq!(shape(5, 2).may_be_refined(), Err(RefineError::Odd { direction: 1, cells: 5 }));
    assert_eq!(shape(6, 4).may_be_refined(), Err(RefineError::TooManyGhosts { direction: 1, ghosts: 4, cells: 6 }));
    assert_eq!(shape(6, 3).may_be_refined(), Ok(()));
    assert_eq!(shape(5, 0).may_be_refined(), Ok(()), "a direction without ghosts is not refined");
}
