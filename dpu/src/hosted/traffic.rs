//! Frames in and out, and the copies in between.

use std::os::fd::OwnedFd;

use umbra::access::source::Source;
use umbra::admin::ops;
use umbra::driver::{self, LinkId};
use umbra::job::DataPath;
use umbra::link::{Party, SendError};
use umbra::sys::segment::Segment;
use umbra_core::access::message::{REVOKE, Reach};
use umbra_core::access::read::{Bytes, Delivery, Landed};
use umbra_core::access::serve::{self, Answer, Attach, Copy, Direction, INLINE_MAX, Reply};
use umbra_core::error::Status;
use umbra_core::group::{is_bootstrap, ops as group_ops};
use umbra_core::log;
use umbra_core::machine::{Action, Link};
use umbra_core::peer::PeerKind;
use umbra_core::ticket::Locator;
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Token};

use super::own::path_of;
use super::process::{OUTBOUND, Process};
use crate::agent::Incoming;

/// Times that every machine is asked before the links are looked at again.
const ROUNDS: usize = 16;
/// Unsent bytes behind which nothing of the bootstrap is queued for a rank: it may compute for hours and read nothing,
/// and what it does not answer is repeated.
const RANK_UNSENT: usize = 64 << 10;
/// The same for a service process, whose pieces of tables are larger. Half of what a queue takes, so that answers about
/// memory find room behind them.
const SERVICE_UNSENT: usize = OUTBOUND / 2;

impl Process {
    pub(super) fn share_arena(&mut self, link: LinkId) {
        let Ok((descriptor, len)) = self.machines.arena() else { return };
        let call = Frame::Call { op: ops::ARENA, token: Token(0), body: &len.to_le_bytes() };
        // A queue that was just created has room.
        let _ = self.driver.send(link, &call, vec![descriptor]);
    }

    pub(super) fn on_frame(&mut self, link: LinkId, frame: &Frame<'_>, mut descriptors: Vec<OwnedFd>, now: Time) {
        match self.machines.agent.on_frame(Link(link.0), frame, now) {
            Incoming::Taken => {}
            Incoming::Serve(reply) => {
                self.carry_out(reply, descriptors.pop());
                if let &Frame::Call { op: REVOKE, body, .. } = frame {
                    self.recall(body);
                }
            }
            Incoming::Delivered(delivery) => self.on_delivery(&delivery),
            Incoming::Fetch(asker, fetch) => self.on_fetch(asker, fetch),
            Incoming::Foreign => self.on_admin(link, frame, descriptors),
        }
    }

    /// Answers a frame that asks for a short read of memory that this process reaches itself; false if it is another.
    pub(super) fn read_now(&mut self, link: LinkId, frame: &Frame<'_>) -> bool {
        let Process { machines, sources, rdma, links, .. } = self;
        let Some(landing) = links.get(&link).and_then(|linked| linked.theirs.as_ref()) else { return false };
        let mut reach = None;
        let answer = machines.agent.serve().read_now(Link(link.0), frame, |piece| {
            if rdma.is_exposed(piece.place) {
                return None;
            }
            let status = sources.land(piece, landing);
            reach = sources.get(piece.place).map(Source::reach).filter(|_| status == Status::Ok);
            Some(status)
        });
        let Some(answer) = answer else { return false };
        self.count_copy(reach);
        self.answer(&reach.map_or(answer, |reach| answer.reached(reach)));
        true
    }

    pub(super) fn carry_out(&mut self, reply: Reply<'_>, descriptor: Option<OwnedFd>) {
        match reply {
            Reply::Answer(answer) => self.answer(&answer),
            Reply::Copy(copy) => self.copy(copy),
            Reply::Store(copy, bytes) if self.rdma.is_exposed(copy.place) => {
                self.copy_by_card(copy, Some(bytes.to_vec()));
            }
            Reply::Store(copy, bytes) => {
                let mut bytes = bytes.to_vec();
                let status = self.sources.carry_out(&copy, None, &mut bytes);
                if let Some(answer) = self.machines.agent.serve().copied(copy, status) {
                    self.answer(&answer);
                }
            }
            Reply::Attach(attach) => self.attach(&attach, descriptor),
            Reply::Later => {}
        }
    }

    fn attach(&mut self, attach: &Attach, descriptor: Option<OwnedFd>) {
        self.recall_of_ended();
        if let Locator::Verbs { rkey, direct } = attach.locator {
            return self.attach_by_card(attach, rkey, direct);
        }
        // Another kind of memory may have been kept there.
        self.detach_from_card(attach.place);
        // Over TCP nobody proves a process id, and no process has the id 0.
        let pid = self.links.get(&LinkId(attach.link.0)).and_then(|l| l.pid).or(Some(0));
        let status = self.sources.attach(attach, descriptor, pid);
        let answer = self.machines.agent.serve().attached(attach, status);
        self.answer(&answer);
    }

    fn copy(&mut self, copy: Copy) {
        if self.rdma.is_exposed(copy.place) {
            return self.copy_by_card(copy, None);
        }
        let to_frame = copy.direction == Direction::ToFrame;
        let mut body = vec![0; if to_frame { copy.len.min(INLINE_MAX) as usize } else { 0 }];
        let landing = self.links.get(&LinkId(copy.link.0)).and_then(|l| l.theirs.as_ref());
        let status = self.sources.carry_out(&copy, landing, &mut body);
        let reach = self.sources.get(copy.place).map(Source::reach).filter(|_| status == Status::Ok);
        self.count_copy(reach);
        self.end_copy(copy, status, body, reach);
    }

    /// A copy was made, or could not be; `body` is what travels in the answer.
    pub(super) fn end_copy(&mut self, copy: Copy, status: Status, mut body: Vec<u8>, reach: Option<Reach>) {
        let to_frame = copy.direction == Direction::ToFrame;
        let Some(answer) = self.machines.agent.serve().copied(copy, status) else { return };
        if to_frame && answer.status == Status::Ok {
            let Answer { link, op, token, status, .. } = answer;
            body.extend(reach.map(|reach| reach as u8));
            self.send(link, &Frame::Done { op, token, status, body: &body });
        } else {
            self.answer(&reach.map_or(answer, |reach| answer.reached(reach)));
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        self.send(answer.link, &answer.frame());
    }

    pub(super) fn send(&mut self, link: Link, frame: &Frame<'_>) {
        if self.send_by_lane(LinkId(link.0), frame) {
            return;
        }
        match self.driver.send(LinkId(link.0), frame, Vec::new()) {
            Ok(()) | Err(SendError::NotUp) => {}
            // Credits bound what a peer can ask for, so a full queue is a peer that does not read: it has failed.
            Err(why) => {
                log!(warn, "link {} is dropped: {}", link.0, why);
                self.drop_link(LinkId(link.0));
            }
        }
    }

    /// Ends a link; every machine hears of it.
    pub(super) fn drop_link(&mut self, link: LinkId) {
        let party = self.links.get(&link).map(|l| l.party);
        self.driver.close(link);
        self.on_gone(link, party, driver::now());
    }

    /// Carries out what the machines want; true if they want more. Bounded, so that a long order from one side
    /// does not keep others waiting at the door.
    pub(super) fn pump(&mut self) -> bool {
        let mut buffer = std::mem::take(&mut self.scratch);
        let mut more = true;
        for _ in 0..ROUNDS {
            let now = driver::now();
            let mut idle = true;
            while let Some(action) = self.machines.agent.poll_group(now, &mut buffer) {
                idle = false;
                match action {
                    Action::Send { link, len_bytes } => self.send_bytes(link, buffer.get(..len_bytes)),
                    Action::Close { link, .. } => {
                        self.driver.flush();
                        self.drop_link(LinkId(link.0));
                    }
                    // All links are dialled from the start.
                    Action::Connect { .. } => {}
                    Action::Event(event) => self.on_group(event),
                }
            }
            while let Some(action) = self.machines.agent.poll_serve() {
                idle = false;
                match action {
                    serve::Action::Copy(copy) => self.copy(copy),
                    serve::Action::Answer(answer) => self.answer(&answer),
                    serve::Action::Detach { place, key } => {
                        // Whoever still keeps copies was not asked: its owner is gone, or it was taken by force.
                        self.recall_copies(key, true);
                        self.detach_from_card(place);
                        self.sources.detach(place);
                    }
                }
            }
            while let Some(action) = self.machines.agent.poll_read(&mut buffer) {
                idle = false;
                match action {
                    Action::Send { link, len_bytes } => self.send_bytes(link, buffer.get(..len_bytes)),
                    Action::Event(ended) => {
                        if !self.fetch_ended(&ended) {
                            self.read_ended(ended.tag, ended.outcome.err().map_or(Status::Ok, Status::from), None);
                        }
                    }
                    Action::Connect { .. } | Action::Close { .. } => {}
                }
            }
            while self.machines.agent.begin_fetch() {
                idle = false;
            }
            idle &= !self.turn_card(now);
            idle &= !self.turn_staging(now);
            idle &= !self.read_on(now);
            if idle {
                more = false;
                break;
            }
        }
        self.scratch = buffer;
        more
    }

    fn send_bytes(&mut self, link: Link, bytes: Option<&[u8]>) {
        let Some(frame) = bytes.and_then(|bytes| Frame::parse(bytes).ok()) else { return };
        if !is_bootstrap(frame.op()) {
            return self.send(link, &frame);
        }
        let link = LinkId(link.0);
        let is_rank = |party| matches!(party, Party::Peer(peer) if matches!(peer.kind(), PeerKind::Rank(_)));
        let most = match frame {
            // A sign of life tells nothing to whoever has not read what came before.
            Frame::Null { op: group_ops::PING, .. } => 0,
            _ if self.links.get(&link).is_some_and(|linked| is_rank(linked.party)) => RANK_UNSENT,
            _ => SERVICE_UNSENT,
        };
        if self.driver.unsent(link) <= most {
            // What finds no room is lost like any other message of the bootstrap: it is said again.
            let _ = self.driver.send(link, &frame, Vec::new());
        }
    }

    pub(super) fn on_delivery(&mut self, delivery: &Delivery<'_>) {
        if self.fetched(delivery) {
            return;
        }
        let path = match delivery.bytes {
            Bytes::Inline(bytes) => {
                let into = self.reading.as_mut().and_then(|(_, r)| r.buffer_of(delivery, bytes.len() as u64));
                if let Some(into) = into.filter(|into| into.len() == bytes.len()) {
                    into.copy_from_slice(bytes);
                }
                if delivery.reach == Some(Reach::Rdma) { DataPath::VerbsAsked } else { DataPath::Asked }
            }
            Bytes::Landed(landed) => {
                let ours = self.links.get(&LinkId(landed.link.0)).and_then(|l| l.ours.as_ref());
                let into = self.reading.as_mut().and_then(|(_, r)| r.buffer_of(delivery, landed.len));
                if let (Some(into), Some(ours)) = (into, ours) {
                    // A failure leaves zeros, which the digest finds.
                    let _ = take_landed(ours, &landed, into);
                }
                self.machines.agent.reader().consumed(landed);
                path_of(delivery.reach)
            }
        };
        if delivery.last {
            self.read_ended(delivery.tag, Status::Ok, Some((path, false)));
        }
    }
}

/// Copies bytes out of a slot that the machine cut out of this very segment.
pub(super) fn take_landed(segment: &Segment, landed: &Landed, into: &mut [u8]) -> Result<(), Status> {
    let offset = usize::try_from(landed.offset).map_err(|_| Status::OutOfBounds)?;
    segment.read(offset, into).map_err(|_| Status::OutOfBounds)
}
