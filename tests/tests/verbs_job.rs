//! Whole jobs whose agents read ranks over RDMA (s16, s36, s39).
//!
//! Every byte is right, the dead are named, and nothing is left. Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use umbra::job::{DataPath, JobError, Options, Outcome, Phase, run};
use umbra_tests::rig::{self, rank, service};
use umbra_tests::verbs::port;

fn over(data_path: DataPath, hosts: u32, service_processes: u32, ranks: u32) -> Options {
    Options { data_path, ..rig::options(hosts, service_processes, ranks) }
}

fn good(options: &Options) -> Outcome {
    let outcome = run(options, &mut |_| {}).unwrap();
    assert!(outcome.is_good(), "{outcome:?}");
    outcome
}

#[test]
fn every_agent_reads_every_rank_by_remote_key() {
    if port().is_none() {
        return;
    }
    let options = over(DataPath::Verbs, 2, 2, 2);
    let outcome = good(&options);
    assert_eq!(outcome.used_paths(), "verbs", "{:?}", outcome.paths);
    // The world, two rows, two columns: each look-up was answered in all groups of the rank alike.
    assert_eq!(outcome.groups.len(), 5);
    assert_eq!(outcome.lookups, 3 * outcome.reads);
    assert_eq!(outcome.bytes, 4 * (outcome.input_bytes + 4 * u64::from(options.reads) * options.size));
    let kinds: BTreeSet<bool> = outcome.paths.iter().map(|path| path.own_rank).collect();
    assert_eq!(kinds, [false, true].into());
}

#[test]
fn the_command_tells_programs_that_every_byte_came_over_rdma() {
    if port().is_none() {
        return;
    }
    let (umbra, agent) = rig::programs();
    let input = over(DataPath::Verbs, 1, 1, 1).input.unwrap();
    let words = ["run", "--quiet", "--json", "--data-path", "verbs", "--hosts", "2", "--ranks", "2", "-s", "1"];
    let mut command = Command::new(umbra);
    command.args(words).args(["--reads", "10", "--size", "4K", "--input"]).arg(input).arg("--agent").arg(agent);
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    for fact in
        [r#""ok":true"#, r#""data_path":"verbs""#, r#""mismatches":0"#, r#""failed_reads":0"#, r#""leftovers":[]"#]
    {
        assert!(told.contains(fact), "{fact} is not in {told}");
    }
}

#[test]
fn the_service_process_of_a_rank_reads_it_for_those_that_may_not() {
    if port().is_none() {
        return;
    }
    let outcome = good(&over(DataPath::VerbsAsked, 2, 1, 2));
    let used: BTreeSet<(DataPath, bool)> = outcome.paths.iter().map(|path| (path.path, path.own_rank)).collect();
    assert_eq!(used, [(DataPath::Verbs, true), (DataPath::VerbsAsked, false)].into());
}

#[test]
fn more_bytes_than_one_piece_and_less_than_one_cell_arrive() {
    if port().is_none() {
        return;
    }
    let scratch = rig::Scratch::new("sizes");
    let input = scratch.path().join("input");
    std::fs::write(&input, (0..1_500_000u32).map(|n| (n ^ (n >> 9)) as u8).collect::<Vec<_>>()).unwrap();
    let options = Options { size: 400_000, reads: 5, input: Some(input.clone()), ..over(DataPath::Verbs, 2, 1, 1) };
    assert_eq!(good(&options).used_paths(), "verbs");
    // Ranks without a byte export nothing.
    std::fs::write(&input, b"abc").unwrap();
    let options = Options { size: 1, reads: 3, input: Some(input), ..over(DataPath::Verbs, 2, 1, 2) };
    assert_eq!(good(&options).used_paths(), "verbs");
}

#[test]
fn s36_s39_a_killed_agent_and_a_killed_rank_are_named_and_leave_nothing() {
    if port().is_none() {
        return;
    }
    let options = Options { deadline: Duration::from_secs(8), ..over(DataPath::Verbs, 2, 1, 2) };
    for (phase, victim) in [
        (Phase::Groups, rank(1)),
        (Phase::Slices, rank(2)),
        (Phase::Slices, service(1)),
        (Phase::Random, rank(1)),
        (Phase::Random, service(0)),
    ] {
        match rig::killed(&options, victim, phase) {
            JobError::Died { peer, how, .. } => {
                assert_eq!(peer, victim, "{phase:?}");
                assert!(how.contains('9'), "{how}");
            }
            // Whoever noticed first names it.
            JobError::Failed { failure, .. } => assert_eq!(failure.culprit, Some(victim), "{phase:?}: {failure:?}"),
            other => panic!("{phase:?}, {victim}: {other}"),
        }
    }
}
