//! A mebibyte of everybody, added up.
//!
//! The replies stay with their writers until they are read.

use std::time::Instant;

use umbra_core::chain::{Call, Caps, Phase, Plan, Tag, Verdict, Work};
use umbra_tests::bench::Report;
use umbra_tests::call::add;

use crate::bulk::BYTES;
use crate::mpi::Peers;
use crate::procs::{Members, PATIENCE};
use crate::{call, median};

/// The function, in both roles: it replies with its numbers, and adds those of others to them.
pub(crate) const VECTOR: &str = "vector";
const ROUNDS: usize = 5;

/// The numbers of every member.
pub(crate) fn numbers() -> Vec<u8> {
    (0..BYTES as u64 / 8).flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn vector(work: &mut Work<'_>, numbers: &[u8]) -> Verdict {
    match work.phase {
        Phase::Wait(answer) => add(work.reply.data_mut(), answer.data),
        _ if work.reply.set_data(numbers).is_ok() => Verdict::Done,
        _ => Verdict::Fault(2),
    }
}

/// Microseconds of one call.
fn once(members: &mut Members) -> f64 {
    let caps = Caps { header: 0, data: BYTES as u32 };
    let start = Instant::now();
    let (func, callback) = (Tag::of(VECTOR), Tag::of(VECTOR));
    let wanted = Call { func, callback, plan: Plan::Auto, caps, ..call(&members.all) };
    let handle = members.first.start(&wanted).expect("room for one call");
    let reply = members.first.wait(handle, PATIENCE).expect("a good answer");
    let took = start.elapsed().as_nanos() as f64 / 1000.0;
    let last = (BYTES as u64 / 8 - 1) * members.all.len() as u64;
    assert_eq!((reply.data.len(), reply.data.last_chunk()), (BYTES, Some(&last.to_le_bytes())));
    took
}

pub(crate) fn rows(report: &mut Report, peers: &Peers) {
    for count in [8, 16] {
        let mut beside = peers.beside(report, &format!("replies {count} ids 1 MiB")).reducing(BYTES);
        let ours = || {
            let mut members = Members::start(count);
            median((0..1000 / count).map(|_| once(&mut members)).collect())
        };
        beside.rounds(report, ROUNDS, (count, 8), ours, |theirs| theirs.p50);
        beside.rows(report, "", None);
    }
}
