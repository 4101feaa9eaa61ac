//! Chained calls at an agent: a member for each rank, and a thread for all of them.
//!
//! The members live here and have the [built-in functions](umbra::call::built_in), so a call over them wakes no rank:
//! it is one message to this process and one back, however many they are. Nobody has to ask for them, so the thread
//! begins with the first who does. What tools want to know of the process is told by a [function](umbra::call::tell) of
//! the members, too, whose questions the thread that has the links answers. It sleeps while no message comes, and looks
//! for the dead two hundred times a second while somebody may wait for them.
//!
//! The places of all agents of a job are joined ([`border`]): what goes from one to another goes over the link between
//! the two, by the thread that has the links, and an agent that hears from a place elsewhere makes its own.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use umbra::admin::{self, Body as _, ops};
use umbra::call::border::{self, Border, BorderError};
use umbra::call::tell::Desk;
use umbra::call::{Capacities, JoinError, Member, Outgoing, Shape, Station, StationError};
use umbra::driver::{self, LinkId};
use umbra::link::SendError;
use umbra::sys::wait::{Ringer, WaitError};
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::chain::{Node, RegisterError};
use umbra_core::error::Status;
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::peer::Sp;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Op, Token};

use super::process::Process;

/// Seats for those that come for a moment, behind those of the ranks.
const GUESTS: u16 = 8;
/// The seat as whose owner this process puts messages from elsewhere into inboxes; behind the guests.
const DOOR: u16 = 1;
/// Bytes that may wait to be sent on a link before requests that would go over it are refused.
const UNSENT: usize = 256 << 10;
/// Frames that go out before it is somebody else's turn.
const BATCH: usize = 64;
/// Messages that can wait in an inbox, and bytes of the longest one.
const MESSAGES: u32 = 16;
const MESSAGE_BYTES: u32 = 8 << 10;
/// Bytes in which each member can offer data, and this process keeps what members elsewhere offer to those here; and as many for
/// replies of each. What was never used of them takes no memory.
const OFFER_BYTES: u64 = 4 << 20;
/// When a message that found an inbox full is tried again.
const AGAIN: Lapse = Lapse::from_micros(500);
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
    /// The thread that has the links cannot be woken.
    #[error(transparent)]
    Wait(#[from] WaitError),
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
    pub(super) border: Border,
    /// Places that have greeted and cannot be joined, by service process, as long as there is the link; and why.
    pub(super) apart: BTreeMap<Sp, BorderError>,
    /// What others want to know of this process.
    desk: Desk,
    /// Of a frame to another place.
    body: Vec<u8>,
    over: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Calls {
    /// Makes the meeting place and begins to serve.
    ///
    /// # Errors
    /// [`CallsError`].
    fn start(residents: u16, (place, places): (u32, u32), ringer: Ringer) -> Result<Calls, CallsError> {
        let seats = 2 * residents + GUESTS + DOOR;
        let (messages, message_bytes, offer_bytes) = (MESSAGES, MESSAGE_BYTES, OFFER_BYTES);
        let shape = Shape { messages, message_bytes, offer_bytes, ..Shape::new(seats) };
        let shape = shape.joined(place, places);
        let station = Station::create("umbra-calls", shape)?;
        let capacities = Capacities { call_bytes: CALL_BYTES, ..Capacities::new(shape.all) };
        let mut member = Member::join_with(&station, Node(shape.first), capacities, |config| config)?;
        let house = |node| member.house(node);
        shape.here().take(residents.into()).skip(1).try_for_each(house)?;
        member.serve_built_ins(VALUE_BYTES)?;
        member.serve_probe()?;
        let rings = ringer.clone();
        let desk = Desk::new(move || rings.ring());
        member.serve_tell(desk.clone())?;
        let outgoing = Outgoing::new(move || ringer.ring());
        let border = Border::new(&station, Node(shape.first + u32::from(seats) - 1), outgoing.clone())?;
        member.put_out(outgoing);
        let over = Arc::new(AtomicU32::new(0));
        let ends = Arc::clone(&over);
        // ORDERING: the flag carries nothing but itself.
        let ends = move |_: &mut Member| ends.load(Ordering::Relaxed) != 0;
        let serve = move || while !member.serve_until(LONG, &ends) && !member.is_inherited() {};
        let thread = thread::Builder::new().name("umbra-calls".to_owned()).spawn(serve).map_err(CallsError::Thread)?;
        let body = vec![0; Border::body_max(shape)];
        let apart = BTreeMap::new();
        Ok(Calls { station, residents, border, apart, desk, body, over, thread: Some(thread) })
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
            None => self.begin_calls()?,
        };
        Ok(self.calls.insert(calls).invitation()?)
    }

    fn begin_calls(&self) -> Result<Calls, CallsError> {
        let (place, places) = (self.settings.sp.0, self.settings.job.service_processes());
        let mut calls = Calls::start(self.settings.members, (place, places), self.bell.ringer()?)?;
        let placement = self.machines.agent.group().placement();
        calls.station.set_machines(|sp| placement.host_of(Sp(sp)).map_or(u32::MAX, |host| host.0))?;
        self.routes.keys().for_each(|sp| calls.border.on_link(sp.0));
        Ok(calls)
    }

    /// There is another link to an agent.
    pub(super) fn calls_up(&mut self, sp: Sp) {
        if let Some(calls) = &mut self.calls {
            calls.border.on_link(sp.0);
        }
    }

    /// The link to an agent is lost.
    pub(super) fn calls_gone(&mut self, link: Link) {
        let lost = self.routes.iter().find(|(_, route)| **route == link).map(|(sp, _)| *sp);
        if let (Some(sp), Some(calls)) = (lost, &mut self.calls) {
            calls.border.on_gone(sp.0);
            calls.apart.remove(&sp);
        }
    }

    /// The place of another agent says something.
    pub(super) fn on_call_frame(&mut self, link: LinkId, sp: Sp, op: Op, body: &[u8]) {
        if self.routes.get(&sp) != Some(&Link(link.0)) {
            // Of a link that another one has replaced.
            return;
        }
        if self.calls.is_none() && op == border::ops::GREET {
            match self.begin_calls() {
                Ok(calls) => self.calls = Some(calls),
                Err(error) => log!(warn, "no chained calls with service process {}: {}", sp, error),
            }
        }
        let Some(calls) = &mut self.calls else { return };
        match calls.border.on_frame(sp.0, op, body) {
            Ok(()) => {}
            Err(error) => {
                log!(warn, "service process {}: {}", sp, error);
                if error == BorderError::Malformed {
                    self.drop_link(link);
                } else {
                    calls.apart.insert(sp, error);
                }
            }
        }
    }

    /// Carries messages of calls to other agents and into inboxes here; whether there were any.
    pub(super) fn turn_calls(&mut self) -> bool {
        let Some(mut calls) = self.calls.take() else { return false };
        let mut any = calls.border.flush();
        let mut lost = Vec::new();
        for _ in 0..BATCH {
            let (driver, routes) = (&self.driver, &self.routes);
            let unsent = |place: u32| routes.get(&Sp(place)).map_or(0, |link| driver.unsent(LinkId(link.0)));
            let Some((place, op, len)) = calls.border.poll(|place| unsent(place) < UNSENT, &mut calls.body) else {
                break;
            };
            any = true;
            let (Some(&link), Some(body)) = (self.routes.get(&Sp(place)), calls.body.get(..len)) else { continue };
            let frame = Frame::Call { op, token: Token(0), body };
            if let Err(why @ SendError::Full) = self.driver.send(LinkId(link.0), &frame, Vec::new()) {
                log!(warn, "link {} is dropped: {}", link.0, why);
                lost.push(link);
            }
        }
        let asked = (!calls.desk.is_idle()).then(|| calls.desk.clone());
        self.calls = Some(calls);
        any |= asked.is_some_and(|desk| desk.answer(|subject| self.knows(Op(subject))));
        lost.into_iter().for_each(|link| self.drop_link(LinkId(link.0)));
        any
    }

    /// Has the bell rung for messages of calls, if there are any members; true if some wait already.
    pub(super) fn arm_calls(&self) -> bool {
        let Some(calls) = &self.calls else { return false };
        self.bell.arm();
        !calls.border.is_idle() || !calls.desk.is_idle()
    }

    /// When messages that found an inbox full are tried again.
    pub(super) fn calls_due(&self) -> Time {
        let waits = self.calls.as_ref().is_some_and(|calls| calls.border.is_waiting());
        if waits { driver::now() + AGAIN } else { Time::NEVER }
    }
}

#[cfg(test)]
mod tests {
    use umbra::sys::wait::Doorbell;

    use super::*;

    #[test]
    fn agents_with_more_seats_than_can_be_joined_have_no_members_and_say_how_many_can_be() {
        let bell = Doorbell::create().unwrap();
        // The last one of a job: 41 seats at each, and 969.
        for (residents, places, all) in [(16, 400, 16_400), (480, 17, 16_473), (480, 1 << 23, u32::MAX)] {
            let refused = Calls::start(residents, (places - 1, places), bell.ringer().unwrap()).err().unwrap();
            assert!(matches!(refused, CallsError::Station(StationError::TooMany(seats, 16_384)) if seats == all));
            assert_eq!(refused.to_string(), format!("{all} members, at most 16384 can meet"));
        }
    }
}
