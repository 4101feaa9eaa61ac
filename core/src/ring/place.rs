//! Room for one item in a queue within one process.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

/// Room for one item; a queue is lent an array of them.
///
/// ```
/// use umbra_core::ring::Place;
/// let lent: [Place<u64>; 8] = [const { Place::new() }; 8];
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Place<T>(UnsafeCell<MaybeUninit<T>>);

#[cfg(not(loom))]
use core::cell::UnsafeCell;
#[cfg(loom)]
use loom::cell::UnsafeCell;

impl<T> Place<T> {
    /// Room without an item.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Place(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Room without an item.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Place(UnsafeCell::new(MaybeUninit::uninit()))
    }
}
impl<T> Default for Place<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Place<T> {
    /// Puts an item in.
    ///
    /// # Safety
    /// Nobody else accesses this place meanwhile.
    #[inline]
    pub(super) unsafe fn write(&self, item: T) {
        #[cfg(not(loom))]
        let to = self.0.get();
        // SAFETY: the caller has this place to itself.
        #[cfg(not(loom))]
        unsafe {
            to.write(MaybeUninit::new(item));
        }
        // SAFETY: as above; loom checks it.
        #[cfg(loom)]
        self.0.with_mut(|to| unsafe { to.write(MaybeUninit::new(item)) });
    }

    /// Copies the item out.
    ///
    /// # Safety
    /// An item was put in, and nobody writes to this place meanwhile.
    #[inline]
    pub(super) unsafe fn read(&self) -> T {
        #[cfg(not(loom))]
        let item = {
            let from = self.0.get();
            // SAFETY: the caller says that nobody writes.
            unsafe { from.read() }
        };
        // SAFETY: as above; loom checks it.
        #[cfg(loom)]
        let item = self.0.with(|from| unsafe { from.read() });
        // SAFETY: the caller says that an item was put in.
        unsafe { item.assume_init() }
    }
}

/// Puts items into consecutive places.
///
/// # Safety
/// `places` is at least as long as `items`, and nobody else accesses these places meanwhile.
#[inline]
pub(super) unsafe fn write_all<T: Copy>(places: &[Place<T>], items: &[T]) {
    debug_assert!(items.len() <= places.len());
    #[cfg(not(loom))]
    {
        let to = places.as_ptr().cast::<UnsafeCell<MaybeUninit<T>>>();
        let to = UnsafeCell::raw_get(to).cast::<T>();
        // SAFETY: places are consecutive and transparent; the caller has them to itself and says that they
        // are enough; `items` is plain memory, hence elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(items.as_ptr(), to, items.len()) };
    }
    #[cfg(loom)]
    for (place, &item) in places.iter().zip(items) {
        // SAFETY: the caller's promise.
        unsafe { place.write(item) };
    }
}

/// Copies items out of consecutive places.
///
/// # Safety
/// `places` is at least as long as `items`, items were put in, and nobody writes to these places meanwhile.
#[inline]
pub(super) unsafe fn read_all<T: Copy>(places: &[Place<T>], items: &mut [T]) {
    debug_assert!(items.len() <= places.len());
    #[cfg(not(loom))]
    {
        let from = places.as_ptr().cast::<T>();
        // SAFETY: places are consecutive and transparent, filled by the caller's promise, and nobody
        // writes; `items` is exclusive memory, hence elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(from, items.as_mut_ptr(), items.len()) };
    }
    #[cfg(loom)]
    for (place, item) in places.iter().zip(items) {
        // SAFETY: the caller's promise.
        *item = unsafe { place.read() };
    }
}
