//! Moving entries between builders: out as runs, in as a checked union.
//!
//! What one service process knows is written as runs ordered by host and rank, in as many pieces as the messages
//! need; what it hears is checked as a whole and then added. Adding twice, in any order, gives the same set.
//!
//! *Cost*: writing sorts what is known (linear if it is in order already); merging is linear in the entries, and a
//! message is refused where it names a rank a second time.

use core::fmt;

use zerocopy::little_endian::U64;

use super::build::{Parts, SetError, TableBuilder};
use super::layout::{halves, pair};
use super::run::{EntryRun, RunError};
use crate::codec::{Reader, Writer};
use crate::peer::{Peer, Rank};
use crate::placement::{Misplaced, Placement};

/// How far the writing of runs has come; starts at the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// The least `host, rank` not yet written.
    next: u64,
    /// How many entries come before it.
    before: usize,
    done: bool,
}

impl Cursor {
    /// Whether everything that was known at the last call is written.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }
}

/// Why a message's entries were not taken; none of them was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MergeError {
    /// The bytes are not runs of entries for this group.
    Run(RunError),
    /// An entry names a place that the job does not have.
    Misplaced(Misplaced),
    /// An entry does not fit the group or contradicts what is known.
    Set(SetError),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Run(error) => error.fmt(f),
            MergeError::Misplaced(error) => error.fmt(f),
            MergeError::Set(error) => error.fmt(f),
        }
    }
}
impl core::error::Error for MergeError {}

impl From<RunError> for MergeError {
    fn from(error: RunError) -> Self {
        MergeError::Run(error)
    }
}
impl From<Misplaced> for MergeError {
    fn from(error: Misplaced) -> Self {
        MergeError::Misplaced(error)
    }
}
impl From<SetError> for MergeError {
    fn from(error: SetError) -> Self {
        MergeError::Set(error)
    }
}

impl<S: AsRef<[u8]> + AsMut<[u8]>> TableBuilder<S> {
    /// Writes the known entries of the ranks that `keep` accepts as runs, from the cursor on, and returns the bytes
    /// written: whole runs only, and none if not even one fits or nothing is left.
    ///
    /// Call again with the same cursor, and the same `keep`, until it [is done](Cursor::is_done). A buffer of at least
    /// [`EntryRun::BYTES_MAX`] always makes progress. If an entry has come between those that are written, all are
    /// written again.
    pub fn write_runs(&mut self, cursor: &mut Cursor, out: &mut [u8], keep: impl Fn(Rank) -> bool) -> usize {
        if cursor.done {
            return 0;
        }
        let known = self.sort_by_host(&keep);
        let per_dpu = self.shape.per_dpu;
        let keys = (0..known).map_while(|at| self.sorted(at));
        if keys.take_while(|&key| key < cursor.next).count() != cursor.before {
            *cursor = Cursor::default();
        }
        let from = cursor.before;
        let mut w = Writer::new(out);
        let mut written = 0;
        let mut run: Option<EntryRun> = None;
        for (at, key) in (from..known).map_while(|at| Some((at, self.sorted(at)?))) {
            let rank = Rank(halves(key).0);
            let Some(entry) = self.get(rank) else { continue };
            if run.as_mut().is_some_and(|run| run.extend(rank, &entry, per_dpu)) {
                continue;
            }
            if let Some(run) = run.replace(EntryRun::one(rank, &entry)) {
                if run.emit(&mut w).is_err() {
                    // The cursor still points at the start of the run that did not fit.
                    return written;
                }
                written = w.len();
            }
            (cursor.next, cursor.before) = (key, at);
        }
        if let Some(run) = run {
            if run.emit(&mut w).is_err() {
                return written;
            }
            written = w.len();
        }
        cursor.done = true;
        written
    }

    /// Adds all entries of a message, and returns how many were new.
    ///
    /// # Errors
    /// [`MergeError`]; nothing changed then.
    pub fn merge_runs(&mut self, bytes: &[u8], placement: &Placement<'_>) -> Result<u32, MergeError> {
        let per_dpu = self.shape.per_dpu;
        let mut r = Reader::new(bytes);
        self.forget_marks();
        while !r.rest().is_empty() {
            let run = EntryRun::parse(&mut r)?;
            for at in 0..run.count {
                let (rank, entry) = run.entry(at, per_dpu).ok_or(RunError::OutOfRange)?;
                placement.check(&entry)?;
                self.check(rank, &entry)?;
                // Bounds the work: a message can name each rank of the group once.
                self.mark(rank)?;
            }
        }
        let mut added = 0;
        let mut r = Reader::new(bytes);
        while !r.rest().is_empty() {
            let run = EntryRun::parse(&mut r)?;
            for (rank, entry) in (0..run.count).filter_map(|at| run.entry(at, per_dpu)) {
                added += u32::from(self.set(rank, &entry)?);
            }
        }
        Ok(added)
    }

    /// Clears the marks; they share the scratch with [`sort_by_host`](Self::sort_by_host).
    fn forget_marks(&mut self) {
        let words = self.shape.size.div_ceil(64) as usize;
        let marks = Parts::cut(self.storage.as_mut(), &self.plan).and_then(|parts| parts.pairs.get_mut(..words));
        marks.into_iter().flatten().for_each(|word| word.set(0));
    }

    fn mark(&mut self, rank: Rank) -> Result<(), RunError> {
        let parts = Parts::cut(self.storage.as_mut(), &self.plan).ok_or(RunError::OutOfRange)?;
        let word = parts.pairs.get_mut(rank.index() / 64).ok_or(RunError::OutOfRange)?;
        let bit = 1 << (rank.0 % 64);
        if word.get() & bit != 0 {
            return Err(RunError::Repeated);
        }
        word.set(word.get() | bit);
        Ok(())
    }

    fn sorted(&self, at: usize) -> Option<u64> {
        self.part::<U64>(self.plan.pairs, at).map(|pair| pair.get())
    }

    /// Fills the scratch with `host, rank` of the known ranks that `keep` accepts, sorted; returns how many.
    fn sort_by_host(&mut self, keep: &impl Fn(Rank) -> bool) -> usize {
        let size = self.shape.size;
        let Some(parts) = Parts::cut(self.storage.as_mut(), &self.plan) else { return 0 };
        let mut known = 0;
        for rank in (0..size.min(Peer::CAPACITY)).map(Rank) {
            let set = parts.set.get(rank.index() / 64).is_some_and(|word| word.get() >> (rank.0 % 64) & 1 == 1);
            let Some(host) = parts.hosts.get(rank.index()).filter(|_| set && keep(rank)) else { continue };
            if let Some(slot) = parts.pairs.get_mut(known) {
                slot.set(pair(rank.0, host.get()));
                known += 1;
            }
        }
        if let Some(pairs) = parts.pairs.get_mut(..known) {
            pairs.sort_unstable_by_key(|pair| pair.get());
        }
        known
    }
}
