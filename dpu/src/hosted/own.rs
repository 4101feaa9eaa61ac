//! Reading the memory of this process' own ranks.
//!
//! Bytes are copied once, from where they are to where they are wanted.

use umbra::job::DataPath;
use umbra_core::access::message::Reach;
use umbra_core::error::Status;
use umbra_core::key::Span;
use umbra_core::peer::Peer;
use umbra_core::region::Region;

use super::process::{Process, SLOT_BYTES};

/// A read of an order, of a rank of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnRead {
    pub(super) tag: u64,
    pub(super) owner: Peer,
    pub(super) address: u64,
    pub(super) len: u64,
    /// Bytes that are there.
    pub(super) done: u64,
}

/// Copies out of ranks' memory, by how the bytes were got at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copies {
    pub(super) mapped: u64,
    pub(super) process: u64,
}

impl Process {
    /// Copies bytes of a region; refused as it would be to anybody else.
    pub(super) fn copy_own(&mut self, span: Span, into: &mut [u8]) -> Result<Reach, Status> {
        let held = self.machines.agent.serve().hold_own(span)?;
        let copied = match self.sources.get(held.place()) {
            Some(source) => source.read(span.offset, held.address(), into).map(|()| source.reach()),
            None => Err(Status::OwnerGone),
        };
        self.machines.agent.serve().release_own(held);
        self.count_copy(copied.ok());
        copied
    }

    /// A copy out of a rank's memory was made.
    pub(super) fn count_copy(&mut self, reach: Option<Reach>) {
        match reach {
            Some(Reach::Process) => self.copies.process += 1,
            Some(_) => self.copies.mapped += 1,
            None => {}
        }
    }

    /// Goes on with the read that is being made, by one piece; returns its length, 0 if there is none. Whoever asks
    /// for much lets others have their turn between the pieces.
    pub(super) fn read_own_piece(&mut self) -> u64 {
        let Some(mut read) = self.own.take() else { return 0 };
        let len = (read.len - read.done).min(SLOT_BYTES);
        match self.own_piece(&read, len) {
            Ok(reach) => {
                read.done += len;
                if read.done < read.len {
                    self.own = Some(read);
                } else {
                    self.read_ended(read.tag, Status::Ok, Some((path_of(Some(reach)), true)));
                }
            }
            Err(status) => self.read_ended(read.tag, status, None),
        }
        len.max(1)
    }

    fn own_piece(&mut self, read: &OwnRead, len: u64) -> Result<Reach, Status> {
        let address = read.address + read.done;
        let region = self.own_region_at(read.owner, address)?;
        // Taken out while this process is at work on it: the bytes go straight into its buffer.
        let Some((link, mut reading)) = self.reading.take() else { return Err(Status::Interrupted) };
        let span = Span { key: region.key, offset: address - region.base, len };
        let copied = match reading.buffer(read.tag, read.done, len) {
            Some(into) => self.copy_own(span, into),
            None => Err(Status::OutOfBounds),
        };
        self.reading = Some((link, reading));
        copied
    }

    /// The region of a rank that covers an address; most often that of the read before.
    pub(super) fn own_region_at(&mut self, owner: Peer, address: u64) -> Result<Region, Status> {
        let regions = self.machines.agent.serve().regions();
        if let Some(last) = self.own_region
            && last.key.owner() == owner
            && last.covers(address)
            && regions.get(last.key) == Some(&last)
        {
            return Ok(last);
        }
        let found = regions.find(owner, address)?;
        self.own_region = Some(found);
        Ok(found)
    }
}

/// What the way to a rank's bytes is called, where they came through memory that is shared or was copied from.
pub(super) const fn path_of(reach: Option<Reach>) -> DataPath {
    match reach {
        Some(Reach::Process) => DataPath::Cma,
        Some(Reach::Rdma) => DataPath::VerbsAsked,
        _ => DataPath::Shared,
    }
}
