//! Conversations: byte streams in shared memory, from one sender to one receiver.
//!
//! An adapter has places for conversations. Whoever begins one takes a place, and writes into its ring; whoever
//! receives meets the oldest one that waits, and from then on these two are alone. *One word* a place decides all: who
//! sends, who receives, who keeps the place, and how far they are; each step is one compare-and-swap of it. So there is
//! no queue of conversations that waits and no list of idle places in which one could be lost: both are ways to look at
//! the words.
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction:
//! * a conversation has one sender and one receiver, and bytes come whole and in order;
//! * everybody else goes on; a stopped process keeps its place, and nothing more;
//! * after [`Streams::reclaim`] of a dead process its receivers read what it had sent and learn then that it died, its
//!   senders learn it at once, and each place is free again as soon as the other one has closed.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::stream::{Class, Mode, ReadError, Shape, Streams};
//! let shape = Shape { mode: Mode::Nominal, streams: 2, ring: 256, messages: 0, block: 0 };
//! let mut memory = vec![0_u64; shape.words()?];
//! let streams = Streams::create(BytesMut::from_words(&mut memory), shape)?;
//! let (me, other) = (1, 2);
//! let begun = streams.table().claim(me, Class::Stream, false).ok_or("all streams are in use")?;
//! let mut outlet = streams.outlet(begun, me).ok_or("no such place")?;
//! outlet.deposit();
//! outlet.write(b"hello ", 7, true)?;
//! outlet.write(b"you", 7, false)?;
//! streams.reclaim(me, |_| ());
//!
//! let met = streams.table().meet(other).ok_or("nobody talks")?;
//! let mut inlet = streams.inlet(met, other).ok_or("no such place")?;
//! let mut text = [0; 9];
//! let (front, rest) = text.split_at_mut(6);
//! inlet.read(front)?;
//! inlet.read(rest)?;
//! assert_eq!((&text, inlet.read(&mut [0; 9])), (b"hello you", Err(ReadError::PeerDead)), "it died before its end");
//! inlet.leave(|_| ());
//! assert_eq!(streams.table().counts().idle, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A message that is longer than a quarter of the ring is written in parts, of which each says that it goes on; so it
//! may be of any length, and is read while it is written. Memory of a pool can be sent instead of bytes: what travels
//! is a [`Reference`], and who clears away a conversation is told the references that nobody read.
//!
//! Whoever writes or reads says which number he is known by in this memory, for instance that of a member of a crew.
//! Every value read from the memory is checked where it is used: damage gives an error, or wrong bytes, never an access
//! outside or an endless loop.
//!
//! Layout, in words: magic, mode, streams, bytes of a ring, messages, bytes of a block, destroyed, 9 for the layer
//! above; event of waiting conversations, next number, 14 zero; event of free places, two hints, 13 zero; a word a
//! place; a number a place; then each place: the sender's position, event of writing, 14 zero, the receiver's position,
//! event of reading, 14 zero, ring.
//!
//! *Cost*: a conversation is five read-modify-writes of its word, shared by the two ends, and looks at the words of the
//! other places. A record written or read is one store, and a fence to tell.

mod error;
// Bytes that both sides map, beside which loom's atomics cannot lie.
#[cfg(not(loom))]
mod inlet;
mod layout;
#[cfg(not(loom))]
mod look;
#[cfg(not(loom))]
mod outlet;
#[cfg(not(loom))]
mod pipe;
mod settle;
#[cfg(not(loom))]
mod streams;
mod table;
mod word;

pub use error::{AttachError, ReadError, ShapeError, WriteError};
#[cfg(not(loom))]
pub use inlet::{Inlet, Piece};
pub use layout::{Class, Mode, PLACES_MAX, Shape};
#[cfg(not(loom))]
pub use look::{Seen, Stage};
#[cfg(not(loom))]
pub use outlet::Outlet;
#[cfg(not(loom))]
pub use pipe::{Front, Reference};
pub use settle::{End, Hearer, Outcome, Reclaimed, Speaker};
#[cfg(not(loom))]
pub use streams::Streams;
pub use table::{Conversation, Counts, Kept, Table};
