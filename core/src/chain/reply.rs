//! The reply of a member: what the user's code writes and combines.
//!
//! It stays within what the call allows.

use core::fmt;

use super::message::{Caps, span_bytes};
use crate::key::Span;

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

    /// Whether something that was written did not fit, for which the call fails whatever follows.
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        self.written.overflow > 0
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

    /// Replaces the data by the place where it lies, as an answer of a [rendezvous](super::Mode::RENDEZVOUS) has it.
    ///
    /// # Errors
    /// [`ReplyTooLarge`]; nothing has changed then.
    pub fn set_span(&mut self, span: Span) -> Result<(), ReplyTooLarge> {
        self.set_data(&span_bytes(span))
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;

    const OLD: u8 = 0xa5;

    /// Changes a reply of 3 and 4 bytes in the middle of other memory; all of that memory, and what was written.
    fn within(change: impl FnOnce(&mut Reply<'_>)) -> ([[u8; 8]; 2], Written) {
        let (mut memory, mut written) = ([[OLD; 8]; 2], Written::NOTHING);
        let [header, data] = &mut memory;
        change(&mut Reply { header: &mut header[2..5], data: &mut data[2..6], written: &mut written });
        (memory, written)
    }

    #[test]
    fn a_reply_is_written_up_to_what_is_allowed_and_no_further() {
        let (memory, written) = within(|reply| {
            reply.set_header(&[9, 9, 9]).unwrap();
            reply.set_header(&[1]).unwrap();
            reply.push_header(&[2, 3]).unwrap();
            reply.push_data(&[4, 5]).unwrap();
            reply.push_data(&[6, 7]).unwrap();
            assert_eq!((reply.header(), reply.data()), ([1, 2, 3].as_slice(), [4, 5, 6, 7].as_slice()));
        });
        assert_eq!(memory, [[OLD, OLD, 1, 2, 3, OLD, OLD, OLD], [OLD, OLD, 4, 5, 6, 7, OLD, OLD]]);
        assert_eq!(written, Written { header: 3, data: 4, overflow: 0 });
    }

    #[test]
    fn what_is_not_allowed_changes_no_byte_of_a_reply() {
        let (memory, written) = within(|reply| {
            reply.set_header(&[1]).unwrap();
            reply.set_data(&[2, 3]).unwrap();
            let header = |needed| Err(ReplyTooLarge { needed, allowed: 3 });
            let data = |needed| Err(ReplyTooLarge { needed, allowed: 4 });
            assert_eq!((reply.set_header(&[8; 4]), reply.push_header(&[8; 3])), (header(4), header(4)));
            assert_eq!((reply.set_data(&[8; 5]), reply.push_data(&[8; 4])), (data(5), data(6)));
            assert_eq!((reply.set_lens(4, 0), reply.set_lens(0, 7)), (header(4), data(7)));
            assert_eq!((reply.header(), reply.data()), ([1].as_slice(), [2, 3].as_slice()));
        });
        assert_eq!(memory, [[OLD, OLD, 1, OLD, OLD, OLD, OLD, OLD], [OLD, OLD, 2, 3, OLD, OLD, OLD, OLD]]);
        assert_eq!(written, Written { header: 1, data: 2, overflow: 7 });
    }

    #[test]
    fn lengths_that_are_allowed_are_those_of_the_reply() {
        let (_, written) = within(|reply| {
            reply.memory().1.fill(1);
            reply.set_lens(3, 4).unwrap();
            assert_eq!(reply.data(), [1; 4]);
            reply.set_lens(0, 2).unwrap();
        });
        assert_eq!(written, Written { header: 0, data: 2, overflow: 0 });
    }
}
