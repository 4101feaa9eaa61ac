//! The memory of an emulated board, and the window in it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use umbra_core::window::{BYTES, Window};

use super::FirmwareError;
use crate::sys::segment::{Mapping, Segment, SegmentError};

/// Bytes of the memory of a board.
pub const GUEST_BYTES: usize = 32 << 20;
/// Where the window begins in it; the images of all boards agree on this.
pub const WINDOW_AT: usize = 16 << 20;

/// The memory of a board that is going to be started: a file without a name that nobody can shrink.
///
/// QEMU takes it by [`path`](Self::path): `-machine virt,memory-backend=ram` with
/// `-object memory-backend-file,id=ram,size=32M,share=on,mem-path=PATH`. It exists as long as somebody holds it.
#[derive(Debug)]
pub struct GuestMemory {
    segment: Segment,
}

impl GuestMemory {
    /// Makes it.
    ///
    /// # Errors
    /// [`FirmwareError::Memory`], [`FirmwareError::Random`].
    pub fn create() -> Result<GuestMemory, FirmwareError> {
        let segment = Segment::create("umbra-firmware", GUEST_BYTES)?;
        // What no two starts have in common: boards have no source of it.
        let seed: [u8; 8] = crate::secret::random().map_err(FirmwareError::Random)?;
        segment.write(WINDOW_AT + BYTES - seed.len(), &seed)?;
        Ok(GuestMemory { segment })
    }

    /// Under which path other programs of this user open it while this process lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.segment.number().unwrap_or(u32::MAX)))
    }

    /// The window in it.
    ///
    /// # Errors
    /// [`FirmwareError::Memory`].
    pub fn map(&self) -> Result<Map, FirmwareError> {
        Ok(Map::of(self.segment.share()?)?)
    }
}

/// The window, mapped.
#[derive(Debug)]
pub struct Map {
    segment: Segment,
}

impl Map {
    /// Maps the window of a board whose memory is this file.
    ///
    /// # Errors
    /// [`FirmwareError::Open`]; [`FirmwareError::NoBoard`] if the file is too short, or could be shrunk under the mapping,
    /// as files with names can: start the board on [`GuestMemory`].
    pub fn open(path: &Path) -> Result<Map, FirmwareError> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|why| FirmwareError::Open { path: path.to_owned(), why })?;
        Self::of(file.into()).map_err(|why| FirmwareError::NoBoard { path: path.to_owned(), why })
    }

    fn of(descriptor: OwnedFd) -> Result<Map, SegmentError> {
        let segment = Segment::attach_at(descriptor, Mapping::ReadWrite, WINDOW_AT, BYTES)?;
        Ok(Map { segment })
    }

    /// What firmware laid out in it.
    ///
    /// # Errors
    /// [`FirmwareError::Layout`], [`FirmwareError::Window`].
    pub fn window(&self) -> Result<Window<'_>, FirmwareError> {
        Ok(Window::attach(self.segment.bytes_mut()?)?)
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`SegmentError::ReadOnly`], never.
    pub fn bytes(&self) -> Result<umbra_core::cell::BytesMut<'_>, SegmentError> {
        self.segment.bytes_mut()
    }
}
