//! Looking at channels from outside, without being a user of them: for tools.

use std::sync::Arc;

use umbra_core::atomic::Ordering::Relaxed as RELAXED;
use umbra_core::channel::ReceiveError;
use umbra_core::crew::Liveness;

use super::Kind;
use super::barrier::waiting_at;
use super::error::Error;
use super::home::Home;
use super::layout::{self, Pocket, State, View};
use super::memory::{NONE, Record};
use crate::pool::Pool;
use crate::reference::{self, Found};
use crate::sys::process::Processes;

/// What the links of descriptors of channels say.
const LINK: &str = "/memfd:umbra-channel (deleted)";

/// How a channel is, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The id that its creator chose.
    pub uid: u64,
    /// Drawn when it was made: no other channel has it.
    pub instance: u64,
    /// What it is for.
    pub kind: Kind,
    /// Bytes of its memory.
    pub bytes: usize,
    /// Messages that wait at once.
    pub capacity: u32,
    /// Bytes of a message.
    pub block: u32,
    /// How many messages wait; of a semaphore, its value.
    pub messages: u64,
    /// How many receives wait for a message.
    pub receiving: u64,
    /// The processes that do, by their pids.
    pub receivers: Vec<u32>,
    /// Whether a send may sleep until there is room.
    pub is_room_awaited: bool,
    /// How many messages were sent since it was made; 0 if that cannot be told.
    pub sent: u64,
    /// How many of them were received or removed.
    pub taken: u64,
    /// How many wait at its barrier.
    pub at_barrier: u32,
    /// Whether somebody destroyed it.
    pub is_destroyed: bool,
    /// Those who use it: pid, and whether the process lives.
    pub members: Vec<(u32, bool)>,
    /// The first message, if one waits: how long it is, the 64 bits beside it, and its first bytes.
    pub first: Option<(usize, u64, Vec<u8>)>,
}

/// Bytes of the first message that a snapshot shows.
const SHOWN: usize = 64;

impl Snapshot {
    fn of(view: &View<'_>, bytes: usize) -> Result<Snapshot, Error> {
        let queue = view.messages.queue();
        let shape = queue.shape();
        let mut shown = vec![0; SHOWN];
        let first = match view.messages.peek(&mut shown) {
            Ok(peeked) => {
                let far = Record::parse(&peeked.header, &shown).map(|record| record.len as usize);
                // What lies in a pool is not looked at.
                shown.truncate(if far.is_some() { 0 } else { peeked.len });
                Some((far.unwrap_or(peeked.len), peeked.header.hints, shown))
            }
            Err(ReceiveError::Empty | ReceiveError::Destroyed) => None,
            Err(error) => return Err(error.into()),
        };
        let is_semaphore = view.kind() != Kind::Messages;
        let (sent, taken) = queue.passed().unwrap_or_default();
        let receives = |number| view.pocket(number, Pocket::Receiving).is_some_and(|word| word.load(RELAXED) != 0);
        let receivers = view.frame.crew.members().filter(|member| receives(member.number));
        let count = view.state(State::Semaphore).load(RELAXED);
        Ok(Snapshot {
            uid: view.frame.uid(),
            instance: view.instance(),
            kind: view.kind(),
            bytes,
            capacity: shape.capacity,
            block: shape.block,
            messages: if is_semaphore { count } else { queue.len() as u64 },
            receiving: view.pockets(Pocket::Receiving),
            receivers: receivers.map(|member| member.identity.pid()).collect(),
            is_room_awaited: queue.taken().is_awaited(),
            sent,
            taken,
            at_barrier: waiting_at(view),
            is_destroyed: queue.is_destroyed(),
            members: view.frame.crew.members().map(|m| (m.identity.pid(), Processes.is_alive(m))).collect(),
            first,
        })
    }

    /// Looks at a channel where it was found.
    ///
    /// # Errors
    /// [`Error::Reference`] if it is there no more.
    pub fn at(found: Found) -> Result<Snapshot, Error> {
        Self::of_home(&Home::map(reference::open(found.process, found.descriptor)?)?)
    }

    /// Looks at the channel that a reference names.
    ///
    /// # Errors
    /// As for [`Channel::attach_reference`](super::Channel::attach_reference).
    pub fn of_reference(bytes: &[u8]) -> Result<Snapshot, Error> {
        Self::of_home(&Home::named(bytes, &NONE, |bytes| Pool::inspect_reference(bytes).map(Arc::new))?.0)
    }

    fn of_home(home: &Home) -> Result<Snapshot, Error> {
        let memory = home.memory()?;
        Self::of(&layout::attach(memory)?, memory.len())
    }
}

/// The channels that processes have mapped whose descriptors this process may look at: those of this user. Each once.
///
/// # Errors
/// What the system says if it does not show processes.
pub fn find() -> std::io::Result<Vec<Found>> {
    reference::find(LINK)
}
