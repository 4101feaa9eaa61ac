//! Programs over MPI: the peer, which is built here, and ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use umbra_tests::bench::output_of;

use crate::threads::{Case, Figures};

/// A way of the peer to exchange: its name there, and in rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mode(&'static str, pub(crate) &'static str);

pub(crate) const EARLY: Mode = Mode("early", "MPI, a receive for each strip posted early");
pub(crate) const SOME: Mode = Mode("some", "MPI, the same and one test for all of them");
pub(crate) const PERSIST: Mode = Mode("persist", "MPI, the same with persistent requests");
pub(crate) const PROBE: Mode = Mode("probe", "MPI, a probe for each strip, then its receive");
pub(crate) const COALESCED: Mode = Mode("coalesced", "MPI, which strips there are, and these gathered");
pub(crate) const SLOT: Mode = Mode("slot", "MPI, one message into a slot posted early");
pub(crate) const RING: Mode = Mode("ring", "a ring of bytes in shared memory of MPI");
pub(crate) const RMA: Mode = Mode("rma", "MPI, one put into a window, and a word");
/// All of them; early receives are the first.
pub(crate) const ALL: [Mode; 8] = [EARLY, SLOT, COALESCED, SOME, PERSIST, PROBE, RING, RMA];

/// What ours goes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    /// To the example.
    word: &'static str,
    /// In rows.
    pub(crate) name: &'static str,
    /// The bar beside gathered strips.
    pub(crate) gathered: f64,
    /// Whether its slots are whole pages.
    pub(crate) in_pages: bool,
}

pub(crate) const OVER_SLOT: Over = Over { word: "slot", name: "MpiSlot", gathered: 1.2, in_pages: false };
pub(crate) const OVER_NODES: Over = Over { word: "nodes", name: "MpiNodes", gathered: 1.6, in_pages: true };

/// Names the example `mostly_empty` of the package `umbra-mpi`.
const OURS: &str = "UMBRA_MOSTLY_EMPTY";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/boundary");
const SOURCES: [&str; 4] = ["over_mpi.c", "over_mpi_strips.c", "over_mpi_whole.c", "over_mpi_window.c"];
/// How long it may take to build the peer, and to run a program over MPI.
const BUILD: Duration = Duration::from_secs(60);
const MOST: Duration = Duration::from_secs(120);

/// The program.
pub(crate) struct Peer(PathBuf);

impl Peer {
    /// Builds it in the folder of this bench.
    pub(crate) fn build() -> Result<Peer, String> {
        let bench = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = bench.with_file_name("over_mpi");
        let mut command = Command::new("mpicc");
        command.args(["-O2", "-o"]).arg(&program).args(SOURCES).current_dir(FOLDER);
        match output_of(&mut command, BUILD) {
            Ok((status, _)) if status.success() => Ok(Peer(program)),
            Ok((status, _)) => Err(format!("mpicc did not build the peer, {status}; what it said is above")),
            Err(error) => Err(format!("there is no mpicc (Debian: libopenmpi-dev, openmpi-bin): {error}")),
        }
    }

    /// The figures of each of these modes, in their order.
    pub(crate) fn run(&self, case: Case, modes: &[Mode]) -> Result<Vec<Figures>, String> {
        let printed = mpirun(&self.0, case, &modes.iter().map(|mode| mode.0).collect::<Vec<_>>())?;
        let figures = |Mode(word, _): &Mode| {
            let line = printed.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
            line.and_then(figures).ok_or_else(|| format!("no figures of {word} in {printed:?}"))
        };
        modes.iter().map(figures).collect()
    }
}

/// Ours under `mpirun`: the program that the variable names.
pub(crate) fn ours(case: Case, over: Over) -> Result<Figures, String> {
    let none = || format!("`cargo xtask bench boundary` builds it and sets {OURS}");
    let printed = mpirun(&PathBuf::from(std::env::var_os(OURS).ok_or_else(none)?), case, &[over.word])?;
    figures(printed.trim_end()).ok_or_else(|| format!("no figures in {printed:?}"))
}

/// Tenth percentile, median, memory that is announced, memory that is held.
fn figures(line: &str) -> Option<Figures> {
    let mut numbers = line.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok();
    let (time, _median) = (next()?, next()?);
    Some(Figures { time, memory: next()?, held: next()? })
}

/// Runs the ranks of a program; what it prints. It is ended if it takes too long.
fn mpirun(program: &Path, case: Case, modes: &[&str]) -> Result<String, String> {
    let numbers = [u64::from(case.channels), u64::from(case.bytes), case.batches as u64, u64::from(case.exchanges)];
    let mut command = Command::new("mpirun");
    command
        .args(["-n", &case.ranks.to_string()])
        .arg(program)
        .args(numbers.map(|number| number.to_string()))
        .args(modes)
        // Open MPI asks twice whether root really means it.
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        // In containers neither processors nor slots are counted as elsewhere.
        .envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_btl_base_warn_component_unused", "0")]);
    let (begun, shown) = (Instant::now(), program.display());
    let (status, printed) = output_of(&mut command, MOST).map_err(|error| format!("mpirun of {shown}: {error}"))?;
    if status.success() {
        return Ok(printed);
    }
    if begun.elapsed() >= MOST {
        return Err(format!("mpirun of {shown} was ended after {MOST:?}: some rank hangs, or the machine is too busy"));
    }
    Err(format!("mpirun of {shown}: {status}; what it said is above"))
}
