//! Ranges of a memory as a plain set of intervals.

use std::collections::BTreeMap;

/// What is in use: offset to length, in bytes.
pub(crate) type Used = BTreeMap<u64, u64>;

/// Free intervals in order, each with its length; asserts that those in use lie apart and inside.
pub(crate) fn gaps(used: &Used, capacity: u64) -> Vec<(u64, u64)> {
    let (mut at, mut gaps) = (0, vec![]);
    for (&offset, &len) in used {
        assert!(offset >= at, "ranges overlap at {offset}");
        gaps.push((at, offset - at));
        at = offset + len;
    }
    assert!(at <= capacity, "a range ends past the capacity");
    gaps.push((at, capacity - at));
    gaps.retain(|gap| gap.1 > 0);
    gaps
}
