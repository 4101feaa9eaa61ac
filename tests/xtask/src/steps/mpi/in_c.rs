//! Programs in C over MPI.
//!
//! They include the header, and are linked with the library that was built with one MPI.

use std::path::Path;

use crate::install::Mpi;
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::steps::mpi::{launch, run};

/// The examples.
const PROGRAMS: &[&str] = &["halo", "refusals", "job"];
/// The one that needs no library of ours when it runs.
const STATIC: &str = "job";
/// Ranks of a run, of which example, and what is asked for.
const RUNS: &[(u32, &str, &str)] = &[
    // A mesh in space, each bit compared with the closed form.
    (1, "halo", "slot"),
    (2, "halo", "slot"),
    (4, "halo", "slot"),
    (1, "halo", "rma"),
    (2, "halo", "rma"),
    (4, "halo", "rma"),
    (1, "halo", "nodes"),
    (4, "halo", "nodes"),
    // More ranks than divide the blocks.
    (7, "halo", "slot"),
    (7, "halo", "rma"),
    // What is wrong on one rank, late, of another thread, or after the end.
    (3, "refusals", ""),
    (5, "refusals", ""),
    // Agents on one node and on two, and sessions.
    (1, "job", ""),
    (4, "job", ""),
    (4, "job", "2"),
];
/// What all are told of a rank that does not come, and the code with which the run ends.
const MISSING: (&str, i32) = ("build: error 9: nothing came from rank 2", 9);

/// A compiler of this MPI with the headers, which says nothing.
fn compiler(driver: &str) -> Run {
    Run::new(driver).words("-Wall -Wextra -pedantic -Werror -I ffi/include -I host/mpi/ffi/include")
}

/// Compiles header and examples, and runs these; how many runs that was. Without a compiler of C++ the header is C alone.
pub(super) fn check(
    mpi: &Mpi,
    library: &Path,
    folder: &Path,
    plus: bool,
    agent: &Path,
    log: &Log,
) -> Result<usize, Failure> {
    let header = |driver: &str, words: &str| {
        let run = compiler(driver).words(words).words("-fsyntax-only -include umbra_mpi.h /dev/null");
        run.succeed(log)
    };
    header(mpi.compiler, "-x c -std=c99")?;
    for standard in if plus { &["c++11", "c++20"][..] } else { &[] } {
        // Of the interface of MPI in C++ that some libraries have beside the one in C, nothing is used.
        header(mpi.plus, &format!("-x c++ -std={standard} -D OMPI_SKIP_MPICXX -D MPICH_SKIP_MPICXX"))?;
    }
    for name in PROGRAMS {
        let source = Path::new("host/mpi/ffi/examples").join(name).with_extension("c");
        let build = compiler(mpi.compiler).words("-std=c99 -g -pthread").arg(source).arg("-o").arg(folder.join(name));
        let linked = if *name == STATIC {
            build.arg(library.join("libumbra_mpi_ffi.a")).arg("-lm")
        } else {
            build.arg("-L").arg(library).arg("-lumbra_mpi_ffi").arg(format!("-Wl,-rpath,{}", library.display()))
        };
        linked.succeed(log)?;
    }
    for &(ranks, name, words) in RUNS {
        run(mpi, ranks, &folder.join(name), words, &[], agent, log)?;
    }
    let (status, printed) = launch(mpi, 3, &folder.join("refusals"), "missing", agent).finish(log)?;
    if status.code() != Some(MISSING.1) || !printed.iter().any(|line| line.contains(MISSING.0)) {
        return Err(Failure::new(format!("{status} of a run without its rank 2:\n{}", printed.join("\n"))));
    }
    Ok(RUNS.len() + 1)
}
