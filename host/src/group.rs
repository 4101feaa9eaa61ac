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

    /// Storage of a service process.
    #[must_use]
    pub fn service(&self) -> service::Lent<Heap> {
        let records = self.groups as usize + 1;
        service::Lent {
            records: vec![Record::default(); records],
            index: vec![Entry::EMPTY; records + records / 3 + 1],
            words: vec![0; self.scratch_bytes().div_ceil(8)],
            blocks: vec![Block::default(); 2 * (8 * records + self.local_ranks as usize) + 1],
            links: vec![LinkSlot::default(); self.links as usize],
            peers: vec![PeerSlot::default(); self.service_processes as usize],
            locals: vec![LocalSlot::default(); self.local_ranks as usize],
            answers: vec![Answer::default(); 256.max(4 * self.links as usize)],
            events: vec![None; 256.max(4 * self.local_ranks as usize)],
        }
    }

    /// Storage of a rank.
    #[must_use]
    pub fn member(&self) -> member::Lent<Heap> {
        let groups = self.groups as usize + 1;
        member::Lent {
            groups: vec![Membership::default(); groups],
            index: vec![Entry::EMPTY; groups + groups / 3 + 1],
            words: vec![0; (self.ranks as usize * 6 + groups * 64).div_ceil(8) + 64],
            blocks: vec![Block::default(); 2 * groups + 1],
            events: vec![None; 64.max(2 * groups)],
        }
    }

    /// A private arena for the tables of all groups, for processes that share it with nobody.
    ///
    /// # Errors
    /// [`ArenaError`] if the capacities make no arena.
    pub fn endpoints(&self) -> Result<Endpoints<Vec<AtomicU64>, Vec<Block>>, ArenaError> {
        let slots = self.groups + 1;
        let words = Endpoints::<Vec<AtomicU64>, Vec<Block>>::words_needed(slots, self.arena_bytes());
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Endpoints::create(words, vec![Block::default(); 2 * slots as usize + 1], slots)
    }

    /// Bytes of tables for which an arena should have room.
    #[must_use]
    pub const fn arena_bytes(&self) -> usize {
        2 * self.table_bytes() + self.groups as usize * 512
    }
}
