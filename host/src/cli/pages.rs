//! `umbra completions` and `umbra man`: what a package installs beside the command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Command, Done, Failure, Out, paint};

/// Print the completion script of a shell.
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

const COMPLETIONS: &str = paint::examples!(
    "umbra completions bash > ~/.local/share/bash-completion/completions/umbra"  "complete in every new bash";
    "umbra completions fish > ~/.config/fish/completions/umbra.fish"             "the same for fish";
);

impl Completions {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Command::command(), "umbra", &mut script);
        out.write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Print the manual page, or write one page a command into a directory.
#[derive(Args, Debug)]
#[command(after_help = MAN)]
pub(crate) struct Man {
    /// Write umbra.1, umbra-run.1, ... into this directory instead of printing umbra.1
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

const MAN: &str = paint::examples!(
    "umbra man | man -l -"                          "read the manual page";
    "umbra man --into ~/.local/share/man/man1"      "install the pages of all commands";
);

impl Man {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        match &self.into {
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Command::command()).render(&mut page)?;
                out.write_all(&page)?;
            }
            Some(directory) => clap_mangen::generate_to(Command::command(), directory)
                .map_err(|e| Failure::failed(format!("cannot write pages into {}: {e}", directory.display())))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
