//! The private directory of one job: configuration, secret, sockets, logs.
//!
//! Mode 0700, a name that nobody can guess, removed when the value is dropped. Unix socket names are short
//! (108 bytes with the path), so a long temporary directory is refused with a clear sentence.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::config::Platform;
use crate::secret::{self, Secret, SecretError};

/// The directory cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The system refused.
    #[error("job directory {}: {error}", path.display())]
    Io {
        /// Which directory or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Sockets in it would have names that the system does not take.
    #[error("job directory {} has a name too long for sockets: set TMPDIR to a shorter one", .0.display())]
    TooLong(PathBuf),
    /// The secret could not be made.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// The directory of one job.
#[derive(Debug)]
pub struct JobDirectory {
    path: PathBuf,
}

impl JobDirectory {
    /// Makes one under the system's temporary directory.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn create() -> Result<JobDirectory, DirectoryError> {
        let unique = u64::from_le_bytes(secret::random::<8>().map_err(SecretError::NoRandom)?);
        let path = std::env::temp_dir().join(format!("umbra-{}-{unique:016x}", std::process::id()));
        // The longest socket name in it is `sp8388607.sock`.
        if path.as_os_str().len() > 90 {
            return Err(DirectoryError::TooLong(path));
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| DirectoryError::Io { path: path.clone(), error })?;
        Ok(JobDirectory { path })
    }

    /// Removes the directories of this process' jobs: for a process that is about to be ended by a signal, in which no
    /// value is dropped.
    pub fn remove_all_of_this_process() {
        let own = format!("umbra-{}-", std::process::id());
        let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)) {
            // Nothing can be done about a directory that somebody else keeps busy.
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path.join("job.cfg")
    }

    /// The secret file.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// What a process wrote to its standard error.
    #[must_use]
    pub fn log(&self, process: &str) -> PathBuf {
        self.path.join(format!("{process}.log"))
    }

    /// Writes configuration and secret.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn fill(&self, platform: &Platform, secret: &Secret) -> Result<(), DirectoryError> {
        let path = self.config();
        fs::write(&path, platform.to_string()).map_err(|error| DirectoryError::Io { path, error })?;
        Ok(secret.create(&self.secret())?)
    }

    /// Sockets that are still there; none once every agent has left.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "sock")).collect()
    }
}

impl Drop for JobDirectory {
    fn drop(&mut self) {
        // Nothing can be done about a directory that somebody else has removed or keeps busy.
        let _ = fs::remove_dir_all(&self.path);
    }
}
