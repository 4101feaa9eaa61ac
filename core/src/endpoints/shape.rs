//! How large a group's table and its builder are, from the group and the job.

use super::MAX_SHADOWS;
use super::identity::{Descriptor, GroupKey};
use super::layout::{AFFINE_WORDS, HEADER_WORDS, Sections};
use crate::placement::Placement;

/// What is known of a group before any of its ranks is: its identity, its size, and bounds taken from the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The group's key.
    pub key: GroupKey,
    /// The runtime's number for the group.
    pub id: u32,
    /// Whether this is the world group.
    pub world: bool,
    /// Number of ranks.
    pub size: u32,
    /// Most shadow service processes that a rank of the job has, 1 to 8.
    pub shadows: u32,
    /// Service processes on each DPU.
    pub per_dpu: u32,
    /// Service processes of the job.
    pub service_processes: u32,
    /// Hosts of the job.
    pub hosts: u32,
}

impl Shape {
    /// The shape of the described group in a job.
    #[must_use]
    pub fn new(descriptor: &Descriptor<'_>, key: GroupKey, placement: &Placement<'_>) -> Shape {
        Shape {
            key,
            id: descriptor.id(),
            world: descriptor.is_world(),
            size: descriptor.size(),
            shadows: placement.shadows_per_rank(),
            per_dpu: placement.service_processes_per_dpu(),
            service_processes: placement.service_processes(),
            hosts: placement.hosts(),
        }
    }

    /// Most bytes that the finished table takes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        let total = u64::from(self.size) * u64::from(self.shadows);
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        let (sps, hosts) = (total.min(self.service_processes), self.size.min(self.hosts));
        let explicit = Sections::new(self.size, false, self.shadows, total, sps, hosts).map_or(usize::MAX, |s| s.end);
        explicit.max(HEADER_WORDS + AFFINE_WORDS).saturating_mul(8)
    }

    /// Bytes of storage that a [`TableBuilder`](super::TableBuilder) of this shape needs.
    #[must_use]
    pub fn builder_bytes(&self) -> usize {
        self.plan().map_or(usize::MAX, |plan| plan.end)
    }

    /// Where the builder keeps what; `None` if the shape is absurd.
    pub(super) fn plan(&self) -> Option<Plan> {
        if self.shadows == 0 || self.shadows as usize > MAX_SHADOWS {
            return None;
        }
        let (n, k) = (self.size as usize, self.shadows as usize);
        let ranks = n.div_ceil(64).checked_mul(8)?;
        let hosts = ranks.checked_add(n.checked_mul(8)?)?;
        let extra = hosts.checked_add(n.checked_mul(4)?)?;
        let pairs = extra.checked_add(n.checked_mul(4)?.checked_mul(k - 1)?)?;
        let table = pairs.checked_add(n.checked_mul(8)?.checked_mul(k)?)?;
        Some(Plan { ranks, hosts, extra, pairs, table, end: table.checked_add(self.table_bytes())? })
    }
}

/// Byte offsets of the builder's parts; the bitmap of set ranks starts at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) ranks: usize,
    pub(super) hosts: usize,
    pub(super) extra: usize,
    pub(super) pairs: usize,
    pub(super) table: usize,
    pub(super) end: usize,
}
