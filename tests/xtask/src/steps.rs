//! The steps, in the order in which they run.

use crate::step::Step;

mod dependencies;
mod features;
mod fuzz;
mod layers;
mod leftovers;
mod lints;
mod models;

mod policy;
mod rdma;
mod sanitizer;
mod schedules;
mod smoke;
mod style;
mod symbols;
mod tests;
mod unsafe_code;

/// Every step; those that fail quickest come first.
pub(crate) const ALL: &[Step] = &[
    Step { name: "fmt", what: "the sources are formatted", check: lints::fmt },
    Step {
        name: "style",
        what: "every file is short, says what it is, and names nothing it should not",
        check: style::check,
    },
    Step { name: "layers", what: "modules and packages import downwards only", check: layers::check },
    Step { name: "unsafe", what: "unsafe code stays in the named files", check: unsafe_code::check },
    Step { name: "dependencies", what: "every dependency says why it is there", check: dependencies::reasons },
    Step { name: "clippy", what: "no lint complains, on any target", check: lints::clippy },
    Step { name: "doc", what: "the documentation builds without a warning", check: lints::doc },
    Step { name: "tests", what: "unit tests, integration tests and examples pass", check: tests::workspace },
    Step { name: "schedules", what: "no random schedule of the bootstrap breaks a rule", check: schedules::check },
    Step { name: "run", what: "the main job agrees byte for byte on every data path", check: smoke::check },
    Step {
        name: "rdma",
        what: "RDMA by verbs works: on this machine's device, or in a guest with one in software",
        check: rdma::check,
    },
    Step { name: "leftovers", what: "tests and jobs left no process, file or segment", check: leftovers::check },
    Step { name: "features", what: "every combination of features builds", check: features::powerset },
    Step { name: "symbols", what: "core and the agent's engine need nothing but mem*", check: symbols::check },
    Step {
        name: "bare-metal",
        what: "core and the agent's engine build without an operating system",
        check: features::bare_metal,
    },
    Step {
        name: "loom",
        what: "lock-free structures hold under every interleaving that loom tries",
        check: models::loom,
    },
    Step { name: "tsan", what: "ThreadSanitizer finds no data race in concurrent tests", check: sanitizer::threads },
    Step { name: "miri", what: "Miri finds no undefined behaviour in the tests of core", check: sanitizer::miri },
    Step { name: "fuzz", what: "coverage-guided fuzzing finds no panic and no hang", check: fuzz::check },
    Step {
        name: "deny",
        what: "licences, sources and bans of the dependencies are in order",
        check: dependencies::deny,
    },
];

/// Prints the steps for `--list`.
pub(crate) fn print_list() {
    for step in ALL {
        println!("{:<14} {}", step.name, step.what);
    }
}
