//! One session for many threads, which read other ranks' memory through it.
//!
//! A [`Session`] belongs to one thread at a time. A [`SharedSession`] gives it one of its own, which sleeps until a link
//! has something or a thread asks; whoever asks waits for its own bytes only, and all reads are under way together.
//!
//! ```no_run
//! # fn shared(session: umbra::session::Session, ticket: umbra_core::ticket::Ticket) -> Result<(), Box<dyn std::error::Error>> {
//! use umbra::session::SharedSession;
//! let shared = SharedSession::new(session)?;
//! std::thread::scope(|scope| {
//!     for part in 0..4 {
//!         let (shared, ticket) = (&shared, &ticket);
//!         scope.spawn(move || shared.read(ticket, 4096 * part, &mut [0; 4096]));
//!     }
//! });
//! shared.into_session()?.leave()?;
//! # Ok(())
//! # }
//! ```

use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use umbra_core::id::Id;
use umbra_core::ticket::Ticket;
use umbra_core::time::Time;

use super::reading::{Posted, READS, check, sized};
use super::{Session, SessionError};
use crate::sys::fork;
use crate::sys::wait::{Doorbell, Ringer, WaitError};

/// How a read ended.
type Ended = Result<Vec<u8>, SessionError>;

/// What a thread asks for.
enum Ask {
    Read(Wanted),
    /// The span that it will ask for.
    Ahead(Ticket, u64, u64),
}

/// A read that a thread waits for.
struct Wanted {
    ticket: Ticket,
    offset: u64,
    buffer: Vec<u8>,
    answer: Sender<Ended>,
}

/// A session whose reads any thread may ask for.
#[derive(Debug)]
pub struct SharedSession {
    /// `None` once it shall end.
    asks: Option<Sender<Ask>>,
    ringer: Ringer,
    thread: Option<JoinHandle<Session>>,
    /// Of the process that has the thread.
    life: u32,
    /// The bell, by its number among the descriptors that the session looks at.
    watched: usize,
    /// Buffers of reads that are over, for the next ones.
    spare: Mutex<Vec<Vec<u8>>>,
}

fn cannot_wake(error: WaitError) -> SessionError {
    SessionError::Io { what: "wake the thread of a session", error: std::io::Error::other(error) }
}

impl SharedSession {
    /// Gives a session a thread.
    ///
    /// # Errors
    /// [`SessionError::Io`] if the system has no thread, or no descriptor to wake it; the session is dropped then.
    pub fn new(mut session: Session) -> Result<SharedSession, SessionError> {
        let bell = Doorbell::create().map_err(cannot_wake)?;
        let ringer = bell.ringer().map_err(cannot_wake)?;
        let watched = bell.as_fd().try_clone_to_owned();
        let watched = watched.map_err(|error| SessionError::Io { what: "watch for reads", error })?;
        let watched = session.driver.watch(watched);
        let (asks, asked) = channel();
        let name = format!("session of rank {}", session.seat().rank);
        let turning = Turning { session, bell, asked, under_way: Vec::new() };
        let thread = thread::Builder::new().name(name).spawn(move || turning.run());
        let thread = thread.map_err(|error| SessionError::Io { what: "start the thread of a session", error })?;
        Ok(SharedSession {
            asks: Some(asks),
            ringer,
            thread: Some(thread),
            watched,
            life: fork::life(),
            spare: Mutex::new(Vec::new()),
        })
    }

    /// Reads bytes of another rank's region, as [`Session::read`] does; many threads may do so at the same time.
    ///
    /// # Errors
    /// As [`Session::read`], and [`SessionError::Over`] if the session has ended.
    pub fn read(&self, ticket: &Ticket, offset: u64, into: &mut [u8]) -> Result<(), SessionError> {
        check(ticket, offset, into.len() as u64)?;
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let buffer = sized(spare, into.len())?;
        let (answer, answered) = channel();
        self.ask(Ask::Read(Wanted { ticket: *ticket, offset, buffer, answer }))?;
        // The read has the deadline of the session's settings.
        let buffer = answered.recv().map_err(|_| SessionError::Over)??;
        into.copy_from_slice(&buffer);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        Ok(())
    }

    /// Says that a thread will read these bytes, as [`Session::read_ahead`] does; does not wait for anybody.
    ///
    /// # Errors
    /// [`SessionError::Over`] if the session has ended.
    pub fn read_ahead(&self, ticket: &Ticket, offset: u64, len: u64) -> Result<(), SessionError> {
        self.ask(Ask::Ahead(*ticket, offset, len))
    }

    fn ask(&self, ask: Ask) -> Result<(), SessionError> {
        if self.life != fork::life() {
            return Err(SessionError::Forked);
        }
        let asks = self.asks.as_ref().ok_or(SessionError::Over)?;
        asks.send(ask).map_err(|_| SessionError::Over)?;
        self.ringer.ring();
        Ok(())
    }

    /// Takes the session back.
    ///
    /// # Errors
    /// [`SessionError::Over`] if its thread has panicked.
    pub fn into_session(mut self) -> Result<Session, SessionError> {
        self.end().ok_or(SessionError::Over)
    }

    fn end(&mut self) -> Option<Session> {
        if self.life != fork::life() {
            // A child that was forked off has no such thread, and the bell is its parent's.
            std::mem::forget((self.asks.take(), self.thread.take()));
            return None;
        }
        self.asks = None;
        self.ringer.ring();
        let mut session = self.thread.take()?.join().ok()?;
        // The last ring is heard by nobody: the bell stays readable, and whoever looks at it never sleeps.
        session.driver.unwatch(self.watched);
        Some(session)
    }
}

impl Drop for SharedSession {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// What the thread has.
struct Turning {
    session: Session,
    bell: Doorbell,
    asked: Receiver<Ask>,
    under_way: Vec<(Id<Posted>, Sender<Ended>)>,
}

impl Turning {
    fn run(mut self) -> Session {
        loop {
            // Whoever asks from here on rings.
            self.bell.arm();
            let more = self.take();
            self.answer();
            if !more && self.under_way.is_empty() {
                return self.session;
            }
            let turned = self.session.progress(Time::NEVER);
            self.bell.disarm();
            if turned.is_err() {
                // The senders go with it: all threads hear that it is over.
                return self.session;
            }
        }
    }

    /// Posts what threads ask for, as far as there is room; false if nobody will ask any more.
    fn take(&mut self) -> bool {
        while self.under_way.len() < READS {
            match self.asked.try_recv() {
                Ok(Ask::Read(Wanted { ticket, offset, buffer, answer })) => {
                    match self.session.post_read(&ticket, offset, buffer) {
                        Ok(read) => self.under_way.push((read, answer)),
                        // A thread that does not wait any more needs no answer.
                        Err(error) => drop(answer.send(Err(error))),
                    }
                }
                // The read itself is told what is wrong.
                Ok(Ask::Ahead(ticket, offset, len)) => drop(self.session.read_ahead(&ticket, offset, len)),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn answer(&mut self) {
        let session = &mut self.session;
        self.under_way.retain(|(read, answer)| match session.has_ended(*read) {
            Ok(false) => true,
            Ok(true) => {
                drop(answer.send(session.take_read(*read)));
                false
            }
            Err(error) => {
                drop(answer.send(Err(error)));
                false
            }
        });
    }
}
