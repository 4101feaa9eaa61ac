//! What can be asked of firmware.

use umbra_core::access::message::{READ, REVOKE, Revoke, TRANSFER, Transfer, WRITE};
use umbra_core::codec::Reader;
use umbra_core::endpoints::{Endpoint, Group, Shadows, Table};
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Incarnation, Peer, Rank, Sp};
use umbra_core::region::{Region, Secret};
use umbra_core::window::{LANDING, ops};
use umbra_core::wire::{Frame, INLINE, Op};

use super::lane::{Answer, CREDIT};
use super::{Firmware, FirmwareError};

/// Bytes that come back in the answer itself.
const INLINE_READ: usize = INLINE - 2;
/// Bytes that travel in the command itself.
const INLINE_WRITE: usize = INLINE - TRANSFER;

/// Who answered a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// The firmware.
    Firmware,
    /// The cache in the window, because the firmware has stopped.
    Window,
}

/// The answer to a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The process of the rank, and its first shadow service process.
    pub endpoint: Endpoint,
    /// Who said so.
    pub from: From,
}

/// One read of several.
#[derive(Debug)]
pub struct Wish<'b> {
    /// Which bytes.
    pub span: Span,
    /// Where they go: as many bytes as the span has, at most [`WISH`].
    pub into: &'b mut [u8],
    /// How it ended.
    pub status: Status,
}

/// Bytes that one of several reads can have.
pub const WISH: usize = LANDING / CREDIT;

impl Firmware<'_> {
    /// Lets the firmware serve `len` bytes at `offset` of the [share](Self::share), until the region is revoked or this
    /// process detaches or dies.
    ///
    /// # Errors
    /// [`FirmwareError::Export`], or why the firmware does not do it.
    pub fn export(&mut self, offset: u64, len: u64, access: Access) -> Result<Region, FirmwareError> {
        // Who may use it is the firmware's business; here the table only makes keys.
        let (shadows, secret) = (Shadows::new(), Secret([0; 32]));
        let exported = self.regions.export(self.me, self.life, offset, len, access, shadows, secret);
        let region = exported.map_err(FirmwareError::Export)?;
        let span = Span { key: region.key, offset, len };
        let arg = u64::from(access.bits());
        let offer = Frame::Offer { op: ops::EXPORT, token: self.attached.next(), span, arg };
        let answered = self.call("an export", &offer);
        if answered.is_err() {
            // The key was not served, and is not made again.
            let _ = self.regions.revoke(region.key);
        }
        answered.map(|_| region)
    }

    /// Takes a region back; nobody uses it any more when this returns.
    ///
    /// # Errors
    /// [`FirmwareError::Revoke`] if it is not exported, or why the firmware does not do it.
    pub fn revoke(&mut self, key: Key) -> Result<(), FirmwareError> {
        self.regions.revoke(key).map_err(FirmwareError::Revoke)?;
        self.command("a revocation", REVOKE, &Revoke { key, forced: false }.to_bytes()).map(|_| ())
    }

    /// Reads bytes of a region; the firmware checks the key, its generation, the bounds and the right.
    ///
    /// # Errors
    /// [`FirmwareError::Refused`] with what the check said, or what became of the firmware.
    pub fn read(&mut self, span: Span, into: &mut [u8]) -> Result<(), FirmwareError> {
        let len = agree(span, into.len())?;
        if len <= INLINE_READ {
            let answer = self.transfer("a read", READ, span, None, &[])?;
            let bytes = answer.body().get(..len).filter(|_| answer.body().len() == len);
            into.copy_from_slice(bytes.ok_or(FirmwareError::Nonsense { what: "a read" })?);
            return Ok(());
        }
        for (at, part) in (0..).step_by(LANDING).zip(into.chunks_mut(LANDING)) {
            let span = Span { offset: span.offset.saturating_add(at), len: part.len() as u64, ..span };
            self.transfer("a read", READ, span, Some(0), &[])?;
            self.attached.landing().read_only().read(0, part)?;
        }
        Ok(())
    }

    /// Reads several spans at once, as many as the firmware takes without an answer: one way there and back for all.
    ///
    /// # Errors
    /// [`FirmwareError::TooLong`], [`FirmwareError::Length`], or what became of the firmware. That one of them was refused
    /// stands in its status.
    pub fn read_all(&mut self, wishes: &mut [Wish<'_>]) -> Result<(), FirmwareError> {
        const WHAT: &str = "reads";
        for wish in wishes.iter() {
            let len = agree(wish.span, wish.into.len())?;
            if len > WISH {
                return Err(FirmwareError::TooLong { len, most: WISH });
            }
        }
        for several in wishes.chunks_mut(CREDIT) {
            self.attached.settle(WHAT, &mut self.watch)?;
            let first = self.attached.next().0;
            for (wish, at) in several.iter().zip((0..).step_by(WISH)) {
                let landing = (wish.into.len() > INLINE_READ).then_some(at);
                let body = Transfer { span: wish.span, incarnation: Incarnation::ANY, landing }.to_bytes();
                let call = Frame::Call { op: READ, token: self.attached.next(), body: &body };
                self.attached.post(WHAT, &call, &mut self.watch)?;
            }
            for _ in 0..several.len() {
                let (token, answer) = self.attached.take(WHAT, &mut self.watch)?;
                let at = usize::try_from(token.0.wrapping_sub(first)).unwrap_or(usize::MAX);
                let wish = several.get_mut(at).ok_or(FirmwareError::Nonsense { what: WHAT })?;
                wish.status = answer.status;
                if answer.status != Status::Ok {
                    continue;
                }
                if wish.into.len() > INLINE_READ {
                    self.attached.landing().read_only().read(at * WISH, wish.into)?;
                } else if answer.body().len() == wish.into.len() {
                    wish.into.copy_from_slice(answer.body());
                } else {
                    return Err(FirmwareError::Nonsense { what: WHAT });
                }
            }
        }
        Ok(())
    }

    /// Writes bytes into a region, with the same checks.
    ///
    /// # Errors
    /// As [`read`](Self::read); what was written before an error stays written.
    pub fn write(&mut self, span: Span, from: &[u8]) -> Result<(), FirmwareError> {
        let len = agree(span, from.len())?;
        if len <= INLINE_WRITE {
            return self.transfer("a write", WRITE, span, None, from).map(|_| ());
        }
        for (at, part) in (0..).step_by(LANDING).zip(from.chunks(LANDING)) {
            let span = Span { offset: span.offset.saturating_add(at), len: part.len() as u64, ..span };
            self.attached.land("a write", part, &mut self.watch)?;
            self.transfer("a write", WRITE, span, Some(0), &[])?;
        }
        Ok(())
    }

    /// Puts the table of a group into the endpoint cache, in slot `wish` if that is free. For service processes.
    ///
    /// # Errors
    /// [`FirmwareError::TooLong`], or [`FirmwareError::Refused`].
    pub fn publish(&mut self, table: &Table<&[u8]>, wish: Option<u32>) -> Result<Id<Group>, FirmwareError> {
        let len = table.bytes().len();
        if len > LANDING {
            return Err(FirmwareError::TooLong { len, most: LANDING });
        }
        self.attached.land("a table", table.bytes(), &mut self.watch)?;
        let span = Span { key: Key::from_bits(0), offset: 0, len: len as u64 };
        let arg = wish.map_or(u64::MAX, u64::from);
        let offer = Frame::Offer { op: ops::PUBLISH, token: self.attached.next(), span, arg };
        Ok(Id::from_bits(word("a table", &self.call("a table", &offer)?)?))
    }

    /// Takes a group out of the endpoint cache. For service processes.
    ///
    /// # Errors
    /// [`FirmwareError::Refused`] if the handle is not current.
    pub fn retire(&mut self, group: Id<Group>) -> Result<(), FirmwareError> {
        self.command("the end of a group", ops::RETIRE, &group.to_bits().to_le_bytes()).map(|_| ())
    }

    /// Asks who a rank is. Where the firmware has stopped the cache in the window answers, which is as it left it.
    ///
    /// # Errors
    /// [`FirmwareError::Refused`] with what the look-up said, [`FirmwareError::Cache`] if the window does not know it
    /// either.
    pub fn lookup(&mut self, group: Id<Group>, rank: Rank) -> Result<Found, FirmwareError> {
        let mut body = [0; 12];
        body[..8].copy_from_slice(&group.to_bits().to_le_bytes());
        body[8..].copy_from_slice(&rank.0.to_le_bytes());
        match self.command("a look-up", ops::LOOKUP, &body) {
            Ok(answer) => {
                let word = word("a look-up", &answer)?;
                let peer = Peer::from_bits(word as u32).ok_or(FirmwareError::Nonsense { what: "a look-up" })?;
                Ok(Found { endpoint: Endpoint { peer, sp: Sp((word >> 32) as u32) }, from: From::Firmware })
            }
            Err(FirmwareError::Stopped { .. } | FirmwareError::GaveUp { .. }) => self.cached(group, rank),
            Err(error) => Err(error),
        }
    }

    /// Looks a rank up in the window, without asking anybody: two array reads.
    ///
    /// # Errors
    /// [`FirmwareError::Cache`].
    pub fn cached(&self, group: Id<Group>, rank: Rank) -> Result<Found, FirmwareError> {
        let damaged = FirmwareError::Cache(umbra_core::endpoints::LookupError::Damaged);
        let reader = umbra_core::endpoints::Reader::attach(self.window.cache()?).map_err(|_| damaged)?;
        let endpoint = reader.lookup(group, rank).map_err(FirmwareError::Cache)?;
        Ok(Found { endpoint, from: From::Window })
    }

    fn transfer(
        &mut self,
        what: &'static str,
        op: Op,
        span: Span,
        landing: Option<u64>,
        inline: &[u8],
    ) -> Result<Answer, FirmwareError> {
        let fixed = Transfer { span, incarnation: Incarnation::ANY, landing }.to_bytes();
        let mut body = [0; INLINE];
        body[..TRANSFER].copy_from_slice(&fixed);
        let len = TRANSFER + inline.len();
        body.get_mut(TRANSFER..len).ok_or(FirmwareError::Nonsense { what })?.copy_from_slice(inline);
        self.command(what, op, &body[..len])
    }

    fn command(&mut self, what: &'static str, op: Op, body: &[u8]) -> Result<Answer, FirmwareError> {
        let call = Frame::Call { op, token: self.attached.next(), body };
        self.call(what, &call)
    }

    fn call(&mut self, what: &'static str, command: &Frame<'_>) -> Result<Answer, FirmwareError> {
        let answer = self.attached.call(what, command, &mut self.watch)?;
        match answer.status {
            Status::Ok => Ok(answer),
            status => Err(FirmwareError::Refused { what, status }),
        }
    }
}

const fn agree(span: Span, buffer: usize) -> Result<usize, FirmwareError> {
    if span.len == buffer as u64 { Ok(buffer) } else { Err(FirmwareError::Length { span: span.len, buffer }) }
}

/// An answer of one word.
fn word(what: &'static str, answer: &Answer) -> Result<u64, FirmwareError> {
    Reader::new(answer.body()).u64().map_err(|_| FirmwareError::Nonsense { what })
}
