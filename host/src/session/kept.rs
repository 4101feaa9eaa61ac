//! Memory that is exported, as its owner hands it over and as the session keeps it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::key::Key;

use super::SessionError;
use crate::sys::segment::{Segment, SegmentError};
use crate::verbs::{HeapRegion, Region, StillRegistered, VerbsError};

/// Memory that is exported.
#[derive(Debug)]
pub enum Exported {
    /// A segment, which service processes map.
    Segment(Segment),
    /// Bytes of the heap.
    Bytes(Vec<u8>),
}

impl Exported {
    /// Where it is in this process, and its length.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        match self {
            Exported::Segment(segment) => span_of(segment),
            Exported::Bytes(bytes) => (bytes.as_ptr() as u64, bytes.len() as u64),
        }
    }
}

/// Memory was not exported, and where it is now.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unexported {
    /// Why.
    pub error: Box<SessionError>,
    /// Whose it is.
    pub memory: Left,
}

/// In whose hands memory is that was not exported.
#[derive(Debug)]
pub enum Left {
    /// The caller's again: it is where it was, and can be exported once more.
    Back(Exported),
    /// The session keeps it, because a service process that did not answer may read it still, or an RDMA device does not forget
    /// it. [`Session::revoke`](super::Session::revoke) of this key gives it back once that has ended.
    Held(Key),
    /// Nobody's: something else holds on to it.
    Lost,
}

impl From<Option<Exported>> for Left {
    fn from(memory: Option<Exported>) -> Left {
        memory.map_or(Left::Lost, Left::Back)
    }
}

fn span_of(segment: &Segment) -> (u64, u64) {
    (segment.base().as_ptr() as u64, segment.len() as u64)
}

/// Exported memory, as the session keeps it.
#[derive(Debug)]
pub(super) enum Kept {
    /// Mapped by service processes.
    Shared(Segment),
    /// A segment that an RDMA device reads.
    Registered(Region),
    /// Read by the kernel.
    Heap(Vec<u8>),
    /// Bytes of the heap that an RDMA device reads.
    RegisteredHeap(HeapRegion),
}

impl Kept {
    /// Where it is in this process, and its length.
    pub(super) fn span(&self) -> (u64, u64) {
        match self {
            Kept::Shared(segment) => span_of(segment),
            Kept::Registered(region) => span_of(region.segment()),
            Kept::Heap(bytes) => (bytes.as_ptr() as u64, bytes.len() as u64),
            Kept::RegisteredHeap(region) => (region.address(0), region.memory().len() as u64),
        }
    }

    /// The remote key of what an RDMA device reads.
    pub(super) const fn rkey(&self) -> Option<u32> {
        match self {
            Kept::Shared(_) | Kept::Heap(_) => None,
            Kept::Registered(region) => Some(region.rkey()),
            Kept::RegisteredHeap(region) => Some(region.rkey()),
        }
    }

    /// What service processes need beside the message to map it.
    pub(super) fn descriptors(&self) -> Result<Vec<OwnedFd>, SegmentError> {
        match self {
            Kept::Shared(segment) => Ok(vec![segment.share()?]),
            Kept::Registered(_) | Kept::Heap(_) | Kept::RegisteredHeap(_) => Ok(Vec::new()),
        }
    }

    /// The owner's memory again. From here on the card refuses the key of what was registered; memory that it does not
    /// forget comes back as it is kept.
    pub(super) fn into_exported(self) -> Result<Option<Exported>, (Kept, VerbsError)> {
        match self {
            Kept::Shared(segment) => Ok(Some(Exported::Segment(segment))),
            Kept::Heap(bytes) => Ok(Some(Exported::Bytes(bytes))),
            Kept::Registered(region) => match region.close() {
                Ok(segment) => Ok(Arc::into_inner(segment).map(Exported::Segment)),
                Err(StillRegistered { region, error }) => Err((Kept::Registered(region), error)),
            },
            Kept::RegisteredHeap(region) => match region.close() {
                Ok(bytes) => Ok(Arc::into_inner(bytes).map(Exported::Bytes)),
                Err(StillRegistered { region, error }) => Err((Kept::RegisteredHeap(region), error)),
            },
        }
    }
}
