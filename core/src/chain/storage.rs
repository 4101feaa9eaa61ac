//! What a machine is lent, and how it is set up.

use super::context::Context;
use super::functions::Function;
use super::machine::Machine;
use super::name::{Life, Node};
use super::notes::Note;
use super::peers::PeerEntry;
use super::room::Waiter;
use super::tombs::Tomb;
use crate::map::Entry;
use crate::pending::Request;
use crate::time::Lapse;

/// The types of the lent storage.
pub trait Storage {
    /// Calls that can be under way here at once; at most 65535 are used.
    type Contexts: AsRef<[Request<Context>]> + AsMut<[Request<Context>]>;
    /// Memory of the calls, the same for each: what a call needs must fit, or it is refused.
    type Words: AsRef<[u64]> + AsMut<[u64]>;
    /// What is known of every member; its length is the number of members.
    type Peers: AsRef<[PeerEntry]> + AsMut<[PeerEntry]>;
    /// Functions that can be registered at once.
    type Functions: AsRef<[Option<Function>]> + AsMut<[Option<Function>]>;
    /// Calls that are remembered after their end, at most 2^31; a request that so many later calls of its maker overtake is refused.
    type Tombs: AsRef<[Tomb]> + AsMut<[Tomb]>;
    /// Answers that are kept with them, the same memory for each.
    type Answers: AsRef<[u8]> + AsMut<[u8]>;
    /// Where each call is: a third more than calls and remembered calls together.
    type Index: AsRef<[Entry<u128, u32>]> + AsMut<[Entry<u128, u32>]>;
    /// Short answers that wait to be sent.
    type Notes: AsRef<[Note]> + AsMut<[Note]>;
    /// Those who were refused for lack of room and have their turn when there is some; others ask again by themselves.
    type Waiters: AsRef<[Waiter]> + AsMut<[Waiter]>;
    /// Memory to lay out trees in: six words for each member of the largest call.
    type Scratch: AsRef<[u32]> + AsMut<[u32]>;
}

/// The lent storage itself.
#[derive(Debug)]
pub struct Lent<S: Storage> {
    /// See [`Storage::Contexts`].
    pub contexts: S::Contexts,
    /// See [`Storage::Words`].
    pub words: S::Words,
    /// See [`Storage::Peers`].
    pub peers: S::Peers,
    /// See [`Storage::Functions`].
    pub functions: S::Functions,
    /// See [`Storage::Tombs`].
    pub tombs: S::Tombs,
    /// See [`Storage::Answers`].
    pub answers: S::Answers,
    /// See [`Storage::Index`].
    pub index: S::Index,
    /// See [`Storage::Notes`].
    pub notes: S::Notes,
    /// See [`Storage::Waiters`].
    pub waiters: S::Waiters,
    /// See [`Storage::Scratch`].
    pub scratch: S::Scratch,
}

/// How a machine behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Who it is.
    pub node: Node,
    /// In which life.
    pub life: Life,
    /// Classes of calls by depth, each with a place of its own; 0 if all members together never have more calls open
    /// than this one has places. Deeper trees than there are classes are refused, and with 0 those that end more than 255 levels
    /// below the maker of the outermost call.
    pub classes: u8,
    /// Calls that this member may have open itself; those within another call do not count, for that may wait for them.
    pub open_max: u16,
    /// The longest message that the transport carries, in bytes.
    pub message_max: u32,
    /// The longest header of a request that is made here or taken, in bytes.
    pub header_max: u16,
    /// How often whoever has not answered is asked. [`Lapse`] of `u64::MAX`: never, for transports that lose nothing.
    pub ask: Lapse,
    /// How soon a child that had no room is asked again unless it gives credit before; twice as long each time, up to
    /// 256 times. A place is kept four times as long for whoever was given credit; twice as long each time that he comes too
    /// late for it, up to 256 times.
    pub retry: Lapse,
    /// After how long without a sign of life a child that is asked counts as dead.
    pub silence: Lapse,
}

impl Config {
    /// Settings for a transport that loses nothing and tells who died.
    #[must_use]
    pub const fn new(node: Node, life: Life) -> Config {
        Config {
            node,
            life,
            classes: 16,
            open_max: 32,
            message_max: 64 << 10,
            header_max: 1024,
            ask: Lapse(u64::MAX),
            retry: Lapse::from_micros(500),
            silence: Lapse(u64::MAX),
        }
    }

    /// How long to wait before a child is asked again that has refused so many requests.
    pub(super) fn patience(&self, attempts: u8) -> Lapse {
        Lapse(self.retry.0.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(self.ask.0))
    }
}

/// What a machine takes at most beside the memory of its calls and answers.
///
/// This one is for 64 calls, functions and members, and remembers 256 calls: 64 KiB, whatever it is built for.
const _: () = {
    enum Arrays {}

    impl Storage for Arrays {
        type Contexts = [Request<Context>; 64];
        type Words = [u64; 0];
        type Peers = [PeerEntry; 64];
        type Functions = [Option<Function>; 64];
        type Tombs = [Tomb; 256];
        type Answers = [u8; 0];
        type Index = [Entry<u128, u32>; (64 + 256) * 4 / 3 + 1];
        type Notes = [Note; 16];
        type Waiters = [Waiter; 16];
        type Scratch = [u32; 6 * 64];
    }

    assert!(size_of::<Machine<Arrays>>() <= 64 << 10);
};
