//! Irregular placements as arrays.
//!
//! There is an array for each thing to know of a rank, and compressed rows for every inverse. Records of service
//! processes and hosts say where their row of ranks starts; it ends where the next one starts. Rows are ascending, so
//! "index of a rank in a row" is a binary search. Every read is checked; a contradiction gives `None`, and
//! [`validate`](super::validate) has made sure that a table from outside holds none.

use super::layout::{Header, NONE, Sections, halves};
use super::words::{Words, field};
use crate::peer::{Host, HostInGroup, Rank, Sp, SpInGroup, SpOnHostInGroup};

/// The arrays of an explicit table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Explicit<W> {
    pub(super) words: W,
    pub(super) head: Header,
    pub(super) at: Sections,
}

/// What the table says about one involved service process.
#[derive(Clone, Copy)]
pub(super) struct SpRecord {
    pub(super) sp: Sp,
    pub(super) host: HostInGroup,
    pub(super) first: u32,
    pub(super) on_host: SpOnHostInGroup,
}

/// What the table says about one involved host.
#[derive(Clone, Copy)]
pub(super) struct HostRecord {
    pub(super) host: Host,
    pub(super) first_rank: u32,
    pub(super) first_sp: u32,
}

/// The least `at` below `count` for which `key(at)` is not below `wanted`; `count` if there is none.
fn lower_bound(count: u32, wanted: u32, key: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if key(middle)? < wanted { low = middle + 1 } else { high = middle }
    }
    Some(low)
}

/// The `at` below `count` for which `key(at)` is `wanted`, in an ascending sequence.
fn search(count: u32, wanted: u32, key: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    let at = lower_bound(count, wanted, &key)?;
    (at < count && key(at)? == wanted).then_some(at)
}

impl<W: Words> Explicit<W> {
    /// World rank and first shadow of a rank.
    fn entry(&self, rank: Rank) -> Option<(u32, u32)> {
        match (rank.0 < self.head.size, self.head.identity) {
            (false, _) => None,
            (true, true) => Some((rank.0, field(&self.words, self.at.ranks, rank.index())?)),
            (true, false) => self.words.word(self.at.ranks.checked_add(rank.index())?).map(halves),
        }
    }

    pub(super) fn world_rank(&self, rank: Rank) -> Option<u32> {
        self.entry(rank).map(|(world, _)| world)
    }

    fn first_shadow(&self, rank: Rank) -> Option<Sp> {
        self.entry(rank).map(|(_, first)| Sp(first))
    }

    pub(super) fn shadow(&self, rank: Rank, nth: u32) -> Option<Sp> {
        if nth == 0 {
            return self.first_shadow(rank);
        }
        let slots = self.head.shadows.checked_sub(1)?;
        if nth > slots || rank.0 >= self.head.size {
            return None;
        }
        let at = u64::from(rank.0) * u64::from(slots) + u64::from(nth - 1);
        field(&self.words, self.at.extra, usize::try_from(at).ok()?).filter(|&sp| sp != NONE).map(Sp)
    }

    pub(super) fn sp_record(&self, sp: SpInGroup) -> Option<SpRecord> {
        let at = self.at.sps.checked_add(sp.index().checked_mul(2)?)?;
        let ((number, host), (first, on_host)) = (halves(self.words.word(at)?), halves(self.words.word(at + 1)?));
        let record = SpRecord { sp: Sp(number), host: HostInGroup(host), first, on_host: SpOnHostInGroup(on_host) };
        (sp.0 < self.head.sps).then_some(record)
    }

    pub(super) fn host_record(&self, host: HostInGroup) -> Option<HostRecord> {
        let at = self.at.hosts.checked_add(host.index().checked_mul(2)?)?;
        let ((number, _), (first_rank, first_sp)) = (halves(self.words.word(at)?), halves(self.words.word(at + 1)?));
        (host.0 < self.head.hosts).then_some(HostRecord { host: Host(number), first_rank, first_sp })
    }

    /// Where the row of a service process starts and how long it is.
    fn sp_row(&self, sp: SpInGroup) -> Option<(u32, u32)> {
        let start = self.sp_record(sp)?.first;
        let next = SpInGroup(sp.0.checked_add(1)?);
        let end = self.sp_record(next).map_or(self.head.total, |record| record.first);
        Some((start, end.checked_sub(start)?))
    }

    fn host_rank_row(&self, host: HostInGroup) -> Option<(u32, u32)> {
        let start = self.host_record(host)?.first_rank;
        let next = HostInGroup(host.0.checked_add(1)?);
        let end = self.host_record(next).map_or(self.head.size, |record| record.first_rank);
        Some((start, end.checked_sub(start)?))
    }

    fn host_sp_row(&self, host: HostInGroup) -> Option<(u32, u32)> {
        let start = self.host_record(host)?.first_sp;
        let next = HostInGroup(host.0.checked_add(1)?);
        let end = self.host_record(next).map_or(self.head.sps, |record| record.first_sp);
        Some((start, end.checked_sub(start)?))
    }

    fn in_row(&self, section: usize, row: (u32, u32), at: u32) -> Option<u32> {
        let place = row.0.checked_add(at).filter(|_| at < row.1)?;
        field(&self.words, section, place as usize)
    }

    pub(super) fn sp(&self, sp: SpInGroup) -> Option<Sp> {
        self.sp_record(sp).map(|record| record.sp)
    }

    pub(super) fn sp_index(&self, sp: Sp) -> Option<SpInGroup> {
        // Usually the involved service processes are consecutive, and the answer is a subtraction.
        let guess = SpInGroup(sp.0.wrapping_sub(self.sp(SpInGroup(0))?.0));
        if self.sp(guess) == Some(sp) {
            return Some(guess);
        }
        search(self.head.sps, sp.0, |at| self.sp(SpInGroup(at)).map(|sp| sp.0)).map(SpInGroup)
    }

    pub(super) fn sp_host(&self, sp: SpInGroup) -> Option<HostInGroup> {
        self.sp_record(sp).map(|record| record.host)
    }

    pub(super) fn sp_on_host(&self, sp: SpInGroup) -> Option<SpOnHostInGroup> {
        self.sp_record(sp).map(|record| record.on_host)
    }

    pub(super) fn sp_rank_count(&self, sp: SpInGroup) -> Option<u32> {
        self.sp_row(sp).map(|(_, count)| count)
    }

    pub(super) fn sp_rank(&self, sp: SpInGroup, at: u32) -> Option<Rank> {
        self.in_row(self.at.sp_ranks, self.sp_row(sp)?, at).map(Rank)
    }

    pub(super) fn index_at_sp(&self, rank: Rank, sp: SpInGroup) -> Option<u32> {
        let row = self.sp_row(sp)?;
        search(row.1, rank.0, |at| self.in_row(self.at.sp_ranks, row, at))
    }

    pub(super) fn host_at(&self, host: HostInGroup) -> Option<Host> {
        self.host_record(host).map(|record| record.host)
    }

    pub(super) fn host_index(&self, host: Host) -> Option<HostInGroup> {
        let guess = HostInGroup(host.0.wrapping_sub(self.host_at(HostInGroup(0))?.0));
        if self.host_at(guess) == Some(host) {
            return Some(guess);
        }
        search(self.head.hosts, host.0, |at| self.host_at(HostInGroup(at)).map(|host| host.0)).map(HostInGroup)
    }

    pub(super) fn host_of_rank(&self, rank: Rank) -> Option<HostInGroup> {
        self.sp_host(self.sp_index(self.first_shadow(rank)?)?)
    }

    pub(super) fn host_rank_count(&self, host: HostInGroup) -> Option<u32> {
        self.host_rank_row(host).map(|(_, count)| count)
    }

    pub(super) fn host_rank(&self, host: HostInGroup, at: u32) -> Option<Rank> {
        self.in_row(self.at.host_ranks, self.host_rank_row(host)?, at).map(Rank)
    }

    pub(super) fn index_on_host(&self, rank: Rank) -> Option<u32> {
        let row = self.host_rank_row(self.host_of_rank(rank)?)?;
        search(row.1, rank.0, |at| self.in_row(self.at.host_ranks, row, at))
    }

    pub(super) fn host_sp_count(&self, host: HostInGroup) -> Option<u32> {
        self.host_sp_row(host).map(|(_, count)| count)
    }

    pub(super) fn host_sp(&self, host: HostInGroup, at: SpOnHostInGroup) -> Option<SpInGroup> {
        self.in_row(self.at.host_sps, self.host_sp_row(host)?, at.0).map(SpInGroup)
    }
}
