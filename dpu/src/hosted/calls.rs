//! Chained calls at an agent: members that live here, one for each rank, and a thread that does their part.
//!
//! The members have the [built-in functions](umbra::call::built_in), so a call over them wakes no rank: it is one message to
//! this process and one back, however many they are. Nobody has to ask for them, so the thread begins with the first who
//! does. It sleeps while no message comes, and looks for the dead a hundred times a second.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use umbra::admin::{self, Body as _, ops};
use umbra::call::{Capacities, JoinError, Member, Shape, Station, StationError};
use umbra::driver::LinkId;
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::chain::{Node, RegisterError};
use umbra_core::error::Status;
use umbra_core::log;
use umbra_core::wire::{Frame, Token};

use super::process::Process;

/// Seats for those that come for a moment, behind those of the ranks.
const GUESTS: u16 = 8;
/// Messages that can wait in an inbox, and bytes of the longest one.
const MESSAGES: u32 = 16;
const MESSAGE_BYTES: u32 = 8 << 10;
/// Bytes of a member's value.
const VALUE_BYTES: usize = 1 << 10;
/// Bytes of memory of one call: what a member with seven children needs that have long replies.
const CALL_BYTES: usize = 64 << 10;
/// The thread hears of the end of the process when it looks for the dead; this is far more.
const LONG: Duration = Duration::from_secs(3600);

/// Why there are no members of chained calls here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallsError {
    /// There is no memory in which they could meet.
    #[error(transparent)]
    Station(#[from] StationError),
    /// A seat cannot be taken.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A function cannot be registered.
    #[error("built-in function: {0}")]
    Register(RegisterError),
    /// There is no thread for them.
    #[error("cannot start the thread of chained calls: {0}")]
    Thread(std::io::Error),
}

impl From<RegisterError> for CallsError {
    fn from(error: RegisterError) -> Self {
        CallsError::Register(error)
    }
}

/// The members of chained calls that live here.
pub(super) struct Calls {
    station: Station,
    residents: u16,
    over: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Calls {
    /// Makes the meeting place and begins to serve.
    ///
    /// # Errors
    /// [`CallsError`].
    pub(super) fn start(residents: u16) -> Result<Calls, CallsError> {
        let seats = 2 * residents + GUESTS;
        let shape = Shape { messages: MESSAGES, message_bytes: MESSAGE_BYTES, ..Shape::new(seats) };
        let station = Station::create("umbra-calls", shape)?;
        let capacities = Capacities { call_bytes: CALL_BYTES, ..Capacities::new(u32::from(seats)) };
        let mut member = Member::join_with(&station, Node(0), capacities, |config| config)?;
        (1..u32::from(residents)).try_for_each(|node| member.house(Node(node)))?;
        member.serve_built_ins(VALUE_BYTES)?;
        member.serve_probe()?;
        let over = Arc::new(AtomicU32::new(0));
        let ends = Arc::clone(&over);
        // ORDERING: the flag carries nothing but itself.
        let serve = move || while !member.serve_until(LONG, |_| ends.load(Ordering::Relaxed) != 0) {};
        let thread = thread::Builder::new().name("umbra-calls".to_owned()).spawn(serve).map_err(CallsError::Thread)?;
        Ok(Calls { station, residents, over, thread: Some(thread) })
    }

    /// What whoever comes has to know, and the descriptor of the meeting place.
    fn invitation(&self) -> Result<(admin::Calls, OwnedFd), StationError> {
        let seats = u32::from(self.station.shape().members);
        Ok((admin::Calls { residents: u32::from(self.residents), seats }, self.station.share()?))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.over.store(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell: what its functions do wrong is caught.
            let _ = thread.join();
        }
    }
}

impl Process {
    /// Somebody asks for the meeting place of calls: one on this machine, for no other can map it.
    pub(super) fn on_calls(&mut self, link: LinkId, token: Token) {
        let op = ops::CALLS;
        if self.links.get(&link).is_none_or(|linked| linked.pid.is_none()) {
            let why = b"members of calls share memory: ask over the Unix socket of an agent on this machine";
            return self.done(link, op, token, Status::Unreachable, why);
        }
        match self.invite() {
            Ok((calls, descriptor)) => {
                let body = calls.to_body();
                let answer = Frame::Done { op, token, status: Status::Ok, body: &body };
                if let Err(why) = self.driver.send(link, &answer, vec![descriptor]) {
                    log!(warn, "link {} is dropped: {}", link.0, why);
                    self.drop_link(link);
                }
            }
            Err(error) => {
                log!(warn, "link {} is refused the meeting place of calls: {}", link.0, error);
                self.done(link, op, token, Status::Full, error.to_string().as_bytes());
            }
        }
    }

    fn invite(&mut self) -> Result<(admin::Calls, OwnedFd), CallsError> {
        let calls = match self.calls.take() {
            Some(calls) => calls,
            None => Calls::start(self.settings.members)?,
        };
        Ok(self.calls.insert(calls).invitation()?)
    }
}
