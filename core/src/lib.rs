//! The part of Umbra that can be right or wrong, without an operating system.
//!
//! Everything here is `no_std`, allocates nothing and knows no clock: storage is lent by the caller, time
//! and randomness are arguments. The same code serves an array in firmware, a `Vec` on a host and a
//! mapped segment between processes.
//!
//! Layers, top to bottom; a module imports only from its own layer or from below:
//!
//! ```text
//! machines    bootstrap of groups, reads,          sans-I/O: frames and time in, actions out
//!             boundary exchange, chained calls
//! wire        frames, transports                   one vocabulary: Call, Offer, Null, Done
//! names       regions, keys, spans, tickets,       who may touch which bytes; who is where
//!             references, endpoints
//! tables      slots, maps, rings, channels,        bounded, stale ids are detected
//!             requests, slot caches, stencils
//! words       atomics, ids, time, events, errors
//! ```
//!
//! Rules: no panic on any input, no index that is not checked where it is used, no reference to memory
//! that another process can write.

#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, loom, crash))]
extern crate std;

pub mod access;
pub mod atomic;
pub mod barrier;
pub mod boundary;
pub mod cache;
pub mod cached_memory;
pub mod cell;
pub mod chain;
pub mod channel;
pub mod codec;
pub mod crew;
pub mod endpoints;
pub mod entry;
pub mod error;
pub mod event;
pub mod faulty;
pub mod fetch;
pub mod gateway;
pub mod group;
pub mod heap;
pub mod id;
pub mod key;
pub mod log;
pub mod loopback;
pub mod machine;
pub mod map;
pub mod memory;
pub mod peer;
pub mod pending;
pub mod placement;
pub mod reference;
pub mod region;
pub mod ring;
pub mod room;
pub mod segment;
pub mod shared_cache;
pub mod shared_slots;
pub mod slots;
pub mod stencil;
pub mod stream;
pub mod ticket;
pub mod time;
pub mod transport;
pub mod tree;
// A view of bytes that both sides map, which loom's atomics cannot be.
#[cfg(not(loom))]
pub mod window;
pub mod wire;
