//! Big-endian bit fields of firmware commands, counted from the wire's first bit.
//!
//! The public interface tables give every field an offset and a width in bits; bit 0 is the highest bit of the first
//! byte. A [`Field`] is such a row, and reads and writes itself, so a layout is written down once, as in the tables.

/// One field: where it begins and how wide it is, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its first bit.
    pub at: usize,
    /// Its bits, at most 64.
    pub width: usize,
}

/// A message ends before a field does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Short;

impl Field {
    /// A row of the tables.
    #[must_use]
    pub const fn new(at: usize, width: usize) -> Field {
        Field { at, width }
    }

    /// The same field of a structure that begins `by` bits further on.
    #[must_use]
    pub const fn inside(self, by: usize) -> Field {
        Field { at: by + self.at, width: self.width }
    }

    /// Its value.
    ///
    /// # Errors
    /// [`Short`].
    pub fn get(self, message: &[u8]) -> Result<u64, Short> {
        (self.at..self.at + self.width).try_fold(0, |value, bit| {
            let byte = message.get(bit / 8).ok_or(Short)?;
            Ok(value << 1 | u64::from(byte >> (7 - bit % 8) & 1))
        })
    }

    /// Writes the lowest bits of `value`.
    ///
    /// # Errors
    /// [`Short`]; nothing was written then.
    pub fn set(self, message: &mut [u8], value: u64) -> Result<(), Short> {
        let end = self.at + self.width;
        if message.len() * 8 < end {
            return Err(Short);
        }
        for (bit, shift) in (self.at..end).rev().zip(0..) {
            let (byte, mask) = (&mut message[bit / 8], 1 << (7 - bit % 8));
            *byte = if value >> shift & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_where_the_table_says_and_touches_nothing_else() {
        let mut bytes = [0; 12];
        // Three bits that end a word, 24 bits behind a byte, a word across nothing, and 64 bits.
        Field::new(0x1d, 3).set(&mut bytes, 0b101).unwrap();
        assert_eq!(bytes, [0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
        Field::new(0x28, 0x18).set(&mut bytes, 0xff12_3456).unwrap();
        assert_eq!(bytes, [0, 0, 0, 5, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0]);
        let long = Field::new(0x20, 0x40);
        long.set(&mut bytes, 0x0102_0304_0506_0708).unwrap();
        assert_eq!(bytes, [0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(long.get(&bytes), Ok(0x0102_0304_0506_0708));
        Field::new(0x1e, 1).set(&mut bytes, 1).unwrap();
        Field::new(0x1d, 1).set(&mut bytes, 0).unwrap();
        assert_eq!((bytes[3], Field::new(0x1d, 3).get(&bytes)), (3, Ok(3)));
    }

    #[test]
    fn a_message_that_ends_inside_a_field_is_short() {
        let field = Field::new(8, 0x18);
        let mut bytes = [9; 3];
        assert_eq!((field.get(&bytes), field.set(&mut bytes, 0)), (Err(Short), Err(Short)));
        assert_eq!(bytes, [9; 3]);
        assert_eq!(field.get(&[9; 4]), Ok(0x0009_0909));
    }
}
