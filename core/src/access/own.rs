//! Owning memory: the machine of a rank that exports regions and takes them back.
//!
//! An export is told to each of the owner's shadow service processes and is usable at those that said
//! yes. A revocation is told to the same ones; the memory may be reused when all of them have answered,
//! died, or were given up by their owner ([`Event::Late`], then [`Owner::give_up`]).
//!
//! Invariants: a key is not made again before its revocation was answered everywhere; every question ends
//! exactly once; who has not answered is named.

use crate::access::message::{EXPORT, Export, REVOKE, Revoke};
use crate::endpoints::Shadows;
use crate::error::Status;
use crate::id::Id;
use crate::key::{Access, Key};
use crate::peer::{Incarnation, Peer, Sp};
use crate::pending::{Pending, Request};
use crate::region::{Entry, ExportError, Region, Regions, RevokeError, Secret};
use crate::ticket::{Locator, Ticket};
use crate::time::{Lapse, Time};
use crate::wire::{Frame, Token};

/// Whoever had no room for a question is not asked again before.
pub const AGAIN: Lapse = Lapse::from_millis(20);

/// A question to one shadow service process; lent by the caller.
#[derive(Clone, Debug)]
pub struct Question {
    to: Sp,
    key: Key,
    kind: Kind,
    /// When it is to be sent; `None` while an answer is waited for.
    due: Option<Time>,
    /// Its deadline passed; it stays open until it is answered or given up.
    late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Export(Locator),
    Revoke { forced: bool },
}

/// A frame to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Send {
    /// To whom.
    pub to: Sp,
    /// Its length in the polled buffer.
    pub len_bytes: usize,
    /// The segment whose descriptor goes with it, if any.
    pub segment: Option<u64>,
}

/// What became of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A service process answered an export; `Status::Ok` means that it serves the region now.
    Exported {
        /// The region.
        key: Key,
        /// Who answered, or died.
        sp: Sp,
        /// What.
        status: Status,
        /// Whether all shadow service processes have answered.
        last: bool,
    },
    /// A service process uses a region no more, or died.
    Revoked {
        /// The region.
        key: Key,
        /// Who.
        sp: Sp,
        /// Whether this was the last: the memory may be reused.
        last: bool,
    },
    /// A service process did not answer in time, or refused a revocation; it is still being waited for.
    Late {
        /// The region.
        key: Key,
        /// Who is missing.
        sp: Sp,
    },
}

/// The machine.
#[derive(Debug)]
pub struct Owner<E, Q> {
    me: Peer,
    incarnation: Incarnation,
    regions: Regions<E>,
    questions: Pending<Q>,
    unsent: u32,
}

impl<E, Q> Owner<E, Q>
where
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    Q: AsRef<[Request<Question>]> + AsMut<[Request<Question>]>,
{
    /// Process `me` in this life, over lent tables: regions, questions.
    pub fn new(me: Peer, incarnation: Incarnation, regions: E, questions: Q) -> Self {
        Owner { me, incarnation, regions: Regions::new(regions), questions: Pending::new(questions), unsent: 0 }
    }

    /// Its table of regions.
    pub const fn regions(&self) -> &Regions<E> {
        &self.regions
    }

    /// Exports `len` bytes at `base` to these shadow service processes.
    ///
    /// # Errors
    /// [`ExportError::Full`] also if there is no room for a question to each of them.
    #[expect(clippy::too_many_arguments, reason = "each is a different property of the region")]
    pub fn export(
        &mut self,
        base: u64,
        len: u64,
        access: Access,
        shadows: Shadows,
        secret: Secret,
        locator: Locator,
        deadline: Time,
    ) -> Result<Region, ExportError> {
        if self.questions.capacity() - self.questions.len() < shadows.len() {
            return Err(ExportError::Full);
        }
        let region = self.regions.export(self.me, self.incarnation, base, len, access, shadows.clone(), secret)?;
        self.ask(region.key, &shadows, Kind::Export(locator), deadline);
        Ok(region)
    }

    /// Takes a region back: nobody may begin to use it from now on. `forced` does not wait for copies that
    /// are under way.
    ///
    /// # Errors
    /// [`RevokeError`]; [`RevokeError::Full`] if there is no room for the questions.
    pub fn revoke(&mut self, key: Key, forced: bool, deadline: Time) -> Result<(), RevokeError> {
        let shadows = self.regions.shadows(key).ok_or(RevokeError::UnknownRegion)?.clone();
        if self.questions.capacity() - self.questions.len() < shadows.len() {
            return Err(RevokeError::Full);
        }
        if self.regions.revoke_pinned(key)? {
            self.ask(key, &shadows, Kind::Revoke { forced }, deadline);
            if shadows.is_empty() {
                self.regions.unpin(key);
            }
        }
        Ok(())
    }

    fn ask(&mut self, key: Key, shadows: &Shadows, kind: Kind, deadline: Time) {
        for &to in shadows {
            let question = Question { to, key, kind, due: Some(Time::ZERO), late: false };
            let begun = self.questions.begin(question, deadline);
            debug_assert!(begun.is_ok(), "the caller checked that there is room");
            self.unsent += 1;
        }
    }

    /// The next frame to send, in `buffer`. Poll after `export`, `revoke`, `on_frame` and `on_time` until `None`.
    #[must_use]
    pub fn poll(&mut self, now: Time, buffer: &mut [u8]) -> Option<Send> {
        if self.unsent == 0 {
            return None;
        }
        // An export goes before the revocation of the same region.
        let due = |q: &Question| q.due.is_some_and(|due| due <= now);
        let exports = self.questions.iter().find(|(_, q)| due(q) && matches!(q.kind, Kind::Export(_)));
        let id = exports.or_else(|| self.questions.iter().find(|(_, q)| due(q))).map(|(id, _)| id)?;
        let question = self.questions.get_mut(id).ok()?;
        let (to, key, kind) = (question.to, question.key, question.kind);
        question.due = None;
        self.unsent -= 1;
        let token = Token(id.to_bits());
        let (len, segment) = match kind {
            Kind::Revoke { forced } => {
                let body = Revoke { key, forced }.to_bytes();
                (Frame::Call { op: REVOKE, token, body: &body }.emit(buffer), None)
            }
            Kind::Export(locator) => {
                let (region, secret, shadows) = self.regions.describe(key)?;
                let Region { base, len, access, .. } = *region;
                let ticket = Ticket { key, base, len, access, locator };
                let export = Export { ticket, secret: *secret, shadows: shadows.clone() };
                let mut body = [0; crate::access::message::EXPORT_MAX];
                let len = export.emit(&mut body).ok()?;
                let segment = if let Locator::Segment { segment, .. } = locator { Some(segment) } else { None };
                (Frame::Call { op: EXPORT, token, body: body.get(..len)? }.emit(buffer), segment)
            }
        };
        Some(Send { to, len_bytes: len.ok()?, segment })
    }

    /// A service process answered.
    ///
    /// One that had no room for a revocation is asked [again](AGAIN) later; another refusal makes it late, for it may still
    /// copy.
    pub fn on_frame(&mut self, from: Sp, frame: &Frame<'_>, now: Time) -> Option<Event> {
        let &Frame::Done { op, token, status, .. } = frame else { return None };
        let id = Id::<Question>::from_bits(token.0);
        let question = self.questions.get(id).ok().filter(|q| q.to == from && q.due.is_none())?;
        match (question.kind, op) {
            (Kind::Export(_), EXPORT) => self.answered(id, status),
            (Kind::Revoke { .. }, REVOKE) if has_ended(status) => self.answered(id, status),
            (Kind::Revoke { .. }, REVOKE) if status == Status::Full => {
                self.questions.get_mut(id).ok()?.due = Some(now + AGAIN);
                self.unsent += 1;
                None
            }
            (Kind::Revoke { .. }, REVOKE) => self.late(id),
            _ => None,
        }
    }

    /// A service process died or left; it uses nothing any more. Call until `None`.
    #[must_use]
    pub fn on_gone(&mut self, sp: Sp) -> Option<Event> {
        let id = self.questions.iter().find(|(_, q)| q.to == sp).map(|(id, _)| id)?;
        self.answered(id, Status::PeerFailed)
    }

    /// The owner no longer waits for this service process; what it still copies may be torn. Call until
    /// `None`.
    #[must_use]
    pub fn give_up(&mut self, key: Key, sp: Sp) -> Option<Event> {
        let id = self.questions.iter().find(|(_, q)| q.to == sp && q.key == key).map(|(id, _)| id)?;
        self.answered(id, Status::Timeout)
    }

    /// Tells who is late; call until `None`.
    #[must_use]
    pub fn on_time(&mut self, now: Time) -> Option<Event> {
        if self.questions.deadline().is_none_or(|deadline| deadline > now) {
            return None;
        }
        // The first is the one whose deadline comes first; it waits on, without another deadline.
        let id = self.questions.iter().next().map(|(id, _)| id)?;
        self.late(id)
    }

    fn late(&mut self, id: Id<Question>) -> Option<Event> {
        self.questions.postpone(id, Time::NEVER).ok()?;
        let question = self.questions.get_mut(id).ok()?;
        question.late = true;
        crate::log!(warn, "{:?} has not answered about {:?} in time, or refused", question.to, question.key);
        Some(Event::Late { key: question.key, sp: question.to })
    }

    /// When [`on_time`](Self::on_time) is due, and the poll after it.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let unsent = if self.unsent == 0 { None } else { self.questions.iter().filter_map(|(_, q)| q.due).min() };
        [self.questions.deadline(), unsent].into_iter().flatten().min()
    }

    /// Service processes that did not answer in time and are still waited for.
    pub fn missing(&self) -> impl Iterator<Item = (Key, Sp)> {
        self.questions.iter().filter(|(_, q)| q.late).map(|(_, q)| (q.key, q.to))
    }

    fn answered(&mut self, id: Id<Question>, status: Status) -> Option<Event> {
        let Question { to: sp, key, kind, due, .. } = self.questions.complete(id).ok()?;
        self.unsent -= u32::from(due.is_some());
        let same = |other: Kind| core::mem::discriminant(&kind) == core::mem::discriminant(&other);
        let last = !self.questions.iter().any(|(_, q)| q.key == key && same(q.kind));
        crate::log!(debug, "{:?} about {:?}: {:?}", sp, key, status);
        match kind {
            Kind::Export(_) => Some(Event::Exported { key, sp, status, last }),
            Kind::Revoke { .. } => {
                if last {
                    self.regions.unpin(key);
                }
                Some(Event::Revoked { key, sp, last })
            }
        }
    }
}

/// Whether the answer to a revocation says that nobody there uses the region any more: where its number names another
/// region or none, it has ended.
const fn has_ended(status: Status) -> bool {
    matches!(status, Status::Ok | Status::UnknownRegion | Status::StaleKey)
}
