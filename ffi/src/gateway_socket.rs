//! Gateways of this process, and the sockets at which they listen.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use umbra::gateway::Server;
use umbra::sys::fork;

/// A gateway, and its name if it has one in the file system.
pub(crate) struct Served {
    /// Goes before the server: as long as that listens, nobody takes the name over.
    _socket: Option<Socket>,
    server: Server,
}

impl Served {
    pub(crate) fn new(socket: Option<Socket>, server: Server) -> Served {
        Served { _socket: socket, server }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }
}

/// A name that goes with the gateway behind it.
pub(crate) struct Socket {
    path: PathBuf,
    /// Device and number of the file: somebody may have put another one in its place.
    file: (u64, u64),
    /// A child that was forked off has this object, too, and its parent still listens.
    life: u32,
}

fn file(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Whether the path is a socket at which nobody listens any more: of a gateway that was killed.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

impl Socket {
    /// Listens at a path, also where a gateway that is no more has left its socket.
    pub(crate) fn bind(path: PathBuf) -> io::Result<(UnixListener, Socket)> {
        fork::watch();
        let listener = match UnixListener::bind(&path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_behind(&path) => {
                fs::remove_file(&path)?;
                UnixListener::bind(&path)?
            }
            bound => bound?,
        };
        let file = file(&path)?;
        Ok((listener, Socket { path, file, life: fork::life() }))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.life == fork::life() && file(&self.path).is_ok_and(|file| file == self.file) {
            // Whoever comes next finds that nobody listens there, and removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
