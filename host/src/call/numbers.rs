//! Arrays of numbers in values: what they are made of, and how two become one.

/// How two numbers become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Operator {
    /// The sum; whole numbers wrap.
    Sum = 1,
    /// The smaller one.
    Min = 2,
    /// The larger one.
    Max = 3,
    /// The bits that both have; whole numbers only.
    And = 4,
    /// The bits that one of them has; whole numbers only.
    Or = 5,
}

/// What the bytes of a value are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Number {
    /// Unsigned, 64 bits.
    U64 = 1,
    /// Signed, 64 bits.
    I64 = 2,
    /// Floating point, 64 bits.
    F64 = 3,
    /// Unsigned, 32 bits.
    U32 = 4,
    /// Signed, 32 bits.
    I32 = 5,
    /// Floating point, 32 bits.
    F32 = 6,
}

impl Number {
    /// Bytes of one.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Number::U64 | Number::I64 | Number::F64 => 8,
            Number::U32 | Number::I32 | Number::F32 => 4,
        }
    }
}

/// The header of a reduction.
#[must_use]
pub const fn reduction(operator: Operator, number: Number) -> [u8; 2] {
    [operator as u8, number as u8]
}

pub(super) fn operation(header: &[u8]) -> Option<(Operator, Number)> {
    let &[operator, number] = header else { return None };
    let operator = match operator {
        1 => Operator::Sum,
        2 => Operator::Min,
        3 => Operator::Max,
        4 => Operator::And,
        5 => Operator::Or,
        _ => return None,
    };
    let number = match number {
        1 => Number::U64,
        2 => Number::I64,
        3 => Number::F64,
        4 => Number::U32,
        5 => Number::I32,
        6 => Number::F32,
        _ => return None,
    };
    let of_bits = matches!(operator, Operator::And | Operator::Or);
    (!of_bits || !matches!(number, Number::F64 | Number::F32)).then_some((operator, number))
}

fn each<const N: usize>(ours: &mut [u8], theirs: &[u8], both: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (ours, theirs) in ours.as_chunks_mut::<N>().0.iter_mut().zip(theirs.as_chunks::<N>().0) {
        *ours = both(*ours, *theirs);
    }
}

/// Combines arrays of one length, number by number.
pub(super) fn combine(operator: Operator, number: Number, ours: &mut [u8], theirs: &[u8]) {
    macro_rules! whole {
        ($number:ty) => {
            each(ours, theirs, |a, b| {
                let (a, b) = (<$number>::from_le_bytes(a), <$number>::from_le_bytes(b));
                let both = match operator {
                    Operator::Sum => a.wrapping_add(b),
                    Operator::Min => a.min(b),
                    Operator::Max => a.max(b),
                    Operator::And => a & b,
                    Operator::Or => a | b,
                };
                both.to_le_bytes()
            })
        };
    }
    macro_rules! float {
        ($number:ty) => {
            each(ours, theirs, |a, b| {
                let (x, y) = (<$number>::from_le_bytes(a), <$number>::from_le_bytes(b));
                let both = match operator {
                    Operator::Sum => x + y,
                    Operator::Min => x.min(y),
                    Operator::Max => x.max(y),
                    // `operation` has refused these.
                    Operator::And | Operator::Or => x,
                };
                both.to_le_bytes()
            })
        };
    }
    match number {
        Number::U64 => whole!(u64),
        Number::I64 => whole!(i64),
        Number::U32 => whole!(u32),
        Number::I32 => whole!(i32),
        Number::F64 => float!(f64),
        Number::F32 => float!(f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_combined_one_by_one() {
        let words = |numbers: [u64; 2]| numbers.map(u64::to_le_bytes).concat();
        let mut ours = words([3, u64::MAX]);
        combine(Operator::Sum, Number::U64, &mut ours, &words([4, 2]));
        assert_eq!(ours, words([7, 1]));
        combine(Operator::Min, Number::I64, &mut ours, &words([(-1_i64).cast_unsigned(), 5]));
        assert_eq!(ours, words([(-1_i64).cast_unsigned(), 1]));
        let mut ours = 1.5_f32.to_le_bytes();
        combine(Operator::Max, Number::F32, &mut ours, &2.5_f32.to_le_bytes());
        assert_eq!(ours, 2.5_f32.to_le_bytes());
    }

    #[test]
    fn operations_that_there_are_not_are_refused() {
        assert_eq!(operation(&reduction(Operator::Or, Number::U32)), Some((Operator::Or, Number::U32)));
        assert_eq!(operation(&reduction(Operator::Or, Number::F32)), None);
        for header in [&[][..], &[1], &[0, 1], &[6, 1], &[1, 0], &[1, 7], &[1, 1, 1]] {
            assert_eq!(operation(header), None);
        }
    }
}
