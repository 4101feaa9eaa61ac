//! From a full set of entries to the one table that says the same.
//!
//! Equal entries give equal bytes, whatever the order in which they came and whatever the machine. Regular placements
//! become arithmetic; otherwise the inverses are sorted in lent scratch.
//!
//! *Cost*: O(size) for a regular placement in rank order, else O(size log size).

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use super::arrays::explicit;
use super::build::{BuildError, Parts, TableBuilder};
use super::checksum::checksum;
use super::fit::{Row, fit};
use super::layout::{HEADER_WORDS, Header, Kind, NONE, halves};
use super::shape::Shape;
use crate::id::Generation;
use crate::peer::{Host, Rank, Sp, WorldRank};

impl<S: AsRef<[u8]> + AsMut<[u8]>> TableBuilder<S> {
    /// Makes the table of this generation and returns its bytes, which lie in the builder's storage.
    ///
    /// # Errors
    /// [`BuildError::Missing`] until the builder is full; the other variants if the entries cannot form a group.
    pub fn finish(&mut self, generation: Generation) -> Result<&[u8], BuildError> {
        if let Some(first) = self.missing().next() {
            return Err(BuildError::Missing { count: self.shape.size - self.count(), first });
        }
        if generation == Generation::NEVER {
            return Err(BuildError::BadShape);
        }
        let too_small = BuildError::StorageTooSmall { needed: self.plan.end };
        let (shape, plan) = (self.shape, self.plan);
        let mut parts = Parts::cut(self.storage.as_mut(), &plan).ok_or(too_small)?;
        parts.check_processes()?;
        let words = write(&mut parts, &shape, generation)?;
        self.storage.as_ref().get(plan.table..plan.table + words * 8).ok_or(too_small)
    }
}

/// Writes the table and returns its length in words.
fn write(parts: &mut Parts<'_>, shape: &Shape, generation: Generation) -> Result<usize, BuildError> {
    let Shape { key, id, world, size, per_dpu, .. } = *shape;
    let slots = shape.shadows as usize - 1;
    let mut head = Header {
        kind: Kind::Explicit,
        world,
        identity: false,
        key,
        size,
        generation,
        id,
        sps: 0,
        hosts: 0,
        total: 0,
        per_dpu,
        shadows: 0,
    };
    let affine = fit(size, per_dpu, |rank| parts.row(Rank(rank), slots));
    let end = if let Some(affine) = affine {
        head.kind = affine.kind;
        (head.sps, head.hosts) = (affine.sp_count(), affine.host_count());
        (head.total, head.shadows) = (size * affine.shadows, affine.shadows);
        let table = parts.table_words()?;
        table.iter_mut().skip(HEADER_WORDS).zip(affine.words()).for_each(|(to, word)| to.set(word));
        HEADER_WORDS + affine.words().len()
    } else {
        explicit(parts, &mut head, slots)?
    };
    let table = parts.table_words()?;
    table.iter_mut().zip(head.words()).for_each(|(to, word)| to.set(word));
    let used = table.get_mut(..end).ok_or(BuildError::BadShape)?;
    let sum = checksum(used.iter().enumerate().filter(|&(at, _)| at != 1).map(|(_, word)| word.get()));
    used.get_mut(1).ok_or(BuildError::BadShape)?.set(sum);
    Ok(end)
}

impl Parts<'_> {
    fn table_words(&mut self) -> Result<&mut [U64], BuildError> {
        <[U64]>::mut_from_bytes(self.table).map_err(|_| BuildError::BadShape)
    }

    /// The further shadows of a rank.
    pub(super) fn further(&self, rank: Rank, slots: usize) -> &[U32] {
        let all = self.extra.get(rank.index() * slots..(rank.index() + 1) * slots).unwrap_or_default();
        let count = all.iter().take_while(|sp| sp.get() != NONE).count();
        all.get(..count).unwrap_or_default()
    }

    fn row(&self, rank: Rank, slots: usize) -> Option<Row<'_>> {
        let (world, first) = halves(self.ranks.get(rank.index())?.get());
        let host = Host(self.hosts.get(rank.index())?.get());
        Some(Row { world, host, first: Sp(first), further: self.further(rank, slots) })
    }

    /// Refuses a process that is two ranks.
    fn check_processes(&mut self) -> Result<(), BuildError> {
        let Parts { ranks, pairs, .. } = self;
        let world = |word: &U64| halves(word.get()).0;
        if ranks.iter().zip(ranks.iter().skip(1)).all(|(a, b)| world(a) < world(b)) {
            return Ok(());
        }
        let sorted = pairs.get_mut(..ranks.len()).ok_or(BuildError::BadShape)?;
        sorted.iter_mut().zip(ranks.iter()).for_each(|(to, word)| to.set(world(word).into()));
        sorted.sort_unstable_by_key(|word| word.get());
        let twice = sorted.iter().zip(sorted.iter().skip(1)).find(|(a, b)| a == b);
        twice.map_or(Ok(()), |(word, _)| Err(BuildError::DuplicateProcess(WorldRank(halves(word.get()).0))))
    }
}
