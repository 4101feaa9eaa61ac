//! What a client asks a gateway for.

use super::{ParseError, Patience, PoolRequest, VERSION, flag, pool, written};
use crate::codec::{Reader, Short, Writer};
use crate::time::Lapse;

const OPEN: u8 = 1;
const SEND: u8 = 2;
const RECEIVE: u8 = 3;
const POLL: u8 = 4;
const CONVERSE: u8 = 5;
const WRITE: u8 = 6;
const READ: u8 = 7;
const CLOSE: u8 = 8;
const ASK: u8 = 9;
const BARRIER: u8 = 18;
const CUT: u8 = 19;
/// Bits of how a conversation is sent.
const ONE_MESSAGE: u8 = 1;
const MAY_BE_CUT: u8 = 2;

/// What is done with the first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Take {
    /// It is received; if it does not fit it stays the first.
    Receive,
    /// As much of it as there is room for is copied, and it stays the first.
    Peek,
    /// It is removed.
    Pop,
}

/// Which end of a conversation a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum End {
    /// None: it only asks.
    Neither,
    /// The sender's.
    Sender,
    /// The receiver's.
    Receiver,
}

/// What can be asked of streams without a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Matter {
    /// How many are what.
    Counts,
    /// A task more is to be done.
    NewTask,
    /// A task is done.
    TaskDone,
    /// Wait until all are.
    JoinTasks,
}

/// What a line asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Request<'a> {
    /// The first one: which channel, and whose handle it is.
    Open {
        /// Whether sends return when their message was received.
        on_receipt: bool,
        /// Goes along with each message.
        client: u64,
        /// The id of the send handle.
        handle: [u64; 2],
        /// The bytes of the channel's reference.
        reference: &'a [u8],
    },
    /// Send a message.
    Send {
        /// How long to wait for room.
        patience: Patience,
        /// The 64 bits beside it.
        hints: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Do something with the first message.
    Receive {
        /// How long to wait for one.
        patience: Patience,
        /// What.
        take: Take,
        /// Bytes that there is room for.
        room: u32,
    },
    /// Wait for an event, or ask for a number.
    Poll {
        /// How long to wait.
        patience: Patience,
        /// The event's number.
        event: i32,
    },
    /// The first one of a line about streams: which, and which end of a conversation it wants.
    Converse {
        /// Which end.
        end: End,
        /// As its sender: whether it is one message.
        is_one_message: bool,
        /// As its sender: whether its receiver may cut it short.
        may_be_cut: bool,
        /// How long to wait for the other end, or for an idle stream.
        patience: Patience,
        /// As its sender: after how many messages receivers hear of it.
        deposit_after: u32,
        /// The bytes of the streams' reference.
        reference: &'a [u8],
    },
    /// Send bytes in the conversation.
    Write {
        /// How long to wait for room.
        patience: Patience,
        /// The 64 bits beside them.
        arg: u64,
        /// Whether they are kept, to go with what comes next; none, and not kept, sends what was.
        is_kept: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Receive bytes in the conversation.
    Read {
        /// How long to wait for some.
        patience: Patience,
        /// How many there is room for.
        room: u32,
    },
    /// End the conversation.
    Close {
        /// How long to wait for what is left to be sent, or for the sender's end.
        patience: Patience,
    },
    /// Something that has no end of a conversation.
    Ask {
        /// How long to wait for it.
        patience: Patience,
        /// What.
        matter: Matter,
    },
    /// Something about a pool.
    Pool(PoolRequest<'a>),
    /// Wait at the channel's barrier.
    Barrier {
        /// How long to wait for the others.
        patience: Patience,
    },
    /// Cut another line of the same client, and answer when nothing that it asked for is under way any more.
    Cut {
        /// The life that its client's end named in the handshake.
        life: u64,
    },
}

impl<'a> Request<'a> {
    /// The same, but the gateway waits so long at most, unless it was to wait for ever or not at all: what is left of the
    /// time when it is asked at last.
    #[must_use]
    pub fn within(mut self, left: Lapse) -> Request<'a> {
        if let Request::Send { patience: Patience::After(lapse), .. }
        | Request::Receive { patience: Patience::After(lapse), .. }
        | Request::Poll { patience: Patience::After(lapse), .. }
        | Request::Converse { patience: Patience::After(lapse), .. }
        | Request::Write { patience: Patience::After(lapse), .. }
        | Request::Read { patience: Patience::After(lapse), .. }
        | Request::Close { patience: Patience::After(lapse) }
        | Request::Ask { patience: Patience::After(lapse), .. }
        | Request::Barrier { patience: Patience::After(lapse) }
        | Request::Pool(PoolRequest::Alloc { patience: Patience::After(lapse), .. }) = &mut self
        {
            *lapse = left.min(*lapse);
        }
        self
    }

    /// Writes it to the front of `buffer`; how many bytes it has.
    ///
    /// # Errors
    /// [`Short`] if they do not fit.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, Short> {
        match *self {
            Request::Open { on_receipt, client, handle: [first, second], reference } => {
                let head = |w: &mut Writer<'_>| {
                    w.bytes(&[OPEN, VERSION, on_receipt.into(), 0])?;
                    [client, first, second].iter().try_for_each(|&word| w.u64(word))
                };
                written(buffer, head, reference)
            }
            Request::Send { patience, hints, bytes } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(SEND)?;
                    patience.write(w)?;
                    w.u64(hints)
                };
                written(buffer, head, bytes)
            }
            Request::Receive { patience, take, room } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(RECEIVE)?;
                    patience.write(w)?;
                    w.u8(take as u8)?;
                    w.u32(room)
                };
                written(buffer, head, &[])
            }
            Request::Poll { patience, event } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(POLL)?;
                    patience.write(w)?;
                    w.u32(event.cast_unsigned())
                };
                written(buffer, head, &[])
            }
            Request::Converse { end, is_one_message, may_be_cut, patience, deposit_after, reference } => {
                let head = |w: &mut Writer<'_>| {
                    let how = (u8::from(is_one_message) * ONE_MESSAGE) | (u8::from(may_be_cut) * MAY_BE_CUT);
                    w.bytes(&[CONVERSE, VERSION, end as u8, how])?;
                    patience.write(w)?;
                    w.u32(deposit_after)
                };
                written(buffer, head, reference)
            }
            Request::Write { patience, arg, is_kept, bytes } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(WRITE)?;
                    patience.write(w)?;
                    w.u64(arg)?;
                    w.u8(is_kept.into())
                };
                written(buffer, head, bytes)
            }
            Request::Read { patience, room } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(READ)?;
                    patience.write(w)?;
                    w.u32(room)
                };
                written(buffer, head, &[])
            }
            Request::Close { patience } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(CLOSE)?;
                    patience.write(w)
                };
                written(buffer, head, &[])
            }
            Request::Pool(request) => request.write(buffer),
            Request::Barrier { patience } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(BARRIER)?;
                    patience.write(w)
                };
                written(buffer, head, &[])
            }
            Request::Cut { life } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(CUT)?;
                    w.u64(life)
                };
                written(buffer, head, &[])
            }
            Request::Ask { patience, matter } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(ASK)?;
                    patience.write(w)?;
                    w.u8(matter as u8)
                };
                written(buffer, head, &[])
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, ParseError> {
        let mut r = Reader::new(bytes);
        let request = match r.u8()? {
            OPEN => {
                let [version, on_receipt, zero] = r.array()?;
                if version != VERSION {
                    return Err(ParseError::Version(version));
                }
                if on_receipt > 1 || zero != 0 {
                    return Err(ParseError::Nonsense);
                }
                let (client, handle) = (r.u64()?, [r.u64()?, r.u64()?]);
                return Ok(Request::Open { on_receipt: on_receipt == 1, client, handle, reference: r.rest() });
            }
            SEND => {
                let (patience, hints) = (Patience::parse(&mut r)?, r.u64()?);
                return Ok(Request::Send { patience, hints, bytes: r.rest() });
            }
            RECEIVE => {
                let patience = Patience::parse(&mut r)?;
                let take = match r.u8()? {
                    0 => Take::Receive,
                    1 => Take::Peek,
                    2 => Take::Pop,
                    _ => return Err(ParseError::Nonsense),
                };
                Request::Receive { patience, take, room: r.u32()? }
            }
            CONVERSE => {
                let [version, end, how] = r.array()?;
                if version != VERSION {
                    return Err(ParseError::Version(version));
                }
                let end = match end {
                    0 => End::Neither,
                    1 => End::Sender,
                    2 => End::Receiver,
                    _ => return Err(ParseError::Nonsense),
                };
                if how & !(ONE_MESSAGE | MAY_BE_CUT) != 0 {
                    return Err(ParseError::Nonsense);
                }
                let (is_one_message, may_be_cut) = (how & ONE_MESSAGE != 0, how & MAY_BE_CUT != 0);
                let (patience, deposit_after) = (Patience::parse(&mut r)?, r.u32()?);
                let reference = r.rest();
                return Ok(Request::Converse { end, is_one_message, may_be_cut, patience, deposit_after, reference });
            }
            WRITE => {
                let (patience, arg, is_kept) = (Patience::parse(&mut r)?, r.u64()?, flag(&mut r)?);
                return Ok(Request::Write { patience, arg, is_kept, bytes: r.rest() });
            }
            READ => Request::Read { patience: Patience::parse(&mut r)?, room: r.u32()? },
            CLOSE => Request::Close { patience: Patience::parse(&mut r)? },
            ASK => {
                let patience = Patience::parse(&mut r)?;
                let matter = match r.u8()? {
                    0 => Matter::Counts,
                    1 => Matter::NewTask,
                    2 => Matter::TaskDone,
                    3 => Matter::JoinTasks,
                    _ => return Err(ParseError::Nonsense),
                };
                Request::Ask { patience, matter }
            }
            BARRIER => Request::Barrier { patience: Patience::parse(&mut r)? },
            CUT => Request::Cut { life: r.u64()? },
            number @ pool::FIRST..=pool::LAST => Request::Pool(PoolRequest::parse(number, &mut r)?),
            POLL => Request::Poll { patience: Patience::parse(&mut r)?, event: r.u32()?.cast_signed() },
            _ => return Err(ParseError::Nonsense),
        };
        if r.rest().is_empty() { Ok(request) } else { Err(ParseError::Length) }
    }
}
