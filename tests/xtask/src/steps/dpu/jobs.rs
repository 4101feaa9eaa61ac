//! The jobs of two guests, and what each must tell.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use super::scripts::{DPU, HOST};
use crate::step::Failure;

/// What breaks in mid read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A rank is killed.
    Rank,
    /// An agent of the DPU is killed.
    Agent,
    /// The host's end of the cable is taken down and up.
    Link,
}

/// One run of `umbra run`.
pub(super) struct Job {
    /// What it is about, and what its artefact is called.
    pub(super) name: &'static str,
    /// Options beside those that all have.
    pub(super) options: &'static str,
    /// What breaks, if anything does.
    pub(super) fault: Option<Fault>,
    /// Seconds that the processes wait for each other.
    pub(super) patience: u64,
    /// What its JSON must hold.
    pub(super) told: &'static [&'static str],
}

/// The agents of `bf0` run in the host's guest, those of `bf1` in the DPU's.
pub(super) const JOBS: &[Job] = &[
    // The DPU's agents ask the host's for what they read.
    Job {
        name: "asked",
        options: "--here node0 --start bf0 --reads 50",
        fault: None,
        patience: 120,
        told: &[
            r#""ok":true,"hosts":1,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
            r#"{"path":"asked","own_rank":false,"#,
            r#""rank_wakeups":0,"#,
        ],
    },
    // Ranks of both hosts run in the host's guest: those of `node1` are served by the DPU's agents, over RDMA like all.
    Job {
        name: "verbs",
        options: "--start bf0 --ranks 2 --data-path verbs --reads 50",
        fault: None,
        patience: 120,
        told: &[
            r#""ok":true,"hosts":2,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
            r#""data_path":"verbs","#,
            r#"{"path":"verbs","own_rank":true,"#,
            r#"{"path":"verbs","own_rank":false,"#,
        ],
    },
    // Control links and reads are cut off, and go on.
    Job {
        name: "link",
        options: "--start bf0 --ranks 1 --data-path verbs --reads 400",
        fault: Some(Fault::Link),
        patience: 40,
        told: &[r#""ok":true,"hosts":2,"service_processes":4,"agents_elsewhere":2,"ranks":2,"#],
    },
    // More reads than will ever be made.
    Job {
        name: "rank",
        options: "--start bf0 --ranks 1 --data-path verbs --reads 1000000",
        fault: Some(Fault::Rank),
        patience: 40,
        told: &["rank 1 died while reading"],
    },
    Job {
        name: "agent",
        options: "--start bf0 --ranks 1 --data-path verbs --reads 1000000",
        fault: Some(Fault::Agent),
        patience: 40,
        told: &["service process 2"],
    },
];

/// Writes the configurations and a new secret. No two jobs have a port in common: the agents of the last one may not
/// have ended yet.
pub(super) fn describe(folder: &Path) -> Result<(), Failure> {
    let mut random = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(folder.join("job.secret"), secret + "\n")?;
    for (job, first) in JOBS.iter().zip((7000..).step_by(100)) {
        let ports = format!("{}&{}:{}&{}", first, first + 1, first + 2, first + 3);
        let config = format!("# Format version: 1\nnode0,bf0:{HOST}:{ports}\nnode1,bf1:{DPU}:{ports}\n");
        fs::write(folder.join(format!("{}.cfg", job.name)), config)?;
    }
    Ok(())
}

/// Whether a job told what it should.
pub(super) fn judge(job: &Job, object: &str) -> Result<(), String> {
    let is_killed = matches!(job.fault, Some(Fault::Rank | Fault::Agent));
    let all: &[&str] = if is_killed { &[r#""ok":false"#] } else { &[r#""mismatches":0,"failed_reads":0,"#] };
    if let Some(part) = all.iter().chain(job.told).find(|part| !object.contains(**part)) {
        return Err(format!("{part} is not in what the job {} told", job.name));
    }
    let world = object.split('{').find(|part| part.starts_with(r#""group":"world","#));
    if is_killed || world.is_some_and(|world| world.contains(r#""agents":4}"#)) {
        return Ok(());
    }
    Err(format!("not every agent of the job {} has the same table of the world", job.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Job = Job { name: "sample", options: "", fault: None, patience: 1, told: &[r#""ok":true,"#] };

    #[test]
    fn a_job_is_judged_by_what_it_told() {
        let good =
            r#"{"ok":true,"tables":[{"group":"world","digest":"0a","agents":4}],"mismatches":0,"failed_reads":0,}"#;
        assert_eq!(judge(&SAMPLE, good), Ok(()));
        for (part, other) in [("true", "false"), ("\"agents\":4", "\"agents\":3"), ("hes\":0", "hes\":1")] {
            assert!(judge(&SAMPLE, &good.replace(part, other)).is_err(), "{part}");
        }
        assert!(judge(&SAMPLE, "").is_err());
    }

    #[test]
    fn a_job_of_which_a_process_was_killed_must_fail_and_name_it() {
        let job = Job { fault: Some(Fault::Rank), told: &["rank 1 died"], ..SAMPLE };
        assert_eq!(judge(&job, r#"{"ok":false,"error":"rank 1 died"}"#), Ok(()));
        assert!(judge(&job, r#"{"ok":false,"error":"rank 2 died"}"#).is_err());
        assert!(judge(&job, r#"{"ok":true,"mismatches":0,"failed_reads":0,}"#).is_err());
    }
}
