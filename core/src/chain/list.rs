//! The list of a call: as its memory has it, and as a request has it.

use super::column::Column;
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

/// A list as a request has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packed<'a> {
    pub(super) len: u32,
    pub(super) ids: Column<'a, 1>,
    /// The sizes of a stated tree.
    pub(super) sizes: Option<Column<'a, 0>>,
}

impl<'a> Packed<'a> {
    pub(super) fn parse(from: &mut Reader<'a>, len: u32, is_stated: bool, runs: [u16; 2]) -> Option<Packed<'a>> {
        let ids = Column::parse(from, len, runs[0])?;
        let sizes = match is_stated {
            false if runs[1] != 0 => return None,
            false => None,
            true => Some(Column::parse(from, len, runs[1])?),
        };
        Some(Packed { len, ids, sizes })
    }

    /// Writes ids and sizes; how many runs each of them has.
    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<[u16; 2], Short> {
        Ok([self.ids.emit(to)?, self.sizes.map_or(Ok(0), |sizes| sizes.emit(to))?])
    }

    /// The most bytes of any piece of it in a request.
    pub(super) fn most(&self) -> usize {
        self.ids.most(self.len) + self.sizes.map_or(0, |sizes| sizes.most(self.len))
    }
}

impl<'a> From<List<'a>> for Packed<'a> {
    #[inline]
    fn from(list: List<'a>) -> Packed<'a> {
        let sizes = list.is_stated().then_some(Column::Words(list.sizes));
        Packed { len: list.len(), ids: Column::Words(list.ids), sizes }
    }
}
