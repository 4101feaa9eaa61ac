//! How wide strips may be, and what they cost.

use super::order::Order;

/// Strips for a box, cut so that each input is loaded once for each strip that uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strips {
    /// Points along each coordinate of a strip: the outermost coordinate is not cut.
    pub edges: [u32; 3],
    /// Loads of a whole sweep: strips load their rims again. Fewer may do on a grid of
    /// few planes.
    pub loads: u64,
}

impl Strips {
    /// The strips with the fewest loads for boxes of this radius on a grid, with so many slots and groups under way.
    /// A plane (an outermost extent of 1) is cut along its last coordinate, a space along its last two. `None` if the
    /// slots don't suffice for strips of one point, or if an extent is 0.
    ///
    /// *Cost*: each edge along the middle coordinate is tried, and its strips are counted one by one: for a plane O(the
    /// inner extent), for a space up to O(M · (log M + N)) with a middle extent M and an inner extent N.
    #[must_use]
    pub fn fit(extents: [u32; 3], radius: u32, slots: u32, active: u32) -> Option<Strips> {
        let space = extents[0] > 1;
        let [outer, middle, inner] = extents.map(u64::from);
        if extents.contains(&0) {
            return None;
        }
        let twice = 2 * u64::from(radius);
        // The slots that hold inputs beside the last few of a row.
        let slots = u64::from(slots).checked_sub(u64::from(active.saturating_sub(1)))?.checked_sub(twice + 1)?;
        let fitting = |middle_edge: u64| {
            // An edge with the rims on both sides, as far as they are within the grid.
            let rows = (middle_edge + twice).min(middle);
            // 2R planes of a strip, and 2R rows of the plane at hand, as far as there are others.
            let planes = twice.min(outer - 1) * rows;
            let row = slots.checked_div(planes + twice.min(middle - 1)).unwrap_or(inner);
            let edge = if row >= inner { inner } else { row.checked_sub(twice).filter(|&edge| edge > 0)? };
            let rows = if space { rims(middle, middle_edge, twice) } else { middle };
            let loads = outer.checked_mul(rows)?.checked_mul(rims(inner, edge, twice))?;
            Some(Strips { edges: [extents[0], middle_edge as u32, edge as u32], loads })
        };
        let lowest = if space { 1 } else { middle };
        (lowest..=middle).filter_map(fitting).min_by_key(|strips| strips.loads)
    }

    /// The order that goes with it.
    #[must_use]
    pub fn order(self) -> Order {
        Order::Tiles { edges: self.edges }
    }
}

/// The points along a coordinate that is cut, where each cut costs the rims on both of its sides.
fn rims(extent: u64, edge: u64, twice: u64) -> u64 {
    let cut = |start: u64| (start + edge + twice / 2).min(extent) - start.saturating_sub(twice / 2);
    let starts = extent.div_ceil(edge);
    // All but the outermost strips are equal, unless the rims reach over several.
    (0..starts).map(|at| cut(at * edge)).sum()
}
