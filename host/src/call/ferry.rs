//! What crosses a border, over any [`Transport`].
//!
//! A transport is queue pairs of RDMA, shared memory, or a simulated one. What a border gives out is longer than the
//! one cell that a transport sends. So each end lends the other a *landing*: memory of [`SLOTS`] slots, each of which
//! holds the longest body. A body is written into the next slot, and when it is there a cell says so; another cell says
//! how many of them have been taken. Over a network card that is one write and one send, and nobody on the other side
//! but the ferry there has to do anything for it.
//!
//! ```text
//! Border::poll ─► our copy ── write ──► landing there ─► Border::on_frame
//!                          ── cell: body n lies there, so long ──►
//!                          ◄── cell: taken up to n ──
//! ```
//!
//! Invariants: body `n` is written only when body `n - SLOTS` is known to be taken; bodies are announced in their
//! order, each after its bytes are there.

use std::collections::VecDeque;
use std::sync::Arc;

use umbra_core::error::Status;
use umbra_core::key::{Key, Span};
use umbra_core::peer::Peer;
use umbra_core::transport::{Event, PostError, Transport, Work};
use umbra_core::wire::{Frame, Op, Token};

use super::border::{Border, BorderError};
use super::shape::Shape;
use crate::sys::segment::Segment;

/// Bodies that may be on the way to another place, or there and not yet taken.
pub const SLOTS: u32 = 16;
/// Of these, how many requests leave for answers.
const SPARE: u64 = 2;

/// A body lies in the next slot: its number is the token, operation and length are the argument.
const LANDED: Op = Op(0x0606);
/// So many bodies have been taken in all, says the token.
const TAKEN: Op = Op(0x0607);

/// Why the way to another place is lost; others are not touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("place {place} is lost: {why}")]
pub struct FerryError {
    /// The place.
    pub place: u32,
    /// Why.
    pub why: Lost,
}

/// What is wrong with a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The process there died or left.
    #[error("its process is gone")]
    Gone,
    /// The memory for bodies is shorter than [`Ferry::bytes`].
    #[error("memory for its bodies needs {least} bytes")]
    Short {
        /// Bytes of each hold at least.
        least: usize,
    },
    /// It announces or takes what cannot be.
    #[error("it speaks of bodies that there are not")]
    Malformed,
    /// What it says of its members.
    #[error(transparent)]
    Border(#[from] BorderError),
    /// A body could not be written there.
    #[error("a body cannot be written there: {0}")]
    Write(Status),
    /// The transport cannot do what is needed.
    #[error("{0}")]
    Post(PostError),
}

/// Memory of one of the two ends, of [`Ferry::bytes`], as the transport knows it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Its key.
    pub key: Key,
    /// Its bytes.
    pub memory: Arc<Segment>,
}

/// The way to another place.
#[derive(Debug)]
struct Way {
    /// Which of all ways that there ever were: a write for an earlier one may end late.
    number: u32,
    place: u32,
    peer: Peer,
    /// Where bodies lie until they are written, and where the other end's arrive.
    outgoing: Hold,
    landing: Hold,
    /// The landing there.
    theirs: Key,
    /// What was begun, and how long it is, by slot; and whether it is there.
    begun: [(Op, u32, bool); SLOTS as usize],
    /// Bodies whose write was begun, that were announced, and that are taken there.
    written: u64,
    announced: u64,
    taken: u64,
    /// Bodies that came, and how many of them the other end knows to be taken.
    came: u64,
    told: u64,
    /// Bodies for which there is no slot yet.
    waiting: VecDeque<(Op, Vec<u8>)>,
}

impl Way {
    const fn free(&self) -> u64 {
        SLOTS as u64 - (self.written - self.taken)
    }

    fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.free() > SPARE
    }
}

/// An event, for keeps.
#[derive(Debug)]
enum News {
    Landed { from: Peer, number: u64, op: Op, len: u32 },
    Taken { from: Peer, count: u64 },
    Written { token: Token, status: Status },
    Damaged { from: Peer },
    Gone { peer: Peer },
}

/// Carries what crosses the border of a place over a transport.
#[derive(Debug)]
pub struct Ferry<T> {
    border: Border,
    transport: T,
    ways: Vec<Way>,
    joined: u32,
    slot: usize,
    body: Vec<u8>,
    news: VecDeque<News>,
}

impl<T: Transport> Ferry<T> {
    /// Bytes of each [`Hold`] of places of this shape.
    #[must_use]
    pub const fn bytes(shape: Shape) -> usize {
        SLOTS as usize * Self::slot(shape)
    }

    const fn slot(shape: Shape) -> usize {
        Border::body_max(shape).next_multiple_of(64)
    }

    /// Carries for this border, whose place is of that shape.
    pub fn new(border: Border, shape: Shape, transport: T) -> Ferry<T> {
        let slot = Self::slot(shape);
        Ferry { border, transport, ways: Vec::new(), joined: 0, slot, body: vec![0; slot], news: VecDeque::new() }
    }

    /// There is a way to another place: its process is `peer`, which writes into `landing` and has lent the memory with the
    /// key `theirs` for it; bodies for it lie in `outgoing` until they are written. It replaces an earlier one.
    ///
    /// # Errors
    /// [`Lost::Short`].
    pub fn join(
        &mut self,
        (place, peer): (u32, Peer),
        outgoing: Hold,
        landing: Hold,
        theirs: Key,
    ) -> Result<(), FerryError> {
        let least = SLOTS as usize * self.slot;
        if outgoing.memory.len() < least || landing.memory.len() < least {
            return Err(FerryError { place, why: Lost::Short { least } });
        }
        self.joined += 1;
        self.ways.retain(|way| way.place != place);
        self.ways.push(Way {
            number: self.joined,
            place,
            peer,
            outgoing,
            landing,
            theirs,
            begun: [(Op(0), 0, false); SLOTS as usize],
            written: 0,
            announced: 0,
            taken: 0,
            came: 0,
            told: 0,
            waiting: VecDeque::new(),
        });
        self.border.on_link(place);
        Ok(())
    }

    /// The border.
    pub const fn border(&self) -> &Border {
        &self.border
    }

    /// The transport.
    pub const fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Takes what came and sends what there is; whether there was anything. It never blocks.
    ///
    /// # Errors
    /// [`FerryError`]: a place is lost; everybody there is dead to those here. Whoever owns the transport then ends the connection,
    /// so that the other end learns of it too. The next turn goes on with all other places.
    pub fn turn(&mut self) -> Result<bool, FerryError> {
        // What came is for the parent of a child that was forked off.
        if self.border.is_inherited() {
            return Ok(false);
        }
        let news = &mut self.news;
        self.transport.poll(&mut |event| news.extend(told(event)));
        let mut any = !self.news.is_empty();
        while let Some(news) = self.news.pop_front() {
            self.on_news(&news)?;
        }
        any |= self.border.flush();
        any |= self.load()?;
        for at in 0..self.ways.len() {
            self.announce(at)?;
        }
        Ok(any)
    }

    fn on_news(&mut self, news: &News) -> Result<(), FerryError> {
        let at = match *news {
            News::Written { token, .. } => {
                let number = (token.0 >> 32) as u32;
                self.ways.iter().position(|way| way.number == number)
            }
            News::Landed { from: peer, .. }
            | News::Taken { from: peer, .. }
            | News::Damaged { from: peer }
            | News::Gone { peer } => self.ways.iter().position(|way| way.peer == peer),
        };
        let Some(at) = at else { return Ok(()) };
        let way = &mut self.ways[at];
        match *news {
            News::Landed { number, op, len, .. } => return self.land(at, number, op, len as usize),
            News::Taken { count, .. } if (way.taken..=way.announced).contains(&count) => way.taken = count,
            News::Written { token, status: Status::Ok } => way.begun[(token.0 as u32 % SLOTS) as usize].2 = true,
            News::Taken { .. } | News::Damaged { .. } => return Err(self.lose(at, Lost::Malformed)),
            News::Written { status: Status::PeerFailed, .. } | News::Gone { .. } => {
                return Err(self.lose(at, Lost::Gone));
            }
            News::Written { status, .. } => return Err(self.lose(at, Lost::Write(status))),
        }
        Ok(())
    }

    /// The next body came.
    fn land(&mut self, at: usize, number: u64, op: Op, len: usize) -> Result<(), FerryError> {
        let way = &mut self.ways[at];
        let start = (way.came % u64::from(SLOTS)) as usize * self.slot;
        let Some(body) = self.body.get_mut(..len).filter(|_| number == way.came) else {
            return Err(self.lose(at, Lost::Malformed));
        };
        if way.landing.memory.read(start, body).is_err() {
            return Err(self.lose(at, Lost::Malformed));
        }
        way.came += 1;
        let place = way.place;
        self.border.on_frame(place, op, &self.body[..len]).map_err(|error| self.lose(at, error))
    }

    /// Writes what there is into free slots; whether there was anything.
    fn load(&mut self) -> Result<bool, FerryError> {
        let mut any = false;
        for at in 0..self.ways.len() {
            while self.ways[at].free() > 0
                && let Some((op, body)) = self.ways[at].waiting.pop_front()
            {
                any = true;
                if !self.write(at, op, &body)? {
                    self.ways[at].waiting.push_front((op, body));
                    break;
                }
            }
        }
        for _ in 0..SLOTS {
            let ways = &self.ways;
            let has_room = |place: u32| ways.iter().any(|way| way.place == place && way.has_room());
            let Some((place, op, len)) = self.border.poll(has_room, &mut self.body) else { break };
            any = true;
            let Some(at) = self.ways.iter().position(|way| way.place == place) else { continue };
            let way = &self.ways[at];
            let is_next = way.waiting.is_empty() && way.free() > 0;
            let all = std::mem::take(&mut self.body);
            let wrote = if is_next { self.write(at, op, &all[..len]) } else { Ok(false) };
            if let (Ok(false), Some(way)) = (&wrote, self.ways.get_mut(at)) {
                way.waiting.push_back((op, all[..len].to_vec()));
            }
            self.body = all;
            wrote?;
        }
        Ok(any)
    }

    /// Begins to write a body into the next slot, which is free; whether the transport has room.
    fn write(&mut self, at: usize, op: Op, body: &[u8]) -> Result<bool, FerryError> {
        let way = &mut self.ways[at];
        let slot = (way.written % u64::from(SLOTS)) as u32;
        let offset = slot as usize * self.slot;
        if way.outgoing.memory.write(offset, body).is_err() {
            return Err(self.lose(at, Lost::Malformed));
        }
        let span = |key| Span { key, offset: offset as u64, len: body.len() as u64 };
        let work = Work::Write { from: span(way.outgoing.key), to: span(way.theirs) };
        match self.transport.post(way.peer, work, Token(u64::from(way.number) << 32 | u64::from(slot))) {
            Ok(()) => {
                way.begun[slot as usize] = (op, body.len() as u32, false);
                way.written += 1;
                Ok(true)
            }
            Err(PostError::Full) => Ok(false),
            Err(error) => Err(self.lose(at, because(error))),
        }
    }

    /// Says which bodies are there now, and which of the other end's are taken.
    fn announce(&mut self, at: usize) -> Result<(), FerryError> {
        loop {
            let way = &mut self.ways[at];
            let (op, len, is_there) = way.begun[(way.announced % u64::from(SLOTS)) as usize];
            let frame = if way.announced < way.written && is_there {
                Frame::Null { op: LANDED, token: Token(way.announced), arg: u64::from(op.0) << 32 | u64::from(len) }
            } else if way.told < way.came {
                Frame::Null { op: TAKEN, token: Token(way.came), arg: 0 }
            } else {
                return Ok(());
            };
            match self.transport.post(way.peer, Work::Send(frame), Token(0)) {
                Ok(()) if frame.op() == LANDED => way.announced += 1,
                Ok(()) => way.told = way.came,
                Err(PostError::Full) => return Ok(()),
                Err(error) => return Err(self.lose(at, because(error))),
            }
        }
    }

    /// The way is lost: everybody there is dead to those here.
    fn lose(&mut self, at: usize, why: impl Into<Lost>) -> FerryError {
        let place = self.ways.swap_remove(at).place;
        self.border.on_gone(place);
        FerryError { place, why: why.into() }
    }
}

/// Why a way is lost on which something was not accepted.
const fn because(error: PostError) -> Lost {
    match error {
        PostError::Gone => Lost::Gone,
        error => Lost::Post(error),
    }
}

/// What an event says of bodies.
fn told(event: Event<'_>) -> Option<News> {
    Some(match event {
        Event::Frame { from, frame: Frame::Null { op: LANDED, token, arg } } => {
            News::Landed { from, number: token.0, op: Op((arg >> 32) as u16), len: arg as u32 }
        }
        Event::Frame { from, frame: Frame::Null { op: TAKEN, token, .. } } => News::Taken { from, count: token.0 },
        Event::Frame { from, .. } | Event::Damaged { from } => News::Damaged { from },
        Event::Done { token, status } => News::Written { token, status },
        Event::Gone { peer } => News::Gone { peer },
    })
}
