//! Bytes of memory that a test owns.

use umbra::sys::segment::Segment;

/// Writes bytes that must fit.
///
/// # Panics
/// If they do not.
pub fn poke(memory: &Segment, offset: u64, bytes: &[u8]) {
    memory.write(offset as usize, bytes).expect("the bytes lie inside the memory, which is writable");
}

/// Reads bytes that must be there.
///
/// # Panics
/// If they are not.
#[must_use]
pub fn peek(memory: &Segment, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read(offset as usize, &mut bytes).expect("the bytes lie inside the memory");
    bytes
}
