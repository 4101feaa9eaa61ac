//! The machine's monotonic clock.

use umbra_core::time::Time;

/// Now, on the machine's monotonic clock, which all its processes share.
#[must_use]
#[inline]
pub fn now() -> Time {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(t.tv_nsec).unwrap_or(0)))
}
