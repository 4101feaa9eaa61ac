//! A heap whose words lie in a mapping, kept together with it.

use umbra_core::atomic::AtomicU64;
use umbra_core::heap::{AttachError, Heap, Plan};

use super::segment::Segment;

/// A mapping, and the heap in it; what was checked of the heap once need not be checked again.
#[derive(Debug)]
pub struct SharedHeap {
    /// Looks into the segment below: lent for as long as `self` only.
    heap: Heap<'static>,
    segment: Segment,
}

impl SharedHeap {
    /// Makes a heap in a mapping that nobody else uses yet.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn create(segment: Segment, plan: Plan, reserved: &[(u64, u32)]) -> Result<SharedHeap, AttachError> {
        Ok(SharedHeap { heap: Heap::create(words(&segment), plan, reserved)?, segment })
    }

    /// Looks at the heap over so many bytes that somebody made in a mapping.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(segment: Segment, bytes: u64) -> Result<SharedHeap, AttachError> {
        Ok(SharedHeap { heap: Heap::attach(words(&segment), bytes)?, segment })
    }

    /// The heap.
    #[must_use]
    #[inline]
    pub fn heap(&self) -> &Heap<'_> {
        &self.heap
    }

    /// The mapping.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }
}

/// The words of a mapping, for longer than it may last.
pub(super) fn words(segment: &Segment) -> &'static [AtomicU64] {
    let words = std::ptr::from_ref(segment.all_words());
    // SAFETY: the mapping stays where it is until the segment is dropped, wherever the segment is moved. Whoever calls
    // this keeps the slice beside the segment, and lends it for no longer than he has both.
    unsafe { &*words }
}
