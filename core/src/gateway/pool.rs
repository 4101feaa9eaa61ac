//! What a client asks a gateway about a pool.

use super::{ParseError, Patience, VERSION, written};
use crate::codec::{Reader, Short, Writer};
use crate::heap::BlockId;

const OPEN: u8 = 10;
const ALLOC: u8 = 11;
const LOOK: u8 = 12;
const GET: u8 = 13;
const PUT: u8 = 14;
const FREE: u8 = 15;
const LEAVE: u8 = 16;
const FIGURES: u8 = 17;
pub(super) const FIRST: u8 = OPEN;
pub(super) const LAST: u8 = FIGURES;

/// What a line about a pool asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PoolRequest<'a> {
    /// The first one: which pool.
    Open {
        /// The bytes of its reference, or of that of an allocation of it.
        reference: &'a [u8],
    },
    /// Allocate a block, which is freed when the line ends.
    Alloc {
        /// How long to wait for one.
        patience: Patience,
        /// Its bytes.
        len: u64,
        /// What it is for.
        kind: u32,
    },
    /// Say what a block is.
    Look {
        /// Which.
        id: BlockId,
    },
    /// Copy bytes out of a block.
    Get {
        /// Which.
        id: BlockId,
        /// Where in it they begin.
        at: u64,
        /// How many.
        len: u32,
    },
    /// Copy bytes into a block.
    Put {
        /// Which.
        id: BlockId,
        /// Where in it they begin.
        at: u64,
        /// They.
        bytes: &'a [u8],
    },
    /// Free a block, whoever allocated it.
    Free {
        /// Which.
        id: BlockId,
    },
    /// Leave a block of this line to the pool: it is not freed when the line ends.
    Leave {
        /// Which.
        id: BlockId,
    },
    /// Say how much is used.
    Figures,
}

impl<'a> PoolRequest<'a> {
    pub(super) fn write(&self, buffer: &mut [u8]) -> Result<usize, Short> {
        let of = |number: u8, id: BlockId| {
            move |w: &mut Writer<'_>| {
                w.u8(number)?;
                w.u64(id.to_bits())
            }
        };
        match *self {
            PoolRequest::Open { reference } => written(buffer, |w| w.bytes(&[OPEN, VERSION]), reference),
            PoolRequest::Alloc { patience, len, kind } => {
                let head = |w: &mut Writer<'_>| {
                    w.u8(ALLOC)?;
                    patience.write(w)?;
                    w.u64(len)?;
                    w.u32(kind)
                };
                written(buffer, head, &[])
            }
            PoolRequest::Look { id } => written(buffer, of(LOOK, id), &[]),
            PoolRequest::Get { id, at, len } => {
                let head = |w: &mut Writer<'_>| {
                    of(GET, id)(w)?;
                    w.u64(at)?;
                    w.u32(len)
                };
                written(buffer, head, &[])
            }
            PoolRequest::Put { id, at, bytes } => {
                let head = |w: &mut Writer<'_>| {
                    of(PUT, id)(w)?;
                    w.u64(at)
                };
                written(buffer, head, bytes)
            }
            PoolRequest::Free { id } => written(buffer, of(FREE, id), &[]),
            PoolRequest::Leave { id } => written(buffer, of(LEAVE, id), &[]),
            PoolRequest::Figures => written(buffer, |w| w.u8(FIGURES), &[]),
        }
    }

    /// What comes after the number of the request.
    pub(super) fn parse(number: u8, r: &mut Reader<'a>) -> Result<PoolRequest<'a>, ParseError> {
        let id = |r: &mut Reader<'a>| r.u64().map(BlockId::from_bits);
        let rest = |r: &mut Reader<'a>| r.bytes(r.rest().len());
        Ok(match number {
            OPEN => match r.u8()? {
                VERSION => PoolRequest::Open { reference: rest(r)? },
                version => return Err(ParseError::Version(version)),
            },
            ALLOC => PoolRequest::Alloc { patience: Patience::parse(r)?, len: r.u64()?, kind: r.u32()? },
            LOOK => PoolRequest::Look { id: id(r)? },
            GET => PoolRequest::Get { id: id(r)?, at: r.u64()?, len: r.u32()? },
            PUT => PoolRequest::Put { id: id(r)?, at: r.u64()?, bytes: rest(r)? },
            FREE => PoolRequest::Free { id: id(r)? },
            LEAVE => PoolRequest::Leave { id: id(r)? },
            FIGURES => PoolRequest::Figures,
            _ => return Err(ParseError::Nonsense),
        })
    }
}
