//! What a service process keeps of its ranks' memory, and copies from there.
//!
//! The [`Serve`](umbra_core::access::serve::Serve) machine decides what may be copied; [`Sources`] is its
//! driver's half: it maps what an export names, keeps it under the place that the machine chose, and
//! carries out copies. A copy is one `memcpy` from a mapped segment or one system call from a heap, right
//! into the asker's landing segment or the answer's frame.
//!
//! A source that fails is the failure of its region alone: the others are copied as before.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::access::device::Piece;
use umbra_core::access::message::Reach;
use umbra_core::access::serve::{Attach, Copy, Direction};
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::ticket::Locator;

use crate::sys::peer_memory::{CopyError, PeerMemory};
use crate::sys::process::{ProcessError, ProcessId};
use crate::sys::segment::{Mapping, Segment, SegmentError};

/// The way to one region's bytes.
#[derive(Clone, Debug)]
pub enum Source {
    /// Shared memory, mapped here; the region begins at `offset`.
    Mapped {
        /// The segment.
        segment: Arc<Segment>,
        /// Where the region begins in it.
        offset: usize,
    },
    /// The heap of a process on this machine.
    Heap(Arc<PeerMemory>),
}

/// What an asker must be told when the operating system refused a copy.
#[must_use]
pub fn status_of(error: &CopyError) -> Status {
    match error {
        CopyError::Gone(_) => Status::OwnerGone,
        CopyError::NotPermitted(_) => Status::PermissionDenied,
        _ => Status::CopyFailed,
    }
}

fn out_of_segment(_: SegmentError) -> Status {
    Status::OutOfBounds
}

impl Source {
    /// Opens the memory that a locator names. `descriptor` is what came with the ticket; `access` what the
    /// region may be used for; `pid` the process that the link itself proved, if it is known: a rank may
    /// name no other.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn open(
        locator: Locator,
        access: Access,
        descriptor: Option<OwnedFd>,
        pid: Option<u32>,
    ) -> Result<Source, Status> {
        match locator {
            Locator::Segment { offset, size, .. } => {
                let mapping = if access.contains(Access::WRITE) { Mapping::ReadWrite } else { Mapping::ReadOnly };
                let size = usize::try_from(size).map_err(|_| Status::OutOfBounds)?;
                let offset = usize::try_from(offset).map_err(|_| Status::OutOfBounds)?;
                let segment = Segment::attach(descriptor.ok_or(Status::Malformed)?, mapping, size).map_err(
                    |error| match error {
                        SegmentError::TooSmall { .. } => Status::OutOfBounds,
                        SegmentError::NotSealed => Status::Malformed,
                        _ => Status::CopyFailed,
                    },
                )?;
                Ok(Source::Mapped { segment: Arc::new(segment), offset })
            }
            Locator::Process { pid: named, start } => {
                if pid.is_some_and(|pid| pid != named) {
                    return Err(Status::PermissionDenied);
                }
                let memory = PeerMemory::open(ProcessId { pid: named, start }).map_err(|error| match error {
                    ProcessError::Gone(_) => Status::OwnerGone,
                    _ => Status::CopyFailed,
                })?;
                Ok(Source::Heap(Arc::new(memory)))
            }
            _ => Err(Status::Malformed),
        }
    }

    /// How the bytes are got at.
    #[must_use]
    pub const fn reach(&self) -> Reach {
        match self {
            Source::Mapped { .. } => Reach::Mapped,
            Source::Heap(_) => Reach::Process,
        }
    }

    /// Copies from the region into bytes of this process.
    ///
    /// # Errors
    /// The status to answer with.
    #[inline]
    pub fn read(&self, offset: u64, address: u64, into: &mut [u8]) -> Result<(), Status> {
        match self {
            Source::Mapped { segment, offset: start } => {
                segment.read(at(*start, offset)?, into).map_err(out_of_segment)
            }
            Source::Heap(memory) => memory.read(address, into).map_err(|e| status_of(&e)),
        }
    }

    /// Copies bytes of this process into the region.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn write(&self, offset: u64, address: u64, from: &[u8]) -> Result<(), Status> {
        match self {
            Source::Mapped { segment, offset: start } => {
                segment.write(at(*start, offset)?, from).map_err(out_of_segment)
            }
            Source::Heap(memory) => memory.write(address, from).map_err(|e| status_of(&e)),
        }
    }

    /// Copies from the region into a segment.
    ///
    /// # Errors
    /// The status to answer with.
    #[inline(always)]
    pub fn read_into(&self, offset: u64, address: u64, to: &Segment, landing: u64, len: u64) -> Result<(), Status> {
        let (landing, len) = (narrow(landing)?, narrow(len)?);
        match self {
            Source::Mapped { segment, offset: start } => {
                segment.copy(at(*start, offset)?, to, landing, len).map_err(out_of_segment)
            }
            Source::Heap(memory) => memory.read_into(address, to, landing, len).map_err(|e| status_of(&e)),
        }
    }

    /// Copies from a segment into the region.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn write_from(&self, offset: u64, address: u64, from: &Segment, landing: u64, len: u64) -> Result<(), Status> {
        let (landing, len) = (narrow(landing)?, narrow(len)?);
        match self {
            Source::Mapped { segment, offset: start } => {
                from.copy(landing, segment, at(*start, offset)?, len).map_err(out_of_segment)
            }
            Source::Heap(memory) => memory.write_from(address, from, landing, len).map_err(|e| status_of(&e)),
        }
    }
}

#[inline]
fn narrow(word: u64) -> Result<usize, Status> {
    usize::try_from(word).map_err(|_| Status::OutOfBounds)
}

#[inline]
fn at(start: usize, offset: u64) -> Result<usize, Status> {
    start.checked_add(narrow(offset)?).ok_or(Status::OutOfBounds)
}

/// The sources of one server, by the places of its table of regions.
#[derive(Debug, Default)]
pub struct Sources {
    places: Vec<Option<Source>>,
}

impl Sources {
    /// Room for a table of regions of `capacity` places.
    #[must_use]
    pub fn new(capacity: usize) -> Sources {
        Sources { places: vec![None; capacity] }
    }

    /// Maps what an export names; see [`Source::open`]. Returns the status for
    /// [`Serve::attached`](umbra_core::access::serve::Serve::attached).
    #[must_use]
    pub fn attach(&mut self, attach: &Attach, descriptor: Option<OwnedFd>, pid: Option<u32>) -> Status {
        let Some(place) = self.places.get_mut(attach.place) else { return Status::Full };
        *place = None;
        match Source::open(attach.locator, attach.region.access, descriptor, pid) {
            Ok(source) => {
                *place = Some(source);
                Status::Ok
            }
            Err(status) => status,
        }
    }

    /// Unmaps what is kept under a place.
    pub fn detach(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place) {
            *place = None;
        }
    }

    /// What is kept under a place.
    #[inline]
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Source> {
        self.places.get(place)?.as_ref()
    }

    /// Copies a piece of a region into the segment that its asker lends, for
    /// [`Serve::read_now`](umbra_core::access::serve::Serve::read_now).
    #[inline(always)]
    #[must_use]
    pub fn land(&self, piece: &Piece, landing: &Segment) -> Status {
        let Some(source) = self.get(piece.place) else { return Status::OwnerGone };
        let moved = source.read_into(piece.offset, piece.address, landing, piece.landing, piece.len);
        moved.err().unwrap_or(Status::Ok)
    }

    /// Carries out a copy. `landing` is the segment that the asker of the copy's link lends, `frame` the
    /// bytes that an inline copy fills or takes. Returns the status for
    /// [`Serve::copied`](umbra_core::access::serve::Serve::copied).
    #[inline(always)]
    #[must_use]
    pub fn carry_out(&self, copy: &Copy, landing: Option<&Segment>, frame: &mut [u8]) -> Status {
        let Some(source) = self.get(copy.place) else { return Status::OwnerGone };
        let inline = narrow(copy.len).ok().and_then(|len| frame.get_mut(..len));
        let moved = match (copy.direction, landing, inline) {
            (Direction::ToLanding, Some(to), _) => {
                source.read_into(copy.offset, copy.address, to, copy.landing, copy.len)
            }
            (Direction::FromLanding, Some(from), _) => {
                source.write_from(copy.offset, copy.address, from, copy.landing, copy.len)
            }
            (Direction::ToFrame, _, Some(bytes)) => source.read(copy.offset, copy.address, bytes),
            (Direction::FromFrame, _, Some(bytes)) => source.write(copy.offset, copy.address, bytes),
            _ => Err(Status::Malformed),
        };
        moved.err().unwrap_or(Status::Ok)
    }
}
