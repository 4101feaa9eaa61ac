//! The agent: one service process of an Umbra job.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use umbra::config::Environment;
use umbra_dpu::hosted::{Options, Process};

/// Runs one service process: gathers its ranks, fills the endpoint cache with its peers, serves and reads memory.
///
/// Ends cleanly on SIGTERM. With --supervised a launcher is at the standard input.
#[derive(Parser, Debug)]
#[command(name = "umbra-agent", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umbra-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let settings = arguments.options.settle(Environment::of_process()?)?;
    let (sp, supervised, address) = (settings.sp, settings.supervised, settings.job.address(settings.sp));
    let mut process = Process::new(settings)?;
    process.open()?;
    if !supervised && let Some(address) = address {
        println!(
            "umbra-agent: service process {sp} ready: services at {}, ranks at {}",
            address.services, address.ranks
        );
    }
    process.run()?;
    Ok(())
}
