//! What the program says, to whoever may have stopped to listen.
//!
//! The macros of the library panic where nothing can be written; a rank that ends so leaves the others waiting.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line somewhere.
pub(crate) type Say = fn(&dyn Display) -> io::Result<()>;

/// Prints a line.
pub(crate) fn say(line: &dyn Display) -> io::Result<()> {
    say_to(io::stdout(), line)
}

/// Prints a line that is not to stand in the standard output, because a file does.
pub(crate) fn say_aside(line: &dyn Display) -> io::Result<()> {
    say_to(io::stderr(), line)
}

/// Whoever has closed the output wants no more of it.
fn say_to(mut out: impl Write, line: &dyn Display) -> io::Result<()> {
    match writeln!(out, "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
}

/// Prints an error, if anybody can hear it.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
