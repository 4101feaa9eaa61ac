//! Writing the arrays of an explicit table.
//!
//! What is known of each rank is written as it is; inverses are made by sorting.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use super::build::{BuildError, Parts};
use super::layout::{Header, NONE, Sections, halves, pair};
use crate::peer::{Rank, Sp};

const CORRUPT: BuildError = BuildError::BadShape;

/// Writes everything but the header, completes the header's counts, and returns the table's length in words.
pub(super) fn explicit(parts: &mut Parts<'_>, head: &mut Header, slots: usize) -> Result<usize, BuildError> {
    (head.total, head.shadows) = (0, 0);
    for rank in (0..head.size).map(Rank) {
        let count = parts.further(rank, slots).len() as u32 + 1;
        (head.total, head.shadows) = (head.total + count, head.shadows.max(count));
    }
    head.identity = (0..).zip(parts.ranks.iter()).all(|(rank, word)| halves(word.get()).0 == rank);
    head.hosts = distinct(sort_by_host(parts)?);
    head.sps = distinct(sort_by_sp(parts, slots)?);
    let at = Sections::of(head).ok_or(CORRUPT)?;
    let used = <[U64]>::mut_from_bytes(parts.table).map_err(|_| CORRUPT)?.get_mut(..at.end).ok_or(CORRUPT)?;
    used.iter_mut().for_each(|word| word.set(0));

    write_ranks(parts, head, &at, slots)?;
    write_sps(parts, head, &at)?;
    sort_by_host(parts)?;
    write_hosts(parts, head, &at)?;
    write_sps_by_host(parts, head, &at)?;
    Ok(at.end)
}

/// The table as words, and the scratch.
fn table<'p>(parts: &'p mut Parts<'_>) -> Result<(&'p mut [U64], &'p mut [U64]), BuildError> {
    Ok((<[U64]>::mut_from_bytes(parts.table).map_err(|_| CORRUPT)?, parts.pairs))
}

/// The 32-bit fields of an array that starts at word `from`.
fn fields(table: &mut [U64], from: usize, count: usize) -> Result<&mut [U32], BuildError> {
    let words = table.get_mut(from..from + count.div_ceil(2)).ok_or(CORRUPT)?;
    let bytes = zerocopy::IntoBytes::as_mut_bytes(words);
    <[U32]>::mut_from_bytes(bytes).map_err(|_| CORRUPT)?.get_mut(..count).ok_or(CORRUPT)
}

fn put(table: &mut [U64], at: usize, word: u64) -> Result<(), BuildError> {
    table.get_mut(at).ok_or(CORRUPT)?.set(word);
    Ok(())
}

/// Fills the scratch with the ranks by host, as `rank, host` pairs in order.
fn sort_by_host<'p>(parts: &'p mut Parts<'_>) -> Result<&'p mut [U64], BuildError> {
    let Parts { hosts, pairs, .. } = parts;
    let pairs = pairs.get_mut(..hosts.len()).ok_or(CORRUPT)?;
    for ((rank, host), slot) in (0..).zip(hosts.iter()).zip(pairs.iter_mut()) {
        slot.set(pair(rank, host.get()));
    }
    pairs.sort_unstable_by_key(|pair| pair.get());
    Ok(pairs)
}

/// Fills the scratch with the ranks by service process, as `rank, service process` pairs in order.
fn sort_by_sp<'p>(parts: &'p mut Parts<'_>, slots: usize) -> Result<&'p mut [U64], BuildError> {
    let Parts { ranks, extra, pairs, .. } = parts;
    let mut count = 0;
    for (rank, word) in (0..).zip(ranks.iter()) {
        let from = rank as usize * slots;
        let further = extra.get(from..from + slots).ok_or(CORRUPT)?;
        let further = further.iter().map(|sp| sp.get()).take_while(|&sp| sp != NONE);
        for sp in core::iter::once(halves(word.get()).1).chain(further) {
            pairs.get_mut(count).ok_or(CORRUPT)?.set(pair(rank, sp));
            count += 1;
        }
    }
    let pairs = pairs.get_mut(..count).ok_or(CORRUPT)?;
    pairs.sort_unstable_by_key(|pair| pair.get());
    Ok(pairs)
}

/// How many different upper halves a sorted list of pairs has.
fn distinct(sorted: &[U64]) -> u32 {
    let mut last = None;
    sorted.iter().fold(0, |count, pair| {
        let key = Some(halves(pair.get()).1);
        count + u32::from(core::mem::replace(&mut last, key) != key)
    })
}

fn write_ranks(parts: &mut Parts<'_>, head: &Header, at: &Sections, slots: usize) -> Result<(), BuildError> {
    let Parts { ranks, extra, table, .. } = parts;
    let table = <[U64]>::mut_from_bytes(table).map_err(|_| CORRUPT)?;
    if head.identity {
        let firsts = fields(table, at.ranks, ranks.len())?;
        firsts.iter_mut().zip(ranks.iter()).for_each(|(to, word)| to.set(halves(word.get()).1));
    } else {
        let entries = table.get_mut(at.ranks..).ok_or(CORRUPT)?;
        entries.iter_mut().zip(ranks.iter()).for_each(|(to, word)| *to = *word);
    }
    let most = head.shadows as usize - 1;
    if most > 0 {
        let further = fields(table, at.extra, ranks.len() * most)?;
        for (to, from) in further.chunks_exact_mut(most).zip(extra.chunks_exact(slots)) {
            to.copy_from_slice(from.get(..most).ok_or(CORRUPT)?);
        }
    }
    Ok(())
}

/// Writes records and rows of the service processes; in the place of the host's index is the host for now.
fn write_sps(parts: &mut Parts<'_>, head: &Header, at: &Sections) -> Result<(), BuildError> {
    let Parts { hosts, pairs, table, .. } = parts;
    let table = <[U64]>::mut_from_bytes(table).map_err(|_| CORRUPT)?;
    let mut record = at.sps;
    let mut last = None;
    for (row, pair_of) in (0..).zip(pairs.iter().take(head.total as usize)) {
        let (rank, sp) = halves(pair_of.get());
        let host = hosts.get(rank as usize).ok_or(CORRUPT)?.get();
        match last {
            Some((known, on)) if known == sp && on != host => {
                return Err(BuildError::ServiceProcessOnTwoHosts(Sp(sp)));
            }
            Some((known, _)) if known == sp => {}
            _ => {
                put(table, record, pair(sp, host))?;
                put(table, record + 1, pair(row, 0))?;
                record += 2;
                last = Some((sp, host));
            }
        }
    }
    let rows = fields(table, at.sp_ranks, head.total as usize)?;
    rows.iter_mut().zip(pairs.iter()).for_each(|(to, pair)| to.set(halves(pair.get()).0));
    Ok(())
}

/// Writes records and rows of the hosts, without their service processes.
fn write_hosts(parts: &mut Parts<'_>, head: &Header, at: &Sections) -> Result<(), BuildError> {
    let (table, pairs) = table(parts)?;
    let pairs = pairs.get(..head.size as usize).ok_or(CORRUPT)?;
    let mut record = at.hosts;
    let mut last = None;
    for (row, pair_of) in (0..).zip(pairs) {
        let (_, host) = halves(pair_of.get());
        if last.replace(host) != Some(host) {
            put(table, record, pair(host, 0))?;
            put(table, record + 1, pair(row, 0))?;
            record += 2;
        }
    }
    let rows = fields(table, at.host_ranks, head.size as usize)?;
    rows.iter_mut().zip(pairs).for_each(|(to, pair)| to.set(halves(pair.get()).0));
    Ok(())
}

/// Turns hosts into their indices in the records of the service processes, and writes the rows of service processes
/// by host.
fn write_sps_by_host(parts: &mut Parts<'_>, head: &Header, at: &Sections) -> Result<(), BuildError> {
    let (table, pairs) = table(parts)?;
    let pairs = pairs.get_mut(..head.sps as usize).ok_or(CORRUPT)?;
    let count = head.hosts as usize;
    for (sp, slot) in (0..).zip(pairs.iter_mut()) {
        let record = at.sps + 2 * sp as usize;
        let (number, host) = halves(table.get(record).ok_or(CORRUPT)?.get());
        let index = {
            let records = table.get(at.hosts..at.hosts + 2 * count).ok_or(CORRUPT)?;
            let (pairs, _) = records.as_chunks::<2>();
            pairs.binary_search_by_key(&host, |[first, _]| halves(first.get()).0).map_err(|_| CORRUPT)? as u32
        };
        put(table, record, pair(number, index))?;
        slot.set(pair(sp, index));
    }
    pairs.sort_unstable_by_key(|pair| pair.get());
    let mut last = None;
    let mut on_host = 0;
    for (row, pair_of) in (0..).zip(pairs.iter()) {
        let (sp, host) = halves(pair_of.get());
        if last.replace(host) != Some(host) {
            on_host = 0;
            let record = at.hosts + 2 * host as usize + 1;
            let (first_rank, _) = halves(table.get(record).ok_or(CORRUPT)?.get());
            put(table, record, pair(first_rank, row))?;
        }
        let record = at.sps + 2 * sp as usize + 1;
        let (first_rank, _) = halves(table.get(record).ok_or(CORRUPT)?.get());
        put(table, record, pair(first_rank, on_host))?;
        on_host += 1;
    }
    let rows = fields(table, at.host_sps, head.sps as usize)?;
    rows.iter_mut().zip(pairs.iter()).for_each(|(to, pair)| to.set(halves(pair.get()).0));
    Ok(())
}
