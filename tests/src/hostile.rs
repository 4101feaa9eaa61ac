//! Everything that reads foreign bytes, behind one kind of function.
//!
//! Bytes from another process are allegations. Each [`Target`] takes any bytes at all, feeds them to one reader and
//! asserts what must hold whatever they are: no panic, no value that does not survive a round trip, no work
//! beyond what the input's length allows. The coverage-guided targets in `tests/fuzz` call these functions, and the
//! tests of this package run each on a million inputs of [`Inputs`], so both check the same properties.
//!
//! ```
//! use umbra_tests::hostile::{Inputs, TARGETS};
//!
//! let frame = TARGETS.iter().find(|target| target.name == "frame").unwrap();
//! let mut inputs = Inputs::new(1, (frame.seeds)());
//! (0..1000).for_each(|_| (frame.feed)(inputs.advance()));
//! ```

mod array;
mod bodies;
mod border;
mod chain;
mod descriptor;
mod entries;
mod fabric;
mod firmware;
mod frame;
mod gateway;
mod head;
mod inputs;
mod link;
mod manifest;
mod messages;
mod ranges;
mod reference;
mod running;
mod shared;
mod stream;
mod table;
mod texts;
mod ticket;

pub use inputs::Inputs;

/// A reader of foreign bytes, and valid bytes to start from.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What is read, in one word; also the name of the fuzz target.
    pub name: &'static str,
    /// Valid inputs, for mutation; the reader accepts each.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds bytes to the reader; panics if a property does not hold.
    pub feed: fn(&[u8]),
}

/// All readers of foreign bytes.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", seeds: frame::seeds, feed: frame::feed },
    Target { name: "ticket", seeds: ticket::seeds, feed: ticket::feed },
    Target { name: "reference", seeds: reference::seeds, feed: reference::feed },
    Target { name: "gateway", seeds: gateway::seeds, feed: gateway::feed },
    Target { name: "descriptor", seeds: descriptor::seeds, feed: descriptor::feed },
    Target { name: "entries", seeds: entries::seeds, feed: entries::feed },
    Target { name: "link", seeds: link::seeds, feed: link::feed },
    Target { name: "segment", seeds: shared::segment_seeds, feed: shared::segment_feed },
    Target { name: "slots", seeds: shared::slots_seeds, feed: shared::slots_feed },
    Target { name: "cache", seeds: shared::cache_seeds, feed: shared::cache_feed },
    Target { name: "ring", seeds: shared::ring_seeds, feed: shared::ring_feed },
    Target { name: "mailbox", seeds: shared::mailbox_seeds, feed: shared::mailbox_feed },
    Target { name: "channel", seeds: shared::channel_seeds, feed: shared::channel_feed },
    Target { name: "stream", seeds: stream::seeds, feed: stream::feed },
    Target { name: "table", seeds: table::seeds, feed: table::feed },
    Target { name: "arena", seeds: table::arena_seeds, feed: table::arena_feed },
    Target { name: "ranges", seeds: ranges::seeds, feed: ranges::feed },
    Target { name: "group", seeds: messages::group_seeds, feed: messages::group_feed },
    Target { name: "access", seeds: messages::access_seeds, feed: messages::access_feed },
    Target { name: "firmware", seeds: firmware::seeds, feed: firmware::feed },
    Target { name: "service", seeds: running::service_seeds, feed: running::service_feed },
    Target { name: "member", seeds: running::member_seeds, feed: running::member_feed },
    Target { name: "border", seeds: border::seeds, feed: border::feed },
    Target { name: "chain", seeds: chain::seeds, feed: chain::feed },
    Target { name: "serve", seeds: running::serve_seeds, feed: running::serve_feed },
    Target { name: "heap", seeds: shared::heap_seeds, feed: shared::heap_feed },
    Target { name: "bodies", seeds: bodies::seeds, feed: bodies::feed },
    Target { name: "texts", seeds: texts::seeds, feed: texts::feed },
    Target { name: "array", seeds: array::seeds, feed: array::feed },
    Target { name: "manifest", seeds: manifest::seeds, feed: manifest::feed },
    Target { name: "fabric", seeds: fabric::seeds, feed: fabric::feed },
    Target { name: "head", seeds: head::seeds, feed: head::feed },
];

/// Feeds bytes to the target of this name; for the fuzz targets, which know only a name.
///
/// # Panics
/// If a property does not hold, or there is no such target.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target is called {name}")).feed)(bytes);
}
