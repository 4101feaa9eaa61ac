//! A million hostile inputs for every reader of foreign bytes: A25, A28.
//!
//! A failure names the seed of its stream; `UMBRA_SEED=N` runs that stream alone. `UMBRA_INPUTS=N` sets another
//! number of inputs a target.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::{env, fs};

use umbra_tests::hostile::{Inputs, TARGETS};

/// Inputs a stream; short streams make a failing one quick to repeat.
const STREAM: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn a_million_inputs(name: &str) {
    inputs(name, 1_000_000);
}

fn inputs(name: &str, count: u64) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("no target is called {name}"));
    let streams = number("UMBRA_INPUTS").unwrap_or(count).div_ceil(STREAM);
    let seeds = number("UMBRA_SEED").map_or_else(|| (0..streams).collect(), |seed| vec![seed]);
    for seed in seeds {
        let mut inputs = Inputs::new(seed, (target.seeds)());
        for at in 0..STREAM {
            let bytes = inputs.advance();
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| (target.feed)(bytes))) {
                eprintln!("{name}: UMBRA_SEED={seed}, input {at}: {bytes:02x?}");
                panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn every_seed_is_accepted_as_it_is() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        seeds.iter().for_each(|seed| (target.feed)(seed));
    }
}

#[test]
fn every_target_is_also_fuzzed_by_coverage() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/fuzz_targets");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let fuzzed: BTreeSet<String> = files.map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(fuzzed, TARGETS.iter().map(|target| target.name.to_owned()).collect());
}

#[test]
fn frames() {
    a_million_inputs("frame");
}

#[test]
fn gateways() {
    a_million_inputs("gateway");
}

/// Each of them makes a meeting place, and a member in it: fewer do.
#[test]
fn borders() {
    inputs("border", 100_000);
}

#[test]
fn tickets() {
    a_million_inputs("ticket");
}

#[test]
fn a25_references() {
    a_million_inputs("reference");
}

#[test]
fn descriptors() {
    a_million_inputs("descriptor");
}

#[test]
fn entries() {
    a_million_inputs("entries");
}

#[test]
fn links() {
    a_million_inputs("link");
}

#[test]
fn segments() {
    a_million_inputs("segment");
}

#[test]
fn shared_slots() {
    a_million_inputs("slots");
}

#[test]
fn shared_caches() {
    a_million_inputs("cache");
}

#[test]
fn rings() {
    a_million_inputs("ring");
}

#[test]
fn a28_channels() {
    a_million_inputs("channel");
}

#[test]
fn streams() {
    a_million_inputs("stream");
}

#[test]
fn mailboxes() {
    a_million_inputs("mailbox");
}

#[test]
fn tables() {
    a_million_inputs("table");
}

#[test]
fn arenas() {
    a_million_inputs("arena");
}

#[test]
fn orders_to_an_allocator() {
    a_million_inputs("ranges");
}

#[test]
fn messages_of_the_bootstrap() {
    a_million_inputs("group");
}

#[test]
fn messages_of_memory_access() {
    a_million_inputs("access");
}

#[test]
fn answers_of_a_card() {
    a_million_inputs("firmware");
}

#[test]
fn a_running_service_process() {
    a_million_inputs("service");
}

#[test]
fn a_running_rank() {
    a_million_inputs("member");
}

#[test]
fn a_running_server_of_memory() {
    a_million_inputs("serve");
}

#[test]
fn a_running_member_of_chained_calls() {
    a_million_inputs("chain");
}

#[test]
fn heaps() {
    a_million_inputs("heap");
}

#[test]
fn bodies_of_orders_and_figures() {
    a_million_inputs("bodies");
}

#[test]
fn texts_that_people_write() {
    a_million_inputs("texts");
}

/// Each of them is a file: fewer do.
#[test]
fn array_files() {
    inputs("array", 200_000);
}

/// Each of them maps a pool: fewer do.
#[test]
fn manifests_of_pools() {
    inputs("manifest", 100_000);
}

/// Each of them is memory of its own: fewer do.
#[test]
fn memories_of_boundary_exchanges() {
    inputs("fabric", 100_000);
}

#[test]
fn heads_of_boundary_exchanges() {
    a_million_inputs("head");
}
