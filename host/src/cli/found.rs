//! What has no name of its own, and how it is named on the command line.
//!
//! It is named by a process that has it, or by a reference.

use serde::Serialize;
use umbra::quantity::counted;
use umbra::reference::{Found, from_text};
use umbra::sys::process::ProcessId;

use super::table::{Set, Table};
use super::{Failure, Out};

/// Memory without a name that an argument names.
pub(super) enum Named {
    /// At a descriptor of a process.
    At(Found),
    /// By the bytes of a reference.
    Reference(Vec<u8>),
}

impl Named {
    /// Understands PID:DESCRIPTOR, or the text of a reference.
    pub(super) fn of(text: &str) -> Result<Named, Failure> {
        let place = text.split_once(':').and_then(|(pid, file)| Some((pid.parse().ok()?, file.parse().ok()?)));
        match (place, from_text(text)) {
            (Some((pid, descriptor)), _) => {
                let process = ProcessId::of(pid).map_err(Failure::failed)?;
                Ok(Named::At(Found { process, descriptor }))
            }
            (None, Ok(bytes)) => Ok(Named::Reference(bytes)),
            (None, Err(_)) => {
                Err(Failure::usage(format!("{text:?} is neither PID:DESCRIPTOR nor the text of a reference")))
            }
        }
    }
}

/// A process that uses something.
#[derive(Clone, Serialize, Debug)]
pub(super) struct User {
    pub(super) pid: u32,
    pub(super) alive: bool,
}

/// Who uses it, in a few words.
pub(super) fn used_by(users: &[User], is_destroyed: bool) -> String {
    let alive = users.iter().filter(|user| user.alive).count();
    if is_destroyed { "destroyed".to_owned() } else { counted(alive as u64, "process", "processes") }
}

/// Prints who uses it, below what was printed of it.
pub(super) fn print_users(out: Out<'_>, users: &[User]) -> std::io::Result<()> {
    let mut table = Table::new(&[("pid", Set::Right), ("process", Set::Left)]);
    for user in users {
        table.row([user.pid.to_string(), (if user.alive { "lives" } else { "is dead" }).to_owned()]);
    }
    writeln!(out)?;
    table.print(out)
}
