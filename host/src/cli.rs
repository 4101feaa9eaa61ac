//! What users type and what they see.
//!
//! One module a subcommand, each with its arguments and its work; beside them the words that they share: tables,
//! styles, progress. Exit codes: 0 done and good, 1 done and not good or failed, 2 not understood.

mod advect;
mod call;
mod channel;
mod check_config;
mod clean;
mod devices;
mod diff;
mod doctor;
mod dump;
mod failure;
#[cfg(feature = "firmware-log")]
mod firmware_log;
mod found;
mod gather;
mod group;
mod interrupt;
mod lookup;
mod outcome;
mod output;
mod pages;
mod paint;
mod picture;
mod pipe;
mod pool;
mod progress;
mod reach;
mod run;
#[cfg(test)]
mod sample;
mod sim;
mod stencil;
mod stream;
mod table;
mod top;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Moves bytes out of other processes' memory through their service processes, and knows who is where.
///
/// Without a command, `umbra` is `umbra run`: real ranks and real agents on this machine, every byte checked.
#[derive(Parser, Debug)]
#[command(name = "umbra", version, override_usage = "umbra [OPTIONS] [COMMAND]", styles = paint::HELP, after_help = EXAMPLES, max_term_width = 110)]
struct Command {
    /// When to colour the output
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto)]
    color: clap::ColorChoice,
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = paint::examples!(
    "umbra"                                   "run the main job: 2 hosts x 2 service processes x 4 ranks";
    "umbra run --hosts 4 --report run.html"   "a larger job, with a page to look at";
    "umbra check-config platform.cfg"         "is this configuration file usable?";
    "umbra stencil --order strips"            "a stencil over a file, with fewer slots than bricks";
    "umbra advect"                            "blobs through a mesh of several ranks, bit for bit";
    "umbra call barrier"                      "one call over all members of a running job, and its tree";
    "umbra pool ls"                           "the pools of shared memory, and how full they are";
    "umbra top"                               "pools, channels and streams as they change";
    "umbra pipe recv NAME"                    "what `umbra pipe send NAME` reads in another shell";
    "umbra help run"                          "everything that a job can be asked for";
);

#[derive(Subcommand, Debug)]
enum What {
    Run(run::Run),
    Lookup(lookup::Lookup),
    Dump(dump::Dump),
    Diff(diff::Diff),
    Doctor(doctor::Doctor),
    Call(call::Call),
    Sim(sim::Sim),
    Stencil(stencil::Stencil),
    Advect(advect::Advect),
    CheckConfig(check_config::CheckConfig),
    Devices(devices::Devices),
    Pool(pool::Inspect),
    Channel(channel::Inspect),
    Stream(stream::Inspect),
    Pipe(pipe::Pipe),
    Clean(clean::Clean),
    Top(top::Top),
    #[cfg(feature = "firmware-log")]
    FirmwareLog(firmware_log::FirmwareLog),
    Completions(pages::Completions),
    Man(pages::Man),
}

/// Parses the command line, does what it says, and tells how it went.
pub(crate) fn main() -> ExitCode {
    let command = match Command::try_parse_from(with_default_command(std::env::args_os())) {
        Ok(command) => command,
        Err(refusal) => {
            // Whether the help or the message could be printed changes nothing about the exit code.
            let _ = refusal.print();
            return ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2));
        }
    };
    paint::choose(command.color);
    if let Err(error) = interrupt::hear_of_children() {
        return Failure::failed(format!("cannot hear of child processes: {error}")).report(&mut anstream::stderr());
    }
    let mut out = anstream::stdout().lock();
    let done = match &command.what {
        What::Run(run) => run.execute(&mut out),
        What::Lookup(lookup) => lookup.execute(&mut out),
        What::Dump(dump) => dump.execute(&mut out),
        What::Diff(diff) => diff.execute(&mut out),
        What::Doctor(doctor) => doctor.execute(&mut out),
        What::Call(call) => call.execute(&mut out),
        What::Sim(sim) => sim.execute(&mut out),
        What::Stencil(stencil) => stencil.execute(&mut out),
        What::Advect(advect) => advect.execute(&mut out),
        What::CheckConfig(check) => check.execute(&mut out),
        What::Devices(devices) => devices.execute(&mut out),
        What::Pool(pool) => pool.execute(&mut out),
        What::Channel(channel) => channel.execute(&mut out),
        What::Stream(stream) => stream.execute(&mut out),
        What::Pipe(pipe) => pipe.execute(),
        What::Clean(clean) => clean.execute(&mut out),
        What::Top(top) => top.execute(&mut out),
        #[cfg(feature = "firmware-log")]
        What::FirmwareLog(log) => log.execute(&mut out),
        What::Completions(completions) => completions.execute(&mut out),
        What::Man(man) => man.execute(&mut out),
    };
    match done.and_then(|code| verdict(code, out.flush())) {
        Ok(code) => code,
        Err(failure) => failure.report(&mut anstream::stderr()),
    }
}

/// Options without a command belong to `run`, and so does nothing at all.
fn with_default_command(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let of_the_command = ["-h", "--help", "-V", "--version"];
    // What stands behind the colours decides.
    let mut at = 1;
    while let Some(arg) = args.get(at).and_then(|arg| arg.to_str()) {
        match arg {
            "--color" => at += 2,
            _ if arg.starts_with("--color=") => at += 1,
            _ => break,
        }
    }
    let first = args.get(at).and_then(|arg| arg.to_str());
    let named = first.is_some_and(|first| !first.starts_with('-') || of_the_command.contains(&first));
    // Without its value `--color` is refused for the lack of that.
    if !named && at <= args.len().max(1) {
        args.insert(at.min(args.len()), OsString::from("run"));
    }
    args
}

/// What a subcommand prints to.
type Out<'a> = &'a mut dyn Write;

/// How a subcommand ends.
type Done = Result<ExitCode, Failure>;

/// A verdict, which stands even if nobody reads all that is said about it.
fn verdict(code: ExitCode, said: Result<(), impl Into<Failure>>) -> Done {
    match said.map_err(Into::into) {
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(code),
        said => said.map(|()| code),
    }
}

/// The exit code of work that is good, or is not.
fn code_of(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Counts that must not be zero.
fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// One of several whole numbers that are not zero, such as the extents of a field.
fn edge(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "write whole numbers above 0 with commas between, such as 64,64".to_owned())
}

/// Prints one JSON object on one line.
fn print_json(out: Out<'_>, value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|e| Failure::Output(io::Error::other(e)))?;
    writeln!(out, "{text}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Command::command().debug_assert();
    }

    #[test]
    fn nothing_and_bare_options_mean_run() {
        let words = |line: &str| {
            let args = with_default_command(line.split_whitespace().map(OsString::from));
            args.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(words("umbra"), "umbra run");
        assert_eq!(words("umbra --json --hosts 3"), "umbra run --json --hosts 3");
        assert_eq!(words("umbra --help"), "umbra --help");
        assert_eq!(words("umbra --color=never run"), "umbra --color=never run");
        assert_eq!(words("umbra --color=never"), "umbra --color=never run");
        assert_eq!(words("umbra --color never --json"), "umbra --color never run --json");
        assert_eq!(words("umbra --color never --help"), "umbra --color never --help");
        assert_eq!(words("umbra --color"), "umbra --color");
        assert_eq!(words("umbra check-config f"), "umbra check-config f");
    }

    #[test]
    fn every_command_shows_examples_and_describes_every_argument() {
        for command in Command::command().get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {} lacks help", command.get_name(), argument.get_id());
            }
        }
    }
}
