//! `umbra_group_*`: the look-ups of the endpoint cache.

use std::ffi::c_int;

use umbra_core::endpoints::{Endpoint as Found, Live, LookupError, Table};
use umbra_core::error::Status;
use umbra_core::peer::{HostInGroup, PeerKind, Rank, Sp, SpInGroup};

use crate::call::{enter, numbers, store, store_list, store_sized, takes};
use crate::object::with_group;
use crate::status::{Code, Failure};

/// Who a rank is and where: `struct umbra_endpoint`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Bytes of the caller's version of this structure.
    size: usize,
    world_rank: u32,
    service_process: u32,
    host: u32,
    shadows: u32,
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Failure {
        let code = match error {
            LookupError::UnknownGroup => Code::Status(Status::UnknownGroup),
            LookupError::StaleGeneration => Code::Status(Status::StaleGeneration),
            LookupError::RankOutOfRange { .. } => Code::Status(Status::RankOutOfRange),
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

/// Asks the table of a group; the answer is of one generation or an error.
fn ask<R>(group: u64, ask: impl Fn(&Table<Live<'_>>) -> Result<R, LookupError>) -> Result<R, Failure> {
    with_group(group, |g| {
        g.session.ask(|s| {
            g.group.look_up(s, |endpoints, handle| {
                Ok(endpoints.reader().ok_or(LookupError::UnknownGroup)?.read(handle, &ask)??)
            })
        })
    })
}

/// The hot look-up: the process of a rank and its first shadow service process.
///
/// # Safety
/// The outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_group_lookup(
    group: u64,
    rank: u32,
    world_rank: *mut u32,
    service_process: *mut u32,
) -> c_int {
    enter(|| {
        takes(world_rank)?;
        takes(service_process)?;
        let found = with_group(group, |g| {
            g.session.ask(|s| g.group.look_up(s, |endpoints, handle| Ok(endpoints.lookup(handle, Rank(rank))?)))
        })?;
        let PeerKind::Rank(process) = found.peer.kind() else { return Err(Status::Malformed.into()) };
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(world_rank, process.0) }?;
        // SAFETY: as above.
        unsafe { store(service_process, found.sp.0) }
    })
}

/// Ranks that [`umbra_group_lookup_all`] asks for at a time.
const AT_ONCE: usize = 64;

/// The hot look-up for many ranks at once: two lists as long as that of the ranks. After an error nothing in them counts.
///
/// # Safety
/// `ranks` points to `count` numbers, and the outputs are valid for writing as many; no two of the three overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_group_lookup_all(
    group: u64,
    ranks: *const u32,
    count: usize,
    world_ranks: *mut u32,
    service_processes: *mut u32,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `ranks`.
        let ranks = unsafe { numbers(ranks, count) }?;
        if !ranks.is_empty() {
            takes(world_ranks)?;
            takes(service_processes)?;
        }
        with_group(group, |g| {
            g.session.ask(|s| {
                g.group.look_up(s, |endpoints, handle| {
                    let mut done = 0;
                    for some in ranks.chunks(AT_ONCE) {
                        let (mut asked, mut found) = ([Rank(0); AT_ONCE], [Found::default(); AT_ONCE]);
                        asked.iter_mut().zip(some).for_each(|(to, &rank)| *to = Rank(rank));
                        // All pieces are of one generation: the handle names it.
                        let count = endpoints.lookup_all(handle, asked.get(..some.len()).unwrap_or(&[]), &mut found)?;
                        for found in found.iter().take(count) {
                            let PeerKind::Rank(process) = found.peer.kind() else {
                                return Err(Status::Malformed.into());
                            };
                            // SAFETY: the caller's promise about the outputs; `done` is below `count`.
                            unsafe { store(world_ranks.wrapping_add(done), process.0) }?;
                            // SAFETY: as above.
                            unsafe { store(service_processes.wrapping_add(done), found.sp.0) }?;
                            done += 1;
                        }
                    }
                    Ok(())
                })
            })
        })
    })
}

/// Everything about a rank.
///
/// # Safety
/// `endpoint` is as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_group_endpoint(group: u64, rank: u32, endpoint: *mut Endpoint) -> c_int {
    enter(|| {
        let entry = ask(group, |table| table.entry(Rank(rank)))?;
        let first = entry.shadows.first().ok_or(Code::System)?;
        let value = Endpoint {
            size: 0,
            world_rank: entry.world_rank.0,
            service_process: first.0,
            host: entry.host.0,
            shadows: entry.shadows.len() as u32,
        };
        // SAFETY: the caller's promise; `Endpoint` is plain data.
        unsafe { store_sized(endpoint, &value, size_of::<Endpoint>()) }
    })
}

/// Functions with one number as answer.
macro_rules! numbers {
    ($($(#[doc = $doc:literal])* $name:ident($($argument:ident),*) = |$table:ident| $answer:expr;)*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// # Safety
            /// The output is valid for writing.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(group: u64, $($argument: u32,)* answer: *mut u32) -> c_int {
                enter(|| {
                    let number: u32 = ask(group, |$table| $answer)?;
                    // SAFETY: the caller's promise about the output.
                    unsafe { store(answer, number) }
                })
            }
        )*
    };
}

numbers! {
    /// Ranks in the group.
    umbra_group_size() = |t| Ok(t.size());
    /// The generation of the group that the handle names.
    umbra_group_generation() = |t| Ok(t.generation().0);
    /// The n-th shadow service process of a rank.
    umbra_group_shadow(rank, nth) = |t| t.shadow(Rank(rank), nth).map(|sp| sp.0);
    /// The host of a rank, job-wide.
    umbra_group_host_of(rank) = |t| t.host_of(Rank(rank)).map(|host| host.0);
    /// The number of a rank among the ranks of its host.
    umbra_group_index_on_host(rank) = |t| t.index_on_host(Rank(rank));
    /// The number in the group of a service process.
    umbra_group_index_of_service_process(service_process) = |t| t.index_of(Sp(service_process)).map(|sp| sp.0);
    /// The job-wide number of the n-th service process of the group.
    umbra_group_service_process(nth) = |t| t.service_process(SpInGroup(nth)).map(|sp| sp.0);
    /// The number of a rank among the ranks of the n-th service process of the group.
    umbra_group_index_within_service_process(nth, rank) = |t| t.index_within(SpInGroup(nth), Rank(rank));
    /// 1 if two ranks are on one host, else 0.
    umbra_group_same_host(rank, other) = |t| t.same_host(Rank(rank), Rank(other)).map(u32::from);
    /// 1 if two ranks have the same first service process, else 0.
    umbra_group_same_service_process(rank, other) = |t| t.same_service_process(Rank(rank), Rank(other)).map(u32::from);
}

/// Functions with a list as answer.
macro_rules! lists {
    ($($(#[doc = $doc:literal])* $name:ident($($argument:ident),*) = |$table:ident| $answer:expr;)*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// # Safety
            /// `buffer` has room for `capacity` numbers; `count` is valid for writing.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                group: u64,
                $($argument: u32,)*
                buffer: *mut u32,
                capacity: usize,
                count: *mut usize,
            ) -> c_int {
                enter(|| {
                    let list: Vec<u32> = ask(group, |$table| $answer)?;
                    // SAFETY: the caller's promise about the outputs.
                    unsafe { store_list(&list, buffer, capacity, count) }
                })
            }
        )*
    };
}

lists! {
    /// The shadow service processes of a rank, in order.
    umbra_group_shadows(rank) = |t| Ok(t.shadows(Rank(rank))?.iter().map(|sp| sp.0).collect());
    /// All service processes of the group, ascending.
    umbra_group_service_processes() = |t| Ok(t.involved().map(|sp| sp.0).collect());
    /// All hosts of the group, ascending.
    umbra_group_hosts() = |t| Ok(t.hosts().map(|host| host.0).collect());
    /// The service processes of the n-th host of the group that are in the group, ascending.
    umbra_group_service_processes_on(nth_host) =
        |t| Ok(t.involved_on(HostInGroup(nth_host))?.map(|sp| sp.0).collect());
    /// The ranks on the n-th host of the group, ascending.
    umbra_group_ranks_on(nth_host) = |t| Ok(t.ranks_on(HostInGroup(nth_host))?.map(|rank| rank.0).collect());
    /// The ranks of the n-th service process of the group, ascending.
    umbra_group_ranks_of(nth_service_process) =
        |t| Ok(t.ranks_of(SpInGroup(nth_service_process))?.map(|rank| rank.0).collect());
}
