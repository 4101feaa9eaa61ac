//! Connecting with retries, and accepting.
//!
//! A peer may not be started yet: a [`Dial`] tries again after pauses that double from 2 ms to 250 ms, so
//! that waiting costs next to nothing, until its deadline. It never blocks: the driver polls the socket.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use umbra_core::peer::Sp;
use umbra_core::time::{Lapse, Time};

use super::Close;

/// The Unix socket of a service process in the directory `sockets`.
#[must_use]
pub fn socket_path(sockets: &Path, sp: Sp) -> PathBuf {
    sockets.join(format!("sp{sp}.sock"))
}

/// Where a peer accepts links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Whether links to it pass descriptors.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        matches!(self, Address::Unix(_))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

const PAUSE_FIRST: Lapse = Lapse::from_millis(2);
const PAUSE_MAX: Lapse = Lapse::from_millis(250);

/// An attempt to reach a peer, over and over until a deadline.
#[derive(Debug)]
pub struct Dial {
    address: Address,
    pause: Lapse,
    /// When to try next.
    next: Time,
    deadline: Time,
    /// Why the last attempt failed.
    last: Option<Close>,
}

impl Dial {
    /// Tries to reach `address` from `now` until `deadline`.
    #[must_use]
    pub const fn new(address: Address, now: Time, deadline: Time) -> Dial {
        Dial { address, pause: PAUSE_FIRST, next: now, deadline, last: None }
    }

    /// Where to.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// When the next attempt is due.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.next
    }

    /// When to give up.
    #[must_use]
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Why the last attempt failed, if one did.
    #[must_use]
    pub const fn last(&self) -> Option<&Close> {
        self.last.as_ref()
    }

    /// Begins an attempt; the connection is made when the socket becomes writable, see
    /// [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`Close::Io`]: tell it to [`failed`](Self::failed).
    pub fn start(&self) -> Result<OwnedFd, Close> {
        let begin = |family| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        };
        let started = match &self.address {
            Address::Tcp(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                begin(family).map(|socket| {
                    let result = rustix::net::connect(&socket, address);
                    (socket, result)
                })
            }
            Address::Unix(path) => begin(AddressFamily::UNIX).and_then(|socket| {
                let result = rustix::net::connect(&socket, &SocketAddrUnix::new(path)?);
                Ok((socket, result))
            }),
        };
        match started {
            Ok((socket, Ok(()) | Err(Errno::INPROGRESS))) => Ok(socket),
            Ok((_, Err(e))) | Err(e) => Err(Close::Io(e.raw_os_error())),
        }
    }

    /// Whether a socket that became writable is connected.
    ///
    /// # Errors
    /// [`Close::Io`]: tell it to [`failed`](Self::failed).
    pub fn finish(socket: BorrowedFd<'_>) -> Result<(), Close> {
        match rustix::net::sockopt::socket_error(socket) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) | Err(e) => Err(Close::Io(e.raw_os_error())),
        }
    }

    /// Notes a failure and plans the next attempt; `Err` with the failure if there will be none.
    ///
    /// # Errors
    /// The failure, if it cannot be helped by waiting or the deadline has come.
    pub fn failed(&mut self, why: Close, now: Time) -> Result<(), Close> {
        if !why.is_transient() || now >= self.deadline {
            return Err(why);
        }
        self.next = (now + self.pause).min(self.deadline);
        self.pause = Lapse(self.pause.0.saturating_mul(2)).min(PAUSE_MAX);
        self.last = Some(why);
        Ok(())
    }
}

/// Where links are accepted.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl Listener {
    /// Accepts one link if one waits; tells whether it passes descriptors.
    ///
    /// # Errors
    /// What the system said, `WouldBlock` if none waits.
    pub fn accept(&self) -> std::io::Result<(OwnedFd, bool)> {
        Ok(match self {
            Listener::Tcp(listener) => (listener.accept()?.0.into(), false),
            Listener::Unix(listener) => (listener.accept()?.0.into(), true),
        })
    }

    /// Makes [`accept`](Self::accept) return at once.
    ///
    /// # Errors
    /// What the system said.
    pub fn set_nonblocking(&self) -> std::io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(true),
            Listener::Unix(listener) => listener.set_nonblocking(true),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}
