//! Short words for what tests expect of a call.

use umbra_core::chain::{Code, Mode, Node, Record, Stage, Tallies};
use umbra_core::time::Lapse;

use super::{End, Planned, World, sum_over};

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

/// Makes a call of fifteen members once for each bit of so many bytes of the request to member 4, which is turned over: it ends in
/// time, with a tally of all, no function runs twice, and nothing of it stays. `failed` sees each that fails; how many these are.
///
/// # Panics
/// If a call does not end so.
pub fn each_bit(mut planned: Planned, bytes: usize, mut failed: impl FnMut(usize, &[Record])) -> usize {
    planned.call.budget = Lapse::from_millis(20);
    let mut count = 0;
    for bit in 0..8 * bytes {
        let mut world = World::new(15, 1);
        world.flip = Some((Node(4), bit));
        let at = world.start(&planned).expect("a call that is made");
        // The time that a damaged request allows may be more than an hour.
        world.run(Lapse::from_secs(2 << 32));
        let (end, ended) = world.made[at].end.clone().expect("a call that has ended");
        assert!(ended.since(world.made[at].at) <= planned.call.budget, "bit {bit}");
        assert!(world.began.values().all(|&count| count == 1), "bit {bit}");
        for node in (0..15).map(Node) {
            assert!(world.at(node).is_empty(), "bit {bit}: member {node} still has a call");
        }
        if let End::Failed { tallies, records, .. } = end {
            assert_eq!(tallies.total(), 15, "bit {bit}");
            count += 1;
            failed(bit, &records);
        }
    }
    count
}
