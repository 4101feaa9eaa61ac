//! Adapters as bytes, to hand to any process of this user, also through a stream.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra_core::reference::{Object, Place, Reference};

use super::Adapter;
use super::error::Error;
use super::layout;
use super::memory::Pools;
use crate::pool::Pool;
use crate::reference;
use crate::sys::host;
use crate::sys::process::ProcessId;
use crate::sys::segment::{Mapping, Segment, SegmentError};

/// The memory behind a descriptor.
pub(super) fn map(descriptor: OwnedFd) -> Result<Segment, Error> {
    let size = rustix::fs::fstat(&descriptor).map_err(SegmentError::Descriptor)?.st_size;
    Ok(Segment::attach(descriptor, Mapping::ReadWrite, usize::try_from(size).unwrap_or(0))?)
}

/// The memory that a reference names.
pub(super) fn named(bytes: &[u8]) -> Result<Segment, Error> {
    let named = reference::parse_local(bytes)?;
    let (Object::Streams, Place::Process { pid, start, files: [file, 0] }) = (named.object, named.place) else {
        return Err(reference::Error::WrongObject.into());
    };
    let segment = map(reference::open(ProcessId { pid, start }, file)?)?;
    let instance = layout::attach(segment.bytes_mut()?, &Pools::default(), u16::MAX)?.instance();
    if instance != named.instance || segment.len() as u64 != named.bytes {
        return Err(reference::Error::Replaced.into());
    }
    Ok(segment)
}

impl Adapter {
    /// The bytes by which any process of this user on this host [attaches](Self::attach_reference), as long as this
    /// process lives and keeps the handle.
    ///
    /// # Errors
    /// [`Error::Destroyed`], [`Error::Damaged`].
    pub fn reference(&self) -> Result<Vec<u8>, Error> {
        // In a forked child too: the descriptors are its own.
        let (view, segment) = (self.0.view()?, &self.0.segment);
        if view.streams.table().is_destroyed() {
            return Err(Error::Destroyed);
        }
        let place = reference::at_descriptors([segment.number()?, 0])?;
        let (instance, uid, bytes) = (view.instance(), view.frame.uid(), segment.len() as u64);
        let object = Object::Streams;
        Ok(reference::to_bytes(&Reference { host: host::id(), instance, uid, bytes, object, place })?)
    }

    /// Uses the adapter that the bytes of a [reference](Self::reference) name, with memory of these pools.
    ///
    /// # Errors
    /// [`Error::Reference`] if they name none, or one that is gone; otherwise as for [`attach`](Self::attach).
    pub fn attach_reference(bytes: &[u8], pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Adapter, Error> {
        Self::used(named(bytes)?, Pools::new(pools)?)
    }
}
