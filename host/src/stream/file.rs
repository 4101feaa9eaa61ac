//! File descriptors at either end of a stream.
//!
//! With one, whoever can write to or read from a pipe talks through the stream. Each takes the end of the conversation,
//! and a thread that copies; [`finish`](WritableFile::finish) gives the end back.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::PipeFlags;

use super::error::Error;
use super::receive::{Paused as PausedReceiver, Receiver};
use super::send::{Paused as PausedSender, Sender};
use super::{Adapter, refuse_heirs};
use crate::channel::Timeout;
use crate::sys;

/// Bytes that are copied at once, unless the caller says otherwise.
const CHUNK: usize = 1 << 10;
/// How long a thread waits for messages before it looks whether anybody still reads them.
const LOOK: Timeout = Timeout::After(Duration::from_millis(100));

/// The end that a thread works with, and what it hands back.
#[derive(Debug)]
struct Copier<'a, T> {
    adapter: &'a Adapter,
    done: mpsc::Receiver<(Result<T, Error>, Option<Error>)>,
}

impl<'a, T: Send + 'static> Copier<'a, T> {
    /// Lets a thread do `work` with what it is handed; the work says what it hands back and why it stopped.
    fn start(
        adapter: &'a Adapter,
        work: impl FnOnce(&Adapter, T) -> (Result<T, Error>, Option<Error>) + Send + 'static,
    ) -> Result<(mpsc::Sender<T>, Self), Error> {
        let ((hand, handed), (tell, done)) = (mpsc::channel(), mpsc::channel());
        let theirs = adapter.clone();
        let spawned = std::thread::Builder::new().name("umbra-stream".to_owned()).spawn(move || {
            // A pipe that nobody reads any more is an error to tell, also in programs that would end for it.
            sys::signals::block_sigpipe();
            if let Ok(end) = handed.recv() {
                // Whoever does not wait for it any more does not want it either.
                let _ = tell.send(work(&theirs, end));
            }
        });
        spawned.map_err(|e| Error::File(rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::AGAIN)))?;
        Ok((hand, Copier { adapter, done }))
    }

    fn join(&self, timeout: Timeout) -> Result<(Result<T, Error>, Option<Error>), Error> {
        // A forked child has no such thread.
        refuse_heirs(self.adapter.0.life)?;
        let wait = match timeout {
            Timeout::Now => Duration::ZERO,
            Timeout::After(wait) => wait,
            Timeout::Never => return self.done.recv().map_err(|_| Error::Damaged),
        };
        self.done.recv_timeout(wait).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::Timeout,
            RecvTimeoutError::Disconnected => Error::Damaged,
        })
    }
}

/// What is written to a descriptor is sent, until the descriptor is closed.
#[derive(Debug)]
pub struct WritableFile<'a>(Copier<'a, PausedSender>);

/// What is received can be read from a descriptor, which ends with the stream.
#[derive(Debug)]
pub struct ReadableFile<'a>(Copier<'a, PausedReceiver>);

/// Why no descriptor stands for an end, which goes on. Without a use for the end, `?` makes an [`Error`] of it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NoFile<End> {
    /// Why.
    pub error: Error,
    /// The end of the conversation.
    pub end: End,
}

impl<End> From<NoFile<End>> for Error {
    fn from(none: NoFile<End>) -> Error {
        none.error
    }
}

/// What is copied at once.
fn buffer(chunk: usize) -> Result<Vec<u8>, Error> {
    Ok(sys::heap::filled(0, if chunk == 0 { CHUNK } else { chunk })?)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Error::File)
}

impl<'a> Sender<'a> {
    /// A descriptor: what anybody writes to it is sent, in messages of up to `chunk` bytes (1 KiB if 0), until it and
    /// all its copies are closed; in a conversation of one message, with its close. The conversation goes on with what
    /// [`WritableFile::finish`] gives back.
    ///
    /// # Errors
    /// [`NoFile`] with [`Error::File`], [`Error::Forked`], or [`Error::NoMemory`] for a chunk.
    #[expect(clippy::result_large_err, reason = "an end that no file stands for is its owner's again")]
    pub fn into_file(self, chunk: usize) -> Result<(OwnedFd, WritableFile<'a>), NoFile<Self>> {
        match self.refuse_heirs().and_then(|()| self.copied(chunk)) {
            Ok((write, hand, copier)) => {
                // The thread waits for it.
                let _ = hand.send(self.pause());
                Ok((write, WritableFile(copier)))
            }
            Err(error) => Err(NoFile { error, end: self }),
        }
    }

    /// A descriptor, and the thread that sends what is written to it as soon as it is handed the conversation.
    fn copied(&self, chunk: usize) -> Result<(OwnedFd, mpsc::Sender<PausedSender>, Copier<'a, PausedSender>), Error> {
        let ((read, write), mut buffer) = (pipe()?, buffer(chunk)?);
        let (hand, copier) = Copier::start(self.adapter, move |adapter, paused| {
            let mut sender = match Sender::resume(adapter, paused) {
                Ok(sender) => sender,
                Err(error) => return (Err(error), None),
            };
            let mut from = File::from(read);
            let why = loop {
                match from.read(&mut buffer) {
                    Ok(0) => break None,
                    Ok(len) => match sender.write_piece(&buffer[..len], Timeout::Never) {
                        Ok(()) => {}
                        Err(error) => break Some(error),
                    },
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => break Some(failed(&error)),
                }
            };
            (Ok(sender.pause()), why)
        })?;
        Ok((write, hand, copier))
    }
}

/// Whether somebody can still read what is written to this pipe.
fn is_read(pipe: &File) -> bool {
    let mut found = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut found, Some(&now)) {
        Ok(_) => !found[0].revents().contains(PollFlags::ERR),
        Err(_) => true,
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::File(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}

impl<'a> WritableFile<'a> {
    /// Waits until the descriptor and its copies are closed and all of it was sent; then the conversation goes on. Beside
    /// the sender stands what made the copying stop, if it was not the end of the file.
    ///
    /// # Errors
    /// [`Error::Timeout`]: call again when the descriptor is closed. [`Error::Forked`].
    pub fn finish(&self, timeout: Timeout) -> Result<(Sender<'a>, Option<Error>), Error> {
        let (paused, why) = self.0.join(timeout)?;
        Ok((Sender::resume(self.0.adapter, paused?)?, why))
    }
}

impl<'a> Receiver<'a> {
    /// A descriptor from which what is received can be read; at the end of the stream it ends too.
    ///
    /// # Errors
    /// [`NoFile`] with [`Error::File`], [`Error::Forked`] or [`Error::NoMemory`], or with what reading the rest of a message says of which a part
    /// was read.
    #[expect(clippy::result_large_err, reason = "an end that no file stands for is its owner's again")]
    pub fn into_file(mut self, chunk: usize) -> Result<(OwnedFd, ReadableFile<'a>), NoFile<Self>> {
        match self.refuse_heirs().and_then(|()| self.gather()).and_then(|()| self.copied(chunk)) {
            Ok((read, hand, copier)) => {
                // The thread waits for it.
                let _ = hand.send(self.pause());
                Ok((read, ReadableFile(copier)))
            }
            Err(error) => Err(NoFile { error, end: self }),
        }
    }

    /// A descriptor, and the thread that writes what is received to it as soon as it is handed the conversation.
    fn copied(
        &self,
        chunk: usize,
    ) -> Result<(OwnedFd, mpsc::Sender<PausedReceiver>, Copier<'a, PausedReceiver>), Error> {
        let ((read, write), mut buffer) = (pipe()?, buffer(chunk)?);
        let (hand, copier) = Copier::start(self.adapter, move |adapter, paused| {
            let mut receiver = match Receiver::resume(adapter, paused) {
                Ok(receiver) => receiver,
                Err(error) => return (Err(error), None),
            };
            let mut to = File::from(write);
            let why = loop {
                match receiver.receive_into(&mut buffer, LOOK) {
                    Ok(piece) => match to.write_all(&buffer[..piece.len]) {
                        Ok(()) => {}
                        Err(error) => break Some(failed(&error)),
                    },
                    Err(Error::Timeout) if is_read(&to) => {}
                    Err(Error::Timeout) => break Some(Error::File(rustix::io::Errno::PIPE)),
                    Err(Error::Ended) => break None,
                    Err(error) => break Some(error),
                }
            };
            (receiver.gather().map(|()| receiver.pause()), why)
        })?;
        Ok((read, hand, copier))
    }
}

impl<'a> ReadableFile<'a> {
    /// Waits until the stream has ended, or the reader of the descriptor went away; then the conversation goes on. Beside
    /// the receiver stands what made the copying stop, if it was not the end of the stream.
    ///
    /// # Errors
    /// [`Error::Timeout`]: call again when the sender has ended, or the descriptor is read or closed. [`Error::Forked`].
    pub fn finish(&self, timeout: Timeout) -> Result<(Receiver<'a>, Option<Error>), Error> {
        let (paused, why) = self.0.join(timeout)?;
        Ok((Receiver::resume(self.0.adapter, paused?)?, why))
    }
}
