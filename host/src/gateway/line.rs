//! One line to a gateway, as the handle that it belongs to uses it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use umbra_core::codec::Short;
use umbra_core::error::Status;
use umbra_core::gateway::client::{self, Client, Do, Failure, Say};
use umbra_core::gateway::{Answer, CHANNEL, End, MESSAGE_MAX, Patience, PoolRequest, Request};
use umbra_core::peer::Incarnation;
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, Frame, Token};

use super::counted::Counted;
use super::error::{Error, refused, system};
use super::registry::Gateways;
use crate::channel::Timeout;
use crate::driver::{Driver, Event, Limits, LinkId, now};
use crate::link::{Close, Identity, Party};
use crate::secret::{self, Secret};
use crate::sys::fork;
use crate::{channel, pool, stream};

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

/// How long a call may take, and since when: it may have to wait for a line first.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) timeout: Timeout,
    deadline: Time,
    began: Time,
}

impl Term {
    /// That of a call that begins now.
    pub(super) fn of(timeout: Timeout) -> Term {
        Term { timeout, deadline: timeout.deadline(), began: now() }
    }

    /// When the call ends at the latest, whatever is under way.
    pub(super) fn limit(self) -> Time {
        self.deadline.max(self.began) + client::GRACE
    }

    /// What is left of the time.
    pub(super) fn rest(self) -> Timeout {
        self.timeout.rest(self.deadline)
    }

    /// The patience that is left.
    pub(super) fn patience(self) -> Patience {
        patience(self.timeout, self.deadline)
    }
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

    /// What a child is told that was forked off.
    fn forked(self) -> Error {
        match self {
            Opening::Channel(_) => channel::Error::Forked.into(),
            Opening::Streams(_) => stream::Error::Forked.into(),
            Opening::Pool => pool::Error::Forked.into(),
        }
    }

    /// What was refused, as it is refused at hand: also channels and streams have pools.
    fn refused(self, error: Error) -> Error {
        match (self, error) {
            (Opening::Channel(_), Error::Pool(error)) => channel::Error::Pool(error).into(),
            (Opening::Streams(_), Error::Pool(error)) => stream::Error::Pool(error).into(),
            (_, error) => error,
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

impl client::Doubts for Doubts {
    fn first(&self) -> Option<u64> {
        self.lock().first().copied()
    }
    fn add(&mut self, life: u64) {
        self.lock().push(life);
    }
    fn settled(&mut self, life: u64) {
        self.lock().retain(|&doubt| doubt != life);
    }
}

/// A line that is open.
struct Up {
    driver: Driver,
    link: LinkId,
    /// Of the process that made it.
    life: u32,
}

impl Drop for Up {
    fn drop(&mut self) {
        // A child that was forked off may hold the socket on, and the gateway is to hear of the end at once. What a child
        // drops is its parent's, and stays.
        if self.life == fork::life()
            && let Some(socket) = self.driver.socket(self.link)
        {
            fork::shut_for_all(socket);
        }
    }
}

/// A line, or what one is made of when it is used.
pub(super) struct Line {
    gateways: Gateways,
    host: u64,
    reference: Vec<u8>,
    opening: Opening,
    client: Client<Doubts>,
    up: Option<Up>,
    /// Parties that came to a barrier through it and have not received their numbers through it.
    pub(super) counted: Counted,
    buffer: Vec<u8>,
    answer: Vec<u8>,
    /// Of the process whose it is. What a child said over it would break it for its parent.
    life: u32,
}

impl Line {
    /// One of the handle whose the doubts are.
    pub(super) fn new(gateways: &Gateways, host: u64, reference: &[u8], opening: Opening, doubts: Doubts) -> Line {
        fork::watch();
        Line {
            life: fork::life(),
            gateways: gateways.clone(),
            host,
            reference: reference.to_vec(),
            opening,
            client: Client::new(doubts, opening.ends_with_its_line()),
            up: None,
            counted: Counted::default(),
            buffer: vec![0; BODY_MAX],
            answer: Vec::new(),
        }
    }

    /// Makes the line.
    pub(super) fn open<T>(&mut self, timeout: Timeout, read: impl FnOnce(Answer<'_>) -> Option<T>) -> Result<T, Error> {
        let deadline = timeout.deadline();
        self.refuse_heirs()?;
        self.client.open(deadline, now());
        self.carry_out(None, (timeout, deadline), Close::Local)?;
        self.read(read)
    }

    /// Asks, and waits for the answer; a line that breaks is made anew at the next call, and what the call that broke asked
    /// for is over then.
    pub(super) fn call<T>(
        &mut self,
        request: &Request<'_>,
        term: Term,
        read: impl FnOnce(Answer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.refuse_heirs()?;
        // A line that broke while nobody asked lost nothing.
        let why = self.up.as_mut().and_then(|up| broken(&mut up.driver, &mut self.answer));
        if why.is_some() {
            self.client.on_gone();
            self.up = None;
        }
        self.client.ask(term.deadline, term.began);
        self.carry_out(Some(request), (Timeout::Now, term.deadline), why.unwrap_or(Close::Local))?;
        self.read(read)
    }

    /// Refuses a child that was forked off.
    pub(super) fn refuse_heirs(&self) -> Result<(), Error> {
        if self.life == fork::life() { Ok(()) } else { Err(self.opening.forked()) }
    }

    /// Does what the client says until the call is over; if that ends well, its answer is here. A line that is opened is
    /// waited for by this timeout; one that was lost before the call was so for this reason.
    fn carry_out(
        &mut self,
        request: Option<&Request<'_>>,
        (timeout, deadline): (Timeout, Time),
        why: Close,
    ) -> Result<(), Error> {
        let host = self.host;
        let mut why = Error::Lost { host, why };
        loop {
            match self.client.next(now()) {
                Do::Dial(deadline) => match self.dial(deadline) {
                    // What the line before it was counted for is broken with it.
                    Ok(up) => (self.up, self.counted) = (Some(up), Counted::default()),
                    Err(error) => {
                        why = error;
                        self.client.on_unsaid();
                    }
                },
                Do::Say(token, what) => {
                    let opens = || self.opening.request(patience(timeout, deadline), &self.reference);
                    let request = match (what, request) {
                        (Say::Cut(life), _) => Request::Cut { life },
                        // It took time to come so far.
                        (Say::Asked, Some(request)) => request.within(deadline.since(now())),
                        _ => opens(),
                    };
                    if let Err(error) = say(self.up.as_mut(), host, (token, &request), &mut self.buffer) {
                        why = error;
                        self.client.on_unsaid();
                    }
                }
                Do::Wait(until) => {
                    if let Err(error) = self.hear(until) {
                        why = error;
                        self.client.on_gone();
                    }
                }
                Do::End(Ok(())) => return Ok(()),
                Do::End(Err(failure)) => {
                    self.up = None;
                    return Err(match failure {
                        Failure::Silent => Error::Silent(host),
                        Failure::Refused => self.read(|_| None::<Infallible>).err().unwrap_or(why),
                        Failure::Lost | Failure::Unsaid => why,
                    });
                }
            }
        }
    }

    fn dial(&self, deadline: Time) -> Result<Up, Error> {
        let mut driver = driver(self.gateways.secret())?;
        let (address, host) = (self.gateways.address(self.host)?, self.host);
        let not_sent = |why| Error::NotSent { host, why };
        let link = driver.dial(address, Party::Tool, deadline).map_err(not_sent)?;
        Ok(Up { driver, link, life: fork::life() })
    }

    /// Waits until something happens, and tells the client. The error with which the line ended, if it did.
    fn hear(&mut self, until: Time) -> Result<(), Error> {
        let (host, Some(up)) = (self.host, &mut self.up) else { return Ok(()) };
        let event = match up.driver.next(&mut self.answer) {
            None => {
                up.driver.wait(until).map_err(|error| system(&error))?;
                up.driver.next(&mut self.answer)
            }
            event => event,
        };
        match event {
            Some(Event::Up { .. }) => self.client.on_up(up.driver.identity().incarnation.0),
            Some(Event::Frame { .. }) => {
                if let Ok(Frame::Done { token, status, body, .. }) = Frame::parse(&self.answer) {
                    let is_granted =
                        status == Status::Ok && !matches!(Answer::parse(body), Ok(Answer::Refused { .. }) | Err(_));
                    self.client.on_answer(token, is_granted);
                }
            }
            // A line that is up has been made in time.
            Some(Event::Gone { why: Close::HandshakeTimeout, .. }) => return Err(Error::Unreached(host)),
            Some(Event::Gone { why, .. }) => return Err(Error::Lost { host, why }),
            _ => {}
        }
        Ok(())
    }

    /// What the last answer says.
    fn read<T>(&mut self, read: impl FnOnce(Answer<'_>) -> Option<T>) -> Result<T, Error> {
        let host = self.host;
        let Ok(Frame::Done { body, status: Status::Ok, .. }) = Frame::parse(&self.answer) else {
            return Err(Error::Refused { host, code: "FAILURE" });
        };
        match Answer::parse(body)? {
            Answer::Refused { why, numbers } => Err(self.opening.refused(refused(host, why, numbers))),
            answer => read(answer).ok_or(Error::Answer(umbra_core::gateway::ParseError::Nonsense)),
        }
    }
}

fn say(
    up: Option<&mut Up>,
    host: u64,
    (token, request): (Token, &Request<'_>),
    buffer: &mut [u8],
) -> Result<(), Error> {
    let Some(Up { driver, link, .. }) = up else { return Err(Error::Lost { host, why: Close::Local }) };
    let len = request.write(buffer).map_err(|Short| too_large(request))?;
    let body = buffer.get(..len).unwrap_or_default();
    let sent = driver.send(*link, &Frame::Call { op: CHANNEL, token, body }, Vec::new());
    sent.map_err(|why| Error::NotSent { host, why })
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

/// The patience that is left until a deadline.
fn patience(timeout: Timeout, deadline: Time) -> Patience {
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
