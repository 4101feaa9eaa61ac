//! The job's secret: who holds it is part of the job.
//!
//! A launcher makes a random secret, writes it to a file that only its user can read, and names the file
//! to every process. A link proves on both sides that the other one has it (see [`link`](crate::link));
//! the secret itself never travels.
//!
//! The file is one line of 64 hexadecimal digits, mode 0600 or stricter, owned by the reader or by root.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::input;

/// 256 random bits; never shown, never sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// The secret cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file cannot be read or written.
    #[error("secret file {}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Others may read the file.
    #[error("secret file {} has mode {mode:03o}: run chmod 600 on it", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Someone else owns the file.
    #[error("secret file {} belongs to user {owner}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Not 64 hexadecimal digits.
    #[error("secret file {} must hold 64 hexadecimal digits and a line end", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
    /// The system gave no random bytes.
    #[error("no random bytes from the system: {0}")]
    NoRandom(std::io::Error),
}

/// `N` bytes from the system's generator.
///
/// # Errors
/// What the system said.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(bytes)
}

impl Secret {
    /// A new secret.
    ///
    /// # Errors
    /// [`SecretError::NoRandom`].
    pub fn random() -> Result<Secret, SecretError> {
        random().map(Secret).map_err(SecretError::NoRandom)
    }

    /// The secret made of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// The bytes, to derive keys from.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Writes a new file that only this user can read.
    ///
    /// # Errors
    /// [`SecretError::Io`], also if the file exists.
    pub fn create(&self, path: &Path) -> Result<(), SecretError> {
        let io = |error| SecretError::Io { path: path.to_owned(), error };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
        let mut text: String = self.0.iter().map(|b| format!("{b:02x}")).collect();
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(io)
    }

    /// Reads a file that only this user can read.
    ///
    /// # Errors
    /// [`SecretError`]; the mode and the owner are those of the file that was opened.
    pub fn read(path: &Path) -> Result<Secret, SecretError> {
        let io = |error| SecretError::Io { path: path.to_owned(), error };
        let file = input::open(path).map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if facts.is_dir() {
            return Err(io(io::ErrorKind::IsADirectory.into()));
        }
        let mode = facts.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretError::Exposed { path: path.to_owned(), mode });
        }
        let owner = facts.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(SecretError::Foreign { path: path.to_owned(), owner });
        }
        let malformed = || SecretError::Malformed { path: path.to_owned() };
        let text = input::read(&file, 66, input::PATIENCE).map_err(io)?;
        let digits = text.strip_suffix(b"\n").unwrap_or(&text);
        parse_hex(digits).map(Secret).ok_or_else(malformed)
    }
}

fn parse_hex(digits: &[u8]) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |i: usize| char::from(*pair.get(i)?).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
