//! Reading and writing little-endian fields in lent bytes.
//!
//! Integers on the wire are little-endian and of fixed width, or, in lists of very many, groups of seven bits; this
//! module is the only place that says so. Bytes from a peer are allegations: every read is checked, nothing is sized by a number that a peer
//! sent without a bound.

use core::fmt;

/// The bytes ended before the field did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Short;

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("message ends before its last field")
    }
}
impl core::error::Error for Short {}

/// Why bytes are not an integer in groups of seven bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum VarError {
    /// The bytes end inside the integer.
    Short,
    /// It is not written in its shortest form, or has more than 32 bits.
    NotShortest,
}

impl fmt::Display for VarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VarError::Short => Short.fmt(f),
            VarError::NotShortest => f.write_str("integer is not in its shortest form or has more than 32 bits"),
        }
    }
}
impl core::error::Error for VarError {}

/// Takes fields off the front of a byte slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The bytes not yet taken.
    #[must_use]
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes `len` bytes.
    ///
    /// # Errors
    /// [`Short`] if fewer are left; nothing is taken then.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes `N` bytes as an array.
    ///
    /// # Errors
    /// [`Short`] if fewer are left; nothing is taken then.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`Short`] if none is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes a 16-bit integer.
    ///
    /// # Errors
    /// [`Short`] if fewer than 2 bytes are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Short> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Takes a 32-bit integer.
    ///
    /// # Errors
    /// [`Short`] if fewer than 4 bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Takes a 64-bit integer.
    ///
    /// # Errors
    /// [`Short`] if fewer than 8 bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes a 128-bit integer.
    ///
    /// # Errors
    /// [`Short`] if fewer than 16 bytes are left.
    #[inline]
    pub fn u128(&mut self) -> Result<u128, Short> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Takes an integer of one to five bytes: groups of seven bits, the lowest first, all but the last with the top bit.
    ///
    /// # Errors
    /// [`VarError`]; some of its bytes are taken then.
    pub fn var(&mut self) -> Result<u32, VarError> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.u8().map_err(|Short| VarError::Short)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let shortest = byte != 0 || shift == 0;
                return u32::try_from(value).ok().filter(|_| shortest).ok_or(VarError::NotShortest);
            }
        }
        Err(VarError::NotShortest)
    }
}

/// The bytes of a message that always has the same length, which `write` fills.
#[inline]
#[must_use]
pub fn filled<const N: usize>(write: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>) -> [u8; N] {
    let mut bytes = [0; N];
    let mut writer = Writer::new(&mut bytes);
    let written = write(&mut writer);
    debug_assert!(written.is_ok() && writer.room() == 0, "the length is the sum of the fields");
    bytes
}

/// Appends fields to a lent buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Writes from the start of `buffer`.
    #[must_use]
    #[inline]
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Writer { buffer, len: 0 }
    }

    /// Bytes written so far.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written yet.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Room left, in bytes.
    #[must_use]
    #[inline]
    pub const fn room(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Short`] if they do not fit; nothing is written then.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Short> {
        let end = self.len.checked_add(bytes.len()).ok_or(Short)?;
        self.buffer.get_mut(self.len..end).ok_or(Short)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Appends one byte.
    ///
    /// # Errors
    /// [`Short`] if the buffer is full.
    #[inline]
    pub fn u8(&mut self, value: u8) -> Result<(), Short> {
        self.bytes(&[value])
    }

    /// Appends a 16-bit integer.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    #[inline]
    pub fn u16(&mut self, value: u16) -> Result<(), Short> {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a 32-bit integer.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<(), Short> {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a 64-bit integer.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    #[inline]
    pub fn u64(&mut self, value: u64) -> Result<(), Short> {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a 128-bit integer.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    #[inline]
    pub fn u128(&mut self, value: u128) -> Result<(), Short> {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends what `write` puts at the beginning of the room that is left, if it says how many bytes that is.
    #[inline]
    pub fn part(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<usize> {
        let rest = self.buffer.get_mut(self.len..)?;
        let room = rest.len();
        let written = write(rest).filter(|&written| written <= room)?;
        self.len += written;
        Some(written)
    }

    /// Appends an integer in groups of seven bits, see [`Reader::var`].
    ///
    /// # Errors
    /// [`Short`] if it does not fit; part of it is written then.
    pub fn var(&mut self, mut value: u32) -> Result<(), Short> {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80)?;
            value >>= 7;
        }
        self.u8(value as u8)
    }
}

/// The little-endian words of a line of the processor's cache.
#[must_use]
#[inline(always)]
pub fn words(line: &[u8; 64]) -> [u64; 8] {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(line.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}
