//! What copies bytes between a region and the landing area.
//!
//! It is the smallest part that differs between one way to memory and another.

use super::message::Export;
use crate::error::Status;
use crate::key::Access;
use crate::peer::Peer;

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

/// How far a piece has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// It is where it should be.
    All,
    /// The device works on it by itself; [`Device::ended`] tells when it has ended.
    Begun,
}

/// Copies bytes. Whoever calls it has checked that the piece may be touched; a device that fails says so
/// and leaves other regions as they are.
///
/// A device that works by itself, as a network card does, answers [`Moved::Begun`]; it takes as many pieces at once as
/// its user has room for, and tells the end of each exactly once.
pub trait Device {
    /// Opens the memory that an export names and keeps it under `place`, in place of what was there.
    ///
    /// # Errors
    /// Why it cannot be reached.
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status>;

    /// Closes what is kept under `place`. `lost` says that the owner did not take its memory back but is gone from
    /// sight, so the same memory may be exported again.
    fn detach(&mut self, place: usize, lost: bool);

    /// Moves one piece: into the landing area for [`Access::READ`], out of it for [`Access::WRITE`]. `name` is what
    /// [`ended`](Self::ended) calls it.
    ///
    /// # Errors
    /// The status with which the access ends; the owner's queue is broken then.
    fn copy(&mut self, way: Access, piece: &Piece, name: u64) -> Result<Moved, Status>;

    /// The name of a piece that was begun and has ended, and how; `None` if there is none now.
    fn ended(&mut self) -> Option<(u64, Status)> {
        None
    }

    /// Makes the queue to an owner usable again; what is under way there ends with [`Status::QueueBroken`].
    fn rebuild(&mut self, _owner: Peer) {}

    /// An owner's life is over: nothing is moved from or to it any more, and what is under way ends. Its next life may
    /// be attached.
    fn forget(&mut self, _owner: Peer) {}

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
