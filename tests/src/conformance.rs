//! What every way to another process's memory must do: spec scenarios 44 to 51.
//!
//! They are written once, for all ways. A [`Rig`] is two owners, the memory of each, and one importer
//! ([`MemoryAccess`]) of the way under test. [`suite!`](crate::memory_access_suite) makes one test of each scenario for
//! a rig: what may be touched (`bytes`), how it is taken back (`revocation`), what breaks (`failure`).

mod bytes;
mod failure;
mod revocation;

use std::collections::HashMap;

use umbra::sys::segment::Segment;
use umbra_core::access::message::Export;
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::endpoints::Shadows;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{Entry, Region, Regions, Secret};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::transport::PostError;
use umbra_core::wire::Token;

use crate::owned;

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
/// Regions of both owners together that the importer has room for.
pub const REGIONS: usize = 8;
/// The secret of every region.
pub const SECRET: Secret = Secret([0x5a; 32]);

/// Two owners and an importer.
pub trait Rig {
    /// The way under test.
    type Way: MemoryAccess;
    /// How an access ends while [`fault`](Self::fault) is on.
    const FAULT: Status = Status::CopyFailed;

    /// Why this way cannot be tested here.
    fn missing() -> Option<String> {
        None
    }
    /// Fresh owners, whose memory is zero, and an importer.
    fn new() -> Self;
    /// The importer.
    fn way(&mut self) -> &mut Self::Way;
    /// Owner `n`'s memory, where it is in this process. A rig whose owners are elsewhere has its own way to
    /// [`base`](Self::base), [`poke`](Self::poke) and [`peek`](Self::peek).
    fn memory(&self, n: usize) -> &Segment {
        panic!("the memory of owner {n} is elsewhere")
    }
    /// Where it begins in the owner's address space.
    fn base(&self, n: usize) -> u64 {
        self.memory(n).base().as_ptr() as u64
    }
    /// How the bytes of a region of owner `n` are found, by whoever knows [`SECRET`].
    fn locate(&mut self, n: usize, region: &Region) -> Locator;
    /// Owner `n` writes its own memory.
    fn poke(&self, n: usize, offset: u64, bytes: &[u8]) {
        owned::poke(self.memory(n), offset, bytes);
    }
    /// Owner `n` reads its own memory.
    fn peek(&self, n: usize, offset: u64, len: usize) -> Vec<u8> {
        owned::peek(self.memory(n), offset, len)
    }
    /// Hands an export of owner `n` in this life to the importer, with what travels beside it.
    fn hand_over(&mut self, _n: usize, export: &Export, life: Incarnation) -> Result<(), Status> {
        self.way().import(export, life)
    }
    /// The owner begins to take a region back.
    fn begin_revoke(&mut self, key: Key) {
        self.way().revoke(key).expect("only imported regions are revoked");
    }
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
    /// In which life each owner is.
    lives: [Incarnation; 2],
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
        Self::with_regions(1)
    }

    /// A fresh rig whose owners can have `regions` regions at once.
    fn with_regions(regions: usize) -> Self {
        let tables = (0..2).map(|_| Regions::new(vec![Entry::VACANT; regions])).collect();
        Bench { rig: R::new(), tables, lives: [LIFE; 2], ended: HashMap::new(), revoked: Vec::new(), next: 0 }
    }

    fn describe(&mut self, n: usize, offset: u64, len: u64, access: Access, shadows: &[Sp]) -> Export {
        let base = self.rig.base(n);
        let shadows: Shadows = shadows.iter().copied().collect();
        let table = &mut self.tables[n];
        let made = table.export(owner(n), self.lives[n], base + offset, len, access, shadows.clone(), SECRET);
        let region = made.unwrap_or_else(|error| panic!("owner {n} cannot export: {error}"));
        let locator = self.rig.locate(n, &region);
        let ticket = Ticket { key: region.key, base: region.base, len, access, locator };
        // What travels is bytes.
        let mut body = [0; umbra_core::access::message::EXPORT_MAX];
        let export = Export { ticket, secret: SECRET, shadows };
        let len = export.emit(&mut body).unwrap_or_else(|error| panic!("{error}"));
        Export::parse(&body[..len]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn export(&mut self, n: usize, offset: u64, len: u64, access: Access) -> Key {
        let export = self.describe(n, offset, len, access, &[Sp(0), ME]);
        assert_eq!(self.rig.hand_over(n, &export, self.lives[n]), Ok(()), "a shadow service process imports");
        export.ticket.key
    }

    fn progress(&mut self) {
        for event in self.rig.progress() {
            match event {
                Event::Done { token, status } => {
                    assert!(self.ended.insert(token.0, status).is_none(), "access {} ended twice", token.0);
                }
                Event::Revoked { key } => {
                    assert!(!self.revoked.contains(&key), "the end of {key:?} was told twice");
                    self.revoked.push(key);
                }
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

    /// Polls so often that whatever can happen has happened.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.progress();
        }
    }
}

/// A scenario, and its name.
pub type Scenario<R> = (&'static str, fn(&mut Bench<R>));

/// Every scenario, for a program that is no test.
#[must_use]
pub fn scenarios<R: Rig>() -> Vec<Scenario<R>> {
    crate::memory_access_suite!(@list table)
}

/// Makes one test of each scenario for a [`Rig`].
#[macro_export]
macro_rules! memory_access_suite {
    ($module:ident, $rig:ty) => {
        mod $module {
            use super::*;

            fn with(scenario: impl FnOnce(&mut $crate::conformance::Bench<$rig>)) {
                match <$rig as $crate::conformance::Rig>::missing() {
                    Some(why) => $crate::rig::skip(why),
                    None => scenario(&mut $crate::conformance::Bench::new()),
                }
            }

            $crate::memory_access_suite!(@list tests);
        }
    };
    (@list $what:ident) => {
        $crate::memory_access_suite! { @$what
            bytes_arrive: bytes_arrive,
            s44_out_of_bounds_is_refused_before_posting: out_of_bounds_is_refused_before_posting,
            s45_a_write_to_a_read_only_region_is_denied: a_write_to_a_read_only_region_is_denied,
            s46_a_revoked_key_opens_nothing: a_revoked_key_opens_nothing,
            s47_an_old_key_never_reaches_newer_bytes: an_old_key_never_reaches_newer_bytes,
            s48_a_revocation_waits_for_1000_reads_in_flight_and_then_nothing_moves:
                a_revocation_waits_for_reads_in_flight_and_then_nothing_moves,
            s46_s48_every_revocation_of_an_idle_region_is_told_once: every_revocation_of_an_idle_region_is_told_once,
            s46_s48_revocations_of_idle_and_busy_regions_are_told_side_by_side:
                revocations_of_idle_and_busy_regions_are_told_side_by_side,
            s47_a_new_generation_comes_after_the_end_of_the_old_one_was_told:
                a_new_generation_comes_after_the_end_of_the_old_one_was_told,
            s49_a_stranger_cannot_import: a_stranger_cannot_import,
            s50_a_failure_is_a_completion: a_failure_is_a_completion,
            s50_what_died_with_its_owner_is_not_told_as_revoked: what_died_with_its_owner_is_not_told_as_revoked,
            s50_the_end_of_a_life_leaves_the_next_one_as_it_is: the_end_of_a_life_leaves_the_next_one_as_it_is,
            s51_one_broken_queue_does_not_disturb_the_others: one_broken_queue_does_not_disturb_the_others,
        }
    };
    (@tests $($name:ident: $scenario:ident,)*) => {
        $(#[test]
        fn $name() {
            with(|bench| bench.$scenario());
        })*
    };
    (@table $($name:ident: $scenario:ident,)*) => {
        vec![$((stringify!($name), Bench::<R>::$scenario as fn(&mut Bench<R>))),*]
    };
}
