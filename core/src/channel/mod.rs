//! Messages between processes, in order, in memory that they share.
//!
//! Nobody's death or stop blocks the others. A message lies in a slot; the order of messages is a ring of words that
//! name slots. A sender claims a free slot, which is one compare-and-swap that names him in the slot's word, fills it,
//! and publishes it with *one* compare-and-swap of a cell from "empty in this lap" to "full: this slot". A receiver
//! takes it with *one* compare-and-swap of the slot's word, which replaces the sender's name by his. Then the cell is
//! emptied for the next lap, by him or by whoever meets it first, and only then the slot is given back. Where the next
//! message goes or comes from is a hint; cells tell their lap themselves.
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction:
//! * a message is received whole, at most once, and the messages of one sender in the order he sent them;
//! * everybody else goes on: one who is stopped keeps the slot that he was filling or emptying, for which there are
//!   [spares](Shape::spares), and nothing more;
//! * after [`Queue::reclaim`] of a dead process all slots are usable again. Lost is only what it had not published, or
//!   had taken; what it had published will be received.
//!
//! ```
//! use umbra_core::channel::{Header, Messages, ReceiveError, Shape};
//! use umbra_core::cell::BytesMut;
//! let shape = Shape { capacity: 2, spares: 1, block: 64 };
//! let mut memory = vec![0_u64; shape.words()?];
//! let messages = Messages::create(BytesMut::from_words(&mut memory), shape)?;
//! let (me, other) = (1, 2);
//! messages.send(me, Header { hints: 7, ..Header::default() }, b"hello")?;
//! messages.queue().reclaim(me);
//! let mut pad = [0; 64];
//! let received = messages.receive(other, &mut pad)?;
//! assert_eq!((&pad[..received.len], received.header.hints), (&b"hello"[..], 7), "sent before its sender died");
//! assert_eq!(messages.receive(other, &mut pad), Err(ReceiveError::Empty));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Whoever sends or receives says which number he is known by in this memory, for instance that of a member of a crew;
//! any but `u16::MAX`, which stands for nobody.
//! Every value read from the memory is checked where it is used: damage gives an error, or wrong messages, never an
//! access outside or an endless loop.
//!
//! Invariants: let `T` be the first position whose cell is not full in its lap nor beyond, `H` the first one that is
//! not yet taken. Everything below `T` was published, without a gap, and everything below `H` taken; the hints
//! `tail <= T`, `head <= H`, and how far messages are known to be taken is `<= H`, too; `T - H <= capacity`. A slot is named
//! by at most one cell, and only while it waits, or is taken but not yet given back.
//!
//! Layout, in words: magic, capacity, slots, bytes of a block, destroyed, 11 for the layer above; hint for senders,
//! event of sending, how far messages are known to be taken, 13 zero; hint for receivers, event of receiving, 14 zero; a
//! bit a slot of where to look for a free one; one word a cell (lap, full, slot), a power of two of them, more than there
//! are slots; then each slot: its word, length and flags, hints, sender id, id of the send handle (2 words), block, filled
//! up to a line.
//!
//! *Cost*: sending is two read-modify-writes, receiving three, and a copy. While one message at a time is under way the bits
//! that say where to look are only read. Beyond that, each use of a slot clears and sets its bit at most once: one more
//! read-modify-write on either side. Lock-free.
//!
//! Source: the mailbox of this crate, with blocks of any size, any capacity and any number of processes.

// Needs the bytes of messages, as others below.
#[cfg(not(loom))]
mod disown;
mod error;
#[cfg(not(loom))]
mod form;
mod layout;
#[cfg(not(loom))]
mod loan;
#[cfg(not(loom))]
mod lost;
// Bytes that both sides map, beside which loom's atomics cannot lie.
#[cfg(not(loom))]
mod message;
#[cfg(not(loom))]
mod port;
mod queue;
mod reclaim;
mod slots;
mod word;

pub use error::{AttachError, ReceiveError, SendError, ShapeError};
#[cfg(not(loom))]
pub use form::Form;
pub use layout::Shape;
#[cfg(not(loom))]
pub use loan::{Loan, Unsent};
#[cfg(not(loom))]
pub use message::{Header, Messages, Peeked, Received, Taken};
#[cfg(not(loom))]
pub use port::{Lent, Patience, Port};
pub use queue::{Glimpse, Position, Queue, Take};
pub use reclaim::Reclaimed;
pub use slots::Claim;
