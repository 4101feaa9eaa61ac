//! Which log statements the agent prints, and where.
//!
//! The statements themselves are those of [`umbra_core::log!`], which cost one load and one branch each while nobody
//! wants them. Here they become lines: on the standard error output, or at the end of a file that several agents may
//! share, since each line is one write and says whose it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use umbra::config::Environment;
use umbra_core::peer::Sp;

/// Options of the command line; what is not given comes from the environment.
#[derive(Clone, Debug, clap::Args)]
pub struct LogOptions {
    /// Print log statements: a level (off, error, warn, info, debug, trace), or levels by module, as in
    /// `info,umbra_core::group=debug` [env: UMBRA_LOG]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Append them to this file, which agents may share, instead of printing them to the standard error output
    /// [env: UMBRA_LOG_FILE]
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

/// The log cannot be kept as it is wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Not a filter.
    #[error(
        "log filter {0:?}: neither a level (off, error, warn, info, debug, trace) nor a module of umbra with one, as in \
         umbra_core::group=debug"
    )]
    Filter(String),
    /// The file cannot be written.
    #[error("cannot append to the log {}: {error}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Statements go somewhere else already.
    #[error("this process has a log already")]
    Taken,
}

impl LogError {
    /// Whether what was asked for is no log, and not what it takes.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, LogError::Filter(_))
    }
}

/// A log that is wanted; see [`begin`](Log::begin).
#[derive(Debug)]
pub struct Log {
    wanted: Targets,
    file: Option<File>,
}

impl LogOptions {
    /// Reads the environment and opens the file; `None` if no log is wanted.
    ///
    /// # Errors
    /// [`LogError`], naming the filter or the file.
    pub fn settle(self, environment: &Environment) -> Result<Option<Log>, LogError> {
        let Some(filter) = self.log.as_ref().or(environment.log.as_ref()) else { return Ok(None) };
        let wanted = parse(filter)?;
        let path = self.log_file.or_else(|| environment.log_file.clone());
        let open = |path: PathBuf| match OpenOptions::new().append(true).create(true).open(&path) {
            Ok(file) => Ok(file),
            Err(error) => Err(LogError::File { path, error }),
        };
        Ok(Some(Log { wanted, file: path.map(open).transpose()? }))
    }
}

impl Log {
    /// From now on statements of this process are printed, each line behind the name of the service process.
    ///
    /// # Errors
    /// [`LogError::Taken`] if there is a log already.
    pub fn begin(self, me: Sp) -> Result<(), LogError> {
        let to: Box<dyn Write + Send> = match self.file {
            Some(file) => Box::new(file),
            None => Box::new(io::stderr()),
        };
        let lines = Lines { whose: format!("sp{me} "), to, whole: Vec::new() };
        let print = tracing_subscriber::fmt::layer().with_writer(Mutex::new(lines));
        tracing_subscriber::registry().with(self.wanted).with(print).try_init().map_err(|_| LogError::Taken)
    }
}

/// A filter, part by part: whatever names no level and no module of ours is a mistake, not a module that says nothing.
fn parse(filter: &str) -> Result<Targets, LogError> {
    let level = |name: &str| name.parse::<LevelFilter>().ok().filter(|_| !name.is_empty());
    let mut wanted = Targets::new();
    for part in filter.split(',').map(str::trim) {
        wanted = match part.split_once('=') {
            None => level(part).map(|level| wanted.with_default(level)),
            Some((module, name)) if module.starts_with("umbra") => {
                level(name).map(|level| wanted.with_target(module, level))
            }
            Some(_) => None,
        }
        .ok_or_else(|| LogError::Filter(part.to_owned()))?;
    }
    Ok(wanted)
}

/// Whoever writes a line at once gets it printed whole, even if others write to the same file.
struct Lines {
    whose: String,
    to: Box<dyn Write + Send>,
    whole: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.whole.clear();
        self.whole.extend_from_slice(self.whose.as_bytes());
        self.whole.extend_from_slice(line);
        self.to.write_all(&self.whole).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
