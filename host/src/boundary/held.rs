//! Memory of an exchange: what a rank announces, and what its transport holds.
//!
//! A transport may hold more than its rank announces: pages are whole, and memory that a library reaches may have one
//! size for ever. docs/boundary.md says which transport does.

use super::tasks::Boundary;
use super::transport::Transport;

/// Bytes of memory that an end of a transport holds at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// To receive into: slots, and what was fetched because it did not fit there.
    pub receive: u64,
    /// To send from: messages that are packed before they are carried, and what did not fit into a slot and is kept for its
    /// receiver.
    pub send: u64,
}

impl<T: Transport> Boundary<T> {
    /// Bytes of slots that peers may fill at this moment, and the same if every slot held everything: what this rank has announced,
    /// and not [what is held](Self::held).
    #[must_use]
    pub fn receive_bytes(&self) -> (u64, u64) {
        let slots = u64::from(self.machine.config().slots);
        let peers = self.machine.peers().iter();
        peers.fold((0, 0), |(now, dense), peer| {
            (now + slots * u64::from(peer.slot_bytes()), dense + slots * u64::from(peer.dense_bytes()))
        })
    }

    /// Bytes of memory that the transport holds for this rank at this moment, if it says so. It is not for each exchange: some
    /// transports ask the system.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        self.transport.held()
    }
}
