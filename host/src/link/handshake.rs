//! The first messages of a link, and the keys that follow from them.
//!
//! ```text
//! initiator                              acceptor
//!    HELLO (who, life, challenge)  ──────►
//!                                  ◄──────  HELLO (who, life, challenge)
//!    PROOF                         ──────►  checked first: a stranger learns nothing
//!                                  ◄──────  PROOF, or REFUSE (status)
//! ```
//!
//! session = BLAKE3-keyed(secret, context, both HELLOs); a proof and the digest key of each direction are
//! BLAKE3-keyed(session, label). Both challenges enter, so an old conversation proves nothing.

use umbra_core::codec::{Reader, Short, Writer};
use umbra_core::error::Status;
use umbra_core::peer::Incarnation;

use super::{Close, Identity, Party};
use crate::secret::Secret;

/// The version of everything that is said over a link.
pub const PROTOCOL_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"UMBL";
const HELLO: u8 = 1;
const PROOF: u8 = 2;
const REFUSE: u8 = 3;
pub(super) const HELLO_LEN: usize = 1 + 4 + 2 + 4 + 8 + 32;
pub(super) const PROOF_LEN: usize = 1 + 32;
const REFUSE_LEN: usize = 1 + 2;

/// Who an end says it is, with its challenge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    pub(super) identity: Identity,
    pub(super) challenge: [u8; 32],
}

impl Hello {
    pub(super) fn bytes(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        let mut w = Writer::new(&mut bytes);
        let written: Result<(), Short> = (|| {
            w.u8(HELLO)?;
            w.bytes(&MAGIC)?;
            w.u16(PROTOCOL_VERSION)?;
            w.u32(self.identity.party.to_bits())?;
            w.u64(self.identity.incarnation.0)?;
            w.bytes(&self.challenge)
        })();
        debug_assert!(written.is_ok(), "HELLO_LEN is the sum of the fields");
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Hello, Close> {
        let mut r = Reader::new(bytes);
        let short = |Short| Close::BadHandshake;
        if r.u8().map_err(short)? != HELLO || r.array::<4>().map_err(short)? != MAGIC {
            return Err(Close::NotALink);
        }
        let version = r.u16().map_err(short)?;
        if version != PROTOCOL_VERSION {
            return Err(Close::WrongVersion(version));
        }
        let party = Party::from_bits(r.u32().map_err(short)?).ok_or(Close::BadHandshake)?;
        let incarnation = Incarnation(r.u64().map_err(short)?);
        if incarnation.0 == 0 {
            return Err(Close::BadHandshake);
        }
        Ok(Hello { identity: Identity { party, incarnation }, challenge: r.array().map_err(short)? })
    }
}

/// A handshake message.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Message {
    Hello(Hello),
    Proof([u8; 32]),
    Refuse(Status),
}

impl Message {
    /// Takes a message off the front of `bytes`, telling how many bytes it had; `None` until it is whole.
    pub(super) fn take(bytes: &[u8]) -> Result<Option<(Message, usize)>, Close> {
        let len = match bytes.first() {
            None => return Ok(None),
            Some(&HELLO) => HELLO_LEN,
            Some(&PROOF) => PROOF_LEN,
            Some(&REFUSE) => REFUSE_LEN,
            Some(_) => return Err(Close::NotALink),
        };
        // A stranger is told off at its first wrong byte, not when it has sent a whole message.
        let magic = bytes.get(1..bytes.len().min(1 + MAGIC.len())).unwrap_or_default();
        if len == HELLO_LEN && !MAGIC.starts_with(magic) {
            return Err(Close::NotALink);
        }
        let Some(whole) = bytes.get(..len) else { return Ok(None) };
        let message = match len {
            HELLO_LEN => Message::Hello(Hello::parse(whole)?),
            PROOF_LEN => Message::Proof(*whole.last_chunk().ok_or(Close::BadHandshake)?),
            _ => {
                let code = u16::from_le_bytes(*whole.last_chunk().ok_or(Close::BadHandshake)?);
                Message::Refuse(Status::from_code(code).ok_or(Close::BadHandshake)?)
            }
        };
        Ok(Some((message, len)))
    }
}

pub(super) fn proof_message(proof: &[u8; 32]) -> [u8; PROOF_LEN] {
    let mut bytes = [PROOF; PROOF_LEN];
    bytes[1..].copy_from_slice(proof);
    bytes
}

pub(super) fn refuse_message(status: Status) -> [u8; REFUSE_LEN] {
    let code = (status as u16).to_le_bytes();
    [REFUSE, code[0], code[1]]
}

/// What both ends know after the HELLOs if they hold the same secret.
pub(super) struct Session {
    pub(super) initiator_proof: blake3::Hash,
    pub(super) acceptor_proof: blake3::Hash,
    pub(super) to_acceptor: [u8; 32],
    pub(super) to_initiator: [u8; 32],
}

impl Session {
    pub(super) fn new(secret: &Secret, initiator: &Hello, acceptor: &Hello) -> Session {
        let session = *blake3::Hasher::new_keyed(secret.bytes())
            .update(b"umbra link 1")
            .update(&initiator.bytes())
            .update(&acceptor.bytes())
            .finalize()
            .as_bytes();
        let derive = |label: &[u8]| blake3::keyed_hash(&session, label);
        Session {
            initiator_proof: derive(b"initiator proof"),
            acceptor_proof: derive(b"acceptor proof"),
            to_acceptor: *derive(b"to acceptor").as_bytes(),
            to_initiator: *derive(b"to initiator").as_bytes(),
        }
    }
}
