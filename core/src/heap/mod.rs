//! Blocks of memory that processes share.
//!
//! They are handed out so that nobody's death or stop harms the others. A heap manages offsets `0..bytes` and never
//! touches the bytes: all bookkeeping lies in lent words beside them, which hold numbers and no pointers, so that every
//! process may map either elsewhere. Who uses a heap joins its [`crew`](Heap::crew) and works with a [`Hand`]; each
//! thread has its own.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::crew::Identity;
//! use umbra_core::heap::{Heap, Keep, Plan};
//! let plan = Plan::new(1 << 20, 32, 0, 4)?;
//! let mut memory = vec![0_u64; plan.words()]; // Or a segment that processes map.
//! let words = BytesMut::from_words(&mut memory).words(0, plan.words())?;
//!
//! let heap = Heap::create(words, plan, &[])?;
//! let mut ours = heap.hand(heap.crew().join(Identity::new(1, 0))?);
//! let dead = Heap::attach(words, 1 << 20)?.crew().join(Identity::new(2, 0))?;
//! let mut theirs = heap.hand(dead);
//! let (a, b) = (ours.alloc(33, 7)?, theirs.alloc(100_000, 7)?);
//! assert_eq!((a.len, a.size, heap.block(b.id)?.len), (33, 64, 100_000));
//! ours.free(a.id)?;
//! assert!(ours.free(a.id).is_err(), "the second free is refused");
//!
//! // They die: what they were doing ends, and what they held can be listed, used, and freed.
//! let held = heap.bury(dead, ours.number(), Keep::Blocks);
//! assert!(held.is_err(), "it still holds a block");
//! assert_eq!(heap.blocks().map(|block| (block.id, block.owner)).collect::<Vec<_>>(), [(b.id, dead.number)]);
//! assert_eq!(heap.bury(dead, ours.number(), Keep::Nothing)?.freed, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Small blocks lie in *spans* of up to 64 of one size; there are four sizes a power of two. Spans and large blocks are
//! runs of a buddy system. Each block has an *entry*, one word: how often it was used, by whom, and what it is doing.
//! The compare-and-swap that takes a block says whose it is, and the one that frees it makes its id stale; an id is
//! never given out twice. Where free blocks are is only hinted at, by a word a span that a hand takes to itself.
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction: no two hands have the same block; a
//! block is freed once; nobody waits for anybody; after [`Heap::bury`] of a dead member nothing is left of what it was
//! doing, and if all blocks are freed then the longest can be allocated. A stopped process keeps from the others what
//! it holds: its blocks, and the run that it is taking or freeing. Not guaranteed: that an `alloc` finds a block while
//! others take and free all the time.
//!
//! Every word is checked where it is used: words that somebody wrote over give errors and wrong blocks, but none
//! outside of `0..bytes`, and no call that does not end.
//!
//! ABA: who slept through 2^32 lives of one group, or 2^40 changes of one node of the tree, may take the new for the
//! old.
//!
//! *Cost*: a small block is one read-modify-write to take and one to free, in lines that other hands rarely touch, and
//! a pass over the groups' words a span. A large block is five. The bookkeeping is 2 to 3 % of the bytes.

mod bury;
mod class;
mod error;
mod hand;
mod layout;
mod look;
mod runs;
mod span;
mod tree;
mod word;

use crate::atomic::{AtomicU64, Ordering};
use crate::crew::{Crew, Member};

pub use bury::{Holds, Keep, Recovered};
pub use error::{AllocError, AttachError, KindError, NotReserved, PlanError, Unreserved};
pub use hand::{Grasp, Hand};
pub use layout::Plan;
pub use look::{Figures, LookError};

use class::LARGE;
use layout::{Parts, VERSION};

/// Kinds are below this.
pub const KINDS: u32 = 1 << 24;

/// Names one use of one block; never given out again while the heap lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BlockId(u64);

impl BlockId {
    const fn new(entry: u32, generation: u64) -> BlockId {
        BlockId(generation << 24 | entry as u64)
    }
    const fn entry(self) -> u32 {
        self.0 as u32 & 0xff_ffff
    }
    const fn generation(self) -> u64 {
        self.0 >> 24
    }

    /// As a number, which is not 0.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether another id is of the same place in the table: of the same block before or after a [renaming](Hand::rename), or of
    /// one that was there before or comes after it.
    #[must_use]
    pub const fn is_at(self, other: BlockId) -> bool {
        self.entry() == other.entry()
    }

    /// From a number; any is an id, if not of a block that there is.
    #[must_use]
    pub const fn from_bits(bits: u64) -> BlockId {
        BlockId(bits)
    }
}

/// An allocated block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Block {
    /// Its name.
    pub id: BlockId,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Bytes that were asked for.
    pub len: u64,
    /// Bytes that it has.
    pub size: u64,
    /// What it is for, in the caller's numbers.
    pub kind: u32,
    /// The number of the member who allocated it.
    pub owner: u16,
}

/// The heap; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Heap<'a> {
    parts: Parts<'a>,
}

impl<'a> Heap<'a> {
    /// Makes an empty heap; nobody may use the memory as one meanwhile. So many blocks of so many bytes, rounded up to
    /// whole spans, are `reserved`: they are used for blocks of that size only. They have at most 64 KiB, or the 64th part
    /// of the heap's bytes rounded down to a power of two; the 16th part in one of less than 64 KiB. Memory that begins at
    /// a multiple of 64 bytes makes it fast.
    ///
    /// # Errors
    /// [`AttachError`] if it does not fit; [`AttachError::NotReserved`] if what is reserved does not.
    pub fn create(words: &'a [AtomicU64], plan: Plan, reserved: &[(u64, u32)]) -> Result<Self, AttachError> {
        let mut heap = Heap { parts: Parts::create(words, plan)? };
        let mut longest = 0;
        for (entry, &(len, count)) in reserved.iter().enumerate() {
            let refused = |why| AttachError::NotReserved(NotReserved { entry, len, count, why });
            longest = heap.reserve(len, count).map_err(refused)?.max(longest);
        }
        if longest > 0 {
            let run = heap.parts.runs.tree().free().1.map_or(0, |order| heap.parts.sizes.unit << order);
            heap.parts.bound(longest.max(run));
        }
        heap.parts.publish();
        Ok(heap)
    }

    /// Bytes of a block that is reserved; 0 if none is.
    fn reserve(&self, len: u64, count: u32) -> Result<u64, Unreserved> {
        let sizes = &self.parts.sizes;
        let class = sizes.class(len);
        if len == 0 {
            return Err(Unreserved::Nothing);
        }
        if class == LARGE {
            let longest = sizes.small().checked_sub(1).map_or(0, |class| sizes.size(class));
            return Err(Unreserved::TooLong { longest });
        }
        let blocks = sizes.slots(class).count_ones();
        for spans in 0..count.div_ceil(blocks) {
            let opened = span::open(&self.parts, class, true, 0);
            opened.map_err(|_| Unreserved::TooMany { room: spans * blocks })?.close_to_nobody();
        }
        Ok(if count > 0 { sizes.size(class) } else { 0 })
    }

    /// Looks at a heap that another process created over so many bytes; `words` may be longer than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64], bytes: u64) -> Result<Self, AttachError> {
        Ok(Heap { parts: Parts::attach(words, bytes)? })
    }

    /// What it was made for.
    #[must_use]
    pub const fn plan(&self) -> Plan {
        self.parts.plan
    }

    /// Those who use it.
    #[must_use]
    pub const fn crew(&self) -> Crew<'a> {
        self.parts.crew
    }

    /// 16 words for whatever the heap is part of, zero at first.
    #[must_use]
    pub fn pocket(&self) -> &'a [AtomicU64] {
        self.parts.pocket()
    }

    /// What a member allocates and frees with; one at a time for a member.
    #[must_use]
    pub const fn hand(&self, member: Member) -> Hand<'a> {
        Hand::new(*self, Grasp::new(member))
    }

    /// The hand that goes on where another one ended; for those who cannot keep a borrow of the heap.
    #[must_use]
    pub const fn hand_with<'g>(&self, grasp: &'g mut Grasp) -> Hand<'a, &'g mut Grasp> {
        Hand::new(*self, grasp)
    }

    /// Bytes of the longest block that an empty heap has, beside what is reserved or of that.
    #[must_use]
    pub const fn longest(&self) -> u64 {
        self.parts.longest
    }

    /// Entries of blocks that somebody has, takes or frees.
    fn busy(&self) -> u32 {
        let busy = |group: layout::Group<'_>| {
            (0..class::SPAN as u32)
                .filter(|&slot| word::Entry(group.entry(slot).load(Ordering::Relaxed)).is_busy())
                .count()
        };
        self.parts.groups().map(busy).sum::<usize>() as u32
    }
}
