//! Arithmetic trees: who is whose parent, how a preorder list falls into subtrees.
//!
//! Members stand at the positions `0..len`, the root at 0. Besides by position a tree can be walked as a *preorder
//! list*: then every subtree is a contiguous piece of it that begins with its own root, and the pieces of the children
//! follow one another. So [`split`](Shape::split), a function of the shape and a length alone, tells whoever holds a
//! piece who its children are and what is theirs; nobody needs the whole list.
//!
//! ```
//! use umbra_core::tree::Shape;
//! let list: Vec<u32> = Shape::BINARY.preorder(7).collect();
//! assert_eq!(list, [0, 1, 3, 4, 2, 5, 6]);
//! let pieces: Vec<_> = Shape::BINARY.split(7).map(|piece| &list[piece.range()]).collect();
//! assert_eq!(pieces, [[1, 3, 4], [2, 5, 6]]);
//! ```
//!
//! Cost: a few integer operations a member; no memory.

use core::ops::Range;

/// A kind of tree that is the same for everybody who knows how many members it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shape(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Kind {
    /// Position `p` has the children `k * p + 1 ..= k * p + k`.
    Kary(u8),
    /// The parent of `p` is `p` without its lowest digit to the base `k` that is not zero.
    Knomial(u8),
    /// Everybody is a child of the root.
    Flat,
}

/// The subtree of a child within a preorder list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where it begins; the child itself stands there.
    pub start: u32,
    /// Members in it; never zero.
    pub len: u32,
}

impl Piece {
    /// The places of its members.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

impl Shape {
    /// Two children each, all levels full but the last.
    pub const BINARY: Shape = Shape(Kind::Kary(2));
    /// One child each.
    pub const CHAIN: Shape = Shape(Kind::Kary(1));
    /// Subtrees of 1, 2, 4, 8, ... members below the root.
    pub const BINOMIAL: Shape = Shape(Kind::Knomial(2));
    /// Everybody below the root.
    pub const FLAT: Shape = Shape(Kind::Flat);

    /// `k` children each; `None` if `k` is zero.
    #[must_use]
    pub const fn kary(k: u8) -> Option<Shape> {
        if k >= 1 { Some(Shape(Kind::Kary(k))) } else { None }
    }

    /// `k - 1` subtrees of each power of `k` below the root; `None` if `k` is below two.
    #[must_use]
    pub const fn knomial(k: u8) -> Option<Shape> {
        if k >= 2 { Some(Shape(Kind::Knomial(k))) } else { None }
    }

    /// Kind and `k` as two bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 2] {
        match self.0 {
            Kind::Kary(k) => [0, k],
            Kind::Knomial(k) => [1, k],
            Kind::Flat => [2, 0],
        }
    }

    /// Reads the two bytes; `None` if they name no shape.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 2]) -> Option<Shape> {
        match bytes {
            [0, k] => Shape::kary(k),
            [1, k] => Shape::knomial(k),
            [2, 0] => Some(Shape::FLAT),
            _ => None,
        }
    }

    /// The parent of a position; `None` of the root.
    #[must_use]
    pub const fn parent(self, position: u32) -> Option<u32> {
        if position == 0 {
            return None;
        }
        Some(match self.0 {
            Kind::Kary(k) => (position - 1) / k as u32,
            Kind::Knomial(k) => {
                let unit = lowest_unit(position, k);
                (position as u64 - position as u64 / unit % k as u64 * unit) as u32
            }
            Kind::Flat => 0,
        })
    }

    /// The children of a position among `len` members, in ascending order.
    #[must_use]
    pub fn children(self, position: u32, len: u32) -> Children {
        let of = u64::from(position);
        let (base, digits, radix, limit) = match self.0 {
            Kind::Kary(k) => (of * u64::from(k), u64::from(k), u64::MAX, 2),
            Kind::Knomial(k) => (of, u64::from(k) - 1, u64::from(k), lowest_unit(position, k)),
            Kind::Flat => (0, if position == 0 { u64::MAX } else { 0 }, u64::MAX, 2),
        };
        let end = if position < len { u64::from(len) } else { 0 };
        Children { base, unit: 1, digit: 1, digits, radix, limit, end }
    }

    /// Levels below the root of a tree of `len` members.
    #[must_use]
    pub const fn depth(self, len: u32) -> u32 {
        let Some(last) = len.checked_sub(1) else { return 0 };
        match self.0 {
            Kind::Kary(1) => last,
            // The commonest tree without a division: rows end at 2^n - 1 members.
            Kind::Kary(2) => len.ilog2(),
            Kind::Kary(k) => {
                let (mut position, mut levels) = (last, 0);
                while position > 0 {
                    position = (position - 1) / k as u32;
                    levels += 1;
                }
                levels
            }
            // As many digits that are not zero as a position below `len` can have: it is deepest at 1, 11, 111, ...
            Kind::Knomial(k) => {
                let (mut ones, mut levels) = (1, 0);
                while ones <= last as u64 {
                    ones = ones * k as u64 + 1;
                    levels += 1;
                }
                levels
            }
            Kind::Flat => {
                if last > 0 {
                    1
                } else {
                    0
                }
            }
        }
    }

    /// The most children that a member of a tree of `len` members has; the root has as many.
    #[must_use]
    pub fn fan_out(self, len: u32) -> u32 {
        match self.0 {
            Kind::Kary(k) => u32::from(k).min(len.saturating_sub(1)),
            Kind::Knomial(_) => self.children(0, len).count() as u32,
            Kind::Flat => len.saturating_sub(1),
        }
    }

    /// The pieces of the children of the first member of a preorder list of `len` members, in order; none if the
    /// list is shorter than two.
    #[inline]
    #[must_use]
    pub fn split(self, len: u32) -> Split {
        let rest = len.saturating_sub(1);
        let (full, row, last) = match self.0 {
            Kind::Kary(k) => rows(u64::from(k), u64::from(len)),
            Kind::Knomial(_) => (0, 0, 0),
            Kind::Flat => (1, 0, 0),
        };
        let radix = if let Kind::Knomial(k) = self.0 { u64::from(k) } else { 0 };
        Split { at: 1, rest, full, row, last, radix, unit: 1, digit: 1 }
    }

    /// How long a piece of a [`split`](Self::split) is, by its place in it; without meaning if there is no such piece, and
    /// perhaps longer than what is left of the list if it is the last one.
    #[inline]
    #[must_use]
    pub const fn child_len(self, len: u32, at: u32) -> u32 {
        match self.0 {
            Kind::Kary(k) if at >= k as u32 - 1 => len,
            // The first half of the commonest tree.
            Kind::Kary(2) if len > 1 => {
                let half = 1 << (len.ilog2() - 1);
                let last = len - 2 * half + 1;
                half - 1 + if last < half { last } else { half }
            }
            Kind::Kary(k) => {
                let (full, row, last) = rows(k as u64, len as u64);
                let here = last.saturating_sub(row * at as u64);
                (full + if here < row { here } else { row }) as u32
            }
            Kind::Knomial(k) => (k as u32).saturating_pow(at / (k as u32 - 1)),
            Kind::Flat => 1,
        }
    }

    /// The positions `0..len` in preorder; [`split`](Self::split) tells the subtrees of such a list.
    #[must_use]
    pub const fn preorder(self, len: u32) -> Preorder {
        let k = match self.0 {
            Kind::Kary(k) => k as u64,
            // Subtrees are contiguous by position already.
            Kind::Knomial(_) | Kind::Flat => 1,
        };
        Preorder { next: if len > 0 { 1 } else { 0 }, k, len: len as u64 }
    }

    /// Whether the largest subtree is the last of a split.
    #[must_use]
    pub const fn grows(self) -> bool {
        matches!(self.0, Kind::Knomial(_))
    }
}

/// The weight of the lowest digit of `position` to the base `k` that is not zero; more than any weight of zero.
const fn lowest_unit(position: u32, k: u8) -> u64 {
    if position == 0 {
        return u64::MAX;
    }
    let mut unit = 1;
    while (position as u64 / unit).is_multiple_of(k as u64) {
        unit *= k as u64;
    }
    unit
}

/// Of the subtrees below the root of a k-ary tree: members above the last row, room in the last row, and the members
/// in the last row of all of them together.
const fn rows(k: u64, len: u64) -> (u64, u64, u64) {
    if k == 1 {
        return (len.saturating_sub(1), 0, 0);
    }
    if k == 2 && len > 1 {
        let half = 1 << (len.ilog2() - 1);
        return (half - 1, half, len + 1 - 2 * half);
    }
    // `above` members stand in the full rows, `row` would fill the next one.
    let (mut above, mut row, mut full) = (1, k, 0);
    while above + row < len {
        full = full * k + 1;
        above += row;
        row *= k;
    }
    (full, row / k, len.saturating_sub(above))
}

/// Children of a position; see [`Shape::children`].
#[derive(Clone, Debug)]
pub struct Children {
    base: u64,
    unit: u64,
    digit: u64,
    digits: u64,
    radix: u64,
    limit: u64,
    end: u64,
}

impl Iterator for Children {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.digit > self.digits {
            self.unit = self.unit.checked_mul(self.radix)?;
            self.digit = 1;
        }
        if self.unit >= self.limit || self.digits == 0 {
            return None;
        }
        let child = self.digit.checked_mul(self.unit)?.checked_add(self.base).filter(|&child| child < self.end)?;
        self.digit += 1;
        Some(child as u32)
    }
}

/// Pieces of a preorder list; see [`Shape::split`].
#[derive(Clone, Debug)]
pub struct Split {
    at: u32,
    rest: u32,
    full: u64,
    row: u64,
    last: u64,
    /// Zero unless subtrees grow by powers of it.
    radix: u64,
    unit: u64,
    digit: u64,
}

impl Iterator for Split {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.rest == 0 {
            return None;
        }
        let len = if self.radix > 0 {
            if self.digit == self.radix {
                (self.unit, self.digit) = (self.unit * self.radix, 1);
            }
            self.digit += 1;
            self.unit
        } else {
            let here = self.last.min(self.row);
            self.last -= here;
            self.full + here
        };
        // What is left is all there is; a piece is never empty, since `rest` is not zero.
        let len = len.min(u64::from(self.rest)).max(1) as u32;
        let piece = Piece { start: self.at, len };
        self.at += len;
        self.rest -= len;
        Some(piece)
    }
}

/// Positions in preorder; see [`Shape::preorder`].
#[derive(Clone, Debug)]
pub struct Preorder {
    /// The next position and one, as heaps count; zero after the last.
    next: u64,
    k: u64,
    len: u64,
}

impl Preorder {
    /// What follows a position all of whose children there are have been passed.
    #[inline]
    const fn after(&self, mut from: u64) -> u64 {
        if self.k == 1 {
            return 0;
        }
        if self.k == 2 {
            // Up from all second children at once.
            from >>= from.trailing_ones();
        }
        while from > 1 {
            // The commonest tree without a division.
            let (is_last, above) = match self.k {
                2 => (from & 1 == 1, from >> 1),
                k => ((from - 1).is_multiple_of(k), (from - 2) / k + 1),
            };
            if !is_last && from < self.len {
                return from + 1;
            }
            from = above;
        }
        0
    }
}

impl Iterator for Preorder {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let here = self.next;
        let position = here.checked_sub(1)?;
        let first = here * self.k + 2 - self.k;
        self.next = if first <= self.len { first } else { self.after(here) };
        Some(position as u32)
    }

    #[inline]
    fn fold<B, F: FnMut(B, u32) -> B>(self, first: B, mut each: F) -> B {
        #[inline(always)]
        fn all<B>(rest: Preorder, first: B, mut each: impl FnMut(B, u32) -> B) -> B {
            let mut so_far = first;
            for position in rest {
                so_far = each(so_far, position);
            }
            so_far
        }
        // Whoever knows the commonest tree while compiling asks nothing about it for every member.
        if self.k == 2 { all(Preorder { k: 2, ..self }, first, &mut each) } else { all(self, first, each) }
    }
}
