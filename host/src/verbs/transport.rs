//! The transport over RDMA: frames by SEND, spans by READ and WRITE.
//!
//! Each peer has two queue pairs: one for frames, and one for spans. Frames of all peers arrive in shared cells, so that one
//! look finds them all. An access that the peer's card refuses breaks only
//! the pair for spans: what was posted behind it ends with [`Status::QueueBroken`], frames go on, and after
//! [`rebuild`](Verbs::rebuild) on both sides spans do too. A peer that is silent is asked for a sign of life, which its
//! card gives without its process; when the card does not answer either, the peer is gone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::Peer;
use umbra_core::transport::{Caps, Event, PostError, Transport, Work as Task};
use umbra_core::wire::Token;

use super::address::Address;
use super::hello::Hello;
use super::lane::{Lane, SendError};
use super::memory::{Domain, Region};
use super::pool::Pool;
use super::queue::{Depths, Queue};
use super::work::{PIECE_MAX, Piece, Remote, Work};
use super::{Port, VerbsError};
use crate::shm::CELL;
use crate::windows::Windows;

/// Polls between two looks at the clock.
const LOOK: u32 = 1 << 6;
/// How long a queue pair that was stopped is kept: by then its card has ended all that it had begun.
const STOPPED: Duration = Duration::from_secs(1);

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
    /// Peers by the number of the queue pair for frames.
    numbers: HashMap<u32, Peer>,
    /// Lanes that were stopped, and when: what arrived on them until then still uses cells.
    stopped: Vec<(Instant, Lane)>,
    pool: Pool,
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
    /// [`VerbsError::Call`] if the device has no protection domain left, [`VerbsError::NoSharedReceives`] if it cannot share
    /// buffers.
    pub fn new(me: Peer, port: &Port, depth: u32) -> Result<Verbs, VerbsError> {
        let domain = Domain::new(&port.device)?;
        let (pool, windows) = (Pool::new(&domain)?, Windows::new(me));
        Ok(Verbs {
            me,
            domain,
            port: port.clone(),
            partners: HashMap::new(),
            numbers: HashMap::new(),
            stopped: Vec::new(),
            pool,
            windows,
            ended: VecDeque::new(),
            gone: VecDeque::new(),
            polls: 0,
            depth,
        })
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
        let lane = Lane::new(&self.pool, &self.port)?;
        let spans = Queue::new(&self.domain, &self.port, Depths { work: self.depth, receives: 1 })?;
        let hello = Hello { frames: lane.queue().address(), spans: spans.address(), count: lane.count() };
        let under_way = VecDeque::with_capacity(self.depth as usize);
        // Greeted anew, it forgets what was between both of us before.
        self.part_with(peer);
        self.numbers.insert(hello.frames.number, peer);
        self.partners.insert(peer, Partner { lane, spans, under_way });
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
        if theirs.len > PIECE_MAX {
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

    /// Ends what is between a peer and us; false if there was nothing.
    fn part_with(&mut self, peer: Peer) -> bool {
        let Some(Partner { mut lane, under_way, .. }) = self.partners.remove(&peer) else { return false };
        self.ended.extend(under_way.into_iter().map(|token| (token, Status::PeerFailed)));
        self.numbers.remove(&lane.queue().address().number);
        lane.stop();
        self.stopped.push((Instant::now(), lane));
        true
    }

    fn lose(&mut self, peer: Peer) {
        if self.part_with(peer) {
            self.windows.close_all(peer);
            self.gone.push_back(peer);
        }
    }

    /// Takes what arrived, at most one batch; whether there was anything, and how many frames of it were told.
    fn take(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> (bool, usize) {
        let Verbs { pool, partners, numbers, .. } = self;
        let (mut told, mut now) = (0, None);
        let taken = pool.take(&mut |number, cell| {
            // Others are peers that were lost meanwhile.
            let Some(&from) = numbers.get(&number) else { return };
            let Some(partner) = partners.get_mut(&from) else { return };
            partner.lane.arrived(cell, *now.get_or_insert_with(Instant::now));
            if let Some(cell) = cell {
                cell.tell(from, sink);
                told += 1;
            }
        });
        if taken.is_err() {
            // Without cells nobody is heard any more.
            partners.values_mut().for_each(|partner| partner.lane.stop());
        }
        (taken.is_ok_and(|taken| taken > 0), told)
    }

    /// What need not be done at every poll; how many frames were told.
    fn look(&mut self, now: Instant, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut told = 0;
        let over = |since: &Instant| now.saturating_duration_since(*since) >= STOPPED;
        if self.stopped.iter().any(|(since, _)| over(since)) {
            // A card may forget what arrived at a queue pair that is destroyed; its cells would never be posted again.
            for _ in 0..self.pool.batches() {
                let (any, frames) = self.take(sink);
                told += frames;
                if !any {
                    break;
                }
            }
            self.stopped.retain(|(since, _)| !over(since));
        }
        // A pool that cannot grow lets senders wait.
        let _ = self.pool.look();
        told
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
        if let Some(now) = look {
            told += self.look(now, sink);
        }
        told += self.take(sink).1;
        for (&from, partner) in &mut self.partners {
            let mut alive = partner.lane.poll() && look.is_none_or(|now| partner.lane.look(now));
            if !partner.under_way.is_empty() {
                let ended = partner.spans.poll(&mut |done| {
                    // All work was posted one by one, so each piece of it ends by itself, in order.
                    if let Some(token) = partner.under_way.pop_front() {
                        sink(Event::Done { token, status: done.status.status() });
                        told += 1;
                    }
                });
                alive &= ended.is_ok();
            }
            if !alive {
                dead = Some(from);
            }
        }
        // One death a poll; the next poll finds the others.
        if let Some(peer) = dead {
            // What it sent before comes first.
            for _ in 0..self.pool.batches() {
                let (any, frames) = self.take(sink);
                told += frames;
                if !any {
                    break;
                }
            }
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
