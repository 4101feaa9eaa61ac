//! The header that a function writes for the children of its member.
//!
//! They get it in place of the one that the member was given.
//!
//! A call that allows this ([`Mode::REWRITE`](super::Mode::REWRITE)) has memory for it in the place of every member, so a request
//! that is sent again has the same header as before. Members that live together have places of their own then, and each keeps the
//! header that it was given, because its parent may be done before it is.
//!
//! *Cost*: for other calls a few bytes more in what is kept of each, and a look at them; the longest header and two bytes in each
//! place, and a copy for every child.

use core::fmt;
use core::ops::Range;

use zerocopy::IntoBytes;

use super::layout::{Came, Layout, Sizes};
use super::list::Packed;
use super::machine::{Handle, Machine};
use super::message::REQUEST;
use super::storage::Storage;

/// Bytes in front of the header, which say how long it is.
const AHEAD: usize = 2;
/// In their place: none was written.
const NONE: u16 = u16::MAX;
/// The longest header that they can say.
const LONGEST: usize = NONE as usize - 1;

/// Why a header was not replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RewriteError {
    /// The call was not made so that its header can be replaced, or a callback tries it: its member's children have theirs.
    NotAllowed,
    /// The header is longer than requests of this call may have it.
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most.
        max: usize,
    },
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RewriteError::NotAllowed => {
                f.write_str("headers are replaced by functions of calls that allow it, and not in callbacks")
            }
            RewriteError::TooLong { len, max } => {
                write!(f, "a header of {len} bytes, at most {max} go on to the children of this member")
            }
        }
    }
}
impl core::error::Error for RewriteError {}

/// Where the header for the children of a member is written.
#[derive(Debug)]
pub struct HeaderBelow<'a>(pub(super) &'a mut [u8]);

impl HeaderBelow<'_> {
    pub(super) fn lend(&mut self) -> HeaderBelow<'_> {
        HeaderBelow(self.0)
    }

    /// The longest header that goes on, in bytes.
    #[must_use]
    pub const fn max(&self) -> usize {
        self.0.len().saturating_sub(AHEAD)
    }

    /// Writes the header that the children get; the last one counts.
    ///
    /// # Errors
    /// [`RewriteError::TooLong`]; nothing has changed then.
    pub fn set(&mut self, header: &[u8]) -> Result<(), RewriteError> {
        let too_long = RewriteError::TooLong { len: header.len(), max: self.max() };
        let (len, place) = self.0.split_first_chunk_mut::<AHEAD>().ok_or(too_long)?;
        place.get_mut(..header.len()).ok_or(too_long)?.copy_from_slice(header);
        *len = (header.len() as u16).to_le_bytes();
        Ok(())
    }
}

/// What was written there, if anything was.
fn written(place: &[u8]) -> Option<&[u8]> {
    let (&len, header) = place.split_first_chunk::<AHEAD>()?;
    header.get(..usize::from(u16::from_le_bytes(len)))
}

/// Bytes that a member has to write a header there: the longest that it takes and a request carries, at least as many as the one
/// that it was given.
pub(super) fn room(sizes: &Sizes, header_max: u16, message_max: u32) -> usize {
    let listed = sizes.whole.map_or(sizes.list as usize, |whole| whole.len as usize + Packed::AHEAD / 4);
    let stated = if sizes.stated { sizes.list as usize } else { 0 };
    let others = listed.saturating_add(stated).saturating_mul(4).saturating_add(REQUEST + sizes.data);
    let carried = (message_max as usize).saturating_sub(others);
    AHEAD + usize::from(header_max).min(carried).max(sizes.header).min(LONGEST)
}

impl Layout {
    /// Where the header for the children is written, and that which a member has from a parent that lives with it.
    fn below_ranges(&self) -> (Range<usize>, Range<usize>) {
        let given = self.own_end() - self.given().next_multiple_of(8);
        let start = given - self.rewrite().next_multiple_of(8);
        (start..start + self.rewrite(), given..given + self.given())
    }

    /// Of a call's own memory behind its reply: what lies in front of the header for the children, where that is written, and the
    /// header that the member has from a parent that lives with it.
    #[expect(clippy::type_complexity, reason = "three pieces of one memory")]
    #[inline]
    pub(super) fn split_below<'m>(
        &self,
        behind_reply: &'m mut [u8],
        at_home: bool,
    ) -> Option<(&'m [u8], Option<&'m mut [u8]>, Option<&'m [u8]>)> {
        if self.rewrite() == 0 {
            return Some((behind_reply, None, None));
        }
        let (below, given) = self.below_ranges();
        let (rest, tail) = behind_reply.split_at_mut_checked(below.start.checked_sub(self.reply_len())?)?;
        let (place, tail) = tail.split_at_mut_checked(given.start - below.start)?;
        let given = if at_home { Some(&*tail.get_mut(..given.len())?) } else { None };
        Some((rest, Some(place.get_mut(..below.len())?), given))
    }

    /// The header for the children, as far as it lies in the call's own memory: what was written for them, or came from a parent
    /// that lives with their member.
    pub(super) fn header_below<'m>(&self, own: &'m [u8], at_home: bool) -> Option<&'m [u8]> {
        if self.rewrite() == 0 {
            return None;
        }
        let (below, given) = self.below_ranges();
        let given = || if at_home { own.get(given) } else { None };
        own.get(below).and_then(written).or_else(given)
    }

    /// Nothing was written for the children yet.
    pub(super) fn keep_header(&self, own: &mut [u8]) {
        if self.rewrite() > 0
            && let Some(place) = own.get_mut(self.below_ranges().0)
            && let Some(len) = place.first_chunk_mut::<AHEAD>()
        {
            *len = NONE.to_le_bytes();
        }
    }
}

impl<S: Storage> Machine<S> {
    /// The header that the children of a call get which may replace it.
    fn header_for_home(&self, id: Handle) -> Option<&[u8]> {
        let context = self.contexts.get(id).ok()?;
        let start = id.index() as usize * self.slab;
        let slab = self.words.as_ref().get(start..start + self.slab)?.as_bytes();
        // Whoever has no parent here has its request in its own memory.
        let came = || Came { bytes: slab, base: 0 }.header(&context.layout);
        Some(context.layout.header_below(slab, context.at_home).unwrap_or_else(came))
    }

    /// How long that is.
    pub(super) fn header_len_for_home(&self, id: Handle) -> usize {
        self.header_for_home(id).map_or(0, <[u8]>::len)
    }

    /// Gives it to a child that lives here and has a place for it.
    pub(super) fn hand_header_down(&mut self, id: Handle, child: Handle) {
        let place = |id: Handle| id.index() as usize * self.slab..(id.index() as usize + 1) * self.slab;
        let (Ok(above), Ok(below)) = (self.contexts.get(id), self.contexts.get(child)) else { return };
        let Ok([from, to]) = self.words.as_mut().get_disjoint_mut([place(id), place(child)]) else { return };
        let from: &[u8] = from.as_bytes();
        let came = || Came { bytes: from, base: 0 }.header(&above.layout);
        let header = above.layout.header_below(from, above.at_home).unwrap_or_else(came);
        let (_, given) = below.layout.below_ranges();
        if let Some(to) = to.as_mut_bytes().get_mut(given).filter(|to| to.len() == header.len()) {
            to.copy_from_slice(header);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn the_last_header_that_fits_counts_and_one_that_is_too_long_changes_nothing() {
        let mut place = [0xa5; AHEAD + 4];
        place[..AHEAD].copy_from_slice(&NONE.to_le_bytes());
        assert_eq!(written(&place), None);
        let mut below = HeaderBelow(&mut place);
        assert_eq!(below.max(), 4);
        below.set(&[1, 2, 3, 4]).unwrap();
        below.set(&[5, 6]).unwrap();
        assert_eq!(below.set(&[7; 5]), Err(RewriteError::TooLong { len: 5, max: 4 }));
        assert_eq!(written(&place), Some(&[5, 6][..]));
        HeaderBelow(&mut place).set(&[]).unwrap();
        assert_eq!(written(&place), Some(&[][..]));
        let none: &mut [u8] = &mut [];
        assert_eq!(HeaderBelow(none).set(&[]), Err(RewriteError::TooLong { len: 0, max: 0 }));
    }
}
