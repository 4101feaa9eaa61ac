//! Bytes in and out of a landing area, by offsets from the wire.

use umbra_core::error::Status;

use crate::sys::segment::Segment;

fn narrow(word: u64) -> Result<usize, Status> {
    usize::try_from(word).map_err(|_| Status::OutOfBounds)
}

/// Copies bytes out of the landing area at `landing`.
///
/// # Errors
/// [`Status::OutOfBounds`].
pub(crate) fn take(area: &Segment, landing: u64, into: &mut [u8]) -> Result<(), Status> {
    area.read(narrow(landing)?, into).map_err(|_| Status::OutOfBounds)
}

/// Copies bytes into the landing area at `landing`.
///
/// # Errors
/// [`Status::OutOfBounds`].
pub(crate) fn put(area: &Segment, landing: u64, from: &[u8]) -> Result<(), Status> {
    area.write(narrow(landing)?, from).map_err(|_| Status::OutOfBounds)
}
