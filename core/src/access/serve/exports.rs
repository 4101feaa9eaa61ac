//! What ranks export here, until it ends.
//!
//! An export is taken back by its owner, or ends with its owner's life. A rank may be back in its next life before the
//! link of the one before has ended. What it exports then is served, and what the life before exported ends at once;
//! that life exports nothing any more, should it not be dead.

use super::{
    Action, Answer, Asker, Attach, EXPORT, Entry, Export, Held, Job, Kind, Link, NIL, REVOKE, Region, Reply, Revoke,
    Serve, Slot, Status, Token, Who, malformed,
};

impl<E, J, A> Serve<E, J, A>
where
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    J: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>,
    A: AsRef<[Asker]> + AsMut<[Asker]>,
{
    pub(super) fn export<'f>(&mut self, link: Link, token: Token, who: Who, body: &[u8]) -> Result<Reply<'f>, Status> {
        let Export { ticket, secret, shadows } = Export::parse(body).map_err(malformed)?;
        // Nobody exports what is not his; which life exports it is what the link proved, not what it says.
        if ticket.key.owner() != who.peer {
            return Err(Status::PermissionDenied);
        }
        if self.askers.as_ref().get(link.index()).is_none_or(|asker| asker.outlived) {
            return Err(Status::DuplicateRank);
        }
        self.outlive(who);
        let incarnation = who.incarnation;
        let region = Region { key: ticket.key, incarnation, base: ticket.base, len: ticket.len, access: ticket.access };
        let known = self.regions.get(region.key) == Some(&region);
        self.regions.admit(self.me, region, shadows, secret)?;
        if known {
            return Ok(Reply::Answer(Answer::plain(link, EXPORT, token, Status::Ok)));
        }
        let place = self.regions.place(region.key).ok_or(Status::UnknownRegion)?;
        Ok(Reply::Attach(Attach { link, token, place, region, locator: ticket.locator }))
    }

    /// The driver mapped the memory of an export, or could not.
    pub fn attached(&mut self, attach: &Attach, status: Status) -> Answer {
        if status != Status::Ok {
            self.counters.refused += 1;
            crate::log!(warn, "{:?} cannot be reached: {:?}", attach.region.key, status);
            // It may have ended meanwhile, and its number may name a region of another life.
            if self.regions.get(attach.region.key) == Some(&attach.region) {
                let forced = self.regions.force(attach.region.key);
                debug_assert!(forced.is_ok(), "the region is there");
            }
        } else {
            crate::log!(debug, "{:?} is served, {:?} bytes", attach.region.key, attach.region.len);
        }
        Answer::plain(attach.link, EXPORT, attach.token, status)
    }

    pub(super) fn revoke<'f>(
        &mut self,
        link: Link,
        token: Token,
        who: Who,
        revoke: Revoke,
    ) -> Result<Reply<'f>, Status> {
        let Revoke { key, forced } = revoke;
        if key.owner() != who.peer {
            return Err(Status::PermissionDenied);
        }
        crate::log!(debug, "{:?} is taken back, forced: {:?}", key, forced);
        let life = who.incarnation;
        let open = match self.regions.get(key) {
            Some(region) if region.incarnation != life => return Err(Status::StaleKey),
            region => region.is_some(),
        };
        let ok = Reply::Answer(Answer::plain(link, REVOKE, token, Status::Ok));
        if forced {
            self.regions.force(key)?;
            self.settle();
            return Ok(ok);
        }
        if self.regions.revoke(key)?.in_flight == 0 || !open {
            return Ok(ok);
        }
        let kind = Kind::Revocation { key, life, drained: false };
        self.jobs.take(Job { link, token, kind, next: NIL }).map_err(|_| Status::Full)?;
        Ok(Reply::Later)
    }

    /// A rank speaks in a life: its others are over, though their links may not have ended yet.
    fn outlive(&mut self, who: Who) {
        let mut others = false;
        for asker in self.askers.as_mut() {
            for other in [asker.before, asker.who].into_iter().flatten() {
                if other.peer == who.peer && other.incarnation != who.incarnation {
                    asker.over = Some(other);
                    let is_here = asker.who == Some(other);
                    asker.outlived |= is_here;
                    others |= is_here;
                }
            }
        }
        // Regions of a life that has no link are gone already.
        if others && self.regions.orphan(who.peer, |life| life != who.incarnation) > 0 {
            self.settle();
        }
    }

    pub(super) fn answer_drained(&mut self) -> Option<Action> {
        self.drained -= 1;
        let waiting = |job: &Job| matches!(job.kind, Kind::Revocation { drained: true, .. });
        let id = self.jobs.iter().find(|(_, job)| waiting(job)).map(|(id, _)| id)?;
        let job = self.jobs.remove(id).ok()?;
        Some(Action::Answer(Answer::plain(job.link, REVOKE, job.token, Status::Ok)))
    }

    /// A hold came back; if it was the last of a region that is being revoked, tell who waits for that.
    pub(super) fn release(&mut self, held: Held) {
        if self.regions.release(held).is_some() {
            self.settle();
        }
    }

    /// Regions have ended: a transfer from or to one ends as it did, and who waits for its end has seen it.
    pub(super) fn settle(&mut self) {
        let capacity = u32::try_from(self.jobs.capacity()).unwrap_or(NIL);
        for index in 0..capacity {
            let Some((id, _)) = self.jobs.at(index) else { continue };
            let Ok(job) = self.jobs.get_mut(id) else { continue };
            match &mut job.kind {
                Kind::Long(long) => {
                    let fate = long.held.as_ref().and_then(|held| self.regions.fate(held));
                    long.fate = fate.map_or(long.fate, Status::from);
                }
                Kind::Revocation { key, life, drained: drained @ false } => {
                    *drained = self.regions.get(*key).is_none_or(|region| region.incarnation != *life);
                    self.drained += u32::from(*drained);
                }
                Kind::Revocation { .. } => {}
            }
        }
    }
}
