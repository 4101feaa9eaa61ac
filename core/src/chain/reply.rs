//! The reply of a member: what the user's code writes and combines.
//!
//! It stays within what the call allows.

use core::fmt;

use super::message::Caps;

/// Bytes of a reply so far, and the bytes that did not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) header: u16,
    pub(super) data: u32,
    pub(super) overflow: u32,
}

impl Written {
    pub(super) const NOTHING: Written = Written { header: 0, data: 0, overflow: 0 };
}

/// A reply does not fit into what the call allows; the call fails for that at this member, whatever follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ReplyTooLarge {
    /// Bytes that it would have.
    pub needed: u32,
    /// Bytes that the call allows.
    pub allowed: u32,
}

impl fmt::Display for ReplyTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reply of {} bytes where the call allows {}", self.needed, self.allowed)
    }
}
impl core::error::Error for ReplyTooLarge {}

/// The reply of a member: header and data of actual lengths within the lengths that the call allows.
#[derive(Debug)]
pub struct Reply<'a> {
    pub(super) header: &'a mut [u8],
    pub(super) data: &'a mut [u8],
    pub(super) written: &'a mut Written,
}

impl Reply<'_> {
    /// How much the call allows.
    #[must_use]
    pub fn caps(&self) -> Caps {
        Caps { header: self.header.len() as u16, data: self.data.len() as u32 }
    }

    /// The header so far.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        self.header.get(..usize::from(self.written.header)).unwrap_or(&[])
    }

    /// The data so far.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.data.get(..self.written.data as usize).unwrap_or(&[])
    }

    /// The data so far, to be changed in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.data.get_mut(..self.written.data as usize).unwrap_or(&mut [])
    }

    /// All the memory of the header and of the data, for code that says by [`set_lens`](Self::set_lens) how much of it it
    /// filled. Beyond the reply so far it holds whatever was there before.
    #[must_use]
    pub const fn memory(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.header, self.data)
    }

    /// Says how much of the [`memory`](Self::memory) of the header and of the data is the reply.
    ///
    /// # Errors
    /// [`ReplyTooLarge`]; nothing has changed then.
    pub fn set_lens(&mut self, header: usize, data: usize) -> Result<(), ReplyTooLarge> {
        for (len, memory) in [(header, self.header.len()), (data, self.data.len())] {
            if len > memory {
                let needed = u32::try_from(len).unwrap_or(u32::MAX);
                self.written.overflow = needed;
                return Err(ReplyTooLarge { needed, allowed: memory as u32 });
            }
        }
        (self.written.header, self.written.data) = (header as u16, data as u32);
        Ok(())
    }

    /// Replaces the header.
    ///
    /// # Errors
    /// [`ReplyTooLarge`]; nothing has changed then.
    pub fn set_header(&mut self, bytes: &[u8]) -> Result<(), ReplyTooLarge> {
        self.written.header = put(self.header, 0, bytes, &mut self.written.overflow)? as u16;
        Ok(())
    }

    /// Replaces the data.
    ///
    /// # Errors
    /// [`ReplyTooLarge`]; nothing has changed then.
    pub fn set_data(&mut self, bytes: &[u8]) -> Result<(), ReplyTooLarge> {
        self.written.data = put(self.data, 0, bytes, &mut self.written.overflow)? as u32;
        Ok(())
    }

    /// Appends to the header.
    ///
    /// # Errors
    /// [`ReplyTooLarge`]; nothing has changed then.
    pub fn push_header(&mut self, bytes: &[u8]) -> Result<(), ReplyTooLarge> {
        self.written.header =
            put(self.header, usize::from(self.written.header), bytes, &mut self.written.overflow)? as u16;
        Ok(())
    }

    /// Appends to the data.
    ///
    /// # Errors
    /// [`ReplyTooLarge`]; nothing has changed then.
    pub fn push_data(&mut self, bytes: &[u8]) -> Result<(), ReplyTooLarge> {
        self.written.data = put(self.data, self.written.data as usize, bytes, &mut self.written.overflow)? as u32;
        Ok(())
    }
}

/// Writes bytes at a place; where they end.
fn put(to: &mut [u8], at: usize, bytes: &[u8], overflow: &mut u32) -> Result<usize, ReplyTooLarge> {
    let end = at.saturating_add(bytes.len());
    let allowed = to.len() as u32;
    let Some(place) = to.get_mut(at..end) else {
        let needed = u32::try_from(end).unwrap_or(u32::MAX);
        *overflow = needed;
        return Err(ReplyTooLarge { needed, allowed });
    };
    place.copy_from_slice(bytes);
    Ok(end)
}
