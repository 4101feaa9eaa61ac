//! What every way to another process's memory must do: spec scenarios 44 to 51, once, for all of them.
//!
//! A [`Rig`] is two owners, the memory of each, and one importer ([`MemoryAccess`]) of the way under test.
//! [`suite!`](crate::memory_access_suite) makes one test of each scenario for a rig.

use std::collections::HashMap;

use umbra_core::access::message::Export;
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::endpoints::Shadows;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{Entry, Regions, Secret};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::transport::PostError;
use umbra_core::wire::Token;

/// Bytes of each owner's memory.
pub const MEMORY: u64 = 1 << 16;
/// Bytes of the importer's landing area.
pub const LANDING: u64 = 1 << 18;
/// The importer.
pub const ME: Sp = Sp(4);
/// In which life the owners are.
pub const LIFE: Incarnation = Incarnation(11);
/// Accesses that must fit into the queue at once.
pub const DEEP: usize = 1000;
/// The secret of every region.
pub const SECRET: Secret = Secret([0x5a; 32]);

/// Two owners and an importer.
pub trait Rig {
    /// The way under test.
    type Way: MemoryAccess;

    /// Fresh owners, whose memory is zero, and an importer.
    fn new() -> Self;
    /// The importer.
    fn way(&mut self) -> &mut Self::Way;
    /// Where owner `n`'s memory begins in its address space, and how its bytes are found.
    fn memory(&mut self, n: usize) -> (u64, Locator);
    /// Owner `n` writes its own memory.
    fn poke(&mut self, n: usize, offset: u64, bytes: &[u8]);
    /// Owner `n` reads its own memory.
    fn peek(&mut self, n: usize, offset: u64, len: usize) -> Vec<u8>;
    /// Hands an export to the importer, the way it is done between processes.
    fn hand_over(&mut self, n: usize, export: &Export) -> Result<(), Status>;
    /// The owner begins to take a region back.
    fn begin_revoke(&mut self, key: Key);
    /// Lets everybody make some progress; what the importer was told, where `Revoked` means that nobody at
    /// all touches the region any more.
    fn progress(&mut self) -> Vec<Event>;
    /// Accesses to owner `n` fail from now on, or no longer.
    fn fault(&mut self, n: usize, on: bool);
}

/// A rig and what the owners know of their regions.
pub struct Bench<R> {
    rig: R,
    tables: Vec<Regions<Vec<Entry>>>,
    ended: HashMap<u64, Status>,
    revoked: Vec<Key>,
    next: u64,
}

/// Owner `n`.
#[must_use]
pub fn owner(n: usize) -> Peer {
    match u32::try_from(n).ok().and_then(|n| Peer::rank(WorldRank(20 + n))) {
        Some(peer) => peer,
        None => panic!("there are two owners"),
    }
}

impl<R: Rig> Default for Bench<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Rig> Bench<R> {
    /// A fresh rig.
    #[must_use]
    pub fn new() -> Self {
        // One place: the next region of an owner has the number of its last one.
        let tables = (0..2).map(|_| Regions::new(vec![Entry::VACANT; 1])).collect();
        Bench { rig: R::new(), tables, ended: HashMap::new(), revoked: Vec::new(), next: 0 }
    }

    fn describe(&mut self, n: usize, offset: u64, len: u64, access: Access, shadows: &[Sp]) -> Export {
        let (base, locator) = self.rig.memory(n);
        let locator = match locator {
            Locator::Segment { segment, offset: start, size } => {
                Locator::Segment { segment, offset: start + offset, size }
            }
            other => other,
        };
        let shadows: Shadows = shadows.iter().copied().collect();
        let table = &mut self.tables[n];
        let made = table.export(owner(n), LIFE, base + offset, len, access, shadows.clone(), SECRET);
        let region = made.unwrap_or_else(|error| panic!("owner {n} cannot export: {error}"));
        let ticket = Ticket { key: region.key, base: region.base, len, access, locator };
        // What travels is bytes.
        let mut body = [0; umbra_core::access::message::EXPORT_MAX];
        let export = Export { ticket, secret: SECRET, shadows };
        let len = export.emit(&mut body).unwrap_or_else(|error| panic!("{error}"));
        Export::parse(&body[..len]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn export(&mut self, n: usize, offset: u64, len: u64, access: Access) -> Key {
        let export = self.describe(n, offset, len, access, &[Sp(0), ME]);
        assert_eq!(self.rig.hand_over(n, &export), Ok(()), "a shadow service process imports");
        export.ticket.key
    }

    fn progress(&mut self) {
        for event in self.rig.progress() {
            match event {
                Event::Done { token, status } => {
                    assert!(self.ended.insert(token.0, status).is_none(), "access {} ended twice", token.0);
                }
                Event::Revoked { key } => self.revoked.push(key),
                Event::Imported { status, .. } => assert_eq!(status, Status::Ok),
                Event::Broken { .. } => {}
            }
        }
    }

    /// Posts a read and returns its token, or why it was refused at once.
    fn post(&mut self, from: Span, landing: u64) -> Result<u64, Status> {
        self.next += 1;
        let token = self.next;
        match self.rig.way().read(from, landing, Token(token)) {
            Ok(()) => Ok(token),
            Err(PostError::Refused(status)) => Err(status),
            Err(other) => panic!("{other}"),
        }
    }

    fn end_of(&mut self, token: u64) -> Status {
        for _ in 0..100_000 {
            if let Some(status) = self.ended.remove(&token) {
                return status;
            }
            self.progress();
        }
        panic!("access {token} never ended");
    }

    /// How a read ends, whether it is refused at once or later.
    fn read(&mut self, key: Key, offset: u64, len: usize) -> Result<Vec<u8>, Status> {
        let token = self.post(Span { key, offset, len: len as u64 }, 64)?;
        match self.end_of(token) {
            Status::Ok => {
                let mut bytes = vec![0; len];
                assert_eq!(self.rig.way().take(64, &mut bytes), Ok(()));
                Ok(bytes)
            }
            status => Err(status),
        }
    }

    fn write(&mut self, key: Key, offset: u64, bytes: &[u8]) -> Result<(), Status> {
        self.next += 1;
        let token = self.next;
        assert_eq!(self.rig.way().put(64, bytes), Ok(()));
        let to = Span { key, offset, len: bytes.len() as u64 };
        match self.rig.way().write(64, to, Token(token)) {
            Ok(()) => match self.end_of(token) {
                Status::Ok => Ok(()),
                status => Err(status),
            },
            Err(PostError::Refused(status)) => Err(status),
            Err(other) => panic!("{other}"),
        }
    }

    fn revoke(&mut self, n: usize, key: Key) {
        self.rig.begin_revoke(key);
        for _ in 0..100_000 {
            if self.revoked.contains(&key) {
                let acknowledged = self.tables[n].revoke(key);
                assert!(acknowledged.is_ok());
                return;
            }
            self.progress();
        }
        panic!("the revocation of {key:?} was never acknowledged");
    }

    /// Reads and writes arrive where they should, from one byte to more than one frame carries.
    pub fn bytes_arrive(&mut self) {
        let key = self.export(0, 128, 50_000, Access::READ | Access::WRITE);
        let bytes: Vec<u8> = (0..50_000u32).map(|n| (n * 7 + (n >> 8)) as u8).collect();
        self.rig.poke(0, 128, &bytes);
        for (offset, len) in [(0, 1), (0, 8), (3, 4096), (0, 50_000), (49_999, 1), (50_000, 0)] {
            let got = self.read(key, offset, len);
            let want = &bytes[offset as usize..offset as usize + len];
            assert!(got.as_deref() == Ok(want), "{len} bytes at {offset}: {:?}", got.map(|b| b.len()));
        }
        let other: Vec<u8> = bytes.iter().map(|b| !b).collect();
        assert_eq!(self.write(key, 0, &other), Ok(()));
        assert!(self.rig.peek(0, 128, 50_000) == other);
        assert_eq!(self.rig.peek(0, 0, 128), vec![0; 128], "nothing before the region was touched");
        assert_eq!(self.rig.peek(0, 50_128, 64), vec![0; 64], "nothing behind it");
    }

    /// Scenario 44.
    pub fn out_of_bounds_is_refused_before_posting(&mut self) {
        let len = 4096;
        let key = self.export(0, 0, len, Access::READ);
        for (offset, bytes) in
            [(len - 1, 2), (len, 1), (0, len + 1), (u64::MAX, 1), (u64::MAX, 2), (1, u64::MAX), (u64::MAX, u64::MAX)]
        {
            let refused = self.post(Span { key, offset, len: bytes }, 0);
            assert_eq!(refused, Err(Status::OutOfBounds), "{bytes} bytes at {offset}");
        }
        let beyond = self.post(Span { key, offset: 0, len: 8 }, LANDING - 7);
        assert_eq!(beyond, Err(Status::OutOfBounds), "the landing area has bounds too");
        self.rig.poke(0, 0, &[9; 8]);
        assert_eq!(self.read(key, 0, 8), Ok(vec![9; 8]), "the queue stays usable");
    }

    /// Scenario 45.
    pub fn a_write_to_a_read_only_region_is_denied(&mut self) {
        let key = self.export(0, 0, 64, Access::READ);
        assert_eq!(self.write(key, 0, &[1; 8]), Err(Status::PermissionDenied));
        assert_eq!(self.rig.peek(0, 0, 8), vec![0; 8]);
        let write_only = self.export(1, 0, 64, Access::WRITE);
        assert_eq!(self.read(write_only, 0, 8), Err(Status::PermissionDenied));
        assert_eq!(self.write(write_only, 8, &[1; 8]), Ok(()));
        assert_eq!(self.rig.peek(1, 8, 8), vec![1; 8]);
    }

    /// Scenario 46.
    pub fn a_revoked_key_opens_nothing(&mut self) {
        let key = self.export(0, 0, 64, Access::READ);
        let kept = self.export(1, 0, 64, Access::READ);
        self.rig.poke(1, 0, &[3; 8]);
        assert!(self.read(key, 0, 8).is_ok());
        self.revoke(0, key);
        assert_eq!(self.read(key, 0, 8), Err(Status::KeyRevoked));
        assert_eq!(self.read(kept, 0, 8), Ok(vec![3; 8]), "another owner's region stays");
    }

    /// Scenario 47.
    pub fn an_old_key_never_reaches_newer_bytes(&mut self) {
        let old = self.export(0, 0, 64, Access::READ);
        self.revoke(0, old);
        let new = self.export(0, 0, 64, Access::READ);
        assert_eq!((old.owner(), old.region()), (new.owner(), new.region()), "the same number, the same address");
        self.rig.poke(0, 0, b"new bytes");
        assert_eq!(self.read(old, 0, 9), Err(Status::StaleKey));
        assert_eq!(self.read(new, 0, 9), Ok(b"new bytes".to_vec()));
    }

    /// Scenario 48.
    pub fn a_revocation_waits_for_reads_in_flight_and_then_nothing_moves(&mut self) {
        let key = self.export(0, 0, MEMORY, Access::READ);
        self.rig.poke(0, 0, &vec![1; MEMORY as usize]);
        let mut tokens = Vec::new();
        for n in 0..DEEP as u64 {
            match self.post(Span { key, offset: n, len: 64 }, 64 * n) {
                Ok(token) => tokens.push(token),
                Err(status) => panic!("read {n} of {DEEP} was refused: {status}"),
            }
        }
        self.rig.begin_revoke(key);
        assert_eq!(self.post(Span { key, offset: 0, len: 1 }, 0), Err(Status::KeyRevoked), "no new access");
        for _ in 0..100_000 {
            if self.revoked.contains(&key) {
                break;
            }
            self.progress();
        }
        assert!(self.revoked.contains(&key), "the revocation is acknowledged");
        let mut well = 0;
        for token in tokens {
            match self.ended.remove(&token) {
                Some(Status::Ok) => well += 1,
                Some(Status::KeyRevoked) => {}
                other => panic!("when the revocation is acknowledged, access {token} has ended: {other:?}"),
            }
        }
        assert!(well <= DEEP);
        // From here on not one byte moves: both ends are poisoned, and stay so.
        self.rig.poke(0, 0, &vec![0xbb; MEMORY as usize]);
        let poison = vec![0xaa; LANDING as usize];
        assert_eq!(self.rig.way().put(0, &poison), Ok(()));
        for _ in 0..100 {
            self.progress();
        }
        let mut landing = vec![0; LANDING as usize];
        assert_eq!(self.rig.way().take(0, &mut landing), Ok(()));
        assert!(landing == poison, "bytes moved after the acknowledgement");
    }

    /// Scenario 49.
    pub fn a_stranger_cannot_import(&mut self) {
        let export = self.describe(0, 0, 64, Access::READ, &[Sp(0), Sp(1)]);
        assert_eq!(self.rig.hand_over(0, &export), Err(Status::NotShadow));
        let refused = self.read(export.ticket.key, 0, 8);
        assert!(matches!(refused, Err(Status::UnknownRegion | Status::KeyRevoked)), "{refused:?}");
        assert_eq!(
            self.tables[0].authorise(export.ticket.key, &SECRET, ME).map_err(Status::from),
            Err(Status::NotShadow),
            "the owner says so too"
        );
    }

    /// Scenario 50: a failure comes asynchronously and breaks the owner's queue; a dead owner is told.
    pub fn a_failure_is_a_completion(&mut self) {
        let key = self.export(0, 0, 4096, Access::READ);
        self.rig.poke(0, 0, &[5; 8]);
        self.rig.fault(0, true);
        let token = self.post(Span { key, offset: 0, len: 8 }, 0);
        let token = token.unwrap_or_else(|status| panic!("a failing device is not seen when posting: {status}"));
        assert_eq!(self.end_of(token), Status::CopyFailed);
        self.rig.fault(0, false);
        self.rig.way().rebuild(owner(0));
        assert_eq!(self.read(key, 0, 8), Ok(vec![5; 8]), "the queue is rebuilt");
        self.rig.way().forget(owner(0));
        assert_eq!(self.read(key, 0, 8), Err(Status::OwnerGone));
    }

    /// Scenario 51.
    pub fn one_broken_queue_does_not_disturb_the_others(&mut self) {
        let bad = self.export(0, 0, 4096, Access::READ);
        let good = self.export(1, 0, 4096, Access::READ);
        self.rig.poke(1, 0, &[6; 4096]);
        self.rig.fault(0, true);
        let tokens: Vec<(bool, u64)> = (0..40)
            .map(|n| {
                let of_good = n % 2 == 1;
                let key = if of_good { good } else { bad };
                let posted = self.post(Span { key, offset: n * 8, len: 8 }, n * 8);
                (of_good, posted.unwrap_or_else(|status| panic!("access {n}: {status}")))
            })
            .collect();
        for (of_good, token) in tokens {
            let status = self.end_of(token);
            match of_good {
                true => assert_eq!(status, Status::Ok),
                false => assert!(matches!(status, Status::CopyFailed | Status::QueueBroken), "{status}"),
            }
        }
        let mut bytes = [0; 8];
        assert_eq!(self.rig.way().take(39 * 8, &mut bytes), Ok(()));
        assert_eq!(bytes, [6; 8]);
        self.rig.fault(0, false);
        self.rig.way().rebuild(owner(0));
        assert_eq!(self.read(bad, 0, 8), Ok(vec![0; 8]));
    }
}

/// Makes one test of each scenario for a [`Rig`].
#[macro_export]
macro_rules! memory_access_suite {
    ($module:ident, $rig:ty) => {
        mod $module {
            use super::*;

            fn bench() -> $crate::conformance::Bench<$rig> {
                $crate::conformance::Bench::new()
            }

            #[test]
            fn bytes_arrive() {
                bench().bytes_arrive();
            }
            #[test]
            fn s44_out_of_bounds_is_refused_before_posting() {
                bench().out_of_bounds_is_refused_before_posting();
            }
            #[test]
            fn s45_a_write_to_a_read_only_region_is_denied() {
                bench().a_write_to_a_read_only_region_is_denied();
            }
            #[test]
            fn s46_a_revoked_key_opens_nothing() {
                bench().a_revoked_key_opens_nothing();
            }
            #[test]
            fn s47_an_old_key_never_reaches_newer_bytes() {
                bench().an_old_key_never_reaches_newer_bytes();
            }
            #[test]
            fn s48_a_revocation_waits_for_1000_reads_in_flight_and_then_nothing_moves() {
                bench().a_revocation_waits_for_reads_in_flight_and_then_nothing_moves();
            }
            #[test]
            fn s49_a_stranger_cannot_import() {
                bench().a_stranger_cannot_import();
            }
            #[test]
            fn s50_a_failure_is_a_completion() {
                bench().a_failure_is_a_completion();
            }
            #[test]
            fn s51_one_broken_queue_does_not_disturb_the_others() {
                bench().one_broken_queue_does_not_disturb_the_others();
            }
        }
    };
}
