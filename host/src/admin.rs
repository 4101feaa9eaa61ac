//! What launchers and administrators say to agents and ranks: operations `0x03..`.
//!
//! Every body is a sequence of little-endian fields; lists are bounded by the frame. Texts are for people,
//! numbers and statuses for programs.

mod figures;

use umbra_core::codec::{Reader, Short};
use umbra_core::error::Status;
use umbra_core::peer::{Peer, WorldRank};
use umbra_core::time::Time;

pub use self::figures::Figures;

/// The operation numbers.
pub mod ops {
    use umbra_core::wire::Op;

    /// Launcher to agent: accept links on the descriptors that come along ([`Door`](super::Door) each).
    pub const LISTEN: Op = Op(0x0301);
    /// Launcher to agent: where the slices are ([`Slice`](super::Slice) each), beside those told before. Refused as
    /// [`Full`](umbra_core::error::Status::Full) if what is read of all of them could not be told.
    pub const PLAN: Op = Op(0x0302);
    /// Launcher to agent: read every slice whole ([`ReadOrder`](super::ReadOrder)).
    pub const SLICES: Op = Op(0x0303);
    /// Launcher to agent: read at random offsets ([`ReadOrder`](super::ReadOrder)).
    pub const RANDOM: Op = Op(0x0304);
    /// Agent to launcher: totals so far ([`Progress`](super::Progress)).
    pub const PROGRESS: Op = Op(0x0305);
    /// Agent or rank to launcher: a step was taken ([`Mark`](super::Mark)).
    pub const MARK: Op = Op(0x0306);
    /// Launcher to agent: tell a data path ([`PathTotals`](super::PathTotals)), by its number in the token.
    pub const LATENCY: Op = Op(0x0307);
    /// Anybody to agent: tell how you are and what you have done; answered in lines `name value`.
    pub const STATUS: Op = Op(0x0308);
    /// Anybody to agent: which groups are there, and how far are they; answered in text lines.
    pub const GROUPS: Op = Op(0x0309);
    /// Anybody to agent: the table of a group (handle u64, offset u64); answered with its whole length (u64) and
    /// as many bytes as fit.
    pub const DUMP: Op = Op(0x030a);
    /// Anybody to agent: the entry of a rank of a group (handle u64, rank u32); answered with world rank, host
    /// and shadow service processes (u32 each).
    pub const LOOKUP: Op = Op(0x030b);
    /// Anybody to agent: which links and ranks are missing; answered in text lines.
    pub const DOCTOR: Op = Op(0x030c);
    /// Agent to agent: a segment for the answers to reads comes along; its length in bytes.
    pub const LEND: Op = Op(0x030d);
    /// Agent to rank: the arena of all full groups comes along, to be mapped read-only; its length in bytes.
    pub const ARENA: Op = Op(0x030e);
    /// Anybody on its machine to agent: the meeting place of chained calls; its descriptor comes with the answer
    /// ([`Calls`](super::Calls)).
    pub const CALLS: Op = Op(0x030f);
    /// Rank to launcher: all groups are full, the slice is exported ([`Exported`](super::Exported)).
    pub const EXPORTED: Op = Op(0x0310);
    /// Launcher to rank: free the groups and leave; answered with the number of wake-ups.
    pub const LEAVE: Op = Op(0x0311);
    /// Agent or rank to launcher: it cannot go on ([`Failure`](super::Failure)).
    pub const FAILED: Op = Op(0x0312);
    /// Anybody to agent: what a display shows of it ([`Figures`](super::Figures)).
    pub const FIGURES: Op = Op(0x0313);
    /// Agent to whoever asked: what the answer that comes next has no room for, and what is to be read behind it.
    pub const MORE: Op = Op(0x0314);
}

/// Bytes of [`ops::MORE`] before an answer; whoever sends more is not an agent that answers.
pub(crate) const MORE_MAX: usize = 64 << 20;

/// What kind of socket a descriptor of [`ops::LISTEN`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Door {
    /// A listening TCP socket.
    Tcp = 1,
    /// A listening Unix socket.
    Unix = 2,
}

impl Door {
    /// The kind with this number.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Door> {
        match code {
            1 => Some(Door::Tcp),
            2 => Some(Door::Unix),
            _ => None,
        }
    }
}

/// Where a rank's slice lies in its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Whose.
    pub rank: WorldRank,
    /// The address in the rank's address space.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

/// Where the members of chained calls of one machine meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calls {
    /// Members that live at the agent: the first seats.
    pub residents: u32,
    /// All seats; whoever comes takes one behind the residents.
    pub seats: u32,
}

/// How to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOrder {
    /// Bytes of one read at most.
    pub size: u64,
    /// Reads per rank, for random ones.
    pub reads: u32,
    /// Chooses the random offsets.
    pub seed: u64,
    /// How long one read may take, in nanoseconds.
    pub patience: u64,
}

/// What an agent read from one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadResult {
    /// From whom.
    pub rank: WorldRank,
    /// Reads that ended well.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reads that failed.
    pub failed: u64,
    /// How the last failed read ended; `Ok` if none failed.
    pub status: Status,
    /// BLAKE3 of the bytes in the order of the reads.
    pub digest: [u8; 32],
}

/// The end of an agent's reading; its [`ReadResult`]s follow in the same body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadTotals {
    /// Look-ups in the endpoint cache.
    pub lookups: u64,
    /// Look-ups whose answers contradicted each other.
    pub contradictions: u64,
}

/// Which way bytes went, and what it cost; the pairs (nanoseconds, reads) of the histogram follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathTotals {
    /// The number of the path, see [`DataPath`](crate::job::DataPath).
    pub path: u8,
    /// Whether the reader serves the rank itself.
    pub own_rank: bool,
    /// Reads.
    pub reads: u64,
    /// Bytes.
    pub bytes: u64,
    /// Nanoseconds spent waiting for them.
    pub busy: u64,
    /// Pairs that follow.
    pub pairs: u32,
}

/// Totals of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Reads that ended well.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A step of the bootstrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// When, on the machine's monotonic clock.
    pub at: Time,
    /// The number of the step, see [`Step`](crate::job::Step).
    pub step: u8,
    /// The group's context id and lead; `None` if it is about no group.
    pub group: Option<(u32, u32)>,
    /// A number that belongs to the step: the table's bytes for a full group.
    pub value: u64,
}

/// A rank is ready to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exported {
    /// The key of the region, in its wire form; 0 if the rank has none.
    pub key: u64,
    /// Where the slice begins.
    pub address: u64,
    /// Bytes; 0 if the rank has none.
    pub len: u64,
    /// How often the rank was woken so far.
    pub wakeups: u64,
}

/// A process cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What kind of failure.
    pub status: Status,
    /// Whose failure it is, if it is known.
    pub culprit: Option<Peer>,
    /// The whole story in one sentence.
    pub text: String,
}

/// A message that is built and read back here.
pub trait Body: Sized {
    /// Appends the fields.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes the fields off.
    ///
    /// # Errors
    /// [`Short`] if bytes are missing or mean nothing.
    fn get(r: &mut Reader<'_>) -> Result<Self, Short>;

    /// The body of a frame.
    fn to_body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Reads a whole body.
    ///
    /// # Errors
    /// [`Short`] if it is not exactly one such message.
    fn from_body(body: &[u8]) -> Result<Self, Short> {
        let mut r = Reader::new(body);
        let value = Self::get(&mut r)?;
        if r.rest().is_empty() { Ok(value) } else { Err(Short) }
    }

    /// Reads a body that is a list.
    ///
    /// # Errors
    /// [`Short`] if it is not a whole number of such messages.
    fn list_from_body(body: &[u8]) -> Result<Vec<Self>, Short> {
        let mut r = Reader::new(body);
        let mut list = Vec::new();
        while !r.rest().is_empty() {
            list.push(Self::get(&mut r)?);
        }
        Ok(list)
    }

    /// The body of a frame that carries a list.
    fn list_to_body(list: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        for item in list {
            item.put(&mut out);
        }
        out
    }
}

/// A body whose fields are all 64-bit words.
macro_rules! words {
    ($name:ident { $($field:ident: $wrap:expr, $unwrap:expr;)* }) => {
        impl Body for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(
                    let word: u64 = $unwrap(self.$field);
                    out.extend_from_slice(&word.to_le_bytes());
                )*
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, Short> {
                Ok($name { $($field: $wrap(r.u64()?)?,)* })
            }
        }
    };
}

fn same(word: u64) -> Result<u64, Short> {
    Ok(word)
}

fn small(word: u64) -> Result<u32, Short> {
    u32::try_from(word).map_err(|_| Short)
}

words!(Slice {
    rank: |w| small(w).map(WorldRank), |r: WorldRank| u64::from(r.0);
    address: same, |w| w;
    len: same, |w| w;
});
words!(ReadOrder {
    size: same, |w| w;
    reads: small, u64::from;
    seed: same, |w| w;
    patience: same, |w| w;
});
words!(Progress {
    reads: same, |w| w;
    bytes: same, |w| w;
});
words!(Exported {
    key: same, |w| w;
    address: same, |w| w;
    len: same, |w| w;
    wakeups: same, |w| w;
});

words!(ReadTotals {
    lookups: same, |w| w;
    contradictions: same, |w| w;
});
words!(PathTotals {
    path: |w| u8::try_from(w).map_err(|_| Short), u64::from;
    own_rank: |w| Ok::<_, Short>(w != 0), u64::from;
    reads: same, |w| w;
    bytes: same, |w| w;
    busy: same, |w| w;
    pairs: small, u64::from;
});

impl ReadResult {
    /// Bytes of it in a body.
    pub const BYTES: usize = 5 * size_of::<u64>() + 32;
}

impl Body for ReadResult {
    fn put(&self, out: &mut Vec<u8>) {
        for word in [u64::from(self.rank.0), self.reads, self.bytes, self.failed, self.status as u64] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.digest);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Short> {
        let (rank, reads, bytes, failed) = (small(r.u64()?).map(WorldRank)?, r.u64()?, r.u64()?, r.u64()?);
        let status = u16::try_from(r.u64()?).ok().and_then(Status::from_code).ok_or(Short)?;
        Ok(ReadResult { rank, reads, bytes, failed, status, digest: r.array()? })
    }
}

const NO_GROUP: u64 = u64::MAX;

words!(Calls {
    residents: small, u64::from;
    seats: small, u64::from;
});

words!(Mark {
    at: |w| Ok::<_, Short>(Time(w)), |t: Time| t.0;
    step: |w| u8::try_from(w).map_err(|_| Short), u64::from;
    group: |w| Ok::<_, Short>((w != NO_GROUP).then_some(((w >> 32) as u32, w as u32))),
        |g: Option<(u32, u32)>| g.map_or(NO_GROUP, |(id, lead)| u64::from(id) << 32 | u64::from(lead));
    value: same, |w| w;
});

const NOBODY: u32 = u32::MAX;

impl Body for Failure {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.status as u16).to_le_bytes());
        out.extend_from_slice(&self.culprit.map_or(NOBODY, Peer::to_bits).to_le_bytes());
        let text: String = self.text.chars().take(1000).collect();
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Short> {
        let status = Status::from_code(r.u16()?).ok_or(Short)?;
        let culprit = r.u32()?;
        let culprit = if culprit == NOBODY { None } else { Some(Peer::from_bits(culprit).ok_or(Short)?) };
        let len = r.u32()? as usize;
        let text = String::from_utf8_lossy(r.bytes(len)?).into_owned();
        Ok(Failure { status, culprit, text })
    }
}
