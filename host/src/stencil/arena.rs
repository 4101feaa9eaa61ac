//! The bytes of all slots: one piece of memory, lent, cut into slots.
//!
//! A slot is either on its way to be filled, and then whoever loads has the only handle of it, or content that any
//! number of threads read. The handles count themselves, so that a load into a slot that somebody still reads is
//! refused instead of believed impossible. Nothing is copied, and nothing waits.

use std::sync::Arc;

/// A handle of a slot's bytes.
pub(super) type Slot<'a> = Arc<&'a mut [u8]>;

/// The slots by number.
#[derive(Debug)]
pub(super) struct Arena<'a> {
    slots: Vec<Option<Slot<'a>>>,
}

impl<'a> Arena<'a> {
    /// Bytes of memory for the handle of a slot, with what counts its clones.
    pub(super) const BYTES_OF_SLOT: usize =
        size_of::<Option<Slot<'static>>>() + size_of::<[usize; 2]>() + size_of::<&[u8]>();

    /// Cuts `memory` into slots of this many bytes; what does not make a whole slot is left.
    pub(super) fn new(memory: &'a mut [u8], slot_bytes: usize) -> Self {
        Arena { slots: memory.chunks_exact_mut(slot_bytes.max(1)).map(|slot| Some(Arc::new(slot))).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Takes the slot out, to be filled.
    pub(super) fn take(&mut self, slot: u32) -> Option<Slot<'a>> {
        self.slots.get_mut(slot as usize)?.take()
    }

    /// The slot is filled, or will not be.
    pub(super) fn put(&mut self, slot: u32, bytes: Slot<'a>) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(bytes);
        }
    }

    /// A handle for one who reads.
    pub(super) fn share(&self, slot: u32) -> Option<Slot<'a>> {
        self.slots.get(slot as usize)?.clone()
    }
}
