//! One line to a gateway, as the handle that it belongs to uses it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use umbra_core::codec::Short;
use umbra_core::error::Status;
use umbra_core::gateway::{Answer, CHANNEL, End, MESSAGE_MAX, Patience, PoolRequest, Request};
use umbra_core::peer::Incarnation;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, Token};

use super::error::{Error, refused, system};
use super::registry::Gateways;
use crate::channel::Timeout;
use crate::driver::{Driver, Event, Limits, LinkId, now};
use crate::link::{Close, Identity, Party};
use crate::secret::{self, Secret};

/// How long after the deadline of a request its answer may still come.
pub(super) const GRACE: Lapse = Lapse::from_secs(2);

/// Who this end is, or another.
pub(super) fn identity() -> Result<Identity, Error> {
    let life = u64::from_le_bytes(secret::random().map_err(|error| system(&error))?).max(1);
    Ok(Identity { party: Party::Tool, incarnation: Incarnation(life) })
}

/// A driver with one link.
pub(super) fn driver(secret: &Secret) -> Result<Driver, Error> {
    let limits = Limits { links: 1, outbound: 4 * BODY_MAX, ..Limits::default() };
    Ok(Driver::new(identity()?, secret.clone(), limits))
}

/// What an answer says that tells of nothing else.
pub(super) fn done(answer: Answer<'_>) -> Option<()> {
    matches!(answer, Answer::Done(_)).then_some(())
}

/// What the request that opens a line says of its handle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handle {
    pub(super) on_receipt: bool,
    pub(super) client: u64,
    pub(super) id: [u64; 2],
}

/// What the request that opens a line says of a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversation {
    pub(super) end: End,
    pub(super) is_one_message: bool,
    pub(super) may_be_cut: bool,
    pub(super) deposit_after: u32,
}

/// What a line is opened for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    Channel(Handle),
    Streams(Conversation),
    Pool,
}

impl Opening {
    const fn request(self, patience: Patience, reference: &[u8]) -> Request<'_> {
        match self {
            Opening::Channel(Handle { on_receipt, client, id }) => {
                Request::Open { on_receipt, client, handle: id, reference }
            }
            Opening::Pool => Request::Pool(PoolRequest::Open { reference }),
            Opening::Streams(Conversation { end, is_one_message, may_be_cut, deposit_after }) => {
                Request::Converse { end, is_one_message, may_be_cut, patience, deposit_after, reference }
            }
        }
    }

    /// Whether what a line was opened for is over when it breaks.
    const fn ends_with_its_line(self) -> bool {
        matches!(self, Opening::Streams(Conversation { end: End::Sender | End::Receiver, .. }))
    }
}

/// Lines of a handle that broke while a call was under way, by the lives of this end.
#[derive(Clone, Default)]
pub(super) struct Doubts(Arc<Mutex<Vec<u64>>>);

impl Doubts {
    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        // A list is whole whatever its user was doing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line that is open.
struct Up {
    driver: Driver,
    link: LinkId,
}

/// A line, or what one is made of when it is used.
pub(super) struct Line {
    gateways: Gateways,
    host: u64,
    reference: Vec<u8>,
    opening: Opening,
    up: Option<Up>,
    doubts: Doubts,
    token: u64,
    buffer: Vec<u8>,
    answer: Vec<u8>,
}

impl Line {
    /// One of the handle whose the doubts are.
    pub(super) fn new(gateways: &Gateways, host: u64, reference: &[u8], opening: Opening, doubts: Doubts) -> Line {
        let (buffer, answer) = (vec![0; BODY_MAX], Vec::new());
        Line {
            gateways: gateways.clone(),
            host,
            reference: reference.to_vec(),
            opening,
            up: None,
            doubts,
            token: 0,
            buffer,
            answer,
        }
    }

    /// Makes the line.
    pub(super) fn open<T>(&mut self, timeout: Timeout, read: impl FnOnce(Answer<'_>) -> Option<T>) -> Result<T, Error> {
        let deadline = match timeout {
            // A line takes some time.
            Timeout::Now => now() + GRACE,
            timeout => timeout.deadline(),
        };
        let mut driver = driver(self.gateways.secret())?;
        let (address, host) = (self.gateways.address(self.host)?, self.host);
        let not_sent = |why| Error::NotSent { host, why };
        let link = driver.dial(address, Party::Tool, deadline).map_err(not_sent)?;
        loop {
            driver.wait(deadline + GRACE).map_err(|error| system(&error))?;
            match driver.next(&mut self.answer) {
                Some(Event::Up { .. }) => break,
                Some(Event::Gone { why: Close::HandshakeTimeout, .. }) if now() >= deadline => {
                    return Err(crate::channel::Error::Timeout.into());
                }
                Some(Event::Gone { why, .. }) => return Err(Error::Lost { host, why }),
                _ if now() >= deadline + GRACE => return Err(Error::Silent(host)),
                _ => {}
            }
        }
        self.up = Some(Up { driver, link });
        self.settle(deadline).inspect_err(|_| self.up = None)?;
        let reference = std::mem::take(&mut self.reference);
        let request = self.opening.request(patience(timeout, deadline), &reference);
        let answer = self.ask(&request, deadline, read);
        self.reference = reference;
        answer.inspect_err(|_| self.up = None)
    }

    /// Asks, and waits for the answer; a line that breaks is made anew at the next call, and what the call that broke asked
    /// for is over then.
    pub(super) fn call<T>(
        &mut self,
        request: &Request<'_>,
        deadline: Time,
        read: impl FnOnce(Answer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        // A line that broke while nobody asked lost nothing.
        let life = self.life();
        let broken = self.up.as_mut().map_or(Some(Close::Local), |up| broken(&mut up.driver, &mut self.answer));
        if let Some(why) = broken {
            self.up = None;
            if self.opening.ends_with_its_line() {
                // The gateway may believe in this end for a while.
                self.doubts.lock().extend(life);
                return Err(Error::Lost { host: self.host, why });
            }
            let left = deadline.since(now());
            let timeout = if deadline == Time::NEVER { Timeout::Never } else { Duration::from_nanos(left.0).into() };
            self.open(timeout, |_| Some(()))?;
        }
        self.settle(deadline)?;
        let life = self.life();
        let asked = self.ask(request, deadline, read);
        if matches!(asked, Err(Error::Lost { .. } | Error::Silent(_) | Error::System(_))) {
            self.doubts.lock().extend(life);
        }
        asked
    }

    /// The life of this end of the line that is open.
    fn life(&self) -> Option<u64> {
        self.up.as_ref().map(|up| up.driver.identity().incarnation.0)
    }

    /// Has the gateway end what broken lines of the handle may still have under way.
    fn settle(&mut self, deadline: Time) -> Result<(), Error> {
        loop {
            let Some(&life) = self.doubts.lock().first() else { return Ok(()) };
            self.ask(&Request::Cut { life }, deadline, done)?;
            self.doubts.lock().retain(|&doubt| doubt != life);
        }
    }

    fn ask<T>(
        &mut self,
        request: &Request<'_>,
        deadline: Time,
        read: impl FnOnce(Answer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        let host = self.host;
        let len = request.write(&mut self.buffer).map_err(|Short| too_large(request))?;
        let body = self.buffer.get(..len).unwrap_or_default();
        self.token += 1;
        let (asked, until) = (Token(self.token), deadline.max(now()) + GRACE);
        let Some(Up { driver, link }) = &mut self.up else { return Err(Error::Lost { host, why: Close::Local }) };
        let frame = Frame::Call { op: CHANNEL, token: asked, body };
        let outcome = match driver.send(*link, &frame, Vec::new()) {
            Err(why) => Err(Error::NotSent { host, why }),
            Ok(()) => await_answer(driver, &mut self.answer, asked, (host, until)),
        };
        if let Err(error) = outcome {
            // What comes over this line later would be taken for the next answer.
            self.up = None;
            return Err(error);
        }
        let Ok(Frame::Done { body, status: Status::Ok, .. }) = Frame::parse(&self.answer) else {
            self.up = None;
            return Err(Error::Refused { host, code: "FAILURE" });
        };
        match Answer::parse(body)? {
            Answer::Refused { why, numbers } => Err(refused(host, why, numbers)),
            answer => read(answer).ok_or(Error::Answer(umbra_core::gateway::ParseError::Nonsense)),
        }
    }
}

fn too_large(request: &Request<'_>) -> Error {
    let len = match request {
        Request::Send { bytes, .. } | Request::Write { bytes, .. } => bytes.len(),
        _ => 0,
    };
    Error::TooLarge { len, most: MESSAGE_MAX }
}

/// Why the line is none any more, if it has ended.
fn broken(driver: &mut Driver, frame: &mut Vec<u8>) -> Option<Close> {
    if driver.wait(Time::ZERO).is_err() {
        return Some(Close::Local);
    }
    match driver.next(frame) {
        Some(Event::Gone { why, .. }) => Some(why),
        _ => None,
    }
}

/// Waits until `answer` is the frame that answers.
fn await_answer(
    driver: &mut Driver,
    answer: &mut Vec<u8>,
    asked: Token,
    (host, until): (u64, Time),
) -> Result<(), Error> {
    loop {
        match driver.next(answer) {
            Some(Event::Frame { .. }) if Frame::parse(answer).is_ok_and(|frame| frame.token() == asked) => {
                return Ok(());
            }
            Some(Event::Gone { why, .. }) => return Err(Error::Lost { host, why }),
            Some(_) => {}
            None if now() >= until => return Err(Error::Silent(host)),
            None => driver.wait(until).map_err(|error| system(&error))?,
        }
    }
}

/// The patience that is left until a deadline.
pub(super) fn patience(timeout: Timeout, deadline: Time) -> Patience {
    match timeout {
        Timeout::Now => Patience::Now,
        Timeout::After(_) => Patience::After(deadline.since(now())),
        Timeout::Never => Patience::Never,
    }
}

/// The timeout that a patience is when it begins.
pub(super) const fn timeout(patience: Patience) -> Timeout {
    match patience {
        Patience::Now => Timeout::Now,
        Patience::After(lapse) => Timeout::After(Duration::from_nanos(lapse.0)),
        Patience::Never => Timeout::Never,
    }
}
