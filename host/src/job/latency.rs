//! How long reads took.

use hdrhistogram::Histogram;

/// Latencies in nanoseconds, two digits exact, in bounded memory.
///
/// ```
/// use umbra::job::Latency;
/// let mut latency = Latency::default();
/// assert_eq!((latency.len(), latency.at(0.5)), (0, 0));
/// latency.record(40, 3)?;
/// latency.record(90, 1)?;
/// assert_eq!((latency.len(), latency.at(0.5), latency.max()), (4, 40, 90));
/// # Ok::<(), umbra::job::Unrecorded>(())
/// ```
#[derive(Clone, PartialEq, Default)]
pub struct Latency {
    /// Made by the first latency that is recorded.
    histogram: Option<Histogram<u64>>,
}

/// A latency that cannot be counted: it is beyond what a histogram of this machine can index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a latency of {nanoseconds} ns cannot be counted")]
pub struct Unrecorded {
    /// How long it was.
    pub nanoseconds: u64,
}

impl Latency {
    const DIGITS: u8 = 2;

    /// Counts `times` reads that took this long.
    ///
    /// # Errors
    /// [`Unrecorded`] if the latency is out of all range; the others are kept.
    pub fn record(&mut self, nanoseconds: u64, times: u64) -> Result<(), Unrecorded> {
        let unrecorded = Unrecorded { nanoseconds };
        let histogram = match &mut self.histogram {
            Some(histogram) => histogram,
            none => none.insert(Histogram::new(Self::DIGITS).map_err(|_| unrecorded)?),
        };
        histogram.record_n(nanoseconds, times).map_err(|_| unrecorded)
    }

    /// Counts the reads of `other` too.
    ///
    /// # Errors
    /// [`Unrecorded`] for the first latency that is out of all range.
    pub fn add(&mut self, other: &Latency) -> Result<(), Unrecorded> {
        other.counts().try_for_each(|(nanoseconds, times)| self.record(nanoseconds, times))
    }

    /// How many reads were counted.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Whether none was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latency below which the fraction `quantile` (0 to 1) of the reads lies; 0 without reads.
    #[must_use]
    pub fn at(&self, quantile: f64) -> u64 {
        self.histogram.as_ref().map_or(0, |h| h.value_at_quantile(quantile))
    }

    /// The longest; 0 without reads.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::max)
    }

    /// Every latency that occurred and how often, ascending.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.histogram.iter().flat_map(Histogram::iter_recorded);
        recorded.map(|value| (value.value_iterated_to(), value.count_at_value()))
    }
}

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} latencies, median {} ns, longest {} ns", self.len(), self.at(0.5), self.max())
    }
}
