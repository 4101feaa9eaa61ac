//! A clock cheap enough to stand around a single operation.
//!
//! Reads the processor's cycle counter where it is invariant and the system's monotonic clock elsewhere; the
//! scale is measured once. A pair of readings costs some ten nanoseconds, so what is faster than a few hundred
//! is timed in batches ([`super::alternate`]) all the same.

/// A monotonic clock; cheap to read, made once.
#[derive(Debug, Clone)]
pub struct Clock {
    inner: quanta::Clock,
}

/// A reading of a [`Clock`], in units that only that clock can turn into time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Clock {
    /// Makes the clock; the first one of a process calibrates for up to 200 ms.
    #[must_use]
    pub fn new() -> Self {
        Self { inner: quanta::Clock::new() }
    }

    /// Reads the clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(self.inner.raw())
    }

    /// Nanoseconds from one reading to a later one; 0 if `later` is not later.
    #[inline]
    #[must_use]
    pub fn nanoseconds(&self, earlier: Moment, later: Moment) -> u64 {
        self.inner.delta_as_nanos(earlier.0, later.0)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
