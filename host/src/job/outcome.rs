//! How a job ended: everything that a table, a JSON object or a report shows.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use umbra_core::peer::{Peer, Sp, WorldRank};

use super::{DataPath, Latency};

/// A step of the bootstrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// The process was started.
    Started,
    /// An agent accepts links.
    Listening,
    /// An agent has its links to all other agents; a rank is linked to its service processes.
    Linked,
    /// All expected ranks of an agent have joined the group.
    LocalComplete,
    /// The group is full at this process.
    Full,
    /// A rank has exported its slice.
    Exported,
    /// The group has ended at this process.
    Ended,
}

impl Step {
    /// Every step, by its number.
    pub const ALL: [Step; 7] =
        [Step::Started, Step::Listening, Step::Linked, Step::LocalComplete, Step::Full, Step::Exported, Step::Ended];

    /// The step with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Step> {
        Step::ALL.get(usize::from(code)).copied()
    }
}

/// A step that a process took, for the timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Milestone {
    /// Since the start of the job.
    pub at: Duration,
    /// Who.
    pub peer: Peer,
    /// The group's name (`world`, `row 0`, `column 3`); absent if the step is about no group.
    pub group: Option<String>,
    /// What.
    pub step: Step,
}

/// One group of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupOutcome {
    /// `world`, `row 0`, `column 3`.
    pub name: String,
    /// Its members, by group rank.
    pub members: Vec<WorldRank>,
    /// From the first join to the moment when the last process that needs it had it full.
    pub time_to_full: Duration,
    /// Bytes of its table.
    pub table_bytes: u64,
}

/// The table of one group, as agents have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableOutcome {
    /// What agents call the group.
    pub group: String,
    /// Digest of its encoding, which is the same on every processor.
    pub digest: String,
    /// How many agents have it with this digest.
    pub agents: u32,
}

/// What one data path did.
#[derive(Clone, PartialEq, Debug)]
pub struct PathOutcome {
    /// Which path; never [`DataPath::Auto`].
    pub path: DataPath,
    /// Whether the reader was itself a service process of the rank.
    pub own_rank: bool,
    /// Reads that ended well.
    pub reads: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time that the readers spent in them, summed over all agents.
    pub busy: Duration,
    /// How long each took.
    pub latency: Latency,
}

/// Bytes that an agent read differ from the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The agent that read.
    pub reader: Sp,
    /// The rank that it read from.
    pub rank: WorldRank,
    /// What differs, in one sentence.
    pub what: String,
}

/// Something that should be gone after the job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Leftover {
    /// A process still runs.
    Process(Peer, u32),
    /// A file of the job directory still exists.
    File(PathBuf),
    /// A segment is still mapped or open somewhere.
    Segment(String),
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Hosts with ranks.
    pub hosts: u32,
    /// Service processes of the whole job.
    pub service_processes: u32,
    /// Those of them that ran already.
    pub agents_elsewhere: u32,
    /// Ranks of the whole job.
    pub ranks: u32,
    /// The data path that was asked for.
    pub data_path: DataPath,
    /// The file that was read.
    pub input: PathBuf,
    /// Its length.
    pub input_bytes: u64,
    /// BLAKE3 of the file, in hexadecimal.
    pub digest: String,
    /// Start of the job to the moment when the world group was full everywhere, processes included.
    pub time_to_full: Duration,
    /// The whole job.
    pub elapsed: Duration,
    /// Every group, the world first.
    pub groups: Vec<GroupOutcome>,
    /// The tables that agents have; where they differ is told by the mismatches.
    pub tables: Vec<TableOutcome>,
    /// Look-ups that agents made in the endpoint cache.
    pub lookups: u64,
    /// Reads that ended well.
    pub reads: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Wall time of the reading phases.
    pub reading: Duration,
    /// How often code of ours ran in a rank while agents read its memory; 0 is the promise.
    pub rank_wakeups: u64,
    /// Bytes that were not as in the file.
    pub mismatches: Vec<Mismatch>,
    /// All reads.
    pub latency: Latency,
    /// Each data path that was used.
    pub paths: Vec<PathOutcome>,
    /// The bootstrap, ordered by time.
    pub timeline: Vec<Milestone>,
    /// What was left behind.
    pub leftovers: Vec<Leftover>,
}

impl Outcome {
    /// Whether every byte agreed, no read failed and nothing was left behind.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.mismatches.is_empty() && self.failed_reads == 0 && self.leftovers.is_empty()
    }

    /// The names of the data paths that reads really took, joined by `+`; the one that was asked for if nothing was
    /// read.
    #[must_use]
    pub fn used_paths(&self) -> String {
        let used: BTreeSet<DataPath> = self.paths.iter().filter(|path| path.reads > 0).map(|path| path.path).collect();
        let names: Vec<&str> = used.into_iter().map(DataPath::name).collect();
        if names.is_empty() { self.data_path.name().to_owned() } else { names.join("+") }
    }

    /// Bytes a second over the wall time of the reading phases, all agents together.
    #[must_use]
    pub fn throughput_bytes_per_s(&self) -> f64 {
        let seconds = self.reading.as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}
