//! File descriptors at either end of a stream.
//!
//! With one, whoever can write to or read from a pipe talks through the stream. Each takes the end of the conversation,
//! and a thread that copies; [`finish`](WritableFile::finish) gives the end back.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::pipe::PipeFlags;

use super::Adapter;
use super::error::Error;
use super::receive::Receiver;
use super::send::Sender;
use crate::channel::Timeout;

/// Bytes that are copied at once, unless the caller says otherwise.
const CHUNK: usize = 1 << 10;

/// The end that a thread works with, and what it hands back.
#[derive(Debug)]
struct Copier<'a, T> {
    adapter: &'a Adapter,
    done: mpsc::Receiver<(Result<T, Error>, Option<Error>)>,
}

impl<'a, T: Send + 'static> Copier<'a, T> {
    /// Lets a thread do `work`, which says what it hands back and why it stopped.
    fn start(
        adapter: &'a Adapter,
        work: impl FnOnce(&Adapter) -> (Result<T, Error>, Option<Error>) + Send + 'static,
    ) -> Result<Self, Error> {
        let (tell, done) = mpsc::channel();
        let theirs = adapter.clone();
        let spawned = std::thread::Builder::new().name("umbra-stream".to_owned()).spawn(move || {
            // Whoever does not wait for it any more does not want it either.
            let _ = tell.send(work(&theirs));
        });
        spawned.map_err(|e| Error::File(rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::AGAIN)))?;
        Ok(Copier { adapter, done })
    }

    fn join(&self, timeout: Timeout) -> Result<(Result<T, Error>, Option<Error>), Error> {
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
pub struct WritableFile<'a>(Copier<'a, super::send::Paused>);

/// What is received can be read from a descriptor, which ends with the stream.
#[derive(Debug)]
pub struct ReadableFile<'a>(Copier<'a, super::receive::Paused>);

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Error::File)
}

impl<'a> Sender<'a> {
    /// A descriptor: what anybody writes to it is sent, in messages of up to `chunk` bytes (1 KiB if 0), until it and
    /// all its copies are closed. The conversation goes on with what [`WritableFile::finish`] gives back.
    ///
    /// # Errors
    /// [`Error::File`]; the conversation has ended then.
    pub fn into_file(self, chunk: usize) -> Result<(OwnedFd, WritableFile<'a>), Error> {
        let (read, write) = pipe()?;
        let (adapter, paused) = self.pause();
        let copier = Copier::start(adapter, move |adapter| {
            let mut sender = match Sender::resume(adapter, paused) {
                Ok(sender) => sender,
                Err(error) => return (Err(error), None),
            };
            let (mut from, mut buffer) = (File::from(read), vec![0; if chunk == 0 { CHUNK } else { chunk }]);
            let why = loop {
                match from.read(&mut buffer) {
                    Ok(0) => break None,
                    Ok(len) => match sender.send(&buffer[..len], sender.plan.arg, Timeout::Never) {
                        Ok(()) => {}
                        Err(error) => break Some(error),
                    },
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => break Some(failed(&error)),
                }
            };
            (Ok(sender.pause().1), why)
        })?;
        Ok((write, WritableFile(copier)))
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
    /// [`Error::Timeout`]: call again when the descriptor is closed.
    pub fn finish(&self, timeout: Timeout) -> Result<(Sender<'a>, Option<Error>), Error> {
        let (paused, why) = self.0.join(timeout)?;
        Ok((Sender::resume(self.0.adapter, paused?)?, why))
    }
}

impl<'a> Receiver<'a> {
    /// A descriptor from which what is received can be read; at the end of the stream it ends too.
    ///
    /// # Errors
    /// [`Error::File`]; the conversation has ended then.
    pub fn into_file(self, chunk: usize) -> Result<(OwnedFd, ReadableFile<'a>), Error> {
        let (read, write) = pipe()?;
        let (adapter, paused) = self.pause()?;
        let copier = Copier::start(adapter, move |adapter| {
            let mut receiver = match Receiver::resume(adapter, paused) {
                Ok(receiver) => receiver,
                Err(error) => return (Err(error), None),
            };
            let (mut to, mut buffer) = (File::from(write), vec![0; if chunk == 0 { CHUNK } else { chunk }]);
            let why = loop {
                match receiver.receive_into(&mut buffer, Timeout::Never) {
                    Ok(piece) => match to.write_all(&buffer[..piece.len]) {
                        Ok(()) => {}
                        Err(error) => break Some(failed(&error)),
                    },
                    Err(Error::Ended) => break None,
                    Err(error) => break Some(error),
                }
            };
            (receiver.pause().map(|(_, paused)| paused), why)
        })?;
        Ok((read, ReadableFile(copier)))
    }
}

impl<'a> ReadableFile<'a> {
    /// Waits until the stream has ended, or the reader of the descriptor went away; then the conversation goes on. Beside
    /// the receiver stands what made the copying stop, if it was not the end of the stream.
    ///
    /// # Errors
    /// [`Error::Timeout`]: call again when the sender has ended, or the descriptor is read or closed.
    pub fn finish(&self, timeout: Timeout) -> Result<(Receiver<'a>, Option<Error>), Error> {
        let (paused, why) = self.0.join(timeout)?;
        Ok((Receiver::resume(self.0.adapter, paused?)?, why))
    }
}
