//! Access through a service process that is asked.
//!
//! This is the way that works between hosts without RDMA. Each access becomes inline [`Transfer`]s over a link of
//! frames, one after the other; the server copies. Right, bounds and generation are checked here, before anything is
//! sent, against what the owner exported, and again by the server. The server confirms an import ([`Event::Imported`]);
//! until it refuses, accesses may be posted.

use super::imports::Imports;
use super::message::{Export, IMPORT, Import, READ, Reach, TRANSFER, Transfer, WRITE};
use super::serve::INLINE_MAX;
use super::{Event, MemoryAccess};
use crate::error::Status;
use crate::id::Id;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};
use crate::region::{Entry, Held};
use crate::slots::{Slot, Slots};
use crate::time::{Lapse, Time};
use crate::transport::PostError;
use crate::wire::{BODY_MAX, Frame, HEAD, Token};

/// A link of frames to the server.
pub trait Frames {
    /// Queues a frame; false if there is no room now.
    fn send(&mut self, frame: &Frame<'_>) -> bool;

    /// The next frame that came, in `buffer`: its length.
    ///
    /// # Errors
    /// [`Status::PeerFailed`] once the link is gone.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Status>;
}

/// An access or an import that has not ended; lent by the caller.
#[derive(Debug)]
pub struct Job {
    kind: Kind,
    /// A frame of it is out.
    flying: bool,
    /// When to give it up; told by the first poll.
    deadline: Option<Time>,
}

#[derive(Debug)]
enum Kind {
    Import(Import),
    Copy { token: Token, way: Access, span: Span, incarnation: Incarnation, landing: u64, done: u64, held: Held },
}

impl Kind {
    fn copies(&self, key: Key) -> bool {
        matches!(self, Kind::Copy { span, .. } if span.key == key)
    }

    /// How a copy must end, if its region is lost.
    fn fate<E: AsRef<[Entry]> + AsMut<[Entry]>>(imports: &Imports<E>, kind: &Kind) -> Option<Status> {
        if let Kind::Copy { held, .. } = kind { imports.fate(held) } else { None }
    }
}

/// Access by asking.
#[derive(Debug)]
pub struct Asked<F, E, J, B> {
    frames: F,
    imports: Imports<E>,
    jobs: Slots<J>,
    landing: B,
    patience: Lapse,
    gone: bool,
}

impl<F, E, J, B> Asked<F, E, J, B>
where
    F: Frames,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    J: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    /// Service process `me` over a link and lent tables: regions, accesses, and a landing area. An access
    /// ends with [`Status::Timeout`] if it was not answered `patience` after it was first polled.
    pub fn new(me: Sp, frames: F, regions: E, jobs: J, landing: B, patience: Lapse) -> Self {
        let (imports, jobs) = (Imports::new(me, regions), Slots::new(jobs));
        Asked { frames, imports, jobs, landing, patience, gone: false }
    }

    /// The link.
    pub const fn frames(&mut self) -> &mut F {
        &mut self.frames
    }

    fn range(&self, landing: u64, len: u64) -> Result<core::ops::Range<usize>, Status> {
        let there = self.landing.as_ref().len() as u64;
        if landing > there || len > there - landing {
            return Err(Status::OutOfBounds);
        }
        // Both are at most the length of a slice.
        Ok(landing as usize..(landing + len) as usize)
    }

    /// Sends what can be sent.
    fn send(&mut self) {
        for index in 0..u32::try_from(self.jobs.capacity()).unwrap_or(u32::MAX) {
            let Some((id, job)) = self.jobs.at(index) else { continue };
            if job.flying {
                continue;
            }
            let token = Token(id.to_bits());
            let sent = match &job.kind {
                Kind::Import(import) => self.frames.send(&Frame::Call { op: IMPORT, token, body: &import.to_bytes() }),
                &Kind::Copy { way, span, incarnation, landing, done, .. } => {
                    let len = (span.len - done).min(INLINE_MAX);
                    let part = Span { key: span.key, offset: span.offset + done, len };
                    let transfer = Transfer { span: part, incarnation, landing: None }.to_bytes();
                    if way == Access::WRITE {
                        let Ok(range) = self.range(landing + done, len) else { continue };
                        let mut body = [0; TRANSFER + INLINE_MAX as usize];
                        let end = TRANSFER + range.len();
                        body[..TRANSFER].copy_from_slice(&transfer);
                        body[TRANSFER..end].copy_from_slice(&self.landing.as_ref()[range]);
                        self.frames.send(&Frame::Call { op: WRITE, token, body: &body[..end] })
                    } else {
                        self.frames.send(&Frame::Call { op: READ, token, body: &transfer })
                    }
                }
            };
            if !sent {
                return;
            }
            if let Ok(job) = self.jobs.get_mut(id) {
                job.flying = true;
            }
        }
    }

    /// Takes an answer in; tells what ended by it.
    fn hear(&mut self, frame: &Frame<'_>, sink: &mut dyn FnMut(Event)) -> usize {
        let &Frame::Done { op, token, status, body } = frame else { return 0 };
        let id = Id::<Job>::from_bits(token.0);
        let Ok(job) = self.jobs.get_mut(id) else { return 0 };
        if !job.flying {
            return 0;
        }
        match &mut job.kind {
            Kind::Import(import) if op == IMPORT => {
                let key = import.key;
                let mut told = self.end(id, status, sink);
                if status != Status::Ok {
                    // What was posted meanwhile ends first: a late answer to it must not move a byte.
                    told += self.end_each(|_, kind| kind.copies(key).then_some(status), sink);
                    self.imports.reject(key);
                }
                told
            }
            Kind::Copy { way, span, landing, done, .. } if (op == READ) == (*way == Access::READ) => {
                let len = (span.len - *done).min(INLINE_MAX);
                let mut status = status;
                if status == Status::Ok && *way == Access::READ {
                    let (at, end) = ((*landing + *done) as usize, (*landing + *done + len) as usize);
                    match (self.landing.as_mut().get_mut(at..end), Reach::split(body, len)) {
                        (Some(into), Ok((bytes, _))) => into.copy_from_slice(bytes),
                        _ => status = Status::Malformed,
                    }
                }
                *done += len;
                job.flying = false;
                if status != Status::Ok || *done == span.len { self.end(id, status, sink) } else { 0 }
            }
            _ => 0,
        }
    }

    /// Ends what was not answered in time; a late answer finds its token stale.
    fn expire(&mut self, now: Time, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = 0;
        for index in 0..u32::try_from(self.jobs.capacity()).unwrap_or(u32::MAX) {
            let Some((id, _)) = self.jobs.at(index) else { continue };
            let Ok(job) = self.jobs.get_mut(id) else { continue };
            if *job.deadline.get_or_insert(now + self.patience) <= now {
                crate::log!(warn, "no answer within {:?}", self.patience);
                told += self.end(id, Status::Timeout, sink);
            }
        }
        told
    }

    /// Ends every job for which `fate` has a status.
    fn end_each(&mut self, fate: impl Fn(&Imports<E>, &Kind) -> Option<Status>, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = 0;
        for index in 0..u32::try_from(self.jobs.capacity()).unwrap_or(u32::MAX) {
            if let Some((id, job)) = self.jobs.at(index)
                && let Some(status) = fate(&self.imports, &job.kind)
            {
                told += self.end(id, status, sink);
            }
        }
        told
    }

    fn end(&mut self, id: Id<Job>, status: Status, sink: &mut dyn FnMut(Event)) -> usize {
        match self.jobs.remove(id) {
            Ok(Job { kind: Kind::Copy { token, held, .. }, .. }) => {
                sink(Event::Done { token, status });
                self.imports.release(held);
                1 + self.imports.tell_drained(sink)
            }
            Ok(Job { kind: Kind::Import(import), .. }) => {
                crate::log!(debug, "import of {:?}: {:?}", import.key, status);
                sink(Event::Imported { key: import.key, status });
                1
            }
            Err(_) => 0,
        }
    }
}

impl<F, E, J, B> MemoryAccess for Asked<F, E, J, B>
where
    F: Frames,
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    J: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    fn import(&mut self, export: &Export, incarnation: Incarnation) -> Result<(), Status> {
        if self.gone {
            return Err(Status::PeerFailed);
        }
        if self.jobs.len() == self.jobs.capacity() {
            return Err(Status::Full);
        }
        self.imports.outlive(export.ticket.key.owner(), incarnation);
        self.imports.admit(export, incarnation)?;
        let import = Import { key: export.ticket.key, secret: export.secret };
        self.jobs.take(Job { kind: Kind::Import(import), flying: false, deadline: None }).map_err(|_| Status::Full)?;
        Ok(())
    }

    fn post(&mut self, way: Access, span: Span, landing: u64, token: Token) -> Result<(), PostError> {
        if self.gone {
            return Err(PostError::Gone);
        }
        let room = self.jobs.len() < self.jobs.capacity();
        let held = self.imports.hold(way, span, landing, self.landing.as_ref().len() as u64, room)?;
        let incarnation = self.imports.regions().of(&held).map(|region| region.incarnation).unwrap_or_default();
        let kind = Kind::Copy { token, way, span, incarnation, landing, done: 0, held };
        // There is room: the table is not full.
        let taken = self.jobs.take(Job { kind, flying: false, deadline: None });
        debug_assert!(taken.is_ok());
        Ok(())
    }

    fn revoke(&mut self, key: Key) -> Result<(), Status> {
        self.imports.revoke(key)
    }

    /// A failure stays with the request that met it: the server's queues are its own.
    fn rebuild(&mut self, _owner: Peer) {}

    fn forget(&mut self, owner: Peer, life: Incarnation) {
        self.imports.forget(owner, life);
    }

    fn poll(&mut self, now: Time, sink: &mut dyn FnMut(Event)) -> usize {
        let mut told = self.imports.tell_drained(sink);
        // Before an answer is taken in: none to a region that was lost may move a byte.
        told += self.end_each(Kind::fate, sink);
        let mut buffer = [0; HEAD + BODY_MAX];
        while !self.gone {
            self.send();
            match self.frames.receive(&mut buffer) {
                Ok(None) => return told + self.expire(now, sink),
                Ok(Some(len)) => {
                    // A frame that is none is dropped; its request waits for its deadline.
                    if let Ok(frame) = Frame::parse(buffer.get(..len).unwrap_or(&[])) {
                        told += self.hear(&frame, sink);
                    }
                }
                Err(status) => {
                    crate::log!(warn, "the link to who has the memory is gone: {:?}", status);
                    self.gone = true;
                }
            }
        }
        told + self.end_each(|_, _| Some(Status::PeerFailed), sink)
    }

    fn take(&self, landing: u64, into: &mut [u8]) -> Result<(), Status> {
        into.copy_from_slice(&self.landing.as_ref()[self.range(landing, into.len() as u64)?]);
        Ok(())
    }

    fn put(&mut self, landing: u64, from: &[u8]) -> Result<(), Status> {
        let range = self.range(landing, from.len() as u64)?;
        self.landing.as_mut()[range].copy_from_slice(from);
        Ok(())
    }
}
