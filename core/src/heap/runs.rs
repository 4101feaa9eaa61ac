//! Runs of units, and whose each of them is.
//!
//! Beside the tree there is a word a unit: the *tag* of the run that begins there. Who wants a run first claims the tag
//! of its first unit, by a compare-and-swap that names him, and takes the run in the tree then; who frees it gives back
//! the tag last. Only the holder of a tag takes or frees a run that begins there, so a tag and the tree together tell of
//! one that died whether it had taken the run, and nothing is taken without a name.

use crate::atomic::{AtomicU64, Ordering};

use super::tree::Tree;

/// State of a tag, in its lowest bits: somebody is about to take the run.
const TAKING: u64 = 1;
/// The run is taken, and whoever it is for names it.
const HELD: u64 = 2;
/// Somebody is freeing the run.
const RELEASING: u64 = 3;
const STATE: u64 = 3;
const ORDER: u32 = 2;
const BY: u32 = 8;
const WHOM: u32 = 18;

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whom(u64);

impl Whom {
    /// A span: the blocks of this group.
    pub(super) const fn span(group: u32) -> Whom {
        Whom(group as u64 | 1 << 24)
    }
    /// One large block, with this entry.
    pub(super) const fn entry(entry: u32) -> Whom {
        Whom(entry as u64 & 0xff_ffff)
    }
}

/// The word of a first unit.
#[derive(Clone, Copy)]
struct Tag(u64);

impl Tag {
    const fn new(state: u64, order: u32, by: u16, whom: Whom) -> Tag {
        Tag(state | (order as u64 & 0x3f) << ORDER | (by as u64 & 0x3ff) << BY | whom.0 << WHOM)
    }
    const fn state(self) -> u64 {
        self.0 & STATE
    }
    const fn order(self) -> u32 {
        (self.0 >> ORDER) as u32 & 0x3f
    }
    const fn by(self) -> u16 {
        (self.0 >> BY) as u16 & 0x3ff
    }
    const fn whom(self) -> Whom {
        Whom(self.0 >> WHOM)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    tree: Tree<'a>,
    tags: &'a [AtomicU64],
}

impl<'a> Runs<'a> {
    pub(super) const fn new(tree: Tree<'a>, tags: &'a [AtomicU64]) -> Self {
        Runs { tree, tags }
    }

    /// Frees everything; nobody may use it meanwhile.
    pub(super) fn clear(&self) {
        self.tags.iter().for_each(|tag| tag.store(0, Ordering::Relaxed));
        self.tree.clear();
    }

    pub(super) const fn tree(&self) -> Tree<'a> {
        self.tree
    }

    fn tag(&self, first: u32) -> Option<&'a AtomicU64> {
        self.tags.get(first as usize)
    }

    /// Takes a run, and says where it begins. Until [`hold`](Self::hold) it is lost with whoever takes it.
    pub(super) fn take(&self, order: u32, by: u16, whom: Whom) -> Option<u32> {
        let taking = Tag::new(TAKING, order, by, whom);
        // ORDERING: acquire pairs with the store that frees a tag: the run was freed in the tree before.
        let claim = |tag: &AtomicU64| tag.compare_exchange(0, taking.0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let disclaim = |first| self.tag(first).into_iter().for_each(|tag| tag.store(0, Ordering::Release));
        self.tree.take(order, |first| self.tag(first).is_some_and(claim), disclaim)
    }

    /// Whoever the run is for names it from now on; its taker says so.
    pub(super) fn hold(&self, first: u32, order: u32, by: u16, whom: Whom) {
        if let Some(tag) = self.tag(first) {
            // ORDERING: release: who finds it held finds the name too.
            tag.store(Tag::new(HELD, order, by, whom).0, Ordering::Release);
        }
    }

    /// Whether a run that begins there is held for `whom`; its order.
    pub(super) fn held(&self, first: u32, whom: Whom) -> Option<u32> {
        // ORDERING: acquire pairs with `hold`.
        let tag = Tag(self.tag(first)?.load(Ordering::Acquire));
        (tag.state() == HELD && tag.whom() == whom).then_some(tag.order())
    }

    /// Frees a run that is held for `whom`; false if there is none. One at a time does this for `whom`.
    pub(super) fn release(&self, first: u32, by: u16, whom: Whom) -> bool {
        let (Some(tag), Some(order)) = (self.tag(first), self.held(first, whom)) else { return false };
        // ORDERING: release: what its user did is over before the tree says that it is free.
        tag.store(Tag::new(RELEASING, order, by, whom).0, Ordering::Release);
        let released = self.tree.release(first, order);
        tag.store(0, Ordering::Release);
        released
    }

    /// Ends what a dead one was doing to runs; how many it was taking or freeing. One at a time does this.
    pub(super) fn recover(&self, dead: u16) -> usize {
        let mut ended = 0;
        for (first, word) in (0..).zip(self.tags) {
            let tag = Tag(word.load(Ordering::Acquire));
            if tag.by() == dead && matches!(tag.state(), TAKING | RELEASING) {
                // Only the holder of the tag could take or free a run here, so if there is one it is his.
                self.tree.release(first, tag.order());
                word.store(0, Ordering::Release);
                ended += 1;
            }
        }
        ended
    }
}
