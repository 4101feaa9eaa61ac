//! What can go wrong with firmware, and what to do then.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use umbra_core::cell::CellError;
use umbra_core::endpoints::LookupError;
use umbra_core::error::Status;
use umbra_core::region::{ExportError, RevokeError};
use umbra_core::segment::{AttachError, VERSION};
use umbra_core::time::Time;
use umbra_core::window::WindowError;

use crate::sys::process::ProcessError;
use crate::sys::segment::SegmentError;

/// A call to firmware failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FirmwareError {
    /// The file of the board's memory.
    #[error("memory of the board, {path}: {why}", path = path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// Its mapping.
    #[error("memory of the board: {0}")]
    Memory(#[from] SegmentError),
    /// The file is not what a board runs on.
    #[error(
        "{path} is not the memory of a board: {why}; name the path that the emulator was started with, which is that of \
         memory made for it (`umbra::firmware::GuestMemory`)", path = path.display()
    )]
    NoBoard {
        /// Which file.
        path: PathBuf,
        /// What it lacks.
        why: SegmentError,
    },
    /// Nothing has laid a window out yet.
    #[error(
        "no firmware has laid out a window in this memory: start the image on it; its console says how far it came"
    )]
    Empty,
    /// Nothing has laid a window out.
    #[error(
        "no firmware laid out its window within {waited:?}: is the image running on this memory? (its console says)"
    )]
    NotStarted {
        /// How long.
        waited: Duration,
    },
    /// The image was built from other sources.
    #[error(
        "firmware has layout version {theirs}, this program knows {VERSION}: build both from the same sources \
         (`cargo xtask firmware`) and start the image again"
    )]
    Layout {
        /// The image's version.
        theirs: u32,
    },
    /// The window is damaged.
    #[error(
        "window of the firmware: {0}: build image and host from the same sources (`cargo xtask firmware`) and start the \
         image again"
    )]
    Window(WindowError),
    /// All lanes belong to living processes.
    #[error("all lanes of {board} are taken, by processes {owners:?}: let one of them detach")]
    NoLane {
        /// Which firmware.
        board: String,
        /// Their process ids.
        owners: Vec<u32>,
    },
    /// Its heartbeat stopped.
    #[error(
        "firmware on {board} has stopped: no heartbeat for {silent:?}, the last was number {beats}, \
         {:.3} s after its start; start the image again", last.0 as f64 / 1e9
    )]
    Stopped {
        /// Which firmware.
        board: String,
        /// How many heartbeats there were.
        beats: u64,
        /// When the last one was, on the firmware's clock.
        last: Time,
        /// How long ago that was noticed.
        silent: Duration,
    },
    /// It said that it gave up.
    #[error("firmware on {board} gave up after {beats} heartbeats: its console says why")]
    GaveUp {
        /// Which firmware.
        board: String,
        /// How many heartbeats there were.
        beats: u64,
    },
    /// It was started again.
    #[error("firmware on {board} was started again: attach again")]
    Restarted {
        /// Which firmware.
        board: String,
    },
    /// It lives, but did not answer.
    #[error("firmware on {board} did not answer {what} within {deadline:?}, although it lives")]
    Late {
        /// Which firmware.
        board: String,
        /// What was asked.
        what: &'static str,
        /// How long was waited.
        deadline: Duration,
    },
    /// It refused.
    #[error("firmware refused {what}: {status}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Why.
        status: Status,
    },
    /// The answer has no sense.
    #[error("firmware answered {what} with bytes that mean nothing")]
    Nonsense {
        /// What was asked.
        what: &'static str,
    },
    /// More than fits through the window at once.
    #[error("{len} bytes do not fit into {most}: divide them")]
    TooLong {
        /// Bytes.
        len: usize,
        /// Most bytes.
        most: usize,
    },
    /// The span does not agree with the buffer.
    #[error("span of {span} bytes for a buffer of {buffer}")]
    Length {
        /// Of the span.
        span: u64,
        /// Of the buffer.
        buffer: usize,
    },
    /// The window's cache does not know it either.
    #[error("endpoint cache in the window: {0}")]
    Cache(LookupError),
    /// The region can't be exported.
    #[error("export: {0}")]
    Export(ExportError),
    /// The region can't be taken back.
    #[error("revocation: {0}")]
    Revoke(RevokeError),
    /// This process can't be told from others.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No random numbers.
    #[error("no random bytes: {0}")]
    Random(io::Error),
}

impl From<WindowError> for FirmwareError {
    fn from(error: WindowError) -> Self {
        match error {
            WindowError::Attach(AttachError::WrongVersion(theirs)) => FirmwareError::Layout { theirs },
            WindowError::Attach(AttachError::NotPublished) => FirmwareError::Empty,
            other => FirmwareError::Window(other),
        }
    }
}
impl From<CellError> for FirmwareError {
    fn from(error: CellError) -> Self {
        FirmwareError::Window(WindowError::Cell(error))
    }
}
impl From<umbra_core::ring::AttachError> for FirmwareError {
    fn from(error: umbra_core::ring::AttachError) -> Self {
        FirmwareError::Window(WindowError::Ring(error))
    }
}
