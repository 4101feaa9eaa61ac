//! A simulated run from options, as `umbra sim` starts it.
//!
//! It can be repeated and is checked, and what goes wrong is told.

use umbra::sim::{Options, SimError, run};
use umbra_core::error::Status;
use umbra_core::peer::Sp;
use umbra_core::time::Lapse;

#[test]
fn a_run_can_be_repeated_from_its_seed() {
    let outcomes = |seed| run(&Options::random(seed)).map(|outcome| (outcome.digest, outcome.traffic)).unwrap();
    let first: Vec<_> = (0..30).map(outcomes).collect();
    let again: Vec<_> = (0..30).map(outcomes).collect();
    assert_eq!(first, again);
    let different: std::collections::HashSet<u64> = first.iter().map(|(digest, _)| *digest).collect();
    assert!(different.len() > 25, "different seeds make different runs");
}

#[test]
fn a_job_without_faults_is_full_everywhere_and_counts_its_messages() {
    let outcome = run(&Options::new(4, 2, 4)).unwrap();
    assert_eq!(outcome.full_services, 8);
    assert_eq!(outcome.ready_ranks, 16);
    assert_eq!(outcome.violations, []);
    let kinds: u64 = outcome.traffic.kinds().map(|(_, sent)| sent.messages).sum();
    assert_eq!(kinds, outcome.traffic.services.messages + outcome.traffic.ranks.messages);
    assert!(outcome.traffic.kinds().any(|(name, sent)| name == "snapshot" && sent.messages >= 7));
}

#[test]
fn s36_whenever_a_service_process_dies_everybody_who_waits_is_told_who_is_missing() {
    let mut named = 0;
    for micros in (10..200).step_by(10) {
        let mut options = Options::new(2, 2, 4);
        options.job.network.mesh = true;
        options.faults.push(format!("kill sp:3@{micros}us").parse().unwrap());
        let outcome = run(&options).unwrap();
        assert_eq!(outcome.violations, [], "killed after {micros} us");
        for (_, rank, cause) in &outcome.errors {
            // Ranks 5 and 7 are those that it serves.
            let mut missing = cause.missing.iter();
            match cause.status {
                Status::PeerFailed => assert_eq!(cause.sp, Some(Sp(3)), "told to {rank} after {micros} us"),
                Status::Timeout => assert!(missing.all(|r| r == 5 || r == 7), "told to {rank}: {cause}"),
                status => panic!("{status:?} told to {rank} after {micros} us"),
            }
            named += u32::from(cause.status == Status::PeerFailed);
        }
        assert!(outcome.ready_ranks + outcome.errors.len() as u32 >= 8, "killed after {micros} us: {outcome:#?}");
    }
    assert!(named >= 6, "the death was seen before the world group was full at least once");
}

#[test]
fn options_that_make_no_job_are_refused() {
    let refused = |options: Options| run(&options).unwrap_err();
    assert!(matches!(refused(Options::new(0, 1, 1)), SimError::Count { what: "number of hosts", given: 0, .. }));
    assert!(matches!(refused(Options::new(1, 0, 1)), SimError::Count { .. }));
    assert!(matches!(refused(Options::new(1, 1, 0)), SimError::Count { what: "number of ranks", .. }));
    let changed = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(2, 1, 2);
        change(&mut options);
        refused(options)
    };
    let groups = changed(&|options| (options.groups, options.job.groups) = (u32::MAX - 1, u32::MAX));
    assert!(matches!(groups, SimError::Count { given: 0xffff_ffff, most: 0x1_0000, .. }), "{groups}");
    let for_ever = Lapse(u64::MAX);
    let longs: [&dyn Fn(&mut Options); 6] = [
        &|options| options.job.timeout = for_ever,
        &|options| options.job.network.delay = for_ever,
        &|options| options.job.network.jitter = for_ever,
        &|options| options.job.silence = for_ever,
        &|options| options.faults.push("kill sp:0@18446744073709551615ns".parse().unwrap()),
        &|options| options.faults.push("cut sp:0-sp:1@1ms+18446744073709551615ns".parse().unwrap()),
    ];
    for long in longs {
        let error = changed(long);
        assert!(matches!(error, SimError::Long { given: Lapse(u64::MAX), .. }), "{error}");
    }
    let mut options = Options::new(2, 1, 2);
    options.faults.push("cut sp:0-sp:2@5ms+10ms".parse().unwrap());
    let error = refused(options);
    assert_eq!(error.to_string(), "`cut sp:0-sp:2` names sp:2, but the job has 2 service processes and 4 ranks");
}

#[test]
fn a_job_that_no_machine_has_memory_for_is_refused_before_it_is_made() {
    let Err(error) = run(&Options::new(1 << 16, 1, 16)) else { panic!("it runs") };
    let SimError::NoMemory { services: 0x1_0000, ranks: 0x10_0000, bytes } = error else { panic!("{error}") };
    assert!(bytes > 1 << 42, "each service process has a table of all ranks: {error}");
}
