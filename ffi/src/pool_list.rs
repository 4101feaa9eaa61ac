//! `umbra_pool_list`: what a pool has allocated.

use std::ffi::{c_int, c_void};

use crate::call::{enter, store, store_bytes, takes, takes_unless_null};
use crate::object::with_pool;
use crate::status::{Code, Failure};

/// Lists allocations: their numbers, what each is for unless `kinds` is null, and how many they are.
///
/// # Safety
/// `buffer` points to `capacity` numbers, and `kinds` too, or is null; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_pool_list(
    pool: u64,
    kind: u32,
    buffer: *mut u64,
    kinds: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        with_pool(pool, |pool| {
            let wanted = pool.blocks().filter(|block| kind == u32::MAX || block.kind == kind);
            let (ids, of): (Vec<_>, Vec<_>) = wanted.map(|block| (block.id.to_bits(), block.kind)).unzip();
            let found = ids.len();
            if (1..=capacity).contains(&found) {
                takes(buffer)?;
                takes_unless_null(kinds)?;
            }
            // SAFETY: the caller's promise about `count`.
            unsafe { store(count, found) }?;
            if found > capacity {
                let detail = format!("buffer holds {capacity} allocations, {found} are needed");
                return Err(Failure::new(Code::TooSmall, detail));
            }
            let bytes: Vec<u8> = ids.into_iter().flat_map(u64::to_ne_bytes).collect();
            // SAFETY: the caller's promise about the buffer, which has room for as many.
            unsafe { store_bytes(&bytes, buffer.cast::<c_void>(), bytes.len()) }?;
            if kinds.is_null() {
                return Ok(());
            }
            let bytes: Vec<u8> = of.into_iter().flat_map(u32::to_ne_bytes).collect();
            // SAFETY: as above.
            unsafe { store_bytes(&bytes, kinds.cast::<c_void>(), bytes.len()) }
        })
    })
}
