//! What will be used when.

/// When an input is used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// By the group with this number.
    At(u64),
    /// Not any more: its slot is free.
    Never,
    /// That is not known.
    Unknown,
}

/// Knows the groups that are still to come, by their numbers: the first that is submitted has number 0.
///
/// A group that failed is expected to be submitted again, and has no number: so whatever comes behind it is numbered as it
/// was listed. Submitted again it has the number of the last one in line, or the one that it had if nobody is. What it had
/// loaded stays until then, as far as there are slots; if it never comes, the future is one group late, and content stays so
/// much longer.
///
/// A future that is wrong costs loads, not correctness. What a usage map counts as still to come stays although the future
/// takes the last use for over, until its slot is needed.
pub trait Future {
    /// What is computed once for many questions.
    type Present: Copy;

    /// The present, when this group is the last one that got its slots.
    fn present(&self, group: u64) -> Self::Present;

    /// Moves the present on to this group, which mostly follows the one before; the same as [`Future::present`] of it.
    #[inline]
    fn advance(&self, present: &mut Self::Present, group: u64) {
        *present = self.present(group);
    }

    /// When an input is used next, after the present.
    fn next_use(&self, data: u64, present: Self::Present) -> Use;

    /// Whether it is certain that the very next group uses an input. Most inputs of a neighbourhood are of the next one
    /// too, so this is asked before [`Future::next_use`] by a future that can tell it sooner.
    #[inline]
    fn is_next(&self, _data: u64, _present: Self::Present) -> bool {
        false
    }

    /// What it is certain that the very next group uses, or a part of it: best in the order in which groups name their
    /// members.
    #[inline]
    fn next_runs(&self, _present: Self::Present) -> Runs {
        Runs::NONE
    }
}

/// Runs of inputs with consecutive ids, as boxes in a grid consist of: rows of the same length in planes of the same shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs {
    start: u64,
    length: u64,
    /// How many more rows there are in this plane, and how much farther each begins than the one before.
    rows: u32,
    row: u64,
    /// The same of planes, from the last row of one to the first row of the next.
    planes: u32,
    plane: u64,
    rows_of_plane: u32,
}

impl Runs {
    /// None.
    pub const NONE: Self = Runs { start: 0, length: 0, rows: 0, row: 0, planes: 0, plane: 0, rows_of_plane: 0 };

    /// Planes of rows of so many inputs, the first of which is this one. A row begins as far from the one before as `strides`
    /// says first, and a plane as it says then; how many more rows than one there are in each plane, and how many more planes
    /// than one, is told by `more`. [`Runs::reaches`] goes through them row by row, and never back.
    #[must_use]
    #[inline]
    pub fn new(first: u64, length: u64, more: [u32; 2], strides: [u64; 2]) -> Self {
        let [rows, planes] = more;
        let [row, plane] = strides;
        let plane = plane.wrapping_sub(row.wrapping_mul(u64::from(rows)));
        Runs { start: first, length, rows, row, planes, plane, rows_of_plane: rows }
    }

    /// Whether an input is of the present run.
    #[inline]
    #[must_use]
    pub fn contains(&self, data: u64) -> bool {
        data.wrapping_sub(self.start) < self.length
    }

    /// Inputs of each run.
    #[inline]
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// How many inputs of the present run are not before this one of it.
    #[inline]
    pub(super) fn left(&self, data: u64) -> u64 {
        self.length - data.wrapping_sub(self.start)
    }

    /// Moves on to the run with this input, if it lies in a later one; whether it is of one.
    #[inline]
    pub fn reaches(&mut self, data: u64) -> bool {
        while data >= self.start.wrapping_add(self.length) {
            if self.rows > 0 {
                self.rows -= 1;
                self.start = self.start.wrapping_add(self.row);
            } else if self.planes > 0 {
                (self.planes, self.rows) = (self.planes - 1, self.rows_of_plane);
                self.start = self.start.wrapping_add(self.plane);
            } else {
                return false;
            }
        }
        data >= self.start
    }
}

/// Nothing is known but what was submitted: exact as far as groups wait, least recently used beyond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Future for Unknown {
    type Present = ();

    #[inline]
    fn present(&self, _: u64) {}

    #[inline]
    fn next_use(&self, _: u64, (): ()) -> Use {
        Use::Unknown
    }
}
