//! What one rank tells of a run.

use std::time::Duration;

/// Where the time of a rank went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
pub struct Times {
    /// Looking at strips, and packing those that are live.
    pub pack: Duration,
    /// Handing messages to the transport.
    pub send: Duration,
    /// Waiting for neighbours.
    pub wait: Duration,
    /// Filling ghosts.
    pub set: Duration,
    /// Computing.
    pub update: Duration,
    /// Looking for what can be given back.
    pub dealloc: Duration,
    /// Dealing blocks anew.
    pub remesh: Duration,
}

/// A look at the first field: which cells of which blocks hold what.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
pub struct Frame {
    /// After so many cycles.
    pub cycle: u32,
    /// Blocks of this rank that have the field, each seen from above, row by row, in 255ths.
    pub blocks: Vec<(u32, Vec<u8>)>,
}

/// What one rank has to say.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
pub struct RankOutcome {
    /// The sum of a mixture of field, cell and bits over all cells of this rank.
    pub hash: u64,
    /// The largest magnitude.
    pub max: f64,
    /// Cells that are not zero.
    pub nonzero: u64,
    /// Cells that differ from the closed form; `None` where there is none.
    pub wrong: Option<u64>,
    /// Nanoseconds of each cycle.
    pub cycles_ns: Vec<u64>,
    /// Payload bytes of each cycle.
    pub cycle_bytes: Vec<u64>,
    /// Bytes of fields in each cycle, when they were most.
    pub cycle_field_bytes: Vec<u64>,
    /// Where the time went.
    pub times: Times,
    /// Messages, payload bytes, head bytes, live, null, overflows of the exchange.
    pub counts: [u64; 6],
    /// Bytes of fields in the end.
    pub field_bytes: u64,
    /// Times that a field became present on a block, and absent; not by moving with it.
    pub allocations: [u64; 2],
    /// Blocks that came from another rank.
    pub moved_blocks: u64,
    /// Bytes of slots: now, at most, and if they held everything.
    pub slot_bytes: [u64; 3],
    /// Bytes that the transport held, at most: to receive into, and to send from.
    pub held_bytes: [u64; 2],
    /// Bytes of messages that peers may still read, which are those of the last exchanges, as many as there are slots: now, and at
    /// most.
    pub packed_bytes: [u64; 2],
    /// The most messages that were sent in one exchange.
    pub messages_each: u64,
    /// Messages that an agent has found for this rank.
    pub attended: u64,
    /// Pictures.
    pub frames: Vec<Frame>,
}
