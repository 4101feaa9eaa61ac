//! The two halves of an exchange: within a rank, and between ranks.
//!
//! They may be done one after the other.

/// Which channels a task is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All.
    Any,
    /// Those whose two blocks are on this rank.
    Local,
    /// The others.
    Nonlocal,
}

impl Scope {
    pub(super) const fn halves(self) -> &'static [usize] {
        match self {
            Scope::Any => &[LOCAL, NONLOCAL],
            Scope::Local => &[LOCAL],
            Scope::Nonlocal => &[NONLOCAL],
        }
    }
}

pub(super) const LOCAL: usize = 0;
pub(super) const NONLOCAL: usize = 1;

/// How far a half of the open exchange is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Half {
    Fresh,
    Sent,
    Received,
    Set,
}
