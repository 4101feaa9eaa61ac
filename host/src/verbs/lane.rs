//! Frames to one peer over a queue pair, each in one cell, with credits.
//!
//! Each side tells how many frames it has taken by writing that number into the other's memory, and sends no more than so many
//! beyond that. The buffers are shared by all lanes of a process (`pool`). A peer that writes an impossible number, or sends
//! more than it may, damages its own lane only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra_core::atomic::Ordering;
use umbra_core::key::Access;

use super::memory::Region;
use super::pool::Pool;
use super::queue::Queue;
use super::work::{Piece, Remote, Work};
use super::{Port, VerbsError, WorkStatus};
use crate::shm::{CELL, Cell};
use crate::sys::segment::Segment;

/// Frames under way in one direction; a power of two.
pub(super) const CELLS: u64 = 64;
/// Work beside frames: numbers of taken frames, and signs of life.
const OTHERS: u32 = 8;
/// A peer that was not heard of for so long is asked for a sign of life.
const IDLE: Duration = Duration::from_millis(100);
/// How long its card may take for that. A card gives up by itself after two seconds at most, as queue pairs are connected
/// here; one that does not even do that is as good as gone.
const ANSWER: Duration = Duration::from_secs(10);

/// What a completion on a lane was about.
const FRAME: u64 = 0;
const COUNT: u64 = 1;
const LIFE: u64 = 2;

/// Where the peer's number of taken frames arrives, and ours is sent from.
const THEIRS: usize = 0;
const OURS: usize = 8;

/// Why a frame was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendError {
    Full,
    Gone,
}

/// One end of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    queue: Queue,
    /// Cells to send from.
    cells: Region,
    counts: Region,
    peer: Option<Remote>,
    sent: u64,
    taken: u64,
    told: u64,
    broken: bool,
    asked: bool,
    /// When the sign of life must have come. Behind a frame it may take any time, for a peer without room has its frames wait.
    due: Option<Instant>,
    heard: Instant,
}

pub(super) fn segment(name: &str, len: usize) -> Result<Arc<Segment>, VerbsError> {
    let failed = |error: crate::sys::segment::SegmentError| VerbsError::Call {
        what: "making memory for a lane",
        error: std::io::Error::other(error),
    };
    Segment::create(name, len).map(Arc::new).map_err(failed)
}

impl Lane {
    pub(super) fn new(pool: &Pool, port: &Port) -> Result<Lane, VerbsError> {
        let queue = Queue::sharing(pool.receives(), port, CELLS as u32 + OTHERS)?;
        let domain = pool.receives().domain();
        let cells = Region::register(domain, segment("umbra-cells", CELLS as usize * CELL)?, Access::empty())?;
        let counts = Region::register(domain, segment("umbra-counts", 16)?, Access::WRITE)?;
        Ok(Lane {
            queue,
            cells,
            counts,
            peer: None,
            sent: 0,
            taken: 0,
            told: 0,
            broken: false,
            asked: false,
            due: None,
            heard: Instant::now(),
        })
    }

    pub(super) const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Where the peer writes its number of taken frames.
    pub(super) fn count(&self) -> Remote {
        Remote { address: self.counts.address(THEIRS), rkey: self.counts.rkey() }
    }

    pub(super) fn connect(&mut self, peer: &super::Address, count: Remote) -> Result<(), VerbsError> {
        self.queue.connect(peer)?;
        self.peer = Some(count);
        self.heard = Instant::now();
        Ok(())
    }

    /// Sends a cell.
    pub(super) fn send(&mut self, frame: &[u8]) -> Result<(), SendError> {
        if self.peer.is_none() {
            // Greeted, but not connected yet.
            return Err(SendError::Full);
        }
        let Ok(taken) = self.counts.segment().word(THEIRS) else { return Err(SendError::Gone) };
        // ORDERING: the number is all that counts; what the peer took was copied out of the cell by the card long ago.
        match self.sent.checked_sub(u64::from_le(taken.load(Ordering::Relaxed))) {
            // It says that it took what was never sent.
            None => return Err(SendError::Gone),
            Some(under_way) if under_way >= CELLS => return Err(SendError::Full),
            Some(_) => {}
        }
        let offset = (self.sent % CELLS) as usize * CELL;
        self.cells.segment().write(offset, frame).map_err(|_| SendError::Gone)?;
        if self.queue.is_full() {
            // Frames that the peer has taken still count as under way until their completions are seen.
            self.drain();
        }
        let from = Piece { region: &self.cells, offset, len: frame.len() as u32 };
        match self.queue.post(&[(FRAME, Work::Send { from })]) {
            Ok(()) => {
                self.sent += 1;
                Ok(())
            }
            Err(VerbsError::Full) => Err(SendError::Full),
            Err(_) => Err(SendError::Gone),
        }
    }

    /// Takes completions in, at most one batch.
    fn drain(&mut self) {
        if !self.queue.is_busy() {
            return;
        }
        let Lane { queue, broken, asked, due, heard, .. } = self;
        let mut any = false;
        let polled = queue.poll(&mut |done| {
            *broken |= done.status != WorkStatus::Success;
            if done.id == LIFE {
                (*asked, *due) = (false, None);
            }
            any = true;
        });
        *broken |= polled.is_err();
        if any {
            *heard = Instant::now();
        }
    }

    /// A cell of the peer arrived, or broke the lane. A peer that sends more than it may breaks it, too.
    pub(super) fn arrived(&mut self, cell: Option<&Cell>, now: Instant) {
        self.heard = now;
        self.taken += 1;
        self.broken |= cell.is_none() || self.taken - self.told > CELLS;
    }

    /// Goes on with what was posted; `false` once the peer cannot be reached any more.
    pub(super) fn poll(&mut self) -> bool {
        self.drain();
        if self.taken - self.told >= CELLS / 2 && !self.tell() {
            self.broken = true;
        }
        !self.broken
    }

    /// Nothing arrives any more.
    pub(super) fn stop(&mut self) {
        self.broken = true;
        // A pair that cannot even be stopped is destroyed in a moment.
        let _ = self.queue.stop();
    }

    /// Writes our number of taken frames into the peer's memory.
    fn tell(&mut self) -> bool {
        let (Some(to), Ok(word)) = (self.peer, self.counts.segment().word(OURS)) else { return false };
        // ORDERING: a call into the driver follows before the card reads it.
        word.store(self.taken.to_le(), Ordering::Release);
        let from = Piece { region: &self.counts, offset: OURS, len: 8 };
        match self.queue.post(&[(COUNT, Work::Write { from, to, immediate: None })]) {
            Ok(()) => {
                self.told = self.taken;
                true
            }
            // The next frame tells it.
            Err(VerbsError::Full) => true,
            Err(_) => false,
        }
    }

    /// Asks a silent peer for a sign of life: an empty write, which its card alone confirms; `false` if that is overdue.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let Some(to) = self.peer else { return true };
        if self.due.is_some_and(|due| now > due) {
            return false;
        }
        if self.asked || now.saturating_duration_since(self.heard) < IDLE {
            return true;
        }
        let is_first = !self.queue.is_busy();
        let from = Piece { region: &self.counts, offset: 0, len: 0 };
        let asked = self.queue.post(&[(LIFE, Work::Write { from, to, immediate: None })]);
        self.asked = asked.is_ok();
        self.due = (self.asked && is_first).then(|| now + ANSWER);
        matches!(asked, Ok(()) | Err(VerbsError::Full))
    }
}
