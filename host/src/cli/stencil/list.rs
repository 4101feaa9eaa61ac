//! Which bricks each is computed from: a look beforehand, and the list of all.

use umbra::stencil::field::{Bricks, Pattern};
use umbra::stencil::{Groups, Stop};

use crate::cli::Failure;

/// Bricks that are looked at beforehand.
const LOOKED_AT: u64 = 1 << 12;
/// References of the list between two looks whether there is memory for the rest of the run.
const LOOK: usize = 1 << 20;

/// What a look at some bricks says about all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// Bricks that one of those is computed from at most.
    pub(super) largest: u64,
    /// Bricks that all are computed from, together; about.
    pub(super) references: u64,
}

/// Looks at bricks all over the field: at its edges they are computed from fewer others than elsewhere.
///
/// # Errors
/// Soon after `stop` is set.
pub(super) fn look(bricks: &Bricks, pattern: &Pattern, stop: &Stop) -> Result<Look, Failure> {
    let count = bricks.count();
    let looked_at = count.min(LOOKED_AT);
    let (mut largest, mut sum) = (0, 0);
    for at in 0..looked_at {
        let group = bricks.group_unless(nth(at, count), pattern, stop).ok_or_else(interrupted)?;
        largest = largest.max(group.len() as u64);
        sum += group.len() as u64;
    }
    let all = u128::from(sum) * u128::from(count) / u128::from(looked_at.max(1));
    Ok(Look { largest, references: u64::try_from(all).unwrap_or(u64::MAX) })
}

/// One of those that are looked at. Multiples of the golden ratio lie evenly between whole numbers, and along no row.
fn nth(at: u64, count: u64) -> u64 {
    if count <= LOOKED_AT {
        return at;
    }
    let fraction = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(fraction) * u128::from(count)) >> 64) as u64
}

/// The list, in the order of these points. `enough` refuses what there is of it if the rest of the run has no memory beside.
///
/// # Errors
/// That of `enough`, without memory for the list itself, and soon after `stop` is set.
pub(super) fn list(
    points: &[u64],
    bricks: &Bricks,
    pattern: &Pattern,
    stop: &Stop,
    enough: impl Fn(&Groups) -> Result<(), Failure>,
) -> Result<Groups, Failure> {
    let mut groups = Groups::default();
    let mut looked = 0;
    for &point in points {
        let group = bricks.group_unless(point, pattern, stop).ok_or_else(interrupted)?;
        groups.try_reserve(1, group.len()).map_err(Failure::failed)?;
        groups.push(group);
        if groups.references() - looked >= LOOK {
            looked = groups.references();
            enough(&groups)?;
        }
    }
    Ok(groups)
}

pub(super) fn interrupted() -> Failure {
    Failure::failed("interrupted; nothing is computed yet")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use umbra_core::stencil::Shape;

    use super::*;

    #[test]
    fn a_look_at_some_bricks_says_how_many_references_all_have() {
        let pattern = Pattern::within(Shape::Box, 1, 3).unwrap();
        for extents in [[3, 3, 3], [1, 3, 5000], [1, 4096, 16], [1, 6144, 3], [9, 30, 40]] {
            let bricks = Bricks::new(extents, [1; 3]).unwrap();
            let groups = (0..bricks.count()).map(|number| bricks.group(number, &pattern).len() as u64);
            let (largest, references) = groups.fold((0, 0), |(most, sum), len| (len.max(most), len + sum));
            let look = look(&bricks, &pattern, &Stop::default()).unwrap();
            assert_eq!(look.largest, largest, "{extents:?}");
            assert!(look.references.abs_diff(references) <= references / 100, "{extents:?}: {look:?} {references}");
        }
    }

    #[test]
    fn a_list_that_leaves_no_memory_for_the_rest_is_not_made_to_its_end() {
        let bricks = Bricks::new([1, 300, 700], [1; 3]).unwrap();
        let pattern = Pattern::within(Shape::Box, 1, 2).unwrap();
        let points: Vec<u64> = (0..bricks.count()).collect();
        let made = |most: usize| {
            let enough = |groups: &Groups| {
                if groups.references() > most { Err(Failure::failed("no more")) } else { Ok(()) }
            };
            list(&points, &bricks, &pattern, &Stop::default(), enough).map(|groups| groups.len() as u64)
        };
        assert!(matches!(made(LOOK), Err(Failure::Failed(why)) if why == "no more"));
        assert!(matches!(made(2 * LOOK), Ok(len) if len == bricks.count()));
    }
}
