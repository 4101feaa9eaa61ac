//! Exporting memory to the rank's shadow service processes, and taking it back.
//!
//! A region in a segment is mapped by the service processes, one in the heap is read by the kernel on their behalf; where
//! neither can be, it is registered with an RDMA device. All belong to the session while they are exported, so they cannot
//! be freed under a reader.

use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export, REVOKE, Revoke};
use umbra_core::access::own::AGAIN;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Peer, Sp};
use umbra_core::region::{Region, Secret};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::wire::{Frame, Op, Token};

use super::kept::{Exported, Kept, Left, Unexported};
use super::{Rdma, Session, SessionError};
use crate::driver::{self, LinkId};
use crate::link::SendError;
use crate::secret;
use crate::sys::process::ProcessId;
use crate::sys::segment::Segment;

/// The token of calls whose answer nobody waits for.
pub(super) const NOBODY_WAITS: Token = Token(0);

impl Session {
    /// Exports a segment for reading; returns when all shadow service processes have mapped it.
    ///
    /// # Errors
    /// [`SessionError`]; the segment is dropped then, or with the session if a service process that was told does not give
    /// it back. [`export`](Self::export) gives it back.
    pub fn export_segment(&mut self, segment: Segment) -> Result<Key, SessionError> {
        self.export(Exported::Segment(segment), Access::READ).map_err(|why| *why.error)
    }

    /// Exports bytes of the heap for reading; returns when all shadow service processes know.
    ///
    /// # Errors
    /// [`SessionError`]; the bytes are dropped then, or with the session if a service process that was told does not give
    /// them back. [`export`](Self::export) gives them back.
    pub fn export_bytes(&mut self, bytes: Vec<u8>) -> Result<Key, SessionError> {
        self.export(Exported::Bytes(bytes), Access::READ).map_err(|why| *why.error)
    }

    /// Exports memory that does not change until it is taken back: service processes may keep copies of what they have read
    /// of it, for their ranks. Who writes to it all the same lets others read old bytes. [`revoke`](Self::revoke) returns
    /// when all copies are dropped; what is exported after that has another key.
    ///
    /// # Errors
    /// [`SessionError`]; the memory is dropped then, or with the session if a service process that was told does not give
    /// it back. [`export`](Self::export) gives it back.
    pub fn export_constant(&mut self, memory: Exported) -> Result<Key, SessionError> {
        self.export(memory, Access::READ | Access::CONSTANT).map_err(|why| *why.error)
    }

    /// Where exported memory is in this process, and its length in bytes.
    #[must_use]
    pub fn exported(&self, key: Key) -> Option<(u64, u64)> {
        self.exported.get(&key.to_bits()).map(|(memory, _)| memory.span())
    }

    /// Exports memory for reading; returns when all shadow service processes know. At most 1024 regions of a session are exported
    /// at once.
    ///
    /// # Errors
    /// [`Unexported`]: why not, and the memory.
    pub fn export(&mut self, memory: Exported, access: Access) -> Result<Key, Unexported> {
        let (region, secret) = match self.place(&memory, access) {
            Ok(placed) => placed,
            Err(error) => return Err(Unexported { error: error.into(), memory: Left::Back(memory) }),
        };
        let kept = match self.keep(memory) {
            Ok(kept) => kept,
            Err((memory, error)) => {
                // Nobody has the key, by which its place could be freed later.
                let _ = self.regions.revoke(region.key);
                return Err(Unexported { error, memory: memory.into() });
            }
        };
        // Nobody is told before those that came back know of the others.
        let message = self.message(&kept, &region, secret).and_then(|body| self.wait_until_told().map(|()| body));
        let body = match message {
            Ok(body) => body,
            Err(error) => {
                let _ = self.regions.revoke(region.key);
                return Err(Unexported { error: error.into(), memory: self.give_back(region.key, kept) });
            }
        };
        let name = region.key.to_bits();
        // Kept before they are asked: who comes back meanwhile is told of this region with all others.
        self.exported.insert(name, (kept, Some(body.clone())));
        let Err(error) = self.tell_shadows(EXPORT, &body, Some(name)) else { return Ok(region.key) };
        // Taken out first: a service process that comes back meanwhile is not told of it.
        let kept = self.exported.remove(&name);
        // Nobody may go on using what was exported to some of them only.
        let taken = self.take_back(region.key);
        let _ = self.regions.revoke(region.key);
        let memory = match (taken, kept) {
            (Ok(()), Some((kept, _))) => self.give_back(region.key, kept),
            (Err(_), Some((kept, _))) => {
                // A service process that did not answer may read it still.
                self.exported.insert(name, (kept, None));
                Left::Held(region.key)
            }
            (_, None) => Left::Lost,
        };
        Err(Unexported { error: error.into(), memory })
    }

    /// A place for memory among the regions.
    fn place(&mut self, memory: &Exported, access: Access) -> Result<(Region, Secret), SessionError> {
        self.refuse_heirs()?;
        let (base, len) = memory.span();
        if len == 0 {
            return Err(SessionError::Memory(Status::OutOfBounds));
        }
        if let Exported::Segment(segment) = memory {
            segment.forbid_new_writers()?;
        }
        let owner = Peer::rank(self.settings.seat.rank).ok_or(SessionError::NoSuchSeat)?;
        let random = secret::random::<32>().map_err(|error| SessionError::Io { what: "get random bytes", error })?;
        let (secret, shadows) = (Secret(random), self.shadows().collect());
        let region = self.regions.export(owner, self.incarnation, base, len, access, shadows, secret);
        region.map(|region| (region, secret)).map_err(|_| SessionError::Memory(Status::Full))
    }

    /// What tells service processes of memory.
    fn message(&self, memory: &Kept, region: &Region, secret: Secret) -> Result<Vec<u8>, SessionError> {
        let &Region { key, base, len, access, .. } = region;
        let locator = match (memory, memory.rkey()) {
            (_, Some(rkey)) => Locator::Verbs { rkey, direct: self.settings.rdma != Rdma::Asked },
            (Kept::Shared(_), None) => Locator::Segment { segment: key.to_bits(), offset: 0, size: len },
            (_, None) => {
                let me = ProcessId::current()?;
                Locator::Process { pid: me.pid, start: me.start }
            }
        };
        let export =
            Export { ticket: Ticket { key, base, len, access, locator }, secret, shadows: self.shadows().collect() };
        let mut body = [0; EXPORT_MAX];
        let used = export.emit(&mut body).map_err(|_| SessionError::Memory(Status::Malformed))?;
        Ok(body.get(..used).unwrap_or_default().to_vec())
    }

    /// Memory that no service process knows.
    fn give_back(&mut self, key: Key, memory: Kept) -> Left {
        match memory.into_exported() {
            Ok(memory) => memory.into(),
            Err((memory, _)) => {
                self.revoked.insert(key.to_bits(), memory);
                Left::Held(key)
            }
        }
    }

    /// Waits until no service process is left that came back and has not been told what is exported.
    fn wait_until_told(&mut self) -> Result<(), SessionError> {
        let (deadline, all) = (self.deadline(), self.shadows().collect::<Vec<_>>());
        let told = self.wait("the service processes", deadline, &all, |s| s.shadows.iter().all(|s| s.told), None);
        told.map_err(|why| why.late(self.shadows.iter().find(|s| !s.told).map(|s| s.sp)))
    }

    /// Tells service processes that came back, and have forgotten everything, what is exported. Not before the first of
    /// them has admitted this rank: if another life of it has come meanwhile, this one has nothing to say.
    pub(super) fn export_again(&mut self) {
        if !self.member.is_admitted() {
            return;
        }
        for shadow in self.shadows.iter_mut().filter(|shadow| shadow.up && !shadow.told) {
            shadow.told = true;
            for (memory, body) in self.exported.values() {
                let (Some(body), Ok(descriptors)) = (body, memory.descriptors()) else { continue };
                let call = Frame::Call { op: EXPORT, token: NOBODY_WAITS, body };
                // A queue that was just created has room; if the link breaks again, this is said again.
                let _ = self.driver.send(shadow.link, &call, descriptors);
            }
        }
    }

    /// Takes exported memory back; when this returns, nobody reads it any more, and it comes back.
    ///
    /// # Errors
    /// [`SessionError`]; the memory stays exported and owned by the session if a service process does not answer.
    /// [`SessionError::Verbs`] if the RDMA device does not forget it: nobody asks for it any more, but who has its remote key
    /// still reaches it; the session keeps it, and another call tries again.
    pub fn revoke(&mut self, key: Key) -> Result<Exported, SessionError> {
        self.refuse_heirs()?;
        let name = key.to_bits();
        // Taken out first: a service process that comes back meanwhile is not told of it again.
        if let Some((memory, body)) = self.exported.remove(&name) {
            if let Err(error) = self.take_back(key) {
                self.exported.insert(name, (memory, body));
                return Err(error);
            }
            self.revoked.insert(name, memory);
        }
        let memory = self.revoked.remove(&name).ok_or(SessionError::Memory(Status::UnknownRegion))?;
        let exported = memory.into_exported().map_err(|(memory, error)| {
            self.revoked.insert(name, memory);
            SessionError::Verbs(error)
        });
        exported?.ok_or(SessionError::Memory(Status::UnknownRegion))
    }

    fn take_back(&mut self, key: Key) -> Result<(), SessionError> {
        let body = Revoke { key, forced: false }.to_bytes();
        let deadline = self.deadline();
        // A service process without room for it has shut the region, and is asked again, as others ask it.
        while let Err(why) = self.tell_shadows(REVOKE, &body, None) {
            let now = driver::now();
            if !matches!(why, SessionError::Memory(Status::Full)) || now >= deadline {
                return Err(why);
            }
            self.progress(now + AGAIN)?;
        }
        // Of a failed export it ended before.
        let _ = self.regions.revoke(key);
        Ok(())
    }

    /// Calls every shadow service process, with the descriptors of a region, and waits for the answers of all that could be
    /// called. One that is gone has no claim any more.
    fn tell_shadows(&mut self, op: Op, body: &[u8], region: Option<u64>) -> Result<(), SessionError> {
        let token = self.next_asked();
        let deadline = self.deadline();
        let up: Vec<_> = self.shadows.iter().filter(|s| s.up).map(|s| (s.sp, s.link, s.ups)).collect();
        let (mut called, mut failed) = (Vec::new(), None);
        for (sp, link, ups) in up {
            let memory = region.and_then(|name| self.exported.get(&name));
            let descriptors = memory.map(|(memory, _)| memory.descriptors()).transpose()?.unwrap_or_default();
            // The others are told all the same: of memory that is taken back above all.
            match self.driver.send(link, &Frame::Call { op, token, body }, descriptors) {
                Ok(()) => called.push((sp, link, ups)),
                Err(SendError::NotUp) if op == REVOKE => {}
                Err(SendError::NotUp) => failed = failed.or(Some(SessionError::ServiceLost { sp })),
                Err(why) => failed = failed.or(Some(SessionError::Send(why))),
            }
        }
        let there = |s: &Session, asked| s.shadows.iter().any(|s| s.up && (s.sp, s.link, s.ups) == asked);
        let owes = |s: &Session, asked: &(Sp, LinkId, u32)| !s.answers.contains_key(&asked.1) && there(s, *asked);
        let answered = |s: &Session| !called.iter().any(|asked| owes(s, asked));
        // Who is lost owes no answer.
        let waited = self.wait("the answer about memory", deadline, &[], answered, None);
        waited.map_err(|why| why.late(called.iter().find(|asked| owes(self, asked)).map(|asked| asked.0)))?;
        let answers: Vec<_> =
            called.iter().filter_map(|&(sp, link, _)| Some((sp, self.answers.remove(&link)?))).collect();
        // Who does not know a region any more has given it back, too.
        let agrees = |status| status == Status::Ok || (op == REVOKE && status == Status::UnknownRegion);
        if let Some(error) = failed {
            return Err(error);
        }
        match answers.into_iter().find(|(_, (status, _))| !agrees(*status)) {
            Some((sp, (Status::Unreachable, why))) if !why.is_empty() => Err(SessionError::OutOfReach { sp, why }),
            Some((_, (status, _))) => Err(SessionError::Memory(status)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
