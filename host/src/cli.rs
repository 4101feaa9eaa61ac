//! What users type and what they see.
//!
//! One module a subcommand, each with its arguments and its work; beside them the words that they share: tables,
//! styles, progress. Exit codes: 0 done and good, 1 done and not good or failed, 2 not understood.

mod check_config;
mod failure;
mod pages;
mod paint;
mod table;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Moves bytes out of other processes' memory through their service processes, and knows who is where.
#[derive(Parser, Debug)]
#[command(name = "umbra", version, styles = paint::HELP, after_help = EXAMPLES, max_term_width = 110, arg_required_else_help = true)]
struct Command {
    /// When to colour the output
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto)]
    color: clap::ColorChoice,
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = paint::examples!(
    "umbra check-config platform.cfg"         "is this configuration file usable?";
);

#[derive(Subcommand, Debug)]
enum What {
    CheckConfig(check_config::CheckConfig),
    Completions(pages::Completions),
    Man(pages::Man),
}

/// Parses the command line, does what it says, and tells how it went.
pub(crate) fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(refusal) => {
            // Whether the help or the message could be printed changes nothing about the exit code.
            let _ = refusal.print();
            return ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2));
        }
    };
    paint::choose(command.color);
    let mut out = anstream::stdout().lock();
    let done = match &command.what {
        What::CheckConfig(check) => check.execute(&mut out),
        What::Completions(completions) => completions.execute(&mut out),
        What::Man(man) => man.execute(&mut out),
    };
    match done.and_then(|code| out.flush().map(|()| code).map_err(Failure::from)) {
        Ok(code) => code,
        Err(failure) => failure.report(&mut anstream::stderr()),
    }
}

/// What a subcommand prints to.
type Out<'a> = &'a mut dyn Write;

/// How a subcommand ends.
type Done = Result<ExitCode, Failure>;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Command::command().debug_assert();
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
