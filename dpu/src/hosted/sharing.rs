//! Memory that two agents of one machine share: segments and lanes.
//!
//! Segments are for answers, and lanes carry frames beside the link. Whoever dialled makes the lane. Each side lends
//! the other a segment into which the other's copies for it go, and the means to wake it; a side that has both sends
//! its requests and answers about memory through the lane, one cache line each. All else stays on the link, and so does
//! what finds the lane full.

use std::os::fd::OwnedFd;

use umbra::admin::ops;
use umbra::driver::LinkId;
use umbra::shm::{FrameLane, SendError};
use umbra::sys::segment::{Mapping, Segment};
use umbra::sys::wait::Ringer;
use umbra_core::access::read::Landing;
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::peer::{Peer, PeerKind, Sp};
use umbra_core::wire::{Frame, Token};

use super::error::ProcessError;
use super::linked::Linked;
use super::process::{LANDING, Process, SLOT_BYTES, SLOTS};
use crate::agent::{Incoming, is_access};

/// Frames that fit into each direction of a lane.
const LINES: usize = 64;
/// Frames taken from one lane before it is another one's turn.
const BATCH: usize = 16;

impl Process {
    /// Lends the peer a segment for its answers, and a lane if this side dialled.
    pub(super) fn lend(&mut self, link: LinkId, sp: Sp, dialled: bool) -> Result<(), ProcessError> {
        let segment = Segment::create("umbra-landing", LANDING as usize)?;
        let [event, word] = self.bell.parts()?;
        let mut descriptors = vec![segment.share()?, event, word];
        let lane = if dialled { Some(FrameLane::create(LINES)?) } else { None };
        if let Some(lane) = &lane {
            descriptors.push(lane.share()?);
        }
        let call = Frame::Call { op: ops::LEND, token: Token(0), body: &LANDING.to_le_bytes() };
        if self.driver.send(link, &call, descriptors).is_err() {
            return Ok(());
        }
        let landing = Landing::Segment { slots: SLOTS, slot_bytes: SLOT_BYTES };
        if self.machines.agent.reader().on_link(Link(link.0), sp, landing).is_ok()
            && let Some(linked) = self.links.get_mut(&link)
        {
            linked.ours = Some(segment);
            linked.lane = lane;
            if linked.lane.is_some() {
                self.lanes.push(link);
            }
        }
        Ok(())
    }

    /// The peer lends what [`lend`](Self::lend) sends; anything else ends the link.
    pub(super) fn on_lend(&mut self, link: LinkId, peer: Peer, body: &[u8], descriptors: Vec<OwnedFd>) {
        if self.take_loan(link, peer, body, descriptors).is_none() {
            log!(warn, "link {}: {} lends memory that cannot be used", link.0, peer);
            self.drop_link(link);
        }
    }

    fn take_loan(&mut self, link: LinkId, peer: Peer, body: &[u8], descriptors: Vec<OwnedFd>) -> Option<()> {
        let PeerKind::Service(_) = peer.kind() else { return None };
        if u64::from_le_bytes(body.try_into().ok()?) != LANDING {
            return None;
        }
        let mut descriptors = descriptors.into_iter();
        let segment = Segment::attach(descriptors.next()?, Mapping::ReadWrite, LANDING as usize).ok()?;
        let ringer = Ringer::attach([descriptors.next()?, descriptors.next()?]).ok()?;
        let linked = self.links.get_mut(&link)?;
        match (&mut linked.lane, descriptors.next()) {
            (Some(lane), None) => lane.wakes(ringer),
            (none @ None, Some(descriptor)) => {
                let mut lane = FrameLane::attach(descriptor, LINES).ok()?;
                lane.wakes(ringer);
                *none = Some(lane);
                self.lanes.push(link);
            }
            _ => return None,
        }
        linked.wakes = true;
        linked.theirs = Some(segment);
        let incarnation = linked.incarnation;
        self.machines.agent.on_landing(Link(link.0), peer, incarnation, LANDING).ok()
    }

    /// Sends a frame about memory through the lane of a link, if there is one and it has room.
    pub(super) fn send_by_lane(&mut self, link: LinkId, frame: &Frame<'_>) -> bool {
        if !is_access(frame.op()) {
            return false;
        }
        let lane = self.links.get_mut(&link).and_then(Linked::awake_lane);
        match lane.map(|lane| lane.send(frame)) {
            Some(Ok(())) => true,
            Some(Err(SendError::Damaged)) => {
                log!(warn, "link {} is dropped: its peer damaged the cells in shared memory", link.0);
                self.drop_link(link);
                true
            }
            _ => false,
        }
    }

    /// Takes frames off the lanes; true if there were any.
    pub(super) fn take_cells(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.lanes.len() {
            let Some(&link) = self.lanes.get(at) else { break };
            for _ in 0..BATCH {
                let lane = self.links.get_mut(&link).and_then(|linked| linked.lane.as_mut());
                let Some(cell) = lane.and_then(FrameLane::receive) else { break };
                any = true;
                let now = umbra::driver::now();
                match cell.frame() {
                    Ok(frame) if self.read_now(link, &frame) => {}
                    Ok(frame) if is_access(frame.op()) => {
                        match self.machines.agent.on_frame(Link(link.0), &frame, now) {
                            Incoming::Serve(reply) => self.carry_out(reply, None),
                            Incoming::Delivered(delivery) => self.on_delivery(&delivery),
                            Incoming::Fetch(asker, fetch) => self.on_fetch(asker, fetch),
                            Incoming::Taken | Incoming::Foreign => {}
                        }
                    }
                    _ => {
                        log!(
                            warn,
                            "link {} is dropped: a cell in shared memory holds nothing that belongs there",
                            link.0
                        );
                        self.drop_link(link);
                        break;
                    }
                }
            }
        }
        any
    }
}
