//! Blobs that move, as pixels.
//!
//! The mesh at several times side by side, and the bytes of each time step.

use std::collections::{BTreeMap, BTreeSet};

use super::canvas::{Anchor, Canvas, Colour, Face, colour, over};
use super::{CARD, INK, INNER, LINE, MARGIN, RULE, SOFT, WIDTH, wrapped};
use crate::quantity::{Bytes, Count, counted};
use crate::report::motion::{Held, Motion, Picture, Place, seen};

const PAD: i32 = 24;
const LEFT: i32 = MARGIN + PAD;
const WIDE: i32 = INNER - 2 * PAD;
/// Pictures side by side.
const ACROSS: i32 = 4;
const GAP: i32 = 20;
const SIDE: i32 = (WIDE - (ACROSS - 1) * GAP) / ACROSS;
/// A picture's label.
const LABEL: i32 = 30;
const CHART: i32 = 150;
/// Room for what stands beside the chart.
const SCALE: i32 = 84;
/// Blocks narrower than this have no border: it would hide them.
const BORDER: f64 = 5.0;

/// Of ranks, in turn: those of style.css.
const OWNERS: [Colour; 7] = [
    colour(0x4f_83cc),
    colour(0xe0_a03a),
    colour(0x3f_9d83),
    colour(0x8a_6fc4),
    colour(0xcf_6679),
    colour(0x5f_9ea8),
    colour(0x8d_9657),
];
/// How much of a rank's colour a block has.
const TINT: f64 = 0.35;

const CAPTION: &str = "The first field over time. Blocks that have it are filled in the colour of their rank, and the field is drawn \
    on them, the darker the larger. All others keep no memory for it, and send a bit where they would send a strip.";

fn owner_colour(owner: u32) -> Colour {
    OWNERS[owner as usize % OWNERS.len()]
}

fn caption() -> Vec<String> {
    wrapped(CAPTION, Face::Small, WIDE)
}

/// The box that the mesh is drawn in.
fn mesh_height(of: &Motion) -> i32 {
    let [x, y] = of.counts.map(f64::from);
    (f64::from(SIDE) * y / x.max(y)).round() as i32
}

fn note(of: &Motion) -> Vec<String> {
    let text = format!(
        "Payload bytes between ranks in each time step; {} if every block had every field, so {:.1} % on average. Dots are the times of \
         the pictures.",
        Bytes(of.dense_bytes),
        100.0 * of.share()
    );
    wrapped(&text, Face::Small, WIDE)
}

/// Where the parts lie, from the top of the card.
struct Parts {
    legend: i32,
    pictures: i32,
    chart: i32,
    note: i32,
    height: i32,
}

fn parts(of: &Motion) -> Parts {
    let legend = 56 + LINE * caption().len() as i32;
    let pictures = legend + 34;
    let rows = (of.pictures.len() as i32 + ACROSS - 1) / ACROSS;
    let chart = pictures + rows * (mesh_height(of) + LABEL) + 20;
    let note = chart + CHART + 52;
    Parts { legend, pictures, chart, note, height: note + LINE * note_lines(of) + 10 }
}

fn note_lines(of: &Motion) -> i32 {
    note(of).len() as i32
}

/// How high it is; 0 if there is nothing to draw.
pub(super) fn height(of: &Motion) -> i32 {
    if of.is_empty() { 0 } else { parts(of).height }
}

/// Draws it from a line of pixels on.
pub(super) fn draw(canvas: &mut Canvas, top: i32, of: &Motion) {
    if of.is_empty() {
        return;
    }
    let parts = parts(of);
    canvas.fill([MARGIN, top], [INNER, parts.height], CARD);
    canvas.frame([MARGIN, top], [INNER, parts.height], RULE);
    canvas.text([LEFT, top + 26], Anchor::Left, Face::Heading, INK, "Motion");
    for (nth, line) in (0..).zip(caption()) {
        canvas.text([LEFT, top + 52 + LINE * nth], Anchor::Left, Face::Small, SOFT, &line);
    }
    legend(canvas, top + parts.legend, of);
    for (nth, picture) in (0..).zip(&of.pictures) {
        let x = LEFT + nth % ACROSS * (SIDE + GAP);
        let y = top + parts.pictures + nth / ACROSS * (mesh_height(of) + LABEL);
        frame(canvas, of, picture, [x, y]);
    }
    chart(canvas, of, top + parts.chart);
    for (nth, line) in (0..).zip(note(of)) {
        canvas.text([LEFT, top + parts.note + LINE * nth], Anchor::Left, Face::Small, SOFT, &line);
    }
}

/// What colours mean: ranks that have the field at some time, blocks without it, values.
fn legend(canvas: &mut Canvas, y: i32, of: &Motion) {
    let owners: BTreeSet<u32> =
        of.pictures.iter().flat_map(|picture| picture.blocks.iter().map(|held| held.owner)).collect();
    let mut x = LEFT;
    let mut entry = |canvas: &mut Canvas, fill: Colour, text: &str| {
        // The scale of values stands at the right.
        if x + 40 + Face::Small.width(text) > WIDTH - LEFT - 220 {
            return false;
        }
        canvas.fill([x, y - 6], [13, 13], fill);
        canvas.frame([x, y - 6], [13, 13], RULE);
        canvas.text([x + 19, y + 1], Anchor::Left, Face::Small, INK, text);
        x += 40 + Face::Small.width(text);
        true
    };
    entry(canvas, CARD, "no memory");
    for owner in &owners {
        if !entry(canvas, over(owner_colour(*owner), CARD, TINT), &format!("rank {owner}")) {
            break;
        }
    }
    let (right, bar) = (WIDTH - LEFT, 110);
    canvas.text([right, y + 1], Anchor::Right, Face::Small, INK, "1");
    let left = right - 14 - bar;
    let shades = over(owner_colour(0), CARD, TINT);
    (0..bar).for_each(|at| canvas.fill([left + at, y - 6], [1, 13], shade(shades, at as f64 / f64::from(bar - 1))));
    canvas.frame([left, y - 6], [bar, 13], RULE);
    canvas.text([left - 8, y + 1], Anchor::Right, Face::Small, INK, "field  0");
}

/// A value from 0 to 1, on a block of this colour.
fn shade(block: Colour, value: f64) -> Colour {
    // The root shows what is small, too.
    over(INK, block, value.clamp(0.0, 1.0).sqrt())
}

/// Pixels from one place to another, so that what lies side by side neither overlaps nor leaves a gap.
fn span(from: f64, len: f64) -> (i32, i32) {
    (from.round() as i32, (from + len).round() as i32)
}

fn frame(canvas: &mut Canvas, of: &Motion, picture: &Picture, [left, top]: [i32; 2]) {
    let block = f64::from(SIDE) / f64::from(of.counts[0].max(of.counts[1]));
    let side = |place: &Place| block / f64::from(1u32 << place.level.min(31));
    let corner = |place: &Place| {
        let side = side(place);
        let spans = [0, 1].map(|d| span(f64::from(place.at[d]) * side, side));
        ([left + spans[0].0, top + spans[1].0], spans.map(|(from, to)| to - from))
    };
    let places = |held: &Held| of.blocks.get(held.block as usize);
    let owners: BTreeMap<_, _> =
        picture.blocks.iter().rev().filter_map(|held| Some((seen(places(held)?), held.owner))).collect();
    let squares = of.squares();
    for square in &squares {
        let (at, size) = corner(square);
        if let Some(&owner) = owners.get(&seen(square)) {
            canvas.fill(at, size, over(owner_colour(owner), CARD, TINT));
        }
    }
    // Of layers one behind the other the largest value is seen.
    let mut values: BTreeMap<(i32, i32), (u8, Colour)> = BTreeMap::new();
    for held in &picture.blocks {
        let Some(place) = places(held) else { continue };
        let (at, size) = corner(place);
        let tint = over(owner_colour(held.owner), CARD, TINT);
        let cell = |pixel: i32, d: usize| {
            let nth = ((f64::from(pixel) + 0.5) / f64::from(size[d].max(1)) * f64::from(of.cells[d])) as u32;
            nth.min(of.cells[d] - 1) as usize
        };
        for y in 0..size[1] {
            for x in 0..size[0] {
                let nth = cell(y, 1) * of.cells[0] as usize + cell(x, 0);
                let value = held.cells.get(nth).copied().unwrap_or(0);
                if value > 0 {
                    let known = values.entry((at[0] + x, at[1] + y)).or_insert((0, tint));
                    known.0 = known.0.max(value);
                }
            }
        }
    }
    for ((x, y), (value, tint)) in values {
        canvas.set(x, y, shade(tint, f64::from(value) / 255.0));
    }
    for square in squares.iter().filter(|square| side(square) >= BORDER) {
        let (at, size) = corner(square);
        canvas.frame(at, [size[0] + 1, size[1] + 1], over(SOFT, CARD, 0.35));
    }
    let height = mesh_height(of);
    canvas.frame([left, top], [SIDE + 1, height + 1], SOFT);
    let blocks = counted(picture.blocks.len() as u64, "block", "blocks");
    let text = format!("step {}, on {blocks}", Count(u64::from(picture.cycle)));
    canvas.text([left, top + height + 13], Anchor::Left, Face::Small, INK, &text);
}

fn chart(canvas: &mut Canvas, of: &Motion, top: i32) {
    let (left, width) = (LEFT + SCALE, WIDE - SCALE - 8);
    let most = of.bytes.iter().copied().max().unwrap_or(0).max(1);
    let count = of.bytes.len().max(2) - 1;
    let across = |nth: usize| left + (f64::from(width) * nth as f64 / count as f64).round() as i32;
    let up = |bytes: u64| top + (f64::from(CHART) * (1.0 - bytes as f64 / most as f64)).round() as i32;
    for part in 0..=4u64 {
        let bytes = most * part / 4;
        canvas.fill([left, up(bytes)], [width, 1], RULE);
        canvas.text([left - 10, up(bytes)], Anchor::Right, Face::Small, SOFT, &Bytes(bytes).to_string());
    }
    // Where there are more steps than pixels, all of those of one pixel: the line shows the largest and the smallest.
    let line = over(owner_colour(0), INK, 0.9);
    for (nth, pair) in of.bytes.windows(2).enumerate() {
        canvas.line([across(nth), up(pair[0])], [across(nth + 1), up(pair[1])], 2, line);
    }
    for picture in &of.pictures {
        // A picture shows what is there before the step of its number.
        let nth = (picture.cycle as usize).min(of.bytes.len().saturating_sub(1));
        let (x, y) = (across(nth), up(of.bytes.get(nth).copied().unwrap_or(0)));
        canvas.rounded([x - 4, y - 4], [9, 9], 4, CARD);
        canvas.rounded([x - 3, y - 3], [7, 7], 3, INK);
    }
    for part in 0..=4 {
        let step = of.bytes.len() * part / 4;
        let x = left + width * part as i32 / 4;
        canvas.fill([x, top + CHART], [1, 5], SOFT);
        let text = Count(step as u64).to_string();
        let x = (x - Face::Small.width(&text) / 2).min(WIDTH - LEFT - Face::Small.width(&text));
        canvas.text([x, top + CHART + 15], Anchor::Left, Face::Small, SOFT, &text);
    }
    let text = "time step";
    let middle = left + (width - Face::Small.width(text)) / 2;
    canvas.text([middle, top + CHART + 32], Anchor::Left, Face::Small, SOFT, text);
}
