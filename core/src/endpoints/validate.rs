//! Whether an explicit table contradicts itself.
//!
//! Rows are strictly ascending and every rank in a row belongs there by its own entry; as the rows together are
//! exactly as long as the ranks (or their shadows) are many, each rank is then in its rows once. What passes here
//! answers every look-up without a contradiction.

use super::explicit::Explicit;
use super::table::TableError;
use super::words::{Words, field};
use crate::peer::{HostInGroup, Peer, Rank, SpInGroup, SpOnHostInGroup};

/// Checks all arrays; O(size), with a search per rank where service processes are not consecutive.
pub(super) fn validate<W: Words>(table: &Explicit<W>) -> Result<(), TableError> {
    entries(table)?;
    service_processes(table)?;
    hosts(table)?;
    padding(table)
}

fn demand(condition: bool, what: &'static str) -> Result<(), TableError> {
    if condition { Ok(()) } else { Err(TableError::Malformed(what)) }
}

fn entries<W: Words>(table: &Explicit<W>) -> Result<(), TableError> {
    let (mut total, mut most) = (0_u32, 0);
    let mut all_own = true;
    for rank in (0..table.head.size).map(Rank) {
        let world = table.world_rank(rank).ok_or(TableError::Malformed("world ranks"))?;
        demand(world < Peer::CAPACITY, "world ranks")?;
        all_own &= world == rank.0;
        let count = (0..table.head.shadows).take_while(|&nth| table.shadow(rank, nth).is_some()).count() as u32;
        demand((count..table.head.shadows).all(|nth| table.shadow(rank, nth).is_none()), "shadows")?;
        let host = table.host_of_rank(rank).ok_or(TableError::Malformed("service process of a rank"))?;
        for nth in 0..count {
            let sp = table.shadow(rank, nth).ok_or(TableError::Malformed("shadows"))?;
            demand(table.sp_index(sp).and_then(|sp| table.sp_host(sp)) == Some(host), "hosts of the shadows")?;
            demand((0..nth).all(|earlier| table.shadow(rank, earlier) != Some(sp)), "shadows")?;
        }
        total += count;
        most = most.max(count);
    }
    // One set of entries has one form.
    demand(all_own == table.head.identity, "world ranks")?;
    demand(total == table.head.total && most == table.head.shadows, "number of shadows")
}

/// Checks that a row, which starts where the one before it ended, is strictly ascending; gives its end.
fn ascending(start: u32, expected: u32, count: u32, item: impl Fn(u32) -> Option<u32>) -> Result<u32, TableError> {
    demand(start == expected && count > 0, "start of a row")?;
    let mut last = None;
    for at in 0..count {
        let item = item(at).ok_or(TableError::Malformed("end of a row"))?;
        demand(last.is_none_or(|last| last < item), "order of a row")?;
        last = Some(item);
    }
    start.checked_add(count).ok_or(TableError::Malformed("end of a row"))
}

fn service_processes<W: Words>(table: &Explicit<W>) -> Result<(), TableError> {
    let mut end = 0;
    let mut last = None;
    for sp in (0..table.head.sps).map(SpInGroup) {
        let record = table.sp_record(sp).ok_or(TableError::Malformed("service processes"))?;
        demand(record.sp.0 < Peer::CAPACITY && last.is_none_or(|last| last < record.sp), "order of service processes")?;
        last = Some(record.sp);
        let count = table.sp_rank_count(sp).ok_or(TableError::Malformed("ranks by service process"))?;
        end = ascending(record.first, end, count, |at| table.sp_rank(sp, at).map(|rank| rank.0))?;
        for at in 0..count {
            let rank = table.sp_rank(sp, at).ok_or(TableError::Malformed("ranks by service process"))?;
            let belongs = (0..table.head.shadows).any(|nth| table.shadow(rank, nth) == Some(record.sp));
            demand(belongs, "ranks by service process")?;
        }
        demand(table.host_sp(record.host, record.on_host) == Some(sp), "service processes by host")?;
    }
    demand(end == table.head.total, "ranks by service process")
}

fn hosts<W: Words>(table: &Explicit<W>) -> Result<(), TableError> {
    let (mut ranks, mut sps) = (0, 0);
    let mut last = None;
    for host in (0..table.head.hosts).map(HostInGroup) {
        let record = table.host_record(host).ok_or(TableError::Malformed("hosts"))?;
        demand(record.host.0 < Peer::CAPACITY && last.is_none_or(|last| last < record.host), "order of hosts")?;
        last = Some(record.host);
        let count = table.host_rank_count(host).ok_or(TableError::Malformed("ranks by host"))?;
        ranks = ascending(record.first_rank, ranks, count, |at| table.host_rank(host, at).map(|rank| rank.0))?;
        for at in 0..count {
            let on = table.host_rank(host, at).and_then(|rank| table.host_of_rank(rank));
            demand(on == Some(host), "ranks by host")?;
        }
        let count = table.host_sp_count(host).ok_or(TableError::Malformed("service processes by host"))?;
        let item = |at| table.host_sp(host, SpOnHostInGroup(at)).map(|sp| sp.0);
        sps = ascending(record.first_sp, sps, count, item)?;
        for at in (0..count).map(SpOnHostInGroup) {
            let sp = table.host_sp(host, at).ok_or(TableError::Malformed("service processes by host"))?;
            demand(table.sp_host(sp) == Some(host), "service processes by host")?;
        }
    }
    demand(ranks == table.head.size && sps == table.head.sps, "rows by host")
}

/// One set of entries has one form: unused bytes are zero.
fn padding<W: Words>(table: &Explicit<W>) -> Result<(), TableError> {
    let (head, at) = (&table.head, &table.at);
    let further = head.size as usize * (head.shadows as usize).saturating_sub(1);
    let firsts = if head.identity { head.size as usize } else { 0 };
    let arrays = [
        (at.ranks, firsts),
        (at.extra, further),
        (at.host_sps, head.sps as usize),
        (at.sp_ranks, head.total as usize),
        (at.host_ranks, head.size as usize),
    ];
    for (from, count) in arrays {
        demand(count % 2 == 0 || field(&table.words, from, count) == Some(0), "padding")?;
    }
    let zero = |host| table.words.word(at.hosts + 2 * host).is_some_and(|word| word >> 32 == 0);
    demand((0..head.hosts as usize).all(zero), "padding")
}
