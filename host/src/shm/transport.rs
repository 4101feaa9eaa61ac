//! The transport of one machine: frames over lanes, spans copied between mappings.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::Peer;
use umbra_core::transport::{Caps, Event, PostError, Transport, Work};
use umbra_core::wire::Token;

use super::{CELL, FrameLane, SendError};
use crate::sys::process::Process;
use crate::sys::segment::Segment;
use crate::windows::Windows;

/// Polls between two looks at whether a peer still lives: a look is a system call.
const LOOK: u32 = 1 << 10;
/// Frames taken from one peer before it is another one's turn.
const BATCH: usize = 32;

/// Where a window lies.
#[derive(Debug)]
struct Window {
    segment: Arc<Segment>,
    start: usize,
}

impl Window {
    /// Where a span of it begins: it fits, so neither overflows nor is cut.
    const fn at(&self, span: Span) -> usize {
        self.start + span.offset as usize
    }
}

#[derive(Debug)]
struct Partner {
    lane: FrameLane,
    process: Process,
}

/// Frames and spans between this process and others of the machine.
#[derive(Debug)]
pub struct Shm {
    me: Peer,
    partners: HashMap<Peer, Partner>,
    windows: Windows<Window>,
    done: VecDeque<(Token, Status)>,
    gone: VecDeque<Peer>,
    polls: u32,
    depth: usize,
}

impl Shm {
    /// Process `me`, with at most `depth` reads and writes that were not told as done.
    #[must_use]
    pub fn new(me: Peer, depth: usize) -> Shm {
        let (done, gone) = (VecDeque::with_capacity(depth), VecDeque::new());
        Shm { me, partners: HashMap::new(), windows: Windows::new(me), done, gone, polls: 0, depth }
    }

    /// A peer that is reached over this lane, and the process that it is.
    pub fn connect(&mut self, peer: Peer, lane: FrameLane, process: Process) {
        self.partners.insert(peer, Partner { lane, process });
    }

    /// Memory that spans under `key` name: ours, or a peer's that we mapped. What the owner allows others to
    /// do with it is `access`.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`] if it leaves the segment.
    pub fn window(
        &mut self,
        key: Key,
        segment: Arc<Segment>,
        start: usize,
        len: u64,
        access: Access,
    ) -> Result<(), Status> {
        let bytes = usize::try_from(len).map_err(|_| Status::OutOfBounds)?;
        segment.at(start, bytes).map_err(|_| Status::OutOfBounds)?;
        self.windows.open(key, len, access, Window { segment, start });
        Ok(())
    }

    /// Closes a window; spans under its key are refused from now on.
    pub fn close(&mut self, key: Key) {
        self.windows.close(key);
    }

    fn copy(&mut self, peer: Peer, way: Access, theirs: Span, ours: Span, token: Token) -> Result<(), PostError> {
        if theirs.len != ours.len {
            return Err(PostError::Unsupported);
        }
        if self.done.len() >= self.depth {
            return Err(PostError::Full);
        }
        let there = self.windows.find(theirs, peer, way).map_err(PostError::Refused)?;
        let here = self.windows.find(ours, self.me, way).map_err(PostError::Refused)?;
        // It fits into a window.
        let len = theirs.len as usize;
        let copied = if way == Access::READ {
            there.segment.copy(there.at(theirs), &here.segment, here.at(ours), len)
        } else {
            here.segment.copy(here.at(ours), &there.segment, there.at(theirs), len)
        };
        let status = if copied.is_ok() { Status::Ok } else { Status::PermissionDenied };
        self.done.push_back((token, status));
        Ok(())
    }

    fn lose(&mut self, peer: Peer) {
        if self.partners.remove(&peer).is_some() {
            self.windows.close_all(peer);
            self.gone.push_back(peer);
        }
    }
}

impl Transport for Shm {
    fn post(&mut self, to: Peer, work: Work<'_>, token: Token) -> Result<(), PostError> {
        let partner = self.partners.get_mut(&to).ok_or(PostError::Gone)?;
        match work {
            Work::Send(frame) => match partner.lane.send(&frame) {
                Ok(()) => Ok(()),
                Err(SendError::Full) => Err(PostError::Full),
                Err(SendError::TooLong) => Err(PostError::TooLong),
                Err(SendError::Damaged) => {
                    self.lose(to);
                    Err(PostError::Gone)
                }
            },
            Work::Read { from, to: ours } => self.copy(to, Access::READ, from, ours, token),
            Work::Write { from, to: theirs } => self.copy(to, Access::WRITE, theirs, from, token),
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut told = 0;
        while let Some((token, status)) = self.done.pop_front() {
            sink(Event::Done { token, status });
            told += 1;
        }
        self.polls = self.polls.wrapping_add(1);
        let look = self.polls.is_multiple_of(LOOK);
        let mut dead = Vec::new();
        for (&from, partner) in &mut self.partners {
            // First the look, then the ring: what a peer sent before it died is still heard.
            let ended = look && !partner.process.is_alive();
            let most = if ended { usize::MAX } else { BATCH };
            for _ in 0..most.min(partner.lane.lines()) {
                let Some(cell) = partner.lane.receive() else { break };
                cell.tell(from, sink);
                told += 1;
            }
            if ended {
                dead.push(from);
            }
        }
        dead.into_iter().for_each(|peer| self.lose(peer));
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
