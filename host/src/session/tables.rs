//! The endpoint cache of a rank that cannot map that of its service process.
//!
//! Tables come over the link: a rank without a Unix socket to its service process asks for the table of each of its
//! groups when the group is full, in as many answers as it takes, checks it, and keeps it in an arena of its own.
//! Look-ups are the same two array accesses, with handles of that arena; a group is ready once its table is there.

use std::collections::HashMap;

use umbra_core::atomic::AtomicU64;
use umbra_core::codec::Reader as Bytes;
use umbra_core::endpoints::{ArenaError, Endpoints, Group, GroupKey, PublishError, Reader, Table};
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::memory::Block;
use umbra_core::wire::{Frame, Token};

use super::Session;
use crate::admin::ops;
use crate::driver::LinkId;
use crate::group::Capacities;

/// Groups whose tables can be kept at once.
const GROUPS: u32 = 1024;
/// Questions that are under way at once: who is asked about more groups than its link has room for answers ends the link.
const ASKED: usize = 16;

/// Tables that came over the link, and those on their way.
#[derive(Debug)]
pub(super) struct Tables {
    arena: Endpoints<Vec<AtomicU64>, Vec<Block>>,
    /// Longest table that is taken.
    most_bytes: usize,
    held: HashMap<u128, (Id<Group>, u64)>,
    coming: HashMap<u128, Coming>,
    next_token: u64,
}

/// A table on its way.
#[derive(Debug)]
struct Coming {
    /// Its handle at the service process.
    theirs: Id<Group>,
    digest: u64,
    /// The question that is not answered yet.
    asked: Option<Token>,
    bytes: Vec<u8>,
}

impl Tables {
    /// Room for the tables of a rank in a job with this many ranks and service processes, and so many of them as
    /// shadows of each rank.
    pub(super) fn new(ranks: u32, service_processes: u32, shadows: u32) -> Result<Tables, ArenaError> {
        let capacities =
            Capacities { ranks, local_ranks: 1, service_processes, links: 1, groups: GROUPS, shadows: shadows.max(1) };
        Ok(Tables {
            arena: capacities.endpoints()?,
            most_bytes: capacities.table_bytes(),
            held: HashMap::new(),
            coming: HashMap::new(),
            next_token: 1,
        })
    }

    pub(super) fn reader(&self) -> Option<Reader<'_>> {
        self.arena.reader().ok()
    }

    /// The handle of a group's table here, once it has come.
    pub(super) fn handle(&self, key: GroupKey) -> Option<Id<Group>> {
        self.held.get(&key.0).map(|&(handle, _)| handle)
    }

    /// A group is full; its table is wanted unless it is here.
    pub(super) fn want(&mut self, key: GroupKey, theirs: Id<Group>, digest: u64) {
        if self.held.get(&key.0).is_some_and(|&(_, held)| held == digest) {
            return;
        }
        self.forget(key);
        self.coming.insert(key.0, Coming { theirs, digest, asked: None, bytes: Vec::new() });
    }

    /// A group has ended: look-ups with its handle say so from now on.
    pub(super) fn forget(&mut self, key: GroupKey) {
        self.coming.remove(&key.0);
        if let Some((handle, _)) = self.held.remove(&key.0) {
            let retired = self.arena.retire(handle);
            debug_assert!(retired.is_ok(), "a table was held that is not in the arena");
        }
    }

    /// The link was lost, and with it the questions.
    pub(super) fn ask_again(&mut self) {
        self.coming.values_mut().for_each(|coming| coming.asked = None);
    }

    /// The next question: handle and offset.
    fn question(&mut self) -> Option<(Token, [u8; 16])> {
        if self.coming.values().filter(|coming| coming.asked.is_some()).count() >= ASKED {
            return None;
        }
        let coming = self.coming.values_mut().find(|coming| coming.asked.is_none())?;
        let token = Token(self.next_token);
        self.next_token += 1;
        coming.asked = Some(token);
        let mut body = [0; 16];
        let (handle, offset) = body.split_at_mut(8);
        handle.copy_from_slice(&coming.theirs.to_bits().to_le_bytes());
        offset.copy_from_slice(&(coming.bytes.len() as u64).to_le_bytes());
        Some((token, body))
    }

    /// An answer; a group whose table cannot be had, and why.
    pub(super) fn answered(&mut self, token: Token, status: Status, body: &[u8]) -> Option<(GroupKey, Status)> {
        let (&key, coming) = self.coming.iter_mut().find(|(_, coming)| coming.asked == Some(token))?;
        let outcome = if status == Status::Ok { coming.take(body, self.most_bytes) } else { Err(status) };
        let outcome = match outcome {
            Ok(false) => return None,
            Ok(true) => self.publish(key),
            Err(status) => Err(status),
        };
        self.coming.remove(&key);
        match outcome {
            // It ended meanwhile, or the service process was started again: the news of that are under way.
            Ok(()) | Err(Status::UnknownGroup | Status::StaleGeneration) => None,
            Err(status) => Some((GroupKey(key), status)),
        }
    }

    fn publish(&mut self, key: u128) -> Result<(), Status> {
        let coming = self.coming.get(&key).ok_or(Status::UnknownGroup)?;
        let table = Table::attach(&coming.bytes).map_err(|_| Status::Malformed)?;
        if table.checksum() != coming.digest {
            return Err(Status::Malformed);
        }
        let handle = self.arena.publish(&table, None).map_err(|error| match error {
            PublishError::NoSlot | PublishError::NoRoom(_) => Status::Full,
            _ => Status::Malformed,
        })?;
        self.held.insert(key, (handle, coming.digest));
        Ok(())
    }
}

impl Coming {
    /// Takes an answer, the length of the whole table and the next bytes of it; whether it is whole now.
    fn take(&mut self, body: &[u8], most_bytes: usize) -> Result<bool, Status> {
        self.asked = None;
        let mut r = Bytes::new(body);
        let total = r.u64().ok().and_then(|total| usize::try_from(total).ok()).ok_or(Status::Malformed)?;
        let have = self.bytes.len() + r.rest().len();
        if r.rest().is_empty() || have > total || total > most_bytes {
            return Err(Status::Malformed);
        }
        self.bytes.extend_from_slice(r.rest());
        Ok(have == total)
    }
}

impl Session {
    /// Asks for the tables that are wanted.
    pub(super) fn ask_for_tables(&mut self) {
        let Some(first) = self.shadows.first().filter(|shadow| shadow.up) else { return };
        let (link, Some(tables)) = (first.link, &mut self.tables) else { return };
        while let Some((token, body)) = tables.question() {
            // What is lost with the link is asked again on the next one.
            let _ = self.driver.send(link, &Frame::Call { op: ops::DUMP, token, body: &body }, Vec::new());
        }
    }

    /// The service process answered with a part of a table.
    pub(super) fn table_came(&mut self, link: LinkId, token: Token, status: Status, body: &[u8]) {
        let first = self.is_first(link);
        let refused = self.tables.as_mut().filter(|_| first).and_then(|t| t.answered(token, status, body));
        if let Some((key, status)) = refused {
            self.refused.insert(key.0, (status, 0));
        }
        self.ask_for_tables();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Job, Order, Sim};
    use umbra_core::group::message::WORLD;
    use umbra_core::peer::{Rank, Sp};
    use umbra_core::time::Lapse;

    /// The table of a world without order, its digest, and room for it.
    fn world() -> (Vec<u8>, u64, Tables) {
        let mut sim = Sim::new(Job { order: Order::Shuffled, ..Job::new(8, 1, 16) }).expect("a job");
        assert!(sim.run_until_world_is_full(Lapse::from_secs(1)));
        let bytes = sim.table(Sp(0), WORLD).expect("it is full");
        let digest = Table::attach(&bytes).expect("it is a table").checksum();
        (bytes, digest, Tables::new(128, 8, 1).expect("room for tables"))
    }

    fn answer(bytes: &[u8], offset: usize, most: usize) -> Vec<u8> {
        let piece = &bytes[offset..(offset + most).min(bytes.len())];
        [(bytes.len() as u64).to_le_bytes().as_slice(), piece].concat()
    }

    #[test]
    fn a_table_comes_in_pieces_and_a_broken_link_makes_nobody_begin_anew() {
        let (bytes, digest, mut tables) = world();
        let theirs = Id::from_bits(7 << 32 | 5);
        tables.want(WORLD, theirs, digest);
        let mut questions = 0;
        while tables.handle(WORLD).is_none() {
            let (token, body) = tables.question().expect("the rest is wanted");
            assert_eq!(tables.question(), None, "one question at a time");
            questions += 1;
            if questions % 3 == 0 {
                tables.ask_again();
                assert_eq!(tables.answered(token, Status::Ok, &answer(&bytes, 0, 8)), None, "too late");
                continue;
            }
            let [_, offset] = [&body[..8], &body[8..]].map(|half| u64::from_le_bytes(half.try_into().expect("8")));
            assert_eq!(tables.answered(token, Status::Ok, &answer(&bytes, offset as usize, 200)), None);
        }
        assert!(questions > 5, "{questions} questions");
        let handle = tables.handle(WORLD).expect("it is whole");
        let reader = tables.reader().expect("an arena");
        assert!(reader.lookup(handle, Rank(127)).is_ok());
        tables.want(WORLD, theirs, digest);
        assert_eq!(tables.question(), None, "it is here");
        tables.forget(WORLD);
        assert!(tables.reader().expect("an arena").lookup(handle, Rank(0)).is_err());
    }

    #[test]
    fn many_tables_are_asked_for_a_few_at_a_time() {
        let (bytes, digest, mut tables) = world();
        (0..100).for_each(|key| tables.want(GroupKey(key), Id::from_bits(1), digest));
        let mut asked: Vec<_> = std::iter::from_fn(|| tables.question()).collect();
        let mut answered = 0;
        while let Some((token, _)) = asked.pop() {
            assert!(asked.len() < ASKED);
            assert_eq!(tables.answered(token, Status::UnknownGroup, &answer(&bytes, 0, 8)), None);
            answered += 1;
            asked.extend(std::iter::from_fn(|| tables.question()));
        }
        assert_eq!((answered, tables.coming.len()), (100, 0));
    }

    #[test]
    fn what_is_not_the_table_is_refused_and_what_ended_is_not() {
        let (bytes, digest, mut tables) = world();
        let mut damaged = bytes.clone();
        damaged[100] ^= 1;
        let long = [u64::MAX.to_le_bytes().as_slice(), &bytes].concat();
        let cases = [
            (Status::Ok, answer(&damaged, 0, usize::MAX / 2), Some((WORLD, Status::Malformed))),
            (Status::Ok, answer(&bytes, bytes.len(), 0), Some((WORLD, Status::Malformed))),
            (Status::Ok, long, Some((WORLD, Status::Malformed))),
            (Status::Ok, vec![1, 2], Some((WORLD, Status::Malformed))),
            (Status::PermissionDenied, vec![], Some((WORLD, Status::PermissionDenied))),
            (Status::UnknownGroup, vec![], None),
        ];
        for (status, body, refused) in cases {
            tables.want(WORLD, Id::from_bits(1), digest);
            let (token, _) = tables.question().expect("it is wanted");
            assert_eq!(tables.answered(token, status, &body), refused);
            assert_eq!((tables.handle(WORLD), tables.question()), (None, None));
        }
        // The bytes of a table that was not asked for.
        tables.want(WORLD, Id::from_bits(1), digest ^ 1);
        let (token, _) = tables.question().expect("it is wanted");
        let refused = tables.answered(token, Status::Ok, &answer(&bytes, 0, bytes.len()));
        assert_eq!(refused, Some((WORLD, Status::Malformed)));
    }
}
