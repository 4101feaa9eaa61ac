//! Reading other ranks' memory, by a ticket that its owner gave away.
//!
//! The rank cuts a read into fetches of one answer each, keeps a few of them under way, and puts the answers
//! together; its first shadow service process reads for it. The owner of the memory need not do anything.

use std::collections::VecDeque;

use umbra_core::access::message::{FETCH, Fetch};
use umbra_core::access::relay::CREDIT;
use umbra_core::access::serve::INLINE_MAX;
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Peer, Sp};
use umbra_core::slots::{Slot, Slots};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Token};

use super::{Session, SessionError};
use crate::driver::{self, LinkId};
use crate::sys::heap::{self, NoMemory};

/// Reads that a rank can have posted at once.
pub(super) const READS: usize = 1024;

/// A read that was posted.
#[derive(Debug)]
pub struct Posted {
    key: Key,
    /// Copies of the region may be kept.
    constant: bool,
    offset: u64,
    buffer: Vec<u8>,
    /// Bytes that were asked for.
    asked: u64,
    /// Bytes that came.
    have: u64,
    deadline: Time,
    /// Why it failed, and who is missing.
    failed: Option<(Status, Option<Sp>)>,
}

impl Posted {
    const fn len(&self) -> u64 {
        self.buffer.len() as u64
    }

    const fn has_ended(&self) -> bool {
        self.failed.is_some() || self.have == self.len()
    }
}

/// A fetch that was not answered.
#[derive(Debug)]
struct Piece {
    read: Id<Posted>,
    at: u64,
    len: u64,
}

/// All reads of a session.
#[derive(Debug)]
pub(super) struct Reads {
    posted: Slots<Vec<Slot<Posted>>>,
    /// Fetches under way; as many as the service process takes.
    pieces: Slots<Vec<Slot<Piece>>>,
    /// Reads with bytes to ask for; they take turns.
    turns: VecDeque<Id<Posted>>,
    /// Hints that were not answered.
    pub(super) hints: u32,
}

impl Reads {
    pub(super) fn new() -> Reads {
        Reads {
            posted: Slots::new((0..READS).map(|_| Slot::EMPTY).collect()),
            pieces: Slots::new((0..CREDIT).map(|_| Slot::EMPTY).collect()),
            turns: VecDeque::new(),
            hints: 0,
        }
    }

    /// When the next read ends for want of an answer.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.posted.is_empty() {
            return None;
        }
        self.posted.iter().filter(|(_, read)| !read.has_ended()).map(|(_, read)| read.deadline).min()
    }

    /// The next fetch to send, if there is one and the service process takes it.
    fn next(&mut self, now: Time) -> Option<(Token, Fetch)> {
        if self.pieces.len() == self.pieces.capacity() {
            return None;
        }
        loop {
            let id = self.turns.pop_front()?;
            let Ok(read) = self.posted.get_mut(id) else { continue };
            if read.failed.is_some() {
                continue;
            }
            let at = read.asked;
            let len = (read.len() - at).min(INLINE_MAX);
            let constant = read.constant;
            let token = self.pieces.take(Piece { read: id, at, len }).ok()?;
            read.asked += len;
            if read.asked < read.len() {
                self.turns.push_back(id);
            }
            // The service process gives up first, and says who is missing.
            let left = read.deadline.since(now).0;
            let patience = Lapse(left - left / 8);
            let span = Span { key: read.key, offset: read.offset + at, len };
            return Some((Token(token.to_bits()), Fetch { span, patience, constant }));
        }
    }

    /// The service process answered a fetch.
    pub(super) fn answered(&mut self, token: Token, status: Status, body: &[u8]) {
        let Ok(Piece { read, at, len }) = self.pieces.remove(Id::from_bits(token.0)) else { return };
        let Ok(read) = self.posted.get_mut(read) else { return };
        let place = usize::try_from(at).ok().zip(usize::try_from(at + len).ok());
        let into = place.and_then(|(start, end)| read.buffer.get_mut(start..end));
        match (status, into) {
            (Status::Ok, Some(into)) if into.len() == body.len() => {
                into.copy_from_slice(body);
                read.have += len;
            }
            (Status::Ok, _) => fail(read, Status::Malformed, None),
            (status, _) => fail(read, status, body.try_into().ok().map(|sp| Sp(u32::from_le_bytes(sp)))),
        }
    }

    /// Takes a read out, and out of the turns.
    ///
    /// Its turn may not come for long, while others that are cancelled gather behind it.
    fn remove(&mut self, read: Id<Posted>) -> Result<Posted, SessionError> {
        let posted = self.posted.remove(read).map_err(|_| SessionError::Memory(Status::UnknownRegion))?;
        if posted.asked < posted.len() {
            self.turns.retain(|&turn| turn != read);
        }
        Ok(posted)
    }

    /// Ends what was not answered in time; a late answer finds its token stale.
    pub(super) fn expire(&mut self, now: Time, sp: Sp) {
        self.fail_each(Status::Timeout, sp, |read| read.deadline <= now);
    }

    /// The link to the service process is gone, and with it all answers.
    pub(super) fn lose(&mut self, sp: Sp) {
        self.fail_each(Status::PeerFailed, sp, |_| true);
        self.turns.clear();
        self.hints = 0;
        let pieces: Vec<Id<Piece>> = self.pieces.iter().map(|(id, _)| id).collect();
        for id in pieces {
            let _ = self.pieces.remove(id);
        }
    }

    fn fail_each(&mut self, status: Status, sp: Sp, which: impl Fn(&Posted) -> bool) {
        if self.posted.is_empty() {
            return;
        }
        for index in 0..READS as u32 {
            if let Some((id, read)) = self.posted.at(index)
                && !read.has_ended()
                && which(read)
                && let Ok(read) = self.posted.get_mut(id)
            {
                fail(read, status, Some(sp));
            }
        }
    }
}

/// Whether a ticket allows a read.
pub(super) fn check(ticket: &Ticket, offset: u64, len: u64) -> Result<(), SessionError> {
    let refused = |status| Err(SessionError::Read { owner: ticket.key.owner(), status, missing: None });
    if offset > ticket.len || len > ticket.len - offset {
        return refused(Status::OutOfBounds);
    }
    if !ticket.access.contains(Access::READ) {
        return refused(Status::PermissionDenied);
    }
    Ok(())
}

/// A buffer of this length, if need be another one than that.
pub(super) fn sized(mut buffer: Vec<u8>, len: usize) -> Result<Vec<u8>, NoMemory> {
    if len > buffer.capacity() {
        drop(buffer);
        return heap::reserved(len, || 0);
    }
    buffer.resize(len, 0);
    Ok(buffer)
}

fn fail(read: &mut Posted, status: Status, missing: Option<Sp>) {
    read.failed.get_or_insert((status, missing));
}

impl Session {
    /// The ticket of an exported region: give it, as 64 bytes, to whom may read the region.
    ///
    /// It names the region and opens it for every process of the job, because service processes read for their
    /// ranks. After [`revoke`](Self::revoke) it opens nothing any more, also not what is exported next.
    #[must_use]
    pub fn ticket(&self, key: Key) -> Option<Ticket> {
        let (base, len) = self.exported.get(&key.to_bits()).filter(|(_, told)| told.is_some())?.0.span();
        let access = self.regions.get(key)?.access;
        let sp = self.shadows().next()?;
        Some(Ticket { key, base, len, access, locator: Locator::Asked { sp } })
    }

    /// Reads bytes of another rank's region, from `offset` within it; returns when they are there.
    ///
    /// # Errors
    /// [`SessionError::Read`]: why it cannot be read, or who was missing at the deadline of [`Settings`](super::Settings);
    /// [`SessionError::NoMemory`] for the copy of the bytes that is filled until all are there.
    pub fn read(&mut self, ticket: &Ticket, offset: u64, into: &mut [u8]) -> Result<(), SessionError> {
        check(ticket, offset, into.len() as u64)?;
        let buffer = sized(std::mem::take(&mut self.spare), into.len())?;
        let read = self.post_read(ticket, offset, buffer)?;
        self.spare = self.wait_read(read)?;
        into.copy_from_slice(&self.spare);
        Ok(())
    }

    /// Begins to read as many bytes as `buffer` has, and returns at once. Call [`progress`](Self::progress) or
    /// [`poll_read`](Self::poll_read) until they are there.
    ///
    /// # Errors
    /// [`SessionError::Read`] if the ticket does not allow it, [`SessionError::Memory`] with `Full` if too many
    /// reads are posted.
    pub fn post_read(&mut self, ticket: &Ticket, offset: u64, buffer: Vec<u8>) -> Result<Id<Posted>, SessionError> {
        self.refuse_heirs()?;
        let len = buffer.len() as u64;
        check(ticket, offset, len)?;
        let (key, deadline) = (ticket.key, self.deadline());
        let constant = ticket.access.contains(Access::CONSTANT);
        let read = Posted { key, constant, offset, buffer, asked: 0, have: 0, deadline, failed: None };
        let id = self.reads.posted.take(read).map_err(|_| SessionError::Memory(Status::Full))?;
        if len > 0 {
            self.reads.turns.push_back(id);
        }
        self.pump();
        Ok(id)
    }

    /// Makes progress without waiting; hands the bytes over if they are there.
    ///
    /// # Errors
    /// [`SessionError::Read`] if it failed; the read is over then, and its id stale.
    pub fn poll_read(&mut self, read: Id<Posted>) -> Result<Option<Vec<u8>>, SessionError> {
        if !self.has_ended(read)? {
            self.progress(Time::ZERO)?;
        }
        if self.has_ended(read)? { self.take_read(read).map(Some) } else { Ok(None) }
    }

    /// Waits for the bytes of a posted read.
    ///
    /// # Errors
    /// As [`poll_read`](Self::poll_read); the read ends at its deadline, which was set when it was posted.
    pub fn wait_read(&mut self, read: Id<Posted>) -> Result<Vec<u8>, SessionError> {
        while !self.has_ended(read)? {
            if let Err(error) = self.progress(Time::NEVER) {
                self.cancel_read(read)?;
                return Err(error);
            }
        }
        self.take_read(read)
    }

    /// Does not want the bytes of a posted read any more.
    ///
    /// # Errors
    /// [`SessionError::Memory`] with `UnknownRegion` if it is over already.
    pub fn cancel_read(&mut self, read: Id<Posted>) -> Result<(), SessionError> {
        self.reads.remove(read).map(drop)
    }

    pub(super) fn has_ended(&self, read: Id<Posted>) -> Result<bool, SessionError> {
        let read = self.reads.posted.get(read).map_err(|_| SessionError::Memory(Status::UnknownRegion))?;
        Ok(read.has_ended())
    }

    pub(super) fn take_read(&mut self, read: Id<Posted>) -> Result<Vec<u8>, SessionError> {
        let read = self.reads.remove(read)?;
        match read.failed {
            Some((status, missing)) => {
                let owner: Peer = read.key.owner();
                Err(SessionError::Read { owner, status, missing })
            }
            None => Ok(read.buffer),
        }
    }

    /// Sends what reads want, as far as the service process takes it.
    pub(super) fn fetch(&mut self) {
        let Some((sp, link, up)) = self.shadows.first().map(|s| (s.sp, s.link, s.up)) else { return };
        if !up {
            return self.reads.lose(sp);
        }
        while let Some((token, fetch)) = self.reads.next(driver::now()) {
            let call = Frame::Call { op: FETCH, token, body: &fetch.to_bytes() };
            if self.driver.send(link, &call, Vec::new()).is_err() {
                return self.reads.lose(sp);
            }
        }
    }

    /// An answer about memory that was read for this rank.
    pub(super) fn fetched(&mut self, link: LinkId, token: Token, status: Status, body: &[u8]) {
        if self.is_first(link) {
            self.reads.answered(token, status, body);
        }
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::peer::WorldRank;

    use super::*;

    fn posted(len: usize, deadline: u64) -> Posted {
        let owner = Peer::rank(WorldRank(1)).unwrap_or_else(|| unreachable!());
        let (key, buffer, deadline) = (Key::new(owner, 0, 1), vec![0; len], Time(deadline));
        Posted { key, constant: false, offset: 3, buffer, asked: 0, have: 0, deadline, failed: None }
    }

    fn post(reads: &mut Reads, len: usize, deadline: u64) -> Id<Posted> {
        let id = reads.posted.take(posted(len, deadline)).unwrap_or_else(|_| unreachable!());
        reads.turns.push_back(id);
        id
    }

    #[test]
    fn reads_take_turns_and_no_more_fetches_are_under_way_than_the_service_process_takes() {
        let mut reads = Reads::new();
        let long = post(&mut reads, 100 * INLINE_MAX as usize, 1000);
        let short = post(&mut reads, 8, 1000);
        let mut out = Vec::new();
        while let Some((token, fetch)) = reads.next(Time(0)) {
            out.push((token, fetch.span.offset, fetch.span.len));
        }
        assert_eq!(out.len(), CREDIT as usize);
        assert_eq!((out[1].1, out[1].2), (3, 8), "the short read is second");
        reads.answered(out[1].0, Status::Ok, b"eight by");
        assert!(reads.posted.get(short).is_ok_and(|read| read.has_ended() && read.buffer == b"eight by"));
        let (_, next) = reads.next(Time(0)).unwrap_or_else(|| unreachable!());
        assert_eq!(next.span.offset, 3 + (u64::from(CREDIT) - 1) * INLINE_MAX);
        assert!(reads.posted.get(long).is_ok_and(|read| !read.has_ended()));
    }

    #[test]
    fn reads_that_are_cancelled_while_all_fetches_are_under_way_wait_for_no_turn() {
        let mut reads = Reads::new();
        post(&mut reads, 100 * INLINE_MAX as usize, 1000);
        while reads.next(Time(0)).is_some() {}
        for _ in 0..100 {
            let read = post(&mut reads, 8, 1000);
            assert!(reads.remove(read).is_ok());
        }
        assert_eq!(reads.turns.len(), 1);
    }

    #[test]
    fn a_late_answer_a_short_one_and_a_refusal_move_no_byte() {
        let mut reads = Reads::new();
        let late = post(&mut reads, 8, 100);
        let (token, fetch) = reads.next(Time(20)).unwrap_or_else(|| unreachable!());
        assert_eq!(fetch.patience, Lapse(70), "the service process gives up first");
        assert_eq!(reads.deadline(), Some(Time(100)));
        reads.expire(Time(99), Sp(4));
        assert!(reads.posted.get(late).is_ok_and(|read| read.failed.is_none()));
        reads.expire(Time(100), Sp(4));
        assert!(reads.posted.get(late).is_ok_and(|read| read.failed == Some((Status::Timeout, Some(Sp(4))))));
        assert_eq!(reads.deadline(), None);
        let _ = reads.posted.remove(late);
        reads.answered(token, Status::Ok, &[7; 8]);
        reads.answered(token, Status::Ok, &[7; 8]);

        for (status, body, expected) in [
            (Status::Ok, &[1, 2, 3][..], (Status::Malformed, None)),
            (Status::KeyRevoked, &[], (Status::KeyRevoked, None)),
            (Status::PeerFailed, &[9, 0, 0, 0], (Status::PeerFailed, Some(Sp(9)))),
        ] {
            let read = post(&mut reads, 8, 100);
            let (token, _) = reads.next(Time(0)).unwrap_or_else(|| unreachable!());
            reads.answered(token, status, body);
            assert!(reads.posted.get(read).is_ok_and(|r| r.failed == Some(expected) && r.buffer == [0; 8]));
        }
    }
}
