//! Runs benches in the release profile.

use std::fs;
use std::path::PathBuf;

use crate::install;
use crate::rdma::Place;
use crate::run::{self, Log, Run};
use crate::step::Failure;
use crate::workspace::Workspace;

/// Seconds that building a bench and running it may take.
const LIMIT: u64 = 60 * 60;
/// The bench that needs an RDMA device.
const VERBS: &str = "verbs";
/// The bench whose peer is a program over MPI.
const BOUNDARY: &str = "boundary";
/// The bench whose peers are a program over each MPI.
const CALLS: &str = "gpc";
/// The program of agents, one of which it has outlive a rank, and the variable that names it there.
const AGENT: (&str, &str) = ("umbra-agent", "UMBRA_BENCH_AGENT");
/// The example of `host/mpi` that measures ours over MPI for it, and the variable that names it there.
const OVER_MPI: (&str, &str) = ("mostly_empty", "UMBRA_MOSTLY_EMPTY");
/// What stands before and behind its rows, among what the guest's console shows, and before its exit code.
const MARK: &str = "umbra-bench: rows";
const ENDED: &str = "umbra-bench: ended with ";

/// Runs one bench, or all of them; its rows go to standard output as they are, everything else to standard error. Whether no
/// bar was missed.
pub(crate) fn run(workspace: &Workspace, name: &Option<String>, options: &[String]) -> Result<bool, Failure> {
    let known = names(&workspace.read("tests/Cargo.toml")?);
    let wanted = match name {
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => return Err(Failure::new(format!("no bench is called {name}; there are {}", known.join(", ")))),
        None => known,
    };
    let mut good = true;
    for bench in wanted {
        // Optimizing the whole program at once takes minutes, in which nothing else is said.
        eprintln!("bench {bench}: building it first");
        if bench == VERBS {
            good &= at_device(workspace, options)?;
            continue;
        }
        let words = ["bench", "--quiet", "--package", "umbra-tests", "--bench", &bench, "--"];
        let mut measured = Run::cargo().args(words).args(options).limit(LIMIT);
        if bench == BOUNDARY
            && let Some(program) = prepare_mpi(workspace)?
        {
            measured = measured.env(OVER_MPI.1, program);
        }
        if bench == CALLS {
            let log = Log::create(&workspace.folder("xtask-logs")?.join("bench-gpc.log"), false)?;
            let build = Run::cargo().words("build --release --package umbra-dpu --bin").arg(AGENT.0);
            match build.succeed(&log) {
                Ok(()) => measured = measured.env(AGENT.1, workspace.target.join("release").join(AGENT.0)),
                Err(failure) => eprintln!("bench {CALLS}: without agents: {failure}"),
            }
            for mpi in [install::Mpi::OPEN, install::Mpi::MPICH] {
                if let Err(reason) = install::system_packages(mpi.packages, &log) {
                    eprintln!("bench {CALLS}: without {}: {reason}", mpi.name);
                }
            }
        }
        good &= measured.status()?.success();
    }
    Ok(good)
}

/// Brings MPI where that is allowed, and builds ours on it; the bench itself says which rows are missing without.
fn prepare_mpi(workspace: &Workspace) -> Result<Option<PathBuf>, Failure> {
    let log = Log::create(&workspace.folder("xtask-logs")?.join("bench-boundary.log"), false)?;
    let packages = install::system_packages(install::Mpi::OPEN.packages, &log);
    let build = packages.and_then(|()| install::Libclang::prepare(&log)).map(|libclang| {
        let cargo = Run::cargo().words("build --release --manifest-path host/mpi/Cargo.toml --example").arg(OVER_MPI.0);
        // The driver whose library the launcher of the bench is of.
        libclang.env(cargo.arg("--target-dir").arg(&workspace.target)).env("MPICC", "mpicc")
    });
    match build.and_then(|build| build.succeed(&log).map_err(|failure| failure.to_string())) {
        Ok(()) => Ok(Some(workspace.target.join("release/examples").join(OVER_MPI.0))),
        Err(reason) => {
            eprintln!("bench {BOUNDARY}: without MPI, or without ours on it: {reason}");
            Ok(None)
        }
    }
}

/// Runs the bench of verbs where there is a device; what the machine lacks for that is said. Whether no bar was missed.
fn at_device(workspace: &Workspace, options: &[String]) -> Result<bool, Failure> {
    fs::create_dir_all(&workspace.scratch)?;
    let log = Log::create(&workspace.folder("xtask-logs")?.join("bench-verbs.log"), false)?;
    let build = Run::cargo()
        .words("bench --package umbra-tests --bench verbs --no-run --message-format=json-render-diagnostics");
    let (_, printed) = build.finish(&log)?;
    let program: Option<PathBuf> = printed.iter().find_map(|line| run::built(line, &[VERBS]));
    let program = program.ok_or_else(|| Failure::new(format!("not built: {}", log.path().display())))?;
    let place = install::system_packages(&["perftest"], &log).map(|()| Place::find(workspace, &log));
    let place = match place.and_then(|found| found.unwrap_or_else(|failure| Err(failure.to_string()))) {
        Ok(place) => place,
        Err(reason) => {
            eprintln!("bench {VERBS}: skipped: {reason}");
            return Ok(true);
        }
    };
    let quoted: String = options.iter().map(|option| format!(" '{}'", option.replace('\'', "'\\''"))).collect();
    let program = program.display();
    // The shell ends at a failure, and rows are wanted also where one of them missed its bar.
    let script =
        format!("echo {MARK}\nended=0\n'{program}' --bench{quoted} || ended=$?\necho {MARK}\necho {ENDED}$ended\n");
    let printed = place.run(&script, &log)?;
    // The console may put something before the first line.
    let is_mark = |line: &&String| line.ends_with(MARK);
    for line in printed.iter().skip_while(|line| !is_mark(line)).skip(1).take_while(|line| !is_mark(line)) {
        if line.starts_with("note: ") || line.starts_with("missed: ") || line.ends_with(" ...") {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }
    match printed.iter().find_map(|line| line.split_once(ENDED)) {
        Some((_, "0")) => Ok(true),
        Some((_, "1")) => Ok(false),
        _ => Err(Failure::new(format!("the bench of verbs ended before it was done: {}", log.path().display()))),
    }
}

/// Names of the benches that a manifest lists.
fn names(manifest: &str) -> Vec<String> {
    let sections = manifest.split("[[bench]]").skip(1);
    let name = |section: &str| {
        let line =
            section.lines().take_while(|line| !line.starts_with('[')).find_map(|line| line.strip_prefix("name"))?;
        Some(line.trim_start().strip_prefix('=')?.trim().trim_matches('"').to_owned())
    };
    sections.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benches_are_those_that_the_manifest_lists() {
        let manifest = "[lib]\nbench = false\n[[bench]]\nname = \"a\"\nharness = false\n[[bench]]\npath = \"b/main.rs\"\nname = \"b\"\n[lints]\nname = 1\n";
        assert_eq!(names(manifest), ["a", "b"]);
        assert_eq!(names("[lib]\n"), Vec::<String>::new());
    }
}
