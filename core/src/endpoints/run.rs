//! Entries of a group as arithmetic runs, for exchange between service processes.
//!
//! The ranks that one service process serves are nearly always one run: every so many ranks, every so many world
//! ranks, one host, one list of shadows. When the parts of all service processes of a host come together they are one
//! run again, whose shadows step around the DPU. A run takes 9 to 24 bytes with one shadow, whatever its length.
//!
//! In bytes: number of shadows `u8`, then variable-length integers (7 bits a byte, least significant first, at most
//! five bytes, no superfluous byte): rank, count, rank stride, world rank, world stride (zigzag), host, lid step, and
//! the shadows of the first entry. A run of one has zero strides and step.
//!
//! ```
//! use umbra_core::codec::{Reader, Writer};
//! use umbra_core::endpoints::{EntryRun, Shadows};
//! use umbra_core::peer::{Host, Rank, Sp, WorldRank};
//!
//! let shadows = Shadows::from_slice(&[Sp(8)]).unwrap();
//! let (rank, world_rank) = (Rank(64), WorldRank(64));
//! let run = EntryRun {
//!     rank, count: 16, rank_stride: 4, world_rank, world_stride: 4, host: Host(1), shadows, lid_step: 0,
//! };
//! let mut bytes = [0; 32];
//! let mut w = Writer::new(&mut bytes);
//! run.emit(&mut w)?;
//! let len = w.len();
//! assert_eq!(len, 9);
//! assert_eq!(EntryRun::parse(&mut Reader::new(&bytes[..len]))?, run);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;

use crate::codec::{Reader, Short, VarError, Writer};
use crate::entry::{Entry, MAX_SHADOWS, Shadows};
use crate::peer::{Host, Peer, Rank, Sp, WorldRank};

/// Entries in arithmetic progression, all on one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryRun {
    /// Rank of the first entry.
    pub rank: Rank,
    /// Number of entries, at least one.
    pub count: u32,
    /// From one rank to the next; zero in a run of one.
    pub rank_stride: u32,
    /// Process of the first entry.
    pub world_rank: WorldRank,
    /// From one process to the next; zero in a run of one.
    pub world_stride: i32,
    /// The host of all.
    pub host: Host,
    /// Shadows of the first entry.
    pub shadows: Shadows,
    /// How far every shadow steps around its DPU from one entry to the next.
    pub lid_step: u32,
}

/// Why bytes are not runs of entries, or do not fit the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RunError {
    /// The bytes end inside a run.
    Short,
    /// A number is written with more bytes than it needs or than an integer has.
    BadInteger,
    /// A run names no shadow, or more than a rank can have.
    BadShadows,
    /// A run of one has a stride, or a longer one has none.
    BadStride,
    /// A run leaves the ranks, processes or service processes that can be named.
    OutOfRange,
    /// A rank is named twice.
    Repeated,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunError::Short => "entries end inside a run",
            RunError::BadInteger => "entries hold an integer that is not in its shortest form",
            RunError::BadShadows => "run of entries names no shadow service process or too many",
            RunError::BadStride => "run of entries has a stride that its length does not allow",
            RunError::OutOfRange => "run of entries leaves the range of ranks or service processes",
            RunError::Repeated => "entries name a rank twice",
        })
    }
}
impl core::error::Error for RunError {}

impl From<Short> for RunError {
    fn from(Short: Short) -> Self {
        RunError::Short
    }
}

impl From<VarError> for RunError {
    fn from(error: VarError) -> Self {
        match error {
            VarError::Short => RunError::Short,
            VarError::NotShortest => RunError::BadInteger,
        }
    }
}

impl EntryRun {
    /// Most bytes that [`emit`](Self::emit) writes.
    pub const BYTES_MAX: usize = 1 + 5 * (7 + MAX_SHADOWS);

    /// A run of one.
    #[must_use]
    pub fn one(rank: Rank, entry: &Entry) -> EntryRun {
        let Entry { world_rank, host, ref shadows } = *entry;
        let shadows = shadows.clone();
        EntryRun { rank, count: 1, rank_stride: 0, world_rank, world_stride: 0, host, shadows, lid_step: 0 }
    }

    /// The entry at position `at`, for DPUs with `per_dpu` service processes; `None` past the end.
    #[must_use]
    pub fn entry(&self, at: u32, per_dpu: u32) -> Option<(Rank, Entry)> {
        (at < self.count).then(|| self.predicted(at, per_dpu)).flatten()
    }

    /// The entry that would be at position `at` if the run were long enough.
    fn predicted(&self, at: u32, per_dpu: u32) -> Option<(Rank, Entry)> {
        let rank = Rank(self.rank.0.checked_add(self.rank_stride.checked_mul(at)?)?);
        let world_rank = i64::from(self.world_rank.0) + i64::from(self.world_stride) * i64::from(at);
        let world_rank = WorldRank(u32::try_from(world_rank).ok()?);
        let turn = (u64::from(self.lid_step) * u64::from(at)).checked_rem(per_dpu.into())?;
        let turn = u32::try_from(turn).ok()?;
        let step = |sp: &Sp| {
            let lid = sp.0.checked_rem(per_dpu)?;
            // Both terms are below `per_dpu`, which is at most the number of service processes: no overflow.
            Some(Sp(sp.0 - lid + (lid + turn) % per_dpu))
        };
        let mut shadows = Shadows::new();
        for sp in &self.shadows {
            shadows.push(step(sp)?).ok()?;
        }
        Some((rank, Entry { world_rank, host: self.host, shadows }))
    }

    /// Appends an entry if it continues the run; says whether it did.
    #[must_use]
    pub fn extend(&mut self, rank: Rank, entry: &Entry, per_dpu: u32) -> bool {
        if self.count == 1 {
            let fits = rank > self.rank && entry.host == self.host && entry.shadows.len() == self.shadows.len();
            let lids = self.shadows.first().zip(entry.shadows.first()).map(|(a, b)| (a.0 % per_dpu, b.0 % per_dpu));
            let Some((from, to)) = lids.filter(|_| fits) else { return false };
            self.rank_stride = rank.0 - self.rank.0;
            self.world_stride = entry.world_rank.0.wrapping_sub(self.world_rank.0).cast_signed();
            self.lid_step = (to + per_dpu - from) % per_dpu;
        }
        let continues = self.predicted(self.count, per_dpu).is_some_and(|(r, e)| r == rank && e == *entry);
        if continues {
            self.count += 1;
        } else if self.count == 1 {
            (self.rank_stride, self.world_stride, self.lid_step) = (0, 0, 0);
        }
        continues
    }

    /// Writes the run.
    ///
    /// # Errors
    /// [`Short`] if it does not fit; part of it is written then.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u8(u8::try_from(self.shadows.len()).map_err(|_| Short)?)?;
        let zigzag = (self.world_stride << 1 ^ self.world_stride >> 31).cast_unsigned();
        let fields = [self.rank.0, self.count, self.rank_stride, self.world_rank.0, zigzag, self.host.0, self.lid_step];
        fields.into_iter().chain(self.shadows.iter().map(|sp| sp.0)).try_for_each(|field| w.var(field))
    }

    /// Takes one run off the front of the bytes.
    ///
    /// # Errors
    /// [`RunError`], saying what is wrong.
    pub fn parse(r: &mut Reader<'_>) -> Result<EntryRun, RunError> {
        let shadow_count = usize::from(r.u8()?);
        if shadow_count == 0 || shadow_count > MAX_SHADOWS {
            return Err(RunError::BadShadows);
        }
        let (rank, count, rank_stride, world_rank) = (Rank(r.var()?), r.var()?, r.var()?, WorldRank(r.var()?));
        let zigzag = r.var()?;
        let world_stride = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        let (host, lid_step) = (Host(r.var()?), r.var()?);
        let mut shadows = Shadows::new();
        for _ in 0..shadow_count {
            let sp = Sp(r.var()?);
            if sp.0 >= Peer::CAPACITY {
                return Err(RunError::OutOfRange);
            }
            shadows.push(sp).map_err(|_| RunError::BadShadows)?;
        }
        match count {
            0 => return Err(RunError::BadStride),
            1 if (rank_stride, world_stride, lid_step) != (0, 0, 0) => return Err(RunError::BadStride),
            2.. if rank_stride == 0 => return Err(RunError::BadStride),
            _ => {}
        }
        let named = |number: i64| (0..i64::from(Peer::CAPACITY)).contains(&number);
        let steps = i64::from(count) - 1;
        let last = i128::from(rank.0) + i128::from(rank_stride) * i128::from(steps);
        let last_world = i128::from(world_rank.0) + i128::from(world_stride) * i128::from(steps);
        let ends =
            [i64::from(world_rank.0), i64::try_from(last).unwrap_or(-1), i64::try_from(last_world).unwrap_or(-1)];
        if !ends.into_iter().all(named) || lid_step >= Peer::CAPACITY {
            return Err(RunError::OutOfRange);
        }
        Ok(EntryRun { rank, count, rank_stride, world_rank, world_stride, host, shadows, lid_step })
    }
}
