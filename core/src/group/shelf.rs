//! Where finished tables go: what the bootstrap needs of the endpoint cache.
//!
//! The one real shelf is [`Endpoints`]; the trait keeps the protocol free of how tables are laid
//! out and shared, and lets a simulation of very many service processes keep one copy of a table.

use core::fmt;

use crate::atomic::AtomicU64;
use crate::endpoints::{Endpoints, Entry, Group, GroupKey, PublishError, Shape, Table, TableBuilder};
use crate::id::{Generation, Id};
use crate::memory::Block;
use crate::peer::{PeerKind, Rank, Sp, WorldRank};

/// Why a table was not published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ShelfError {
    /// No slot or not enough memory is free; retiring a group makes a retry worth while.
    Full,
    /// The bytes are no table, or not one of this group.
    Malformed,
    /// The entries do not make a table.
    Incomplete,
}

impl fmt::Display for ShelfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShelfError::Full => "no room for the table: retire a group or lend more",
            ShelfError::Malformed => "bytes are not the table of this group",
            ShelfError::Incomplete => "entries do not make a table",
        })
    }
}
impl core::error::Error for ShelfError {}

/// The tables of full groups.
pub trait Shelf {
    /// Bytes of scratch that [`build`](Self::build) needs for a group of this shape.
    fn scratch_bytes(&self, shape: &Shape) -> usize;

    /// Builds the canonical table from one entry per rank and publishes it, in the slot `wish` if that is free.
    /// `entry_of` is asked once for every rank and may look things up in the shelf meanwhile.
    ///
    /// # Errors
    /// [`ShelfError`]; nothing is published then.
    fn build(
        &mut self,
        shape: Shape,
        generation: Generation,
        wish: u32,
        scratch: &mut [u8],
        entry_of: &mut dyn FnMut(&Self, Rank) -> Option<Entry>,
    ) -> Result<Id<Group>, ShelfError>;

    /// Checks the bytes of a table that another service process built, and publishes them.
    ///
    /// # Errors
    /// [`ShelfError`]; nothing is published then.
    fn publish(
        &mut self,
        bytes: &[u8],
        key: GroupKey,
        generation: Generation,
        wish: u32,
    ) -> Result<Id<Group>, ShelfError>;

    /// Ends the life of a table; look-ups with its handle answer `StaleGeneration` from now on.
    fn retire(&mut self, handle: Id<Group>);

    /// Length and digest of a published table's bytes.
    fn measure(&self, handle: Id<Group>) -> Option<(u32, u64)>;

    /// Copies a published table's bytes from `offset`, a multiple of eight; how many were copied.
    fn copy(&self, handle: Id<Group>, offset: u32, out: &mut [u8]) -> usize;

    /// Number of ranks of a published table.
    fn size(&self, handle: Id<Group>) -> Option<u32>;

    /// The process and the first shadow service process of a rank.
    fn entry(&self, handle: Id<Group>, rank: Rank) -> Option<(WorldRank, Sp)>;

    /// Calls `each` with every rank whose first shadow is `sp`, ascending.
    fn ranks_of(&self, handle: Id<Group>, sp: Sp, each: &mut dyn FnMut(Rank, WorldRank));
}

impl From<PublishError> for ShelfError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::NoSlot | PublishError::NoRoom(_) => ShelfError::Full,
            _ => ShelfError::Malformed,
        }
    }
}

impl<W: AsRef<[AtomicU64]>, B: AsRef<[Block]> + AsMut<[Block]>> Shelf for Endpoints<W, B> {
    fn scratch_bytes(&self, shape: &Shape) -> usize {
        shape.builder_bytes()
    }

    fn build(
        &mut self,
        shape: Shape,
        generation: Generation,
        wish: u32,
        scratch: &mut [u8],
        entry_of: &mut dyn FnMut(&Self, Rank) -> Option<Entry>,
    ) -> Result<Id<Group>, ShelfError> {
        let mut builder = TableBuilder::new(scratch, shape).map_err(|_| ShelfError::Incomplete)?;
        for rank in (0..shape.size).map(Rank) {
            let entry = entry_of(self, rank).ok_or(ShelfError::Incomplete)?;
            builder.set(rank, &entry).map_err(|_| ShelfError::Incomplete)?;
        }
        let bytes = builder.finish(generation).map_err(|_| ShelfError::Incomplete)?;
        let table = Table::attach(bytes).map_err(|_| ShelfError::Malformed)?;
        Ok(Endpoints::publish(self, &table, Some(wish))?)
    }

    fn publish(
        &mut self,
        bytes: &[u8],
        key: GroupKey,
        generation: Generation,
        wish: u32,
    ) -> Result<Id<Group>, ShelfError> {
        let table = Table::attach(bytes).map_err(|_| ShelfError::Malformed)?;
        if table.key() != key || table.generation() != generation {
            return Err(ShelfError::Malformed);
        }
        let wish = if wish == u32::MAX && !table.is_world() { table.id() } else { wish };
        Ok(Endpoints::publish(self, &table, Some(wish))?)
    }

    fn retire(&mut self, handle: Id<Group>) {
        let retired = Endpoints::retire(self, handle);
        debug_assert!(retired.is_ok(), "a table was retired twice");
    }

    fn measure(&self, handle: Id<Group>) -> Option<(u32, u64)> {
        let measured = self.reader().ok()?.read(handle, |table| (table.len_bytes(), table.checksum())).ok()?;
        Some((u32::try_from(measured.0).ok()?, measured.1))
    }

    fn copy(&self, handle: Id<Group>, offset: u32, out: &mut [u8]) -> usize {
        let reader = self.reader().ok();
        reader.and_then(|r| r.read(handle, |table| table.copy_bytes(offset as usize, out)).ok()).unwrap_or(0)
    }

    fn size(&self, handle: Id<Group>) -> Option<u32> {
        self.reader().ok()?.read(handle, Table::size).ok()
    }

    fn entry(&self, handle: Id<Group>, rank: Rank) -> Option<(WorldRank, Sp)> {
        let endpoint = self.reader().ok()?.lookup(handle, rank).ok()?;
        match endpoint.peer.kind() {
            PeerKind::Rank(world_rank) => Some((world_rank, endpoint.sp)),
            PeerKind::Service(_) => None,
        }
    }

    fn ranks_of(&self, handle: Id<Group>, sp: Sp, each: &mut dyn FnMut(Rank, WorldRank)) {
        let Ok(reader) = self.reader() else { return };
        let told = reader.read(handle, |table| {
            let Ok(index) = table.index_of(sp) else { return };
            for rank in table.ranks_of(index).into_iter().flatten() {
                // With several shadows a rank is listed with each of them; it joins at the first.
                if let (Ok(Sp(first)), Ok(world_rank)) = (table.shadow(rank, 0), table.world_rank(rank))
                    && first == sp.0
                {
                    each(rank, world_rank);
                }
            }
        });
        debug_assert!(told.is_ok(), "the one writer of an arena read a table that is not there");
    }
}
