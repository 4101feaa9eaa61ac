//! The one door for tests, benches and their tools.
//!
//! `cargo xtask test` is what the README promises and what the continuous integration runs: it installs what
//! the steps need where it may, runs every step, and ends with what failed. A step that can't run here says
//! `skipped: ` and why. Each step is a file in `steps/`; the order of the list in `steps.rs` is the order in
//! which they run, cheap ones first.
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod counts;
mod cross;
mod debian;
mod firmware;
mod guest;
mod install;
mod program;
mod rdma;
mod run;
mod source;
mod step;
mod steps;
mod summary;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use cli::Request;
use workspace::Workspace;

fn main() -> ExitCode {
    let request = match cli::parse() {
        Ok(request) => request,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", cli::HELP);
            return ExitCode::from(2);
        }
    };
    let done = Workspace::find().and_then(|workspace| match request {
        Request::Help => {
            print!("{}", cli::HELP);
            Ok(true)
        }
        Request::List => {
            steps::print_list();
            Ok(true)
        }
        Request::Test(selection) => step::run(&workspace, &selection),
        Request::Bench { name, options } => bench::run(&workspace, &name, &options),
        Request::Cross => cross::command(&workspace),
        Request::Tools => install::print_tools(&workspace),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
