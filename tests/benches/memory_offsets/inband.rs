//! Peers that write their records into the memory that they manage.
//!
//! So they need memory that is mapped.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::Manual;

use crate::sides::{Arena, CAPACITY, UNIT};

fn layout(len: u64) -> Layout {
    Layout::from_size_align(len as usize, UNIT as usize).expect("a length below the capacity")
}

fn memory() -> Vec<MaybeUninit<u8>> {
    Vec::with_capacity(CAPACITY as usize)
}

/// `rlsf`: TLSF with 32 bins a power of two.
pub(crate) struct Rlsf {
    tlsf: rlsf::Tlsf<'static, u32, u32, 28, 32>,
    /// What `tlsf` manages; freed with it.
    _memory: Vec<MaybeUninit<u8>>,
}

impl Arena for Rlsf {
    type Handle = NonNull<u8>;

    fn new() -> Self {
        let mut memory = memory();
        let mut tlsf = rlsf::Tlsf::new();
        let all = NonNull::slice_from_raw_parts(NonNull::from(memory.spare_capacity_mut()).cast(), CAPACITY as usize);
        // SAFETY: the memory is owned by the same value and not used otherwise, and `tlsf` does not outlive it.
        unsafe { tlsf.insert_free_block_ptr(all) };
        Rlsf { tlsf, _memory: memory }
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<NonNull<u8>> {
        self.tlsf.allocate(layout(len))
    }

    #[inline]
    fn free(&mut self, handle: NonNull<u8>, _len: u64) {
        // SAFETY: the bench frees each handle once, with the alignment of `alloc`.
        unsafe { self.tlsf.deallocate(handle, UNIT as usize) };
    }
}

/// `talc`, as it is configured by default.
pub(crate) struct InTalc {
    talc: Talc<Manual, DefaultBinning>,
    /// What `talc` manages; freed with it.
    _memory: Vec<MaybeUninit<u8>>,
}

impl Arena for InTalc {
    type Handle = NonNull<u8>;

    fn new() -> Self {
        let mut memory = memory();
        let mut talc = Talc::new(Manual);
        // SAFETY: the memory is owned by the same value and not used otherwise, and `talc` does not outlive it.
        unsafe { talc.claim(memory.as_mut_ptr().cast(), CAPACITY as usize) };
        InTalc { talc, _memory: memory }
    }

    #[inline]
    fn alloc(&mut self, len: u64) -> Option<NonNull<u8>> {
        // SAFETY: no length is zero.
        unsafe { self.talc.allocate(layout(len)) }
    }

    #[inline]
    fn free(&mut self, handle: NonNull<u8>, len: u64) {
        // SAFETY: the bench frees each handle once, with the length and alignment of `alloc`.
        unsafe { self.talc.deallocate(handle.as_ptr(), layout(len)) };
    }
}
