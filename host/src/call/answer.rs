//! What a member tells whoever uses it: answers to calls, and why there are none.

use umbra_core::chain::{Outcome, Record, Tallies};
use umbra_core::error::Stale;

use super::forked::Forked;

/// How a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What became of all members.
    pub tallies: Tallies,
    /// Who failed, where, and why.
    pub records: Vec<Record>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for record in &self.records {
            write!(f, "{record}; ")?;
        }
        self.tallies.fmt(f)
    }
}
impl std::error::Error for Failure {}

/// The answer to a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// Members, all of which ended well.
    pub members: u32,
    /// The header of the combined reply.
    pub header: Vec<u8>,
    /// Its data.
    pub data: Vec<u8>,
}

/// The answer to a call that has ended.
pub(super) fn answer(outcome: &Outcome<'_>) -> Result<Reply, Failure> {
    match outcome {
        Outcome::Done { members, header, data } => {
            Ok(Reply { members: *members, header: header.to_vec(), data: data.to_vec() })
        }
        Outcome::Failed(report) => Err(Failure { tallies: report.tallies, records: report.records().collect() }),
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
