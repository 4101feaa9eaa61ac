//! The two ends of a conversation on another host.

use std::io::{self, Read, Write};

use umbra_core::gateway::{Answer, MESSAGE_MAX, Request};

use super::error::Error;
use super::line::{Line, Term, done};
use crate::channel::Timeout;
use crate::driver::now;
use crate::stream::{self, Early, Filled, Message, Piece};
use crate::sys::heap;

/// The sending end of a conversation on another host. Dropped, it ends as if closed, unless the thread panics; if the line
/// breaks, the receiver is told that the rest will not come.
pub struct RemoteStreamSender {
    /// `None` when it has closed.
    line: Option<Line>,
    is_one_message: bool,
    arg: u64,
    timeout: Timeout,
}

impl RemoteStreamSender {
    pub(super) const fn new(line: Line, is_one_message: bool, arg: u64, timeout: Timeout) -> RemoteStreamSender {
        RemoteStreamSender { line: Some(line), is_one_message, arg, timeout }
    }

    fn write(&mut self, bytes: &[u8], arg: u64, is_kept: bool, timeout: Timeout) -> Result<(), Error> {
        let term = Term::of(timeout);
        if bytes.len() > MESSAGE_MAX {
            return Err(Error::TooLarge { len: bytes.len(), most: MESSAGE_MAX });
        }
        let Some(line) = &mut self.line else { return Err(stream::Error::Ended.into()) };
        line.call(&Request::Write { patience: term.patience(), arg, is_kept, bytes }, term, done)
    }

    /// Sends these bytes, and the 64 bits beside them, after what was kept before.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Sender::send`](stream::Sender::send) says; [`Error::TooLarge`]; [`Error::Lost`] and
    /// [`Error::Silent`], with which the conversation has ended.
    pub fn send(&mut self, bytes: &[u8], arg: u64, timeout: Timeout) -> Result<(), Error> {
        self.write(bytes, arg, false, timeout)
    }

    /// Has the gateway keep these bytes, to be sent with what comes next, or with the close.
    ///
    /// # Errors
    /// As for [`send`](Self::send); [`stream::Error::Full`] if more than [`KEPT_MOST`](super::KEPT_MOST) bytes would be kept, or
    /// [`stream::Error::MessageTooLarge`] in a conversation of one message.
    pub fn keep(&mut self, bytes: &[u8], arg: u64) -> Result<(), Error> {
        self.write(bytes, arg, true, Timeout::Now)
    }

    /// Sends what was kept. In a conversation of one message it is kept until the close.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn flush(&mut self, timeout: Timeout) -> Result<(), Error> {
        if self.is_one_message {
            return Ok(());
        }
        self.write(&[], 0, false, timeout)
    }

    /// Ends the conversation: sends what was kept, and says that it was all.
    ///
    /// # Errors
    /// As for [`send`](Self::send); the conversation has ended in any case.
    pub fn close(mut self, timeout: Timeout) -> Result<(), Error> {
        self.finish(timeout)
    }

    fn finish(&mut self, timeout: Timeout) -> Result<(), Error> {
        let Some(mut line) = self.line.take() else { return Ok(()) };
        let term = Term::of(timeout);
        line.call(&Request::Close { patience: term.patience() }, term, done)
    }
}

impl Drop for RemoteStreamSender {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Who wants to know calls `close`.
            let _ = self.finish(Timeout::Now);
        }
    }
}

impl Write for RemoteStreamSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = bytes.get(..MESSAGE_MAX).unwrap_or(bytes);
        // As at hand, the one message of a conversation is sent with the close.
        let done = match self.is_one_message {
            true => self.keep(some, self.arg),
            false => self.send(some, self.arg, self.timeout),
        };
        match done {
            Ok(()) | Err(Error::Stream(stream::Error::Partly { .. })) => Ok(some.len()),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(RemoteStreamSender::flush(self, self.timeout)?)
    }
}

/// The receiving end of a conversation on another host. Dropped, it ends at once, and what was not read is lost.
pub struct RemoteStreamReceiver {
    line: Line,
    /// What had come at a deadline.
    early: Early,
    has_ended: bool,
    timeout: Timeout,
}

/// Until when a call reads part after part, whose answers may each come as late: a sender that goes on for ever would keep a
/// receiver as long.
struct Limit {
    term: Term,
    is_first: bool,
}

impl Limit {
    fn new(timeout: Timeout) -> Limit {
        Limit { term: Term::of(timeout), is_first: true }
    }

    /// What is left of the time for the next part, which is refused if it is over.
    fn next(&mut self) -> Result<Timeout, Error> {
        match (std::mem::take(&mut self.is_first) || now() < self.term.limit(), self.term.timeout) {
            (true, _) => Ok(self.term.rest()),
            (false, Timeout::Now) => Err(stream::Error::Empty.into()),
            (false, _) => Err(stream::Error::Timeout.into()),
        }
    }
}

impl RemoteStreamReceiver {
    pub(super) fn new(line: Line, timeout: Timeout) -> RemoteStreamReceiver {
        RemoteStreamReceiver { line, early: Early::default(), has_ended: false, timeout }
    }

    /// Reads what there is of one message, waiting for the first of it.
    fn read_some(
        &mut self,
        room: usize,
        timeout: Timeout,
        into: impl FnOnce(&[u8]) -> Option<()>,
    ) -> Result<Piece, Error> {
        let (term, room) = (Term::of(timeout), room.min(MESSAGE_MAX));
        let request = Request::Read { patience: term.patience(), room: room as u32 };
        let read = self.line.call(&request, term, |answer| match answer {
            Answer::Piece { arg, is_last, bytes } if bytes.len() <= room => {
                into(bytes).map(|()| Piece { len: bytes.len(), arg, is_last })
            }
            _ => None,
        });
        self.has_ended |= matches!(read, Err(Error::Stream(stream::Error::Ended)));
        read
    }

    /// Whether a receive said that the sender has said everything; asks nobody.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Receives the next message, of any length, or what is left of one that was read in part.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Receiver::receive`](stream::Receiver::receive) says; [`Error::Lost`] and
    /// [`Error::Silent`], with which the conversation has ended.
    pub fn receive(&mut self, timeout: Timeout) -> Result<Message, Error> {
        self.line.refuse_heirs()?;
        if let Some(message) = self.early.take_whole() {
            return Ok(message);
        }
        let mut limit = Limit::new(timeout);
        let mut message = Message::default();
        loop {
            let (filled, is_early) = (message.bytes.len(), !self.early.is_empty());
            let most = if is_early { self.early.len() } else { MESSAGE_MAX };
            // Room comes first: what has left the gateway cannot be had again.
            let read = match heap::more(&mut message.bytes, most) {
                Err(none) => Err(stream::Error::from(none).into()),
                Ok(()) if is_early => {
                    message.bytes.resize(filled + most, 0);
                    let into = message.bytes.get_mut(filled..).unwrap_or_default();
                    Ok(self.early.read(into).unwrap_or_default())
                }
                Ok(()) => {
                    let bytes = &mut message.bytes;
                    let read = |more: &[u8]| {
                        bytes.extend_from_slice(more);
                        Some(())
                    };
                    limit.next().and_then(|rest| self.read_some(most, rest, read))
                }
            };
            match read {
                Ok(piece) => {
                    message.arg = piece.arg;
                    if piece.is_last {
                        message.bytes.shrink_to_fit();
                        return Ok(message);
                    }
                }
                Err(error) => {
                    let comes_again = matches!(
                        error,
                        Error::Stream(stream::Error::Timeout | stream::Error::Empty | stream::Error::NoMemory(_))
                    );
                    if comes_again && filled > 0 {
                        self.early.put_back(message.bytes, message.arg, false);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Has a message received again before anything else: for whom there is no place to keep it.
    pub fn put_back(&mut self, message: Message) {
        self.early.put_back(message.bytes, message.arg, true);
    }

    /// Receives bytes of the next message into `pad`, as many as come at once and fit; what does not fit comes next.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_into(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        self.line.refuse_heirs()?;
        if pad.is_empty() {
            return Ok(Piece::default());
        }
        if let Some(piece) = self.early.read(pad) {
            return Ok(piece);
        }
        self.read_some(pad.len(), timeout, |bytes| {
            pad.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(())
        })
    }

    /// Fills `pad` with bytes of as many messages as it takes; fewer only if there are no more, or no memory to keep those
    /// that had come at the deadline.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_exact(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        let is_over = |error: &Error| matches!(error, Error::Stream(stream::Error::Ended | stream::Error::PeerDead));
        let mut limit = Limit::new(timeout);
        let read = |into: &mut [u8]| limit.next().and_then(|rest| self.receive_into(into, rest));
        let filled = Filled::fill(pad, read, is_over);
        filled.or_else(|(filled, error)| filled.put_back(pad, &mut self.early).ok_or(error))
    }

    /// Ends the conversation. Unless its sender let it be cut short, this reads what is still to come, to its end.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Receiver::close`](stream::Receiver::close) says; [`Error::Lost`], [`Error::Silent`]. The
    /// conversation has ended for this receiver in any case.
    pub fn close(mut self, timeout: Timeout) -> Result<(), Error> {
        let term = Term::of(timeout);
        self.line.call(&Request::Close { patience: term.patience() }, term, done)
    }
}

impl Read for RemoteStreamReceiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.receive_into(into, self.timeout) {
                // To readers of a file nothing is its end, and a message of no bytes is none.
                Ok(Piece { len: 0, .. }) if !into.is_empty() => {}
                Ok(piece) => return Ok(piece.len),
                Err(Error::Stream(stream::Error::Ended)) => return Ok(0),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// As `std::io` says it; an end is none of these.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Stream(error) => error.into(),
            Error::Lost { .. } => io::Error::new(io::ErrorKind::ConnectionAborted, error),
            Error::Silent(_) | Error::Unreached(_) => io::Error::new(io::ErrorKind::TimedOut, error),
            error => io::Error::other(error),
        }
    }
}
