//! Transfers: at once if short, else in steps that take turns.

use super::reply::Of;
use super::{
    Access, Action, Answer, Asker, Copy, Direction, Entry, Held, INLINE_MAX, Id, Incarnation, Job, Kind, Link, NIL, Op,
    READ, Reply, STEP, Serve, Slot, Status, TRANSFER, Token, Transfer, WRITE, asker_is_service, malformed,
};
use crate::error::Full;
use crate::key::Span;
use crate::wire::BODY_MAX;

// The largest inline transfer fits into a frame, in either direction.
const _: () = assert!(INLINE_MAX as usize + TRANSFER <= BODY_MAX);

/// A job whose link went while a step of it was out; nobody waits for its answer.
const NOBODY: Link = Link(u32::MAX);

/// A request for bytes that may be carried out.
pub(super) struct Admitted<'f> {
    direction: Direction,
    span: Span,
    landing: u64,
    /// Bytes that came in the frame.
    inline: &'f [u8],
    /// Of the asker.
    epoch: u32,
    held: Held,
}

/// A transfer that takes turns.
#[derive(Debug)]
pub(super) struct Long {
    direction: Direction,
    /// The whole transfer; given back when it ends.
    pub(super) held: Option<Held>,
    place: usize,
    offset: u64,
    address: u64,
    landing: u64,
    len: u64,
    done: u64,
    /// A step is out.
    copying: bool,
    /// How it will end, once a step failed or the region was taken away.
    pub(super) fate: Status,
}

impl<E, J, A> Serve<E, J, A>
where
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    J: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>,
    A: AsRef<[Asker]> + AsMut<[Asker]>,
{
    /// Checks all that a request for bytes says.
    #[inline(always)]
    pub(super) fn admit<'f>(&mut self, link: Link, op: Op, body: &'f [u8]) -> Result<Admitted<'f>, Status> {
        let asker = self.askers.as_mut().get_mut(link.index()).ok_or(Status::Unauthenticated)?;
        asker_is_service(asker.who.ok_or(Status::Unauthenticated)?)?;
        let (Transfer { span, incarnation, landing }, inline) = Transfer::parse(body).map_err(malformed)?;
        let (direction, right) = match (op == READ, landing) {
            (true, Some(_)) => (Direction::ToLanding, Access::READ),
            (true, None) => (Direction::ToFrame, Access::READ),
            (false, Some(_)) => (Direction::FromLanding, Access::WRITE),
            (false, None) => (Direction::FromFrame, Access::WRITE),
        };
        if inline.len() as u64 != if direction == Direction::FromFrame { span.len } else { 0 } {
            return Err(Status::Malformed);
        }
        match landing {
            Some(at) if at > asker.landing || span.len > asker.landing - at => return Err(Status::OutOfBounds),
            None if span.len > INLINE_MAX => return Err(Status::OutOfBounds),
            _ => {}
        }
        if asker.outstanding >= asker.credit {
            return Err(Status::Full);
        }
        // This process does the copy, so it is its own right to touch the region that counts.
        let held = self.regions.hold(span, right, self.me)?;
        let life = self.regions.of(&held).map(|region| region.incarnation);
        if incarnation != Incarnation::ANY && life != Some(incarnation) {
            self.release(held);
            return Err(Status::StaleKey);
        }
        asker.outstanding += 1;
        Ok(Admitted { direction, span, landing: landing.unwrap_or(0), inline, epoch: asker.epoch, held })
    }

    /// A request for bytes.
    #[inline(always)]
    pub(super) fn transfer<'f>(&mut self, link: Link, op: Op, token: Token, body: &'f [u8]) -> Reply<'f> {
        match self.admit(link, op, body).and_then(|admitted| self.begin(link, token, op, admitted)) {
            Ok(reply) => reply,
            Err(status) => {
                self.refused(link, op, status);
                Reply::Answer(Answer::plain(link, op, token, status))
            }
        }
    }

    /// What to do about a request for bytes that may be carried out.
    #[inline(always)]
    fn begin<'f>(&mut self, link: Link, token: Token, op: Op, admitted: Admitted<'f>) -> Result<Reply<'f>, Status> {
        let Admitted { direction, span, landing, inline, epoch, held } = admitted;
        let (place, address, offset, len) = (held.place(), held.address(), span.offset, span.len);
        if len > STEP && matches!(direction, Direction::ToLanding | Direction::FromLanding) {
            let held = Some(held);
            let (copying, fate) = (false, Status::Ok);
            let long = Long { direction, held, place, offset, address, landing, len, done: 0, copying, fate };
            self.take_turns(link, token, long)?;
            return Ok(Reply::Later);
        }
        let of = Of::Whole { op, epoch, held };
        let copy = Copy { link, token, direction, place, offset, address, landing, len, of };
        Ok(if direction == Direction::FromFrame { Reply::Store(copy, inline) } else { Reply::Copy(copy) })
    }

    #[inline(never)]
    fn take_turns(&mut self, link: Link, token: Token, long: Long) -> Result<(), Status> {
        match self.jobs.take(Job { link, token, kind: Kind::Long(long), next: NIL }) {
            Ok(id) => self.append(link, id.index()),
            Err(Full(job)) => {
                self.give_up(job);
                return Err(Status::Full);
            }
        }
        Ok(())
    }

    fn give_up(&mut self, job: Job) {
        if let Kind::Long(Long { held: Some(held), .. }) = job.kind {
            self.release(held);
        }
        if let Some(asker) = self.askers.as_mut().get_mut(job.link.index()) {
            asker.outstanding = asker.outstanding.saturating_sub(1);
        }
    }

    /// Whether whoever asked for a copy is still there. A driver that moves bytes for a while asks before it writes to the
    /// landing segment: the link may be another's by now.
    #[must_use]
    pub fn is_awaited(&self, copy: &Copy) -> bool {
        match &copy.of {
            Of::Whole { epoch, .. } => self.askers.as_ref().get(copy.link.index()).is_some_and(|a| a.epoch == *epoch),
            Of::Step(id) => self.jobs.get(*id).is_ok_and(|job| job.link != NOBODY),
        }
    }

    /// The driver moved the bytes of a copy, or could not: `status` is what the asker shall be told.
    /// Returns the answer if the request ended.
    #[inline(always)]
    #[must_use = "the asker waits for the answer"]
    pub fn copied(&mut self, copy: Copy, status: Status) -> Option<Answer> {
        match copy.of {
            Of::Whole { op, epoch, held } => {
                // What was kept under its place may be another region's by now.
                let status = self.regions.fate(&held).map_or(status, Status::from);
                self.release(held);
                let asker = self.askers.as_mut().get_mut(copy.link.index()).filter(|a| a.epoch == epoch)?;
                asker.outstanding = asker.outstanding.saturating_sub(1);
                self.count(status, copy.len);
                Some(Answer::plain(copy.link, op, copy.token, status))
            }
            Of::Step(id) => self.stepped(id, copy.len, status),
        }
    }

    fn stepped(&mut self, id: Id<Job>, len: u64, status: Status) -> Option<Answer> {
        let job = self.jobs.get_mut(id).ok()?;
        let link = job.link;
        let Kind::Long(long) = &mut job.kind else { return None };
        long.copying = false;
        if long.fate == Status::Ok {
            long.fate = status;
        }
        long.done += len;
        let ended = long.fate != Status::Ok || long.done >= long.len;
        if link == NOBODY {
            let job = self.jobs.remove(id).ok()?;
            if let Kind::Long(Long { held: Some(held), .. }) = job.kind {
                self.release(held);
            }
            return None;
        }
        let answer = if ended { self.end_first(link) } else { None };
        self.queue(link);
        answer
    }

    /// The next step of the asker whose turn it is, or the answer to its request that cannot go on.
    pub(super) fn next_step(&mut self) -> Option<Action> {
        loop {
            let index = self.turn;
            let asker = self.askers.as_mut().get_mut(index as usize)?;
            self.turn = asker.next;
            asker.queued = false;
            if self.turn == NIL {
                self.turn_last = NIL;
            }
            let link = Link(index);
            let Some((id, _)) = self.jobs.at(asker.first) else { continue };
            let Ok(Job { token, kind: Kind::Long(long), .. }) = self.jobs.get_mut(id) else { continue };
            if long.copying {
                continue;
            }
            if long.fate != Status::Ok {
                let answer = self.end_first(link);
                self.queue(link);
                match answer {
                    Some(answer) => return Some(Action::Answer(answer)),
                    None => continue,
                }
            }
            long.copying = true;
            let at = long.done;
            return Some(Action::Copy(Copy {
                link,
                token: *token,
                direction: long.direction,
                place: long.place,
                offset: long.offset + at,
                address: long.address + at,
                landing: long.landing + at,
                len: (long.len - at).min(STEP),
                of: Of::Step(id),
            }));
        }
    }

    /// Ends the first job of a link.
    fn end_first(&mut self, link: Link) -> Option<Answer> {
        let asker = self.askers.as_mut().get_mut(link.index())?;
        let (id, _) = self.jobs.at(asker.first)?;
        let job = self.jobs.remove(id).ok()?;
        asker.first = job.next;
        if asker.first == NIL {
            asker.last = NIL;
        }
        asker.outstanding = asker.outstanding.saturating_sub(1);
        let Kind::Long(long) = job.kind else { return None };
        if let Some(held) = long.held {
            self.release(held);
        }
        self.count(long.fate, long.len);
        let op = if matches!(long.direction, Direction::ToLanding | Direction::ToFrame) { READ } else { WRITE };
        Some(Answer::plain(link, op, job.token, long.fate))
    }

    #[inline]
    pub(super) fn count(&mut self, status: Status, len: u64) {
        if status == Status::Ok {
            self.counters.served += 1;
            self.counters.bytes += len;
        } else {
            self.counters.refused += 1;
        }
    }

    fn append(&mut self, link: Link, index: u32) {
        let Some(asker) = self.askers.as_mut().get_mut(link.index()) else { return };
        let last = asker.last;
        asker.last = index;
        if last == NIL {
            asker.first = index;
        } else if let Some((id, _)) = self.jobs.at(last)
            && let Ok(job) = self.jobs.get_mut(id)
        {
            job.next = index;
        }
        self.queue(link);
    }

    /// Puts an asker with work at the end of the line.
    fn queue(&mut self, link: Link) {
        let Some(asker) = self.askers.as_mut().get_mut(link.index()) else { return };
        if asker.queued || asker.first == NIL {
            return;
        }
        asker.queued = true;
        asker.next = NIL;
        let last = core::mem::replace(&mut self.turn_last, link.0);
        match self.askers.as_mut().get_mut(last as usize) {
            Some(last) => last.next = link.0,
            None => self.turn = link.0,
        }
    }

    /// Forgets the jobs of a link that went.
    pub(super) fn drop_jobs(&mut self, link: Link) {
        let capacity = u32::try_from(self.jobs.capacity()).unwrap_or(NIL);
        for index in 0..capacity {
            let Some((id, job)) = self.jobs.at(index) else { continue };
            if job.link != link {
                continue;
            }
            if let Ok(job) = self.jobs.get_mut(id)
                && let Kind::Long(Long { copying: true, .. }) = job.kind
            {
                // The step that is out still uses the memory; `copied` will end this.
                job.link = NOBODY;
                continue;
            }
            let Ok(job) = self.jobs.remove(id) else { continue };
            match job.kind {
                Kind::Long(Long { held: Some(held), .. }) => self.release(held),
                Kind::Revocation { drained: true, .. } => self.drained -= 1,
                _ => {}
            }
        }
    }
}
