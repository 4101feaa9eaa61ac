//! Where the parts of a channel lie, and what its creator chose.

use super::error::{AttachError, ShapeError};
use super::queue::{Queue, SPARE};
use super::word::{Cell, LAP_MASK, SLOTS_MAX, Slot};
use crate::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrchn2");
const CAPACITY: usize = 1;
const SLOTS: usize = 2;
const BLOCK: usize = 3;
/// Whether the channel was destroyed.
pub(super) const DESTROYED: usize = 4;
/// How many slots were ever claimed, the first ones.
const USED: usize = 5;
/// From which position on messages were removed because the channel was destroyed; 0 if none were.
const LOST: usize = 6;
const HEADER: usize = 16;
/// The hint for senders, beside it what receivers sleep on, and how far messages are known to be taken; senders write them.
const TAIL: usize = HEADER;
/// The hint for receivers, and beside it what senders sleep on.
const HEAD: usize = TAIL + 16;
const HINTS: usize = HEAD + 16;
/// Words of a line.
pub(super) const LINE: usize = 8;
/// Words of a slot before its block: the slot's own, then what a message says about itself.
pub(super) const SLOT_HEADER: usize = 6;

/// What a channel has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shape {
    /// Messages that can wait at once.
    pub capacity: u32,
    /// Slots beyond the capacity. A process that is stopped while it sends or receives, and a received message that is
    /// not yet released, keep one; as long as there are spares for them, others do not notice.
    pub spares: u32,
    /// Bytes of a message that lie in the channel itself.
    pub block: u32,
}

/// A hundred messages of a kibibyte, and two spares.
impl Default for Shape {
    fn default() -> Self {
        Shape { capacity: 100, spares: 2, block: 1024 }
    }
}

/// Places of the parts, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) capacity: usize,
    pub(super) slots: usize,
    /// Cells of the ring; a power of two.
    pub(super) cells: usize,
    /// Messages from one look of a sender how far receivers are to the next: a quarter to half of the capacity, and a power of
    /// two.
    pub(super) glance: u64,
    pub(super) block: usize,
    cells_at: usize,
    pub(super) slots_at: usize,
    pub(super) stride: usize,
    pub(super) words: usize,
}

impl Plan {
    /// A word of hints in which no bit is missing.
    pub(super) fn bits(&self, index: usize) -> u64 {
        let here = self.slots.saturating_sub(index * 64).min(64) as u32;
        u64::MAX.checked_shr(64 - here).unwrap_or(0)
    }
}

impl Shape {
    pub(super) const fn plan(self) -> Result<Plan, ShapeError> {
        let slots = self.capacity as u64 + self.spares as u64;
        if self.capacity == 0 {
            return Err(ShapeError::NoCapacity);
        }
        if slots >= SLOTS_MAX as u64 {
            return Err(ShapeError::TooManySlots { slots, most: SLOTS_MAX - 1 });
        }
        if self.block > 1 << 31 {
            return Err(ShapeError::BlockTooLarge(self.block));
        }
        let (slots, block) = (slots as usize, self.block as usize);
        // One more than there are slots, so that a cell of the lap before never names a message that still waits.
        let cells = (slots + 1).next_power_of_two();
        let cells_at = HINTS + slots.div_ceil(64).next_multiple_of(LINE);
        let slots_at = (cells_at + cells).next_multiple_of(LINE);
        let stride = (SLOT_HEADER + block.div_ceil(size_of::<u64>())).next_multiple_of(LINE);
        let Some(all) = slots.checked_mul(stride) else { return Err(ShapeError::BlockTooLarge(self.block)) };
        let Some(words) = slots_at.checked_add(all) else { return Err(ShapeError::BlockTooLarge(self.block)) };
        let capacity = self.capacity as usize;
        let glance = 1 << (self.capacity.ilog2().saturating_sub(1));
        Ok(Plan { capacity, slots, cells, glance, block, cells_at, slots_at, stride, words })
    }

    /// Words of memory that a channel of this shape needs.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub const fn words(self) -> Result<usize, ShapeError> {
        match self.plan() {
            Ok(plan) => Ok(plan.words),
            Err(error) => Err(error),
        }
    }
}

impl<'a> Queue<'a> {
    /// Makes an empty queue; nobody may use the memory as one meanwhile.
    ///
    /// # Errors
    /// [`AttachError`] if the shape is impossible or does not fit.
    pub fn create(words: &'a [AtomicU64], shape: Shape) -> Result<Self, AttachError> {
        Self::make(words, shape, |queue| {
            (0..queue.plan.slots).filter_map(|slot| queue.slot_word(slot)).for_each(|word| Slot::FIRST.store(word));
        })
    }

    /// The same in memory that is zero, as fresh pages are. It touches no slot there: those that are never used never take
    /// memory of the system. In other memory slots seem to be in use, for good.
    ///
    /// # Errors
    /// [`AttachError`] if the shape is impossible or does not fit.
    pub fn create_in_zeros(words: &'a [AtomicU64], shape: Shape) -> Result<Self, AttachError> {
        Self::make(words, shape, |_| ())
    }

    fn make(words: &'a [AtomicU64], shape: Shape, clear: impl FnOnce(&Self)) -> Result<Self, AttachError> {
        let plan = shape.plan().map_err(AttachError::BadShape)?;
        let words = fit(words, &plan)?;
        for word in &words[..plan.slots_at] {
            word.store(0, Ordering::Relaxed);
        }
        let queue = Self::over(words, plan);
        for (index, hint) in queue.hints.iter().enumerate() {
            hint.store(plan.bits(index), Ordering::Relaxed);
        }
        // Positions begin in lap one, so that the lap before exists for each.
        for cell in queue.cells {
            Cell::empty(1).store(cell);
        }
        clear(&queue);
        queue.tail.store(plan.cells as u64, Ordering::Relaxed);
        queue.head.store(plan.cells as u64, Ordering::Relaxed);
        for (at, value) in [(CAPACITY, shape.capacity), (SLOTS, shape.capacity + shape.spares), (BLOCK, shape.block)] {
            words[at].store(u64::from(value), Ordering::Relaxed);
        }
        // ORDERING: pairs with the load in `attach`.
        words[0].store(MAGIC, Ordering::Release);
        Ok(queue)
    }

    /// Looks at a queue that another process created; `words` may be longer than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, AttachError> {
        is_one(words)?;
        let stated = |at: usize| u32::try_from(words[at].load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        let capacity = stated(CAPACITY);
        let spares = stated(SLOTS).saturating_sub(capacity);
        let plan = Shape { capacity, spares, block: stated(BLOCK) }.plan().map_err(AttachError::BadShape)?;
        Ok(Self::over(fit(words, &plan)?, plan))
    }

    /// The same, for whoever knows its plan.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn attach_as(words: &'a [AtomicU64], plan: Plan) -> Result<Self, AttachError> {
        is_one(words)?;
        Ok(Self::over(fit(words, &plan)?, plan))
    }

    #[inline]
    fn over(words: &'a [AtomicU64], plan: Plan) -> Self {
        let (front, slots) = words.split_at(plan.slots_at);
        let (front, cells) = front.split_at(plan.cells_at);
        Queue {
            header: &front[..HEADER],
            tail: &front[TAIL],
            published: &front[TAIL + 1],
            taken_before: &front[TAIL + 2],
            head: &front[HEAD],
            taken: &front[HEAD + 1],
            hints: &front[HINTS..HINTS + plan.slots.div_ceil(64)],
            cells: &cells[..plan.cells],
            slots,
            plan,
            shift: plan.cells.trailing_zeros(),
            spare: SPARE,
        }
    }

    /// How many slots were ever claimed: all behind the first so many never were.
    #[inline]
    pub(super) fn used(&self) -> &'a AtomicU64 {
        &self.header[USED]
    }

    /// The first position of a message that was lost with the channel; there is none at 0.
    pub(super) fn lost(&self) -> &'a AtomicU64 {
        &self.header[LOST]
    }
}

#[inline]
fn is_one(words: &[AtomicU64]) -> Result<(), AttachError> {
    // ORDERING: pairs with the store in `create`.
    let is_one = words.len() >= HEADER && words[0].load(Ordering::Acquire) == MAGIC;
    is_one.then_some(()).ok_or(AttachError::NotChannel)
}

#[inline]
fn fit<'a>(words: &'a [AtomicU64], plan: &Plan) -> Result<&'a [AtomicU64], AttachError> {
    words.get(..plan.words).ok_or(AttachError::TooSmall { words: words.len(), needed: plan.words })
}

/// The lap of a position.
pub(super) const fn lap(position: u64, shift: u32) -> u64 {
    position >> shift & LAP_MASK
}
