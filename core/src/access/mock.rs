//! A device of lent bytes: what a cross-GVMI alias does, without the card.
//!
//! The owner's memory is an array whose index is the address. Attaching makes an alias, which fails for an
//! alias number that the device was told to refuse. Copies fail when the script says so: the failure of
//! the n-th copy is a number, so a test that fails fails again.

use super::device::{Device, Moved, Piece};
use super::message::Export;
use crate::error::Status;
use crate::key::Access;
use crate::ticket::Locator;

/// When copies fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// Fail copies that touch addresses from here ...
    pub bad_from: u64,
    /// ... to before here, as if their pages were gone.
    pub bad_to: u64,
    /// Refuse to make this alias, as a card does that advertises more than it can.
    pub refused_alias: Option<u64>,
}

/// One alias; lent by the caller, one for each place of the table of regions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alias {
    base: u64,
    len: u64,
    access: Access,
}

/// The device.
#[derive(Debug)]
pub struct Mock<M, A, B> {
    memory: M,
    aliases: A,
    landing: B,
    script: Script,
    moved: u64,
}

impl<M, A, B> Mock<M, A, B>
where
    M: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[Alias]> + AsMut<[Alias]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    /// A device over an owner's memory, a table of aliases and a landing area.
    pub const fn new(memory: M, aliases: A, landing: B) -> Self {
        Mock { memory, aliases, landing, script: Script { bad_from: 0, bad_to: 0, refused_alias: None }, moved: 0 }
    }

    /// What shall fail from now on.
    pub const fn script(&mut self, script: Script) {
        self.script = script;
    }

    /// The owner's memory, as the owner sees it.
    pub fn memory(&mut self) -> &mut [u8] {
        self.memory.as_mut()
    }

    /// Bytes moved so far.
    pub const fn moved(&self) -> u64 {
        self.moved
    }
}

fn range(from: u64, len: u64) -> Result<core::ops::Range<usize>, Status> {
    let start = usize::try_from(from).map_err(|_| Status::OutOfBounds)?;
    let len = usize::try_from(len).map_err(|_| Status::OutOfBounds)?;
    Ok(start..start.checked_add(len).ok_or(Status::OutOfBounds)?)
}

impl<M, A, B> Device for Mock<M, A, B>
where
    M: AsRef<[u8]> + AsMut<[u8]>,
    A: AsRef<[Alias]> + AsMut<[Alias]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    fn attach(&mut self, place: usize, export: &Export) -> Result<(), Status> {
        let ticket = &export.ticket;
        let Locator::Fake { alias } = ticket.locator else { return Err(Status::Malformed) };
        if self.script.refused_alias == Some(alias) {
            return Err(Status::CopyFailed);
        }
        let slot = self.aliases.as_mut().get_mut(place).ok_or(Status::Full)?;
        *slot = Alias { base: ticket.base, len: ticket.len, access: ticket.access };
        Ok(())
    }

    fn detach(&mut self, place: usize, _lost: bool) {
        if let Some(slot) = self.aliases.as_mut().get_mut(place) {
            *slot = Alias::default();
        }
    }

    fn copy(&mut self, way: Access, piece: &Piece, _: u64) -> Result<Moved, Status> {
        let alias = self.aliases.as_ref().get(piece.place).copied().unwrap_or_default();
        // The card checks on its own what software checked before.
        let inside = piece.offset <= alias.len && piece.len <= alias.len - piece.offset;
        if !inside || !alias.access.contains(way) || piece.address != alias.base + piece.offset {
            return Err(Status::CopyFailed);
        }
        let end = piece.address.saturating_add(piece.len);
        if piece.address < self.script.bad_to && end > self.script.bad_from {
            return Err(Status::CopyFailed);
        }
        let (there, here) = (range(piece.address, piece.len)?, range(piece.landing, piece.len)?);
        let memory = self.memory.as_mut().get_mut(there).ok_or(Status::CopyFailed)?;
        let landing = self.landing.as_mut().get_mut(here).ok_or(Status::OutOfBounds)?;
        if way == Access::WRITE {
            memory.copy_from_slice(landing)
        } else {
            landing.copy_from_slice(memory)
        }
        self.moved += piece.len;
        Ok(Moved::All)
    }

    fn landing_len(&self) -> u64 {
        self.landing.as_ref().len() as u64
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        let from = self.landing.as_ref().get(range(landing, into.len() as u64)?).ok_or(Status::OutOfBounds)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        let to = self.landing.as_mut().get_mut(range(landing, from.len() as u64)?).ok_or(Status::OutOfBounds)?;
        to.copy_from_slice(from);
        Ok(())
    }
}
