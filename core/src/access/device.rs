//! What copies bytes between a region and the landing area: the smallest part that differs between one way
//! to memory and another.

use crate::error::Status;
use crate::key::Access;
use crate::ticket::Ticket;

/// One piece of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where the region was attached.
    pub place: usize,
    /// First byte within the region.
    pub offset: u64,
    /// First byte in the owner's address space.
    pub address: u64,
    /// First byte within the landing area.
    pub landing: u64,
    /// Bytes.
    pub len: u64,
}

/// Copies bytes. Whoever calls it has checked that the piece may be touched; a device that fails says so
/// and leaves other regions as they are.
pub trait Device {
    /// Opens the memory that a ticket names and keeps it under `place`, in place of what was there.
    ///
    /// # Errors
    /// Why it cannot be reached.
    fn attach(&mut self, place: usize, ticket: &Ticket) -> Result<(), Status>;

    /// Closes what is kept under `place`.
    fn detach(&mut self, place: usize);

    /// Moves one piece: into the landing area for [`Access::READ`], out of it for [`Access::WRITE`].
    ///
    /// # Errors
    /// The status with which the access ends; the owner's queue is broken then.
    fn copy(&mut self, way: Access, piece: &Piece) -> Result<(), Status>;

    /// Bytes of the landing area.
    fn landing_len(&self) -> u64;

    /// Copies bytes out of the landing area.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`].
    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status>;

    /// Copies bytes into the landing area.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`].
    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status>;
}
