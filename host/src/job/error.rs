//! Why a job did not come to its end.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use umbra_core::peer::Peer;

use super::directory::DirectoryError;
use super::{OptionsError, Phase};
use crate::admin::Failure;
use crate::config::ConfigError;
use crate::link::{Close, SendError};
use crate::secret::SecretError;
use crate::session::SessionError;
use crate::verbs::VerbsError;

/// Why a job did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// It was asked for in an impossible way.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The input cannot be read.
    #[error("input {}: {error}", path.display())]
    Input {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The input is no regular file.
    #[error("input {} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The input changed while the job ran.
    #[error("input {} changed while the job ran", .0.display())]
    InputChanged(PathBuf),
    /// An executable is missing.
    #[error(
        "no executable at {}: `cargo build --release` makes both programs; keep them in one folder, or name it with --agent",
        .0.display()
    )]
    NoProgram(PathBuf),
    /// The agent could not be built.
    #[error("agent could not be built with cargo build --bin umbra-agent: {0}")]
    AgentNotBuilt(String),
    /// The job's directory cannot be made.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The job's secret cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was wanted.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// There is no RDMA device that could be used.
    #[error("data path verbs: {0}")]
    Verbs(#[from] VerbsError),
    /// This process cannot take part as a rank.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A process could not be started.
    #[error("cannot start {peer} ({}): {error}", program.display())]
    Spawn {
        /// Which process.
        peer: Peer,
        /// Its executable.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The job has no such process.
    #[error("job has no such process")]
    NoSuchProcess,
    /// A process could not be linked.
    #[error("link to {peer}: {why}")]
    Link {
        /// Which process.
        peer: Peer,
        /// Why.
        why: Close,
    },
    /// A process does not take what it is sent.
    #[error("message to {peer}: {why}")]
    Send {
        /// Which process.
        peer: Peer,
        /// Why.
        why: SendError,
    },
    /// A process answered with bytes that mean nothing.
    #[error("answer of {0} is malformed")]
    BadAnswer(Peer),
    /// An agent that ran already serves another job.
    #[error("{0} serves another job: wait until that is over")]
    Used(Peer),
    /// A process said that it cannot go on.
    #[error("{peer}: {}", failure.text)]
    Failed {
        /// Which process.
        peer: Peer,
        /// What it said.
        failure: Failure,
    },
    /// A process died.
    #[error("{peer} died while {} ({how}){}{words}", phase.text(), if words.is_empty() { "" } else { ": " })]
    Died {
        /// Which process.
        peer: Peer,
        /// When.
        phase: Phase,
        /// Exit code or signal.
        how: String,
        /// The end of what it wrote to its standard error.
        words: String,
    },
    /// Somebody did not come in time.
    #[error("timed out after {after:?} while {}: waiting for {}", phase.text(), list(missing))]
    Timeout {
        /// When.
        phase: Phase,
        /// How long was waited.
        after: Duration,
        /// For whom.
        missing: Vec<Peer>,
    },
}

fn list(peers: &[Peer]) -> String {
    let mut text = peers.iter().take(8).map(Peer::to_string).collect::<Vec<_>>().join(", ");
    if peers.len() > 8 {
        text.push_str(&format!(" and {} more", peers.len() - 8));
    }
    text
}
