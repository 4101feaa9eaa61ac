//! `umbra doctor` beside real agents, one of which was never started (s38, s40).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::process::Command;

use umbra_tests::rig::{self, ByHand};

/// Exit code and words of the doctor.
fn doctor(job: &ByHand) -> (Option<i32>, String) {
    let output = Command::new(&rig::programs().0)
        .args(["doctor", "--timeout", "1s", "--config"])
        .arg(job.config())
        .arg("--secret")
        .arg(job.secret())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn s40_the_doctor_names_a_service_process_that_was_not_started_and_who_misses_it() {
    let mut job = ByHand::new("doctor", 2);
    job.start(0, &[]);
    let (code, said) = doctor(&job);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("service process 1 at 127.0.0.1:"), "the one that is missing is named:\n{said}");
    assert!(said.contains("service process 0: no link to service process 1"), "and so is who misses it:\n{said}");

    job.start(1, &[]);
    // The two find each other when the first one dials again.
    let mut answers = (0..600).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        doctor(&job)
    });
    let found = answers.find(|(_, said)| !said.contains("no link to"));
    let (code, said) = found.expect("the agents never found each other");
    assert_eq!(code, Some(1), "no rank has come:\n{said}");
    assert_eq!(said.matches("no rank has come yet").count(), 2, "{said}");
}
