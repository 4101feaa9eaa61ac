//! A channel of another host, as a client uses it.

use umbra_core::barrier::BROKEN_NUMBER;
use umbra_core::gateway::{Answer, MESSAGE_MAX, Request, Take};
use umbra_core::reference::Object;

use super::error::{Error, system};
use super::line::{Handle, Line, Opening, Term, done};
use super::lines::{Lines, MOST};
use super::registry::Gateways;
use crate::channel::{Event, Message, ReturnMode, SendOptions, Timeout};
use crate::secret;

/// What the gateway said of the channel when it was opened.
#[derive(Clone, Copy, Debug)]
struct Opened {
    capacity: u32,
    block: u32,
    uid: u64,
}

impl Opened {
    const fn read(answer: Answer<'_>) -> Option<Opened> {
        match answer {
            Answer::Opened { capacity, block, uid } => Some(Opened { capacity, block, uid }),
            _ => None,
        }
    }
}

/// A channel of another host; dropping it leaves the channel to the others. Many threads may use it at once.
pub struct RemoteChannel {
    opened: Opened,
    lines: Lines,
}

/// The id of a send handle.
fn drawn() -> Result<[u64; 2], Error> {
    let id = u128::from_le_bytes(secret::random().map_err(|error| system(&error))?);
    Ok([id as u64, (id >> 64) as u64])
}

impl RemoteChannel {
    /// Uses the channel that the bytes of a reference name, through the gateway of its host.
    ///
    /// # Errors
    /// [`Error::NoGateway`], [`Error::Local`], [`Error::Reference`], [`Error::Lost`], [`Error::Unreached`], [`Error::Silent`]; and
    /// what the gateway says when it attaches.
    pub fn attach(bytes: &[u8], gateways: &Gateways, timeout: Timeout) -> Result<RemoteChannel, Error> {
        let host = gateways.host_of(bytes, |named| matches!(named, Object::Channel | Object::PooledChannel { .. }))?;
        // What is sent without a send handle is of one, too.
        let opening = Opening::Channel(Handle { id: drawn()?, ..Handle::default() });
        let lines = Lines::new(gateways, host, bytes, opening, MOST);
        let mut line = lines.one();
        let opened = line.open(timeout, Opened::read)?;
        Ok(RemoteChannel { opened, lines: lines.with(line) })
    }

    /// The host that it is on.
    #[must_use]
    pub const fn host(&self) -> u64 {
        self.lines.host()
    }

    /// The bytes by which others attach.
    #[must_use]
    pub fn reference(&self) -> &[u8] {
        self.lines.reference()
    }

    /// The id that its creator chose.
    #[must_use]
    pub const fn uid(&self) -> u64 {
        self.opened.uid
    }

    /// Messages that wait at once.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.opened.capacity
    }

    /// Bytes that fit into a message.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.opened.block
    }

    fn line(&self, handle: Handle, timeout: Timeout) -> Result<Line, Error> {
        let mut line = self.lines.another(Opening::Channel(handle));
        line.open(timeout, Opened::read)?;
        Ok(line)
    }

    /// Opens a send handle: messages of one handle are received in the order in which they were sent. Gateways wait asleep,
    /// whatever the options say.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn sender(&self, options: SendOptions, timeout: Timeout) -> Result<RemoteSender, Error> {
        let on_receipt = options.returns == ReturnMode::Received;
        let handle = Handle { on_receipt, client: options.client, id: drawn()? };
        Ok(RemoteSender { line: self.line(handle, timeout)?, id: handle.id })
    }

    /// Opens a receive handle.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn receiver(&self, timeout: Timeout) -> Result<RemoteReceiver, Error> {
        Ok(RemoteReceiver { line: self.line(Handle::default(), timeout)? })
    }

    /// Opens a place at the channel's barrier, for one party.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn barrier(&self, timeout: Timeout) -> Result<RemoteBarrier, Error> {
        Ok(RemoteBarrier { line: self.line(Handle::default(), timeout)? })
    }

    /// Sends as a [send handle](Self::sender) does; messages of one thread are received in the order in which they were sent.
    ///
    /// # Errors
    /// As for [`RemoteSender::send`]; [`Error::Busy`].
    pub fn send(&self, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<(), Error> {
        let term = Term::of(timeout);
        self.lines.by_one(term, |line| send(line, bytes, hints, term))
    }

    /// Receives as a [receive handle](Self::receiver) does.
    ///
    /// # Errors
    /// As for [`RemoteReceiver::receive`]; [`Error::Busy`].
    pub fn receive(&self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        let term = Term::of(timeout);
        self.lines.by_one_for_a_party(term, |line| take(line, Take::Receive, pad, term))
    }

    /// Peeks as a [receive handle](Self::receiver) does.
    ///
    /// # Errors
    /// As for [`RemoteReceiver::peek`]; [`Error::Busy`].
    pub fn peek(&self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        let term = Term::of(timeout);
        self.lines.by_one(term, |line| take(line, Take::Peek, pad, term))
    }

    /// Meets at the barrier as a [party](Self::barrier) does.
    ///
    /// # Errors
    /// As for [`RemoteBarrier::wait`]; [`Error::Busy`].
    pub fn meet(&self, timeout: Timeout) -> Result<u32, Error> {
        let term = Term::of(timeout);
        self.lines.by_one(term, |line| meet(line, term))
    }

    /// Waits until the event holds, or does what it says, as [`Channel::poll`](crate::channel::Channel::poll). Each
    /// [`Event::BarrierWait`] counts another party in, of whatever thread, which [receives](Self::receive) here. If
    /// it receives elsewhere, its line is for parties again when one came in a later round: there is one line more then.
    ///
    /// # Errors
    /// [`Error::Channel`] with what the channel says; [`Error::Lost`], [`Error::Silent`], [`Error::Busy`].
    pub fn poll(&self, event: Event, timeout: Timeout) -> Result<u64, Error> {
        let term = Term::of(timeout);
        self.lines.by_one(term, |line| poll(line, event, term))
    }

    /// How many messages wait.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll).
    pub fn count(&self) -> Result<u64, Error> {
        self.poll(Event::Size, Timeout::Now)
    }
}

/// A send handle of a channel of another host.
pub struct RemoteSender {
    line: Line,
    id: [u64; 2],
}

impl RemoteSender {
    /// The id of this handle, which goes along with each message.
    #[must_use]
    pub const fn id(&self) -> [u64; 2] {
        self.id
    }

    /// Sends a copy of these bytes, and the 64 bits beside them.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a sender at hand gets, and nothing was sent then; [`Error::TooLarge`]; [`Error::Lost`]
    /// and [`Error::Silent`], after which it is not known whether it was.
    pub fn send(&mut self, bytes: &[u8], hints: u64, timeout: Timeout) -> Result<(), Error> {
        send(&mut self.line, bytes, hints, Term::of(timeout))
    }
}

fn send(line: &mut Line, bytes: &[u8], hints: u64, term: Term) -> Result<(), Error> {
    if bytes.len() > MESSAGE_MAX {
        return Err(Error::TooLarge { len: bytes.len(), most: MESSAGE_MAX });
    }
    line.call(&Request::Send { patience: term.patience(), hints, bytes }, term, done)
}

fn poll(line: &mut Line, event: Event, term: Term) -> Result<u64, Error> {
    let request = Request::Poll { patience: term.patience(), event: event as i32 };
    let (done, round) = line.call(&request, term, |answer| match answer {
        Answer::Counted { is_last, round } if event == Event::BarrierWait => Some((is_last.into(), Some(round))),
        Answer::Done(number) if event != Event::BarrierWait => Some((number, None)),
        _ => None,
    })?;
    if let Some(round) = round {
        line.counted.come(round);
    }
    Ok(done)
}

/// A party at the barrier of a channel of another host.
pub struct RemoteBarrier {
    line: Line,
}

impl RemoteBarrier {
    /// Waits until all parties have come, on whatever hosts; the number of those who came before.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a party at hand gets; [`Error::Lost`] and [`Error::Silent`], after which the barrier is
    /// broken, unless it was complete.
    pub fn wait(&mut self, timeout: Timeout) -> Result<u32, Error> {
        meet(&mut self.line, Term::of(timeout))
    }

    /// The first of [two steps](crate::channel::Barrier::count_in): whether this party is the last one.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn count_in(&mut self, timeout: Timeout) -> Result<bool, Error> {
        Ok(poll(&mut self.line, Event::BarrierWait, Term::of(timeout))? != 0)
    }

    /// The second one, of the party that was counted last.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn release(&mut self, timeout: Timeout) -> Result<(), Error> {
        poll(&mut self.line, Event::BarrierRelease, Term::of(timeout)).map(|_| ())
    }

    /// Receives the number of this party, when it was released; `None` if the barrier was broken.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a receiver at hand gets; otherwise as for [`wait`](Self::wait).
    pub fn number(&mut self, timeout: Timeout) -> Result<Option<u64>, Error> {
        let mut told = [0; size_of::<u64>()];
        take(&mut self.line, Take::Receive, &mut told, Term::of(timeout))?;
        Ok(Some(u64::from_le_bytes(told)).filter(|&number| number != BROKEN_NUMBER))
    }
}

fn meet(line: &mut Line, term: Term) -> Result<u32, Error> {
    line.call(&Request::Barrier { patience: term.patience() }, term, |answer| match answer {
        Answer::Done(came) => u32::try_from(came).ok(),
        _ => None,
    })
}

/// A receive handle of a channel of another host.
pub struct RemoteReceiver {
    line: Line,
}

impl RemoteReceiver {
    /// Receives the first message into `pad`.
    ///
    /// # Errors
    /// [`Error::Channel`] with what a receiver at hand gets; [`Error::Lost`] and [`Error::Silent`], after which a message
    /// may have been received and lost, as when a receiver at hand is killed.
    pub fn receive(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        take(&mut self.line, Take::Receive, pad, Term::of(timeout))
    }

    /// Looks at the first message and copies as much of it as there is room for; it stays the first.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn peek(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        take(&mut self.line, Take::Peek, pad, Term::of(timeout))
    }

    /// Removes the first message without looking at it.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn pop(&mut self, timeout: Timeout) -> Result<(), Error> {
        take(&mut self.line, Take::Pop, &mut [], Term::of(timeout)).map(drop)
    }
}

fn take(line: &mut Line, take: Take, pad: &mut [u8], term: Term) -> Result<Message, Error> {
    let room = u32::try_from(pad.len().min(MESSAGE_MAX)).unwrap_or(u32::MAX);
    let request = Request::Receive { patience: term.patience(), take, room };
    let message = line.call(&request, term, |answer| match answer {
        Answer::Message { hints, client, handle, len, bytes } => {
            let len = usize::try_from(len).ok()?;
            let shown = match take {
                Take::Receive => len,
                Take::Peek => len.min(room as usize),
                Take::Pop => 0,
            };
            // Whoever asked relies on as many bytes as it says.
            let bytes = Some(bytes).filter(|bytes| bytes.len() == shown)?;
            pad.get_mut(..shown)?.copy_from_slice(bytes);
            Some(Message { len, hints, client, handle })
        }
        _ => None,
    })?;
    if take != Take::Peek {
        line.counted.receive();
    }
    Ok(message)
}
