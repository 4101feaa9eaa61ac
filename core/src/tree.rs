//! Parent and children in a k-ary tree, rooted at any member.
//!
//! Members are numbered `0..len`; member `root` gets position 0, the others follow cyclically, and
//! position `p` has the children `k * p + 1 ..= k * p + k`. Nothing is stored: who is whose parent is
//! arithmetic, so every process that agrees on `len` and `root` agrees on the tree.
//!
//! ```
//! use umbra_core::tree::Tree;
//! let tree = Tree::new(7, 5, 2).ok_or("no such tree")?;
//! assert_eq!(tree.parent(5), None);
//! assert_eq!(tree.children(5).collect::<Vec<_>>(), [6, 0]);
//! assert_eq!(tree.parent(0), Some(5));
//! assert_eq!(tree.depth(), 2);
//! # Ok::<(), &str>(())
//! ```
//!
//! Which members are alive is the caller's business: number the live ones and ask again.
//! Cost: a few integer operations; no memory.

/// The most children a member may have.
pub const ARITY_MAX: u32 = 8;

/// A k-ary tree over members `0..len`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tree {
    len: u32,
    root: u32,
    arity: u32,
}

impl Tree {
    /// A tree of `len` members rooted at `root` with up to `arity` children each; `None` unless
    /// `root < len` and `1 <= arity <= ARITY_MAX`.
    #[must_use]
    pub const fn new(len: u32, root: u32, arity: u32) -> Option<Tree> {
        if root < len && arity >= 1 && arity <= ARITY_MAX { Some(Tree { len, root, arity }) } else { None }
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
        match self.position(member) {
            None | Some(0) => None,
            Some(position) => Some(self.member((position - 1) / self.arity)),
        }
    }

    /// The children of `member` in ascending position; none for strangers.
    pub fn children(&self, member: u32) -> impl Iterator<Item = u32> + use<> {
        let tree = *self;
        let first = self.position(member).map_or(u64::MAX, |p| u64::from(p) * u64::from(self.arity) + 1);
        let last = first.saturating_add(u64::from(self.arity)).min(u64::from(self.len));
        (first.min(last)..last).map(move |position| tree.member(position as u32))
    }

    /// Hops from the deepest member to the root.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        let mut position = self.len - 1;
        let mut hops = 0;
        while position > 0 {
            position = (position - 1) / self.arity;
            hops += 1;
        }
        hops
    }
}
