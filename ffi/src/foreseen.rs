//! What a stencil cache that C holds is told when it is made: ids, a future.

use umbra::stencil::Known;
use umbra_core::cache::Line;
use umbra_core::stencil::{ById, ByNumber, Future, Grid, Names, Runs, Use};

use crate::cached::sparse;
use crate::status::{Code, Failure};

/// How inputs are named.
pub(crate) enum Named {
    /// By the numbers of their records.
    ByNumber(ByNumber),
    /// By ids of the caller's.
    ById(ById<Vec<Line>, Vec<u64>>),
}

impl Named {
    /// Inputs with these ids, in the order of their records.
    pub(crate) fn by(ids: &[u64]) -> Result<Named, Failure> {
        let many = |_| Failure::new(Code::Invalid, format!("{} ids: at most {} are possible", ids.len(), u32::MAX));
        let room = u32::try_from(ids.len()).map_err(many)?;
        let mut names = ById::new(sparse(room, ids.len())?);
        for (at, &id) in (0..).zip(ids) {
            if names.add(id)? != at {
                return Err(Failure::new(Code::Invalid, format!("id {id} is listed twice")));
            }
        }
        Ok(Named::ById(names))
    }
}

impl Names for Named {
    fn number(&self, data: u64) -> Option<u32> {
        match self {
            Named::ByNumber(names) => names.number(data),
            Named::ById(names) => names.number(data),
        }
    }

    fn data(&self, number: u32) -> Option<u64> {
        match self {
            Named::ByNumber(names) => names.data(number),
            Named::ById(names) => names.data(number),
        }
    }
}

/// What is known of uses to come, beside those of groups that wait in line.
pub(crate) enum Ahead {
    Unknown,
    Grid(Grid),
    Known(Known),
}

/// The present of a future of that kind.
#[derive(Clone, Copy)]
pub(crate) enum Present {
    Unknown,
    Grid(<Grid as Future>::Present),
    Known(<Known as Future>::Present),
}

impl Future for Ahead {
    type Present = Present;

    fn present(&self, group: u64) -> Present {
        match self {
            Ahead::Unknown => Present::Unknown,
            Ahead::Grid(future) => Present::Grid(future.present(group)),
            Ahead::Known(future) => Present::Known(future.present(group)),
        }
    }

    fn advance(&self, present: &mut Present, group: u64) {
        match (self, present) {
            (Ahead::Grid(future), Present::Grid(present)) => future.advance(present, group),
            (_, present) => *present = self.present(group),
        }
    }

    fn next_use(&self, data: u64, present: Present) -> Use {
        match (self, present) {
            (Ahead::Grid(future), Present::Grid(present)) => future.next_use(data, present),
            (Ahead::Known(future), Present::Known(present)) => future.next_use(data, present),
            // A present of another future than this one does not exist.
            _ => Use::Unknown,
        }
    }

    fn is_next(&self, data: u64, present: Present) -> bool {
        match (self, present) {
            (Ahead::Grid(future), Present::Grid(present)) => future.is_next(data, present),
            _ => false,
        }
    }

    fn next_runs(&self, present: Present) -> Runs {
        match (self, present) {
            (Ahead::Grid(future), Present::Grid(present)) => future.next_runs(present),
            _ => Runs::NONE,
        }
    }
}
