//! The transport over RDMA: frames by SEND, spans by READ and WRITE.
//!
//! Each peer has two queue pairs: one for frames, and one for spans. An access that the peer's card refuses breaks only
//! the pair for spans: what was posted behind it ends with [`Status::QueueBroken`], frames go on, and after
//! [`rebuild`](Verbs::rebuild) on both sides spans do too. A peer that is silent is asked for a sign of life, which its
//! card gives without its process; when the card does not answer either, the peer is gone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::Peer;
use umbra_core::transport::{Caps, Event, PostError, Transport, Work as Task};
use umbra_core::wire::Token;

use super::address::Address;
use super::hello::Hello;
use super::lane::{Lane, SendError};
use super::memory::{Domain, Region};
use super::queue::{Depths, Queue};
use super::work::{Piece, Remote, Work};
use super::{Port, VerbsError};
use crate::shm::CELL;
use crate::windows::Windows;

/// Polls between two looks at the clock.
const LOOK: u32 = 1 << 6;
/// Bytes of one span, at most: what every device takes in one piece.
const SPAN_MAX: u64 = 1 << 30;

/// How a window is reached.
#[derive(Debug)]
enum Way {
    Ours(Arc<Region>, usize),
    Theirs(Remote),
}

#[derive(Debug)]
struct Partner {
    lane: Lane,
    spans: Queue,
    /// Spans under way, in the order of their posts, which is that of their ends.
    under_way: VecDeque<Token>,
}

/// Frames and spans between this process and others that a network card reaches.
#[derive(Debug)]
pub struct Verbs {
    me: Peer,
    domain: Arc<Domain>,
    port: Port,
    partners: HashMap<Peer, Partner>,
    windows: Windows<Way>,
    /// Ends of spans that no completion tells, and deaths.
    ended: VecDeque<(Token, Status)>,
    gone: VecDeque<Peer>,
    polls: u32,
    depth: u32,
}

impl Verbs {
    /// Process `me` on a port, with at most `depth` spans under way to each peer.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the device has no protection domain left.
    pub fn new(me: Peer, port: &Port, depth: u32) -> Result<Verbs, VerbsError> {
        let domain = Domain::new(&port.device)?;
        let (partners, windows) = (HashMap::new(), Windows::new(me));
        let (ended, gone) = (VecDeque::new(), VecDeque::new());
        Ok(Verbs { me, domain, port: port.clone(), partners, windows, ended, gone, polls: 0, depth })
    }

    /// The domain in which memory for [`window`](Self::window) must be registered.
    #[must_use]
    pub const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Makes queue pairs for a peer and gives what to tell it. Spans that were under way to a peer that is greeted again
    /// end with [`Status::PeerFailed`].
    ///
    /// # Errors
    /// [`VerbsError`] if the device cannot make them.
    pub fn greet(&mut self, peer: Peer) -> Result<Hello, VerbsError> {
        let lane = Lane::new(&self.domain, &self.port)?;
        let spans = Queue::new(&self.domain, &self.port, Depths { work: self.depth, receives: 1 })?;
        let hello = Hello { frames: lane.queue().address(), spans: spans.address(), count: lane.count() };
        let under_way = VecDeque::with_capacity(self.depth as usize);
        // Greeted anew, it forgets what was between both of us before.
        if let Some(before) = self.partners.insert(peer, Partner { lane, spans, under_way }) {
            self.ended.extend(before.under_way.into_iter().map(|token| (token, Status::PeerFailed)));
        }
        Ok(hello)
    }

    /// Connects to a peer that was greeted and told this.
    ///
    /// # Errors
    /// [`VerbsError::NotConnected`] if it was not greeted, or why it cannot be reached.
    pub fn connect(&mut self, peer: Peer, hello: &Hello) -> Result<(), VerbsError> {
        let partner = self.partners.get_mut(&peer).ok_or(VerbsError::NotConnected)?;
        partner.lane.connect(&hello.frames, hello.count)?;
        partner.spans.connect(&hello.spans)
    }

    /// Makes the broken queue pair for spans ready again and gives what to tell the peer, which does the same; then
    /// both [`reconnect`](Self::reconnect).
    ///
    /// # Errors
    /// [`VerbsError::NotConnected`] if the peer is not there.
    pub fn rebuild(&mut self, peer: Peer) -> Result<Address, VerbsError> {
        let partner = self.partners.get_mut(&peer).ok_or(VerbsError::NotConnected)?;
        partner.spans.reset()?;
        self.ended.extend(partner.under_way.drain(..).map(|token| (token, Status::QueueBroken)));
        Ok(partner.spans.address())
    }

    /// Connects the rebuilt queue pair for spans.
    ///
    /// # Errors
    /// [`VerbsError::NotConnected`] if the peer is not there, or why it cannot be reached.
    pub fn reconnect(&mut self, peer: Peer, spans: &Address) -> Result<(), VerbsError> {
        self.partners.get_mut(&peer).ok_or(VerbsError::NotConnected)?.spans.connect(spans)
    }

    /// Memory of ours that spans under `key` name, from byte `start` of the region on.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`] if it leaves the region.
    pub fn window(&mut self, key: Key, region: Arc<Region>, start: usize, len: u64) -> Result<(), Status> {
        let bytes = usize::try_from(len).map_err(|_| Status::OutOfBounds)?;
        region.segment().at(start, bytes).map_err(|_| Status::OutOfBounds)?;
        self.windows.open(key, len, Access::READ | Access::WRITE, Way::Ours(region, start));
        Ok(())
    }

    /// Memory of a peer that spans under `key` name; what its owner allows us is `access`.
    pub fn remote_window(&mut self, key: Key, first: Remote, len: u64, access: Access) {
        self.windows.open(key, len, access, Way::Theirs(first));
    }

    /// Closes a window; spans under its key are refused from now on.
    pub fn close(&mut self, key: Key) {
        self.windows.close(key);
    }

    fn copy(&mut self, peer: Peer, way: Access, theirs: Span, ours: Span, token: Token) -> Result<(), PostError> {
        let partner = self.partners.get_mut(&peer).ok_or(PostError::Gone)?;
        if theirs.len != ours.len {
            return Err(PostError::Unsupported);
        }
        let there = self.windows.find(theirs, peer, way).map_err(PostError::Refused)?;
        let here = self.windows.find(ours, self.me, way).map_err(PostError::Refused)?;
        let (Way::Theirs(first), Way::Ours(region, start)) = (there, here) else {
            return Err(PostError::Refused(Status::UnknownRegion));
        };
        if theirs.len > SPAN_MAX {
            return Err(PostError::TooLong);
        }
        // Both spans fit into their windows, and a window into an address space: nothing is cut and nothing overflows.
        let piece = Piece { region: &**region, offset: start + ours.offset as usize, len: ours.len as u32 };
        let remote = Remote { address: first.address.wrapping_add(theirs.offset), rkey: first.rkey };
        let work = match way {
            Access::WRITE => Work::Write { from: piece, to: remote, immediate: None },
            _ => Work::Read { from: remote, to: piece },
        };
        match partner.spans.post(&[(token.0, work)]) {
            Ok(()) => {
                partner.under_way.push_back(token);
                Ok(())
            }
            Err(VerbsError::Full) => Err(PostError::Full),
            Err(_) => Err(PostError::Refused(Status::QueueBroken)),
        }
    }

    fn lose(&mut self, peer: Peer) {
        if let Some(partner) = self.partners.remove(&peer) {
            self.windows.close_all(peer);
            self.ended.extend(partner.under_way.into_iter().map(|token| (token, Status::PeerFailed)));
            self.gone.push_back(peer);
        }
    }
}

impl Transport for Verbs {
    fn post(&mut self, to: Peer, work: Task<'_>, token: Token) -> Result<(), PostError> {
        match work {
            Task::Read { from, to: ours } => self.copy(to, Access::READ, from, ours, token),
            Task::Write { from, to: theirs } => self.copy(to, Access::WRITE, theirs, from, token),
            Task::Send(frame) => {
                let partner = self.partners.get_mut(&to).ok_or(PostError::Gone)?;
                let mut cell = [0; CELL];
                let len = frame.emit(&mut cell).map_err(|_| PostError::TooLong)?;
                match partner.lane.send(&cell[..len]) {
                    Ok(()) => Ok(()),
                    Err(SendError::Full) => Err(PostError::Full),
                    Err(SendError::Gone) => {
                        self.lose(to);
                        Err(PostError::Gone)
                    }
                }
            }
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let (mut told, mut dead) = (0, None);
        self.polls = self.polls.wrapping_add(1);
        let look = self.polls.is_multiple_of(LOOK).then(Instant::now);
        for (&from, partner) in &mut self.partners {
            let mut alive = partner.lane.poll(&mut |cell| {
                cell.tell(from, sink);
                told += 1;
            });
            let ended = partner.spans.poll(&mut |done| {
                // All work was posted one by one, so each piece of it ends by itself, in order.
                if let Some(token) = partner.under_way.pop_front() {
                    sink(Event::Done { token, status: done.status.status() });
                    told += 1;
                }
            });
            alive &= ended.is_ok() && look.is_none_or(|now| partner.lane.look(now));
            if !alive {
                dead = Some(from);
            }
        }
        // One death a poll; the next poll finds the others.
        if let Some(peer) = dead {
            self.lose(peer);
        }
        while let Some((token, status)) = self.ended.pop_front() {
            sink(Event::Done { token, status });
            told += 1;
        }
        while let Some(peer) = self.gone.pop_front() {
            sink(Event::Gone { peer });
            told += 1;
        }
        told
    }

    fn caps(&self) -> Caps {
        Caps { frame_max: CELL, reads: true, writes: true }
    }
}
