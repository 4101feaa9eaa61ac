//! Points and spans of time in nanoseconds, handed in by the caller.
//!
//! Core reads no clock. A driver passes the monotonic clock of its machine, a simulator its virtual one;
//! the origin is arbitrary and the same within one machine of states.

use core::ops::Add;

/// A point on the caller's monotonic clock, in nanoseconds since its origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Lapse(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than every deadline.
    pub const NEVER: Time = Time(u64::MAX);

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Lapse {
        Lapse(self.0.saturating_sub(earlier.0))
    }
}

impl Lapse {
    /// `n` microseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Lapse {
        Lapse(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn from_millis(n: u64) -> Lapse {
        Lapse(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Lapse {
        Lapse(n.saturating_mul(1_000_000_000))
    }
}

impl Add<Lapse> for Time {
    type Output = Time;

    /// Saturates at [`Time::NEVER`].
    fn add(self, lapse: Lapse) -> Time {
        Time(self.0.saturating_add(lapse.0))
    }
}
