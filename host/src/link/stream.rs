//! A link on a non-blocking TCP or Unix socket, with descriptor passing.
//!
//! A frame's descriptors are sent together with the first byte of its record, so the kernel delivers them
//! no later than that byte; they are matched to frames in order.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, sockopt,
};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use umbra_core::wire::Frame;

use super::codec::{Codec, Input, Sending, Side};
use super::{Close, SendError};

/// Descriptors that one frame can carry, and that may wait for their frame.
const DESCRIPTORS_MAX: usize = 8;
const READ_CHUNK: usize = 64 * 1024;
/// How often a host is asked that says nothing.
const PROBE: Duration = Duration::from_secs(10);
/// How long nothing comes from a host that has vanished.
const VANISHED_MS: u32 = 30_000;

/// A codec on its socket.
pub struct Stream {
    socket: OwnedFd,
    codec: Codec,
    passes_descriptors: bool,
    outgoing: VecDeque<(Sending, Vec<OwnedFd>)>,
    /// Descriptors of frames that are still to be taken, frame by frame; `None` if this process had no room for them.
    incoming: VecDeque<Option<Vec<OwnedFd>>>,
    /// The other process' id, where the kernel tells it.
    pid: Option<u32>,
    /// Readable once the process that made the link has exited.
    maker: Option<OwnedFd>,
    /// What the socket failed with: nothing is sent any more, and what came before is still to be taken.
    failed: Option<Close>,
    /// Nothing more can be received.
    ended: bool,
}

impl Stream {
    /// Puts `codec` on `socket`, which is made non-blocking. `is_unix` tells whether it passes descriptors.
    ///
    /// # Errors
    /// [`Close::Io`] if the socket refuses.
    pub fn new(socket: OwnedFd, codec: Codec, is_unix: bool) -> Result<Stream, Close> {
        rustix::io::ioctl_fionbio(&socket, true).map_err(io)?;
        let (pid, maker) = if is_unix {
            let pid = sockopt::socket_peercred(&socket).map_err(io)?.pid;
            // Without it the end of the socket tells: most processes have no children that hold it.
            let is_other = codec.side() == Side::Acceptor && pid != getpid();
            let maker = if is_other { pidfd_open(pid, PidfdFlags::empty()).ok() } else { None };
            (u32::try_from(pid.as_raw_nonzero().get()).ok(), maker)
        } else {
            // Frames are small and wait for answers; and a host that vanished is noticed in time, also if nobody sends.
            sockopt::set_tcp_nodelay(&socket, true).map_err(io)?;
            sockopt::set_socket_keepalive(&socket, true).map_err(io)?;
            sockopt::set_tcp_keepidle(&socket, PROBE).map_err(io)?;
            sockopt::set_tcp_keepintvl(&socket, PROBE).map_err(io)?;
            sockopt::set_tcp_user_timeout(&socket, VANISHED_MS).map_err(io)?;
            (None, None)
        };
        Ok(Stream {
            socket,
            codec,
            passes_descriptors: is_unix,
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            pid,
            maker,
            failed: None,
            ended: false,
        })
    }

    /// The process at the other end, as the kernel knows it; Unix links only.
    #[must_use]
    pub const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// What becomes readable when the process that made the link exits, if that can be told.
    #[must_use]
    pub fn maker(&self) -> Option<BorrowedFd<'_>> {
        self.maker.as_ref().map(AsFd::as_fd)
    }

    /// The process that made the link has exited: what it sent can still be read, and then the link is over, also if a
    /// process that it forked off holds its end.
    pub fn orphan(&mut self) {
        self.maker = None;
        self.end_incoming();
    }

    /// Nothing is received any more but what the socket has already; then it tells the end.
    fn end_incoming(&self) {
        // One that is over already needs no end.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }

    /// Whether frames can be sent.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.codec.is_up()
    }

    /// Whether the peer has said who it is.
    #[must_use]
    pub const fn is_greeted(&self) -> bool {
        self.codec.is_greeted()
    }

    /// Whether bytes wait to be sent.
    #[must_use]
    pub fn wants_to_write(&self) -> bool {
        self.failed.is_none() && !self.codec.outgoing().is_empty()
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.codec.outgoing().len()
    }

    /// Whether there is room for bytes from the peer.
    #[must_use]
    pub fn wants_to_read(&self) -> bool {
        !self.ended && self.codec.room() > 0
    }

    /// Whether there is no more room for bytes from the peer, so that some may have been left to its socket.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.ended && self.codec.room() == 0
    }

    /// Queues a frame.
    ///
    /// # Errors
    /// [`SendError`], with the descriptors dropped; nothing is queued then. [`SendError::NotUp`] also once a
    /// [`write`](Self::write) has found that the peer is gone.
    pub fn send(&mut self, frame: &Frame<'_>, descriptors: Vec<OwnedFd>) -> Result<(), SendError> {
        if self.failed.is_some() {
            return Err(SendError::NotUp);
        }
        if descriptors.len() > DESCRIPTORS_MAX || (!descriptors.is_empty() && !self.passes_descriptors) {
            return Err(SendError::Descriptors);
        }
        let count = u8::try_from(descriptors.len()).map_err(|_| SendError::Descriptors)?;
        let at = self.codec.send(frame, count)?;
        if !descriptors.is_empty() {
            self.outgoing.push_back((at, descriptors));
        }
        Ok(())
    }

    /// Sends what the socket takes. If it takes nothing any more, what waits is dropped; what the peer had sent before
    /// can still be [read](Self::read) and [taken](Self::take), and only then the link is over.
    pub fn write(&mut self) {
        while self.wants_to_write() {
            let position = self.codec.position();
            let bytes = self.codec.outgoing();
            let due = self.outgoing.front().filter(|(at, _)| *at <= position);
            // Stop before the next record that has descriptors: they must not arrive early.
            let next = self.outgoing.iter().find(|(at, _)| *at > position).map(|(at, _)| at.0 - position.0);
            let until = next.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX).min(bytes.len());
            let bytes = bytes.get(..until).unwrap_or_default();
            match send_some(self.socket.as_fd(), bytes, due.map_or(&[], |(_, list)| list.as_slice())) {
                Ok(len) => {
                    if due.is_some() {
                        self.outgoing.pop_front();
                    }
                    self.codec.sent(len);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(e) => self.fail(e),
            }
        }
    }

    fn fail(&mut self, e: Errno) {
        self.codec.sent(self.codec.outgoing().len());
        self.outgoing.clear();
        self.failed.get_or_insert(match e {
            // The peer died or closed with bytes of ours under way: to the caller the same thing.
            Errno::CONNRESET | Errno::PIPE => Close::Ended,
            e => io(e),
        });
        self.end_incoming();
    }

    /// Receives what the socket has, as far as there is room. That it has come to its end is told by
    /// [`take`](Self::take), after what came before.
    ///
    /// # Errors
    /// [`Close::Descriptors`] if descriptors come that nobody announced.
    pub fn read(&mut self) -> Result<(), Close> {
        let mut chunk = [0; READ_CHUNK];
        loop {
            let len = self.codec.room().min(READ_CHUNK);
            if len == 0 || self.ended {
                return Ok(());
            }
            let buffer = chunk.get_mut(..len).unwrap_or_default();
            match self.receive_some(buffer) {
                Ok(0) => self.ended = true,
                Ok(got) => {
                    // An acceptor may send its first frames right behind its proof; strangers send nothing.
                    let stranger = !self.is_up() && self.codec.side() == Side::Acceptor;
                    let waiting: usize = self.incoming.iter().map(|list| list.as_ref().map_or(1, Vec::len)).sum();
                    if waiting > DESCRIPTORS_MAX || (stranger && !self.incoming.is_empty()) {
                        return Err(Close::Descriptors);
                    }
                    self.codec.receive(buffer.get(..got).unwrap_or_default())?;
                    if got < len {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => {
                    self.ended = true;
                    self.fail(e);
                }
            }
        }
    }

    fn receive_some(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        let mut came = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(list) = message {
                came.extend(list);
            }
        }
        // One call receives the descriptors of one frame: nothing behind them comes with it.
        if got.flags.contains(ReturnFlags::CTRUNC) {
            umbra_core::log!(warn, "descriptors that a peer sent are lost: this process can have no more");
            self.incoming.push_back(None);
        } else if !came.is_empty() {
            self.incoming.push_back(Some(came));
        }
        Ok(got.bytes)
    }

    /// The next thing that came in, see [`Codec::take`]; with it the descriptors of the frame, none if this process
    /// had no room for them: that frame can be refused, and the peer has done nothing wrong.
    ///
    /// # Errors
    /// [`Close`]; once everything before the end was taken, [`Close::Ended`] or [`Close::Io`].
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Result<Option<(Input, Vec<OwnedFd>)>, Close> {
        match self.codec.take(frame)? {
            Some(Input::Frame(count)) if count > 0 => match self.incoming.pop_front() {
                Some(None) => Ok(Some((Input::Frame(count), Vec::new()))),
                Some(Some(list)) if list.len() == count => Ok(Some((Input::Frame(count), list))),
                _ => Err(Close::Descriptors),
            },
            Some(input) => Ok(Some((input, Vec::new()))),
            None if self.ended => Err(self.failed.clone().unwrap_or(Close::Ended)),
            None => Ok(None),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send_some(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[OwnedFd]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)
}

const fn io(e: Errno) -> Close {
    Close::Io(e.raw_os_error())
}
