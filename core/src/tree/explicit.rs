//! Trees that somebody states, checked and laid out in preorder.
//!
//! A stated tree is an array of parents over the positions `0..n`: [`ROOT`] at position 0 and nowhere else. It can be
//! filled by hand, from a list of edges ([`from_edges`]) or by a function ([`from_function`]). [`lay_out`] checks it
//! and writes the preorder list and the size of every subtree, which is all that a member needs to find its children.
//!
//! ```
//! use umbra_core::tree::explicit::{self, Reason, ROOT};
//! let (mut order, mut sizes, mut links) = ([0; 4], [0; 4], [0; 8]);
//! let comb = [ROOT, 0, 0, 2];
//! let layout = explicit::lay_out(&comb, &mut order, &mut sizes, &mut links)?;
//! assert_eq!((order, sizes), ([0, 1, 2, 3], [4, 1, 2, 1]));
//! assert_eq!((layout.height, layout.fan_out), (2, 2));
//! let cycle = explicit::lay_out(&[ROOT, 2, 1, 0], &mut order, &mut sizes, &mut links);
//! assert_eq!(cycle.map_err(|bad| (bad.index, bad.reason)), Err((1, Reason::Cycle)));
//! # Ok::<(), explicit::BadTree>(())
//! ```
//!
//! Cost: O(n) time, in lent memory only.

use core::fmt;

/// In place of the root's parent.
pub const ROOT: u32 = u32::MAX;

const NONE: u32 = u32::MAX;

/// What is wrong with a stated tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Reason {
    /// Its parents lead back to it.
    Cycle,
    /// It has two parents.
    TwoParents,
    /// It, or its parent, is no position of the list.
    Range,
    /// It has no parent and is not position 0.
    SecondRoot,
    /// No path leads to it from position 0.
    Unreachable,
    /// The lent memory holds fewer positions.
    NoRoom,
}

/// A stated tree is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BadTree {
    /// The position where it shows.
    pub index: u32,
    /// What is wrong there.
    pub reason: Reason,
}

impl fmt::Display for BadTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            Reason::Cycle => "is its own ancestor",
            Reason::TwoParents => "has two parents",
            Reason::Range => "or its parent is no position of the list",
            Reason::SecondRoot => "has no parent, but the root is position 0",
            Reason::Unreachable => "cannot be reached from position 0",
            Reason::NoRoom => "has no room: lend memory for every position",
        };
        write!(f, "position {} of the tree {what}", self.index)
    }
}
impl core::error::Error for BadTree {}

const fn bad(index: u32, reason: Reason) -> BadTree {
    BadTree { index, reason }
}

/// What a stated tree measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Levels below the root.
    pub height: u32,
    /// The most children of one member.
    pub fan_out: u32,
}

/// Fills the parents of `parents.len()` positions from pairs of parent and child.
///
/// # Errors
/// [`BadTree`]: a position out of range, with two parents, or with none.
pub fn from_edges(edges: impl IntoIterator<Item = (u32, u32)>, parents: &mut [u32]) -> Result<(), BadTree> {
    parents.fill(NONE);
    let len = parents.len();
    for (parent, child) in edges {
        if parent as usize >= len {
            return Err(bad(child, Reason::Range));
        }
        match parents.get_mut(child as usize) {
            None => return Err(bad(child, Reason::Range)),
            Some(_) if child == 0 => return Err(bad(0, Reason::Cycle)),
            Some(place) if *place != NONE => return Err(bad(child, Reason::TwoParents)),
            Some(place) => *place = parent,
        }
    }
    match (0..).zip(parents.iter()).skip(1).find(|&(_, &parent)| parent == NONE) {
        Some((index, _)) => Err(bad(index, Reason::Unreachable)),
        None => Ok(()),
    }
}

/// Fills the parents of `parents.len()` positions by asking for each; only here is the function ever called.
pub fn from_function(parent_of: impl Fn(u32) -> Option<u32>, parents: &mut [u32]) {
    for (index, parent) in (0..).zip(parents) {
        *parent = parent_of(index).unwrap_or(ROOT);
    }
}

/// Checks a tree, and writes the positions in preorder to `order` and the size of the subtree that begins at each
/// place of it to `sizes`. Children come in ascending position. `links` is memory to work in, two words a position.
///
/// # Errors
/// [`BadTree`]; what was written then means nothing.
pub fn lay_out(parents: &[u32], order: &mut [u32], sizes: &mut [u32], links: &mut [u32]) -> Result<Layout, BadTree> {
    let count = u32::try_from(parents.len()).map_err(|_| bad(u32::MAX, Reason::NoRoom))?;
    let len = parents.len();
    let room = order.len().min(sizes.len()).min(links.len() / 2);
    if room < len {
        return Err(bad(room as u32, Reason::NoRoom));
    }
    if len == 0 {
        return Ok(Layout { height: 0, fan_out: 0 });
    }
    let (first, next) = links.split_at_mut(len);
    let fan_out = link(parents, count, first, next, sizes)?;
    // On entering a member its first child is left for, so its word can hold its place from then on.
    let (mut here, mut entered, mut depth, mut height) = (0u32, 0u32, 0, 0);
    loop {
        let at = here as usize;
        order[entered as usize] = here;
        let child = core::mem::replace(&mut first[at], entered);
        entered += 1;
        if child != NONE {
            here = child;
            depth += 1;
            height = depth.max(height);
            continue;
        }
        loop {
            let place = first[here as usize];
            sizes[place as usize] = entered - place;
            if here == 0 {
                return if entered == count {
                    Ok(Layout { height, fan_out })
                } else {
                    Err(lost(parents, order, entered))
                };
            }
            if next[here as usize] != NONE {
                here = next[here as usize];
                break;
            }
            here = parents[here as usize];
            depth -= 1;
        }
    }
}

/// Strings every member's children together, in ascending order; the most children of one.
fn link(parents: &[u32], count: u32, first: &mut [u32], next: &mut [u32], counts: &mut [u32]) -> Result<u32, BadTree> {
    first.fill(NONE);
    next[..parents.len()].fill(NONE);
    counts[..parents.len()].fill(0);
    let mut fan_out = 0;
    if parents[0] != ROOT {
        return Err(bad(0, if parents[0] < count { Reason::Cycle } else { Reason::Range }));
    }
    for index in (1..count).rev() {
        let parent = parents[index as usize];
        if parent == ROOT {
            return Err(bad(index, Reason::SecondRoot));
        }
        if parent >= count {
            return Err(bad(index, Reason::Range));
        }
        next[index as usize] = core::mem::replace(&mut first[parent as usize], index);
        counts[parent as usize] += 1;
        fan_out = counts[parent as usize].max(fan_out);
    }
    Ok(fan_out)
}

/// Names the first position that was not entered. Everybody has a parent, so it is on a cycle or hangs from one.
fn lost(parents: &[u32], order: &mut [u32], entered: u32) -> BadTree {
    let (seen, _) = order.split_at_mut(entered as usize);
    seen.sort_unstable();
    let index =
        (0..).zip(seen.iter()).find(|&(index, &position)| index != position).map_or(entered, |(index, _)| index);
    let mut above = parents[index as usize];
    for _ in 0..parents.len() {
        if above == index {
            return bad(index, Reason::Cycle);
        }
        above = parents.get(above as usize).copied().unwrap_or(index);
    }
    bad(index, Reason::Unreachable)
}
