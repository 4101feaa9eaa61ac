//! Division by a number that stays, without dividing.

/// Division by a constant that is known at run time, by one multiplication.
///
/// With `factor` = (2^64 - 1) / divisor, rounded down, the product with the next number falls short of that number's true
/// quotient by less than 1 / divisor, and by something: so rounded down it is the quotient of a number below 2^32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reciprocal {
    pub(super) divisor: u32,
    factor: u64,
}

impl Reciprocal {
    pub(super) fn new(divisor: u32) -> Option<Self> {
        Some(Reciprocal { divisor, factor: u64::MAX.checked_div(u64::from(divisor))? })
    }

    /// Quotient and remainder.
    #[inline]
    pub(super) fn divide(self, number: u32) -> (u32, u32) {
        let product = u128::from(u64::from(number) + 1) * u128::from(self.factor);
        let quotient = (product >> 64) as u32;
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reciprocal_divides() {
        for divisor in [1, 2, 3, 7, 640, 409_600, u32::MAX - 1, u32::MAX] {
            let by = Reciprocal::new(divisor).unwrap();
            for number in [0, 1, 2, divisor - 1, divisor, divisor.wrapping_mul(3), u32::MAX - 1, u32::MAX] {
                assert_eq!(by.divide(number), (number / divisor, number % divisor));
            }
        }
        assert!(Reciprocal::new(0).is_none());
    }
}
