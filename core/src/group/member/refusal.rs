//! Why a rank cannot join or leave a group, said before anything is sent.

/// Why a group cannot be joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum JoinError {
    /// The rank is a member; leave first.
    AlreadyJoined,
    /// The rank is not among the group's members.
    NotAMember,
    /// The world group is joined by connecting.
    World,
    /// No record or no memory is free; leaving other groups makes a retry worth while.
    Full,
}

impl core::fmt::Display for JoinError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            JoinError::AlreadyJoined => "rank is a member of this group: leave it first",
            JoinError::NotAMember => "rank is not among the members of the group",
            JoinError::World => "world group is joined by connecting",
            JoinError::Full => "no room for another group: leave one first or lend more",
        })
    }
}
impl core::error::Error for JoinError {}

/// Why a group cannot be left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LeaveError {
    /// The rank has never joined it, or its generation has ended.
    UnknownGroup,
    /// The rank has left it already.
    AlreadyRevoked,
}

impl core::fmt::Display for LeaveError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            LeaveError::UnknownGroup => "rank is not a member of this group",
            LeaveError::AlreadyRevoked => "rank has already left this generation",
        })
    }
}
impl core::error::Error for LeaveError {}
