//! Where a call keeps what has no fixed size.
//!
//! It lies in the call's piece of the lent memory, or came with the request.

use core::ops::Range;

use super::column::Column;
use super::context::{NO_KID, RECORDS};
use super::list::{List, Packed, Whole};
use super::message::Caps;
use super::report::Record;
use crate::tree::{Piece, Shape};

/// What the user's code wants of a call that does not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) kids: u32,
    pub(super) list: u32,
    /// Where it begins among all members, if these are wanted as well.
    pub(super) whole: Option<Whole>,
    pub(super) stated: bool,
    pub(super) header: usize,
    pub(super) data: usize,
    pub(super) caps: Caps,
    pub(super) collect: bool,
    pub(super) parks: bool,
    /// Levels below that need no places of their own.
    pub(super) frames: u16,
    /// Its header may be replaced for the children of every member.
    pub(super) rewrites: bool,
    /// Members that were left out, whose names lie behind all else at the maker.
    pub(super) skipped: u32,
}

/// Where what lies, in bytes: in the call's own memory the reply, the table of children, the records and the parked
/// replies; then, in the memory that the request came to, what came with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) kids: u16,
    parks: bool,
    pub(super) stated: bool,
    /// Members of the subtree.
    pub(super) members: u32,
    kids_at: u32,
    records_at: u32,
    park_at: u32,
    /// Levels below whose members can be dealt with in this place.
    pub(super) frames: u16,
    frames_at: u32,
    replies_at: u32,
    own_end: u32,
    /// Bytes in which the header for the children is written, and those of the one that came from a parent here; both lie at the
    /// end of the call's own part.
    rewrite: u32,
    given: u32,
    list_at: u32,
    /// All members of the call that lie there, if they do.
    all: u32,
    ids_at: u32,
    sizes_at: u32,
    header_at: u32,
    data_at: u32,
    /// Where it ends if all of it is in one memory.
    pub(super) end: u32,
}

const KID: usize = 32;
/// Bytes of what is kept of a member above others that are dealt with.
pub(super) const FRAME: usize = 40;

impl Layout {
    pub(super) const EMPTY: Layout = Layout {
        kids: 0,
        parks: false,
        stated: false,
        members: 0,
        kids_at: 0,
        records_at: 0,
        park_at: 0,
        frames: 0,
        frames_at: 0,
        replies_at: 0,
        own_end: 0,
        rewrite: 0,
        given: 0,
        list_at: 0,
        all: 0,
        ids_at: 0,
        sizes_at: 0,
        header_at: 0,
        data_at: 0,
        end: 0,
    };

    /// With so many bytes to write a header in; `None` if it cannot be counted.
    pub(super) fn of(sizes: &Sizes, rewrite: usize) -> Option<Layout> {
        let kids = u16::try_from(sizes.kids).ok().filter(|&kids| kids != NO_KID)?;
        let reply = sizes.caps.bytes().checked_next_multiple_of(8)?;
        let records = if sizes.collect { RECORDS } else { 1 };
        let kids_at = reply;
        let records_at = kids_at.checked_add(usize::from(kids) * KID)?;
        let park_at = records_at.checked_add(records * Record::BYTES)?;
        let parked = if sizes.parks { reply.checked_mul(usize::from(kids))? } else { 0 };
        let frames_at = park_at.checked_add(parked)?;
        let below_at = frames_at.checked_add(usize::from(sizes.frames).checked_mul(FRAME + reply)?)?;
        let list_at = below_at.checked_add(rewrite.checked_next_multiple_of(8)?)?;
        let Whole { start, len } = sizes.whole.unwrap_or(Whole { start: 0, len: sizes.list });
        let sizes_at = list_at.checked_add((len as usize).checked_mul(4)?)?;
        // It lies within the list, so this can be counted as well.
        let ids_at = list_at + start as usize * 4;
        let stated = if sizes.stated { sizes.list as usize * 4 } else { 0 };
        let header_at = sizes_at.checked_add(stated)?;
        let data_at = header_at.checked_add(sizes.header)?;
        let end = data_at.checked_add(sizes.data)?;
        Some(Layout {
            kids,
            parks: sizes.parks,
            stated: sizes.stated,
            members: sizes.list,
            kids_at: kids_at as u32,
            records_at: records_at as u32,
            park_at: park_at as u32,
            frames: sizes.frames,
            frames_at: frames_at as u32,
            replies_at: (frames_at + usize::from(sizes.frames) * FRAME) as u32,
            own_end: list_at as u32,
            rewrite: rewrite as u32,
            given: 0,
            list_at: list_at as u32,
            all: sizes.whole.map_or(0, |whole| whole.len),
            ids_at: ids_at as u32,
            sizes_at: sizes_at as u32,
            header_at: header_at as u32,
            data_at: data_at as u32,
            end: u32::try_from(end).ok()?,
        })
    }

    /// That of a child at the same place, which has this piece of the list and so many children; `None` if it cannot
    /// be counted.
    #[inline]
    pub(super) fn below(&self, piece: Piece, kids: u32, frames: u16) -> Option<Layout> {
        let kids = u16::try_from(kids).ok().filter(|&kids| kids != NO_KID)?;
        let records_at = self.kids_at.checked_add(u32::from(kids) * KID as u32)?;
        let park_at = records_at.checked_add(self.park_at - self.records_at)?;
        let parked = if self.parks { self.kids_at.checked_mul(u32::from(kids))? } else { 0 };
        let frames_at = park_at.checked_add(parked)?;
        let replies_at = frames_at.checked_add(u32::from(frames) * FRAME as u32)?;
        let below_at = replies_at.checked_add(u32::from(frames).checked_mul(self.kids_at)?)?;
        Some(Layout {
            kids,
            members: piece.len,
            records_at,
            park_at,
            frames,
            frames_at,
            replies_at,
            own_end: below_at.checked_add(self.rewrite.next_multiple_of(8))?,
            given: 0,
            ids_at: self.ids_at + 4 * piece.start,
            sizes_at: self.sizes_at + 4 * piece.start,
            ..*self
        })
    }

    /// With room for the header that its parent gives a member that lives with it; `None` if it cannot be counted.
    pub(super) fn with_given(self, header: usize) -> Option<Layout> {
        let given = u32::try_from(header).ok()?;
        Some(Layout { own_end: self.own_end.checked_add(given.checked_next_multiple_of(8)?)?, given, ..self })
    }

    /// Bytes to write a header for the children in; 0 if it is not replaced.
    #[inline]
    pub(super) const fn rewrite(&self) -> usize {
        self.rewrite as usize
    }

    /// Bytes of the header that a parent here has given.
    pub(super) const fn given(&self) -> usize {
        self.given as usize
    }

    /// Where the id of the member at this place of the list lies; `None` if there is no such place.
    #[inline]
    pub(super) const fn id_at(&self, place: u32) -> Option<usize> {
        if place < self.members { Some(self.ids_at as usize + 4 * place as usize) } else { None }
    }

    /// Where the part ends that lies in the call's own memory in any case; a multiple of eight.
    pub(super) const fn own_end(&self) -> usize {
        self.own_end as usize
    }

    pub(super) const fn records_max(&self) -> usize {
        (self.park_at - self.records_at) as usize / Record::BYTES
    }

    pub(super) const fn kids_range(&self) -> Range<usize> {
        self.kids_at as usize..self.records_at as usize
    }

    pub(super) const fn record_range(&self, at: u8) -> Range<usize> {
        let start = self.records_at as usize + at as usize * Record::BYTES;
        start..start + Record::BYTES
    }

    /// Where the reply of a child is parked, laid out as this call's own; empty if replies are not.
    pub(super) const fn park_range(&self, kid: u16) -> Range<usize> {
        let each = if self.parks { self.kids_at as usize } else { 0 };
        let start = self.park_at as usize + kid as usize * each;
        start..start + each
    }

    /// Where is kept how far the member of this level has come, above whom others are dealt with.
    #[inline]
    pub(super) const fn frame_range(&self, level: u16) -> Range<usize> {
        let start = self.frames_at as usize + level as usize * FRAME;
        start..start + FRAME
    }

    /// Where the reply of the member of this level lies: the call's own at level 0.
    #[inline]
    pub(super) const fn reply_range(&self, level: u16) -> Range<usize> {
        let Some(above) = level.checked_sub(1) else { return 0..self.reply_len() };
        let start = self.replies_at as usize + above as usize * self.reply_len();
        start..start + self.reply_len()
    }

    /// The ids of the subtree or of all members, and the sizes of a stated tree; of a whole request they follow one another.
    pub(super) const fn list_range(&self) -> Range<usize> {
        self.list_at as usize..self.header_at as usize
    }

    pub(super) const fn header_range(&self) -> Range<usize> {
        self.header_at as usize..self.data_at as usize
    }

    pub(super) const fn data_range(&self) -> Range<usize> {
        self.data_at as usize..self.end as usize
    }

    /// The names of so many who were left out, at the maker alone.
    pub(super) const fn skipped_range(&self, skipped: u32) -> Range<usize> {
        self.end as usize..self.end as usize + 4 * skipped as usize
    }

    pub(super) const fn reply_len(&self) -> usize {
        self.kids_at as usize
    }
}

/// Levels below a member of a subtree of so many, whose members could do their part in its place.
pub(super) fn frames(shape: Shape, stated: bool, len: u32, height: u8) -> u16 {
    frames_of(if stated { u32::from(height) } else { shape.depth(len) })
}

/// Those of so many levels that could; there are no classes for more than a byte counts.
pub(super) const fn frames_of(levels: u32) -> u16 {
    if levels > u8::MAX as u32 { 0 } else { levels as u16 }
}

/// What came with a request: the bytes from some place on of the memory that it came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) base: usize,
}

impl<'a> Came<'a> {
    #[inline]
    fn cut(&self, range: Range<usize>) -> &'a [u8] {
        // What begins before the base wraps around, and then lies nowhere.
        let from = range.start.wrapping_sub(self.base);
        self.bytes.get(from..from.wrapping_add(range.len())).unwrap_or(&[])
    }

    /// The members of the subtree.
    #[inline]
    pub(super) fn list(&self, layout: &Layout) -> List<'a> {
        let len = layout.members as usize * 4;
        let part = |at: u32| self.cut(at as usize..at as usize + len).as_chunks().0;
        List { ids: part(layout.ids_at), sizes: if layout.stated { part(layout.sizes_at) } else { &[] } }
    }

    /// All members of the call; none if they are not wanted.
    #[inline]
    pub(super) fn all(&self, layout: &Layout) -> &'a [[u8; 4]] {
        let start = layout.list_at as usize;
        if layout.all == 0 { &[] } else { self.cut(start..start + 4 * layout.all as usize).as_chunks().0 }
    }

    /// The list of a subtree as a request has it; `None` if it does not lie within this one.
    #[inline]
    pub(super) fn packed(&self, layout: &Layout, piece: Piece) -> Option<Packed<'a>> {
        let list = Packed::from(self.list(layout).piece(piece)?);
        if layout.all == 0 {
            return Some(list);
        }
        let start = (layout.ids_at - layout.list_at) / 4 + piece.start;
        let ids = Column::Words(self.all(layout));
        Some(Packed { whole: Some(Whole { start, len: layout.all }), ids, ..list })
    }

    /// The header and the data.
    #[inline]
    pub(super) fn header_and_data(&self, layout: &Layout) -> (&'a [u8], &'a [u8]) {
        let both = self.cut(layout.header_at as usize..layout.end as usize);
        both.split_at_checked((layout.data_at - layout.header_at) as usize).unwrap_or((&[], &[]))
    }

    #[inline]
    pub(super) fn header(&self, layout: &Layout) -> &'a [u8] {
        self.cut(layout.header_range())
    }

    #[inline]
    pub(super) fn data(&self, layout: &Layout) -> &'a [u8] {
        self.cut(layout.data_range())
    }
}
