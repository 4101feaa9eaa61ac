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
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use umbra_core::peer::{Host, Incarnation, LocalRank, WorldRank};
    use umbra_core::time::Lapse;

    use super::*;
    use crate::config::Platform;
    use crate::driver::{Driver, Event, Limits};
    use crate::link::{Identity, Listener, Party, socket_path};
    use crate::secret::Secret;
    use crate::session::{Seat, Settings};

    const JOB: &str = "# Format version: 1\n\nnode1,bf1:10.0.0.1:7010&7011:9010&9011\n";

    /// A service process that takes links and says nothing.
    fn silent(folder: &Path, secret: &Secret, sp: Sp) -> Driver {
        let party = Party::Peer(Peer::service(sp).unwrap());
        let mut driver =
            Driver::new(Identity { party, incarnation: Incarnation(1) }, secret.clone(), Limits::default());
        driver.listen(Listener::Unix(UnixListener::bind(socket_path(folder, sp)).unwrap())).unwrap();
        driver
    }

    /// What a silent service process was called: so often, and then no more for a moment.
    fn heard(driver: &mut Driver, calls: usize) -> Vec<Op> {
        let (mut ops, mut bytes) = (Vec::new(), Vec::new());
        let patience = |ops: &[Op]| Lapse::from_millis(if ops.len() < calls { 30_000 } else { 20 });
        let mut end = driver::now() + patience(&ops);
        while driver::now() < end {
            driver.wait(end).unwrap();
            let before = ops.len();
            while let Some(event) = driver.next(&mut bytes) {
                match (event, Frame::parse(&bytes)) {
                    (Event::Frame { .. }, Ok(Frame::Call { op, .. })) if [EXPORT, REVOKE].contains(&op) => ops.push(op),
                    _ => {}
                }
            }
            if ops.len() > before {
                end = driver::now() + patience(&ops);
            }
        }
        ops
    }

    /// Answers calls about memory; whether all these answers were asked for.
    fn answer(driver: &mut Driver, statuses: &[Status]) -> bool {
        let (mut statuses, mut bytes) = (statuses.iter(), Vec::new());
        let end = driver::now() + Lapse::from_secs(30);
        while statuses.len() > 0 && driver::now() < end {
            driver.wait(end).unwrap();
            while let Some(event) = driver.next(&mut bytes) {
                if let (Event::Frame { link, .. }, Ok(Frame::Call { op: op @ (EXPORT | REVOKE), token, .. })) =
                    (event, Frame::parse(&bytes))
                {
                    let status = *statuses.next().unwrap();
                    driver.send(link, &Frame::Done { op, token, status, body: &[] }, Vec::new()).unwrap();
                }
            }
            driver.flush();
        }
        statuses.len() == 0
    }

    /// A rank with links to two service processes that answer nothing, and little patience.
    fn unanswered(folder: PathBuf) -> (Session, [Driver; 2]) {
        linked(folder, Duration::from_millis(100))
    }

    /// A rank with links to two service processes.
    fn linked(folder: PathBuf, deadline: Duration) -> (Session, [Driver; 2]) {
        std::fs::create_dir_all(&folder).unwrap();
        let secret = Secret::from_bytes([7; 32]);
        let job = Platform::parse(JOB, "job.cfg").unwrap().job(&["bf1"]).unwrap();
        let seat = Seat { rank: WorldRank(0), size: 1, host: Host(0), local: LocalRank(0), n_local: 1 };
        let mut services = [0, 1].map(|sp| silent(&folder, &secret, Sp(sp)));
        let (sockets, silence) = (Some(folder.clone()), Some(Duration::from_secs(60)));
        let settings = Settings { sockets, shadows: 2, deadline, silence, ..Settings::new(job, secret, seat) };
        let (mut session, mut bytes) = (Session::connect(settings).unwrap(), Vec::new());
        while !session.shadows.iter().all(|shadow| shadow.up) {
            session.progress(driver::now() + Lapse::from_millis(1)).unwrap();
            for service in &mut services {
                service.wait(driver::now() + Lapse::from_millis(1)).unwrap();
                while service.next(&mut bytes).is_some() {}
            }
        }
        // As they are once they have admitted the rank.
        session.shadows.iter_mut().for_each(|shadow| shadow.told = true);
        std::fs::remove_dir_all(folder).unwrap();
        (session, services)
    }

    fn folder(of: &str) -> PathBuf {
        std::env::temp_dir().join(format!("umbra-memory-{}-{of}", std::process::id()))
    }

    #[test]
    fn memory_of_a_failed_export_stays_while_somebody_may_read_it_and_takes_no_place() {
        let (mut session, mut services) = unanswered(folder("silent"));
        let bytes = vec![5; 100];
        let span = (bytes.as_ptr() as u64, 100);
        assert!(session.export_bytes(bytes).is_err());
        for service in &mut services {
            assert_eq!(heard(service, 2), [EXPORT, REVOKE]);
        }
        assert_eq!(session.regions.iter().count(), 0);
        assert_eq!(session.exported.values().map(|(memory, _)| memory.span()).collect::<Vec<_>>(), [span]);
    }

    /// Where bytes are that came back from a failed export.
    fn back(exported: Result<Key, Unexported>) -> u64 {
        match exported.unwrap_err().memory {
            Left::Back(memory) => memory.span().0,
            left => panic!("it did not come back: {left:?}"),
        }
    }

    #[test]
    fn memory_that_is_not_exported_comes_back_where_it_was() {
        let (mut session, [mut one, mut two]) = linked(folder("back"), Duration::from_secs(30));
        let bytes = vec![5; 100];
        let place = bytes.as_ptr() as u64;
        // One of them has no room.
        let exported = std::thread::scope(|scope| {
            let one = scope.spawn(|| answer(&mut one, &[Status::Ok; 2]));
            let two = scope.spawn(|| answer(&mut two, &[Status::Full, Status::UnknownRegion]));
            let exported = session.export(Exported::Bytes(bytes), Access::READ);
            assert!(one.join().unwrap() && two.join().unwrap());
            exported
        });
        let why = exported.as_ref().map_err(|why| why.error.status());
        assert_eq!(why, Err(Status::Full));
        let Err(Unexported { memory: Left::Back(memory), .. }) = exported else { panic!("lost: {exported:?}") };
        assert_eq!(memory.span(), (place, 100));
        // The session has no room: nobody is asked.
        let (me, life) = (Peer::rank(WorldRank(0)).unwrap(), session.incarnation);
        let keys: Vec<Key> = std::iter::from_fn(|| {
            let taken = session.regions.export(
                me,
                life,
                1,
                1,
                Access::READ,
                [Sp(0)].into_iter().collect(),
                umbra_core::region::Secret([0; 32]),
            );
            taken.ok().map(|region| region.key)
        })
        .collect();
        assert_eq!(keys.len(), 1024);
        assert_eq!(back(session.export(memory, Access::READ)), place);
        assert!(matches!(
            session.export(Exported::Bytes(Vec::new()), Access::READ),
            Err(Unexported { memory: Left::Back(_), .. })
        ));
        assert!(session.exported.is_empty() && session.revoked.is_empty());
    }

    #[test]
    fn memory_that_somebody_may_read_still_comes_back_when_that_has_ended() {
        let (mut session, mut services) = unanswered(folder("held"));
        let bytes = vec![5; 100];
        let place = bytes.as_ptr() as u64;
        let why = session.export(Exported::Bytes(bytes), Access::READ).unwrap_err();
        let Left::Held(key) = why.memory else { panic!("{why:?}") };
        assert_eq!((session.exported(key), session.ticket(key)), (Some((place, 100)), None));
        for service in &mut services {
            assert_eq!(heard(service, 2), [EXPORT, REVOKE]);
        }
        session.settings.deadline = Duration::from_secs(30);
        let [one, two] = &mut services;
        std::thread::scope(|scope| {
            let answers = [one, two].map(|service| scope.spawn(|| answer(service, &[Status::UnknownRegion])));
            assert_eq!(session.revoke(key).unwrap().span(), (place, 100));
            assert!(answers.map(|answer| answer.join().unwrap()).into_iter().all(|right| right));
        });
        assert!(session.exported.is_empty() && session.revoked.is_empty());
    }

    #[test]
    fn a_service_process_hears_of_memory_although_another_one_cannot_be_told() {
        let (mut session, mut services) = unanswered(folder("apart"));
        session.shadows[0].link = LinkId(1000);
        assert!(session.export_bytes(vec![5; 100]).is_err());
        assert_eq!(heard(&mut services[1], 2), [EXPORT, REVOKE]);
        assert_eq!(session.regions.iter().count(), 0);
    }

    #[test]
    fn answers_that_come_too_late_are_not_kept() {
        let (mut session, mut services) = unanswered(folder("late"));
        assert!(session.export_bytes(vec![5; 100]).is_err());
        assert!(services.iter_mut().all(|service| answer(service, &[Status::Ok; 2])));
        // Another call makes the last answers late, too.
        session.next_asked();
        for _ in 0..4 {
            session.progress(driver::now() + Lapse::from_millis(1)).unwrap();
        }
        assert!(session.answers.is_empty(), "{:?}", session.answers);
    }

    #[test]
    fn a_service_process_without_room_for_a_revocation_is_asked_again() {
        let (mut session, [mut one, mut two]) = linked(folder("full"), Duration::from_secs(30));
        std::thread::scope(|scope| {
            let one = scope.spawn(|| answer(&mut one, &[Status::Ok, Status::Full, Status::Full, Status::Ok]));
            let two = scope.spawn(|| answer(&mut two, &[Status::Ok; 4]));
            let key = session.export_bytes(vec![5; 100]).unwrap();
            assert!(session.revoke(key).is_ok());
            assert!(one.join().unwrap() && two.join().unwrap());
        });
    }
}
