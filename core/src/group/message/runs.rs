//! Which ranks of a group are where, as runs over service processes and ranks.
//!
//! A regular placement gives neighbouring service processes the same arithmetic run of ranks, shifted: a whole subtree
//! is then a few runs, written in groups of seven bits.

use crate::codec::{Reader, Short, Writer};
use crate::peer::{Peer, Sp};

use super::super::cause::Stretch;
use super::MessageError;

/// Ranks of one group at one service process, as an arithmetic run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Entries {
    /// Their service process.
    pub sp: Sp,
    /// Which ranks.
    pub ranks: Stretch,
}

impl Entries {
    /// Two words, for lent storage; ordered like service process and first rank.
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [(self.sp.0 as u64) << 32 | self.ranks.first as u64, (self.ranks.stride as u64) << 32 | self.ranks.count as u64]
    }

    pub(crate) const fn from_words(words: [u64; 2]) -> Entries {
        Entries {
            sp: Sp((words[0] >> 32) as u32),
            ranks: Stretch { first: words[0] as u32, stride: (words[1] >> 32) as u32, count: words[1] as u32 },
        }
    }
}

/// Entries of service processes that follow each other, each shifted by `step` ranks from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: Entries,
    /// Service processes, at least one.
    sps: u32,
    /// Zero in a run of one, else not.
    step: u32,
}

/// Most bytes of a run.
pub(crate) const RUN_BYTES: usize = 6 * 5;

impl Run {
    /// Takes the entries that follow if they continue the run.
    fn extend(&mut self, next: Entries) -> bool {
        let Entries { sp, ranks } = self.first;
        let same = next.ranks.stride == ranks.stride && next.ranks.count == ranks.count;
        let step = match (self.sps, next.ranks.first.checked_sub(ranks.first)) {
            (1, Some(step)) if step > 0 => step,
            (2.., Some(far)) if u64::from(far) == u64::from(self.step) * u64::from(self.sps) => self.step,
            _ => return false,
        };
        let follows = same && sp.0.checked_add(self.sps) == Some(next.sp.0);
        if follows {
            (self.step, self.sps) = (step, self.sps + 1);
        }
        follows
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        let Entries { sp, ranks } = self.first;
        w.var(sp.0)?;
        w.var(self.sps)?;
        if self.sps > 1 {
            w.var(self.step)?;
        }
        w.var(ranks.first)?;
        w.var(ranks.count)?;
        if ranks.count > 1 { w.var(ranks.stride) } else { Ok(()) }
    }

    /// Reads a run of a group with `size` ranks, and how many ranks it names.
    fn parse(r: &mut Reader<'_>, size: u32) -> Result<(Run, u64), MessageError> {
        let (sp, sps) = (Sp(r.var()?), r.var()?);
        let step = if sps > 1 { r.var()? } else { 0 };
        let (first, count) = (r.var()?, r.var()?);
        let stride = if count > 1 { r.var()? } else { 0 };
        let shaped = sps > 0 && count > 0 && (sps > 1) == (step > 0) && (count > 1) == (stride > 0);
        let far = u128::from(step) * u128::from(sps.saturating_sub(1));
        let last = u128::from(first) + far + u128::from(stride) * u128::from(count.saturating_sub(1));
        if !shaped || last >= u128::from(size) || sp.0.checked_add(sps).is_none() {
            return Err(MessageError::BadField);
        }
        let run = Run { first: Entries { sp, ranks: Stretch { first, stride, count } }, sps, step };
        Ok((run, u64::from(sps) * u64::from(count)))
    }

    fn entries(self) -> impl Iterator<Item = Entries> {
        let Entries { sp, ranks } = self.first;
        // No product passes the last rank, which is below the group's size.
        (0..self.sps)
            .map(move |i| Entries { sp: Sp(sp.0 + i), ranks: Stretch { first: ranks.first + self.step * i, ..ranks } })
    }
}

/// Writes entries as runs, as many as fit; how many entries those are.
pub(crate) fn emit(w: &mut Writer<'_>, entries: impl Iterator<Item = Entries>) -> Result<u32, Short> {
    let mut written = 0;
    let mut run: Option<Run> = None;
    for next in entries {
        if run.as_mut().is_some_and(|run| run.extend(next)) {
            continue;
        }
        if let Some(done) = run.take() {
            done.emit(w)?;
            written += done.sps;
        }
        if w.room() < RUN_BYTES {
            return Ok(written);
        }
        run = Some(Run { first: next, sps: 1, step: 0 });
    }
    if let Some(done) = run {
        done.emit(w)?;
        written += done.sps;
    }
    Ok(written)
}

/// Checks that all bytes are runs, and that they name no more ranks than the group has: so a message costs no more to
/// take than an honest one.
pub(super) fn check(bytes: &[u8], size: u32) -> Result<(), MessageError> {
    let mut r = Reader::new(bytes);
    let mut ranks = 0u64;
    if size > Peer::CAPACITY {
        return Err(MessageError::BadField);
    }
    while !r.rest().is_empty() {
        ranks += Run::parse(&mut r, size)?.1;
        if ranks > u64::from(size) {
            return Err(MessageError::BadField);
        }
    }
    Ok(())
}

/// The entries of bytes that were checked.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Entries> + use<'_> {
    let mut r = Reader::new(bytes);
    core::iter::from_fn(move || if r.rest().is_empty() { None } else { Run::parse(&mut r, u32::MAX).ok() })
        .flat_map(|(run, _)| run.entries())
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::{Entries, RUN_BYTES, check, emit, entries};
    use crate::codec::Writer;
    use crate::group::Stretch;
    use crate::peer::Sp;

    fn at(sp: u32, first: u32, stride: u32, count: u32) -> Entries {
        Entries { sp: Sp(sp), ranks: Stretch { first, stride, count } }
    }

    fn written(list: &[Entries], room: usize) -> (u32, Vec<u8>) {
        let mut bytes = vec![0; room];
        let mut w = Writer::new(&mut bytes);
        let count = emit(&mut w, list.iter().copied()).unwrap();
        let len = w.len();
        bytes.truncate(len);
        (count, bytes)
    }

    #[test]
    fn a_regular_placement_is_one_run() {
        for list in [
            (0..256).map(|sp| at(sp, sp * 32, 1, 32)).collect::<Vec<_>>(),
            (0..256).map(|sp| at(sp, sp, 256, 32)).collect(),
            (5..9).map(|sp| at(sp, sp * 3, 0, 1)).collect(),
        ] {
            let (count, bytes) = written(&list, 100);
            assert_eq!(count as usize, list.len());
            assert!(bytes.len() <= 10, "{} bytes", bytes.len());
            assert_eq!(check(&bytes, 8192), Ok(()));
            assert_eq!(entries(&bytes).collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn entries_that_fit_no_run_come_out_as_they_went_in_as_many_as_fit() {
        let list = [at(3, 7, 2, 4), at(4, 9, 2, 4), at(5, 10, 2, 4), at(5, 40, 0, 1), at(9, 1, 0, 1)];
        let (count, bytes) = written(&list, 200);
        assert_eq!((count, entries(&bytes).collect::<Vec<_>>()), (5, list.to_vec()));
        let (count, bytes) = written(&list, RUN_BYTES + 1);
        assert_eq!(count, 2, "a run that may not fit is left for the next message");
        assert_eq!(entries(&bytes).collect::<Vec<_>>(), list[..2]);
    }

    #[test]
    fn more_ranks_than_the_group_has_are_refused() {
        let (_, bytes) = written(&[at(0, 0, 1, 4), at(1, 2, 1, 4)], 100);
        assert_eq!(check(&bytes, 8), Ok(()));
        for size in 0..8 {
            assert!(check(&bytes, size).is_err(), "size {size}");
        }
        for len in 1..bytes.len() {
            assert!(check(&bytes[..len], 8).is_err(), "cut at {len}");
        }
    }
}
