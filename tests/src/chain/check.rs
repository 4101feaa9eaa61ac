//! Short words for what tests expect of a call.

use umbra_core::chain::{Code, Mode, Record, Stage, Tallies};

use super::{End, Planned, sum_over};

/// The account and the records of a call that failed.
///
/// # Panics
/// If it did not.
pub fn failed(end: &End) -> (Tallies, &[Record]) {
    match end {
        End::Failed { tallies, records, .. } => (*tallies, records),
        End::Done { .. } => panic!("a call that should have failed is done"),
    }
}

/// Who failed, at which stage, and why.
pub fn origins(records: &[Record]) -> Vec<(u32, Stage, Code)> {
    records.iter().map(|record| (record.origin.0, record.stage, record.code)).collect()
}

/// An account.
pub const fn tallies(ok: u32, failed: u32, unreached: u32, unknown: u32) -> Tallies {
    Tallies { ok, failed, unreached, unknown }
}

/// A sum over 15 members in a binary tree, collecting failures or not.
pub fn fifteen(collect: bool) -> Planned {
    let mut planned = sum_over(0..15);
    planned.call.mode.set(Mode::COLLECT, collect);
    planned
}
