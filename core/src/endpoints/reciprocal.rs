//! Division by a number that is fixed in advance, as one multiplication.
//!
//! With `m = floor((2^64 - 1) / d)` the quotient `floor(n / d)` is the upper half of `m * (n + 1)` for all 32-bit `n`
//! and `d > 0`: writing `m = (2^64 - 1 - e) / d` with `e < d`, that product over `2^64` falls short of `(n + 1) / d`
//! by more than nothing and at most `2^-32`, which is at most `1 / d`.
//!
//! *Cost*: one 64-by-64-bit multiplication; a 64-bit division takes several times as long on many processors.

/// A divisor, prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reciprocal(pub(super) u64);

impl Reciprocal {
    /// Prepares a divisor; zero is taken as one.
    pub(super) const fn new(divisor: u32) -> Reciprocal {
        Reciprocal(if divisor == 0 { u64::MAX } else { u64::MAX / divisor as u64 })
    }

    /// `n` divided by the divisor, rounded down.
    #[inline]
    pub(super) const fn quotient(self, n: u32) -> u32 {
        ((self.0 as u128 * (n as u128 + 1)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Reciprocal;

    #[test]
    fn the_quotient_is_that_of_division_at_every_edge() {
        let edges = |d: u32| {
            let multiples = [1, 2, 3, 1000, u32::MAX / d].map(|k| d.saturating_mul(k));
            multiples.into_iter().flat_map(|m| [m.saturating_sub(1), m, m.saturating_add(1)]).chain([0, 1, u32::MAX])
        };
        let powers = (0..32).flat_map(|shift| [(1_u32 << shift).saturating_sub(1), 1 << shift, (1 << shift) + 1]);
        for d in (1..2000).chain(powers).chain([u32::MAX - 1, u32::MAX]).filter(|&d| d > 0) {
            for n in edges(d) {
                assert_eq!(Reciprocal::new(d).quotient(n), n / d, "{n} / {d}");
            }
        }
    }
}
