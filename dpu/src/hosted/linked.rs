//! What an agent knows of a link beside what its machines know.

use umbra::link::Party;
use umbra::shm::FrameLane;
use umbra::sys::segment::Segment;
use umbra_core::peer::Incarnation;

/// One link of an agent.
pub(super) struct Linked {
    pub(super) party: Party,
    pub(super) incarnation: Incarnation,
    pub(super) pid: Option<u32>,
    /// The peer's segment, into which its answers go.
    pub(super) theirs: Option<Segment>,
    /// Our segment, into which the peer's answers go.
    pub(super) ours: Option<Segment>,
    /// Rings in shared memory for frames about memory; used for sending once the peer can be woken.
    pub(super) lane: Option<FrameLane>,
    pub(super) wakes: bool,
}

impl Linked {
    pub(super) const fn new(party: Party, incarnation: Incarnation, pid: Option<u32>) -> Linked {
        Linked { party, incarnation, pid, theirs: None, ours: None, lane: None, wakes: false }
    }

    /// The lane, if the peer can be woken.
    pub(super) const fn awake_lane(&mut self) -> Option<&mut FrameLane> {
        if self.wakes { self.lane.as_mut() } else { None }
    }
}
