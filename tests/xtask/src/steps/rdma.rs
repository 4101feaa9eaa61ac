//! RDMA by verbs, on a real device or on one in software.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guest::tail;
use crate::install::RdmaSys;
use crate::program::Program;
use crate::rdma::Place;
use crate::run::{self, Log, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::{PROFILE, PROGRAMS};

/// Tests that need a device; each says `skipped: ` if it found none, which is a failure here.
const TESTS: &[&str] = &[
    "verbs",
    "verbs_memory",
    "verbs_shared",
    "verbs_transport",
    "verbs_access",
    "verbs_window",
    "verbs_manager",
    "verbs_loopback",
    "verbs_session",
    "verbs_revoke",
    "verbs_ranks",
    "verbs_job",
    "verbs_choice",
    "verbs_boundary",
    "verbs_allocations",
    "verbs_calls",
    LINK_TESTS[0],
    LINK_TESTS[1],
];
/// Tests that take the link down and the device away; they run where both are ours.
const LINK_TESTS: [&str; 2] = ["verbs_link", "verbs_faults"];
/// Programs that tests start, which look for them beside the folder that they lie in themselves.
const STARTED: [&str; 2] = ["umbra", "umbra-agent"];

/// Runs the tests where there is a device: on this machine, or in a guest. Once with libibverbs bound at run time, and once
/// with the types and calls of `rdma-sys`, where that can be built.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let place = match Place::find(bench.workspace, bench.log)? {
        Ok(place) => place,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let rdma_sys = RdmaSys::prepare(bench.log);
    // Both forms are built to the same names; the one that others expect there comes last.
    let linked = if rdma_sys.is_here() { Some(Suite::linked(bench, &rdma_sys)?) } else { None };
    let bound = Suite::bound(bench)?;
    for suite in [&bound].into_iter().chain(&linked) {
        let printed = place.run(&suite.script(&place), bench.log)?;
        if printed.iter().any(|line| line.contains("skipped: ")) {
            return Err(Failure::new(tail(&printed)));
        }
    }
    let also = if linked.is_some() { "also with rdma-sys".to_owned() } else { rdma_sys.remark() };
    Ok(Verdict::Passed(format!("{}, {also}", place.name())))
}

/// The tests, built in one way, and the programs that they start.
struct Suite {
    folder: PathBuf,
    tests: Vec<PathBuf>,
}

impl Suite {
    /// With libibverbs bound at run time, where cargo puts them.
    fn bound(bench: &Bench<'_>) -> Result<Suite, Failure> {
        Run::cargo().words("build").words(PROGRAMS).succeed(bench.log)?;
        let tests = programs(Run::cargo().words("test --workspace --profile").arg(PROFILE), TESTS, bench.log)?;
        Ok(Suite { folder: bench.workspace.target.join(PROFILE), tests })
    }

    /// With `rdma-sys`, in a folder of their own.
    fn linked(bench: &Bench<'_>, rdma_sys: &RdmaSys) -> Result<Suite, Failure> {
        let run = || rdma_sys.env(Run::cargo());
        let features = ["--features", rdma_sys.features()];
        run().words("build").words(PROGRAMS).args(features).succeed(bench.log)?;
        let test = run().words("test --workspace --profile").arg(PROFILE).args(features);
        let built = programs(test, TESTS, bench.log)?;
        let folder = bench.workspace.folder("rdma-sys")?;
        fs::remove_dir_all(&folder)?;
        fs::create_dir_all(folder.join("deps"))?;
        let keep = |program: &Path, folder: &Path| {
            let kept = folder.join(program.file_name().unwrap_or_default());
            // What cargo builds next is another file of this name.
            fs::hard_link(program, &kept).map(|()| kept)
        };
        for program in STARTED {
            keep(&bench.workspace.target.join(PROFILE).join(program), &folder)?;
        }
        let tests = built.iter().map(|test| keep(test, &folder.join("deps"))).collect::<Result<_, _>>()?;
        Ok(Suite { folder, tests })
    }

    /// Lists the device, and runs the tests.
    fn script(&self, place: &Place) -> String {
        let link = place.link().map_or_else(String::new, |link| format!("export UMBRA_TEST_LINK={link}\n"));
        let mut script = format!("{link}'{}' devices\n", self.folder.join("umbra").display());
        for test in &self.tests {
            if place.link().is_some() || !LINK_TESTS.iter().any(|name| run::is_named(test, name)) {
                script += &format!("'{}' --test-threads=1 --nocapture\n", test.display());
            }
        }
        script
    }
}

/// Builds these tests by a command of cargo; their programs.
pub(super) fn programs(build: Run, names: &[&str], log: &Log) -> Result<Vec<PathBuf>, Failure> {
    let tests = names.iter().flat_map(|&test| ["--test", test]);
    let is_one = |path: &PathBuf| names.iter().any(|name| run::is_named(path, name));
    let built = Program::all(build.args(tests), log)?;
    let programs: Vec<PathBuf> = built.into_iter().map(|program| program.path).filter(|path| is_one(path)).collect();
    if programs.len() != names.len() {
        return Err(Failure::new(format!("of {} programs of tests, {} were found", names.len(), programs.len())));
    }
    Ok(programs)
}
