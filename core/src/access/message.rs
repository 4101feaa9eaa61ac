//! What owners, servers and askers of memory say to each other.
//!
//! | operation | from, to | call | answer |
//! |---|---|---|---|
//! | [`EXPORT`] | rank, its shadow | [`Export`]; a descriptor beside it if the bytes lie in a segment | status; why, in words, if the memory is out of reach |
//! | [`REVOKE`] | rank, its shadow | [`Revoke`] | status, when nobody reads any more |
//! | [`IMPORT`] | service process, server | [`Import`] | status, [`Description`] |
//! | [`LOCATE`] | service process, server | [`Locate`] | status, [`Description`] |
//! | [`READ`] | service process, server | [`Transfer`] | status; the bytes if they were asked inline; then [`Reach`], if told |
//! | [`WRITE`] | service process, server | [`Transfer`]; the bytes behind it if inline | status |
//! | [`FETCH`] | rank, its shadow | [`Fetch`] | status; the bytes, or who is missing |
//!
//! Every layout but [`Export`] fits into one ring cell. All integers are little-endian.

use core::fmt;

use crate::codec::{Reader, Short, Writer, filled};
use crate::endpoints::Shadows;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};
use crate::region::{Region, Secret};
use crate::ticket::{TICKET, Ticket};
use crate::time::Lapse;
use crate::wire::Op;

/// A rank hands a region to a shadow service process.
pub const EXPORT: Op = Op(0x0201);
/// A rank takes a region back.
pub const REVOKE: Op = Op(0x0202);
/// A service process proves that it may use a region.
pub const IMPORT: Op = Op(0x0203);
/// A service process asks which region covers an address.
pub const LOCATE: Op = Op(0x0204);
/// A service process asks for bytes.
pub const READ: Op = Op(0x0205);
/// A service process asks to store bytes.
pub const WRITE: Op = Op(0x0206);
/// A rank asks its service process for bytes of another rank.
pub const FETCH: Op = Op(0x0207);

/// Most bytes of an [`Export`].
pub const EXPORT_MAX: usize = TICKET + 32 + 1 + 8 * 4;
/// Most bytes that are kept of why memory is out of reach.
pub const WHY_MAX: usize = 512;
/// Bytes of a [`Transfer`], and of an [`Import`].
pub const TRANSFER: usize = 40;
/// Bytes of a [`Description`].
pub const DESCRIPTION: usize = 33;

/// The body is not of the layout that its operation has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("body does not have the layout of its operation")
    }
}
impl core::error::Error for Malformed {}
impl From<Short> for Malformed {
    fn from(Short: Short) -> Self {
        Malformed
    }
}

fn end<T>(r: &Reader<'_>, value: T) -> Result<T, Malformed> {
    if r.rest().is_empty() { Ok(value) } else { Err(Malformed) }
}

const fn flag(byte: u8) -> Result<bool, Malformed> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

/// How a server got at the bytes of a region; it may say so in the answer to a [`READ`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Reach {
    /// The region is mapped.
    Mapped = 1,
    /// The operating system copied out of the owner's address space.
    Process = 2,
    /// A network card read them by remote key.
    Rdma = 3,
}

impl Reach {
    /// Reads a body: nothing if the server did not say.
    ///
    /// # Errors
    /// [`Malformed`].
    pub const fn parse(body: &[u8]) -> Result<Option<Reach>, Malformed> {
        match body {
            [] => Ok(None),
            [1] => Ok(Some(Reach::Mapped)),
            [2] => Ok(Some(Reach::Process)),
            [3] => Ok(Some(Reach::Rdma)),
            _ => Err(Malformed),
        }
    }

    /// Takes the answer to an inline [`READ`] of `len` bytes apart.
    ///
    /// # Errors
    /// [`Malformed`] if there are not so many bytes, or something else follows them.
    pub fn split(body: &[u8], len: u64) -> Result<(&[u8], Option<Reach>), Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        let (bytes, reach) = body.split_at_checked(len).ok_or(Malformed)?;
        Ok((bytes, Reach::parse(reach)?))
    }
}

/// A region, its secret and its access list; goes only over an authenticated link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// What and where.
    pub ticket: Ticket,
    /// What importers must present.
    pub secret: Secret,
    /// Who may import.
    pub shadows: Shadows,
}

impl Export {
    /// Writes the body; returns its length.
    ///
    /// # Errors
    /// [`Short`] if `into` is smaller than [`EXPORT_MAX`] and the body does not fit.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, Short> {
        let mut w = Writer::new(into);
        w.bytes(&self.ticket.to_bytes())?;
        w.bytes(&self.secret.0)?;
        w.u8(u8::try_from(self.shadows.len()).map_err(|_| Short)?)?;
        for sp in &self.shadows {
            w.u32(sp.0)?;
        }
        Ok(w.len())
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Export, Malformed> {
        let mut r = Reader::new(body);
        let ticket = Ticket::parse(r.bytes(TICKET)?).map_err(|_| Malformed)?;
        let secret = Secret(r.array()?);
        let mut shadows = Shadows::new();
        for _ in 0..r.u8()? {
            shadows.push(Sp(r.u32()?)).map_err(|_| Malformed)?;
        }
        end(&r, Export { ticket, secret, shadows })
    }
}

/// Take a region back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revoke {
    /// Which.
    pub key: Key,
    /// Do not wait for reads that are under way.
    pub forced: bool,
}

impl Revoke {
    /// The body.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 9] {
        filled(|w| {
            w.u64(self.key.to_bits())?;
            w.u8(u8::from(self.forced))
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Revoke, Malformed> {
        let mut r = Reader::new(body);
        let key = Key::from_bits(r.u64()?);
        let forced = flag(r.u8()?)?;
        end(&r, Revoke { key, forced })
    }
}

/// Prove that the sender may use a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Import {
    /// Which.
    pub key: Key,
    /// The proof.
    pub secret: Secret,
}

impl Import {
    /// The body.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TRANSFER] {
        filled(|w| {
            w.u64(self.key.to_bits())?;
            w.bytes(&self.secret.0)
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Import, Malformed> {
        let mut r = Reader::new(body);
        let import = Import { key: Key::from_bits(r.u64()?), secret: Secret(r.array()?) };
        end(&r, import)
    }
}

/// Which region of a process covers an address?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locate {
    /// The process.
    pub owner: Peer,
    /// The address in its address space.
    pub address: u64,
}

impl Locate {
    /// The body.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 12] {
        filled(|w| {
            w.u32(self.owner.to_bits())?;
            w.u64(self.address)
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Locate, Malformed> {
        let mut r = Reader::new(body);
        let owner = Peer::from_bits(r.u32()?).ok_or(Malformed)?;
        let address = r.u64()?;
        end(&r, Locate { owner, address })
    }
}

/// A region as its server describes it to an asker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Description(pub Region);

impl Description {
    /// The body.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; DESCRIPTION] {
        let Region { key, incarnation, base, len, access } = self.0;
        filled(|w| {
            for word in [key.to_bits(), incarnation.0, base, len] {
                w.u64(word)?;
            }
            w.u8(access.bits())
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`], also for a region that leaves the address space.
    pub fn parse(body: &[u8]) -> Result<Description, Malformed> {
        let mut r = Reader::new(body);
        let (key, incarnation) = (Key::from_bits(r.u64()?), Incarnation(r.u64()?));
        let (base, len) = (r.u64()?, r.u64()?);
        let access = Access::from_bits(r.u8()?).ok_or(Malformed)?;
        len.checked_sub(1).and_then(|last| base.checked_add(last)).ok_or(Malformed)?;
        end(&r, Description(Region { key, incarnation, base, len, access }))
    }
}

/// Move bytes between a region and the asker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Which bytes of the region.
    pub span: Span,
    /// Which life of the owner the asker means.
    pub incarnation: Incarnation,
    /// Where in the asker's landing segment; `None`: the bytes travel in the frame.
    pub landing: Option<u64>,
}

impl Transfer {
    const INLINE: u64 = u64::MAX;

    /// The fixed part of the body.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TRANSFER] {
        let words = [
            self.span.key.to_bits(),
            self.incarnation.0,
            self.span.offset,
            self.span.len,
            self.landing.unwrap_or(Self::INLINE),
        ];
        let mut bytes = [0; TRANSFER];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a body; what follows the fixed part comes back too.
    ///
    /// # Errors
    /// [`Malformed`] if it is too short, or if bytes follow that are not `span.len` inline ones.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<(Transfer, &[u8]), Malformed> {
        let mut r = Reader::new(body);
        let (key, incarnation) = (Key::from_bits(r.u64()?), Incarnation(r.u64()?));
        let (offset, len, landing) = (r.u64()?, r.u64()?, r.u64()?);
        let landing = (landing != Self::INLINE).then_some(landing);
        Ok((Transfer { span: Span { key, offset, len }, incarnation, landing }, r.rest()))
    }
}

/// Bytes of a region, by its key: no other generation will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Which bytes of the region.
    pub span: Span,
    /// How long the rank will wait.
    pub patience: Lapse,
    /// By its ticket the region is constant: a copy that was kept will do.
    pub constant: bool,
}

impl Fetch {
    /// Bytes of the body.
    pub const LEN: usize = 33;

    /// The body.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        filled(|w| {
            for word in [self.span.key.to_bits(), self.span.offset, self.span.len, self.patience.0] {
                w.u64(word)?;
            }
            w.u8(u8::from(self.constant))
        })
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Fetch, Malformed> {
        let mut r = Reader::new(body);
        let (key, offset, len) = (Key::from_bits(r.u64()?), r.u64()?, r.u64()?);
        let patience = Lapse(r.u64()?);
        let constant = flag(r.u8()?)?;
        end(&r, Fetch { span: Span { key, offset, len }, patience, constant })
    }
}
