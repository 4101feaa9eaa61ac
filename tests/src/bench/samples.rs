//! Repeated readings of one figure, summed up by order statistics.
//!
//! Medians and percentiles, never means: one scheduling hiccup among a hundred readings moves a mean and leaves
//! a median where it was.

/// Readings of one figure, sorted; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    /// Takes the readings; `None` without any, or if one is not a number.
    #[must_use]
    pub fn new(mut readings: Vec<f64>) -> Option<Self> {
        if readings.is_empty() || readings.iter().any(|reading| reading.is_nan()) {
            return None;
        }
        readings.sort_by(f64::total_cmp);
        Some(Self { sorted: readings })
    }

    /// Every reading, lowest first.
    pub fn all(&self) -> impl Iterator<Item = f64> + '_ {
        self.sorted.iter().copied()
    }

    /// The reading that half of all do not exceed.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The smallest reading that at least `percent` of all do not exceed (nearest rank); clamped to 0..=100.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let last = self.sorted.len() - 1;
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * self.sorted.len() as f64).ceil() as usize;
        self.sorted[rank.saturating_sub(1).min(last)]
    }

    /// The lowest reading: for short loops the one that was disturbed least.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.sorted[0]
    }

    /// How far apart the quartiles are, as a part of the median: above 0.2 the machine was not quiet.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.percentile(75.0) - self.percentile(25.0)) / self.median().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let samples = Samples::new((1..=10).rev().map(f64::from).collect()).unwrap();
        assert_eq!(samples.median(), 5.0);
        assert_eq!(samples.percentile(0.0), 1.0);
        assert_eq!(samples.percentile(90.0), 9.0);
        assert_eq!(samples.percentile(99.0), 10.0);
        assert_eq!(samples.percentile(1000.0), 10.0);
        assert_eq!(samples.lowest(), 1.0);
        assert_eq!(samples.spread(), (8.0 - 3.0) / 5.0);
    }

    #[test]
    fn no_reading_and_no_number_are_refused() {
        assert_eq!(Samples::new(Vec::new()), None);
        assert_eq!(Samples::new(vec![1.0, f64::NAN]), None);
    }
}
