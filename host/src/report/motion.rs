//! Blobs that move through a mesh: where they are, in which blocks, at what cost.
//!
//! A row of pictures, each the whole mesh at one time: blocks that have the field are filled, in the colour of their
//! rank, and the field itself is drawn on them. Below, the bytes that each time step sends.

use std::collections::BTreeMap;

use super::svg::{Drawing, Point};
use crate::quantity::{Bytes, Count};

const SIDE: f64 = 250.0;
const GAP: f64 = 24.0;
const ACROSS: usize = 4;
const LEFT: f64 = 84.0;
const CHART: f64 = 130.0;
/// Steps of darkness; neighbours of one step are drawn together.
const STEPS: u8 = 6;

/// The mesh at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Picture {
    /// After so many time steps.
    pub cycle: u32,
    /// Blocks that have the field.
    pub blocks: Vec<Held>,
}

/// A block that has the field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Which.
    pub block: u32,
    /// The rank that has it at that time.
    pub owner: u32,
    /// Its cells seen from above, row by row, in 255ths.
    pub cells: Vec<u8>,
}

/// Where a block lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Along x and y, in blocks of its level.
    pub at: [u32; 2],
    /// How often it was halved in each direction.
    pub level: u32,
}

/// Pictures of a run, and its bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Motion {
    /// Blocks of level 0 along x and y.
    pub counts: [u32; 2],
    /// Cells of a block along x and y.
    pub cells: [u32; 2],
    /// Each block, of the layers one behind the other.
    pub blocks: Vec<Place>,
    /// In order of time.
    pub pictures: Vec<Picture>,
    /// Payload bytes of each time step, of all ranks.
    pub bytes: Vec<u64>,
    /// The same, if every block had every field.
    pub dense_bytes: u64,
}

/// Where a block is seen: layers lie on each other.
pub(super) const fn seen(place: &Place) -> (u32, u32, u32) {
    (place.level, place.at[1], place.at[0])
}

impl Motion {
    /// One block of each place that is seen.
    pub(super) fn squares(&self) -> Vec<&Place> {
        let mut squares: Vec<&Place> = self.blocks.iter().collect();
        squares.sort_by_key(|place| seen(place));
        squares.dedup_by_key(|place| seen(place));
        squares
    }

    /// Whether there is nothing to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.pictures.is_empty() || self.counts.contains(&0) || self.cells.contains(&0)
    }

    /// Which share of the payload of a run with all fields on all blocks was sent.
    pub(super) fn share(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.bytes.len().max(1) as f64 / self.dense_bytes.max(1) as f64
    }
}

/// Draws it; `None` without pictures.
pub(super) fn draw(of: &Motion) -> Option<String> {
    if of.is_empty() {
        return None;
    }
    let mut drawing = Drawing::new();
    let block = SIDE / f64::from(of.counts[0].max(of.counts[1]));
    let height = block * f64::from(of.counts[1]);
    for (nth, picture) in of.pictures.iter().enumerate() {
        let x = (nth % ACROSS) as f64 * (SIDE + GAP);
        let y = (nth / ACROSS) as f64 * (height + GAP + 16.0);
        frame(&mut drawing, of, picture, [x, y], block);
    }
    let rows = of.pictures.len().div_ceil(ACROSS) as f64;
    chart(&mut drawing, of, rows * (height + GAP + 16.0) + 10.0);
    Some(drawing.finish("where the first field is, and bytes of each time step"))
}

fn frame(drawing: &mut Drawing, of: &Motion, picture: &Picture, [left, top]: [f64; 2], block: f64) {
    let corner = |place: &Place| {
        let side = block / f64::from(1u32 << place.level.min(31));
        (left + f64::from(place.at[0]) * side, top + f64::from(place.at[1]) * side, side)
    };
    let held = picture.blocks.iter().filter_map(|held| Some((seen(of.blocks.get(held.block as usize)?), held.owner)));
    let owners: BTreeMap<_, _> = held.rev().collect();
    for square in of.squares() {
        let (x, y, side) = corner(square);
        let owner = owners.get(&seen(square)).map(|owner| owner % 7 + 1);
        let class =
            owner.map_or_else(|| "fill=\"none\"".to_owned(), |c| format!("class=\"phase-{c}\" opacity=\"0.35\""));
        drawing.push(format_args!(r#"<rect x="{x:.1}" y="{y:.1}" width="{side:.1}" height="{side:.1}" {class}/>"#));
        drawing
            .push(format_args!(r#"<rect class="grid" x="{x:.1}" y="{y:.1}" width="{side:.1}" height="{side:.1}"/>"#));
    }
    for Held { block, cells, .. } in &picture.blocks {
        let Some((x, y, side)) = of.blocks.get(*block as usize).map(corner) else { continue };
        let (width, height) = (side / f64::from(of.cells[0]), side / f64::from(of.cells[1]));
        for (row, values) in cells.chunks(of.cells[0] as usize).enumerate() {
            let step = |value: u8| value.div_ceil(255 / STEPS).min(STEPS);
            let mut at = 0;
            while let Some(&value) = values.get(at) {
                let run = values[at..].iter().take_while(|&&other| step(other) == step(value)).count();
                if step(value) > 0 {
                    let (x, y) = (x + at as f64 * width, y + row as f64 * height);
                    let (wide, dark) = (run as f64 * width, f64::from(step(value)) / f64::from(STEPS));
                    drawing.push(format_args!(
                        r#"<rect x="{x:.2}" y="{y:.2}" width="{wide:.2}" height="{height:.2}" fill="currentColor" opacity="{dark:.2}"/>"#
                    ));
                }
                at += run;
            }
        }
    }
    let below = top + block * f64::from(of.counts[1]) + 12.0;
    let text = format!("step {}, on {} blocks", Count(u64::from(picture.cycle)), Count(picture.blocks.len() as u64));
    drawing.cover(Point { x: left, y: top }, 2.0);
    drawing.text("tick", Point { x: left, y: below }, "start", &text);
}

fn chart(drawing: &mut Drawing, of: &Motion, top: f64) {
    let width = ACROSS as f64 * (SIDE + GAP) - GAP - LEFT;
    let most = of.bytes.iter().copied().max().unwrap_or(0).max(1);
    let count = of.bytes.len().max(2) - 1;
    let point = |nth: usize, bytes: u64| {
        (LEFT + width * nth as f64 / count as f64, top + CHART * (1.0 - bytes as f64 / most as f64))
    };
    for part in 0..=2u64 {
        let (_, y) = point(0, most * part / 2);
        drawing.push(format_args!(r#"<path class="grid" d="M{LEFT:.1} {y:.1}h{width:.1}"/>"#));
        drawing.text("tick", Point { x: LEFT - 10.0, y }, "end", &Bytes(most * part / 2).to_string());
    }
    // A point for each step would draw the same line several times over.
    let stride = of.bytes.len().div_ceil(800).max(1);
    let line: String = of.bytes.iter().enumerate().step_by(stride).fold(String::new(), |mut line, (nth, &bytes)| {
        let (x, y) = point(nth, bytes);
        line.push_str(&format!("{}{x:.1} {y:.1}", if line.is_empty() { "M" } else { "L" }));
        line
    });
    drawing.push(format_args!(r#"<path d="{line}" fill="none" style="stroke: var(--c1)" stroke-width="1.4"/>"#));
    drawing.cover(Point { x: LEFT + width, y: top + CHART }, 8.0);
    let text = format!(
        "payload bytes between ranks in each time step; {} if every block had every field, so {:.1} % on average",
        Bytes(of.dense_bytes),
        100.0 * of.share()
    );
    let steps = format!("step {}", Count(of.bytes.len() as u64));
    for (x, anchor, text) in [(LEFT, "start", "step 0"), (LEFT + width, "end", steps.as_str())] {
        drawing.text("tick", Point { x, y: top + CHART + 14.0 }, anchor, text);
    }
    drawing.text("legend", Point { x: LEFT, y: top + CHART + 36.0 }, "start", &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn motion(blocks: Vec<Place>, picture: Picture) -> Motion {
        Motion {
            counts: [2, 1],
            cells: [2, 2],
            blocks,
            pictures: vec![picture],
            bytes: vec![100, 50],
            dense_bytes: 1000,
        }
    }

    #[test]
    fn a_block_that_has_the_field_is_filled_and_its_cells_are_drawn() {
        let picture = Picture { cycle: 3, blocks: vec![Held { block: 1, owner: 1, cells: vec![0, 255, 255, 0] }] };
        let blocks = [0, 1].map(|x| Place { at: [x, 0], level: 0 });
        let drawn = draw(&motion(blocks.into(), picture)).unwrap();
        assert_eq!(drawn.matches("class=\"phase-2\"").count(), 1);
        assert_eq!(drawn.matches("currentColor").count(), 2);
        assert!(drawn.contains("step 3, on 1 blocks") && drawn.contains("7.5 % on average"));
        assert_eq!(draw(&Motion::default()), None);
    }

    #[test]
    fn finer_blocks_are_drawn_smaller_and_layers_on_each_other() {
        let picture = Picture { cycle: 3, blocks: vec![Held { block: 2, owner: 0, cells: vec![255; 4] }] };
        let place = |x, level| Place { at: [x, 0], level };
        let drawn = draw(&motion(vec![place(0, 0), place(2, 1), place(3, 1), place(3, 1)], picture)).unwrap();
        assert_eq!(drawn.matches("class=\"grid\" x=\"").count(), 3);
        assert_eq!(drawn.matches("width=\"62.5\" height=\"62.5\" class=\"phase-1\"").count(), 1);
        assert_eq!(drawn.matches("x=\"187.50\" y=\"0.00\" width=\"62.50\" height=\"31.25\"").count(), 1);
    }
}
