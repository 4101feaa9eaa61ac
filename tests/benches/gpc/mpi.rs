//! Open MPI's answer to the same need: a broadcast and a reduction.
//!
//! The reduction, of eight bytes, is the acknowledgement of the broadcast.

use std::env::temp_dir;
use std::path::PathBuf;
use std::process::Command;

use umbra_tests::bench::Report;

/// The program, which says the microseconds of a call: `p50 mean`.
const SOURCE: &str = include_str!("bcast_ack.c");

/// Open MPI's program, built.
pub(crate) struct Program {
    path: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Microseconds a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) p50: f64,
    pub(crate) mean: f64,
}

impl Program {
    /// Builds the program if Open MPI's compiler is there.
    pub(crate) fn find(report: &Report) -> Option<Program> {
        let path = temp_dir().join(format!("umbra-bcast-ack-{}", std::process::id()));
        let source = path.with_extension("c");
        let built = std::fs::write(&source, SOURCE)
            .and_then(|()| Command::new("mpicc.openmpi").arg("-O2").arg(&source).arg("-o").arg(&path).status());
        let _ = std::fs::remove_file(&source);
        match built {
            Ok(status) if status.success() => Some(Program { path }),
            Ok(status) => {
                report.note(format_args!("mpicc.openmpi ended with {status}: no rows beside Open MPI"));
                None
            }
            Err(_) => {
                report
                    .note("mpicc.openmpi is not there (Debian: openmpi-bin, libopenmpi-dev): no rows beside Open MPI");
                None
            }
        }
    }

    /// Runs it in so many processes; `None` if it does not run.
    pub(crate) fn measure(&self, processes: u16, bytes: usize) -> Option<Figures> {
        let calls = (20_000 / usize::from(processes)).max(200).to_string();
        let output = Command::new("mpirun.openmpi")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            // One machine, more processes than cores: the settings of it that are fastest then.
            .args(["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "vader,self"])
            .args(["--mca", "mpi_yield_when_idle", "1", "-np", &processes.to_string()])
            .arg(&self.path)
            .args([bytes.to_string(), calls])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut figures = text.split_whitespace().map(str::parse::<f64>);
        let (p50, mean) = (figures.next()?.ok()?, figures.next()?.ok()?);
        output.status.success().then_some(Figures { p50, mean })
    }
}
