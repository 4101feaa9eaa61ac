//! A transport between ends in one program.
//!
//! It is for tests, simulations and peers that share a process. A [`Hub`] holds the frames on their way and the memory
//! that ends may read and write; each [`End`] is one peer's [`Transport`].
//!
//! ```
//! use core::cell::RefCell;
//! use umbra_core::loopback::{Cell, Hub, Member};
//! use umbra_core::peer::{Peer, Sp};
//! use umbra_core::transport::{Event, Transport, Work};
//! use umbra_core::wire::{Frame, Op, Token};
//! let (a, b) = (Peer::service(Sp(0)).ok_or("")?, Peer::service(Sp(1)).ok_or("")?);
//! let members = [Member::new(a), Member::new(b)];
//! let hub = RefCell::new(Hub::new(members, [const { Cell::EMPTY }; 8], [], [0; 0]));
//! let (mut ours, mut theirs) = (Hub::end(&hub, a).ok_or("")?, Hub::end(&hub, b).ok_or("")?);
//! let null = Frame::Null { op: Op(1), token: Token(2), arg: 3 };
//! ours.post(b, Work::Send(null), Token(0))?;
//! let mut came = 0;
//! theirs.poll(&mut |event| {
//!     assert_eq!(event, Event::Frame { from: a, frame: null });
//!     came += 1;
//! });
//! assert_eq!(came, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Cost*: a poll walks all frames on their way.

use core::cell::RefCell;

use crate::error::Status;
use crate::key::{Access, Key, Span};
use crate::peer::Peer;
use crate::transport::{Caps, Event, PostError, Transport, Work};
use crate::wire::{Frame, HEAD, INLINE, Token};

const FRAME: usize = HEAD + INLINE;

/// One of the peers; lent by the caller.
#[derive(Clone, Debug)]
pub struct Member {
    peer: Peer,
    alive: bool,
    /// Members whose death it was told, as bits.
    told: u64,
}

impl Member {
    /// A living peer.
    #[must_use]
    pub const fn new(peer: Peer) -> Member {
        Member { peer, alive: true, told: 0 }
    }
}

/// Room for one thing on its way; lent by the caller.
#[derive(Clone, Debug)]
pub struct Cell(Option<Moving>);

impl Cell {
    /// No thing.
    pub const EMPTY: Cell = Cell(None);
}

#[derive(Clone, Debug)]
struct Moving {
    order: u64,
    to: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Frame { from: Peer, bytes: [u8; FRAME], len: usize },
    Done { token: Token, status: Status },
}

/// Memory that a member registered; lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    /// Its name.
    pub key: Key,
    /// First byte in the hub's memory.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// What the others may do; its owner may do all.
    pub access: Access,
}

/// What the ends share.
#[derive(Debug)]
pub struct Hub<P, C, R, M> {
    members: P,
    cells: C,
    registered: R,
    memory: M,
    order: u64,
}

impl<P, C, R, M> Hub<P, C, R, M>
where
    P: AsRef<[Member]> + AsMut<[Member]>,
    C: AsRef<[Cell]> + AsMut<[Cell]>,
    R: AsRef<[Registered]>,
    M: AsRef<[u8]> + AsMut<[u8]>,
{
    /// A hub of at most 64 members, over room for things on their way, registered memory, and its bytes.
    pub const fn new(members: P, cells: C, registered: R, memory: M) -> Self {
        Hub { members, cells, registered, memory, order: 0 }
    }

    /// The end of one member.
    pub fn end(hub: &RefCell<Self>, peer: Peer) -> Option<End<'_, Self>> {
        let me = hub.borrow().members.as_ref().iter().position(|m| m.peer == peer)?;
        Some(End { hub, me })
    }

    /// A member dies: what is on its way to or from it is lost, and the others are told.
    pub fn kill(&mut self, peer: Peer) {
        let Some(dead) = self.members.as_ref().iter().position(|m| m.peer == peer) else { return };
        self.members.as_mut()[dead].alive = false;
        for cell in self.cells.as_mut() {
            let lost = cell.0.as_ref().is_some_and(|moving| {
                moving.to == dead || matches!(moving.what, What::Frame { from, .. } if from == peer)
            });
            if lost {
                *cell = Cell::EMPTY;
            }
        }
    }

    /// The bytes of registered memory.
    pub fn memory(&mut self) -> &mut [u8] {
        self.memory.as_mut()
    }

    fn put(&mut self, to: usize, what: What) -> Result<(), PostError> {
        let cell = self.cells.as_mut().iter_mut().find(|cell| cell.0.is_none()).ok_or(PostError::Full)?;
        self.order += 1;
        cell.0 = Some(Moving { order: self.order, to, what });
        Ok(())
    }

    fn take(&mut self, me: usize) -> Option<What> {
        let mine = self.cells.as_mut().iter_mut().filter(|cell| cell.0.as_ref().is_some_and(|m| m.to == me));
        let first = mine.min_by_key(|cell| cell.0.as_ref().map(|m| m.order))?;
        first.0.take().map(|moving| moving.what)
    }

    fn range(&self, span: Span, owner: Peer, right: Access, me: Peer) -> Result<core::ops::Range<usize>, Status> {
        let known = self.registered.as_ref().iter().find(|r| r.key == span.key && r.key.owner() == owner);
        let known = known.ok_or(Status::UnknownRegion)?;
        if owner != me && !known.access.contains(right) {
            return Err(Status::PermissionDenied);
        }
        if span.offset > known.len || span.len > known.len - span.offset {
            return Err(Status::OutOfBounds);
        }
        let start = known.start.checked_add(span.offset).ok_or(Status::OutOfBounds)?;
        let end = start.checked_add(span.len).ok_or(Status::OutOfBounds)?;
        if end > self.memory.as_ref().len() as u64 {
            return Err(Status::OutOfBounds);
        }
        // Both are at most the length of a slice.
        Ok(start as usize..end as usize)
    }

    fn copy(
        &mut self,
        me: usize,
        peer: Peer,
        way: Access,
        from: Span,
        to: Span,
        token: Token,
    ) -> Result<(), PostError> {
        if from.len != to.len {
            return Err(PostError::Unsupported);
        }
        let mine = self.members.as_ref()[me].peer;
        let (theirs, ours) = if way == Access::READ { (from, to) } else { (to, from) };
        let theirs = self.range(theirs, peer, way, mine).map_err(PostError::Refused)?;
        let ours = self.range(ours, mine, way, mine).map_err(PostError::Refused)?;
        let (source, target) = if way == Access::READ { (theirs, ours) } else { (ours, theirs) };
        self.put(me, What::Done { token, status: Status::Ok })?;
        self.memory.as_mut().copy_within(source, target.start);
        Ok(())
    }
}

/// One member's transport.
#[derive(Debug)]
pub struct End<'h, H> {
    hub: &'h RefCell<H>,
    me: usize,
}

impl<P, C, R, M> Transport for End<'_, Hub<P, C, R, M>>
where
    P: AsRef<[Member]> + AsMut<[Member]>,
    C: AsRef<[Cell]> + AsMut<[Cell]>,
    R: AsRef<[Registered]>,
    M: AsRef<[u8]> + AsMut<[u8]>,
{
    fn post(&mut self, to: Peer, work: Work<'_>, token: Token) -> Result<(), PostError> {
        let mut hub = self.hub.borrow_mut();
        let peer = hub.members.as_ref().iter().position(|m| m.peer == to && m.alive).ok_or(PostError::Gone)?;
        match work {
            Work::Send(frame) => {
                let from = hub.members.as_ref()[self.me].peer;
                let mut bytes = [0; FRAME];
                let len = frame.emit(&mut bytes).map_err(|_| PostError::TooLong)?;
                hub.put(peer, What::Frame { from, bytes, len })
            }
            Work::Read { from, to: ours } => hub.copy(self.me, to, Access::READ, from, ours, token),
            Work::Write { from, to: theirs } => hub.copy(self.me, to, Access::WRITE, from, theirs, token),
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut told = 0;
        let room = self.hub.borrow().cells.as_ref().len();
        for _ in 0..room {
            // The hub is free again before the sink is called, which may post.
            let what = self.hub.borrow_mut().take(self.me);
            match what {
                Some(What::Frame { from, bytes, len }) => match Frame::parse(bytes.get(..len).unwrap_or(&[])) {
                    Ok(frame) => sink(Event::Frame { from, frame }),
                    Err(_) => sink(Event::Damaged { from }),
                },
                Some(What::Done { token, status }) => sink(Event::Done { token, status }),
                None => break,
            }
            told += 1;
        }
        let members = self.hub.borrow().members.as_ref().len().min(64);
        for at in 0..members {
            let mut hub = self.hub.borrow_mut();
            let (peer, alive) = (hub.members.as_ref()[at].peer, hub.members.as_ref()[at].alive);
            let me = &mut hub.members.as_mut()[self.me];
            if alive || me.told & 1 << at != 0 {
                continue;
            }
            me.told |= 1 << at;
            drop(hub);
            sink(Event::Gone { peer });
            told += 1;
        }
        told
    }

    fn caps(&self) -> Caps {
        Caps { frame_max: FRAME, reads: true, writes: true }
    }
}
