//! One statement for every log: firmware's, a host's, or none.
//!
//! [`log!`](crate::log!) takes a level of `error`, `warn`, `info`, `debug` or `trace`, a format string and arguments:
//!
//! | features of this crate | where a statement goes |
//! |---|---|
//! | `tracing` | `tracing`'s subscriber; on hosts |
//! | `defmt` alone | `defmt`'s logger; in firmware. The crate that logs must name `defmt` itself |
//! | neither | nowhere; nothing is computed |
//!
//! Arguments are formatted with `{:?}`, which both understand for the vocabulary of this crate. With both features a
//! statement goes to `tracing` alone, so that a host program with all features links without a `defmt` logger.
//!
//! ```
//! let missing = 3;
//! umbra_core::log!(warn, "{:?} ranks are missing", missing);
//! ```
//!
//! Statements stand where something begins, ends or goes wrong; never where a byte moves.

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// Logs; see [`log`](mod@crate::log).
#[cfg(feature = "tracing")]
#[macro_export]
macro_rules! log {
    ($level:ident, $($arguments:tt)+) => { $crate::log::tracing::$level!($($arguments)+) };
}

/// Logs; see [`log`](mod@crate::log).
#[cfg(all(feature = "defmt", not(feature = "tracing")))]
#[macro_export]
macro_rules! log {
    ($level:ident, $($arguments:tt)+) => { ::defmt::$level!($($arguments)+) };
}

/// Logs; see [`log`](mod@crate::log).
#[cfg(not(any(feature = "tracing", feature = "defmt")))]
#[macro_export]
macro_rules! log {
    ($level:ident, $($arguments:tt)+) => {
        if false {
            $crate::log::nothing(::core::format_args!($($arguments)+));
        }
    };
}

/// Takes what is not logged, so that it is checked all the same.
#[doc(hidden)]
pub const fn nothing(_: core::fmt::Arguments<'_>) {}
