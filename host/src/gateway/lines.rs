//! The lines of a handle that many threads use: each call has one to itself.
//!
//! A call takes a line that no other one uses, or makes one; a call that waits at its gateway holds up no other one. Where
//! there are as many as may be, it waits for one to come back, as long as it would wait for an answer; for that it waits only
//! what is left then.
//!
//! A child that was forked off has lines of its own: over those of its parent it would talk in the parent's name, and some of
//! them are in the hands of threads that the child lacks.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use umbra_core::gateway::{Answer, Request};
use umbra_core::time::Time;

use super::counted::Counted;
use super::error::Error;
use super::line::{Doubts, Line, Opening, Term};
use super::registry::Gateways;
use crate::driver::now;
use crate::sys::fork;

/// Lines of a handle, for all but what only one may do.
pub(super) const MOST: usize = 16;

/// Lines to one gateway, opened for the same.
pub(super) struct Lines {
    gateways: Gateways,
    host: u64,
    reference: Vec<u8>,
    opening: Opening,
    most: usize,
    /// Of all of them, since a call may have another line than the one before it.
    doubts: Doubts,
    kept: Mutex<Kept>,
    /// Told of each line that comes back.
    back: Condvar,
    /// Of the process whose they are, and those of a child of it, once this is its copy.
    life: u32,
    heirs: OnceLock<Box<Lines>>,
}

struct Kept {
    idle: Vec<Line>,
    /// How many calls have one.
    taken: usize,
}

impl Kept {
    /// A line is idle again. What it was told of a round says of the others which parties of theirs have received elsewhere.
    fn put_back(&mut self, line: Line) {
        self.idle.push(line);
        if let Some(latest) = Counted::latest(self.idle.iter().map(|line| line.counted)) {
            self.idle.iter_mut().for_each(|line| line.counted.keep(latest));
        }
    }
}

/// The right to use a line.
struct Turn<'l>(&'l Lines);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
        self.0.back.notify_one();
    }
}

impl Lines {
    /// None yet, and `most` at once.
    pub(super) fn new(gateways: &Gateways, host: u64, reference: &[u8], opening: Opening, most: usize) -> Lines {
        let (gateways, reference) = (gateways.clone(), reference.to_vec());
        let kept = Mutex::new(Kept { idle: Vec::new(), taken: 0 });
        let (doubts, back) = (Doubts::default(), Condvar::new());
        fork::watch();
        Lines {
            gateways,
            host,
            reference,
            opening,
            most,
            doubts,
            kept,
            back,
            life: fork::life(),
            heirs: OnceLock::new(),
        }
    }

    /// Those of this process.
    fn own(&self) -> &Lines {
        if self.life == fork::life() {
            return self;
        }
        let new = || Box::new(Lines::new(&self.gateways, self.host, &self.reference, self.opening, self.most));
        fork::undivided(|| self.heirs.get_or_init(new)).own()
    }

    /// These, of which one is open.
    pub(super) fn with(self, line: Line) -> Lines {
        self.lock().idle.push(line);
        self
    }

    pub(super) const fn host(&self) -> u64 {
        self.host
    }

    pub(super) fn reference(&self) -> &[u8] {
        &self.reference
    }

    /// A line to the same, for a handle of its own.
    pub(super) fn another(&self, opening: Opening) -> Line {
        Line::new(&self.gateways, self.host, &self.reference, opening, Doubts::default())
    }

    /// One more of these.
    pub(super) fn one(&self) -> Line {
        self.one_for(self.opening)
    }

    /// Whether a parent of this process made them.
    pub(super) fn are_inherited(&self) -> bool {
        self.life != fork::life()
    }

    /// One of the same handle that is opened for something else.
    pub(super) fn one_for(&self, opening: Opening) -> Line {
        Line::new(&self.gateways, self.host, &self.reference, opening, self.doubts.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A list is whole whatever its user was doing.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, until: Time) -> Result<Turn<'_>, Error> {
        let mut kept = self.lock();
        while kept.taken >= self.most {
            let left = until.since(now());
            if left.0 == 0 {
                return Err(Error::Busy(self.host));
            }
            let waited = self.back.wait_timeout(kept, Duration::from_nanos(left.0));
            kept = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        kept.taken += 1;
        Ok(Turn(self))
    }

    /// Does something with a line of which nobody else knows meanwhile, if possible with one through which no party came to
    /// a barrier whose number is still to be received: that is for [who receives](Self::by_one_for_a_party).
    pub(super) fn by_one<T>(&self, term: Term, act: impl FnOnce(&mut Line) -> Result<T, Error>) -> Result<T, Error> {
        self.by_one_of(false, term, act)
    }

    /// As [`by_one`](Self::by_one), but if possible with a line through which a party came: its gateway waits for the party
    /// to receive through the same.
    pub(super) fn by_one_for_a_party<T>(
        &self,
        term: Term,
        act: impl FnOnce(&mut Line) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.by_one_of(true, term, act)
    }

    fn by_one_of<T>(
        &self,
        is_of_a_party: bool,
        term: Term,
        act: impl FnOnce(&mut Line) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let lines = self.own();
        let _turn = lines.turn(term.limit())?;
        let mut line = lines.idle(is_of_a_party).unwrap_or_else(|| lines.one());
        let done = act(&mut line);
        lines.lock().put_back(line);
        done
    }

    /// The idle line that a call with a turn takes; `None` if it makes one.
    fn idle(&self, is_of_a_party: bool) -> Option<Line> {
        let mut kept = self.lock();
        let best = kept.idle.iter().rposition(|line| line.counted.are_there() == is_of_a_party);
        if best.is_none() && !is_of_a_party && kept.idle.len() + kept.taken <= self.most {
            return None;
        }
        best.map(|at| kept.idle.remove(at)).or_else(|| kept.idle.pop())
    }

    /// Asks, and waits for the answer.
    pub(super) fn call<T>(
        &self,
        request: &Request<'_>,
        term: Term,
        read: impl FnOnce(Answer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.by_one(term, |line| line.call(request, term, read))
    }
}
