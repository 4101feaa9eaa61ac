//! Storage on the heap for the machines that fill the endpoint cache.
//!
//! The machines of [`umbra_core::group`] live on lent storage; on a host that is vectors, sized once from a few
//! [`Capacities`].
//!
//! ```
//! use umbra::group::{Capacities, Heap};
//! use umbra_core::endpoints::JobKey;
//! use umbra_core::group::{Service, service};
//! use umbra_core::peer::{Incarnation, Sp};
//! use umbra_core::placement::Placement;
//! use umbra_core::time::Time;
//!
//! let job = Placement::one_dpu_a_host(2, 2, 1)?;
//! let capacities = Capacities { ranks: 8, ..Capacities::for_job(&job) };
//! let config = service::Config::new(Sp(0), Incarnation(17), JobKey::new([1; 16]));
//! let shelf = capacities.endpoints()?;
//! let service = Service::<Heap, _>::new(config, job, shelf, capacities.service(), Time::ZERO);
//! assert!(service.world().is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{ArenaError, Endpoints};
use umbra_core::group::Record;
use umbra_core::group::member::{self, Membership};
use umbra_core::group::service::{self, Answer, LinkSlot, LocalSlot, PeerSlot};
use umbra_core::map::Entry;
use umbra_core::memory::Block;
use umbra_core::placement::Placement;

/// Names vectors as the storage of both machines.
#[derive(Clone, Copy, Debug)]
pub enum Heap {}

impl service::Storage for Heap {
    type Records = Vec<Record>;
    type Index = Vec<Entry<u128, u32>>;
    type Words = Vec<u64>;
    type Blocks = Vec<Block>;
    type Links = Vec<LinkSlot>;
    type Peers = Vec<PeerSlot>;
    type Locals = Vec<LocalSlot>;
    type Answers = Vec<Answer>;
    type Events = Vec<Option<service::Event>>;
}

impl member::Storage for Heap {
    type Groups = Vec<Membership>;
    type Index = Vec<Entry<u128, u32>>;
    type Words = Vec<u64>;
    type Blocks = Vec<Block>;
    type Events = Vec<Option<member::Event>>;
}

/// How much a process can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Ranks of the job.
    pub ranks: u32,
    /// Ranks that one service process serves.
    pub local_ranks: u32,
    /// Service processes of the job.
    pub service_processes: u32,
    /// Links that one process has at once.
    pub links: u32,
    /// Groups, live and remembered, beside the world group.
    pub groups: u32,
    /// Shadow service processes of a rank.
    pub shadows: u32,
}

/// Bytes that storage takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Those that are written when it is made.
    pub written: u64,
    /// All of them: the rest are zeros, which take no memory before they are used.
    pub all: u64,
}

impl Footprint {
    /// That, and that of so many values.
    #[must_use]
    pub const fn plus_values<T>(self, count: u64) -> Footprint {
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        Footprint { written: self.written.saturating_add(bytes), all: self.all.saturating_add(bytes) }
    }

    const fn plus_zeros(self, bytes: u64) -> Footprint {
        Footprint { all: self.all.saturating_add(bytes), ..self }
    }

    /// That of two.
    #[must_use]
    pub const fn plus(self, other: Footprint) -> Footprint {
        Footprint { written: self.written.saturating_add(other.written), all: self.all.saturating_add(other.all) }
    }

    /// That of so many.
    #[must_use]
    pub const fn times(self, count: u64) -> Footprint {
        Footprint { written: self.written.saturating_mul(count), all: self.all.saturating_mul(count) }
    }
}

/// How long the lists of a service process are.
struct ServiceLengths {
    records: usize,
    index: usize,
    words: usize,
    blocks: usize,
    links: usize,
    peers: usize,
    locals: usize,
    answers: usize,
    events: usize,
}

/// How long the lists of a rank are.
struct MemberLengths {
    groups: usize,
    index: usize,
    words: usize,
    blocks: usize,
    events: usize,
}

/// Entries of an index of so many.
const fn index(of: usize) -> usize {
    of + of / 3 + 1
}

const fn at_least(least: usize, count: usize) -> usize {
    if count < least { least } else { count }
}

impl Capacities {
    /// For a job of this shape with up to 64 ranks a service process and 64 groups.
    #[must_use]
    pub fn for_job(job: &Placement<'_>) -> Capacities {
        let service_processes = job.service_processes();
        Capacities {
            ranks: service_processes.saturating_mul(64),
            local_ranks: 64,
            service_processes,
            links: service_processes.saturating_add(64 + 16),
            groups: 64,
            shadows: job.shadows_per_rank(),
        }
    }

    /// Bytes of the largest group's table, at most.
    #[must_use]
    pub const fn table_bytes(&self) -> usize {
        let per_rank = 40 + 8 * self.shadows as usize;
        4096 + self.ranks as usize * per_rank + self.service_processes as usize * 32
    }

    /// Bytes of words for groups that are being filled.
    const fn scratch_bytes(&self) -> usize {
        // The world's builder and its places, the table coming in, and small change for each group.
        8192 + 4 * self.table_bytes() + self.groups as usize * 1024
    }

    const fn service_lengths(&self) -> ServiceLengths {
        let (records, local, links) = (self.groups as usize + 1, self.local_ranks as usize, self.links as usize);
        ServiceLengths {
            records,
            index: index(records),
            words: self.scratch_bytes().div_ceil(8),
            blocks: 2 * (8 * records + local) + 1,
            links,
            peers: self.service_processes as usize,
            locals: local,
            answers: at_least(256, 4 * links),
            events: at_least(256, 4 * local),
        }
    }

    const fn member_lengths(&self) -> MemberLengths {
        let groups = self.groups as usize + 1;
        MemberLengths {
            groups,
            index: index(groups),
            words: (self.ranks as usize * 6 + groups * 64).div_ceil(8) + 64,
            blocks: 2 * groups + 1,
            events: at_least(64, 2 * groups),
        }
    }

    /// Words and blocks of an arena for the tables of all groups.
    fn arena_lengths(&self) -> (usize, usize) {
        let slots = self.groups + 1;
        let words = Endpoints::<Vec<AtomicU64>, Vec<Block>>::words_needed(slots, self.arena_bytes());
        (words, 2 * slots as usize + 1)
    }

    /// Storage of a service process.
    #[must_use]
    pub fn service(&self) -> service::Lent<Heap> {
        let lengths = self.service_lengths();
        service::Lent {
            records: vec![Record::default(); lengths.records],
            index: vec![Entry::EMPTY; lengths.index],
            words: vec![0; lengths.words],
            blocks: vec![Block::default(); lengths.blocks],
            links: vec![LinkSlot::default(); lengths.links],
            peers: vec![PeerSlot::default(); lengths.peers],
            locals: vec![LocalSlot::default(); lengths.locals],
            answers: vec![Answer::default(); lengths.answers],
            events: vec![None; lengths.events],
        }
    }

    /// What the [storage of a service process](Self::service) and [its tables](Self::endpoints) take.
    #[must_use]
    pub fn service_footprint(&self) -> Footprint {
        let (lengths, (words, blocks)) = (self.service_lengths(), self.arena_lengths());
        Footprint::default()
            .plus_values::<Record>(lengths.records as u64)
            .plus_values::<Entry<u128, u32>>(lengths.index as u64)
            .plus_zeros(lengths.words as u64 * 8)
            .plus_values::<Block>(lengths.blocks as u64)
            .plus_values::<LinkSlot>(lengths.links as u64)
            .plus_values::<PeerSlot>(lengths.peers as u64)
            .plus_values::<LocalSlot>(lengths.locals as u64)
            .plus_values::<Answer>(lengths.answers as u64)
            .plus_values::<Option<service::Event>>(lengths.events as u64)
            .plus_values::<AtomicU64>(words as u64)
            .plus_values::<Block>(blocks as u64)
    }

    /// What the [storage of a rank](Self::member) takes.
    #[must_use]
    pub fn member_footprint(&self) -> Footprint {
        let lengths = self.member_lengths();
        Footprint::default()
            .plus_values::<Membership>(lengths.groups as u64)
            .plus_values::<Entry<u128, u32>>(lengths.index as u64)
            .plus_zeros(lengths.words as u64 * 8)
            .plus_values::<Block>(lengths.blocks as u64)
            .plus_values::<Option<member::Event>>(lengths.events as u64)
    }

    /// Storage of a rank.
    #[must_use]
    pub fn member(&self) -> member::Lent<Heap> {
        let lengths = self.member_lengths();
        member::Lent {
            groups: vec![Membership::default(); lengths.groups],
            index: vec![Entry::EMPTY; lengths.index],
            words: vec![0; lengths.words],
            blocks: vec![Block::default(); lengths.blocks],
            events: vec![None; lengths.events],
        }
    }

    /// A private arena for the tables of all groups, for processes that share it with nobody.
    ///
    /// # Errors
    /// [`ArenaError`] if the capacities make no arena.
    pub fn endpoints(&self) -> Result<Endpoints<Vec<AtomicU64>, Vec<Block>>, ArenaError> {
        let (words, blocks) = self.arena_lengths();
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Endpoints::create(words, vec![Block::default(); blocks], self.groups + 1)
    }

    /// Bytes of tables for which an arena should have room.
    #[must_use]
    pub const fn arena_bytes(&self) -> usize {
        2 * self.table_bytes() + self.groups as usize * 512
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T>(list: &[T]) -> u64 {
        size_of_val(list) as u64
    }

    #[test]
    fn storage_takes_as_much_as_is_said() {
        let small = Capacities { ranks: 1, local_ranks: 1, service_processes: 1, links: 1, groups: 0, shadows: 1 };
        let large =
            Capacities { ranks: 5000, local_ranks: 99, service_processes: 300, links: 500, groups: 1000, shadows: 3 };
        for capacities in [small, large] {
            let lent = capacities.service();
            let lists = [
                bytes(&lent.records),
                bytes(&lent.index),
                bytes(&lent.blocks),
                bytes(&lent.links),
                bytes(&lent.peers),
                bytes(&lent.locals),
                bytes(&lent.answers),
                bytes(&lent.events),
            ];
            let said = capacities.service_footprint();
            let slots = capacities.groups + 1;
            let words = Endpoints::<Vec<AtomicU64>, Vec<Block>>::words_needed(slots, capacities.arena_bytes());
            let of_tables = words as u64 * 8 + (2 * u64::from(slots) + 1) * size_of::<Block>() as u64;
            assert_eq!(said.written, lists.iter().sum::<u64>() + of_tables);
            assert_eq!((said.all - said.written).div_ceil(8) * 8, bytes(&lent.words));
            let lent = capacities.member();
            let lists = [bytes(&lent.groups), bytes(&lent.index), bytes(&lent.blocks), bytes(&lent.events)];
            let said = capacities.member_footprint();
            assert_eq!((said.written, said.all - said.written), (lists.iter().sum(), bytes(&lent.words)));
        }
    }
}
