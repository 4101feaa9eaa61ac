//! Reads for ranks: other ranks' bytes, through the owner's first service process.

use umbra::driver::{self, LinkId};
use umbra_core::access::message::{FETCH, Fetch};
use umbra_core::access::read::{Bytes, Delivery, Ended, Get, ReadError};
use umbra_core::access::relay::{Asker, Fate};
use umbra_core::access::serve::INLINE_MAX;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, PeerKind, Rank, Sp};
use umbra_core::region::Region;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Frame;

use super::early::Wish;
use super::process::Process;
use super::traffic::take_landed;

/// How a fetch ends without its bytes, and who is missing.
pub(super) type Refusal = (Status, Option<Sp>);

/// What a read that has failed tells a rank.
pub(super) fn refusal_of(error: ReadError) -> Refusal {
    let missing = match error {
        ReadError::Timeout { missing: sp } | ReadError::PeerFailed { sp } | ReadError::Malformed { sp } => Some(sp),
        _ => None,
    };
    (error.into(), missing)
}

impl Process {
    /// A rank asks for bytes; what cannot be read at all is answered at once.
    pub(super) fn on_fetch(&mut self, asker: Asker, fetch: Result<Fetch, Status>) {
        let begun = fetch.map_err(|status| (status, None)).and_then(|fetch| self.begin_fetch(asker, fetch));
        if let Err(refusal) = begun {
            self.refuse_fetch(asker, refusal);
        }
    }

    /// The endpoint cache says through whom: this process copies at once if it is the one.
    fn begin_fetch(&mut self, asker: Asker, fetch: Fetch) -> Result<(), Refusal> {
        let Fetch { span, patience, constant } = fetch;
        let alone = |status| (status, None);
        let owner = span.key.owner();
        let sp = self.server_of(owner).map_err(alone)?;
        if sp == self.settings.sp {
            if span.len > INLINE_MAX {
                return Err(alone(Status::OutOfBounds));
            }
            if self.exposed(span.key).is_some() {
                return self.fetch_by_card(asker, span, self.give_up_at(patience)).map_err(alone);
            }
            let mut bytes = vec![0; span.len as usize];
            self.copy_own(span, &mut bytes).map_err(alone)?;
            self.answer_fetch(asker, &bytes);
            return Ok(());
        }
        let Some(via) = self.routes.get(&sp).copied() else {
            let kept = self.early.keep(sp, Wish::Fetch(asker, fetch), self.give_up_at(patience));
            return kept.map_err(|status| (status, (status == Status::PeerFailed).then_some(sp)));
        };
        // The owner's service process knows the region's real bounds; a rank names bytes by their offset.
        let region =
            Region { key: span.key, incarnation: Incarnation::ANY, base: 0, len: u64::MAX, access: Access::READ };
        let deadline = self.give_up_at(patience);
        if constant && self.fetch_copy(asker, span, via, deadline).map_err(alone)? {
            return Ok(());
        }
        let get = Get { owner, via, address: span.offset, len: span.len, deadline, tag: 0, region: Some(region) };
        self.machines.agent.relay().ask(asker, get).map_err(alone)
    }

    /// When a fetch ends without its bytes: one that waits for ever must not keep others from reading.
    fn give_up_at(&self, patience: Lapse) -> Time {
        let longest = u64::try_from(self.settings.deadline.as_nanos()).unwrap_or(u64::MAX);
        driver::now() + Lapse(patience.0.min(longest))
    }

    /// The first service process of a rank, by the endpoint cache.
    pub(super) fn server_of(&self, owner: Peer) -> Result<Sp, Status> {
        let PeerKind::Rank(rank) = owner.kind() else { return Err(Status::UnknownRegion) };
        let world = self.machines.agent.group().world().ok_or(Status::UnknownGroup)?;
        let found = self.tables().and_then(|tables| tables.lookup(world, Rank(rank.0)).ok());
        let endpoint = found.ok_or(Status::RankOutOfRange)?;
        if endpoint.peer == owner { Ok(endpoint.sp) } else { Err(Status::UnknownRegion) }
    }

    pub(super) fn refuse_fetch(&mut self, asker: Asker, (status, missing): Refusal) {
        let name = missing.map(|sp| sp.0.to_le_bytes());
        let body = name.as_ref().map_or(&[][..], |name| name);
        self.send(asker.link, &Frame::Done { op: FETCH, token: asker.token, status, body });
    }

    /// Bytes have come; true if a rank had asked for them.
    pub(super) fn fetched(&mut self, delivery: &Delivery<'_>) -> bool {
        if self.staged(delivery) {
            return true;
        }
        let asker = match self.machines.agent.relay().ended(delivery.request) {
            Fate::NotAFetch => return false,
            Fate::Nobody => None,
            Fate::Answer(asker) => Some(asker),
        };
        match (delivery.bytes, asker) {
            (Bytes::Inline(bytes), Some(asker)) => self.answer_fetch(asker, bytes),
            (Bytes::Inline(_), None) => {}
            (Bytes::Landed(landed), asker) => {
                let mut bytes = vec![0; usize::try_from(landed.len).unwrap_or(0)];
                let ours = self.links.get(&LinkId(landed.link.0)).and_then(|l| l.ours.as_ref());
                let taken = ours.is_some_and(|ours| take_landed(ours, &landed, &mut bytes).is_ok());
                self.machines.agent.reader().consumed(landed);
                match (asker, taken) {
                    (Some(asker), true) => self.answer_fetch(asker, &bytes),
                    (Some(asker), false) => self.refuse_fetch(asker, (Status::CopyFailed, None)),
                    (None, _) => {}
                }
            }
        }
        true
    }

    pub(super) fn answer_fetch(&mut self, asker: Asker, bytes: &[u8]) {
        self.for_ranks.0 += 1;
        self.for_ranks.1 += bytes.len() as u64;
        self.send(asker.link, &Frame::Done { op: FETCH, token: asker.token, status: Status::Ok, body: bytes });
    }

    /// A read has ended without bytes; true if a rank had asked for it.
    pub(super) fn fetch_ended(&mut self, ended: &Ended) -> bool {
        if self.staging_ended(ended) {
            return true;
        }
        match (self.machines.agent.relay().ended(ended.request), ended.outcome) {
            (Fate::NotAFetch, _) => return false,
            (Fate::Nobody, _) => {}
            (Fate::Answer(asker), Ok(())) => self.answer_fetch(asker, &[]),
            (Fate::Answer(asker), Err(error)) => self.refuse_fetch(asker, refusal_of(error)),
        }
        true
    }

    /// Answers ranks whose fetches could not begin in time.
    pub(super) fn fetches_late(&mut self, now: Time) {
        while let Some((asker, error)) = self.machines.agent.late_fetch(now) {
            self.refuse_fetch(asker, refusal_of(error));
        }
    }

    /// Answers ranks whose fetches had not begun when the link that they waited for went.
    pub(super) fn fetches_lost(&mut self, link: Link, sp: Sp) {
        while let Some(asker) = self.machines.agent.relay().lost(link) {
            self.refuse_fetch(asker, refusal_of(ReadError::PeerFailed { sp }));
        }
    }
}
