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
/// A future that is wrong costs loads, not correctness. A group that is submitted again after it failed has a new number,
/// so to a future that was listed beforehand all groups behind it seem one later than they are: it takes the last use of
/// an input for over too soon. What a usage map counts as still to come stays nevertheless, until its slot is needed.
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
