//! What a gateway does for a line that converses, or only asks about streams.
//!
//! The gateway has the client's end. If the client goes without an end, the one at the other end is told what he is
//! told of a sender that died; a receiver that goes has closed.

use umbra_core::gateway::{Answer, End, MESSAGE_MAX, Matter, Patience, Request};
use umbra_core::wire::{Frame, Token};

use super::refusals::refusal;
use super::serve::{Late, Over, Served, deadline};
use super::streams::MODES;
use crate::channel::{Timeout, WaitMode};
use crate::driver::now;
use crate::stream::{Adapter, Error, Mode, Piece, ReceiveOptions, Receiver, SendOptions, Sender};

/// Bytes that a gateway keeps for one sender; beyond that the client is told that the stream is full, or that the message is
/// too large if the conversation is one message.
pub const KEPT_MOST: usize = 16 << 20;

/// How a client wants to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) end: End,
    pub(super) is_one_message: bool,
    pub(super) may_be_cut: bool,
    pub(super) patience: Patience,
    pub(super) deposit_after: u32,
}

impl Late for Error {
    fn is_late(&self) -> bool {
        *self == Error::Timeout
    }
}

/// Serves the line until its client has closed, or is gone.
pub(super) fn converse(mut line: Served, token: Token, reference: &[u8], wish: Wish) -> Result<(), Over> {
    let adapter = match Adapter::attach_reference(reference, []) {
        Ok(adapter) => adapter,
        Err(error) => return refuse(line, token, &error),
    };
    let about = || {
        let mode = adapter.mode()?;
        let number = MODES.iter().position(|&known| known == mode).unwrap_or(MODES.len());
        Ok::<_, Error>((mode, Answer::Begun { mode: number as u8, uid: adapter.uid()? }))
    };
    let (mode, begun) = match about() {
        Ok(about) => about,
        Err(error) => return refuse(line, token, &error),
    };
    let until = deadline(wish.patience);
    let is_one_message = wish.is_one_message || mode == Mode::Buffered;
    // A stream that somebody has to bring is the gateway's.
    let is_brought = match wish.end {
        End::Neither => false,
        End::Sender => mode == Mode::SenderSupplied && !is_one_message,
        End::Receiver => mode == Mode::ReceiverSupplied,
    };
    let supplied = is_brought.then(|| line.patiently(until, |timeout| adapter.supply_within(timeout)));
    let supplied = match supplied.transpose()?.transpose() {
        Ok(supplied) => supplied,
        Err(error) => return refuse(line, token, &error),
    };
    match wish.end {
        End::Neither => {
            line.answer(token, &begun)?;
            answer_questions(&mut line, &adapter)
        }
        End::Sender => {
            let options = SendOptions {
                buffered: wish.is_one_message,
                may_be_cut: wish.may_be_cut,
                stream: supplied.as_ref(),
                deposit_after: wish.deposit_after,
                mode: WaitMode::Idle,
                ..SendOptions::default()
            };
            match line.patiently(until, |timeout| adapter.send(&options, timeout))? {
                Ok(sender) => {
                    let mut speaking = Speaking(Some(sender));
                    line.answer(token, &begun)?;
                    speaking.serve(&mut line, is_one_message)
                }
                Err(error) => refuse(line, token, &error),
            }
        }
        End::Receiver => {
            let options =
                ReceiveOptions { stream: supplied.as_ref(), mode: WaitMode::Idle, ..ReceiveOptions::default() };
            match line.patiently(until, |timeout| adapter.receive(&options, timeout))? {
                Ok(receiver) => {
                    line.answer(token, &begun)?;
                    listen(&mut line, receiver)
                }
                Err(error) => refuse(line, token, &error),
            }
        }
    }
}

/// Says why not; the client closes the line when it has read that.
fn refuse(mut line: Served, token: Token, error: &Error) -> Result<(), Over> {
    line.answer(token, &refusal(error))?;
    line.next().map(drop)
}

/// The next request of the line.
pub(super) fn asked<'f>(line: &mut Served, frame: &'f mut Vec<u8>) -> Result<(Token, Request<'f>), Over> {
    let token = line.next()?;
    *frame = std::mem::take(&mut line.frame);
    match Frame::parse(frame) {
        Ok(Frame::Call { body, .. }) => Ok((token, Request::parse(body).map_err(|_| Over)?)),
        _ => Err(Over),
    }
}

fn answered(done: Result<Answer<'_>, Error>, line: &mut Served, token: Token) -> Result<(), Over> {
    match done {
        Ok(answer) => line.answer(token, &answer),
        Err(error) => line.answer(token, &refusal(&error)),
    }
}

fn answer_questions(line: &mut Served, adapter: &Adapter) -> Result<(), Over> {
    let mut frame = Vec::new();
    loop {
        let (token, request) = asked(line, &mut frame)?;
        let Request::Ask { patience, matter } = request else { return Err(Over) };
        let done = match matter {
            Matter::Counts => adapter.counts().map(|counts| {
                let all = [counts.idle, counts.waiting, counts.offered, counts.kept, counts.room];
                Answer::Counts(all.map(|count| u32::try_from(count).unwrap_or(u32::MAX)))
            }),
            Matter::NewTask => adapter.new_task().map(|()| Answer::Done(0)),
            Matter::TaskDone => adapter.task_done().map(|()| Answer::Done(0)),
            Matter::JoinTasks => {
                let join = |timeout| adapter.join_tasks(WaitMode::Idle, timeout);
                line.patiently(deadline(patience), join)?.map(|()| Answer::Done(0))
            }
        };
        answered(done, line, token)?;
    }
}

/// The sending end of a client; if it goes without an end, the rest will not come.
struct Speaking<'a>(Option<Sender<'a>>);

impl Drop for Speaking<'_> {
    fn drop(&mut self) {
        if let Some(mut sender) = self.0.take() {
            sender.break_off();
        }
    }
}

impl Speaking<'_> {
    fn serve(&mut self, line: &mut Served, is_one_message: bool) -> Result<(), Over> {
        let mut frame = Vec::new();
        loop {
            let (token, request) = asked(line, &mut frame)?;
            let Some(sender) = &mut self.0 else { return Err(Over) };
            let done = match request {
                Request::Write { bytes, .. } if sender.unsent().saturating_add(bytes.len()) > KEPT_MOST => {
                    let len = sender.unsent().saturating_add(bytes.len());
                    // No waiting makes room for more of one message, which is kept to the close.
                    Err(if is_one_message { Error::MessageTooLarge { len, most: KEPT_MOST } } else { Error::Full })
                }
                Request::Write { arg, is_kept: true, bytes, .. } => sender.keep(bytes, arg),
                Request::Write { patience, arg, bytes, .. } => {
                    write(line, sender, patience, |sender, timeout| sender.send(bytes, arg, timeout))?
                }
                Request::Close { patience } => {
                    // What is left to be sent is waited for here, where the line is looked at, and not in the close.
                    let settled = write(line, sender, patience, Sender::settle)?;
                    let closed = self.0.take().map_or(Ok(()), |sender| sender.close(Timeout::Now));
                    // What the one try of the close says is of no use to who was patient.
                    closed.map_err(|error| match settled {
                        Ok(()) => error,
                        Err(Error::Partly { .. }) => Error::Timeout,
                        Err(error) => error,
                    })
                }
                _ => return Err(Over),
            };
            answered(done.map(|()| Answer::Done(0)), line, token)?;
        }
    }
}

/// Sends with patience, also what is left of a message of which a part was sent.
fn write<'a>(
    line: &mut Served,
    sender: &mut Sender<'a>,
    patience: Patience,
    mut first: impl FnMut(&mut Sender<'a>, Timeout) -> Result<(), Error>,
) -> Result<Result<(), Error>, Over> {
    let until = deadline(patience);
    let mut done = line.patiently(until, |timeout| first(sender, timeout))?;
    let Err(Error::Partly { mut sent, len }) = done else { return Ok(done) };
    while until.is_some_and(|until| now() < until) {
        line.look()?;
        done = line.patiently(until, |timeout| sender.flush(timeout))?;
        match done {
            Err(Error::Partly { sent: more, .. }) => sent += more,
            Err(Error::Timeout | Error::Full) => {}
            done => return Ok(done),
        }
    }
    Ok(Err(Error::Partly { sent, len }))
}

fn listen(line: &mut Served, receiver: Receiver<'_>) -> Result<(), Over> {
    let (mut frame, mut pad, mut receiver) = (Vec::new(), Vec::new(), Some(receiver));
    loop {
        let (token, request) = asked(line, &mut frame)?;
        let Some(ours) = &mut receiver else { return Err(Over) };
        let done = match request {
            Request::Read { patience, room } => {
                pad.resize((room as usize).clamp(1, MESSAGE_MAX), 0);
                let read = line.patiently(deadline(patience), |timeout| ours.receive_into(&mut pad, timeout))?;
                read.map(|Piece { len, arg, is_last }| Answer::Piece {
                    arg,
                    is_last,
                    bytes: pad.get(..len).unwrap_or_default(),
                })
            }
            Request::Close { patience } => {
                let drained = line.patiently(deadline(patience), |timeout| ours.drain(timeout))?;
                drop(receiver.take());
                drained.map(|()| Answer::Done(0))
            }
            _ => return Err(Over),
        };
        answered(done, line, token)?;
    }
}
