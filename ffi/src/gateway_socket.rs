//! Gateways of this process, and the sockets at which they listen.
//!
//! Source: `flock(2)`, `unix(7)`.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
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

fn number(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn file(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| number(&file))
}

/// Whether the path is a socket at which nobody listens any more: of a gateway that was killed.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && knock(path) == Err(Errno::CONNREFUSED)
}

/// Connects, if that takes no waiting: there is somebody, too, where a queue is full that nobody accepts from.
fn knock(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

/// The turn of one who begins to listen at a path. Without it two who find the same socket left behind would each remove
/// what is there, and the slower one the socket of the other, at which nobody listens yet.
struct Turn {
    /// A hidden file beside the socket, which goes with the turn.
    path: PathBuf,
    /// What the turn is: a lock of that file.
    _lock: File,
}

impl Turn {
    /// Takes the turn; if somebody has it he is about to listen there.
    fn take(socket: &Path) -> io::Result<Turn> {
        let mut name = OsString::from(".");
        name.push(socket.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(".umbra-lock");
        let path = socket.with_file_name(name);
        // What somebody else has put there is not followed, nor, if it is a pipe, waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        loop {
            let lock = options.open(&path)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
                Errno::WOULDBLOCK => ErrorKind::AddrInUse.into(),
                errno => io::Error::from(errno),
            })?;
            // Who had the turn before may have removed the file since it was opened.
            let locked = number(&lock.metadata()?);
            if fs::symlink_metadata(&path).is_ok_and(|file| number(&file) == locked) {
                return Ok(Turn { path, _lock: lock });
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A file without a lock is in nobody's way.
        let _ = fs::remove_file(&self.path);
    }
}

impl Socket {
    /// Listens at a path, also where a gateway that is no more has left its socket; [`ErrorKind::AddrInUse`] if there is
    /// anything else.
    pub(crate) fn bind(path: PathBuf) -> io::Result<(UnixListener, Socket)> {
        fork::watch();
        let _turn = Turn::take(&path)?;
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
