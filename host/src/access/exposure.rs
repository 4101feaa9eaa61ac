//! What an owner of memory keeps while others may reach it over RDMA.
//!
//! Registered memory, with remote keys, and a queue pair for each service process that reads it. The owner does nothing
//! while it is read; it has to be there only when a service process connects, or connects again after its queue pair
//! broke. What one of them breaks disturbs no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use umbra_core::key::Access;
use umbra_core::peer::Sp;

use crate::sys::segment::Segment;
use crate::verbs::{Address, Choice, Depths, Domain, HeapRegion, Port, Queue, Region, VerbsError};

/// Queue pairs that one process keeps for others, and the domain of its registered memory.
#[derive(Debug)]
pub struct Exposure {
    readers: BTreeMap<Sp, Queue>,
    domain: Arc<Domain>,
    port: Port,
}

/// The port that a process speaks through if nobody chose one.
///
/// # Errors
/// As [`Choice::open`].
pub fn any_port() -> Result<Port, VerbsError> {
    Choice::open(None)
}

impl Exposure {
    /// Nothing is exposed yet; readers come in through this port.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the device has no protection domain left.
    pub fn new(port: &Port) -> Result<Exposure, VerbsError> {
        Ok(Exposure { readers: BTreeMap::new(), domain: Domain::new(&port.device)?, port: port.clone() })
    }

    /// Registers a segment for what others may do with it. When the region is dropped, the card refuses its key.
    ///
    /// # Errors
    /// [`VerbsError::LockedMemory`] if it cannot be pinned, or [`VerbsError::Call`].
    pub fn register(&self, segment: Arc<Segment>, access: Access) -> Result<Region, VerbsError> {
        Region::register(&self.domain, segment, access)
    }

    /// Registers bytes of the heap, which others may read, and only that.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_bytes(&self, bytes: impl Into<Arc<Vec<u8>>>) -> Result<HeapRegion, VerbsError> {
        HeapRegion::register_bytes(&self.domain, bytes)
    }

    /// A reader tells the address of its queue pair, for the first time or because it made it anew; what to tell it.
    ///
    /// # Errors
    /// [`VerbsError`] if the device lacks room, or the address cannot be reached; the reader is not connected then.
    pub fn connect(&mut self, reader: Sp, address: &Address) -> Result<Address, VerbsError> {
        // Taken out: one that cannot be connected is not kept.
        let mut queue = match self.readers.remove(&reader) {
            Some(mut queue) => {
                queue.reset()?;
                queue
            }
            None => Queue::new(&self.domain, &self.port, Depths { work: 1, receives: 1 })?,
        };
        queue.connect(address)?;
        let ours = queue.address();
        self.readers.insert(reader, queue);
        Ok(ours)
    }

    /// Cuts a reader off.
    pub fn disconnect(&mut self, reader: Sp) {
        self.readers.remove(&reader);
    }

    /// Who is connected.
    pub fn readers(&self) -> impl ExactSizeIterator<Item = Sp> + '_ {
        self.readers.keys().copied()
    }
}
