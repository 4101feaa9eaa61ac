//! Every look-up of the endpoint cache, by name.
//!
//! | question | look-up |
//! |---|---|
//! | who is rank r (L1, L16) | [`entry`](Table::entry), [`endpoint`](Table::endpoint), [`host_of`](Table::host_of) |
//! | n-th *shadow* of rank r (L2) | [`shadow`](Table::shadow), [`shadows`](Table::shadows) |
//! | service processes of r's host *involved in the group* (L13) | [`involved_beside`](Table::involved_beside) |
//! | … of the n-th host, of a host (L11, L12, L23) | [`involved_on`](Table::involved_on), [`nth_involved_on`](Table::nth_involved_on) |
//! | *all* service processes on a host | [`Placement::service_processes_of`](crate::placement::Placement::service_processes_of) |
//! | job-wide number ↔ number in the group (L8, L9) | [`index_of`](Table::index_of), [`service_process`](Table::service_process) |
//! | number on its DPU (L7), among its host's (L10) | [`lid_of`](Table::lid_of), [`index_among_host`](Table::index_among_host) |
//! | hosts (L14, L15) | [`hosts`](Table::hosts), [`host_index`](Table::host_index) |
//! | ranks of a host (L17, L18, L21) | [`ranks_on`](Table::ranks_on), [`rank_count_on`](Table::rank_count_on), [`index_on_host`](Table::index_on_host) |
//! | ranks of a service process (L19, L20, L22) | [`ranks_of`](Table::ranks_of), [`rank_count_of`](Table::rank_count_of), [`index_within`](Table::index_within) |
//! | two ranks (L24) | [`same_host`](Table::same_host), [`same_service_process`](Table::same_service_process) |
//!
//! A rank belongs to *every* one of its shadows, so with several shadows the ranks of all service processes together
//! are more than the group; the ranks of all hosts together are always exactly the group.
//!
//! *Cost*: O(1) or O(answer), except that explicit tables search, in O(log), for the index of a service process or
//! host when those involved are not consecutive, and for the index of a rank in a row.

use core::fmt;

use super::table::{Form, Table};
use super::words::Words;
use crate::entry::{Entry, Shadows};
use crate::peer::{Host, HostInGroup, Peer, Rank, Sp, SpInGroup, SpLid, SpOnHostInGroup, WorldRank};

/// The answer of the hot look-up: a process and its first shadow service process.
///
/// The default, rank 0 and service process 0, answers nothing: it fills lists before [`Reader::lookup_all`] does.
///
/// [`Reader::lookup_all`]: super::Reader::lookup_all
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Endpoint {
    /// The application process.
    pub peer: Peer,
    /// Its first shadow service process.
    pub sp: Sp,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LookupError {
    /// No group has this handle or key here.
    UnknownGroup,
    /// The group was retired, or its slot holds another generation: ask for the current handle.
    StaleGeneration,
    /// The rank is not below the group's size.
    RankOutOfRange {
        /// The rank.
        rank: Rank,
        /// The group's size.
        size: u32,
    },
    /// The rank has fewer shadow service processes.
    SpIndexOutOfRange {
        /// The index asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// No rank of the group is shadowed by this service process.
    NotInvolved(Sp),
    /// The group involves fewer service processes.
    SpOutOfRange(SpInGroup),
    /// No rank of the group is on this host.
    HostNotInvolved(Host),
    /// The group involves fewer hosts.
    HostOutOfRange(HostInGroup),
    /// The rank is not on the host or not shadowed by the service process in question.
    NotAmong(Rank),
    /// The table contradicts itself: whoever maintains it wrote outside the rules.
    Damaged,
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupError::UnknownGroup => f.write_str("group is not known here: join it first"),
            LookupError::StaleGeneration => f.write_str("group was retired or re-created: ask for its current handle"),
            LookupError::RankOutOfRange { rank, size } => write!(f, "rank {rank} is not in a group of {size}"),
            LookupError::SpIndexOutOfRange { index, count } => {
                write!(f, "service process at index {index} was asked for, there are {count}")
            }
            LookupError::NotInvolved(sp) => write!(f, "service process {sp} shadows no rank of the group"),
            LookupError::SpOutOfRange(sp) => write!(f, "group involves no {sp}th service process"),
            LookupError::HostNotInvolved(host) => write!(f, "host {host} has no rank of the group"),
            LookupError::HostOutOfRange(host) => write!(f, "group involves no {host}th host"),
            LookupError::NotAmong(rank) => write!(f, "rank {rank} is not among the ranks asked about"),
            LookupError::Damaged => f.write_str("group table is damaged: obtain it again from its writer"),
        }
    }
}
impl core::error::Error for LookupError {}

/// Asks whichever form the table has.
macro_rules! ask {
    ($table:expr, $form:ident => $answer:expr) => {
        match &$table.form {
            Form::Explicit($form) => $answer,
            Form::Affine($form) => $answer,
        }
    };
}

impl<W: Words> Table<W> {
    fn checked(&self, rank: Rank) -> Result<Rank, LookupError> {
        let size = self.size();
        if rank.0 < size { Ok(rank) } else { Err(LookupError::RankOutOfRange { rank, size }) }
    }

    /// The process of a rank.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn world_rank(&self, rank: Rank) -> Result<WorldRank, LookupError> {
        let rank = self.checked(rank)?;
        match &self.form {
            Form::Explicit(arrays) => arrays.world_rank(rank).map(WorldRank),
            Form::Affine(affine) => Some(WorldRank(affine.world_rank(rank))),
        }
        .ok_or(LookupError::Damaged)
    }

    /// The process of a rank and its first shadow service process.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn endpoint(&self, rank: Rank) -> Result<Endpoint, LookupError> {
        let peer = Peer::rank(self.world_rank(rank)?).ok_or(LookupError::Damaged)?;
        Ok(Endpoint { peer, sp: self.shadow(rank, 0)? })
    }

    /// The shadow service process at index `nth` of a rank.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`] or [`LookupError::SpIndexOutOfRange`].
    pub fn shadow(&self, rank: Rank, nth: u32) -> Result<Sp, LookupError> {
        let rank = self.checked(rank)?;
        let no_more = || LookupError::SpIndexOutOfRange { index: nth, count: self.shadow_count(rank).unwrap_or(0) };
        ask!(self, form => form.shadow(rank, nth)).ok_or_else(no_more)
    }

    /// Number of shadow service processes of a rank.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn shadow_count(&self, rank: Rank) -> Result<u32, LookupError> {
        let rank = self.checked(rank)?;
        let most = self.most_shadows().min(super::MAX_SHADOWS as u32);
        Ok(ask!(self, form => (0..most).take_while(|&nth| form.shadow(rank, nth).is_some()).count() as u32))
    }

    /// The shadow service processes of a rank, in order.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn shadows(&self, rank: Rank) -> Result<Shadows, LookupError> {
        let rank = self.checked(rank)?;
        let most = self.most_shadows().min(super::MAX_SHADOWS as u32);
        Ok(ask!(self, form => (0..most).map_while(|nth| form.shadow(rank, nth)).collect()))
    }

    /// Everything about a rank.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn entry(&self, rank: Rank) -> Result<Entry, LookupError> {
        Ok(Entry { world_rank: self.world_rank(rank)?, host: self.host_of(rank)?, shadows: self.shadows(rank)? })
    }

    /// The host of a rank, by its index in the group.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn host_index_of(&self, rank: Rank) -> Result<HostInGroup, LookupError> {
        let rank = self.checked(rank)?;
        match &self.form {
            Form::Explicit(arrays) => arrays.host_of_rank(rank).ok_or(LookupError::Damaged),
            Form::Affine(affine) => Ok(HostInGroup(affine.place(rank).0)),
        }
    }

    /// The host of a rank.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn host_of(&self, rank: Rank) -> Result<Host, LookupError> {
        self.host(self.host_index_of(rank)?)
    }

    /// Number of service processes involved in the group: those that shadow one of its ranks.
    #[must_use]
    pub const fn involved_count(&self) -> u32 {
        self.head.sps
    }

    /// The service processes involved in the group, ascending.
    pub fn involved(&self) -> impl Iterator<Item = Sp> + '_ {
        (0..self.head.sps).map_while(|at| ask!(self, form => form.sp(SpInGroup(at))))
    }

    /// The involved service process with this number in the group.
    ///
    /// # Errors
    /// [`LookupError::SpOutOfRange`].
    pub fn service_process(&self, sp: SpInGroup) -> Result<Sp, LookupError> {
        ask!(self, form => form.sp(sp)).ok_or(LookupError::SpOutOfRange(sp))
    }

    /// The number in the group of an involved service process.
    ///
    /// # Errors
    /// [`LookupError::NotInvolved`].
    pub fn index_of(&self, sp: Sp) -> Result<SpInGroup, LookupError> {
        ask!(self, form => form.sp_index(sp)).ok_or(LookupError::NotInvolved(sp))
    }

    /// The number of a service process on its DPU, whether it is involved or not.
    #[must_use]
    pub const fn lid_of(&self, sp: Sp) -> SpLid {
        match sp.0.checked_rem(self.head.per_dpu) {
            Some(lid) => SpLid(lid),
            None => SpLid(0),
        }
    }

    /// The number of an involved service process among those of its host that are involved.
    ///
    /// # Errors
    /// [`LookupError::SpOutOfRange`].
    pub fn index_among_host(&self, sp: SpInGroup) -> Result<SpOnHostInGroup, LookupError> {
        ask!(self, form => form.sp_on_host(sp)).ok_or(LookupError::SpOutOfRange(sp))
    }

    /// The host of an involved service process, by its index in the group.
    ///
    /// # Errors
    /// [`LookupError::SpOutOfRange`].
    pub fn host_index_of_service_process(&self, sp: SpInGroup) -> Result<HostInGroup, LookupError> {
        ask!(self, form => form.sp_host(sp)).ok_or(LookupError::SpOutOfRange(sp))
    }

    /// Number of hosts with ranks of the group.
    #[must_use]
    pub const fn host_count(&self) -> u32 {
        self.head.hosts
    }

    /// The hosts with ranks of the group, in configuration order.
    pub fn hosts(&self) -> impl Iterator<Item = Host> + '_ {
        (0..self.head.hosts).map_while(|at| ask!(self, form => form.host_at(HostInGroup(at))))
    }

    /// The host with this index in the group.
    ///
    /// # Errors
    /// [`LookupError::HostOutOfRange`].
    pub fn host(&self, host: HostInGroup) -> Result<Host, LookupError> {
        ask!(self, form => form.host_at(host)).ok_or(LookupError::HostOutOfRange(host))
    }

    /// The index in the group of a host.
    ///
    /// # Errors
    /// [`LookupError::HostNotInvolved`].
    pub fn host_index(&self, host: Host) -> Result<HostInGroup, LookupError> {
        ask!(self, form => form.host_index(host)).ok_or(LookupError::HostNotInvolved(host))
    }

    /// Number of service processes of a host that are involved in the group.
    ///
    /// # Errors
    /// [`LookupError::HostOutOfRange`].
    pub fn involved_count_on(&self, host: HostInGroup) -> Result<u32, LookupError> {
        ask!(self, form => form.host_sp_count(host)).ok_or(LookupError::HostOutOfRange(host))
    }

    /// The service process with this number among those of a host that are involved in the group.
    ///
    /// # Errors
    /// [`LookupError::HostOutOfRange`] or [`LookupError::SpIndexOutOfRange`].
    pub fn nth_involved_on(&self, host: HostInGroup, nth: SpOnHostInGroup) -> Result<SpInGroup, LookupError> {
        let count = self.involved_count_on(host)?;
        let no_more = LookupError::SpIndexOutOfRange { index: nth.0, count };
        ask!(self, form => form.host_sp(host, nth)).ok_or(no_more)
    }

    /// The service processes of a host that are involved in the group, ascending.
    ///
    /// # Errors
    /// [`LookupError::HostOutOfRange`].
    pub fn involved_on(&self, host: HostInGroup) -> Result<impl Iterator<Item = Sp> + '_, LookupError> {
        let count = self.involved_count_on(host)?;
        let nth = move |at| ask!(self, form => form.sp(form.host_sp(host, SpOnHostInGroup(at))?));
        Ok((0..count).map_while(nth))
    }

    /// The service processes on the rank's host that are involved in the group, ascending: its own shadows and those
    /// of its neighbours.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn involved_beside(&self, rank: Rank) -> Result<impl Iterator<Item = Sp> + '_, LookupError> {
        self.involved_on(self.host_index_of(rank)?)
    }

    /// Number of ranks on a host, however many shadows they have.
    ///
    /// # Errors
    /// [`LookupError::HostOutOfRange`].
    pub fn rank_count_on(&self, host: HostInGroup) -> Result<u32, LookupError> {
        ask!(self, form => form.host_rank_count(host)).ok_or(LookupError::HostOutOfRange(host))
    }

    /// The ranks on a host, ascending.
    ///
    /// # Errors
    /// [`LookupError::HostOutOfRange`].
    pub fn ranks_on(&self, host: HostInGroup) -> Result<impl Iterator<Item = Rank> + '_, LookupError> {
        let count = self.rank_count_on(host)?;
        Ok((0..count).map_while(move |at| ask!(self, form => form.host_rank(host, at))))
    }

    /// The number of a rank among the ranks of the group on its host.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn index_on_host(&self, rank: Rank) -> Result<u32, LookupError> {
        let rank = self.checked(rank)?;
        match &self.form {
            Form::Explicit(arrays) => arrays.index_on_host(rank).ok_or(LookupError::Damaged),
            Form::Affine(affine) => Ok(affine.place(rank).1),
        }
    }

    /// Number of ranks that a service process shadows.
    ///
    /// # Errors
    /// [`LookupError::SpOutOfRange`].
    pub fn rank_count_of(&self, sp: SpInGroup) -> Result<u32, LookupError> {
        ask!(self, form => form.sp_rank_count(sp)).ok_or(LookupError::SpOutOfRange(sp))
    }

    /// The ranks that a service process shadows, ascending.
    ///
    /// # Errors
    /// [`LookupError::SpOutOfRange`].
    pub fn ranks_of(&self, sp: SpInGroup) -> Result<impl Iterator<Item = Rank> + '_, LookupError> {
        let count = self.rank_count_of(sp)?;
        Ok((0..count).map_while(move |at| ask!(self, form => form.sp_rank(sp, at))))
    }

    /// The number of a rank among those that a service process shadows.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`], [`LookupError::SpOutOfRange`], or [`LookupError::NotAmong`] if it does not
    /// shadow that rank.
    pub fn index_within(&self, sp: SpInGroup, rank: Rank) -> Result<u32, LookupError> {
        let rank = self.checked(rank)?;
        self.service_process(sp)?;
        ask!(self, form => form.index_at_sp(rank, sp)).ok_or(LookupError::NotAmong(rank))
    }

    /// Whether two ranks are on one host.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn same_host(&self, a: Rank, b: Rank) -> Result<bool, LookupError> {
        Ok(self.host_index_of(a)? == self.host_index_of(b)?)
    }

    /// Whether two ranks have the same first shadow service process.
    ///
    /// # Errors
    /// [`LookupError::RankOutOfRange`].
    pub fn same_service_process(&self, a: Rank, b: Rank) -> Result<bool, LookupError> {
        Ok(self.shadow(a, 0)? == self.shadow(b, 0)?)
    }
}
