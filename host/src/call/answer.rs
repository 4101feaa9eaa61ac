//! What a member tells whoever uses it: answers to calls, and why there are none.

use std::fmt;

use umbra_core::chain::{Node, Outcome, Record, Tallies};
use umbra_core::error::Stale;

use super::forked::Forked;

/// How a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What became of all members.
    pub tallies: Tallies,
    /// Who failed, where, and why.
    pub records: Vec<Record>,
    /// Who was certainly not reached, each after whoever is above it in the tree: at most as many as the tally counts, and fewer
    /// where it is not known [who the others are](umbra_core::chain::Report::unreached). Those who were left out are the last of them.
    pub unreached: Vec<Node>,
}

impl Failure {
    /// Who was not reached, in words; `None` if nobody is known by name.
    #[must_use]
    pub fn not_reached(&self) -> Option<impl fmt::Display + '_> {
        let among = if self.unreached.len() < self.tallies.unreached as usize { ", among others" } else { "" };
        (!self.unreached.is_empty()).then_some(Names { what: "not reached", among, known: &self.unreached })
    }
}

/// Members by name, and what is said of them.
struct Names<'a> {
    what: &'a str,
    among: &'a str,
    known: &'a [Node],
}

impl Names<'_> {
    /// Whoever wants more of them than these has the list.
    const MOST: usize = 16;
}

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, more) = self.known.split_at(self.known.len().min(Names::MOST));
        write!(f, "{}{}: ", self.what, self.among)?;
        for (at, node) in shown.iter().enumerate() {
            write!(f, "{}{node}", if at == 0 { "" } else { ", " })?;
        }
        if more.is_empty() { Ok(()) } else { write!(f, " and {} more", more.len()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for record in &self.records {
            write!(f, "{record}; ")?;
        }
        self.tallies.fmt(f)?;
        self.not_reached().map_or(Ok(()), |names| write!(f, "; {names}"))
    }
}
impl std::error::Error for Failure {}

/// The answer to a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// Members, all of which ended well.
    pub members: u32,
    /// Those beside them who were left out, as they were dead ([`Mode::SKIP_DEAD`](umbra_core::chain::Mode::SKIP_DEAD)).
    pub skipped: Vec<Node>,
    /// The header of the combined reply.
    pub header: Vec<u8>,
    /// Its data.
    pub data: Vec<u8>,
}

impl Reply {
    /// Who was left out, in words; `None` if nobody was.
    #[must_use]
    pub fn left_out(&self) -> Option<impl fmt::Display + '_> {
        let what = "left out, as dead";
        (!self.skipped.is_empty()).then_some(Names { what, among: "", known: &self.skipped })
    }
}

/// The answer to a call that has ended.
pub(super) fn answer(outcome: &Outcome<'_>) -> Result<Reply, Failure> {
    match outcome {
        Outcome::Done { members, skipped, header, data } => Ok(Reply {
            members: *members,
            skipped: skipped.clone().collect(),
            header: header.to_vec(),
            data: data.to_vec(),
        }),
        Outcome::Failed(report) => Err(Failure {
            tallies: report.tallies,
            records: report.records().collect(),
            unreached: report.unreached().collect(),
        }),
    }
}

/// Why a wait ended without an answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The call goes on; wait again, or give it up.
    #[error("the call has not ended yet: wait again, or cancel it")]
    NotYet,
    /// The call failed.
    #[error("{0}")]
    Failed(Failure),
    /// The handle's answer was taken already.
    #[error("the answer of this call was taken already")]
    Stale,
    /// The call is another process's.
    #[error(transparent)]
    Forked(#[from] Forked),
}

impl From<Stale> for WaitError {
    fn from(Stale: Stale) -> Self {
        WaitError::Stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_some_of_those_who_were_not_reached_and_says_how_many_more_are_known() {
        let failure = |known: u32, all: u32| {
            let tallies = Tallies { unreached: all, ..Tallies::default() };
            Failure { tallies, records: Vec::new(), unreached: (1..=known).map(Node).collect() }.to_string()
        };
        assert_eq!(failure(0, 2), "0 ok, 0 failed, 2 not reached, 0 unknown");
        assert_eq!(failure(2, 2), "0 ok, 0 failed, 2 not reached, 0 unknown; not reached: 1, 2");
        assert_eq!(failure(1, 9), "0 ok, 0 failed, 9 not reached, 0 unknown; not reached, among others: 1");
        assert!(failure(16, 16).ends_with("; not reached: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16"));
        assert!(
            failure(20, 21)
                .ends_with(", among others: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 4 more")
        );
    }
}
