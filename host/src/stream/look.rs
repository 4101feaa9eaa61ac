//! Looking at streams from outside, without using them: for tools.

use umbra_core::atomic::Ordering;
use umbra_core::crew::Liveness;
use umbra_core::stream::{Counts, Seen, Shape};

use super::error::Error;
use super::layout::{self, State, View};
use super::memory::Pools;
use super::reference::{map, named};
use crate::reference::{self, Found};
use crate::sys::process::Processes;

/// What the links of descriptors of adapters say.
const LINK: &str = "/memfd:umbra-stream (deleted)";

/// How an adapter is, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The id that its creator chose.
    pub uid: u64,
    /// Drawn when it was made: no other adapter has it.
    pub instance: u64,
    /// What it has room for.
    pub shape: Shape,
    /// Bytes of its memory.
    pub bytes: usize,
    /// How many places are what.
    pub counts: Counts,
    /// Tasks that are not done, if it counts them.
    pub tasks: Option<u64>,
    /// How many waits spin.
    pub spinning: u64,
    /// Whether somebody destroyed it.
    pub is_destroyed: bool,
    /// Those who use it: number, pid, and whether the process lives.
    pub members: Vec<(u16, u32, bool)>,
    /// Its places, streams first.
    pub places: Vec<Seen>,
}

impl Snapshot {
    fn of(view: &View<'_>, bytes: usize) -> Snapshot {
        let table = view.streams.table();
        let members = view.frame.crew.members().map(|m| (m.number, m.identity.pid(), Processes.is_alive(m)));
        Snapshot {
            uid: view.frame.uid(),
            instance: view.instance(),
            shape: table.shape(),
            bytes,
            counts: table.counts(),
            tasks: view.has_tasks().then(|| view.state(State::Tasks).load(Ordering::Relaxed)),
            spinning: view.spinning(),
            is_destroyed: table.is_destroyed(),
            members: members.collect(),
            places: (0..).map_while(|place| view.streams.look(place)).collect(),
        }
    }

    /// Looks at an adapter where it was found.
    ///
    /// # Errors
    /// [`Error::Reference`] if it is there no more.
    pub fn at(found: Found) -> Result<Snapshot, Error> {
        let segment = map(reference::open(found.process, found.descriptor)?)?;
        Ok(Self::of(&layout::attach(segment.bytes_mut()?, &Pools::default(), u16::MAX)?, segment.len()))
    }

    /// Looks at the adapter that a reference names.
    ///
    /// # Errors
    /// As for [`Adapter::attach_reference`](super::Adapter::attach_reference).
    pub fn of_reference(bytes: &[u8]) -> Result<Snapshot, Error> {
        let segment = named(bytes)?;
        Ok(Self::of(&layout::attach(segment.bytes_mut()?, &Pools::default(), u16::MAX)?, segment.len()))
    }
}

/// The adapters that processes have mapped whose descriptors this process may look at: those of this user. Each once.
///
/// # Errors
/// What the system says if it does not show processes.
pub fn find() -> std::io::Result<Vec<Found>> {
    reference::find(LINK)
}
