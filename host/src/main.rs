//! The `umbra` command.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Not a subcommand for people: how `umbra run` starts the ranks of a job.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "rank") {
        return umbra::job::rank_main(arguments);
    }
    cli::main()
}
