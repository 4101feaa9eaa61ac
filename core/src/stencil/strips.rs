//! How wide strips may be, and what they cost.
//!
//! A strip is swept row by row. What a point of it needs beyond its edges, the rim, the next strip needs again.
//!
//! Of a box, all that is within reach of the strip stays until the sweep has gone by; of a star only the strip itself
//! does. The rim of a star serves the points of one row, or of a few rows of one plane, so its strips may be wider by
//! nearly two radii.
//!
//! Strips of the same width leave the same slots over, and these keep a part of the rims from each strip to the next. If the
//! last one is what others have left, the slots that it does not need keep nothing, as no strip comes behind it.

use super::grid::Shape;
use super::order::Order;

/// Strips for boxes or stars, cut so that each input is loaded once for each strip that uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strips {
    /// Points along each coordinate of a strip: the outermost coordinate is not cut.
    pub edges: [u32; 3],
    /// Loads of a whole sweep that suffice, one group after the other: strips load their rims again. Slots that are left
    /// over keep a part of a rim for the next strip, so fewer loads do. On planes and deep spaces that is a few in a hundred;
    /// on a grid of few planes, where the strips that fit can leave many slots without work, it can be a sixth.
    pub loads: u64,
}

/// How many more strips than have to be are tried.
const MORE_STRIPS: u64 = 16;

/// What decides how many slots a strip needs.
struct Sweep {
    extents: [u64; 3],
    radius: u64,
    shape: Shape,
}

impl Strips {
    /// Strips with few loads for boxes or stars of this radius on a grid, with so many slots and groups under way: of about
    /// the same width, and as wide as fits, or a little narrower where the slots that are left over then keep more of the rims
    /// than there is of them more. A plane (an outermost extent of 1) is cut along its last coordinate, a space along its last
    /// two. `None` if the slots don't suffice for strips of one point, or if an extent is 0.
    ///
    /// *Cost*: O(log N) for a plane with an inner extent N; for a space each edge along the middle coordinate is tried,
    /// O(M · log N) with a middle extent M.
    #[must_use]
    pub fn fit(extents: [u32; 3], radius: u32, shape: Shape, slots: u32, active: u32) -> Option<Strips> {
        if extents.contains(&0) {
            return None;
        }
        let sweep = Sweep { extents: extents.map(u64::from), radius: u64::from(radius), shape };
        let [_, middle, inner] = sweep.extents;
        let slots = u64::from(slots).checked_sub(u64::from(active.saturating_sub(1)))?;
        let fitting = |rows: u64| {
            let fits = |edge: u64| sweep.slots(rows, edge) <= slots;
            let widest = if fits(inner) { inner } else { widest(inner, fits)? };
            let fewest = inner.div_ceil(widest);
            let even = (fewest..=inner.min(fewest + MORE_STRIPS)).map(|strips| inner.div_ceil(strips));
            let loads = |edge| Some((sweep.likely_loads(rows, edge, slots)?, rows, edge));
            even.chain([widest]).filter_map(loads).min_by_key(|&(loads, ..)| loads)
        };
        let lowest = if extents[0] > 1 { 1 } else { middle };
        let (_, rows, edge) = (lowest..=middle).filter_map(fitting).min_by_key(|&(loads, ..)| loads)?;
        Some(Strips { edges: [extents[0], rows as u32, edge as u32], loads: sweep.loads(rows, edge)? })
    }

    /// The order that goes with it.
    #[must_use]
    pub fn order(self) -> Order {
        Order::Tiles { edges: self.edges }
    }
}

impl Sweep {
    /// Slots that strips of these edges need so that none loads an input twice.
    fn slots(&self, rows: u64, edge: u64) -> u64 {
        let ([outer, middle, inner], radius) = (self.extents, self.radius);
        if self.shape == Shape::Box || outer * middle == 1 {
            // With the rims on both sides, as far as they are within the grid.
            let (rows, row) = ((rows + 2 * radius).min(middle), (edge + 2 * radius).min(inner));
            let (planes, more) = self.held(outer);
            let (some, point) = if more { self.held(rows) } else { (0, false) };
            let last = if point { row.min(2 * radius + 1) } else { 0 };
            return planes.saturating_mul(rows).saturating_add(some).saturating_mul(row).saturating_add(last);
        }
        let (inside, more) = if outer > 1 { self.held(outer) } else { self.held(middle) };
        let stretch = if outer > 1 { rows.saturating_mul(edge) } else { edge };
        // The rim in a row: most of it is there at once with the first or the last point of it.
        let in_row = if edge < inner { radius + (radius + 1).saturating_sub(edge) } else { 0 };
        // The rim above or below: one of its rows goes by with a row of the strip, and the others stay for the next ones.
        let sides = 1 + u64::from(rows < 2 * radius);
        let beside =
            if rows < middle && radius > 0 { sides.saturating_mul((radius - 1).saturating_mul(edge) + 1) } else { 0 };
        let rims = in_row.saturating_add(beside);
        inside.saturating_mul(stretch).saturating_add(u64::from(more)).saturating_add(rims)
    }

    /// How many lines along a coordinate stay while the sweep goes on to the next one, and whether there are more.
    fn held(&self, extent: u64) -> (u64, bool) {
        let around = 2 * self.radius;
        if extent == 1 || extent > around { (if extent == 1 { 0 } else { around }, true) } else { (extent, false) }
    }

    /// Loads of strips of these edges.
    fn loads(&self, rows: u64, edge: u64) -> Option<u64> {
        let ([outer, middle, inner], radius) = (self.extents, self.radius);
        let across = rims(inner, edge, radius)?;
        let down = if outer > 1 { rims(middle, rows, radius)? } else { middle };
        let plane = match self.shape {
            Shape::Box => down.checked_mul(across)?,
            // No corners: what is beside a strip is as long as the strip.
            Shape::Star => middle.checked_mul(across)?.checked_add((down - middle).checked_mul(inner)?)?,
        };
        outer.checked_mul(plane)
    }

    /// About what strips of these edges load of which each leaves so many of these slots over: of a plane, these keep as
    /// much of the rims from one strip to the next.
    fn likely_loads(&self, rows: u64, edge: u64, slots: u64) -> Option<u64> {
        let ([outer, middle, inner], loads) = (self.extents, self.loads(rows, edge)?);
        if outer > 1 {
            return Some(loads);
        }
        let rim = middle.saturating_mul(2 * self.radius);
        let kept = slots.checked_sub(self.slots(rows, edge))?.min(rim).saturating_mul(inner.div_ceil(edge) - 1);
        Some(loads.saturating_sub(kept).max(middle.saturating_mul(inner)))
    }
}

/// The widest edge below the whole extent that fits; what fits has no larger one that does not below it.
fn widest(extent: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut most, mut too_wide) = (0, extent);
    while too_wide - most > 1 {
        let edge = most + (too_wide - most) / 2;
        (most, too_wide) = if fits(edge) { (edge, too_wide) } else { (most, edge) };
    }
    (most > 0).then_some(most)
}

/// The points along a coordinate that is cut, where each cut costs the rims on both of its sides.
fn rims(extent: u64, edge: u64, radius: u64) -> Option<u64> {
    let [extent, edge, radius] = [extent, edge, radius].map(u128::from);
    let strips = extent.div_ceil(edge);
    // How many strips end so far before the end of the grid that they have a whole rim behind them, and from which one on they
    // have one before them.
    let (before, from) = ((extent.saturating_sub(radius) / edge).min(strips), radius.div_ceil(edge).min(strips));
    let ends = edge * (before * (before + 1) / 2) + radius * before + extent * (strips - before);
    let starts = edge * (strips * (strips - 1) / 2 - from * from.saturating_sub(1) / 2) - radius * (strips - from);
    u64::try_from(ends - starts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rims_are_those_of_all_strips() {
        for (extent, edge, radius) in (1..25).flat_map(|x| (1..=x).flat_map(move |e| (0..9).map(move |r| (x, e, r)))) {
            let strips = (0..extent).step_by(edge as usize);
            let one = strips.map(|start: u64| (start + edge + radius).min(extent) - start.saturating_sub(radius));
            assert_eq!(rims(extent, edge, radius), Some(one.sum()), "{extent} {edge} {radius}");
        }
    }
}
