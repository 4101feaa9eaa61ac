//! Random scripts, again and again, whose process dies ever one operation later.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt::Debug;

use umbra_core::atomic::AtomicU64;

use crate::random::{Random, seeds};

/// More operations than any script has: one that goes on so long never ends.
const ENDLESS: u64 = 100_000;

/// Says where a test failed, and how that is repeated.
struct Told<'a, S: Debug> {
    seed: u64,
    script: &'a S,
    operation: u64,
}

impl<S: Debug> Drop for Told<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Told { seed, script, operation } = self;
            eprintln!("UMBRA_SEED={seed} repeats it: death before operation {operation} of {script:?}");
        }
    }
}

/// Runs so many scripts, or the one that `UMBRA_SEED` names. `run` makes its script of the numbers, and returns how many
/// deaths it had.
pub(crate) fn scripts(runs: u64, mut run: impl FnMut(u64, &mut Random) -> u64) {
    let (mut scripts, mut deaths) = (0, 0);
    for seed in seeds(runs) {
        scripts += 1;
        deaths += run(seed, &mut Random(seed));
    }
    println!("{scripts} scripts, {deaths} deaths");
    assert!(deaths > scripts, "scripts in which nobody dies prove nothing");
}

/// Dies before operation 0 of the script, before operation 1, and so on until `run` says that the script came to its end;
/// the number of deaths.
pub(crate) fn before_each<S: Debug>(seed: u64, script: &S, run: impl FnMut(u64) -> bool) -> u64 {
    before(seed, script, |operation| operation + 1, run)
}

/// The same before the first operations, and before ever fewer of those that follow: an eighth of them is passed over at
/// most, as the numbers say.
pub(crate) fn before_some<S: Debug>(seed: u64, script: &S, mut random: Random, run: impl FnMut(u64) -> bool) -> u64 {
    before(seed, script, |operation| operation + 1 + random.below(operation / 8 + 1), run)
}

fn before<S: Debug>(seed: u64, script: &S, mut next: impl FnMut(u64) -> u64, mut run: impl FnMut(u64) -> bool) -> u64 {
    let (mut operation, mut deaths) = (0, 0);
    while operation < ENDLESS {
        let _told = Told { seed, script, operation };
        if run(operation) {
            return deaths;
        }
        (operation, deaths) = (next(operation), deaths + 1);
    }
    panic!("{script:?} of seed {seed} does not end");
}

/// Memory in which anything may lie.
pub(crate) fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(u64::MAX)).collect()
}
