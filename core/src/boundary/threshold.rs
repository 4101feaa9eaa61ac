//! What counts as something: thresholds of a sparse field.
//!
//! ```
//! use umbra_core::boundary::Sparse;
//! let field = Sparse::new(1e-6, 1e-8, 1.0)?;
//! assert!(!field.is_live(&[1.0, 1.0 + 1e-9]), "near its default");
//! assert!(field.is_live(&[1.0, 0.0]) && field.is_live(&[f64::NAN]));
//! assert!(field.is_idle(&[1.0 + 1e-9]) && !field.is_idle(&[f64::NAN]));
//! # Ok::<(), umbra_core::boundary::ThresholdError>(())
//! ```
//!
//! A strip with one value that is something is sent whole. Comparisons are with the field's default, because that is
//! what a receiver fills in, and written so that NaN is always something: an error in the physics must not vanish on
//! its way.

use core::cmp::Ordering::Less;
use core::fmt;

/// Why thresholds make no sense.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ThresholdError {
    /// A threshold is negative or no number.
    Negative {
        /// The threshold.
        threshold: f64,
    },
    /// Blocks would be given back and asked for again for ever.
    Oscillates {
        /// From where on a value is something.
        allocate: f64,
        /// Up to where it is nothing.
        deallocate: f64,
    },
    /// The default is infinite or no number.
    Default {
        /// The default.
        default: f64,
    },
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThresholdError::Negative { threshold } => write!(f, "threshold {threshold} must be a number from 0 on"),
            ThresholdError::Oscillates { allocate, deallocate } => write!(
                f,
                "values up to {deallocate} are given back although values from {allocate} on are allocated: the second \
                 must not be below the first"
            ),
            ThresholdError::Default { default } => write!(f, "default {default} must be a finite number"),
        }
    }
}
impl core::error::Error for ThresholdError {}

/// Thresholds and default of a sparse field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sparse {
    allocate: f64,
    deallocate: f64,
    default: f64,
}

impl Sparse {
    /// A value is something if it lies `allocate` or more from the default, and nothing if it lies at most `deallocate`
    /// from it. With zero for `allocate` a value is something exactly if its bits are not those of the default.
    ///
    /// # Errors
    /// [`ThresholdError`].
    pub fn new(allocate: f64, deallocate: f64, default: f64) -> Result<Sparse, ThresholdError> {
        for threshold in [allocate, deallocate] {
            if threshold.is_nan() || threshold < 0.0 {
                return Err(ThresholdError::Negative { threshold });
            }
        }
        if deallocate > allocate {
            return Err(ThresholdError::Oscillates { allocate, deallocate });
        }
        if !default.is_finite() {
            return Err(ThresholdError::Default { default });
        }
        Ok(Sparse { allocate, deallocate, default })
    }

    /// What stands for cells that are not allocated, and for nulls.
    #[must_use]
    pub const fn default_value(&self) -> f64 {
        self.default
    }

    /// Whether some value is something; ends at the first.
    #[must_use]
    #[inline]
    pub fn is_live(&self, values: &[f64]) -> bool {
        // A few values at a time without a branch between them, which processors do at once.
        let (eights, rest) = values.as_chunks::<8>();
        let is_something = |values: &[f64]| {
            if self.allocate == 0.0 {
                return values.iter().fold(false, |any, value| any | (value.to_bits() != self.default.to_bits()));
            }
            // Not `>=`: comparisons with NaN are false.
            let is = |value: &f64| !matches!((value - self.default).abs().partial_cmp(&self.allocate), Some(Less));
            values.iter().fold(false, |any, value| any | is(value))
        };
        // The first one by itself: values are far away mostly, and who begins with something is known before more than one line came.
        is_something(&values[..values.len().min(1)])
            || eights.iter().any(|eight| is_something(eight))
            || is_something(rest)
    }

    /// Whether all values are nothing, so that the memory could be given back.
    #[must_use]
    #[inline]
    pub fn is_idle(&self, values: &[f64]) -> bool {
        if self.allocate == 0.0 {
            return values.iter().all(|value| value.to_bits() == self.default.to_bits());
        }
        values.iter().all(|value| (value - self.default).abs() <= self.deallocate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s20_exactly_at_the_threshold_is_something() {
        let field = Sparse::new(1e-3, 1e-4, 0.0).unwrap();
        assert!(field.is_live(&[0.0, -1e-3]) && field.is_live(&[1e-3]));
        assert!(!field.is_live(&[1e-3_f64.next_down(), -(1e-3_f64.next_down())]));
        assert!(field.is_idle(&[1e-4, -1e-4]) && !field.is_idle(&[1e-4_f64.next_up()]));
    }

    #[test]
    fn s21_nan_is_something_and_never_idle() {
        for (allocate, deallocate) in [(1e-3, 1e-4), (0.0, 0.0), (f64::INFINITY, f64::INFINITY)] {
            let field = Sparse::new(allocate, deallocate, 0.0).unwrap();
            assert!(field.is_live(&[0.0, f64::NAN, 0.0]));
            assert!(!field.is_idle(&[0.0, f64::NAN, 0.0]));
        }
    }

    #[test]
    fn s22_values_are_compared_with_the_default() {
        let field = Sparse::new(1e-3, 1e-4, 1.0).unwrap();
        assert!(field.is_live(&[1e-13]), "near zero is far from one");
        assert!(!field.is_live(&[1.0]) && field.is_idle(&[1.0]));
    }

    #[test]
    fn without_a_threshold_bits_are_compared() {
        let field = Sparse::new(0.0, 0.0, 0.0).unwrap();
        assert!(!field.is_live(&[0.0]) && field.is_idle(&[0.0]));
        assert!(field.is_live(&[-0.0]) && !field.is_idle(&[-0.0]), "both or none, else blocks come and go");
        assert!(field.is_live(&[f64::MIN_POSITIVE]));
    }

    #[test]
    fn thresholds_that_make_no_sense_are_refused() {
        let error = ThresholdError::Oscillates { allocate: 1e-8, deallocate: 1e-6 };
        assert_eq!(Sparse::new(1e-8, 1e-6, 0.0), Err(error));
        assert!(matches!(Sparse::new(-1.0, 0.0, 0.0), Err(ThresholdError::Negative { .. })));
        assert!(matches!(Sparse::new(f64::NAN, 0.0, 0.0), Err(ThresholdError::Negative { .. })));
        assert!(matches!(Sparse::new(1.0, 0.0, f64::INFINITY), Err(ThresholdError::Default { .. })));
    }
}
