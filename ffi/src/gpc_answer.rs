//! What `umbra_gpc_*` stores of an answer: who did what, bytes, and who failed.

use std::ffi::c_void;
use std::mem::offset_of;

use umbra::call::{Failure as CallFailure, Reply};
use umbra_core::chain::{Node, Tallies};

use crate::call::{sized, store_bytes, store_sized, takes, takes_bytes};
use crate::status::{Code, Failure};

/// `struct umbra_gpc_failure`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Record {
    member: u32,
    stage: u32,
    code: u32,
    depth: u32,
    detail: u32,
    members: u32,
}

/// `struct umbra_gpc_answer`.
#[repr(C)]
pub struct Answer {
    pub(crate) size: usize,
    pub(crate) ok: u32,
    pub(crate) failed: u32,
    pub(crate) unreached: u32,
    pub(crate) unknown: u32,
    pub(crate) header: *mut c_void,
    pub(crate) header_capacity: usize,
    pub(crate) header_length: usize,
    pub(crate) data: *mut c_void,
    pub(crate) data_capacity: usize,
    pub(crate) data_length: usize,
    pub(crate) failures: *mut Record,
    pub(crate) failure_capacity: usize,
    pub(crate) failure_count: usize,
    pub(crate) unreached_members: *mut u32,
    pub(crate) unreached_capacity: usize,
    pub(crate) unreached_count: usize,
}

/// Bytes of its first version.
const LEAST: usize = offset_of!(Answer, unreached_members);

/// Whether an answer can be stored there, as far as addresses tell; nobody asks for one that is null.
///
/// # Safety
/// As for [`umbra_gpc_wait`](crate::gpc::umbra_gpc_wait).
pub(crate) unsafe fn takes_answer(answer: *const Answer) -> Result<(), Failure> {
    if answer.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise; zeros are a valid structure.
    let Answer { header, header_capacity, data, data_capacity, failures, unreached_members, .. } =
        unsafe { sized(answer, LEAST) }?;
    takes_bytes(header_capacity, header, header_capacity)?;
    takes_bytes(data_capacity, data, data_capacity)?;
    if !failures.is_null() {
        takes(failures)?;
    }
    if unreached_members.is_null() { Ok(()) } else { takes(unreached_members) }
}

/// Stores an answer; if something does not fit, only how long everything is.
///
/// # Safety
/// As for [`umbra_gpc_wait`](crate::gpc::umbra_gpc_wait), and `answer` is not null.
pub(crate) unsafe fn tell(result: Result<&Reply, &CallFailure>, answer: *mut Answer) -> Result<(), Failure> {
    // SAFETY: the caller's promise; zeros are a valid structure.
    let mut told = unsafe { sized(answer.cast_const(), LEAST) }?;
    let (header, data, failures): (&[u8], &[u8], Vec<Record>) = match result {
        Ok(reply) => (&reply.header, &reply.data, Vec::new()),
        Err(failure) => (&[], &[], failure.records.iter().map(record).collect()),
    };
    let unreached = result.map_or_else(|failure| &failure.unreached, |reply| &reply.skipped);
    let unreached: Vec<u32> = unreached.iter().map(number).collect();
    let tallies = match result {
        Ok(reply) => Tallies { ok: reply.members, unreached: reply.skipped.len() as u32, ..Default::default() },
        Err(failure) => failure.tallies,
    };
    (told.ok, told.failed, told.unreached, told.unknown) =
        (tallies.ok, tallies.failed, tallies.unreached, tallies.unknown);
    (told.header_length, told.data_length) = (header.len(), data.len());
    // Who failed first is told even to who has room for one only.
    let kept = failures.len().min(if told.failures.is_null() { 0 } else { told.failure_capacity });
    let named = unreached.len().min(if told.unreached_members.is_null() { 0 } else { told.unreached_capacity });
    (told.failure_count, told.unreached_count) = (failures.len(), unreached.len());
    let fits = takes_bytes(header.len(), told.header, told.header_capacity)
        .and_then(|()| takes_bytes(data.len(), told.data, told.data_capacity));
    if kept > 0 {
        takes(told.failures)?;
    }
    if named > 0 {
        takes(told.unreached_members)?;
    }
    if !matches!(&fits, Err(failure) if failure.code != Code::TooSmall) {
        // SAFETY: the caller's promise.
        unsafe { store_sized(answer, &told, LEAST) }?;
    }
    fits?;
    // SAFETY: the caller's promise about the buffer, of which the header needs no more than is told.
    unsafe { store_bytes(header, told.header, told.header_capacity) }?;
    // SAFETY: as above, about the data.
    unsafe { store_bytes(data, told.data, told.data_capacity) }?;
    if kept > 0 {
        // SAFETY: aligned, and there is room for `failure_capacity >= kept` records by the caller's promise; ours do not
        // overlap them.
        unsafe { std::ptr::copy_nonoverlapping(failures.as_ptr(), told.failures, kept) };
    }
    if named > 0 {
        // SAFETY: as above, of `unreached_capacity >= named` numbers.
        unsafe { std::ptr::copy_nonoverlapping(unreached.as_ptr(), told.unreached_members, named) };
    }
    Ok(())
}

const fn number(member: &Node) -> u32 {
    member.0
}

fn record(record: &umbra_core::chain::Record) -> Record {
    Record {
        member: record.origin.0,
        stage: u32::from(record.stage as u8),
        code: u32::from(record.code as u8),
        depth: u32::from(record.depth),
        detail: record.aux,
        members: record.count,
    }
}
