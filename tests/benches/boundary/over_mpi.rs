//! Programs over MPI: the peer, which is built here, and ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Case, Figures};

pub(crate) const EARLY: &str = "MPI, a receive for each strip posted early";
pub(crate) const SOME: &str = "MPI, the same and one test for all of them";
pub(crate) const SLOT: &str = "MPI, one message into a slot posted early";
/// Names the example `mostly_empty` of the package `umbra-mpi`.
const OURS: &str = "UMBRA_MOSTLY_EMPTY";
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/boundary/over_mpi.c");

/// The program.
pub(crate) struct Peer(PathBuf);

impl Peer {
    /// Builds it in the folder of this bench.
    pub(crate) fn build() -> Result<Peer, String> {
        let bench = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = bench.with_file_name("over_mpi");
        let built = Command::new("mpicc").args(["-O2", "-o"]).arg(&program).arg(SOURCE).output();
        match built {
            Ok(built) if built.status.success() => Ok(Peer(program)),
            Ok(built) => Err(format!("mpicc: {}", String::from_utf8_lossy(&built.stderr))),
            Err(error) => Err(format!("there is no mpicc (Debian: libopenmpi-dev, openmpi-bin): {error}")),
        }
    }

    /// Runs pairs of ranks; the figures of each mode: early, some, slot.
    pub(crate) fn run(&self, case: Case) -> Result<[Figures; 3], String> {
        let printed = mpirun(&self.0, case)?;
        let figures = |mode: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(mode)?.strip_prefix(' '));
            line.and_then(figures).ok_or_else(|| format!("no figures of {mode} in {printed:?}"))
        };
        Ok([figures("early")?, figures("some")?, figures("slot")?])
    }
}

/// Ours over MPI: the program that the variable names.
pub(crate) fn ours(case: Case) -> Result<Figures, String> {
    let none = || format!("`cargo xtask bench boundary` builds it and sets {OURS}");
    let printed = mpirun(&PathBuf::from(std::env::var_os(OURS).ok_or_else(none)?), case)?;
    figures(printed.trim_end()).ok_or_else(|| format!("no figures in {printed:?}"))
}

/// Tenth percentile, median, memory that is announced, memory that is held.
fn figures(line: &str) -> Option<Figures> {
    let mut numbers = line.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok();
    let (time, _median) = (next()?, next()?);
    Some(Figures { time, memory: next()?, held: next()? })
}

/// Runs so many pairs of ranks of a program; what it prints.
fn mpirun(program: &Path, case: Case) -> Result<String, String> {
    let numbers = [u64::from(case.channels), u64::from(case.bytes), case.batches as u64, u64::from(case.exchanges)];
    let output = Command::new("mpirun")
        .args(["-n", &(2 * case.pairs).to_string()])
        .arg(program)
        .args(numbers.map(|number| number.to_string()))
        // Open MPI asks twice whether root really means it.
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        // In containers neither processors nor slots are counted as elsewhere.
        .envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_btl_base_warn_component_unused", "0")])
        .output()
        .map_err(|error| format!("mpirun: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("mpirun {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}
