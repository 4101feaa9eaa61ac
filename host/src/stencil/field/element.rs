//! Kinds of numbers, and what a stencil adds them up in.

use std::fmt;
use std::str::FromStr;

/// A number as it lies in a file, little-endian.
pub trait Value: Copy + Send + 'static {
    /// Floating-point numbers are added up with 64 bits, integers with 64 bits that wrap around.
    type Sum: Copy + Default + Send;

    /// Bytes of one.
    const BYTES: usize;

    /// Adds weighted numbers, one to each sum, in order.
    fn add(sums: &mut [Self::Sum], weight: f64, numbers: &[u8]);

    /// Writes sums as numbers.
    fn write(sums: &[Self::Sum], numbers: &mut [u8]);

    /// A number from random bits: below 1 and not below -1, or any integer.
    fn write_random(bits: u64, number: &mut [u8]);
}

macro_rules! values {
    ($($type:ty, $sum:ty, |$total:ident, $weight:ident, $value:ident| $add:expr, |$bits:ident| $random:expr, |$number:ident| $written:expr;)+) => {$(
        impl Value for $type {
            type Sum = $sum;
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn add(sums: &mut [$sum], $weight: f64, numbers: &[u8]) {
                let $weight = $weight as $sum;
                let (numbers, _) = numbers.as_chunks();
                for (sum, &bytes) in sums.iter_mut().zip(numbers) {
                    let ($total, $value) = (*sum, <$type>::from_le_bytes(bytes) as $sum);
                    *sum = $add;
                }
            }

            fn write(sums: &[$sum], numbers: &mut [u8]) {
                let (numbers, _) = numbers.as_chunks_mut();
                for (sum, bytes) in sums.iter().zip(numbers) {
                    let $number = *sum as $type;
                    *bytes = $written.to_le_bytes();
                }
            }

            fn write_random($bits: u64, number: &mut [u8]) {
                number.copy_from_slice(&($random as $type).to_le_bytes());
            }
        }
    )+};
}
// 24 bits at the top: exact in either type. All that are no numbers are written alike: which of two such summands gives the sum
// its bits is the compiler's choice.
values! {
    f32, f64, |t, w, v| t + w * v, |bits| (bits >> 40) as f64 / f64::from(1 << 23) - 1.0,
        |n| if n.is_nan() { f32::NAN } else { n };
    f64, f64, |t, w, v| t + w * v, |bits| (bits >> 40) as f64 / f64::from(1 << 23) - 1.0,
        |n| if n.is_nan() { f64::NAN } else { n };
    i8, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    i16, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    i32, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    i64, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    u8, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    u16, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    u32, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
    u64, i64, |t, w, v| t.wrapping_add(w.wrapping_mul(v)), |bits| bits, |n| n;
}

macro_rules! elements {
    ($($name:ident $type:ident $code:literal)+) => {
        /// Which kind of number a field consists of.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "their names are those of the types")]
        pub enum Element {
            $($name,)+
        }

        impl Element {
            /// All kinds.
            pub const ALL: [Element; 10] = [$(Element::$name),+];

            /// The name: `f64`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Element::$name => stringify!($type),)+
                }
            }

            /// The code in a header: `<f8`.
            pub(super) fn code(self) -> &'static str {
                match self {
                    $(Element::$name => $code,)+
                }
            }

            /// Bytes of one.
            #[must_use]
            pub fn bytes(self) -> usize {
                match self {
                    $(Element::$name => <$type>::BYTES,)+
                }
            }
        }

        /// Evaluates an expression with a name for the type of an [`Element`].
        macro_rules! for_element {
            ($element:expr, $value:ident => $does:expr) => {
                match $element {
                    $($crate::stencil::field::Element::$name => { type $value = $type; $does })+
                }
            };
        }
        pub(crate) use for_element;
    };
}
elements! {
    F32 f32 "<f4"
    F64 f64 "<f8"
    I8 i8 "|i1"
    I16 i16 "<i2"
    I32 i32 "<i4"
    I64 i64 "<i8"
    U8 u8 "|u1"
    U16 u16 "<u2"
    U32 u32 "<u4"
    U64 u64 "<u8"
}

impl Element {
    /// Whether weights may have fractions.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F64)
    }

    /// Whether this is its code; of single bytes with any order.
    pub(super) fn is(self, code: &str) -> bool {
        code == self.code() || self.bytes() == 1 && code.strip_prefix('<') == self.code().strip_prefix('|')
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Element {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Element::ALL.map(Element::name).join(", ");
        let found = Element::ALL.into_iter().find(|element| element.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of {}", names()))
    }
}
