//! Regular placements as arithmetic: a table of a few bytes, whatever its size.
//!
//! A table is affine when its ranks are dealt out regularly: *block* (ranks `0..d` on the first host, the next `d` on
//! the next, …) or *cyclic* (rank `r` on host `r % d`). Call `q` the host's place and `m` the rank's place on its
//! host. Then
//!
//! ```text
//! world rank       = world + r * world_stride
//! host             = host + q * host_stride                    strides of hosts and DPUs ascend
//! shadow j         = sp + q * sp_stride + (lid + m * lid_step + j) % service processes per DPU
//! ```
//!
//! and all inverses are arithmetic too: lids repeat with a period of at most 64, so "ranks of a service process" is a
//! bit pattern. Words 8 to 15 of such a table: reciprocal of `d`; reciprocal of the service processes per DPU; `d` and
//! service processes per DPU; world and stride; sp and stride; lid and step; host and stride; zero.

use super::layout::{AFFINE_WORDS, Header, Kind, halves, pair};
use super::reciprocal::Reciprocal;
use super::table::TableError;
use crate::peer::{Host, HostInGroup, Peer, Rank, Sp, SpInGroup, SpOnHostInGroup};

/// Most service processes per DPU for which a table can be affine: the bits of a word.
pub(super) const MAX_PER_DPU: u32 = 64;

/// The parameters of an affine table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Affine {
    pub(super) kind: Kind,
    pub(super) size: u32,
    pub(super) shadows: u32,
    pub(super) divisor: u32,
    pub(super) per_dpu: u32,
    pub(super) world: u32,
    pub(super) world_stride: i32,
    pub(super) sp: u32,
    pub(super) sp_stride: u32,
    pub(super) lid: u32,
    pub(super) lid_step: u32,
    pub(super) host: u32,
    pub(super) host_stride: u32,
}

/// The places on a host that one service process shadows: bit `m % period` of the mask.
struct Pattern {
    mask: u64,
    period: u32,
}

impl Pattern {
    /// How many of the first `places` places belong.
    fn count(&self, places: u32) -> u32 {
        places / self.period * self.mask.count_ones() + (self.mask & below(places % self.period)).count_ones()
    }

    /// The place at index `at` of those that belong.
    fn nth(&self, at: u32) -> Option<u32> {
        let each = self.mask.count_ones();
        Some(at.checked_div(each)? * self.period + select(self.mask, at.checked_rem(each)?)?)
    }

    fn contains(&self, place: u32) -> bool {
        self.mask >> (place % self.period) & 1 == 1
    }
}

/// The bits below position `bit`, which is at most 64.
const fn below(bit: u32) -> u64 {
    if bit >= 64 { u64::MAX } else { (1 << bit) - 1 }
}

/// The position of the set bit with `at` set bits below it.
fn select(mut mask: u64, at: u32) -> Option<u32> {
    for _ in 0..at {
        mask &= mask.wrapping_sub(1);
    }
    (mask != 0).then(|| mask.trailing_zeros())
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Affine {
    /// The parameter words.
    pub(super) fn words(&self) -> [u64; AFFINE_WORDS] {
        [
            Reciprocal::new(self.divisor).0,
            Reciprocal::new(self.per_dpu).0,
            pair(self.divisor, self.per_dpu),
            pair(self.world, self.world_stride.cast_unsigned()),
            pair(self.sp, self.sp_stride),
            pair(self.lid, self.lid_step),
            pair(self.host, self.host_stride),
            0,
        ]
    }

    /// Takes the parameters as they are.
    pub(super) fn decode(head: &Header, words: &[u64; AFFINE_WORDS]) -> Affine {
        let [_, _, divisors, world, sp, lid, host, _] = *words;
        let ((divisor, _), (world, world_stride)) = (halves(divisors), halves(world));
        let ((sp, sp_stride), (lid, lid_step), (host, host_stride)) = (halves(sp), halves(lid), halves(host));
        let world_stride = world_stride.cast_signed();
        let Header { kind, size, shadows, per_dpu, .. } = *head;
        #[rustfmt::skip]
        let affine = Affine {
            kind, size, shadows, divisor, per_dpu, world, world_stride, sp, sp_stride, lid, lid_step, host, host_stride,
        };
        affine
    }

    /// Checks parameters that came from outside; afterwards no look-up leaves the range of its type.
    pub(super) fn validate(&self, head: &Header, words: &[u64; AFFINE_WORDS]) -> Result<(), TableError> {
        let ok = |condition: bool, what| if condition { Ok(()) } else { Err(TableError::Malformed(what)) };
        let Affine { size, divisor, per_dpu, .. } = *self;
        ok((1..=MAX_PER_DPU).contains(&per_dpu), "service processes per DPU")?;
        ok(self.shadows >= 1 && self.shadows <= per_dpu.min(super::MAX_SHADOWS as u32), "shadows per rank")?;
        let divisor_ok = match self.kind {
            Kind::Cyclic => divisor >= 2 && divisor < size,
            _ => divisor >= 1 && divisor <= size,
        };
        ok(divisor_ok, "divisor")?;
        ok(self.words() == *words, "reciprocals and reserved words")?;
        let most_on_a_host = self.ranks_on(0);
        let (hosts, steps) = (self.host_count(), size - 1);
        let step_ok = if most_on_a_host > 1 { self.lid_step < per_dpu } else { self.lid_step == 0 };
        ok(self.lid < per_dpu && step_ok, "lids")?;
        let named = |first: u32, stride: i64, steps: u32| {
            let last = i64::from(first) + stride * i64::from(steps);
            first < Peer::CAPACITY && (0..i64::from(Peer::CAPACITY)).contains(&last) && (stride == 0) == (steps == 0)
        };
        ok(named(self.world, self.world_stride.into(), steps), "world ranks")?;
        ok(named(self.host, self.host_stride.into(), hosts - 1), "hosts")?;
        ok(self.sp.is_multiple_of(per_dpu) && self.sp_stride.is_multiple_of(per_dpu), "service processes")?;
        ok(named(self.sp.saturating_add(per_dpu - 1), self.sp_stride.into(), hosts - 1), "service processes")?;
        let total = u64::from(size) * u64::from(self.shadows);
        ok(head.hosts == hosts && head.sps == self.sp_count() && u64::from(head.total) == total, "counts")
    }

    /// The rank's host and its place there.
    pub(super) fn place(&self, rank: Rank) -> (u32, u32) {
        let (quotient, rest) = (rank.0 / self.divisor.max(1), rank.0 % self.divisor.max(1));
        match self.kind {
            Kind::Cyclic => (rest, quotient),
            _ => (quotient, rest),
        }
    }

    fn rank_at(&self, host: u32, place: u32) -> Option<Rank> {
        let rank = match self.kind {
            Kind::Cyclic => place.checked_mul(self.divisor)?.checked_add(host)?,
            _ => host.checked_mul(self.divisor)?.checked_add(place)?,
        };
        (rank < self.size).then_some(Rank(rank))
    }

    fn lid_at(&self, place: u32) -> u32 {
        let lid = u64::from(self.lid) + u64::from(place) * u64::from(self.lid_step);
        (lid % u64::from(self.per_dpu.max(1))) as u32
    }

    pub(super) fn world_rank(&self, rank: Rank) -> u32 {
        self.world.wrapping_add(rank.0.wrapping_mul(self.world_stride.cast_unsigned()))
    }

    pub(super) fn shadow(&self, rank: Rank, nth: u32) -> Option<Sp> {
        let (host, place) = self.place(rank);
        (nth < self.shadows).then(|| Sp(self.base(host) + (self.lid_at(place) + nth) % self.per_dpu.max(1)))
    }

    fn base(&self, host: u32) -> u32 {
        self.sp.wrapping_add(host.wrapping_mul(self.sp_stride))
    }

    pub(super) fn host_count(&self) -> u32 {
        match self.kind {
            Kind::Cyclic => self.divisor,
            _ => self.size.div_ceil(self.divisor.max(1)),
        }
    }

    fn ranks_on(&self, host: u32) -> u32 {
        match self.kind {
            Kind::Cyclic => self.size.saturating_sub(host).div_ceil(self.divisor.max(1)),
            _ => self.size.saturating_sub(host.saturating_mul(self.divisor)).min(self.divisor),
        }
    }

    /// Hosts below this place have as many ranks as the first host, the others as many as the last.
    fn split(&self) -> u32 {
        match (self.kind, self.size % self.divisor.max(1)) {
            (_, 0) => self.host_count(),
            (Kind::Cyclic, rest) => rest,
            _ => self.host_count() - 1,
        }
    }

    /// The lids involved on a host with this many ranks.
    fn lids(&self, ranks: u32) -> u64 {
        let firsts = (0..ranks.min(self.period())).fold(0_u64, |mask, place| mask | 1 << self.lid_at(place));
        let turned = |by: u32| match by {
            0 => firsts,
            by => (firsts << by | firsts >> (self.per_dpu - by)) & below(self.per_dpu),
        };
        (0..self.shadows.min(self.per_dpu)).fold(0, |mask, by| mask | turned(by))
    }

    fn period(&self) -> u32 {
        self.per_dpu / gcd(self.per_dpu, self.lid_step).max(1)
    }

    /// Lids of the first hosts and of the last ones.
    fn classes(&self) -> (u64, u64) {
        (self.lids(self.ranks_on(0)), self.lids(self.ranks_on(self.host_count().saturating_sub(1))))
    }

    fn lids_on(&self, host: u32) -> u64 {
        self.lids(self.ranks_on(host))
    }

    pub(super) fn sp_count(&self) -> u32 {
        let ((first, last), split) = (self.classes(), self.split());
        split * first.count_ones() + (self.host_count() - split) * last.count_ones()
    }

    /// The host's place and the lid of an involved service process.
    fn sp_place(&self, sp: SpInGroup) -> Option<(u32, u32)> {
        let ((first, last), split) = (self.classes(), self.split());
        let before = split * first.count_ones();
        let (from, at, mask) = if sp.0 < before { (0, sp.0, first) } else { (split, sp.0 - before, last) };
        let host = from + at.checked_div(mask.count_ones())?;
        (host < self.host_count()).then_some((host, select(mask, at % mask.count_ones())?))
    }

    pub(super) fn sp(&self, sp: SpInGroup) -> Option<Sp> {
        let (host, lid) = self.sp_place(sp)?;
        Some(Sp(self.base(host) + lid))
    }

    pub(super) fn sp_index(&self, sp: Sp) -> Option<SpInGroup> {
        let distance = sp.0.checked_sub(self.sp)?;
        let lid = distance % self.per_dpu.max(1);
        // A stride of zero means a single host.
        let host = match self.sp_stride {
            0 => (distance == lid).then_some(0)?,
            stride => (distance - lid).is_multiple_of(stride).then_some((distance - lid) / stride)?,
        };
        let lids = (host < self.host_count()).then(|| self.lids_on(host))?;
        let on_host = (lids >> lid & 1 == 1).then(|| (lids & below(lid)).count_ones())?;
        Some(SpInGroup(self.sps_before(host) + on_host))
    }

    fn sps_before(&self, host: u32) -> u32 {
        let ((first, last), split) = (self.classes(), self.split());
        host.min(split) * first.count_ones() + host.saturating_sub(split) * last.count_ones()
    }

    pub(super) fn sp_host(&self, sp: SpInGroup) -> Option<HostInGroup> {
        self.sp_place(sp).map(|(host, _)| HostInGroup(host))
    }

    pub(super) fn sp_on_host(&self, sp: SpInGroup) -> Option<SpOnHostInGroup> {
        let (host, lid) = self.sp_place(sp)?;
        Some(SpOnHostInGroup((self.lids_on(host) & below(lid)).count_ones()))
    }

    fn pattern(&self, lid: u32) -> Pattern {
        let period = self.period();
        let belongs = |place: &u32| (lid + self.per_dpu - self.lid_at(*place)) % self.per_dpu < self.shadows;
        Pattern { mask: (0..period).filter(belongs).fold(0, |mask, place| mask | 1 << place), period }
    }

    pub(super) fn sp_rank_count(&self, sp: SpInGroup) -> Option<u32> {
        let (host, lid) = self.sp_place(sp)?;
        Some(self.pattern(lid).count(self.ranks_on(host)))
    }

    pub(super) fn sp_rank(&self, sp: SpInGroup, at: u32) -> Option<Rank> {
        let (host, lid) = self.sp_place(sp)?;
        self.rank_at(host, self.pattern(lid).nth(at)?)
    }

    pub(super) fn index_at_sp(&self, rank: Rank, sp: SpInGroup) -> Option<u32> {
        let ((host, place), (sp_host, lid)) = (self.place(rank), self.sp_place(sp)?);
        let pattern = self.pattern(lid);
        (host == sp_host && pattern.contains(place)).then(|| pattern.count(place))
    }

    pub(super) fn host_at(&self, host: HostInGroup) -> Option<Host> {
        (host.0 < self.host_count()).then(|| Host(self.host.wrapping_add(host.0.wrapping_mul(self.host_stride))))
    }

    pub(super) fn host_index(&self, host: Host) -> Option<HostInGroup> {
        let distance = host.0.checked_sub(self.host)?;
        let place = match self.host_stride {
            0 => (distance == 0).then_some(0)?,
            stride => (distance % stride == 0).then_some(distance / stride)?,
        };
        (place < self.host_count()).then_some(HostInGroup(place))
    }

    pub(super) fn host_rank_count(&self, host: HostInGroup) -> Option<u32> {
        (host.0 < self.host_count()).then(|| self.ranks_on(host.0))
    }

    pub(super) fn host_rank(&self, host: HostInGroup, at: u32) -> Option<Rank> {
        (at < self.host_rank_count(host)?).then(|| self.rank_at(host.0, at)).flatten()
    }

    pub(super) fn host_sp_count(&self, host: HostInGroup) -> Option<u32> {
        (host.0 < self.host_count()).then(|| self.lids_on(host.0).count_ones())
    }

    pub(super) fn host_sp(&self, host: HostInGroup, at: SpOnHostInGroup) -> Option<SpInGroup> {
        (at.0 < self.host_sp_count(host)?).then(|| SpInGroup(self.sps_before(host.0) + at.0))
    }
}
