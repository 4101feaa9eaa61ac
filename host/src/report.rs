//! One run as a self-contained HTML page, or as a picture.
//!
//! [`Report`] is plain data: who took part, when each process passed which phase, how long reads took. [`Report::to_html`]
//! turns it into one file without scripts and without anything fetched: the topology, the timeline of the bootstrap and
//! the latency distributions are inline SVG that follows the reader's light or dark theme.
//!
//! ```
//! use umbra::report::{Host, Report, ServiceProcess, Verdict};
//! let report = Report {
//!     title: "one of everything".into(),
//!     verdict: Verdict::Agreed,
//!     hosts: vec![Host { service_processes: vec![ServiceProcess { number: 0, ranks: vec![0] }] }],
//!     ..Report::default()
//! };
//! let page = report.to_html();
//! assert!(page.starts_with("<!doctype html>") && !page.contains("<script"));
//! ```
//!
//! Text from outside (file names, messages) is escaped where it enters the page.

#[cfg(feature = "picture")]
mod form;
mod histogram;
mod latency;
mod motion;
mod page;
#[cfg(feature = "picture")]
mod raster;
mod slots;
mod svg;
mod timeline;
mod topology;

#[cfg(feature = "picture")]
pub use form::{Form, FormError};
pub use histogram::Histogram;
pub use motion::{Held, Motion, Picture, Place};
pub use slots::{LINES_MAX, SlotSample, SlotUse, Stay};

/// Everything that the page tells.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What ran, in a few words.
    pub title: String,
    /// A sentence under the title: counts, input, data path.
    pub subtitle: String,
    /// How it ended.
    pub verdict: Verdict,
    /// The figures to show large: what, value.
    pub figures: Vec<(String, String)>,
    /// Hosts in job order.
    pub hosts: Vec<Host>,
    /// Pairs of service processes that exchanged parts of the table.
    pub links: Vec<(u32, u32)>,
    /// One lane a process, in the order in which they are drawn.
    pub lanes: Vec<Lane>,
    /// One entry a data path that moved bytes.
    pub paths: Vec<Path>,
    /// What the slots of a cache held.
    pub slots: SlotUse,
    /// Where blobs were in a mesh.
    pub motion: Motion,
    /// Tables below the drawings.
    pub tables: Vec<Table>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// Every byte that was read agrees with its source.
    #[default]
    Agreed,
    /// So many reads returned other bytes.
    Differed(u64),
    /// The run could not be completed, for this reason.
    Failed(String),
    /// Nothing was compared.
    Unchecked,
}

/// One host of the job.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its service processes, in order.
    pub service_processes: Vec<ServiceProcess>,
}

/// One service process and the ranks that it shadows first.
#[derive(Clone, Debug, Default)]
pub struct ServiceProcess {
    /// Job-wide number.
    pub number: u32,
    /// World ranks.
    pub ranks: Vec<u32>,
}

/// What one process went through.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Lanes of one kind are folded into one envelope when there are too many.
    pub kind: LaneKind,
    /// Phases in order of time.
    pub phases: Vec<Phase>,
}

/// What kind of process a lane belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaneKind {
    /// A service process.
    #[default]
    ServiceProcess,
    /// A rank; the number is its first service process.
    Rank(u32),
}

/// One phase of a process, in nanoseconds since the start of the job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Phase {
    /// What it is called; equal names share a colour.
    pub name: String,
    /// When it began.
    pub from_ns: u64,
    /// When it ended.
    pub until_ns: u64,
}

/// What went over one data path.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Its name: `mapped`, `cma`, `served`, `asked`, ...
    pub name: String,
    /// Completed reads.
    pub reads: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Distribution of the latency of a read.
    pub latency: Histogram,
}

/// A titled table of text; columns whose cells all look like figures are set flush right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells, one row a line.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// The page, ready to be written to a file.
    #[must_use]
    pub fn to_html(&self) -> String {
        page::render(self)
    }
}
