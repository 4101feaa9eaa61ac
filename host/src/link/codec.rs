//! The link's protocol without a socket: bytes in, frames out, and back.
//!
//! A record is
//!
//! ```text
//! 0          3               4            4 + len        + 16
//! | len u24  | descriptors u8 |  frame ... |  digest      |
//! ```
//!
//! with digest = first 16 bytes of BLAKE3-keyed(direction key, sequence number, head, frame). The sequence
//! number is not sent: both ends count.
//!
//! Memory is bounded: at most [`Codec::INBOUND_MAX`] bytes wait to be parsed (a few hundred before the peer
//! has authenticated), at most the given limit waits to be sent.

use umbra_core::error::Status;
use umbra_core::wire::{BODY_MAX, Frame, HEAD};

use super::handshake::{HELLO_LEN, Hello, Message, PROOF_LEN, Session, proof_message, refuse_message};
use super::{Close, Identity, SendError};
use crate::secret::Secret;

const RECORD_HEAD: usize = 4;
const DIGEST: usize = 16;
const RECORD_MAX: usize = RECORD_HEAD + HEAD + BODY_MAX + DIGEST;

/// Which end of a link this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// It connected.
    Initiator,
    /// It accepted.
    Acceptor,
}

/// What came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// The peer has proven that it belongs to the job; sent once, first.
    Up(Identity),
    /// One frame, appended to the caller's buffer, that this many file descriptors came with.
    Frame(usize),
}

/// Where in the stream of outgoing bytes a frame begins; descriptors are sent with that byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sending(pub u64);

enum State {
    /// Waiting for the peer's HELLO.
    Hello,
    /// Waiting for the peer's proof.
    Proof {
        session: Box<Session>,
        peer: Identity,
    },
    Up,
    Closed,
}

/// One end of a link.
///
/// ```
/// use umbra::link::{Codec, Identity, Input, Party, Side};
/// use umbra::secret::Secret;
/// use umbra_core::peer::Incarnation;
/// let secret = Secret::from_bytes([7; 32]);
/// let me = Identity { party: Party::Tool, incarnation: Incarnation(1) };
/// let (mut a, mut b) = (Codec::new(Side::Initiator, me, &secret, [1; 32], 1 << 20),
///                       Codec::new(Side::Acceptor, me, &secret, [2; 32], 1 << 20));
/// let mut frame = Vec::new();
/// let mut up = 0;
/// while up < 2 {
///     for _ in 0..2 {
///         b.receive(a.outgoing())?;
///         a.sent(a.outgoing().len());
///         up += usize::from(b.take(&mut frame)?.is_some());
///         std::mem::swap(&mut a, &mut b);
///     }
/// }
/// # Ok::<(), umbra::link::Close>(())
/// ```
pub struct Codec {
    side: Side,
    state: State,
    mine: Hello,
    secret: Secret,
    inbound: Vec<u8>,
    /// How much of `inbound` was taken already.
    taken: usize,
    outbound: Vec<u8>,
    /// How much of `outbound` was sent already.
    gone: usize,
    /// Bytes sent in the life of the link.
    sent_total: u64,
    outbound_max: usize,
    receive_key: [u8; 32],
    send_key: [u8; 32],
    received: u64,
    queued: u64,
}

impl Codec {
    /// Bytes that may wait to be parsed.
    pub const INBOUND_MAX: usize = 2 * RECORD_MAX;
    /// Bytes that a stranger may make us hold.
    const STRANGER_MAX: usize = 2 * (HELLO_LEN + PROOF_LEN);

    /// One end of a new link. `challenge` must be fresh random bytes; at most `outbound_max` bytes of
    /// frames wait to be sent.
    #[must_use]
    pub fn new(side: Side, me: Identity, secret: &Secret, challenge: [u8; 32], outbound_max: usize) -> Codec {
        let mine = Hello { identity: me, challenge };
        let mut outbound = Vec::new();
        if side == Side::Initiator {
            outbound.extend_from_slice(&mine.bytes());
        }
        Codec {
            side,
            state: State::Hello,
            mine,
            secret: secret.clone(),
            inbound: Vec::new(),
            taken: 0,
            outbound,
            gone: 0,
            sent_total: 0,
            outbound_max,
            receive_key: [0; 32],
            send_key: [0; 32],
            received: 0,
            queued: 0,
        }
    }

    /// Whether frames can be sent.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// Whether the peer has said who it is; whether that is true is told by its proof.
    #[must_use]
    pub const fn is_greeted(&self) -> bool {
        !matches!(self.state, State::Hello)
    }

    /// Which end this is.
    #[must_use]
    pub const fn side(&self) -> Side {
        self.side
    }

    /// How many bytes [`receive`](Self::receive) accepts now.
    #[must_use]
    pub fn room(&self) -> usize {
        let max = if self.is_up() { Self::INBOUND_MAX } else { Self::STRANGER_MAX };
        max.saturating_sub(self.inbound.len() - self.taken)
    }

    /// Takes bytes from the peer; parse them with [`take`](Self::take) until it has no more.
    ///
    /// # Errors
    /// [`Close::TooLarge`] if more than [`room`](Self::room) bytes are given.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Close> {
        if bytes.len() > self.room() {
            return Err(Close::TooLarge(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
        }
        if self.taken > 0 {
            self.inbound.drain(..self.taken);
            self.taken = 0;
        }
        self.inbound.extend_from_slice(bytes);
        Ok(())
    }

    /// The next thing that came in; a frame's bytes replace the content of `frame` and are guaranteed to
    /// parse. `None` until more bytes come.
    ///
    /// # Errors
    /// [`Close`]: the link is over. What is still [`outgoing`](Self::outgoing) tells the peer why and
    /// should be sent before the socket is closed.
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Result<Option<Input>, Close> {
        let result = match self.state {
            State::Hello | State::Proof { .. } => self.shake_hands(),
            State::Up => self.take_record(frame),
            State::Closed => Ok(None),
        };
        if let Err(why) = &result {
            if !self.is_up() {
                self.refuse(why);
            }
            self.state = State::Closed;
        }
        result
    }

    fn refuse(&mut self, why: &Close) {
        let status = match why {
            Close::WrongVersion(_) => Status::WrongVersion,
            Close::Unauthenticated => Status::Unauthenticated,
            Close::BadHandshake => Status::Malformed,
            // Whoever speaks no link would not understand, and whoever refused knows why.
            _ => return,
        };
        self.outbound.extend_from_slice(&refuse_message(status));
    }

    fn shake_hands(&mut self) -> Result<Option<Input>, Close> {
        loop {
            let Some((message, len)) = Message::take(self.inbound.get(self.taken..).unwrap_or_default())? else {
                return Ok(None);
            };
            self.taken += len;
            match (message, &self.state) {
                (Message::Refuse(Status::Unauthenticated), _) => return Err(Close::Unauthenticated),
                (Message::Refuse(status), _) => return Err(Close::Refused(status)),
                (Message::Hello(theirs), State::Hello) => self.greet(&theirs),
                (Message::Proof(proof), State::Proof { session, peer }) => {
                    let (expected, mine, receive_key, send_key) = match self.side {
                        Side::Initiator => (session.acceptor_proof, None, session.to_initiator, session.to_acceptor),
                        Side::Acceptor => {
                            let mine = Some(proof_message(session.acceptor_proof.as_bytes()));
                            (session.initiator_proof, mine, session.to_acceptor, session.to_initiator)
                        }
                    };
                    // `blake3::Hash` compares in constant time.
                    if expected != blake3::Hash::from(proof) {
                        return Err(Close::Unauthenticated);
                    }
                    let peer = *peer;
                    self.outbound.extend_from_slice(mine.as_ref().map_or(&[], |m| m.as_slice()));
                    (self.receive_key, self.send_key) = (receive_key, send_key);
                    self.state = State::Up;
                    return Ok(Some(Input::Up(peer)));
                }
                _ => return Err(Close::BadHandshake),
            }
        }
    }

    fn greet(&mut self, theirs: &Hello) {
        let (initiator, acceptor) = match self.side {
            Side::Initiator => (&self.mine, theirs),
            Side::Acceptor => (theirs, &self.mine),
        };
        let session = Session::new(&self.secret, initiator, acceptor);
        match self.side {
            Side::Initiator => self.outbound.extend_from_slice(&proof_message(session.initiator_proof.as_bytes())),
            Side::Acceptor => self.outbound.extend_from_slice(&self.mine.bytes()),
        }
        self.state = State::Proof { session: Box::new(session), peer: theirs.identity };
    }

    fn take_record(&mut self, frame: &mut Vec<u8>) -> Result<Option<Input>, Close> {
        let waiting = self.inbound.get(self.taken..).unwrap_or_default();
        let Some(&[a, b, c, descriptors]) = waiting.first_chunk::<RECORD_HEAD>() else { return Ok(None) };
        let len = u32::from_le_bytes([a, b, c, 0]);
        let end = RECORD_HEAD + len as usize;
        if end + DIGEST > RECORD_MAX {
            return Err(Close::TooLarge(len));
        }
        let Some(record) = waiting.get(..end + DIGEST) else { return Ok(None) };
        let (signed, digest) = record.split_at(end);
        if !same(&digest_of(&self.receive_key, self.received, signed), digest) {
            return Err(Close::BadDigest(self.received));
        }
        let bytes = signed.get(RECORD_HEAD..).unwrap_or_default();
        Frame::parse(bytes).map_err(Close::BadFrame)?;
        frame.clear();
        frame.extend_from_slice(bytes);
        self.taken += record.len();
        self.received += 1;
        Ok(Some(Input::Frame(usize::from(descriptors))))
    }

    /// Queues a frame that `descriptors` file descriptors go with.
    ///
    /// # Errors
    /// [`SendError`]; nothing is queued then.
    pub fn send(&mut self, frame: &Frame<'_>, descriptors: u8) -> Result<Sending, SendError> {
        if !self.is_up() {
            return Err(SendError::NotUp);
        }
        let len = frame.len_bytes();
        if len > HEAD + BODY_MAX {
            return Err(SendError::TooLarge);
        }
        let record = RECORD_HEAD + len + DIGEST;
        let waiting = self.outbound.len() - self.gone;
        // An empty queue takes any frame, so that a small limit slows down instead of blocking for ever.
        if waiting > 0 && waiting + record > self.outbound_max {
            return Err(SendError::Full);
        }
        if self.gone > 0 {
            self.outbound.drain(..self.gone);
            self.gone = 0;
        }
        let start = self.outbound.len();
        let len_bytes = (len as u32).to_le_bytes();
        self.outbound.extend_from_slice(&[len_bytes[0], len_bytes[1], len_bytes[2], descriptors]);
        self.outbound.resize(start + RECORD_HEAD + len, 0);
        let body = self.outbound.get_mut(start + RECORD_HEAD..).unwrap_or_default();
        if frame.emit(body).is_err() {
            self.outbound.truncate(start);
            return Err(SendError::TooLarge);
        }
        let signed = self.outbound.get(start..).unwrap_or_default();
        let digest = digest_of(&self.send_key, self.queued, signed);
        self.outbound.extend_from_slice(&digest);
        self.queued += 1;
        Ok(Sending(self.sent_total + start as u64))
    }

    /// Bytes to send.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.outbound.get(self.gone..).unwrap_or_default()
    }

    /// How far the peer's end of the socket has got; compare with [`Sending`].
    #[must_use]
    pub const fn position(&self) -> Sending {
        Sending(self.sent_total)
    }

    /// Tells that `len` bytes of [`outgoing`](Self::outgoing) were sent.
    pub fn sent(&mut self, len: usize) {
        let len = len.min(self.outbound.len() - self.gone);
        self.gone += len;
        self.sent_total += len as u64;
        if self.gone == self.outbound.len() {
            self.outbound.clear();
            self.gone = 0;
        }
    }
}

fn digest_of(key: &[u8; 32], sequence: u64, signed: &[u8]) -> [u8; DIGEST] {
    let hash = blake3::Hasher::new_keyed(key).update(&sequence.to_le_bytes()).update(signed).finalize();
    let mut digest = [0; DIGEST];
    digest.copy_from_slice(&hash.as_bytes()[..DIGEST]);
    digest
}

/// Compares without telling by its duration where the first difference is.
fn same(a: &[u8; DIGEST], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y))) == 0
}
