//! One read, and the pieces of it that are under way.

use super::lists::{Listed, Next};
use super::{Get, ReadError};
use crate::error::Status;
use crate::id::Id;
use crate::machine::Link;
use crate::peer::Peer;
use crate::region::Region;

/// A read that has not ended; lent by the caller.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub(super) owner: Peer,
    pub(super) via: Link,
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) tag: u64,
    pub(super) region: Option<Region>,
    /// Whoever asked named the region: no other will do.
    named: bool,
    /// Bytes asked for.
    pub(super) issued: u64,
    /// Bytes delivered.
    delivered: u64,
    /// Pieces under way.
    flying: u32,
    /// It was started over once already.
    pub(super) again: bool,
    /// Its region was located for it, and is not one that happened to be known.
    pub(super) located: bool,
    /// Why the pieces still under way do not matter any more.
    broken: Option<ReadError>,
    /// How it ended, while nobody was told.
    pub(super) outcome: Option<Result<(), ReadError>>,
    pub(super) listed: Listed,
    pub(super) next: Next,
}

/// A frame that was not answered; lent by the caller.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(super) request: Id<Waiting>,
    pub(super) link: Link,
    pub(super) slot: u8,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Read { at: u64, len: u64 },
    Locate { owner: Peer, address: u64 },
}

/// A piece of a read whose answer came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) request: Id<Waiting>,
    pub(super) link: Link,
    pub(super) slot: u8,
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Piece {
    pub(super) fn locates(&self, whose: Peer) -> bool {
        matches!(self.kind, Kind::Locate { owner, .. } if owner == whose)
    }
}

/// What an answer means for the whole read.
pub(super) enum Progress {
    Delivered {
        tag: u64,
        again: bool,
        last: bool,
    },
    /// Wait for the other pieces.
    Nothing,
    /// Ask for nothing more, and wait for the other pieces.
    Stop,
    Failed(ReadError),
    /// The region changed under it.
    StartOver,
}

impl Waiting {
    #[inline(always)]
    pub(super) const fn new(get: &Get) -> Waiting {
        let &Get { owner, via, address, len, tag, region, .. } = get;
        Waiting {
            owner,
            via,
            address,
            len,
            tag,
            region,
            named: region.is_some(),
            issued: 0,
            delivered: 0,
            flying: 0,
            again: false,
            located: false,
            broken: None,
            outcome: None,
            listed: Listed::Nowhere,
            next: Next::NONE,
        }
    }

    /// All of it is asked for at once.
    #[inline(always)]
    pub(super) const fn under_way(get: &Get, region: &Region) -> Waiting {
        let named = get.region.is_some();
        Waiting { region: Some(*region), named, issued: get.len, flying: 1, ..Self::new(get) }
    }

    /// Whether another generation of the region will do, and was not tried yet.
    const fn may_start_over(&self) -> bool {
        !self.named && !self.again
    }

    /// Whether what is known about its region is not worth a refusal: the owner's service process was not asked.
    pub(super) const fn may_be_outdated(&self) -> bool {
        self.region.is_none() && !self.located
    }

    /// A piece of `len` bytes goes out; true if that was the last.
    #[inline]
    pub(super) const fn issue(&mut self, len: u64) -> bool {
        self.issued += len;
        self.flying += 1;
        self.issued == self.len
    }

    /// Whether a piece of `len` bytes is all that was asked for and nothing went wrong.
    #[inline(always)]
    pub(super) const fn is_whole(&self, len: u64) -> bool {
        len == self.len && self.delivered == 0 && self.flying == 1 && self.broken.is_none() && self.outcome.is_none()
    }

    /// A piece was answered.
    pub(super) fn answered(&mut self, outcome: Result<u64, ReadError>) -> Progress {
        self.flying = self.flying.saturating_sub(1);
        if self.outcome.is_some() {
            return Progress::Nothing;
        }
        match outcome {
            Ok(len) if self.broken.is_none() => {
                self.delivered += len;
                return Progress::Delivered { tag: self.tag, again: self.again, last: self.delivered == self.len };
            }
            Ok(_) => {}
            Err(error) => self.broken = self.broken.or(Some(error)),
        }
        let Some(error) = self.broken else { return Progress::Nothing };
        match self.region {
            _ if self.flying > 0 => Progress::Stop,
            Some(_) if is_outdated(error) && self.may_start_over() => {
                (self.issued, self.delivered, self.region, self.broken) = (0, 0, None, None);
                self.again = true;
                Progress::StartOver
            }
            _ => Progress::Failed(error),
        }
    }
}

/// Whether the owner may have another region at the address: it was exported again, or in another life.
const fn is_outdated(error: ReadError) -> bool {
    matches!(error, ReadError::Refused(Status::StaleKey | Status::OwnerGone))
}
