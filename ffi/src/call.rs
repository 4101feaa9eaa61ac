//! The border: what C hands in is checked here, and no panic goes out.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use umbra::sys::heap::{filled, room};

use crate::status::{Code, Failure, fail};

/// Runs the body of an exported function and gives what it returns to C.
///
/// After a panic the objects that the call touched may be half changed; their locks are not trusted any more, and calls on
/// them fail with the same code.
pub fn enter(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => fail(failure),
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            fail(Failure::new(Code::Panic, text.unwrap_or_default()))
        }
    }
}

fn null(what: &str) -> Failure {
    Failure::new(Code::Invalid, format!("{what} is null or not aligned"))
}

/// Whether something can be stored there, as far as an address tells.
///
/// # Errors
/// [`Failure`]: it is null, or not aligned.
pub fn takes<T>(out: *mut T) -> Result<(), Failure> {
    if out.is_null() || !out.is_aligned() { Err(null("output")) } else { Ok(()) }
}

/// Stores an output.
///
/// # Safety
/// `out` is null, or points to a `T` that nobody else uses during the call.
#[allow(unsafe_code)]
pub(crate) unsafe fn store<T>(out: *mut T, value: T) -> Result<(), Failure> {
    takes(out)?;
    // SAFETY: not null and aligned; that it points to a `T` is the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// [`takes`], for an output that the caller may leave out: null is taken.
pub(crate) fn takes_unless_null<T>(out: *mut T) -> Result<(), Failure> {
    if out.is_null() { Ok(()) } else { takes(out) }
}

/// [`store`], for an output that the caller may leave out: nothing is stored then.
///
/// # Safety
/// As for [`store`].
#[allow(unsafe_code)]
pub(crate) unsafe fn store_unless_null<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { store(out, value) }
}

/// Stores a list into the caller's buffer and its length into `count`; a buffer that is too small stays as it is.
///
/// # Safety
/// `buffer` points to `capacity` of them, or is null with `capacity` 0; `count` is null, or points to a number that nobody else
/// uses during the call.
///
/// # Errors
/// [`Failure`]: the buffer is too small, or one of them is null.
#[allow(unsafe_code)]
pub unsafe fn store_list<T: Copy>(
    list: &[T],
    buffer: *mut T,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { store_counted((list.iter().copied(), list.len()), buffer, capacity, count) }
}

/// As [`store_list`] of items and how many they should be: they need not be there if that is more than the capacity.
///
/// # Safety
/// That of `store_list`.
#[allow(unsafe_code)]
pub(crate) unsafe fn store_counted<T>(
    (list, all): (impl ExactSizeIterator<Item = T>, usize),
    buffer: *mut T,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    if (1..=capacity).contains(&all) && (buffer.is_null() || !buffer.is_aligned()) {
        return Err(null("buffer"));
    }
    // SAFETY: the caller's promise about `count`.
    unsafe { store(count, all) }?;
    if all > capacity || list.len() != all {
        let detail = format!("buffer has room for {capacity}, and there are {all}");
        return Err(Failure::new(Code::TooSmall, detail));
    }
    for (at, item) in list.take(all).enumerate() {
        // SAFETY: `at < all <= capacity`, so by the caller's promise it is one of the buffer's.
        let place = unsafe { buffer.add(at) };
        // SAFETY: as above; it is aligned because the buffer is.
        unsafe { place.write(item) };
    }
    Ok(())
}

/// All of what there is and how many, or only how many, if there are more than `capacity`.
pub(crate) fn counted<T, I: Iterator<Item = T>>(
    items: impl Fn() -> I,
    capacity: usize,
) -> Result<(Vec<T>, usize), Failure> {
    let all = items().count();
    let fit = if all <= capacity { all } else { 0 };
    let mut list = room(fit).map_err(|error| Failure::new(Code::System, error))?;
    list.extend(items().take(fit));
    Ok((list, all))
}

/// Stores text with a final zero, cut to the buffer at a character, and its whole length without the zero into `length`
/// unless that is null.
///
/// # Safety
/// `buffer` points to `capacity` bytes, or is null with `capacity` 0; `length` is as for [`store`], or null.
#[allow(unsafe_code)]
pub(crate) unsafe fn store_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    if capacity > 0 && buffer.is_null() {
        return Err(null("buffer"));
    }
    if !length.is_null() {
        // SAFETY: the caller's promise about `length`.
        unsafe { store(length, text.len()) }?;
    }
    let Some(room) = capacity.checked_sub(1) else { return Ok(()) };
    let kept = (0..=room.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    // SAFETY: `kept <= room < capacity` bytes fit into the buffer, which cannot overlap our text.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, kept) };
    // SAFETY: `kept < capacity`, so the address lies inside the buffer.
    let end = unsafe { buffer.add(kept) };
    // SAFETY: inside the buffer, as above.
    unsafe { end.write(0) };
    Ok(())
}

/// Whether so many bytes can be stored there, as far as an address tells: for outputs of which all are stored or none.
pub(crate) fn takes_bytes(len: usize, buffer: *mut c_void, capacity: usize) -> Result<(), Failure> {
    if len > capacity {
        return Err(Code::TooSmall.into());
    }
    if len > 0 && buffer.is_null() { Err(null("buffer")) } else { Ok(()) }
}

/// Stores bytes into the caller's buffer.
///
/// # Safety
/// `buffer` points to `capacity` bytes, or is null with `capacity` 0.
#[allow(unsafe_code)]
pub(crate) unsafe fn store_bytes(bytes: &[u8], buffer: *mut c_void, capacity: usize) -> Result<(), Failure> {
    takes_bytes(bytes.len(), buffer, capacity)?;
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: `buffer` has room for `capacity >= bytes.len()` bytes; `bytes` are ours, so they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>(), bytes.len()) };
    Ok(())
}

/// Stores bytes and their length; if they do not fit, only the length.
///
/// # Safety
/// As for [`store_bytes`] and [`store`].
#[allow(unsafe_code)]
pub(crate) unsafe fn store_measured(
    bytes: &[u8],
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    let fits = takes_bytes(bytes.len(), buffer, capacity);
    if !matches!(&fits, Err(failure) if failure.code != Code::TooSmall) {
        // SAFETY: the caller's promise about `length`.
        unsafe { store(length, bytes.len()) }?;
    }
    fits?;
    // SAFETY: the caller's promise about `buffer`.
    unsafe { store_bytes(bytes, buffer, capacity) }
}

/// So many zeros, or the news that there is no memory for them.
pub(crate) fn zeros<T: Clone + Default>(count: usize) -> Result<Vec<T>, Failure> {
    filled(T::default(), count).map_err(|error| Failure::new(Code::System, error))
}

/// The caller's memory, made zero so that it may be looked at: not before there is something for it.
///
/// # Safety
/// `buffer` points to `room` bytes that nobody else uses while the slice is in use, or `room` is 0.
#[allow(unsafe_code)]
pub(crate) unsafe fn fresh<'a>(buffer: *mut c_void, room: usize) -> &'a mut [u8] {
    if room == 0 {
        return &mut [];
    }
    let buffer = buffer.cast::<u8>();
    // SAFETY: the caller's promise.
    unsafe { buffer.write_bytes(0, room) };
    // SAFETY: as above, and the bytes have values now.
    unsafe { std::slice::from_raw_parts_mut(buffer, room) }
}

/// Has memory of our own filled, and copies to the caller's as many bytes as `fill` says, if it went well.
///
/// # Safety
/// As for [`fresh`], with as many bytes as `own` has.
#[allow(unsafe_code)]
pub(crate) unsafe fn by_copy<T, E>(
    buffer: *mut c_void,
    mut own: Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> Result<(T, usize), E>,
) -> Result<T, E> {
    let (told, len) = fill(&mut own)?;
    own.truncate(len);
    // SAFETY: the caller's promise; no more bytes than it was at first.
    unsafe { fresh(buffer, own.len()) }.copy_from_slice(&own);
    Ok(told)
}

/// Whether so many numbers can lie there, as far as an address tells; where none lie does not matter.
pub(crate) fn takes_list<T>(numbers: *mut T, count: usize) -> Result<(), Failure> {
    let can = !numbers.is_null() && numbers.is_aligned() && count <= isize::MAX as usize / size_of::<T>();
    if count == 0 || can { Ok(()) } else { Err(null("list")) }
}

/// The caller's numbers.
///
/// # Safety
/// `numbers` points to `count` numbers that do not change during the call, or is null with `count` 0. Any bits are a `T`.
#[allow(unsafe_code)]
pub(crate) unsafe fn numbers<'a, T>(numbers: *const T, count: usize) -> Result<&'a [T], Failure> {
    takes_list(numbers.cast_mut(), count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned, not too long; that so many numbers are there is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(numbers, count) })
}

/// The caller's text.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero and do not change during the call.
#[allow(unsafe_code)]
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; that it ends with a zero is the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| Failure::new(Code::Invalid, format!("{what} is not UTF-8")))
}

/// The caller's descriptor.
///
/// # Safety
/// `descriptor` is open as long as what is returned is used, unless it is negative.
#[allow(unsafe_code)]
pub(crate) unsafe fn lent<'a>(descriptor: c_int) -> Result<BorrowedFd<'a>, Failure> {
    if descriptor < 0 {
        return Err(Failure::new(Code::Invalid, format!("{descriptor} is no descriptor")));
    }
    // SAFETY: not -1; that it is open is the caller's promise, and the system's to say if it is not.
    Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// A number of the caller's that has to fit into 16 bits.
pub(crate) fn short(number: u32, what: &str) -> Result<u16, Failure> {
    let refused = |_| Failure::new(Code::Invalid, format!("{number} {what}: at most {} are possible", u16::MAX));
    u16::try_from(number).map_err(refused)
}

/// A structure that begins with its size: as much of it as the caller's version has, the rest zero.
///
/// # Safety
/// `from` is null, or points to a structure whose first word is its size in bytes. All-zero bytes are a valid `T`, which is
/// plain data and begins with a `usize`.
#[allow(unsafe_code)]
pub(crate) unsafe fn sized<T>(from: *const T, least: usize) -> Result<T, Failure> {
    // SAFETY: forwarded.
    let size = unsafe { announced(from, least) }?;
    let mut whole = std::mem::MaybeUninit::<T>::zeroed();
    let used = size.min(size_of::<T>());
    // SAFETY: `from` has at least `used` readable bytes, `whole` has room for them, and they are different objects.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), whole.as_mut_ptr().cast::<u8>(), used) };
    // SAFETY: zeros and a prefix of a valid `T` are a valid `T`: plain data, by the caller's promise.
    Ok(unsafe { whole.assume_init() })
}

/// Stores a structure that begins with its size: as much of it as the caller's version has; its size stays.
///
/// # Safety
/// As for [`sized`], and nobody else uses `to` during the call.
#[allow(unsafe_code)]
pub(crate) unsafe fn store_sized<T>(to: *mut T, value: &T, least: usize) -> Result<(), Failure> {
    // SAFETY: forwarded.
    let size = unsafe { announced(to.cast_const(), least) }?;
    let (skip, used) = (size_of::<usize>(), size.min(size_of::<T>()));
    let from = std::ptr::from_ref(value).cast::<u8>().wrapping_add(skip);
    let target = to.cast::<u8>().wrapping_add(skip);
    // SAFETY: both have `used` bytes, of which the first word is skipped; they are different objects.
    unsafe { std::ptr::copy_nonoverlapping(from, target, used - skip) };
    Ok(())
}

/// The size that a structure announces in its first word; at least `least`.
///
/// # Safety
/// As for [`sized`].
#[allow(unsafe_code)]
pub(crate) unsafe fn announced<T>(structure: *const T, least: usize) -> Result<usize, Failure> {
    if structure.is_null() || !structure.is_aligned() {
        return Err(null("structure"));
    }
    // SAFETY: not null and aligned; that a size is there is the caller's promise.
    let size = unsafe { structure.cast::<usize>().read() };
    if size < least {
        let detail = format!("structure announces {size} bytes, its first version has {least}");
        return Err(Failure::new(Code::WrongSize, detail));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_its_text_is_kept() {
        assert_eq!(enter(|| panic!("so {}", "it goes")), -106);
        assert_eq!(crate::status::detail(), "so it goes");
        assert_eq!(enter(|| Ok(())), 0);
    }
}
