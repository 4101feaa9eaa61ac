//! The steps, in the order in which they run.
//!
//! A step is the function of its name, or `check` where a file holds only one. It says in one line what holds when it
//! passes; what it starts, it starts through [`Run`](crate::run::Run), so that a failure shows the command.

use crate::step::{Bench, Failure, Step, Verdict};

mod atomics;
mod cross;
mod dependencies;
mod dpu;
mod features;
mod firmware;
mod fuzz;
mod layers;
mod leftovers;
mod lints;
mod mpi;
mod policy;
pub(crate) mod rdma;
mod run;
mod sanitizer;
mod schedules;
mod style;
mod symbols;
mod tests;
mod unsafe_code;

/// Every step; those that fail quickest come first. What runs beside others begins when those before it are over.
pub(crate) const ALL: &[Step] = &[
    step("fmt", "the sources are formatted", lints::fmt),
    step("style", "every file is short, says what it is, and names nothing it should not", style::check),
    step("layers", "modules and packages import downwards only", layers::check),
    step("unsafe", "unsafe code stays in the named files", unsafe_code::check),
    step("dependencies", "every dependency says why it is there", dependencies::dependencies),
    step("clippy", "no lint complains, on any target", lints::clippy),
    step("doc", "the documentation builds without a warning", lints::doc),
    beside("features", "each feature builds alone, and so does none", features::features),
    beside("symbols", "core and the agent's engine need nothing but mem*", symbols::check),
    beside("bare-metal", "core and the agent's engine build without an operating system", features::bare_metal),
    beside("loom", "lock-free structures hold under every interleaving that loom tries", atomics::loom),
    beside("crash-points", "a process may die before any operation on words that it shares", atomics::crash_points),
    beside("deny", "licences, sources and bans of the dependencies are in order", dependencies::deny),
    step("tests", "unit tests, integration tests and examples pass", tests::check),
    step("schedules", "no random schedule of the bootstrap or of calls breaks a rule", schedules::check),
    step("run", "the main job agrees byte for byte on every data path", run::check),
    step("rdma", "RDMA by verbs works: on this machine's device, or in a guest with one in software", rdma::check),
    step("mpi", "boundary exchange and groups work over MPI: Open MPI and MPICH", mpi::check),
    step("cross", "the agent and the command build for a DPU and start there", cross::check),
    step("dpu", "a host and a DPU, two guests of different processors, work together", dpu::check),
    step("firmware", "firmware on emulated boards serves host processes, and its end is noticed", firmware::check),
    step("leftovers", "tests and jobs left no process, file or segment", leftovers::check),
    step("tsan", "ThreadSanitizer finds no data race in concurrent tests", sanitizer::tsan),
    step("miri", "Miri finds no undefined behaviour in the tests of core", sanitizer::miri),
    step("fuzz", "coverage-guided fuzzing finds no panic and no hang", fuzz::check),
];

const fn step(name: &'static str, what: &'static str, check: fn(&Bench<'_>) -> Result<Verdict, Failure>) -> Step {
    Step { name, what, check, beside: false }
}

const fn beside(name: &'static str, what: &'static str, check: fn(&Bench<'_>) -> Result<Verdict, Failure>) -> Step {
    Step { beside: true, ..step(name, what, check) }
}

/// Prints the steps for `--list`.
pub(crate) fn print_list() {
    for step in ALL {
        println!("{:<14} {}", step.name, step.what);
    }
}

/// How to run only these steps.
pub(crate) fn alone(names: &[&str]) -> String {
    let only: Vec<String> = names.iter().map(|name| format!(" --only {name}")).collect();
    format!("cargo xtask test{}", only.concat())
}
