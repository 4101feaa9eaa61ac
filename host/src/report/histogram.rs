//! A distribution as counts between bounds.

/// Counts of values in nanoseconds, in ascending buckets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    buckets: Vec<(u64, u64)>,
}

impl Histogram {
    /// Takes `(value, count)` pairs in any order; a value stands for its whole bucket.
    #[must_use]
    pub fn from_counts(counts: impl IntoIterator<Item = (u64, u64)>) -> Histogram {
        let mut buckets: Vec<(u64, u64)> = counts.into_iter().filter(|&(_, count)| count > 0).collect();
        buckets.sort_unstable();
        Histogram { buckets }
    }

    /// How many values there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.buckets.iter().map(|&(_, count)| count).sum()
    }

    /// The smallest value; `None` if there is none.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.buckets.first().map(|&(value, _)| value)
    }

    /// The largest value; `None` if there is none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.buckets.last().map(|&(value, _)| value)
    }

    /// The smallest value that `fraction` of all values do not exceed; `None` if there is none.
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        let wanted = ((self.total() as f64 * fraction).ceil() as u64).max(1);
        let mut seen = 0;
        for &(value, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return Some(value);
            }
        }
        self.max()
    }

    /// Counts again in `per_decade` buckets a decade: `(lower exponent in buckets, count)`, ascending, gaps included.
    pub(crate) fn logarithmic(&self, per_decade: u32) -> Vec<(i64, u64)> {
        let bin = |value: u64| ((value.max(1) as f64).log10() * f64::from(per_decade)).floor() as i64;
        let (Some(min), Some(max)) = (self.min(), self.max()) else { return Vec::new() };
        let (first, last) = (bin(min), bin(max));
        let mut bins: Vec<(i64, u64)> = (first..=last).map(|b| (b, 0)).collect();
        for &(value, count) in &self.buckets {
            if let Some(slot) = usize::try_from(bin(value) - first).ok().and_then(|i| bins.get_mut(i)) {
                slot.1 += count;
            }
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let h = Histogram::from_counts([(300, 1), (100, 50), (200, 49)]);
        assert_eq!(h.total(), 100);
        assert_eq!(
            (h.quantile(0.5), h.quantile(0.51), h.quantile(0.99), h.quantile(1.0)),
            (Some(100), Some(200), Some(200), Some(300))
        );
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn logarithmic_buckets_keep_every_count_and_the_gaps() {
        let h = Histogram::from_counts([(10, 3), (1_000, 4), (0, 1)]);
        let bins = h.logarithmic(2);
        assert_eq!(bins.len(), 7);
        assert_eq!(bins.iter().map(|b| b.1).sum::<u64>(), 8);
        assert_eq!((bins[0], bins[2], bins[6]), ((0, 1), (2, 3), (6, 4)));
    }
}
