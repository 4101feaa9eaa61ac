//! Streams of another host, as a client uses them.

use std::io::{self, Read, Write};

use umbra_core::gateway::{Answer, End, MESSAGE_MAX, Matter, Request};
use umbra_core::reference::Object;
use umbra_core::stream::Counts;

use super::error::Error;
use super::line::{Conversation, Line, Opening, done, patience};
use super::lines::{Lines, MOST};
use super::registry::Gateways;
use crate::channel::Timeout;
use crate::stream::{self, Message, Mode, Piece, ReceiveOptions, SendOptions};

/// The modes, as gateways number them.
pub(super) const MODES: [Mode; 5] =
    [Mode::Nominal, Mode::Buffered, Mode::SenderSupplied, Mode::ReceiverSupplied, Mode::Single];

/// Streams of another host; dropping it leaves them to the others.
pub struct RemoteStreams {
    mode: Mode,
    uid: u64,
    /// For what no conversation does.
    lines: Lines,
}

/// What the gateway says when a conversation has begun, or the streams are there.
fn begun(answer: Answer<'_>) -> Option<(Mode, u64)> {
    match answer {
        Answer::Begun { mode, uid } => Some((*MODES.get(usize::from(mode))?, uid)),
        _ => None,
    }
}

const fn neither() -> Opening {
    Opening::Streams(Conversation { end: End::Neither, is_one_message: false, may_be_cut: false, deposit_after: 0 })
}

impl RemoteStreams {
    /// Uses the streams that the bytes of a reference name, through the gateway of their host.
    ///
    /// # Errors
    /// [`Error::NoGateway`], [`Error::Local`], [`Error::Reference`], [`Error::Lost`], [`Error::Silent`]; and what the gateway
    /// says when it attaches.
    pub fn attach(bytes: &[u8], gateways: &Gateways, timeout: Timeout) -> Result<RemoteStreams, Error> {
        let host = gateways.host_of(bytes, |named| *named == Object::Streams)?;
        let lines = Lines::new(gateways, host, bytes, neither(), MOST);
        let mut line = lines.another(neither());
        let (mode, uid) = line.open(timeout, begun)?;
        Ok(RemoteStreams { mode, uid, lines: lines.with(line) })
    }

    /// The host that they are on.
    #[must_use]
    pub const fn host(&self) -> u64 {
        self.lines.host()
    }

    /// The bytes by which others attach.
    #[must_use]
    pub fn reference(&self) -> &[u8] {
        self.lines.reference()
    }

    /// The id that their creator chose.
    #[must_use]
    pub const fn uid(&self) -> u64 {
        self.uid
    }

    /// How their creator wanted conversations to begin. A stream that somebody has to bring is the gateway's.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    fn ask<T>(&self, matter: Matter, timeout: Timeout, read: impl FnOnce(Answer<'_>) -> Option<T>) -> Result<T, Error> {
        let deadline = timeout.deadline();
        self.lines.by_one(deadline, |line| {
            line.call(&Request::Ask { patience: patience(timeout, deadline), matter }, deadline, read)
        })
    }

    /// How many streams are idle, conversations wait, and so on.
    ///
    /// # Errors
    /// [`Error::Stream`], [`Error::Lost`], [`Error::Silent`].
    pub fn counts(&self) -> Result<Counts, Error> {
        self.ask(Matter::Counts, Timeout::Now, |answer| match answer {
            Answer::Counts(all) => {
                let [idle, waiting, offered, kept, room] = all.map(|count| count as usize);
                Some(Counts { idle, waiting, offered, kept, room })
            }
            _ => None,
        })
    }

    /// Whether a conversation waits for a receiver; does not wait.
    ///
    /// # Errors
    /// As for [`counts`](Self::counts).
    pub fn poll(&self) -> Result<bool, Error> {
        Ok(self.counts()?.waiting > 0)
    }

    /// Counts a task that is to be done.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Adapter::new_task`](stream::Adapter::new_task) says; [`Error::Lost`], [`Error::Silent`].
    pub fn new_task(&self) -> Result<(), Error> {
        self.ask(Matter::NewTask, Timeout::Now, done)
    }

    /// Counts a task as done.
    ///
    /// # Errors
    /// As for [`new_task`](Self::new_task).
    pub fn task_done(&self) -> Result<(), Error> {
        self.ask(Matter::TaskDone, Timeout::Now, done)
    }

    /// Waits until all tasks are done.
    ///
    /// # Errors
    /// As for [`new_task`](Self::new_task); [`stream::Error::Timeout`].
    pub fn join_tasks(&self, timeout: Timeout) -> Result<(), Error> {
        self.ask(Matter::JoinTasks, timeout, done)
    }

    fn begin(&self, conversation: Conversation, timeout: Timeout) -> Result<Line, Error> {
        let mut line = self.lines.another(Opening::Streams(conversation));
        line.open(timeout, begun)?;
        Ok(line)
    }

    /// Begins a conversation as its sender. Gateways wait asleep, whatever the options say, and bring a stream where one has
    /// to be.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Adapter::send`](stream::Adapter::send) says, and [`stream::Error::StreamRefused`] for a
    /// stream of this host, [`stream::Error::UnknownPool`] for a pool of it; those of [`attach`](Self::attach).
    pub fn send(&self, options: &SendOptions<'_>, timeout: Timeout) -> Result<RemoteStreamSender, Error> {
        refuse_local(options.stream.is_some(), options.placed_in)?;
        if options.arg >= stream::RESERVED {
            return Err(stream::Error::ReservedArgument(options.arg).into());
        }
        let conversation = Conversation {
            end: End::Sender,
            is_one_message: options.buffered,
            may_be_cut: options.may_be_cut,
            deposit_after: options.deposit_after,
        };
        let line = self.begin(conversation, timeout)?;
        Ok(RemoteStreamSender { line: Some(line), arg: options.arg, timeout: options.timeout })
    }

    /// Meets the sender of the oldest conversation that waits; or waits in a stream that the gateway brings.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Adapter::receive`](stream::Adapter::receive) says; those of [`send`](Self::send).
    pub fn receive(&self, options: &ReceiveOptions<'_>, timeout: Timeout) -> Result<RemoteStreamReceiver, Error> {
        refuse_local(options.stream.is_some(), options.placed_in)?;
        let conversation =
            Conversation { end: End::Receiver, is_one_message: false, may_be_cut: false, deposit_after: 0 };
        let line = self.begin(conversation, timeout)?;
        Ok(RemoteStreamReceiver { line, early: Message::default(), timeout: options.timeout })
    }
}

/// Streams and pools of this host are of no use on another one.
const fn refuse_local(is_brought: bool, placed_in: Option<u64>) -> Result<(), Error> {
    match placed_in {
        _ if is_brought => Err(Error::Stream(stream::Error::StreamRefused)),
        Some(uid) => Err(Error::Stream(stream::Error::UnknownPool(uid))),
        None => Ok(()),
    }
}

/// The sending end of a conversation on another host. Dropped, it ends as if closed, unless the thread panics; if the line
/// breaks, the receiver is told that the rest will not come.
pub struct RemoteStreamSender {
    /// `None` when it has closed.
    line: Option<Line>,
    arg: u64,
    timeout: Timeout,
}

impl RemoteStreamSender {
    fn write(&mut self, bytes: &[u8], arg: u64, is_kept: bool, timeout: Timeout) -> Result<(), Error> {
        let deadline = timeout.deadline();
        if bytes.len() > MESSAGE_MAX {
            return Err(Error::TooLarge { len: bytes.len(), most: MESSAGE_MAX });
        }
        let Some(line) = &mut self.line else { return Err(stream::Error::Ended.into()) };
        line.call(&Request::Write { patience: patience(timeout, deadline), arg, is_kept, bytes }, deadline, done)
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
    /// As for [`send`](Self::send); [`stream::Error::Full`] if more than [`KEPT_MOST`](super::KEPT_MOST) bytes would be kept.
    pub fn keep(&mut self, bytes: &[u8], arg: u64) -> Result<(), Error> {
        self.write(bytes, arg, true, Timeout::Now)
    }

    /// Sends what was kept.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn flush(&mut self, timeout: Timeout) -> Result<(), Error> {
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
        let deadline = timeout.deadline();
        line.call(&Request::Close { patience: patience(timeout, deadline) }, deadline, done)
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
        match self.send(some, self.arg, self.timeout) {
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
    /// The beginning of a message whose end had not come at a deadline.
    early: Message,
    timeout: Timeout,
}

impl RemoteStreamReceiver {
    /// Reads what there is of one message, waiting for the first of it.
    fn read_some(
        &mut self,
        room: usize,
        timeout: Timeout,
        into: impl FnOnce(&[u8]) -> Option<()>,
    ) -> Result<Piece, Error> {
        let (deadline, room) = (timeout.deadline(), room.min(MESSAGE_MAX));
        let request = Request::Read { patience: patience(timeout, deadline), room: room as u32 };
        self.line.call(&request, deadline, |answer| match answer {
            Answer::Piece { arg, is_last, bytes } if bytes.len() <= room => {
                into(bytes).map(|()| Piece { len: bytes.len(), arg, is_last })
            }
            _ => None,
        })
    }

    /// Receives the next message, of any length, or what is left of one that was read in part.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Receiver::receive`](stream::Receiver::receive) says; [`Error::Lost`] and
    /// [`Error::Silent`], with which the conversation has ended.
    pub fn receive(&mut self, timeout: Timeout) -> Result<Message, Error> {
        let deadline = timeout.deadline();
        let mut message = std::mem::take(&mut self.early);
        loop {
            let bytes = &mut message.bytes;
            let read = self.read_some(MESSAGE_MAX, timeout.rest(deadline), |more| {
                bytes.extend_from_slice(more);
                Some(())
            });
            match read {
                Ok(piece) => {
                    message.arg = piece.arg;
                    if piece.is_last {
                        return Ok(message);
                    }
                }
                Err(error) => {
                    if matches!(error, Error::Stream(stream::Error::Timeout | stream::Error::Empty)) {
                        self.early = message;
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Receives bytes of the next message into `pad`, as many as come at once and fit; what does not fit comes next.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_into(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        let early = self.early.bytes.len().min(pad.len());
        if early > 0 || pad.is_empty() {
            for (to, from) in pad.iter_mut().zip(self.early.bytes.drain(..early)) {
                *to = from;
            }
            return Ok(Piece { len: early, arg: self.early.arg, is_last: false });
        }
        self.read_some(pad.len(), timeout, |bytes| {
            pad.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(())
        })
    }

    /// Ends the conversation. Unless its sender let it be cut short, this reads what is still to come, to its end.
    ///
    /// # Errors
    /// [`Error::Stream`] with what [`Receiver::close`](stream::Receiver::close) says; [`Error::Lost`], [`Error::Silent`]. The
    /// conversation has ended for this receiver in any case.
    pub fn close(mut self, timeout: Timeout) -> Result<(), Error> {
        let deadline = timeout.deadline();
        self.line.call(&Request::Close { patience: patience(timeout, deadline) }, deadline, done)
    }
}

impl Read for RemoteStreamReceiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.receive_into(into, self.timeout) {
            Ok(piece) => Ok(piece.len),
            Err(Error::Stream(stream::Error::Ended)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// As `std::io` says it; an end is none of these.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Stream(error) => error.into(),
            Error::Lost { .. } => io::Error::new(io::ErrorKind::ConnectionAborted, error),
            Error::Silent(_) => io::Error::new(io::ErrorKind::TimedOut, error),
            error => io::Error::other(error),
        }
    }
}
