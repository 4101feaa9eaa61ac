//! Two processes meet by a name that both know, and have a stream.
//!
//! Whoever comes first makes the stream and waits for the other one. The name is that of a socket without a file, in
//! the network namespace of the processes; it is free again as soon as its holder ends, however he does, and nothing is
//! left behind. Only processes of one user meet.
//!
//! ```
//! use std::io::Read;
//! use std::time::Duration;
//! use umbra::channel::Timeout;
//! use umbra::stream::{Meeting, ReceiveOptions, Role, SendOptions};
//! # let name = format!("doc-{}", std::process::id());
//! # let name = &name;
//! let soon = Timeout::After(Duration::from_secs(10));
//! std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
//!     // As another process would.
//!     scope.spawn(move || {
//!         let meeting = Meeting::begin(name, Role::Sender, 4096, soon)?;
//!         let mut sender = meeting.adapter().send(&SendOptions::default(), soon)?;
//!         meeting.join(soon)?;
//!         sender.send(b"hello", 0, soon)?;
//!         sender.close(soon)
//!     });
//!     let meeting = Meeting::begin(name, Role::Receiver, 4096, soon)?;
//!     let mut receiver = meeting.adapter().receive(&ReceiveOptions::default(), soon)?;
//!     meeting.join(soon)?;
//!     let mut text = String::new();
//!     receiver.read_to_string(&mut text)?;
//!     assert_eq!(text, "hello");
//!     Ok(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is said: the second one its role, the first one whether that is the other role than his and a
//! [reference](Adapter::reference), the second one, when it has begun, that it is there.

use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use umbra_core::reference::LONGEST;
use umbra_core::stream::Mode;
use umbra_core::time::{Lapse, Time};

use super::error::Error;
use super::{Adapter, Attributes};
use crate::channel::Timeout;
use crate::sys::clock;

/// Most bytes of a name.
pub const NAME_MAX: usize = 64;
/// How often one looks whether a name that others hold is free.
const AGAIN: Duration = Duration::from_millis(10);
/// How long a newcomer may be silent before others have their turn.
const SILENCE: Lapse = Lapse::from_secs(1);
const READY: u8 = 1;

/// Which end of the stream a process is to have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It sends.
    Sender,
    /// It receives.
    Receiver,
}

impl Role {
    const fn number(self) -> u8 {
        match self {
            Role::Sender => 1,
            Role::Receiver => 2,
        }
    }

    const fn other(self) -> Role {
        match self {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        }
    }

    const fn does(self) -> &'static str {
        match self {
            Role::Sender => "sends",
            Role::Receiver => "receives",
        }
    }
}

/// A stream of the mode [`Single`](Mode::Single) to which a name leads, until this is dropped.
#[derive(Debug)]
pub struct Meeting {
    adapter: Adapter,
    role: Role,
    at: At,
}

#[derive(Debug)]
enum At {
    First(UnixListener),
    Second(UnixStream),
}

fn failed(error: &io::Error) -> Error {
    Error::Meeting(Errno::from_io_error(error).unwrap_or(Errno::IO))
}

fn left(deadline: Time) -> Duration {
    // The system takes zero for no limit.
    Duration::from_nanos(deadline.since(clock::now()).0).max(Duration::from_millis(1))
}

/// Whether what went wrong is that the other one has gone.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Reads exactly so many bytes; `None` if the other one has gone.
fn hear(mut socket: &UnixStream, into: &mut [u8], deadline: Time) -> Result<Option<()>, Error> {
    let mut heard = 0;
    while let Some(rest) = into.get_mut(heard..).filter(|rest| !rest.is_empty()) {
        // The system begins anew with each read, also after one that a signal has broken off.
        socket.set_read_timeout(Some(left(deadline))).map_err(|e| failed(&e))?;
        match socket.read(rest) {
            Ok(0) => return Ok(None),
            Ok(len) => heard += len,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(Error::Timeout),
                ErrorKind::Interrupted => {}
                _ => return Err(failed(&error)),
            },
        }
        if heard < into.len() && clock::now() >= deadline {
            return Err(Error::Timeout);
        }
    }
    Ok(Some(()))
}

/// Says a few bytes, which the socket always has room for; `None` if the other one has gone.
fn say(mut socket: &UnixStream, bytes: &[u8]) -> Result<Option<()>, Error> {
    match socket.write_all(bytes) {
        Ok(()) => Ok(Some(())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Sockets without a file have no permissions.
fn check_user(socket: &UnixStream) -> Result<(), Error> {
    let other = sockopt::socket_peercred(socket).map_err(Error::Meeting)?.uid;
    if other == rustix::process::geteuid() { Ok(()) } else { Err(Error::OtherUser(other.as_raw())) }
}

/// Who comes second; `None` if nobody is there any more, or a signal has broken the wait off.
fn knock(name: &str, deadline: Time) -> Result<Option<UnixStream>, Error> {
    let to = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(Error::Meeting)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(Error::Meeting)?;
    // Where many wait to be taken in, the system has newcomers wait, as long as they would to send.
    let until = Some(left(deadline));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, until).map_err(Error::Meeting)?;
    match connect(&socket, &to) {
        Ok(()) => Ok(Some(socket.into())),
        Err(Errno::CONNREFUSED | Errno::INTR) => Ok(None),
        Err(Errno::AGAIN) => Err(Error::Timeout),
        Err(error) => Err(Error::Meeting(error)),
    }
}

impl Meeting {
    /// Comes to a name of 1 to [`NAME_MAX`] bytes to have one end of a stream there, with a ring of so many bytes if it
    /// is the first. Begin that end at the [adapter](Self::adapter), and [join](Self::join) then. While two others are
    /// at this name, it waits for the end of one of them.
    ///
    /// # Errors
    /// [`Error::NameTaken`] if somebody waits there to do the same; [`Error::OtherUser`]; [`Error::NameLength`];
    /// [`Error::Timeout`]; [`Error::Meeting`].
    pub fn begin(name: &str, role: Role, ring: u32, timeout: Timeout) -> Result<Meeting, Error> {
        if !(1..=NAME_MAX).contains(&name.len()) {
            return Err(Error::NameLength(name.len()));
        }
        let name = format!("umbra-stream.{}.{name}", rustix::process::geteuid().as_raw());
        let address = SocketAddr::from_abstract_name(&name).map_err(|e| failed(&e))?;
        let deadline = timeout.deadline();
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => {
                    listener.set_nonblocking(true).map_err(|e| failed(&e))?;
                    let attributes = Attributes { ring, members: 4, ..Attributes::of(Mode::Single) };
                    let adapter = Adapter::create(&attributes, [])?;
                    return Ok(Meeting { adapter, role, at: At::First(listener) });
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(failed(&error)),
            }
            if let Some(meeting) = Self::second(&name, role, deadline)? {
                return Ok(meeting);
            }
            // Its holder went just now.
            if clock::now() >= deadline {
                return Err(Error::Timeout);
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn second(name: &str, role: Role, deadline: Time) -> Result<Option<Meeting>, Error> {
        let Some(socket) = knock(name, deadline)? else { return Ok(None) };
        check_user(&socket)?;
        let mut head = [0; 3];
        let heard = match say(&socket, &[role.number()])? {
            Some(()) => hear(&socket, &mut head, deadline)?,
            None => None,
        };
        let Some(()) = heard else { return Ok(None) };
        let [other, low, high] = head;
        if other == role.number() {
            return Err(Error::NameTaken(role.does()));
        }
        let mut buffer = [0; LONGEST];
        let bytes = buffer.get_mut(..usize::from(u16::from_le_bytes([low, high]))).ok_or(Error::Damaged)?;
        if hear(&socket, bytes, deadline)?.is_none() {
            return Ok(None);
        }
        let adapter = Adapter::attach_reference(bytes, [])?;
        Ok(Some(Meeting { adapter, role, at: At::Second(socket) }))
    }

    /// Where to begin the end that was chosen.
    #[must_use]
    pub const fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Waits until the other one is there, after the own end was begun: from then on its death is noticed.
    ///
    /// # Errors
    /// [`Error::Timeout`] if nobody came; [`Error::PeerDead`] if it went again; [`Error::Meeting`].
    pub fn join(&self, timeout: Timeout) -> Result<(), Error> {
        let deadline = timeout.deadline();
        match &self.at {
            At::Second(socket) => say(socket, &[READY])?.ok_or(Error::PeerDead),
            At::First(listener) => loop {
                if let Some(socket) = next(listener, deadline)?
                    && check_user(&socket).is_ok()
                    && self.welcome(&socket, deadline)?
                {
                    return Ok(());
                }
                // Strangers may come for ever.
                if clock::now() >= deadline {
                    return Err(Error::Timeout);
                }
            },
        }
    }

    /// Whether it is the one who was waited for.
    fn welcome(&self, socket: &UnixStream, deadline: Time) -> Result<bool, Error> {
        let mut role = [0];
        match hear(socket, &mut role, deadline.min(clock::now() + SILENCE)) {
            Ok(Some(())) => {}
            Ok(None) | Err(Error::Timeout) => return Ok(false),
            Err(error) => return Err(error),
        }
        let is_wanted = role == [self.role.other().number()];
        let reference = if is_wanted { self.adapter.reference()? } else { Vec::new() };
        let mut answer = vec![self.role.number()];
        answer.extend((reference.len() as u16).to_le_bytes());
        answer.extend(reference);
        if say(socket, &answer)?.is_none() || !is_wanted {
            return Ok(false);
        }
        // It may have begun: if it has gone, so has the stream's other end.
        hear(socket, &mut role, deadline)?.map(|()| true).ok_or(Error::PeerDead)
    }
}

/// Who comes next; `None` if he went at once.
fn next(listener: &UnixListener, deadline: Time) -> Result<Option<UnixStream>, Error> {
    let until = if deadline == Time::NEVER { None } else { Some(left(deadline)) };
    let until = until.and_then(|until| until.try_into().ok());
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], until.as_ref()) {
        Ok(0) => return Err(Error::Timeout),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(None),
        Err(error) => return Err(Error::Meeting(error)),
    }
    match listener.accept() {
        Ok((socket, _)) => Ok(Some(socket)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}
