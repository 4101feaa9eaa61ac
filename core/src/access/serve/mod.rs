//! Serving memory: the machine of a service process that answers for its ranks.
//!
//! Ranks export regions to it; other service processes locate regions and ask for bytes. The machine
//! decides who may have what and in which order; it copies nothing itself. The driver carries out a
//! [`struct@Copy`] between the memory that it keeps under [`Copy::place`] and the asker, and reports back:
//!
//! ```text
//! on_frame ──> Reply::Answer            send it
//!          ──> Reply::Copy(copy)        copy, then copied(copy, status) ──> maybe an answer
//!          ──> Reply::Attach(attach)    map the memory, then attached(attach, status) ──> an answer
//!          ──> Reply::Later             poll() will tell
//! poll     ──> Action::Copy, Action::Detach, Action::Answer
//! ```
//!
//! A transfer of at most [`STEP`] bytes is answered by `on_frame` at once: one frame in, one copy, one frame
//! out; a driver that can copy without waiting has [`read_now`](Serve::read_now) do all of it. Longer ones are cut into steps, and [`poll`](Serve::poll) deals the steps out in turn between the
//! askers, so that one asker's large read delays another's by one step.
//!
//! Invariants: an asker has at most the credit of its link outstanding, more is refused; every request
//! gets exactly one answer unless its link goes; a region in use is not told as revoked; what a frame
//! says is checked against the tables before anything is copied.
//!
//! *Cost*: of a small read: one look-up in the table of regions and no queue.

mod exports;
mod reply;
mod short;
mod steps;

use steps::Long;

pub use reply::{Action, Answer, Attach, Copy, Direction, Reply};

use crate::access::message::{
    Description, EXPORT, Export, IMPORT, Import, LOCATE, Locate, Malformed, READ, REVOKE, Revoke, TRANSFER, Transfer,
    WRITE,
};
use crate::error::Status;
use crate::id::Id;
use crate::key::{Access, Key, Span};
use crate::machine::Link;
use crate::peer::{Incarnation, Peer, PeerKind, Sp};
use crate::region::{Entry, Held, Reaped, Region, Regions};
use crate::slots::{Slot, Slots};
use crate::wire::{Frame, Op, Token};

/// Bytes that are copied before it is another asker's turn: a step costs some 60 ns beside its copy, and keeps
/// the others waiting for about a microsecond.
pub const STEP: u64 = 64 * 1024;

/// Most bytes of one inline transfer: what fits into the body of a frame beside the fixed part.
pub const INLINE_MAX: u64 = 32 * 1024;

/// What the server knows of one link; lent by the caller, one for each link.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    who: Option<Who>,
    /// Bytes of the segment that the asker lends for answers.
    landing: u64,
    credit: u32,
    outstanding: u32,
    /// Its long transfers, first come first served.
    first: u32,
    last: u32,
    /// The next asker whose turn it is; meaningful while `queued`.
    next: u32,
    queued: bool,
    /// The peer has exported in another life since: this one exports no more.
    outlived: bool,
    /// Who was here before, and a life that was here and that another one has outlived: lives have no order, so one that
    /// connects again is known by having been here.
    before: Option<Who>,
    over: Option<Who>,
    /// Counts the links that had this number, so that a copy of an earlier one answers nobody.
    epoch: u32,
}

impl Asker {
    /// Nobody is at the other end.
    pub const NONE: Asker = Asker {
        who: None,
        landing: 0,
        credit: 0,
        outstanding: 0,
        first: NIL,
        last: NIL,
        next: NIL,
        queued: false,
        outlived: false,
        before: None,
        over: None,
        epoch: 0,
    };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Who {
    peer: Peer,
    incarnation: Incarnation,
}

/// A transfer of more than one step, or a revocation that waits; lent by the caller.
#[derive(Debug)]
pub struct Job {
    link: Link,
    token: Token,
    kind: Kind,
    /// The asker's next job.
    next: u32,
}

#[derive(Debug)]
enum Kind {
    Long(Long),
    Revocation {
        key: Key,
        /// Which life of its owner asked.
        life: Incarnation,
        /// Nobody uses the region any more.
        drained: bool,
    },
}

const NIL: u32 = u32::MAX;

/// What it has done since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Transfers that ended well.
    pub served: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that were refused or failed.
    pub refused: u64,
    /// Frames that were no request.
    pub malformed: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Serve<E, J, A> {
    me: Sp,
    regions: Regions<E>,
    jobs: Slots<J>,
    askers: A,
    /// First and last of the askers with long transfers.
    turn: u32,
    turn_last: u32,
    /// Revocations that have drained and not been answered.
    drained: u32,
    counters: Counters,
}

impl<E, J, A> Serve<E, J, A>
where
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    J: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>,
    A: AsRef<[Asker]> + AsMut<[Asker]>,
{
    /// Service process `me` over lent tables: regions, long transfers, links.
    pub fn new(me: Sp, regions: E, jobs: J, mut askers: A) -> Self {
        askers.as_mut().fill(Asker::NONE);
        let (regions, jobs) = (Regions::new(regions), Slots::new(jobs));
        Serve { me, regions, jobs, askers, turn: NIL, turn_last: NIL, drained: 0, counters: Counters::default() }
    }

    /// Its table of regions.
    pub const fn regions(&self) -> &Regions<E> {
        &self.regions
    }

    /// What it has done.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// A link came up; its peer has proven who it is. `landing` is how many bytes of memory the peer lends
    /// for answers, 0 if none; `credit` how many requests it may have outstanding.
    ///
    /// # Errors
    /// [`Status::Full`] if the table of links has no place for this number.
    pub fn on_link(
        &mut self,
        link: Link,
        peer: Peer,
        incarnation: Incarnation,
        landing: u64,
        credit: u32,
    ) -> Result<(), Status> {
        let who = Some(Who { peer, incarnation });
        let outlived = self.askers.as_ref().iter().any(|asker| asker.over == who);
        let asker = self.askers.as_mut().get_mut(link.index()).ok_or(Status::Full)?;
        (asker.who, asker.outlived) = (who, outlived);
        asker.landing = landing;
        asker.credit = credit;
        Ok(())
    }

    /// Whether a rank is at the other end of a link.
    #[must_use]
    pub fn is_rank(&self, link: Link) -> bool {
        let who = self.askers.as_ref().get(link.index()).and_then(|asker| asker.who);
        who.is_some_and(|who| matches!(who.peer.kind(), PeerKind::Rank(_)))
    }

    /// A link went down. Its requests are forgotten, and if it was the last of this life of its peer, what that
    /// life exported is revoked: poll for what has to be unmapped. Another life of the peer is not touched.
    pub fn on_gone(&mut self, link: Link) {
        let Some(asker) = self.askers.as_mut().get_mut(link.index()) else { return };
        let who = asker.who.take();
        asker.before = who;
        (asker.outstanding, asker.first, asker.last, asker.outlived) = (0, NIL, NIL, false);
        asker.epoch = asker.epoch.wrapping_add(1);
        self.drop_jobs(link);
        let Some(Who { peer, incarnation }) = who else { return };
        let again = self.askers.as_ref().iter().any(|a| a.who == who);
        if !again && self.regions.orphan(peer, |life| life == incarnation) > 0 {
            crate::log!(debug, "{:?} is gone, and what this life of it exported", peer);
            self.settle();
        }
    }

    /// A frame came. Tell the driver what to do with it.
    #[inline(always)]
    pub fn on_frame<'f>(&mut self, link: Link, frame: &Frame<'f>) -> Reply<'f> {
        let &Frame::Call { op, token, body } = frame else {
            self.counters.malformed += 1;
            return Reply::Later;
        };
        match op {
            READ | WRITE => self.transfer(link, op, token, body),
            _ => self.call(link, op, token, body).unwrap_or_else(|status| {
                self.refused(link, op, status);
                Reply::Answer(Answer::plain(link, op, token, status))
            }),
        }
    }

    #[cold]
    fn refused(&mut self, link: Link, op: Op, status: Status) {
        match status {
            Status::Malformed => self.counters.malformed += 1,
            _ => self.counters.refused += 1,
        }
        crate::log!(debug, "{:?}: {:?} is refused: {:?}", link, op, status);
    }

    #[inline(never)]
    fn call<'f>(&mut self, link: Link, op: Op, token: Token, body: &'f [u8]) -> Result<Reply<'f>, Status> {
        let asker = self.askers.as_ref().get(link.index()).ok_or(Status::Unauthenticated)?;
        let who = asker.who.ok_or(Status::Unauthenticated)?;
        match op {
            LOCATE => {
                asker_is_service(who)?;
                let Locate { owner, address } = Locate::parse(body).map_err(malformed)?;
                let region = self.regions.find(owner, address)?;
                Ok(Reply::Answer(Answer::with(link, op, token, &Description(region).to_bytes())))
            }
            IMPORT => {
                let Import { key, secret } = Import::parse(body).map_err(malformed)?;
                let region = self.regions.authorise(key, &secret, asker_is_service(who)?)?;
                Ok(Reply::Answer(Answer::with(link, op, token, &Description(region).to_bytes())))
            }
            EXPORT => self.export(link, token, who, body),
            REVOKE => self.revoke(link, token, who, Revoke::parse(body).map_err(malformed)?),
            _ => Err(Status::Malformed),
        }
    }

    /// This process wants bytes of a region for itself: the checks that it makes for others. Give the hold
    /// back with [`release_own`](Self::release_own).
    ///
    /// # Errors
    /// The status with which the read ends.
    pub fn hold_own(&mut self, span: Span) -> Result<Held, Status> {
        Ok(self.regions.hold(span, Access::READ, self.me)?)
    }

    /// A read of its own has ended.
    pub fn release_own(&mut self, held: Held) {
        self.release(held);
    }

    /// The next thing to do. Poll after `on_frame` answered [`Reply::Later`], after `copied`, and after
    /// `on_gone`, until `None`.
    #[must_use]
    pub fn poll(&mut self) -> Option<Action> {
        if let Some(Reaped { place, key, .. }) = self.regions.reap() {
            return Some(Action::Detach { place, key });
        }
        if self.drained > 0 {
            return self.answer_drained();
        }
        self.next_step()
    }
}

/// Ranks have no business with other ranks' memory: a rank reads through its service process.
#[inline]
fn asker_is_service(who: Who) -> Result<Sp, Status> {
    match who.peer.kind() {
        PeerKind::Service(sp) => Ok(sp),
        PeerKind::Rank(_) => Err(Status::PermissionDenied),
    }
}

fn malformed(Malformed: Malformed) -> Status {
    Status::Malformed
}
