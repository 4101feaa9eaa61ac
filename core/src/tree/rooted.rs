//! A tree over numbered members, rooted at any of them.

use super::shape::Shape;

/// The most children a member of a [`Tree`] may have.
pub const ARITY_MAX: u32 = 8;

/// A tree over members `0..len`; member `root` stands at position 0 of its shape, the others follow cyclically.
///
/// ```
/// use umbra_core::tree::Tree;
/// let tree = Tree::new(7, 5, 2).ok_or("no such tree")?;
/// assert_eq!(tree.parent(5), None);
/// assert_eq!(tree.children(5).collect::<Vec<_>>(), [6, 0]);
/// assert_eq!(tree.parent(0), Some(5));
/// assert_eq!(tree.depth(), 2);
/// # Ok::<(), &str>(())
/// ```
///
/// Which members are alive is the caller's business: number the live ones and ask again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tree {
    len: u32,
    root: u32,
    shape: Shape,
}

impl Tree {
    /// A tree of `len` members rooted at `root` with up to `arity` children each; `None` unless
    /// `root < len` and `1 <= arity <= ARITY_MAX`.
    #[must_use]
    pub const fn new(len: u32, root: u32, arity: u32) -> Option<Tree> {
        if arity > ARITY_MAX {
            return None;
        }
        match Shape::kary(arity as u8) {
            Some(shape) => Tree::shaped(len, root, shape),
            None => None,
        }
    }

    /// A tree of `len` members of any shape rooted at `root`; `None` unless `root < len`.
    #[must_use]
    pub const fn shaped(len: u32, root: u32, shape: Shape) -> Option<Tree> {
        if root < len { Some(Tree { len, root, shape }) } else { None }
    }

    /// How far `member` is behind the root in cyclic order; `None` if it is no member.
    #[must_use]
    pub const fn position(&self, member: u32) -> Option<u32> {
        if member >= self.len {
            None
        } else if member >= self.root {
            Some(member - self.root)
        } else {
            Some(self.len - self.root + member)
        }
    }

    const fn member(&self, position: u32) -> u32 {
        // Both are below `len`, so only the sum can pass 2^32.
        let room = self.len - self.root;
        if position < room { self.root + position } else { position - room }
    }

    /// The parent of `member`; `None` for the root and for strangers.
    #[must_use]
    pub const fn parent(&self, member: u32) -> Option<u32> {
        let Some(position) = self.position(member) else { return None };
        match self.shape.parent(position) {
            Some(parent) => Some(self.member(parent)),
            None => None,
        }
    }

    /// The children of `member` in ascending position; none for strangers.
    pub fn children(&self, member: u32) -> impl Iterator<Item = u32> + use<> {
        let tree = *self;
        let children = tree.shape.children(self.position(member).unwrap_or(u32::MAX), tree.len);
        children.map(move |position| tree.member(position))
    }

    /// Hops from the deepest member to the root.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.shape.depth(self.len)
    }
}
