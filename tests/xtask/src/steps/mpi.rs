//! Umbra on MPI, a package outside the workspace.
//!
//! It is built once for each MPI library and run by that library's launcher.

mod in_c;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::install::{self, CXX, Libclang, Mpi};
use crate::run::{Log, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::leftovers;
use crate::steps::tests::{PROFILE, PROGRAMS};

/// Ranks of a run, and what is asked for: every transport with each number of ranks and both problems, dense, sparse, split, in
/// reversed order and with delays. Every run proves its bits or its answers by itself and says so by its exit code.
const RUNS: &[(u32, &str)] = &[
    (1, "advect --problem shift --cells 8 --radius 2 --cycles 24"),
    (2, "advect --problem shift --cells 8 --radius 2 --cycles 24 --dense"),
    (3, "advect --problem shift --cells 8 --radius 2 --cycles 24 --split --reversed"),
    (4, "advect --problem shift --cells 8 --radius 2 --cycles 24 --delay-us 300"),
    (2, "advect --problem smooth --cells 8 --radius 2 --cycles 24"),
    (3, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --dense"),
    (4, "advect --problem smooth -d 3 --cells 6 --radius 2 --cycles 10 --split"),
    (8, "advect --problem smooth -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --reversed"),
    (8, "advect --problem shift -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --split"),
    (3, "advect --problem smooth --cells 8 --refine 2..5 --radius 2 --cycles 24"),
    (4, "advect --problem smooth --cells 8 --refine 2..5 --radius 2 --cycles 24 --transport early --split"),
    (1, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport early --reversed"),
    (2, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport early --dense"),
    (3, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport early"),
    (4, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport early --split"),
    (8, "advect --problem smooth -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport early --delay-us 300"),
    (1, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport early --reversed"),
    (2, "advect --problem shift -d 3 --cells 6 --radius 2 --cycles 10 --transport early --delay-us 300"),
    (3, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport early --reversed"),
    (4, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport early --dense"),
    (8, "advect --problem shift -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport early"),
    // More than a thousand channels of a pair.
    (2, "advect --problem smooth -d 3 --cells 6 --radius 2 --cycles 6 --transport early"),
    (1, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport probe --split"),
    (2, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport probe --delay-us 300"),
    (3, "advect --problem shift -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport probe --reversed"),
    (4, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport probe"),
    (8, "advect --problem shift -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport probe --dense"),
    (1, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport probe --dense"),
    (2, "advect --problem smooth -d 3 --cells 6 --radius 2 --cycles 10 --transport probe --reversed"),
    (3, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport probe --delay-us 300"),
    (4, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport probe --split"),
    (1, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport rma --dense"),
    (2, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport rma --split --reversed"),
    (3, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport rma --split --delay-us 300"),
    (4, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport rma --reversed"),
    (8, "advect --problem smooth -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport rma"),
    (1, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport rma --split"),
    (2, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport rma --dense"),
    (4, "advect --problem shift -d 3 --cells 6 --radius 2 --cycles 10 --transport rma --delay-us 300"),
    (8, "advect --problem shift -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport rma --reversed"),
    (1, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport nodes"),
    (2, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport nodes --split"),
    (3, "advect --problem shift --cells 8 --radius 2 --cycles 24 --transport nodes --nodes 2 --delay-us 300"),
    (4, "advect --problem shift -d 3 --cells 6 --radius 2 --cycles 10 --transport nodes --nodes 2 --dense"),
    (8, "advect --problem shift -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport nodes --nodes 3 --split"),
    (1, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport nodes --reversed"),
    (2, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport nodes --nodes 2"),
    (3, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --transport nodes --dense"),
    (
        4,
        "advect --problem smooth --cells 8 --refine 2..5 --radius 2 --cycles 24 --transport nodes --nodes 2 --reversed",
    ),
    (8, "advect --problem smooth -d 3 --blocks 2 --cells 6 --radius 2 --cycles 10 --transport nodes --nodes 8"),
    (4, "advect --problem shift --cells 8 --radius 2 --cycles 24 --remesh 5"),
    (3, "advect --problem shift --cells 8 --radius 2 --cycles 24 --remesh 3 --transport nodes --nodes 2"),
    (3, "advect --problem smooth --cells 8 --radius 2 --cycles 24 --remesh 1 --transport rma"),
    (3, "advect --problem shift --cells 8 --radius 2 --cycles 24 --remesh 2 --transport early"),
    (2, "advect --problem smooth --cells 8 --refine 2..5 --radius 2 --cycles 24 --remesh 7 --transport probe"),
    // More ranks than blocks: some have none, also when blocks are dealt anew.
    (6, "advect --problem smooth --blocks 2 --cells 4 --fields 2 --radius 1 --cycles 20"),
    (6, "advect --problem shift --blocks 2 --cells 4 --fields 2 --radius 1 --cycles 20 --transport early --remesh 3"),
    (5, "advect --problem smooth --blocks 2 --cells 4 --fields 2 --radius 1 --cycles 20 --transport probe --split"),
    (6, "advect --problem shift --blocks 2 --cells 4 --fields 2 --radius 1 --cycles 20 --transport rma --remesh 1"),
    (6, "advect --problem smooth --blocks 2 --cells 4 --fields 2 --radius 1 --cycles 20 --transport nodes --nodes 2"),
    // The reference cases, at their full size and length.
    (4, "advect --problem shift"),
    (4, "advect --problem shift -d 3"),
    (4, "advect --problem smooth"),
    (4, "advect --problem smooth -d 3"),
    (2, "advect --problem shift --transport early"),
    (3, "advect --problem smooth --transport rma --split"),
    (4, "advect --problem smooth --transport nodes --nodes 2"),
    (8, "advect --problem smooth --transport probe"),
    (2, "advect --problem shift --transport rma --dense"),
    (1, "advect --problem smooth --split"),
    (8, "group"),
    // Several nodes, with an agent each, on this machine.
    (4, "group --nodes 2"),
    (3, "group --nodes 3"),
];
/// Ranks of a run of an example, which one, and what is asked for.
const EXAMPLES: &[(u32, &str, &str)] = &[
    // So many random exchanges over every transport.
    (2, "random_exchanges", "10000"),
    (5, "random_exchanges", "100"),
    (8, "random_exchanges", "40"),
    // What the bench of boundary exchange runs.
    (2, "mostly_empty", "64 512 3 5"),
    (2, "mostly_empty", "64 512 3 5 nodes"),
    // The ends of every transport, made anew over what was left for those before.
    (2, "ends_anew", ""),
    (3, "ends_anew", ""),
    // A job and an exchange of all processes but one, in another order.
    (2, "part", ""),
    (6, "part", ""),
    // A job that one process has no means for.
    (3, "job_fails", ""),
    // Memory of a node that one process cannot have.
    (1, "unshared", ""),
    (3, "unshared", ""),
    // Windows of different sizes, for two ends at a time, and that nobody writes.
    (3, "windows", ""),
    // Messages that are not as long as they should be.
    (3, "other_sizes", ""),
    // Messages whose heads are damaged, of an old epoch, or of another plan.
    (2, "forged_heads", ""),
    // Slots that are full, or too small for what comes.
    (2, "full_slots", ""),
    // A rank that stalls: strips that are copied at once, and such as stay on their way while all finalize.
    (3, "stalled", "slot 4"),
    (3, "stalled", "slot 65536"),
    (4, "stalled", "slot 65536 again"),
    (3, "stalled", "rma 4"),
    (3, "stalled", "rma 65536"),
    (4, "stalled", "rma 65536 again"),
    (3, "stalled", "rma 65536 begun"),
    (3, "stalled", "early 4"),
    (3, "stalled", "early 65536"),
    (4, "stalled", "early 65536 again"),
    (3, "stalled", "probe 4"),
    (3, "stalled", "probe 65536"),
    (4, "stalled", "probe 65536 again"),
];
/// Runs of three ranks, one of which is stopped in the middle of a message.
const BEGUN: &[&str] =
    &["slot 65536 begun", "early 65536 begun", "probe 65536 begun", "rma 65536 begun", "slot 65536 plan"];
/// Keeps Open MPI from reading long messages out of the memory of a process that is stopped: so they stay in the
/// middle.
const COPIED_BY_BOTH: (&str, &str) = ("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
/// Has Open MPI read windows by messages, as between machines: what is read of a process that is stopped does not come.
const READ_BY_BOTH: (&str, &str) = ("OMPI_MCA_osc", "pt2pt");
/// Ranks that are killed, each in a run of three: the first, and another one.
const KILLED: &[u32] = &[0, 1];
/// Transports over which a rank is killed that two others outlive, which know of those of their node soon.
const OUTLIVED: &[&str] = &["slot", "early", "probe", "rma", "nodes", "apart", "vote"];
/// Runs a program that a launcher's own signal does not end, and whose death it does not see.
const SHELTERED: &str = r#"trap "" USR1; "$0" "$@"; exit 0"#;
/// How long what belongs to a run that failed may take to end.
const GRACE: Duration = Duration::from_secs(20);
/// Seconds of a run, on a machine with fewer processors than ranks.
const LIMIT: u64 = 180;

/// Lints the package, and builds and runs all of it with each MPI library that is here or can be installed.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let libclang = match Libclang::prepare(bench.log) {
        Ok(libclang) => libclang,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    Run::cargo()
        .words("fmt --check --manifest-path host/mpi/Cargo.toml -p umbra-mpi -p umbra-mpi-ffi")
        .succeed(bench.log)?;
    // The agent that the processes of a node start.
    Run::cargo().words("build").words(PROGRAMS).succeed(bench.log)?;
    let agent = bench.workspace.target.join(PROFILE).join("umbra-agent");
    // The library for C is built on that of the workspace, with other features. Cargo would give both the same file.
    let target = bench.workspace.folder("mpi")?;
    let (mut here, mut missing, mut runs) = (Vec::new(), Vec::new(), 0);
    let plus = install::system_tool(CXX, bench.log).map_err(|reason| missing.push(reason)).is_ok();
    for mpi in [Mpi::OPEN, Mpi::MPICH] {
        match install::system_packages(mpi.packages, bench.log) {
            Ok(()) => {
                let cargo = |words: &str| {
                    let run =
                        Run::cargo().words(words).words("--manifest-path host/mpi/Cargo.toml --profile").arg(PROFILE);
                    libclang.env(run.arg("--target-dir").arg(&target)).env("MPICC", mpi.compiler)
                };
                // A change of the compiler driver alone does not build the bindings anew.
                cargo("clean --package mpi-sys").succeed(bench.log)?;
                if here.is_empty() {
                    cargo("clippy --workspace --all-targets").words("-- -D warnings").succeed(bench.log)?;
                }
                cargo("test --workspace").succeed(bench.log)?;
                cargo("build --workspace --lib --bins --examples").succeed(bench.log)?;
                let built = target.join(PROFILE);
                runs += run_all(bench, &mpi, &built, &agent)?;
                runs += in_c::check(&mpi, &built, &built.join("examples"), plus, &agent, bench.log)?;
                here.push(mpi.name);
            }
            Err(reason) => missing.push(reason),
        }
    }
    if here.is_empty() {
        return Ok(Verdict::Skipped(missing.join(", ")));
    }
    let ran = format!("{runs} runs by {}", here.join(" and "));
    if missing.is_empty() {
        return Ok(Verdict::Passed(ran));
    }
    Ok(Verdict::Partly(format!("{ran}, not with all: {}", missing.join(", "))))
}

/// Runs all that was built with one library; how many runs that was.
fn run_all(bench: &Bench<'_>, mpi: &Mpi, folder: &Path, agent: &Path) -> Result<usize, Failure> {
    let program = folder.join("umbra-mpi");
    let go = |ranks, words: &str, path: &[&Path]| run(mpi, ranks, &program, words, path, agent, bench.log);
    RUNS.iter().try_for_each(|&(ranks, words)| go(ranks, words, &[]))?;
    let examples = folder.join("examples");
    for &(ranks, name, words) in EXAMPLES {
        run(mpi, ranks, &examples.join(name), words, &[], agent, bench.log)?;
    }
    BEGUN.iter().try_for_each(|words| begun(mpi, words, &examples.join("stalled"), agent, bench.log))?;
    KILLED.iter().try_for_each(|&rank| killed(bench, mpi, rank, folder, agent))?;
    OUTLIVED.iter().try_for_each(|transport| outlives(mpi, transport, &examples.join("outlived"), bench.log))?;
    asked(bench, mpi, &examples.join("asked"), agent)?;
    let page = bench.workspace.scratch.join("blobs.html");
    go(3, "advect --blocks 4 --cells 8 --radius 2 --cycles 24 --json --plot", &[&page])?;
    let text = fs::read_to_string(&page).map_err(|e| Failure::new(format!("{}: {e}", page.display())))?;
    fs::remove_file(&page)?;
    // The last picture has what all ranks told.
    let whole = text.starts_with("<!doctype html>") && text.contains("step 24, on") && text.contains("over mpi-slot");
    if whole {
        return Ok(RUNS.len() + EXAMPLES.len() + BEGUN.len() + 2 * KILLED.len() + OUTLIVED.len() + 2);
    }
    Err(Failure::new(format!("{} is not the page of that run", page.display())))
}

/// Runs three ranks, one of which is stopped after it has begun to send. Where the library cannot end such a receive,
/// its memory must have been left to it.
fn begun(mpi: &Mpi, words: &str, program: &Path, agent: &Path, log: &Log) -> Result<(), Failure> {
    let both = [COPIED_BY_BOTH, READ_BY_BOTH];
    let run = both.iter().fold(launch(mpi, 3, program, words, agent), |run, (name, value)| run.env(name, value));
    let (status, printed) = run.finish(log)?;
    let left = |line: &&String| line.ends_with(" bytes are left to the library") && !line.starts_with("0 ");
    let stopped = mpi.name != Mpi::OPEN.name || printed.iter().filter(left).count() == 2;
    if status.success() && stopped {
        return Ok(());
    }
    let why = if stopped { "" } else { ", and no message was stopped in the middle" };
    Err(Failure::new(format!("{status} of stalled {words}{why}:\n{}", printed.join("\n"))))
}

/// Runs three ranks, each with an agent, of which one is killed: the launcher says so, nothing of the run goes on, and the next job
/// removes what it has left.
fn killed(bench: &Bench<'_>, mpi: &Mpi, rank: u32, built: &Path, agent: &Path) -> Result<(), Failure> {
    let program: &Path = &built.join("examples/killed");
    let folder = bench.workspace.scratch.join("killed");
    fs::create_dir_all(&folder)?;
    // Others may run that program at the same time.
    let own = folder.join("agent");
    fs::copy(agent, &own)?;
    let run = launch(mpi, 3, program, &rank.to_string(), &own).env("TMPDIR", &folder);
    let (status, printed) = run.finish(bench.log)?;
    if status.success() || !printed.iter().any(|line| line.contains(&format!("rank {rank} is killed"))) {
        return Err(Failure::new(format!("{status} of a run whose rank {rank} is killed:\n{}", printed.join("\n"))));
    }
    let left = || [program, &own].into_iter().flat_map(leftovers::processes).collect::<Vec<_>>();
    let begun = Instant::now();
    while !left().is_empty() && begun.elapsed() < GRACE {
        thread::sleep(Duration::from_millis(50));
    }
    Failure::unless_empty(&left(), "")?;
    // Agents whose ranks could not end them leave files, which the next job there removes.
    let files = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(&folder)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.filter(|name| name.starts_with("umbra-")).collect())
    };
    if files()?.is_empty() {
        return Err(Failure::new("a killed rank has left no files that could be removed"));
    }
    launch(mpi, 1, &built.join("umbra-mpi"), "group", &own).env("TMPDIR", &folder).succeed(bench.log)?;
    Failure::unless_empty(&files()?, "")?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// Runs three ranks of which one is killed, by a launcher that lets the others live: both name what is missing of it.
fn outlives(mpi: &Mpi, transport: &str, program: &Path, log: &Log) -> Result<(), Failure> {
    let run = launcher(mpi, 3).arg(mpi.outlive).words("sh -c").arg(SHELTERED).arg(program).arg(transport);
    let (_, printed) = run.finish(log)?;
    let told = |rank: u32| {
        let missing = format!("rank 1: block 1 to block {rank}, field 0");
        let missing = if transport == "vote" { " of rank 1 has ended" } else { &missing };
        printed.iter().any(|line| line.contains(&format!("rank {rank} outlives")) && line.contains(missing))
    };
    if told(0) && told(2) {
        return Ok(());
    }
    Err(Failure::new(format!("not all that outlive a rank name it, over {transport}:\n{}", printed.join("\n"))))
}

/// Asks a job by a tool that was not told where it is.
fn asked(bench: &Bench<'_>, mpi: &Mpi, program: &Path, agent: &Path) -> Result<(), Failure> {
    // No other job runs there.
    let folder = bench.workspace.scratch.join("asked");
    fs::create_dir_all(&folder)?;
    let run = launch(mpi, 3, program, "", agent).arg(agent.with_file_name("umbra"));
    run.env("TMPDIR", &folder).succeed(bench.log)?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// Runs so many ranks.
fn run(
    mpi: &Mpi,
    ranks: u32,
    program: &Path,
    words: &str,
    path: &[&Path],
    agent: &Path,
    log: &Log,
) -> Result<(), Failure> {
    launch(mpi, ranks, program, words, agent).args(path).succeed(log)
}

/// So many ranks, to be run.
fn launch(mpi: &Mpi, ranks: u32, program: &Path, words: &str, agent: &Path) -> Run {
    launcher(mpi, ranks).arg(program).words(words).env("UMBRA_AGENT", agent)
}

/// What starts so many ranks of the program that follows.
fn launcher(mpi: &Mpi, ranks: u32) -> Run {
    let run = Run::new(mpi.launcher).words(mpi.options).arg("-n").arg(ranks.to_string()).limit(LIMIT);
    mpi.environment.iter().fold(run, |run, (name, value)| run.env(name, value))
}
