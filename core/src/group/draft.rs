//! Writing a frame straight into the buffer that will be sent.
//!
//! `Frame::emit` copies a finished body behind its head; here the body is written in place, so a piece of a table
//! is copied once.

use crate::codec::{Short, Writer};
use crate::error::Status;
use crate::wire::{BODY_MAX, Frame, HEAD, Op, Token};

/// Most bytes that a body written here can have in a buffer of this length.
pub(crate) const fn room(buffer_len: usize) -> usize {
    let room = buffer_len.saturating_sub(HEAD);
    if room < BODY_MAX { room } else { BODY_MAX }
}

/// Writes a `Call` whose body `fill` writes; its length, or `None` if it does not fit.
pub(crate) fn call(
    buffer: &mut [u8],
    op: Op,
    token: Token,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>,
) -> Option<usize> {
    around(buffer, &Frame::Call { op, token, body: &[] }, fill)
}

/// Writes a `Done` whose body `fill` writes; its length, or `None` if it does not fit.
pub(crate) fn done(
    buffer: &mut [u8],
    op: Op,
    token: Token,
    status: Status,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>,
) -> Option<usize> {
    around(buffer, &Frame::Done { op, token, status, body: &[] }, fill)
}

/// Writes a `Null`; its length, or `None` if it does not fit.
pub(crate) fn null(buffer: &mut [u8], op: Op, arg: u64) -> Option<usize> {
    Frame::Null { op, token: Token(0), arg }.emit(buffer).ok()
}

fn around(
    buffer: &mut [u8],
    empty: &Frame<'_>,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>,
) -> Option<usize> {
    let before = empty.emit(buffer).ok()?;
    let end = buffer.len().min(HEAD + BODY_MAX);
    let mut w = Writer::new(buffer.get_mut(before..end)?);
    fill(&mut w).ok()?;
    let len = before + w.len();
    let body_len = u32::try_from(len - HEAD).ok()?;
    buffer.get_mut(..4)?.copy_from_slice(&body_len.to_le_bytes());
    Some(len)
}

/// Lengthens the frame of `len` bytes at the start of the buffer by `more` bytes that were written behind it.
pub(crate) fn extend(buffer: &mut [u8], len: usize, more: usize) -> Option<usize> {
    let len = len.checked_add(more).filter(|&len| len <= buffer.len().min(HEAD + BODY_MAX))?;
    let body_len = u32::try_from(len.checked_sub(HEAD)?).ok()?;
    buffer.get_mut(..4)?.copy_from_slice(&body_len.to_le_bytes());
    Some(len)
}
