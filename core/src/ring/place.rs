//! Room for one item in a queue within one process.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

#[cfg(not(loom))]
use super::ahead::items_in_a_line;

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
    /// Whether an item is a few whole words.
    ///
    /// Such an item is moved word by word. Left to itself the compiler takes the widest registers there are;
    /// but an item that was just put together is still in the store buffer in words, and a wide load has to
    /// wait until it has left.
    #[cfg(not(loom))]
    const WORDS: bool = size_of::<T>() >= WORD
        && size_of::<T>() <= 8 * WORD
        && size_of::<T>().is_multiple_of(WORD)
        && align_of::<T>() == WORD;

    /// Puts an item in.
    ///
    /// # Safety
    /// Nobody else accesses this place meanwhile.
    #[inline]
    pub(super) unsafe fn write(&self, item: T) {
        #[cfg(not(loom))]
        {
            let to = self.0.get();
            if Self::WORDS {
                // SAFETY: both are memory of a `T`, of whole words by `WORDS`; the caller has `to` to itself.
                unsafe { words_in::<T>((&raw const item).cast(), to.cast()) };
            } else {
                // SAFETY: the caller has this place to itself.
                unsafe { to.write(MaybeUninit::new(item)) };
            }
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
            if Self::WORDS {
                let mut item = MaybeUninit::<T>::uninit();
                // SAFETY: both are memory of a `T`, of whole words by `WORDS`; nobody writes to `from`.
                unsafe { words_out::<T>(from.cast_const().cast(), item.as_mut_ptr().cast()) };
                item
            } else {
                // SAFETY: the caller says that nobody writes.
                unsafe { from.read() }
            }
        };
        // SAFETY: as above; loom checks it.
        #[cfg(loom)]
        let item = self.0.with(|from| unsafe { from.read() });
        // SAFETY: the caller says that an item was put in.
        unsafe { item.assume_init() }
    }
}

#[cfg(not(loom))]
const WORD: usize = size_of::<u64>();
/// Batches up to this size are copied line by line.
#[cfg(not(loom))]
const FEW_BYTES: usize = 256;

/// Copies a `T` of whole words into a place.
///
/// Volatile, here and in `words_out`, is the side of the place: it keeps the compiler from joining the words,
/// and the other side may stay in registers.
///
/// # Safety
/// `from` is readable and `to` writable for a `T`, both are aligned for a word, and they do not overlap.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn words_in<T>(from: *const MaybeUninit<u64>, to: *mut MaybeUninit<u64>) {
    for i in 0..size_of::<T>() / WORD {
        // SAFETY: i is below the number of words.
        let word = unsafe { from.wrapping_add(i).read() };
        // SAFETY: as for the load.
        unsafe { to.wrapping_add(i).write_volatile(word) };
    }
}

/// Copies a `T` of whole words out of a place.
///
/// # Safety
/// As for `words_in`.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn words_out<T>(from: *const MaybeUninit<u64>, to: *mut MaybeUninit<u64>) {
    for i in 0..size_of::<T>() / WORD {
        // SAFETY: i is below the number of words.
        let word = unsafe { from.wrapping_add(i).read_volatile() };
        // SAFETY: as for the load.
        unsafe { to.wrapping_add(i).write(word) };
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
        unsafe { copy(items.as_ptr(), to, items.len()) };
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
        unsafe { copy(from, items.as_mut_ptr(), items.len()) };
    }
    #[cfg(loom)]
    for (place, item) in places.iter().zip(items) {
        // SAFETY: the caller's promise.
        *item = unsafe { place.read() };
    }
}

/// Copies so many items: line by line if they are few, whatever the library's copy does otherwise.
///
/// The compiler copies a line in its plain vectors, the ones with which batches are made and looked through too. So
/// each load finds its bytes in one store that may still be in the store buffer. A library takes wider ones, which
/// have to wait until several stores have left; that pays for long batches only.
///
/// # Safety
/// As for [`core::ptr::copy_nonoverlapping`].
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, count: usize) {
    if !Place::<T>::WORDS || count > FEW_BYTES / size_of::<T>() {
        // SAFETY: the caller's promise.
        return unsafe { core::ptr::copy_nonoverlapping(from, to, count) };
    }
    let line = const { items_in_a_line::<T>() };
    let mut done = 0;
    while done < count {
        let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
        if count - done >= line {
            // SAFETY: these are below `count`.
            unsafe { core::ptr::copy_nonoverlapping(from, to, line) };
            done += line;
        } else {
            // SAFETY: as above.
            unsafe { core::ptr::copy_nonoverlapping(from, to, 1) };
            done += 1;
        }
    }
}
