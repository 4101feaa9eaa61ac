//! What a running job tells while it runs.

use std::path::PathBuf;
use std::time::Duration;

use umbra_core::peer::Peer;

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Agents are being started.
    Agents,
    /// Ranks are being started and the world group is bootstrapped.
    World,
    /// The groups of rows and columns are bootstrapped.
    Groups,
    /// A field that the ranks hold is read.
    Reading,
    /// Every agent reads every slice whole.
    Slices,
    /// Every agent reads at random offsets.
    Random,
    /// Groups are freed, processes leave.
    Leaving,
    /// Processes, files and segments that should be gone are looked for.
    Leftovers,
}

impl Phase {
    /// A few words for a progress line.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Phase::Agents => "starting agents",
            Phase::World => "bootstrapping the world group",
            Phase::Groups => "bootstrapping rows and columns",
            Phase::Reading => "being read",
            Phase::Slices => "reading every slice",
            Phase::Random => "reading at random offsets",
            Phase::Leaving => "leaving",
            Phase::Leftovers => "checking for leftovers",
        }
    }
}

/// A process of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Who it is.
    pub peer: Peer,
    /// Its process id.
    pub pid: u32,
}

/// News of a running job; `at` counts from the start of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The file is open and measured; processes are started next.
    Input {
        /// Which file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Whether the caller named it.
        named: bool,
    },
    /// The job moves on.
    Phase {
        /// To what.
        phase: Phase,
        /// When.
        at: Duration,
    },
    /// A process was started.
    Started {
        /// Which.
        process: Process,
        /// When.
        at: Duration,
    },
    /// An agent accepts links, or a rank has the world group and has exported its slice.
    Ready {
        /// Who.
        peer: Peer,
        /// When.
        at: Duration,
    },
    /// An agent's reads so far; totals over its whole life, sent a few times a second.
    Progress {
        /// Which agent.
        peer: Peer,
        /// Reads done.
        reads: u64,
        /// Bytes read.
        bytes: u64,
    },
    /// All reads and bytes that will be asked of all agents together; sent before the first `Progress`.
    Planned {
        /// Reads.
        reads: u64,
        /// Bytes.
        bytes: u64,
    },
}
