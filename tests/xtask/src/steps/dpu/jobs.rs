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

/// What the guests do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// `umbra run` with these options beside those that all have; something may break.
    Run(&'static str, Option<Fault>),
    /// The [test](TEST) whose ranks read and are read as those of `umbra run`, until one takes its memory back, which no
    /// option of that asks for.
    TakeBack,
    /// The one suite of memory access: the DPU reads and writes what the host owns.
    Suite,
}

/// One thing that the guests do together.
pub(super) struct Job {
    /// What it is about, and what its artefact is called.
    pub(super) name: &'static str,
    /// What is done.
    pub(super) work: Work,
    /// Seconds that the processes wait for each other.
    pub(super) patience: u64,
    /// What its JSON must hold.
    pub(super) told: &'static [&'static str],
    /// How often code of ours may run in ranks while they are read, where that is told (scenario 6).
    pub(super) wakeups: Option<u64>,
}

/// A test of agents that need not all run here.
pub(super) const TEST: &str = "verbs_revoke";

/// The agents of `bf0` run in the host's guest, those of `bf1` in the DPU's.
pub(super) const JOBS: &[Job] = &[
    // The DPU's agents ask the host's for what they read.
    Job {
        name: "asked",
        work: Work::Run("--here node0 --start bf0 --reads 50", None),
        patience: 120,
        told: &[
            r#""ok":true,"hosts":1,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
            r#"{"path":"asked","own_rank":false,"#,
        ],
        wakeups: Some(0),
    },
    // Ranks of both hosts run in the host's guest: those of `node1` are served by the DPU's agents, over RDMA like all.
    Job {
        name: "verbs",
        work: Work::Run("--start bf0 --ranks 2 --data-path verbs --reads 50", None),
        patience: 120,
        told: &[
            r#""ok":true,"hosts":2,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
            r#""data_path":"verbs","#,
            r#"{"path":"verbs","own_rank":true,"#,
            r#"{"path":"verbs","own_rank":false,"#,
        ],
        // Four agents connect to four ranks; then they make 1296 reads.
        wakeups: Some(32),
    },
    // Control links and reads are cut off, and go on.
    Job {
        name: "link",
        work: Work::Run("--start bf0 --ranks 1 --data-path verbs --reads 400", Some(Fault::Link)),
        patience: 40,
        told: &[r#""ok":true,"hosts":2,"service_processes":4,"agents_elsewhere":2,"ranks":2,"#],
        wakeups: None,
    },
    // The rank's memory is on the host; its service process, and half of those that read it, are the DPU's.
    Job {
        name: "memory",
        work: Work::TakeBack,
        patience: 120,
        told: &[r#""ok":true,"in_flight":1"#, r#""acknowledged_ms":"#, r#""agents":4,"#],
        wakeups: None,
    },
    // Fourteen scenarios, and the one that only a card can play; some take more than one rig.
    Job { name: "suite", work: Work::Suite, patience: 60, told: &[r#""ok":true,"rigs":"#], wakeups: None },
    // More reads than will ever be made.
    Job {
        name: "rank",
        work: Work::Run("--start bf0 --ranks 1 --data-path verbs --reads 1000000", Some(Fault::Rank)),
        patience: 40,
        told: &["rank 1 died while reading"],
        wakeups: None,
    },
    Job {
        name: "agent",
        work: Work::Run("--start bf0 --ranks 1 --data-path verbs --reads 1000000", Some(Fault::Agent)),
        patience: 40,
        told: &["service process 2"],
        wakeups: None,
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
    let all: &[&str] = match job.work {
        Work::Run(_, Some(Fault::Rank | Fault::Agent)) => &[r#""ok":false"#],
        Work::Run(..) => &[r#""mismatches":0,"failed_reads":0,"#],
        // These have judged what they read.
        Work::TakeBack | Work::Suite => &[],
    };
    let has_tables = matches!(job.work, Work::Run(_, None | Some(Fault::Link)));
    if let Some(part) = all.iter().chain(job.told).find(|part| !object.contains(**part)) {
        return Err(format!("{part} is not in what the job {} told", job.name));
    }
    if let Some(most) = job.wakeups {
        let told =
            object.split_once(r#""rank_wakeups":"#).and_then(|(_, rest)| rest.split([',', '}']).next()?.parse().ok());
        if told.is_none_or(|told: u64| told > most) {
            return Err(format!(
                "code of ours ran {told:?} times in ranks of the job {}, not {most} at most",
                job.name
            ));
        }
    }
    let world = object.split('{').find(|part| part.starts_with(r#""group":"world","#));
    if !has_tables || world.is_some_and(|world| world.contains(r#""agents":4}"#)) {
        return Ok(());
    }
    Err(format!("not every agent of the job {} has the same table of the world", job.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Job =
        Job { name: "sample", work: Work::Run("", None), patience: 1, told: &[r#""ok":true,"#], wakeups: None };

    #[test]
    fn a_job_in_which_ranks_were_woken_too_often_is_told() {
        let good =
            r#"{"ok":true,"tables":[{"group":"world","agents":4}],"mismatches":0,"failed_reads":0,"rank_wakeups":3}"#;
        let job = |most| Job { wakeups: Some(most), ..SAMPLE };
        assert_eq!(judge(&job(3), good), Ok(()));
        assert!(judge(&job(2), good).is_err_and(|why| why.contains("ran Some(3) times")));
        assert!(judge(&job(3), &good.replace("rank_wakeups", "woken")).is_err());
    }

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
        let job = Job { work: Work::Run("", Some(Fault::Rank)), told: &["rank 1 died"], ..SAMPLE };
        assert_eq!(judge(&job, r#"{"ok":false,"error":"rank 1 died"}"#), Ok(()));
        assert!(judge(&job, r#"{"ok":false,"error":"rank 2 died"}"#).is_err());
        assert!(judge(&job, r#"{"ok":true,"mismatches":0,"failed_reads":0,}"#).is_err());
    }
}
