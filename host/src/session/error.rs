//! Why a rank did not get what it asked for.

use umbra_core::endpoints::{ArenaError, DescriptorError};
use umbra_core::error::Status;
use umbra_core::group::member::{JoinError, LeaveError};
use umbra_core::group::{Cause, Field};
use umbra_core::peer::{Peer, Sp};
use umbra_core::placement::PlacementError;

use crate::link::{Close, SendError};
use crate::quantity::counted;
use crate::sys::heap::NoMemory;
use crate::sys::process::ProcessError;
use crate::sys::segment::SegmentError;
use crate::verbs::VerbsError;

/// Why a rank did not get what it asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The job has no place for such a rank.
    #[error("job has no such rank or host")]
    NoSuchSeat,
    /// The agent houses fewer members of chained calls than this host has ranks.
    #[error(
        "the agent houses {}, and this is local rank {local}: start all agents with a larger --members",
        counted(*members, "member of calls", "members of calls")
    )]
    NoMember {
        /// Members.
        members: u32,
        /// This rank's number on its host.
        local: u32,
    },
    /// The agent has no members of chained calls for this rank.
    #[error("service process {sp} has no members of calls for this rank: {why}")]
    NoMembers {
        /// Which.
        sp: Sp,
        /// The kind of failure.
        status: Status,
        /// Why, in its words.
        why: String,
    },
    /// The job's numbers do not describe a job.
    #[error("configuration: {0}")]
    Placement(PlacementError),
    /// The tables that come over the link have no room.
    #[error("tables of groups: {0}")]
    Tables(ArenaError),
    /// A service process cannot be reached.
    #[error("service process {sp} cannot be reached: {why}")]
    Unreachable {
        /// Which.
        sp: Sp,
        /// Why.
        why: Close,
    },
    /// The service process was lost.
    #[error("service process {sp} was lost: {}", Status::PeerFailed)]
    ServiceLost {
        /// Which.
        sp: Sp,
    },
    /// The service process refuses the rank or its group.
    #[error("refused: {status}{}", hint(*status, *word))]
    Refused {
        /// Why.
        status: Status,
        /// For `WrongServiceProcess` the right one, for `Conflict` the number of the field.
        word: u32,
    },
    /// The group ended before it was full, or is over.
    #[error("{what}: {cause}")]
    Ended {
        /// What was waited for.
        what: &'static str,
        /// Why it ended, and who is missing.
        cause: Cause,
    },
    /// The service process answered nothing that would end the wait.
    #[error("timed out waiting for {what}: no word from service process {sp}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// From whom.
        sp: Sp,
    },
    /// The group has become full and ended at once.
    #[error("group ended as soon as it was full")]
    NotReady,
    /// There is no seat for this rank where chained calls meet.
    #[error("chained calls: {0}")]
    Calls(#[from] crate::call::JoinError),
    /// The session has ended.
    #[error("session has ended")]
    Over,
    /// The session is that of the process that this one was forked off from.
    #[error("session belongs to the process that forked this one off: join in this process")]
    Forked,
    /// The members make no group.
    #[error("members make no group: {0}")]
    Descriptor(DescriptorError),
    /// The group cannot be joined.
    #[error(transparent)]
    Join(JoinError),
    /// The group cannot be left.
    #[error(transparent)]
    Leave(LeaveError),
    /// A message was not queued.
    #[error("message to a service process: {0}")]
    Send(SendError),
    /// Memory was not exported or not taken back.
    #[error("memory: {0}")]
    Memory(Status),
    /// There is no memory for a copy of what is read.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// A service process cannot get at exported memory.
    #[error("service process {sp} cannot reach the memory: {why}")]
    OutOfReach {
        /// Which.
        sp: Sp,
        /// Why, and what to do about it, in its words.
        why: String,
    },
    /// Another rank's memory was not read.
    #[error("read of the memory of {owner}: {status}{}", missing.map(|sp| format!(" (service process {sp})")).unwrap_or_default())]
    Read {
        /// Whose memory.
        owner: Peer,
        /// Why.
        status: Status,
        /// The service process that did not answer, if that is why.
        missing: Option<Sp>,
    },
    /// Memory can be shared over Unix sockets only, as there is no RDMA.
    #[error(
        "no Unix socket to service process {sp}: memory can only be exported to one on the same machine (start its agent here, \
         with --sockets; `umbra run --start` starts those of a DPU), or over RDMA, but {why}"
    )]
    CannotShare {
        /// Which service process.
        sp: Sp,
        /// Why it cannot be exported over RDMA.
        why: VerbsError,
    },
    /// Memory cannot be registered with an RDMA device, or not be taken back from it.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// Shared memory cannot be had.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// This process cannot be named to others.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was wanted.
        what: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

fn hint(status: Status, word: u32) -> String {
    match status {
        Status::WrongServiceProcess => format!(" (connect to service process {word})"),
        Status::Conflict => Field::from_code(word).map_or_else(String::new, |field| format!(" ({field})")),
        _ => String::new(),
    }
}

impl SessionError {
    /// The kind of failure, as it travels.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            SessionError::Refused { status, .. }
            | SessionError::NoMembers { status, .. }
            | SessionError::Memory(status)
            | SessionError::Read { status, .. } => *status,
            SessionError::Ended { cause, .. } => cause.status,
            SessionError::OutOfReach { .. } => Status::Unreachable,
            SessionError::Timeout { .. } => Status::Timeout,
            SessionError::Unreachable { why: Close::Unauthenticated, .. } => Status::Unauthenticated,
            SessionError::Unreachable { .. } | SessionError::ServiceLost { .. } => Status::PeerFailed,
            SessionError::Leave(LeaveError::AlreadyRevoked) => Status::AlreadyRevoked,
            SessionError::Leave(_) => Status::UnknownGroup,
            SessionError::Join(JoinError::Full) | SessionError::NoMemory(_) => Status::Full,
            _ => Status::Malformed,
        }
    }

    /// Whose failure it is, if it is known.
    #[must_use]
    pub fn culprit(&self) -> Option<Peer> {
        match self {
            SessionError::Unreachable { sp, .. }
            | SessionError::ServiceLost { sp }
            | SessionError::Timeout { sp, .. } => Peer::service(*sp),
            SessionError::Ended { cause, .. } => cause.sp.and_then(Peer::service),
            SessionError::Read { missing, .. } => missing.and_then(Peer::service),
            _ => None,
        }
    }

    /// The same, but a time that ran out is this service process' if it is known.
    pub(super) fn late(self, who: Option<Sp>) -> SessionError {
        match self {
            SessionError::Timeout { what, sp } => SessionError::Timeout { what, sp: who.unwrap_or(sp) },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_whose_description_differs_is_told_in_what() {
        let said = |word| SessionError::Refused { status: Status::Conflict, word }.to_string();
        assert!(said(Field::LocalCount as u32).ends_with(" (number of ranks on the host)"), "{}", said(2));
        assert_eq!(said(99), format!("refused: {}", Status::Conflict), "of a later version");
    }
}
