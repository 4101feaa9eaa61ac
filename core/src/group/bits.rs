//! Sets of small numbers in lent words.
//!
//! "Full" is a bitmap, never a bare counter (spec 1.5): inserting twice changes nothing, so duplicated
//! and reordered messages cannot make a set look complete. Numbers beyond the words are not members and
//! cannot be inserted.

/// Words for `n` bits.
pub(crate) const fn words(n: u32) -> usize {
    (n as usize).div_ceil(64)
}

/// Inserts `i`; whether it was absent (and within the words).
pub(crate) fn insert(set: &mut [u64], i: u32) -> bool {
    match set.get_mut(i as usize / 64) {
        Some(word) => {
            let bit = 1 << (i % 64);
            let absent = *word & bit == 0;
            *word |= bit;
            absent
        }
        None => false,
    }
}

/// Removes `i`.
pub(crate) fn remove(set: &mut [u64], i: u32) {
    if let Some(word) = set.get_mut(i as usize / 64) {
        *word &= !(1 << (i % 64));
    }
}

/// Whether `i` is a member.
pub(crate) fn contains(set: &[u64], i: u32) -> bool {
    set.get(i as usize / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
}

/// How many members.
pub(crate) fn count(set: &[u64]) -> u32 {
    set.iter().map(|word| word.count_ones()).sum()
}

/// The members in ascending order.
pub(crate) fn members(set: &[u64]) -> impl Iterator<Item = u32> + '_ {
    set.iter().zip(0u32..).flat_map(|(&word, at)| {
        let mut rest = word;
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(at * 64 + bit)
        })
    })
}

/// The numbers below `n` that are not members, in ascending order.
pub(crate) fn absent(set: &[u64], n: u32) -> impl Iterator<Item = u32> + '_ {
    (0..n.div_ceil(64)).flat_map(move |at| {
        let have = set.get(at as usize).copied().unwrap_or(0);
        let valid = if at == n / 64 { (1u64 << (n % 64)) - 1 } else { u64::MAX };
        let mut rest = !have & valid;
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(at * 64 + bit)
        })
    })
}
