//! Why a subcommand could not do its work, and the exit code that says so.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use super::paint;

/// A subcommand gives up.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense together; exit code 2.
    Usage(String),
    /// The work failed; exit code 1.
    Failed(String),
    /// Nobody takes the output any more, or it cannot be written.
    Output(io::Error),
}

impl Failure {
    /// The arguments make no sense together.
    pub(crate) fn usage(why: impl Display) -> Failure {
        Failure::Usage(why.to_string())
    }

    /// The work failed.
    pub(crate) fn failed(why: impl Display) -> Failure {
        Failure::Failed(why.to_string())
    }

    /// Says why on `err`, in one message.
    pub(crate) fn report(&self, err: &mut dyn Write) -> ExitCode {
        let (code, why) = match self {
            // A reader that has seen enough (`umbra ... | head`) is no failure of ours.
            Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Failure::Usage(why) => (2, why.clone()),
            Failure::Failed(why) => (1, why.clone()),
            Failure::Output(e) => (1, format!("cannot write the output: {e}")),
        };
        // If even this cannot be written, the exit code still tells.
        let _ = writeln!(err, "{} {why}", paint::bad("error:"));
        ExitCode::from(code)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
