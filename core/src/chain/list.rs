//! The list of a call: as its memory has it, and as a request has it.

use super::column::Column;
use super::mode::Mode;
use super::name::Node;
use crate::codec::{Reader, Short, Writer};
use crate::tree::Piece;

/// A preorder list of members, with the sizes of their subtrees if no shape tells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List<'a> {
    pub(super) ids: &'a [[u8; 4]],
    /// As many, or none.
    pub(super) sizes: &'a [[u8; 4]],
}

impl<'a> List<'a> {
    pub(super) const fn len(&self) -> u32 {
        self.ids.len() as u32
    }

    pub(super) const fn is_stated(&self) -> bool {
        !self.sizes.is_empty()
    }

    #[inline]
    pub(super) fn id(&self, at: u32) -> Option<Node> {
        self.ids.get(at as usize).map(|&id| Node(u32::from_le_bytes(id)))
    }

    pub(super) fn members(self) -> impl Iterator<Item = Node> + use<'a> {
        self.ids.iter().map(|&id| Node(u32::from_le_bytes(id)))
    }

    #[inline]
    pub(super) fn size(&self, at: u32) -> Option<u32> {
        self.sizes.get(at as usize).map(|&size| u32::from_le_bytes(size))
    }

    /// The ids of a subtree; `None` if it does not lie within this list.
    #[inline]
    pub(super) fn ids_of(&self, piece: Piece) -> Option<&'a [[u8; 4]]> {
        self.ids.get(piece.start as usize..piece.start as usize + piece.len as usize)
    }

    /// The list of a subtree; `None` if it does not lie within this one.
    pub(super) fn piece(&self, piece: Piece) -> Option<List<'a>> {
        let range = piece.start as usize..piece.start as usize + piece.len as usize;
        let sizes = if self.is_stated() { self.sizes.get(range)? } else { &[] };
        Some(List { ids: self.ids_of(piece)?, sizes })
    }
}

/// Where members begin in the list of the call, and how many that has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whole {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Whole {
    /// Of so many members; `None` if they are not all in it, or the maker is among them: he stands first, and is below nobody.
    fn parse(from: &mut Reader<'_>, members: u32) -> Option<Whole> {
        let whole = Whole { start: from.u32().ok()?, len: from.u32().ok()? };
        let end = whole.start.checked_add(members)?;
        (whole.start > 0 && end <= whole.len).then_some(whole)
    }
}

/// What a request says of its list, and that it says nothing else.
const STATED: u8 = 1;
const WHOLE: u8 = Mode::FULL_LIST.beside();
const ALL: u8 = STATED | Mode::all().beside();
const _: () = assert!(STATED & Mode::all().beside() == 0);

/// A list as a request has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packed<'a> {
    /// Members of the subtree.
    pub(super) len: u32,
    /// If all members of the call are in the request, these are here.
    pub(super) whole: Option<Whole>,
    pub(super) ids: Column<'a, 1>,
    /// The sizes of a stated tree.
    pub(super) sizes: Option<Column<'a, 0>>,
}

impl<'a> Packed<'a> {
    /// Bytes in front of the names of all members.
    pub(super) const AHEAD: usize = 8;

    /// What the byte of a request says of its list, beside what its [mode](Mode::beside) says.
    pub(super) fn kind(&self) -> u8 {
        u8::from(self.sizes.is_some()) * STATED
    }

    #[inline]
    pub(super) fn parse(from: &mut Reader<'a>, len: u32, kind: u8, runs: [u16; 2]) -> Option<Packed<'a>> {
        if kind & !ALL != 0 {
            return None;
        }
        let whole = if kind & WHOLE == 0 { None } else { Some(Whole::parse(from, len)?) };
        let ids = Column::parse(from, whole.map_or(len, |whole| whole.len), runs[0])?;
        let sizes = match kind & STATED != 0 {
            false if runs[1] != 0 => return None,
            false => None,
            true => Some(Column::parse(from, len, runs[1])?),
        };
        Some(Packed { len, whole, ids, sizes })
    }

    /// Writes where the members begin, ids and sizes; how many runs each of the latter has.
    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<[u16; 2], Short> {
        if let Some(Whole { start, len }) = self.whole {
            to.u32(start)?;
            to.u32(len)?;
        }
        Ok([self.ids.emit(to)?, self.sizes.map_or(Ok(0), |sizes| sizes.emit(to))?])
    }

    /// The most bytes of any piece of it in a request.
    pub(super) fn most(&self) -> usize {
        let ahead = if self.whole.is_some() { Packed::AHEAD } else { 0 };
        ahead + self.ids.most(self.listed()) + self.sizes.map_or(0, |sizes| sizes.most(self.len))
    }

    /// How many ids there are.
    pub(super) fn listed(&self) -> u32 {
        self.whole.map_or(self.len, |whole| whole.len)
    }

    /// The first member of the subtree.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        match self.whole {
            None => self.ids.first(),
            Some(whole) => self.ids.finder()(whole.start),
        }
    }

    /// Whether it is one of a call that this member makes, as far as it tells.
    pub(super) fn may_be_of(&self, root: Node) -> bool {
        self.whole.is_none() || self.ids.first() == Some(root.0)
    }
}

impl<'a> From<List<'a>> for Packed<'a> {
    #[inline]
    fn from(list: List<'a>) -> Packed<'a> {
        let sizes = list.is_stated().then_some(Column::Words(list.sizes));
        Packed { len: list.len(), whole: None, ids: Column::Words(list.ids), sizes }
    }
}
