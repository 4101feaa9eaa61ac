//! Finding the two executables of a job.
//!
//! The agent lies beside the `umbra` executable. Under cargo it may not be built yet, because `cargo run`
//! builds only what it runs; then it is built here, in the same profile.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{JobError, Options};

/// The agent's file name.
pub const AGENT: &str = "umbra-agent";

/// What is executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    /// The agent.
    pub agent: PathBuf,
    /// The executable that runs ranks.
    pub rank: PathBuf,
}

impl Programs {
    /// Finds both.
    ///
    /// # Errors
    /// [`JobError::NoProgram`] saying what was looked for.
    pub fn find(options: &Options) -> Result<Programs, JobError> {
        let here = env::current_exe().map_err(|error| JobError::Io { what: "name this executable", error })?;
        let rank = options.rank.as_deref().map_or(Ok(here), Self::named)?;
        let agent = options.agent.as_deref().map_or_else(|| Self::agent_beside(&rank), Self::named)?;
        Ok(Programs { agent, rank })
    }

    /// An executable by its path: a name alone is one in this directory, and not looked for elsewhere.
    ///
    /// # Errors
    /// [`JobError::NoProgram`] if it is no file.
    pub fn named(path: &Path) -> Result<PathBuf, JobError> {
        let whole = std::path::absolute(path).ok().filter(|whole| whole.is_file());
        whole.ok_or_else(|| JobError::NoProgram(path.to_owned()))
    }

    /// The agent that lies beside an executable.
    ///
    /// # Errors
    /// [`JobError::NoProgram`] saying what was looked for; [`JobError::AgentNotBuilt`].
    pub fn agent_beside(executable: &Path) -> Result<PathBuf, JobError> {
        if env::var_os("CARGO").is_some() {
            // Cargo decides itself whether anything is to be done.
            build(executable)?;
        }
        Self::named(&executable.with_file_name(AGENT))
    }
}

/// Builds the agent into the directory of `beside`, which cargo built.
fn build(beside: &Path) -> Result<(), JobError> {
    let (Some(cargo), Some(manifest)) = (env::var_os("CARGO"), env::var_os("CARGO_MANIFEST_DIR")) else {
        return Ok(());
    };
    let Some(directory) = beside.parent() else { return Ok(()) };
    let mut command = Command::new(cargo);
    // Both packages, as for `cargo run`: with other features it would build once more what is there.
    command.args(["build", "-p", "umbra", "-p", "umbra-dpu", "--bin", AGENT]).current_dir(manifest);
    if directory.join(AGENT).is_file() {
        command.arg("--quiet");
    }
    match directory.file_name().and_then(|n| n.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    if let Some(target) = directory.parent() {
        command.arg("--target-dir").arg(target);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(JobError::AgentNotBuilt(status.to_string())),
        Err(error) => Err(JobError::AgentNotBuilt(error.to_string())),
    }
}
