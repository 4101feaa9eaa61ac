//! Storage on the heap for the machine of chained calls.

use umbra_core::chain::{Config, Context, Function, Lent, Machine, Note, PeerEntry, Storage, Tomb, Waiter};
use umbra_core::map::Entry;
use umbra_core::pending::Request;

use crate::sys::heap::{NoMemory, filled, reserved};

/// Names vectors as the storage of a machine.
#[derive(Clone, Copy, Debug)]
pub enum Heap {}

impl Storage for Heap {
    type Contexts = Vec<Request<Context>>;
    type Words = Vec<u64>;
    type Peers = Vec<PeerEntry>;
    type Functions = Vec<Option<Function>>;
    type Tombs = Vec<Tomb>;
    type Answers = Vec<u8>;
    type Index = Vec<Entry<u128, u32>>;
    type Notes = Vec<Note>;
    type Waiters = Vec<Waiter>;
    type Scratch = Vec<u32>;
}

/// How much a member can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Members that may ever take part.
    pub members: u32,
    /// Calls that can be under way at once.
    pub calls: u16,
    /// Bytes of memory of each call: list, header, data, reply, and the replies of all children at once, unless they are a
    /// [rendezvous](umbra_core::chain::Mode::RENDEZVOUS).
    pub call_bytes: usize,
    /// Functions that can be registered at once.
    pub functions: u16,
    /// Calls that are remembered after their end, 2^31 at most. A request that so many later calls of its maker overtake cannot be told from
    /// one that comes again, and is refused ([`Code::ReplyGone`](umbra_core::chain::Code::ReplyGone)): take more for a member to
    /// whom one maker sends many short calls beside long ones.
    pub remembered: u32,
    /// Bytes of each remembered answer.
    pub answer_bytes: usize,
    /// Short answers that can wait to be sent, and as many who can wait for room.
    pub notes: usize,
}

impl Capacities {
    /// For so many members: 64 calls of 16 KiB, 64 functions, 256 remembered calls with answers up to 128 bytes.
    #[must_use]
    pub const fn new(members: u32) -> Capacities {
        Capacities {
            members,
            calls: 64,
            call_bytes: 16 << 10,
            functions: 64,
            remembered: 256,
            answer_bytes: 128,
            notes: 64,
        }
    }

    /// A machine with storage of this size.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn machine(&self, config: Config) -> Result<Machine<Heap>, NoMemory> {
        let Capacities { members, calls, call_bytes, functions, remembered, answer_bytes, notes } = *self;
        let (calls, members, remembered) = (usize::from(calls), members as usize, remembered as usize);
        // More than can be counted is more than there is memory for.
        let known = calls.saturating_add(remembered);
        let lent = Lent {
            contexts: reserved(calls, || Request::EMPTY)?,
            words: filled(0, calls.saturating_mul(call_bytes.div_ceil(8)))?,
            peers: reserved(members, PeerEntry::default)?,
            functions: reserved(usize::from(functions), || None)?,
            tombs: reserved(remembered, Tomb::default)?,
            answers: filled(0, remembered.saturating_mul(answer_bytes))?,
            index: reserved(known.saturating_add(known / 3 + 8), || Entry::EMPTY)?,
            notes: reserved(notes, || Note::EMPTY)?,
            waiters: reserved(notes, || Waiter::EMPTY)?,
            scratch: filled(0, members.saturating_mul(6))?,
        };
        Ok(Machine::new(config, lent))
    }
}
