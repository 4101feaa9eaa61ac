//! Which runs of units are taken: a buddy system, one compare-and-swap a step.
//!
//! A run is `2^order` units at a multiple of its length. The tree has eight children a node, so three orders a level:
//! a run is one, two or four children of one node, and taking it is one compare-and-swap of that node's word. A word
//! holds the state of the eight children (3 bits each) and a version (40 bits) that every change moves on.
//!
//! A child is free, taken (the first of a run, or the rest of one), or split: then its own word says what is free. As
//! long as it is not split its word is *closed*, and nothing can be taken in it. To split is to mark the child, and
//! then to open its word; to merge is to mark the child as merging, to close its word if all is free in it, and then to
//! mark the child as free, or as split if something was not. Any process can do the next step of any other: who dies or
//! sleeps in between holds nobody up. The opener looks at the parent again after he read the closed word; the merger
//! moves the version of a word on that he finds closed. So of an opener and a merger at the same child one fails.
//!
//! Freed runs are merged when a longer one is looked for in vain, not before.
//!
//! Source: Marotta et al., "NBBS: a non-blocking buddy system for multi-core machines", IEEE CLUSTER 2018: levels of
//! the tree packed into words, one compare-and-swap a word. Ours marks no ancestors on the way up: a split child says
//! enough. So nothing has to be undone for somebody who died.
//!
//! *Cost*: taking is one compare-and-swap beside others' runs and two more a level that is split; a search in vain
//! looks at each word down to the level of the run.

use crate::atomic::{AtomicU64, Ordering};

/// Children of a node.
const CHILDREN: u32 = 8;
/// Orders of a level.
const ORDERS: u32 = 3;
/// Most levels: 8^8 units.
const LEVELS: usize = 8;
/// Bits of a child's state.
const BITS: u32 = 3;
const STATES: u64 = (1 << (BITS * CHILDREN)) - 1;
const VERSION: u32 = BITS * CHILDREN;
/// Attempts at one word in which others may be faster.
const ATTEMPTS: u32 = 1 << 12;

const FREE: u64 = 0;
const SPLIT: u64 = 1;
const MERGING: u64 = 2;
const FIRST: u64 = 3;
const REST: u64 = 4;
/// Beyond the last unit.
const MISSING: u64 = 5;
/// The states of a word whose node is not split.
const CLOSED: u64 = STATES;

/// The states of the children of one node, and the version.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Node(u64);

impl Node {
    const fn child(self, child: u32) -> u64 {
        self.0 >> (child * BITS) & ((1 << BITS) - 1)
    }
    const fn states(self) -> u64 {
        self.0 & STATES
    }
    const fn is_closed(self) -> bool {
        self.states() == CLOSED
    }
    /// In its next version, with these states.
    const fn next(self, states: u64) -> Node {
        Node(((self.0 >> VERSION) + 1) << VERSION | states)
    }
    const fn with(self, child: u32, state: u64) -> Node {
        let shift = child * BITS;
        self.next(self.states() & !(((1 << BITS) - 1) << shift) | state << shift)
    }
    /// The states of a run, shifted to its first child.
    const fn run(first: u32, width: u32) -> u64 {
        let mut states = FIRST;
        let mut child = 1;
        while child < width {
            states |= REST << (child * BITS);
            child += 1;
        }
        states << (first * BITS)
    }
    /// The bits of the states of so many children.
    const fn mask(first: u32, width: u32) -> u64 {
        ((1 << (width * BITS)) - 1) << (first * BITS)
    }
    /// Whether exactly this run is taken.
    const fn has(self, first: u32, width: u32) -> bool {
        let ends = first + width >= CHILDREN || self.child(first + width) != REST;
        self.0 & Self::mask(first, width) == Self::run(first, width) && ends && !self.is_closed()
    }
}

/// A node: its level, from the leaves up, and its number on that level.
type At = (u32, u32);

#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    levels: [&'a [AtomicU64]; LEVELS],
    height: u32,
    units: u32,
}

/// Words of each level, leaves first.
fn sizes(units: u32) -> impl Iterator<Item = usize> {
    // The run of all units, or the longest that is a power of two, has a node above it.
    let height = (1..).take_while(|&level| level <= LEVELS as u32 && 8_u64.pow(level - 1) <= u64::from(units)).count();
    (1..=height as u32).map(move |level| u64::from(units).div_ceil(8_u64.pow(level)) as usize)
}

pub(super) fn words_for(units: u32) -> usize {
    sizes(units).sum()
}

impl<'a> Tree<'a> {
    /// Over [`words_for`] words; `None` if they are fewer, or for no unit.
    pub(super) fn new(mut words: &'a [AtomicU64], units: u32) -> Option<Self> {
        let mut levels = [&words[..0]; LEVELS];
        let mut height = 0;
        for size in sizes(units) {
            let (level, rest) = words.split_at_checked(size)?;
            *levels.get_mut(height as usize)? = level;
            (words, height) = (rest, height + 1);
        }
        (units > 0).then_some(Tree { levels, height, units })
    }

    /// Frees all units; nobody may use the tree meanwhile.
    pub(super) fn clear(&self) {
        for level in 0..self.height {
            for (number, word) in (0..).zip(self.levels[level as usize]) {
                let state = |child: u32| {
                    let first = u64::from(number * CHILDREN + child) << (ORDERS * level);
                    let end = first + (1 << (ORDERS * level));
                    match u64::from(self.units) {
                        units if first >= units => MISSING,
                        units if end > units => SPLIT,
                        _ => FREE,
                    }
                };
                let states = (0..CHILDREN).fold(0, |states, child| states | state(child) << (child * BITS));
                // Only the top, and what reaches beyond the last unit, is split from the beginning.
                let is_open = states != 0 || level + 1 == self.height;
                word.store(if is_open { states } else { CLOSED }, Ordering::Relaxed);
            }
        }
    }

    /// The longest run that there can be.
    pub(super) const fn longest(&self) -> u32 {
        self.units.ilog2()
    }

    fn word(&self, (level, number): At) -> Option<&'a AtomicU64> {
        self.levels.get(level as usize)?.get(number as usize)
    }

    fn load(&self, at: At) -> Option<Node> {
        // ORDERING: acquire pairs with `swap`: what was done before a state was set is seen by who sees the state.
        Some(Node(self.word(at)?.load(Ordering::Acquire)))
    }

    fn swap(&self, at: At, from: Node, to: Node) -> bool {
        let swapped = |word: &AtomicU64| word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
        self.word(at).is_some_and(|word| swapped(word).is_ok())
    }

    const fn below((level, number): At, child: u32) -> At {
        (level.wrapping_sub(1), number.wrapping_mul(CHILDREN).wrapping_add(child))
    }

    /// The node, child and number of children that a run is.
    const fn place(first: u32, order: u32) -> (At, u32, u32) {
        let level = order / ORDERS;
        let child = (first as u64 >> (ORDERS * level)) as u32;
        ((level, child / CHILDREN), child % CHILDREN, 1 << (order % ORDERS))
    }

    /// Takes a run, and says where it begins. `claim` is told where that would be, and may refuse; `disclaim` is told
    /// that it came to nothing.
    pub(super) fn take(&self, order: u32, claim: impl Fn(u32) -> bool, disclaim: impl Fn(u32)) -> Option<u32> {
        if order > self.longest() {
            return None;
        }
        let search = Search { order, claim, disclaim };
        let top = (self.height.wrapping_sub(1), 0);
        self.search(top, &search).or_else(|| {
            self.tidy(top);
            self.search(top, &search)
        })
    }

    fn search<C: Fn(u32) -> bool, D: Fn(u32)>(&self, at: At, search: &Search<C, D>) -> Option<u32> {
        if at.0 == search.order / ORDERS {
            return self.search_here(at, search);
        }
        // First where something is taken already, so that long runs stay whole.
        for child in 0..CHILDREN {
            match self.load(at)?.child(child) {
                MERGING => {
                    self.merge(at, child);
                }
                SPLIT => {}
                _ => continue,
            }
            if self.open(at, child)
                && let Some(found) = self.search(Self::below(at, child), search)
            {
                return Some(found);
            }
        }
        for child in 0..CHILDREN {
            let mut attempts = 0;
            let mut node = self.load(at)?;
            while node.child(child) == FREE && attempts < ATTEMPTS {
                if self.swap(at, node, node.with(child, SPLIT)) {
                    if self.open(at, child)
                        && let Some(found) = self.search(Self::below(at, child), search)
                    {
                        return Some(found);
                    }
                    break;
                }
                (node, attempts) = (self.load(at)?, attempts + 1);
            }
        }
        None
    }

    fn search_here<C: Fn(u32) -> bool, D: Fn(u32)>(&self, at: At, search: &Search<C, D>) -> Option<u32> {
        let width = 1_u32 << (search.order % ORDERS);
        let mut refused = 0_u32;
        for _ in 0..ATTEMPTS {
            let node = self.load(at)?;
            let is_free = |first: u32| node.0 & Node::mask(first, width) == 0 && refused >> first & 1 == 0;
            let child = (0..CHILDREN).step_by(width as usize).find(|&first| is_free(first))?;
            let first = (at.1 * CHILDREN + child) << (ORDERS * at.0);
            if !(search.claim)(first) {
                refused |= 1 << child;
                continue;
            }
            if self.swap(at, node, node.next(node.states() | Node::run(child, width))) {
                return Some(first);
            }
            (search.disclaim)(first);
        }
        None
    }

    /// Frees a run; false if exactly this one was not taken. Nobody else may free the same.
    pub(super) fn release(&self, first: u32, order: u32) -> bool {
        let (at, child, width) = Self::place(first, order);
        for _ in 0..ATTEMPTS {
            let Some(node) = self.load(at).filter(|node| node.has(child, width)) else { return false };
            if self.swap(at, node, node.next(node.states() & !Node::mask(child, width))) {
                return true;
            }
        }
        false
    }

    /// Opens the word of a child if it is split; false if it is not.
    fn open(&self, at: At, child: u32) -> bool {
        let below = Self::below(at, child);
        for _ in 0..ATTEMPTS {
            let (Some(node), Some(inner)) = (self.load(at), self.load(below)) else { return false };
            if node.child(child) != SPLIT {
                return false;
            }
            if !inner.is_closed() {
                return true;
            }
            // The parent again: a merger that came meanwhile has moved the version of the closed word on, or will.
            if self.load(at) == Some(node) && self.swap(below, inner, inner.next(FREE)) {
                return true;
            }
        }
        false
    }

    /// Makes a child whole if all is free in it.
    fn merge(&self, at: At, child: u32) -> bool {
        let below = Self::below(at, child);
        for _ in 0..ATTEMPTS {
            let (Some(node), Some(inner)) = (self.load(at), self.load(below)) else { return false };
            let is_idle = inner.states() == FREE || inner.is_closed();
            match node.child(child) {
                SPLIT if is_idle => {
                    self.swap(at, node, node.with(child, MERGING));
                }
                MERGING if is_idle => {
                    if self.swap(below, inner, inner.next(CLOSED)) && self.swap(at, node, node.with(child, FREE)) {
                        return true;
                    }
                }
                MERGING => {
                    if self.swap(at, node, node.with(child, SPLIT)) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        false
    }

    /// Merges all that can be merged below a node.
    fn tidy(&self, at: At) {
        for child in (0..CHILDREN).filter(|_| at.0 > 0) {
            if self.load(at).is_some_and(|node| matches!(node.child(child), SPLIT | MERGING)) {
                self.tidy(Self::below(at, child));
                self.merge(at, child);
            }
        }
    }

    /// Free units, and the order of the longest free run, as far as that can be told beside others.
    pub(super) fn free(&self) -> (u64, Option<u32>) {
        let (units, longest, _) = self.free_below((self.height.wrapping_sub(1), 0));
        (units, longest)
    }

    /// Free units, longest free run, and whether all is free.
    fn free_below(&self, at: At) -> (u64, Option<u32>, bool) {
        let Some(node) = self.load(at) else { return (0, None, false) };
        let whole = 1_u64 << (ORDERS * at.0);
        // Split, but not opened yet.
        if node.is_closed() {
            return (whole * u64::from(CHILDREN), None, true);
        }
        let (mut units, mut longest, mut free) = (0, None, 0_u32);
        for child in 0..CHILDREN {
            let (inner, within, is_whole) = match node.child(child) {
                FREE => (whole, Some(ORDERS * at.0), true),
                SPLIT | MERGING if at.0 > 0 => self.free_below(Self::below(at, child)),
                _ => (0, None, false),
            };
            units += inner;
            longest = longest.max(if is_whole { Some(ORDERS * at.0) } else { within });
            free |= u32::from(is_whole) << child;
        }
        for (power, width) in [(1, 2_u32), (2, 4)] {
            let runs = (0..CHILDREN).step_by(width as usize).map(|first| ((1 << width) - 1) << first);
            if { runs }.any(|run| free & run == run) {
                longest = longest.max(Some(ORDERS * at.0 + power));
            }
        }
        (units, longest, free == (1 << CHILDREN) - 1)
    }
}

struct Search<C, D> {
    order: u32,
    claim: C,
    disclaim: D,
}
