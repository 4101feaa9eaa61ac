//! What a gateway does for one line: the requests of one handle, one by one.
//!
//! Those of a conversation and about a pool are next door ([`converse`](super::converse), [`lend`](super::lend)).
//!
//! While a request waits, the line is looked at now and then: if its client is gone, so is the request.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use umbra_core::error::Status;
use umbra_core::gateway::{Answer, CHANNEL, MESSAGE_MAX, ParseError, Patience, PoolRequest, Request, Take};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, Token};

use super::converse::{Wish, converse};
use super::counted::Counted;
use super::error::{Error, by_code, refusal};
use super::lend::lend;
use super::line;
use super::under_way::{Accepted, UnderWay};
use crate::channel::{
    self, Barrier, Channel, Event, Message, Receiver, ReturnMode, SendOptions, Sender, Timeout, WaitMode,
};
use crate::driver::{self, Driver, LinkId, now};
use crate::link::Side;
use crate::secret::Secret;

/// How long a request may outlive its client.
const SLICE: Lapse = Lapse::from_millis(50);

/// A line, seen from the gateway.
pub(super) struct Served {
    driver: Driver,
    link: Option<LinkId>,
    /// The life that the client's end named.
    life: u64,
    under_way: Arc<UnderWay>,
    /// The frame that was read last.
    pub(super) frame: Vec<u8>,
    buffer: Vec<u8>,
}

/// The client is gone, or talks nonsense, or the server ends.
pub(super) struct Over;

/// An error that may be that of a deadline.
pub(super) trait Late {
    /// Whether it is.
    fn is_late(&self) -> bool;
}

impl Late for channel::Error {
    fn is_late(&self) -> bool {
        *self == channel::Error::Timeout
    }
}

impl Served {
    /// Waits until the client has proved who it is.
    fn meet(&mut self) -> Result<(), Over> {
        loop {
            match self.driver.next(&mut self.frame) {
                Some(driver::Event::Up { link, peer, .. }) => {
                    (self.link, self.life) = (Some(link), peer.incarnation.0);
                    return Ok(());
                }
                Some(_) => return Err(Over),
                None => self.driver.wait(Time::NEVER).map_err(|_| Over)?,
            }
        }
    }

    /// Waits for the next request, which is in `frame` then.
    pub(super) fn next(&mut self) -> Result<Token, Over> {
        loop {
            match self.driver.next(&mut self.frame) {
                Some(driver::Event::Frame { .. }) => match Frame::parse(&self.frame) {
                    Ok(Frame::Call { op: CHANNEL, token, body }) => {
                        let cut = match Request::parse(body) {
                            Ok(Request::Cut { life }) => Some(life),
                            _ => None,
                        };
                        // A request that its client gave up before it was read is none.
                        self.look()?;
                        match cut {
                            Some(life) => self.cut(token, life)?,
                            None => return Ok(token),
                        }
                    }
                    _ => return Err(Over),
                },
                Some(_) => return Err(Over),
                None => self.driver.wait(Time::NEVER).map_err(|_| Over)?,
            }
        }
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn look(&mut self) -> Result<(), Over> {
        self.driver.wait(Time::ZERO).map_err(|_| Over)?;
        // A client that asks on before it was answered does not keep to the protocol.
        match self.driver.next(&mut Vec::new()) {
            None => Ok(()),
            Some(_) => Err(Over),
        }
    }

    /// Cuts another line of the client, and answers when it is over.
    fn cut(&mut self, token: Token, life: u64) -> Result<(), Over> {
        if life == self.life {
            // It would wait for itself.
            return Err(Over);
        }
        self.under_way.cut(life);
        while !self.under_way.is_over(life, Duration::from_nanos(SLICE.0)) {
            self.look()?;
        }
        self.answer(token, &Answer::Done(0))
    }

    pub(super) fn answer(&mut self, token: Token, answer: &Answer<'_>) -> Result<(), Over> {
        let len = answer.write(&mut self.buffer).map_err(|_| Over)?;
        let body = self.buffer.get(..len).unwrap_or_default();
        let frame = Frame::Done { op: CHANNEL, token, status: Status::Ok, body };
        self.driver.send(self.link.ok_or(Over)?, &frame, Vec::new()).map_err(|_| Over)?;
        self.driver.flush();
        Ok(())
    }

    /// Tries until it is done, the client's patience ends, or the client.
    pub(super) fn patiently<T, E: Late>(
        &mut self,
        deadline: Option<Time>,
        mut attempt: impl FnMut(Timeout) -> Result<T, E>,
    ) -> Result<Result<T, E>, Over> {
        let Some(deadline) = deadline else { return Ok(attempt(Timeout::Now)) };
        loop {
            let slice = SLICE.0.min(deadline.since(now()).0);
            match attempt(Timeout::After(Duration::from_nanos(slice))) {
                Err(error) if error.is_late() && now() < deadline => self.look()?,
                done => return Ok(done),
            }
        }
    }
}

/// Until when a request may wait; `None` for one try.
pub(super) fn deadline(patience: Patience) -> Option<Time> {
    match patience {
        Patience::Now => None,
        Patience::After(lapse) => Some(now() + lapse),
        Patience::Never => Some(Time::NEVER),
    }
}

/// Serves a line until its client is gone, or `stop` is readable.
///
/// # Errors
/// What the system refuses; whatever the client does is none.
pub(super) fn serve(
    socket: OwnedFd,
    is_unix: bool,
    secret: &Secret,
    stop: OwnedFd,
    accepted: Accepted,
) -> Result<(), Error> {
    let mut driver = line::driver(secret)?;
    driver.watch(stop);
    if driver.adopt(socket, is_unix, Side::Acceptor).is_err() {
        return Ok(());
    }
    let (frame, buffer) = (Vec::new(), vec![0; BODY_MAX]);
    let mut line = Served { driver, link: None, life: 0, under_way: accepted.all().clone(), frame, buffer };
    if line.meet().is_err() {
        return Ok(());
    }
    // Until all that is made below is dropped.
    let Some(_entered) = accepted.enter(line.life) else { return Ok(()) };
    let Ok(token) = line.next() else { return Ok(()) };
    let frame = std::mem::take(&mut line.frame);
    let Ok(Frame::Call { body, .. }) = Frame::parse(&frame) else { return Ok(()) };
    let (on_receipt, client, handle, reference) = match Request::parse(body) {
        Ok(Request::Open { on_receipt, client, handle, reference }) => (on_receipt, client, handle, reference),
        Ok(Request::Converse { end, is_one_message, may_be_cut, patience, deposit_after, reference }) => {
            let wish = Wish { end, is_one_message, may_be_cut, patience, deposit_after };
            // The client's end is the usual one.
            let _ = converse(line, token, reference, wish);
            return Ok(());
        }
        Ok(Request::Pool(PoolRequest::Open { reference })) => {
            // And so it is here.
            let _ = lend(line, token, reference);
            return Ok(());
        }
        Err(ParseError::Version(_)) => {
            // What this means is all that both of them know.
            let _ = line.answer(token, &by_code("VERSION_MISMATCH")).and_then(|()| line.next());
            return Ok(());
        }
        _ => return Ok(()),
    };
    let channel = match Channel::attach_reference(reference) {
        Ok(channel) => channel,
        Err(error) => {
            // The client closes the line when it has read this.
            let _ = line.answer(token, &refusal(&error)).and_then(|()| line.next());
            return Ok(());
        }
    };
    let returns = if on_receipt { ReturnMode::Received } else { ReturnMode::Deposited };
    let options = SendOptions { client, returns, mode: WaitMode::Idle };
    let mut served = Handle { channel: &channel, options, id: handle, counted: Counted::default(), line };
    // The client's end is the usual one.
    let _ = served.open(token).and_then(|()| served.run());
    if served.counted.are_there()
        && let Ok(barrier) = channel.barrier()
    {
        barrier.forsake();
    }
    Ok(())
}

/// A handle of a client.
struct Handle<'c> {
    channel: &'c Channel,
    options: SendOptions,
    id: [u64; 2],
    /// Parties of the client that were counted in at the barrier, and have not received since.
    counted: Counted,
    line: Served,
}

impl Handle<'_> {
    fn open(&mut self, token: Token) -> Result<(), Over> {
        let about = || {
            let capacity = self.channel.capacity()?;
            let block = u32::try_from(self.channel.block()).unwrap_or(u32::MAX);
            Ok::<_, channel::Error>(Answer::Opened { capacity, block, uid: self.channel.uid()? })
        };
        let answer = about().unwrap_or_else(|error| refusal(&error));
        self.line.answer(token, &answer)
    }

    fn run(&mut self) -> Result<(), Over> {
        // A semaphore has neither; it is polled.
        let sender = self.channel.sender_as(self.options, self.id);
        let receiver = self.channel.receiver(WaitMode::Idle);
        let mut pad = Vec::new();
        loop {
            let token = self.line.next()?;
            let frame = std::mem::take(&mut self.line.frame);
            let Ok(Frame::Call { body, .. }) = Frame::parse(&frame) else { return Err(Over) };
            let done = match Request::parse(body).map_err(|_| Over)? {
                Request::Open { .. }
                | Request::Converse { .. }
                | Request::Write { .. }
                | Request::Read { .. }
                | Request::Close { .. }
                | Request::Ask { .. }
                | Request::Cut { .. }
                | Request::Pool(_) => return Err(Over),
                Request::Barrier { patience } => self.meet(patience)?.map(|came| Answer::Done(came.into())),
                Request::Send { patience, hints, bytes } => match &sender {
                    Ok(sender) => self.send(sender, patience, hints, bytes)?.map(|()| Answer::Done(0)),
                    Err(error) => Err(error.clone()),
                },
                Request::Receive { patience, take, room } => match &receiver {
                    Ok(receiver) => {
                        pad.resize((room as usize).min(MESSAGE_MAX), 0);
                        let taken = self.take(receiver, patience, take, &mut pad)?;
                        if taken.is_ok() && take != Take::Peek {
                            self.counted.receive();
                        }
                        taken.map(|message| answered(message, take, &pad))
                    }
                    Err(error) => Err(error.clone()),
                },
                Request::Poll { patience, event } => match Event::try_from(event) {
                    Ok(Event::BarrierWait) => {
                        self.count_in(patience)?.map(|(is_last, round)| Answer::Counted { is_last, round })
                    }
                    Ok(Event::BarrierRelease) => {
                        self.release(patience)?.map(|()| Answer::Done(Event::BarrierRelease as u64))
                    }
                    Ok(event) => self.poll(patience, event)?.map(Answer::Done),
                    Err(error) => Err(error),
                },
            };
            let answer = done.unwrap_or_else(|error| refusal(&error));
            self.line.answer(token, &answer)?;
        }
    }

    fn send(
        &mut self,
        sender: &Sender<'_>,
        patience: Patience,
        hints: u64,
        bytes: &[u8],
    ) -> Result<Result<(), channel::Error>, Over> {
        let deadline = deadline(patience);
        let position = match self.line.patiently(deadline, |timeout| sender.deposit_bytes(bytes, hints, timeout))? {
            Ok(position) => position,
            Err(error) => return Ok(Err(error)),
        };
        let received = self.line.patiently(deadline, |timeout| match sender.returned(position, timeout) {
            // It is waited for until the patience ends.
            Err(channel::Error::NotReceived) => Err(channel::Error::Timeout),
            done => done,
        })?;
        Ok(received.map_err(|error| match error {
            channel::Error::Timeout => channel::Error::NotReceived,
            error => error,
        }))
    }

    fn poll(&mut self, patience: Patience, event: Event) -> Result<Result<u64, channel::Error>, Over> {
        let channel = self.channel;
        self.line.patiently(deadline(patience), |timeout| channel.poll(event, WaitMode::Idle, timeout))
    }

    /// Waits at the barrier as long as the client is there; a client that goes breaks it.
    fn meet(&mut self, patience: Patience) -> Result<Result<u32, channel::Error>, Over> {
        let timeout = line::timeout(patience);
        self.wanted(|barrier, is_wanted| barrier.wait_while(WaitMode::Idle, timeout, SLICE, is_wanted))
    }

    /// Counts the client in at the barrier; one that goes before he received what he was counted in for breaks it.
    fn count_in(&mut self, patience: Patience) -> Result<Result<(bool, u32), channel::Error>, Over> {
        let (timeout, before) = (line::timeout(patience), self.counted);
        // Also if the client goes meanwhile, in whatever round.
        self.counted.come(0);
        let counted =
            self.wanted(|barrier, is_wanted| barrier.count_in_while(WaitMode::Idle, timeout, SLICE, is_wanted))?;
        self.counted = before;
        if let Ok((_, round)) = counted {
            self.counted.come(round);
        }
        Ok(counted)
    }

    /// Releases the parties as long as the client is there; a client that goes before all are told breaks the barrier.
    fn release(&mut self, patience: Patience) -> Result<Result<(), channel::Error>, Over> {
        let timeout = line::timeout(patience);
        self.wanted(|barrier, is_wanted| barrier.release_while(timeout, SLICE, is_wanted))
    }

    /// Does something at the barrier that asks now and then whether the client is there.
    fn wanted<T>(
        &mut self,
        act: impl FnOnce(Barrier<'_>, &mut dyn FnMut() -> bool) -> Result<T, channel::Error>,
    ) -> Result<Result<T, channel::Error>, Over> {
        let (line, mut is_over) = (&mut self.line, false);
        let mut is_wanted = || {
            is_over = line.look().is_err();
            !is_over
        };
        let done = self.channel.barrier().and_then(|barrier| act(barrier, &mut is_wanted));
        if is_over { Err(Over) } else { Ok(done) }
    }

    fn take(
        &mut self,
        receiver: &Receiver<'_>,
        patience: Patience,
        take: Take,
        pad: &mut [u8],
    ) -> Result<Result<Message, channel::Error>, Over> {
        let pad = std::cell::RefCell::new(pad);
        self.line.patiently(deadline(patience), |timeout| {
            let mut pad = pad.borrow_mut();
            match take {
                Take::Receive => receiver.receive(&mut pad, timeout),
                Take::Peek => receiver.peek(&mut pad, timeout),
                Take::Pop => {
                    let none = Message { len: 0, hints: 0, client: 0, handle: [0; 2] };
                    receiver.pop(timeout).map(|()| none)
                }
            }
        })
    }
}

/// What is answered about a message of which a part is in `pad`.
fn answered(message: Message, take: Take, pad: &[u8]) -> Answer<'_> {
    let Message { len, hints, client, handle } = message;
    let shown = if take == Take::Pop { 0 } else { len.min(pad.len()) };
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    Answer::Message { hints, client, handle, len, bytes: pad.get(..shown).unwrap_or_default() }
}
