//! A region's description in 64 bytes, for a wire, a file or a mailbox.
//!
//! A ticket says what a [`Key`] names and where a transport finds the bytes. A rank of the job that has it can read
//! through its own service process, until the region is revoked; a service process that imports the region must also
//! present its [`Secret`](crate::region::Secret), and the owner's table decides. All integers are little-endian.
//!
//! ```text
//! 0       4         5      6        7         8        16     24     32        56         64
//! | UMTK  | version | kind | access | zero    | length | key  | base | locator | checksum |
//! ```
//!
//! Every truncation and every changed byte is refused: the checksum covers all bytes before it.
//!
//! ```
//! use umbra_core::key::{Access, Key};
//! use umbra_core::peer::{Peer, WorldRank};
//! use umbra_core::ticket::{Locator, Ticket, TicketError};
//! let owner = Peer::rank(WorldRank(5)).ok_or("rank too large")?;
//! let ticket = Ticket {
//!     key: Key::new(owner, 1, 7),
//!     base: 0x7f00_0000,
//!     len: 4096,
//!     access: Access::READ,
//!     locator: Locator::Process { pid: 42, start: 99 },
//! };
//! let mut bytes = ticket.to_bytes();
//! assert_eq!(Ticket::parse(&bytes)?, ticket);
//! bytes[20] ^= 1;
//! assert_eq!(Ticket::parse(&bytes), Err(TicketError::Damaged));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::codec::{Reader, Short, Writer};
use crate::key::{Access, Key};
use crate::peer::Sp;

/// Bytes of a ticket.
pub const TICKET: usize = 64;

const MAGIC: [u8; 4] = *b"UMTK";
const VERSION: u8 = 1;
const LOCATOR: usize = 24;
const CHECKED: usize = TICKET - 8;

/// Where a transport finds the bytes of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Locator {
    /// In shared memory whose descriptor travels beside the ticket.
    Segment {
        /// The owner's number for the segment.
        segment: u64,
        /// Where in the segment the region begins.
        offset: u64,
        /// Bytes in the segment.
        size: u64,
    },
    /// In the memory of a process on the same machine.
    Process {
        /// Its process id.
        pid: u32,
        /// When it started, in clock ticks since boot: tells it from a later holder of the id.
        start: u64,
    },
    /// Wherever a service process can reach it: ask that one.
    Asked {
        /// The service process.
        sp: Sp,
    },
    /// In memory that its owner registered with an RDMA device; the ticket's base is its address there.
    Verbs {
        /// The remote key.
        rkey: u32,
        /// Whether other service processes than the owner's shadows may be given the key, to read for themselves.
        direct: bool,
    },
    /// Behind a network card that the importer shares: by a key of another function of it.
    CrossVhca {
        /// The key.
        mkey: u32,
        /// The function, by its number on the card.
        vhca: u16,
        /// The card.
        device: u64,
        /// Which registration of memory the key stands for: the same key may stand for another one later.
        registration: u64,
    },
}

const SEGMENT: u8 = 1;
const PROCESS: u8 = 2;
const ASKED: u8 = 3;
const VERBS: u8 = 4;
const CROSS_VHCA: u8 = 5;

/// The serialized descriptor of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    /// Its name.
    pub key: Key,
    /// Where it starts in the owner's address space.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// What its importers may do.
    pub access: Access,
    /// Where its bytes are.
    pub locator: Locator,
}

/// Why bytes are not a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TicketError {
    /// Not exactly [`TICKET`] bytes.
    Length(usize),
    /// Something else than a ticket.
    NotATicket,
    /// A ticket of another version.
    Version(u8),
    /// The checksum does not fit.
    Damaged,
    /// The checksum fits but the contents mean nothing: another program made it.
    Nonsense,
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TicketError::Length(len) => write!(f, "a ticket has {TICKET} bytes, not {len}"),
            TicketError::NotATicket => f.write_str("these bytes are no ticket"),
            TicketError::Version(version) => write!(f, "ticket of version {version}, this program reads {VERSION}"),
            TicketError::Damaged => f.write_str("ticket is damaged: ask its owner for another"),
            TicketError::Nonsense => f.write_str("ticket holds values that no version defines"),
        }
    }
}
impl core::error::Error for TicketError {}

impl From<Short> for TicketError {
    fn from(Short: Short) -> Self {
        TicketError::Nonsense
    }
}

impl Ticket {
    /// The 64 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TICKET] {
        let mut bytes = [0; TICKET];
        // The layout is TICKET bytes long by construction, so nothing can be short.
        let written = self.emit(&mut bytes);
        debug_assert_eq!(written, Ok(()));
        bytes
    }

    fn emit(&self, bytes: &mut [u8; TICKET]) -> Result<(), Short> {
        let mut w = Writer::new(bytes);
        w.bytes(&MAGIC)?;
        w.u8(VERSION)?;
        w.u8(match self.locator {
            Locator::Segment { .. } => SEGMENT,
            Locator::Process { .. } => PROCESS,
            Locator::Asked { .. } => ASKED,
            Locator::Verbs { .. } => VERBS,
            Locator::CrossVhca { .. } => CROSS_VHCA,
        })?;
        w.u8(self.access.bits())?;
        w.u8(0)?;
        w.u64(self.len)?;
        w.u64(self.key.to_bits())?;
        w.u64(self.base)?;
        match self.locator {
            Locator::Segment { segment, offset, size } => {
                w.u64(segment)?;
                w.u64(offset)?;
                w.u64(size)?;
            }
            Locator::Process { pid, start } => {
                w.u64(u64::from(pid))?;
                w.u64(start)?;
                w.u64(0)?;
            }
            Locator::Asked { sp } => {
                w.u64(u64::from(sp.0))?;
                w.bytes(&[0; LOCATOR - 8])?;
            }
            Locator::Verbs { rkey, direct } => {
                w.u64(u64::from(rkey))?;
                w.u64(u64::from(direct))?;
                w.u64(0)?;
            }
            Locator::CrossVhca { mkey, vhca, device, registration } => {
                w.u64(u64::from(vhca) << 32 | u64::from(mkey))?;
                w.u64(device)?;
                w.u64(registration)?;
            }
        }
        let sum = checksum(bytes);
        bytes[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    /// Reads a ticket.
    ///
    /// # Errors
    /// [`TicketError`] unless `bytes` are exactly what [`to_bytes`](Self::to_bytes) made.
    pub fn parse(bytes: &[u8]) -> Result<Ticket, TicketError> {
        let bytes: &[u8; TICKET] = bytes.try_into().map_err(|_| TicketError::Length(bytes.len()))?;
        let mut r = Reader::new(bytes);
        if r.array()? != MAGIC {
            return Err(TicketError::NotATicket);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(TicketError::Version(version));
        }
        let mut sum = Reader::new(&bytes[CHECKED..]);
        if sum.u64()? != checksum(bytes) {
            return Err(TicketError::Damaged);
        }
        let kind = r.u8()?;
        let access = Access::from_bits(r.u8()?).ok_or(TicketError::Nonsense)?;
        let zero = r.u8()?;
        let (len, key, base) = (r.u64()?, Key::from_bits(r.u64()?), r.u64()?);
        let place: [u64; LOCATOR / 8] = [r.u64()?, r.u64()?, r.u64()?];
        let small = |word: u64| u32::try_from(word).map_err(|_| TicketError::Nonsense);
        let locator = match (kind, place) {
            (SEGMENT, [segment, offset, size]) => Locator::Segment { segment, offset, size },
            (PROCESS, [pid, start, 0]) => Locator::Process { pid: small(pid)?, start },
            (ASKED, [sp, 0, 0]) => Locator::Asked { sp: Sp(small(sp)?) },
            (VERBS, [rkey, direct @ (0 | 1), 0]) => Locator::Verbs { rkey: small(rkey)?, direct: direct == 1 },
            (CROSS_VHCA, [key, device, registration]) => {
                let vhca = u16::try_from(key >> 32).map_err(|_| TicketError::Nonsense)?;
                // The lower half, as the upper one was taken.
                Locator::CrossVhca { mkey: key as u32, vhca, device, registration }
            }
            _ => return Err(TicketError::Nonsense),
        };
        let fits = match locator {
            // Checked here once, so that nobody who maps the segment has to think of it.
            Locator::Segment { offset, size, .. } => offset <= size && len <= size - offset,
            _ => true,
        };
        if zero != 0 || len == 0 || base.checked_add(len - 1).is_none() || !fits {
            return Err(TicketError::Nonsense);
        }
        Ok(Ticket { key, base, len, access, locator })
    }
}

/// Finds damage; who made the ticket is proven by the link it came over and by the region's secret.
fn checksum(bytes: &[u8; TICKET]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(u64::from_le_bytes(*b"umbra ti"), u64::from_le_bytes(*b"cket v1 "));
    hasher.write(&bytes[..CHECKED]);
    hasher.finish()
}
