//! Reading memory of another service process' ranks directly, by remote key.
//!
//! A service process that wants to read a rank for itself opens the region at the rank's first shadow service process,
//! which checks what it would check for a read, holds the region for the asker, and gives away the remote key that the
//! rank exported. It then connects a queue pair of its own to the rank; the way to the rank leads through the same
//! service process. When the rank takes the region back, the server asks for it back from everybody that it was given
//! to, and answers the rank only when all have closed it or are gone.
//!
//! | operation | from, to | call | answer |
//! |---|---|---|---|
//! | [`OPEN`] | service process, server | [`Locate`](super::message::Locate) | status, [`Opened`] |
//! | [`CLOSE`] | server, service process | [`Revoke`](super::message::Revoke), forced if the owner is gone | status, when nobody reads any more |
//! | [`CONNECT`] | service process, server, rank | [`Connect`] | status, the rank's [`Endpoint`] for this reader |
//!
//! Every body fits into one ring cell. All integers are little-endian.

use super::message::{DESCRIPTION, Description, Malformed};
use crate::codec::{Reader, filled};
use crate::peer::{Peer, Sp};
use crate::wire::Op;

/// A service process asks for a remote key, to read a rank by itself.
pub const OPEN: Op = Op(0x0401);
/// The server asks for the region back.
pub const CLOSE: Op = Op(0x0402);
/// A reader tells the address of its queue pair.
pub const CONNECT: Op = Op(0x0403);

/// Bytes of an [`Opened`].
pub const OPENED: usize = DESCRIPTION + 4;
/// Bytes of a [`Connect`].
pub const CONNECTING: usize = 8 + 32;

/// What two queue pairs tell each other before they connect; only the transport knows what it means.
pub type Endpoint = [u8; 32];

/// A region that the asker may read by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// What and where.
    pub region: Description,
    /// The remote key for it.
    pub rkey: u32,
}

impl Opened {
    /// The body.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; OPENED] {
        filled(|w| {
            w.bytes(&self.region.to_bytes())?;
            w.u32(self.rkey)
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`], also for a region that leaves the address space.
    pub fn parse(body: &[u8]) -> Result<Opened, Malformed> {
        let mut r = Reader::new(body);
        let opened = Opened { region: Description::parse(r.bytes(DESCRIPTION)?)?, rkey: r.u32()? };
        if r.rest().is_empty() { Ok(opened) } else { Err(Malformed) }
    }
}

/// A reader wants to connect a queue pair to an owner's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// Whose memory.
    pub owner: Peer,
    /// Who reads.
    pub reader: Sp,
    /// The reader's queue pair.
    pub endpoint: Endpoint,
}

impl Connect {
    /// The body.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONNECTING] {
        filled(|w| {
            w.u32(self.owner.to_bits())?;
            w.u32(self.reader.0)?;
            w.bytes(&self.endpoint)
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Connect, Malformed> {
        let mut r = Reader::new(body);
        let owner = Peer::from_bits(r.u32()?).ok_or(Malformed)?;
        let connect = Connect { owner, reader: Sp(r.u32()?), endpoint: r.array()? };
        if r.rest().is_empty() { Ok(connect) } else { Err(Malformed) }
    }
}
