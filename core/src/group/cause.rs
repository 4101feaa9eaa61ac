//! Why a group ended, and who was missing.
//!
//! "Timed out" helps nobody; "timed out, world ranks 12 to 15 never came" does. A cause travels with the end of a
//! generation to every waiting rank, so the list is bounded: a count, and the first few arithmetic runs.

use core::fmt;

use crate::codec::{Reader, Short, Writer};
use crate::error::Status;
use crate::peer::Sp;

use super::message::{MessageError, status};

/// An arithmetic run of numbers: `first, first + stride, …`, `count` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Stretch {
    /// The first number.
    pub first: u32,
    /// From one to the next; zero in a run of one.
    pub stride: u32,
    /// How many.
    pub count: u32,
}

impl Stretch {
    /// The last number; `None` if there is none or it passes 32 bits.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.stride.checked_mul(self.count.checked_sub(1)?)?.checked_add(self.first)
    }

    /// The numbers, ascending; as many as fit 32 bits.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let Stretch { first, stride, count } = *self;
        (0..count).map_while(move |i| stride.checked_mul(i)?.checked_add(first))
    }

    /// Takes `next` as the following number if it continues the run.
    pub(crate) fn extend(&mut self, next: u32) -> bool {
        match self.count {
            0 => *self = Stretch { first: next, stride: 0, count: 1 },
            1 if next > self.first => *self = Stretch { stride: next - self.first, count: 2, ..*self },
            n if n > 1 && self.stride.checked_mul(n).and_then(|at| at.checked_add(self.first)) == Some(next) => {
                self.count += 1;
            }
            _ => return false,
        }
        true
    }

    /// Reads a run that has at least one number; a run of one has stride 0, a longer one has not.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes are no such run.
    pub fn parse(r: &mut Reader<'_>) -> Result<Stretch, MessageError> {
        let stretch = Stretch { first: r.u32()?, stride: r.u32()?, count: r.u32()? };
        let shaped = (stretch.count == 1) == (stretch.stride == 0);
        if stretch.last().is_some() && shaped { Ok(stretch) } else { Err(MessageError::BadField) }
    }

    /// Writes the run.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u32(self.first)?;
        w.u32(self.stride)?;
        w.u32(self.count)
    }
}

/// What the numbers of a [`Missing`] list mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Who {
    /// Ranks of the group.
    #[default]
    Ranks,
    /// Local ranks on the reporter's host.
    LocalRanks,
    /// Service processes.
    ServiceProcesses,
}

/// Runs that a [`Missing`] list can hold.
pub const MISSING_RUNS: usize = 6;

/// Who is missing: how many, and the first of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Missing {
    /// What the numbers mean.
    pub who: Who,
    count: u32,
    len: u8,
    runs: [Stretch; MISSING_RUNS],
}

impl Missing {
    /// Collects numbers that come in ascending order.
    #[must_use]
    pub fn collect(who: Who, numbers: impl IntoIterator<Item = u32>) -> Missing {
        let mut missing = Missing { who, ..Missing::default() };
        for number in numbers {
            missing.count = missing.count.saturating_add(1);
            let last = usize::from(missing.len).wrapping_sub(1);
            if missing.runs.get_mut(last).is_some_and(|run| run.extend(number)) {
                continue;
            }
            if let Some(run) = missing.runs.get_mut(usize::from(missing.len)) {
                *run = Stretch { first: number, stride: 0, count: 1 };
                missing.len += 1;
            }
        }
        missing
    }

    /// How many are missing, listed or not.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The first of them as runs.
    #[must_use]
    pub fn runs(&self) -> &[Stretch] {
        self.runs.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The first of them, one by one.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs().iter().flat_map(Stretch::iter)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.who {
            Who::Ranks => "ranks",
            Who::LocalRanks => "local ranks",
            Who::ServiceProcesses => "service processes",
        })?;
        let mut listed = 0u32;
        for run in self.runs() {
            listed = listed.saturating_add(run.count);
            match (run.count, run.last()) {
                (0 | 1, _) | (_, None) => write!(f, " {}", run.first)?,
                (_, Some(last)) if run.stride == 1 => write!(f, " {}-{last}", run.first)?,
                (_, Some(last)) => write!(f, " {}-{last}/{}", run.first, run.stride)?,
            }
        }
        if listed < self.count { write!(f, " and {} more", self.count - listed) } else { Ok(()) }
    }
}

/// Why a generation of a group ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Cause {
    /// `Ok`: all left. `Timeout`: somebody never came. `PeerFailed`: a service process died. `Conflict`:
    /// descriptions differ.
    pub status: Status,
    /// The service process that failed, could not be reached or did not answer.
    pub sp: Option<Sp>,
    /// Who is missing.
    pub missing: Missing,
}

impl Cause {
    /// All members have left.
    pub const LEFT: Cause = Cause::of(Status::Ok);

    /// A cause that names nobody.
    #[must_use]
    pub const fn of(status: Status) -> Cause {
        Cause {
            status,
            sp: None,
            missing: Missing {
                who: Who::Ranks,
                count: 0,
                len: 0,
                runs: [Stretch { first: 0, stride: 0, count: 0 }; 6],
            },
        }
    }

    /// A service process failed.
    #[must_use]
    pub const fn failed(sp: Sp) -> Cause {
        Cause { sp: Some(sp), ..Cause::of(Status::PeerFailed) }
    }

    /// Reads a cause.
    ///
    /// # Errors
    /// [`MessageError`] if the bytes do not start with one.
    pub fn parse(r: &mut Reader<'_>) -> Result<Cause, MessageError> {
        let status = status(r.u16()?)?;
        let sp = r.u32()?;
        let who = match r.u8()? {
            0 => Who::Ranks,
            1 => Who::LocalRanks,
            2 => Who::ServiceProcesses,
            _ => return Err(MessageError::BadField),
        };
        let len = r.u8()?;
        let mut missing = Missing { who, count: r.u32()?, len, runs: [Stretch::default(); MISSING_RUNS] };
        let runs = missing.runs.get_mut(..usize::from(len)).ok_or(MessageError::BadField)?;
        for run in runs {
            *run = Stretch::parse(r)?;
        }
        Ok(Cause { status, sp: (sp != u32::MAX).then_some(Sp(sp)), missing })
    }

    /// Writes the cause.
    ///
    /// # Errors
    /// [`Short`] if it does not fit.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        w.u16(self.status as u16)?;
        w.u32(self.sp.map_or(u32::MAX, |sp| sp.0))?;
        w.u8(match self.missing.who {
            Who::Ranks => 0,
            Who::LocalRanks => 1,
            Who::ServiceProcesses => 2,
        })?;
        w.u8(self.missing.len)?;
        w.u32(self.missing.count)?;
        for run in self.missing.runs() {
            run.emit(w)?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.sp) {
            (Status::Ok, _) => f.write_str("all members left")?,
            (status, Some(sp)) => write!(f, "{status} (service process {sp})")?,
            (status, None) => status.fmt(f)?,
        }
        if self.missing.count > 0 { write!(f, ", missing {}", self.missing) } else { Ok(()) }
    }
}
