//! What the program says, to whoever may have stopped to listen.
//!
//! The macros of the library panic where nothing can be written; a rank that ends so leaves the others waiting.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Prints a line. Whoever has closed the output wants no more of it.
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
}

/// Prints an error, if anybody can hear it.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
