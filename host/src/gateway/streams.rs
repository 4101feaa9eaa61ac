//! Streams of another host, as a client uses them.

use umbra_core::gateway::{Answer, End, Matter, Request};
use umbra_core::reference::Object;
use umbra_core::stream::Counts;

use super::error::Error;
use super::line::{Conversation, Line, Opening, Term, done};
use super::lines::{Lines, MOST};
use super::registry::Gateways;
use super::talk::{RemoteStreamReceiver, RemoteStreamSender};
use crate::channel::Timeout;
use crate::stream::{self, Mode, ReceiveOptions, SendOptions};

/// The modes, as gateways number them.
pub(super) const MODES: [Mode; 5] =
    [Mode::Nominal, Mode::Buffered, Mode::SenderSupplied, Mode::ReceiverSupplied, Mode::Single];

/// Streams of another host; dropping it leaves them to the others. A conversation whose line broke is over at the gateway, too,
/// before the next call with this handle does anything.
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
    /// [`Error::NoGateway`], [`Error::Local`], [`Error::Reference`], [`Error::Lost`], [`Error::Unreached`], [`Error::Silent`]; and
    /// what the gateway says when it attaches.
    pub fn attach(bytes: &[u8], gateways: &Gateways, timeout: Timeout) -> Result<RemoteStreams, Error> {
        let host = gateways.host_of(bytes, |named| *named == Object::Streams)?;
        let lines = Lines::new(gateways, host, bytes, neither(), MOST);
        let mut line = lines.one();
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
        let term = Term::of(timeout);
        self.refuse_heirs()?;
        self.lines.by_one(term, |line| line.call(&Request::Ask { patience: term.patience(), matter }, term, read))
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

    /// As adapters at hand are, these are refused to a child that was forked off.
    fn refuse_heirs(&self) -> Result<(), Error> {
        if self.lines.are_inherited() { Err(stream::Error::Forked.into()) } else { Ok(()) }
    }

    fn begin(&self, conversation: Conversation, timeout: Timeout) -> Result<Line, Error> {
        self.refuse_heirs()?;
        let mut line = self.lines.one_for(Opening::Streams(conversation));
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
        let is_one_message = options.buffered || self.mode == Mode::Buffered;
        Ok(RemoteStreamSender::new(line, is_one_message, options.arg, options.timeout))
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
        Ok(RemoteStreamReceiver::new(line, options.timeout))
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
