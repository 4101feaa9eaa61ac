//! Copies of other service processes' memory that this one keeps for its ranks.
//!
//! The leave that it gives others to keep copies is here, too.

use std::io;

use umbra::driver::{self, LinkId};
use umbra::link::Party;
use umbra::secret;
use umbra::sys::heap::{NoMemory, reserved, room};
use umbra_core::access::grants::{Grant, Grants};
use umbra_core::access::message::{Fetch, Revoke};
use umbra_core::access::read::{Bytes, Delivery, Ended, Get};
use umbra_core::access::relay::Asker;
use umbra_core::access::stage::{
    DROP, HINT, Hint, KEEP, Keeping, Lent, Reply, SLOT_BYTES, Stage, Storage, Tag, Waiter, Want,
};
use umbra_core::cache;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::Link;
use umbra_core::map::Entry;
use umbra_core::peer::PeerKind;
use umbra_core::slots::Slot;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Token};

use super::error::{ProcessError, cannot};
use super::fetching::{Refusal, refusal_of};
use super::machines::{ASKS, LINKS};
use super::process::Process;
use super::settings::Settings;
use super::traffic::take_landed;

/// Regions of which copies are kept.
const REGIONS: usize = 4096;
/// Regions of ranks of ours that others may keep copies of, once for each.
const GRANTS: usize = 16 * 1024;

/// Vectors on a host.
pub(super) enum Vectors {}

impl Storage for Vectors {
    type Slots = Vec<cache::Slot>;
    type Places = Vec<cache::Line>;
    type Ids = Vec<u64>;
    type Tags = Vec<Tag>;
    type Queue = Vec<u32>;
    type Regions = Vec<Slot<Keeping>>;
    type Keys = Vec<Entry<u64, u32>>;
    type Waiters = Vec<Slot<Waiter>>;
    type Links = Vec<u32>;
}

/// What is kept, and where it lies.
struct Copies {
    stage: Stage<Vectors>,
    /// One slot behind the other, as far as they were used; there is room for all.
    memory: Vec<u8>,
}

impl Copies {
    fn new(slots: usize, patience: Lapse) -> Result<Copies, ProcessError> {
        let bytes = slots.saturating_mul(SLOT_BYTES as usize);
        let no_memory = |_| ProcessError::Copies { bytes };
        let lent = tables(slots).map_err(no_memory)?;
        // The system hands out pages when they are first written.
        let memory = room(bytes).map_err(no_memory)?;
        let words = secret::random::<16>().map_err(cannot("get random bytes"))?;
        let seed = u128::from_le_bytes(words);
        let stage = Stage::new(lent, (seed as u64, (seed >> 64) as u64), patience);
        Ok(Copies { stage: stage.map_err(|error| cannot("keep copies (--stage)")(io::Error::other(error)))?, memory })
    }

    fn bytes(&mut self, slot: u32, len: u64) -> Option<&mut [u8]> {
        let at = slot as usize * SLOT_BYTES as usize;
        let end = at + SLOT_BYTES as usize;
        if self.memory.len() < end && end <= self.memory.capacity() {
            self.memory.resize(end, 0);
        }
        self.memory.get_mut(at..end)?.get_mut(..usize::try_from(len).ok()?)
    }
}

/// The tables of so many slots.
fn tables(slots: usize) -> Result<Lent<Vectors>, NoMemory> {
    Ok(Lent {
        slots: reserved(slots, || cache::Slot::EMPTY)?,
        places: reserved(cache::Line::for_ids(slots), || cache::Line::EMPTY)?,
        ids: reserved(slots, || 0)?,
        tags: reserved(slots, || Tag::NONE)?,
        queue: reserved(slots, || 0)?,
        ahead: reserved(slots, || 0)?,
        regions: (0..REGIONS).map(|_| Slot::EMPTY).collect(),
        keys: vec![Entry::EMPTY; REGIONS * 4 / 3 + 1],
        waiters: (0..ASKS).map(|_| Slot::EMPTY).collect(),
        links: vec![0; LINKS],
        hints: vec![0; LINKS],
        flying: vec![0; LINKS],
    })
}

/// Everything about copies in one agent.
pub(super) struct Staging {
    /// `None` if nothing is to be kept.
    copies: Option<Copies>,
    /// Regions of ranks of ours of which others keep copies.
    pub(super) lent: Grants<Vec<Slot<Grant>>>,
}

impl Staging {
    pub(super) fn new(settings: &Settings) -> Result<Staging, ProcessError> {
        let slots = usize::try_from(settings.stage / SLOT_BYTES).unwrap_or(usize::MAX).min(u32::MAX as usize);
        let patience = Lapse(u64::try_from(settings.deadline.as_nanos()).unwrap_or(u64::MAX));
        let copies = if slots == 0 { None } else { Some(Copies::new(slots, patience)?) };
        Ok(Staging { copies, lent: Grants::new((0..GRANTS).map(|_| Slot::EMPTY).collect()) })
    }

    /// When a rank has waited too long for a copy.
    pub(super) fn deadline(&self) -> Time {
        self.copies.as_ref().map_or(Time::NEVER, |copies| copies.stage.deadline())
    }

    /// Figures by name.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let copies = self.copies.as_ref();
        let counted = copies.map(|copies| copies.stage.statistics()).unwrap_or_default();
        let counters = copies.map(|copies| copies.stage.counters()).unwrap_or_default();
        let of = |figure: fn(&Stage<Vectors>) -> u64| copies.map_or(0, |copies| figure(&copies.stage));
        [
            ("copies_slots", of(|stage| u64::from(stage.slots()))),
            ("copies_used", of(|stage| u64::from(stage.used()))),
            ("copies_regions", of(|stage| stage.regions() as u64)),
            ("copies_hits", counted.hits),
            ("copies_hit_bytes", counters.bytes),
            ("copies_joined", counted.joins),
            ("copies_misses", counted.loads),
            ("copies_evicted", counted.evictions),
            ("copies_passed_by", counters.elsewhere),
            ("copies_regions_dropped", counters.dropped),
            ("copies_prefetched", counters.prefetched),
            ("copies_prefetched_used", counters.used),
            ("copies_prefetched_wasted", counters.wasted),
            ("copies_hints_refused", counters.refused),
            ("regions_kept_by_others", self.lent.len() as u64),
        ]
        .into_iter()
    }
}

impl Process {
    /// A rank wants bytes that may be kept: answered at once, later, or (false) to be read as others are.
    pub(super) fn fetch_copy(&mut self, asker: Asker, span: Span, via: Link, deadline: Time) -> Result<bool, Status> {
        let Some(copies) = &mut self.staging.copies else { return Ok(false) };
        match copies.stage.ask(asker, Want { span, via, deadline }, driver::now())? {
            Reply::Elsewhere => Ok(false),
            Reply::Later => Ok(true),
            Reply::Here(slot) => {
                self.answer_copy(asker, slot, span.len);
                Ok(true)
            }
        }
    }

    /// Answers out of a slot.
    fn answer_copy(&mut self, asker: Asker, slot: u32, len: u64) {
        // Taken out while it is sent: the answer borrows the whole process.
        let Some(mut copies) = self.staging.copies.take() else { return };
        if let Some(bytes) = copies.bytes(slot, len) {
            self.answer_fetch(asker, bytes);
        }
        // A link that ended over it has been told to everybody else.
        if !self.links.contains_key(&LinkId(asker.link.0)) {
            copies.stage.on_gone(asker.link);
        }
        self.staging.copies = Some(copies);
    }

    /// Bytes have come; true if they belong into a slot.
    pub(super) fn staged(&mut self, delivery: &Delivery<'_>) -> bool {
        let Some(slot) = Stage::<Vectors>::slot_of(delivery.tag) else { return false };
        let mut came = None;
        if let Some(copies) = &mut self.staging.copies {
            match delivery.bytes {
                Bytes::Inline(bytes) => {
                    if let Some(into) = copies.bytes(slot, bytes.len() as u64) {
                        into.copy_from_slice(bytes);
                        came = Some(bytes.len() as u64);
                    }
                }
                Bytes::Landed(landed) => {
                    let ours = self.links.get(&LinkId(landed.link.0)).and_then(|linked| linked.ours.as_ref());
                    if let (Some(ours), Some(into)) = (ours, copies.bytes(slot, landed.len)) {
                        came = take_landed(ours, &landed, into).is_ok().then_some(landed.len);
                    }
                }
            }
        }
        if let Bytes::Landed(landed) = delivery.bytes {
            self.machines.agent.reader().consumed(landed);
        }
        self.stage_ended(slot, came.ok_or((Status::CopyFailed, None)));
        true
    }

    /// A read has ended without bytes; true if it was to fill a slot.
    pub(super) fn staging_ended(&mut self, ended: &Ended) -> bool {
        let Some(slot) = Stage::<Vectors>::slot_of(ended.tag) else { return false };
        // No read of nothing is made to fill a slot.
        let refusal = ended.outcome.map_or_else(refusal_of, |()| (Status::CopyFailed, None));
        self.stage_ended(slot, Err(refusal));
        true
    }

    fn stage_ended(&mut self, slot: u32, outcome: Result<u64, Refusal>) {
        let Some(copies) = &mut self.staging.copies else { return };
        copies.stage.ended(slot, outcome.is_ok());
        while let Some(asker) = self.staging.copies.as_mut().and_then(|copies| copies.stage.next_answer(slot)) {
            match outcome {
                Ok(len) => self.answer_copy(asker, slot, len),
                Err(refusal) => self.refuse_fetch(asker, refusal),
            }
        }
    }

    /// Carries out what the copies want; true if there was anything.
    pub(super) fn turn_staging(&mut self, now: Time) -> bool {
        let mut busy = false;
        while let Some(recall) = self.staging.lent.poll() {
            busy = true;
            let body = Revoke { key: recall.key, forced: recall.forced }.to_bytes();
            self.send(recall.link, &Frame::Call { op: DROP, token: recall.token, body: &body });
        }
        while let Some((link, token, key)) = self.stage(Stage::poll_keep) {
            busy = true;
            self.send(link, &Frame::Call { op: KEEP, token, body: &key.to_bits().to_le_bytes() });
        }
        while let Some((asker, span, deadline)) = self.stage(Stage::poll_elsewhere) {
            busy = true;
            let fetch = Fetch { span, patience: deadline.since(now), constant: false };
            self.on_fetch(asker, Ok(fetch));
        }
        while let Some(get) = self.next_fill(now) {
            busy = true;
            // There is room.
            let _ = self.machines.agent.reader().get(get);
        }
        busy
    }

    /// Answers ranks that have waited too long for a copy.
    pub(super) fn copies_late(&mut self, now: Time) {
        while let Some((asker, via)) = self.stage(|stage| stage.next_late(now)) {
            let missing = self.routes.iter().find(|(_, route)| **route == via).map(|(sp, _)| *sp);
            self.refuse_fetch(asker, (Status::Timeout, missing));
        }
    }

    /// The next read that fills a slot, if there is room for it.
    fn next_fill(&mut self, now: Time) -> Option<Get> {
        let reader = self.machines.agent.reader();
        let copies = self.staging.copies.as_mut()?;
        copies.stage.poll_fill(now, |via| reader.has_room_for(via))
    }

    fn stage<T>(&mut self, ask: impl FnOnce(&mut Stage<Vectors>) -> Option<T>) -> Option<T> {
        ask(&mut self.staging.copies.as_mut()?.stage)
    }

    /// A rank says what it will read. Of a service process that is not linked, be it not yet, nothing is read ahead: the reads
    /// themselves wait for the link, so that all it loses is what it would have gained.
    pub(super) fn on_hint(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let status = self.read_ahead(link, body).err().unwrap_or(Status::Ok);
        self.done(link, HINT, token, status, &[]);
    }

    fn read_ahead(&mut self, link: LinkId, body: &[u8]) -> Result<(), Status> {
        let hint = Hint::parse(body).map_err(|_| Status::Malformed)?;
        let sp = self.server_of(hint.0.key.owner())?;
        if sp == self.settings.sp {
            // It is copied from where it is.
            return Ok(());
        }
        let via = self.routes.get(&sp).copied().ok_or(Status::PeerFailed)?;
        let copies = self.staging.copies.as_mut().ok_or(Status::Full)?;
        let now = driver::now();
        hint.pieces().try_for_each(|span| copies.stage.expect(Link(link.0), span, via, now))
    }

    /// The answer to a leave that was asked for.
    pub(super) fn keep_answered(&mut self, link: LinkId, token: Token, status: Status) {
        if let Some(copies) = &mut self.staging.copies {
            copies.stage.answered(Link(link.0), token, status, driver::now());
        }
    }

    /// A service process wants to keep copies of a region of a rank of ours.
    pub(super) fn on_keep(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let status = self.lend_copies(link, body).err().unwrap_or(Status::Ok);
        self.done(link, KEEP, token, status, &[]);
    }

    fn lend_copies(&mut self, link: LinkId, body: &[u8]) -> Result<(), Status> {
        let party = self.links.get(&link).map(|linked| linked.party);
        if !matches!(party, Some(Party::Peer(peer)) if matches!(peer.kind(), PeerKind::Service(_))) {
            return Err(Status::PermissionDenied);
        }
        let key = Key::from_bits(u64::from_le_bytes(body.try_into().map_err(|_| Status::Malformed)?));
        // Its copies keep the region as reads that are under way do.
        let held = self.machines.agent.serve().hold_own(Span { key, offset: 0, len: 0 })?;
        let access = self.machines.agent.serve().regions().get(key).map(|region| region.access);
        let constant =
            access.is_some_and(|access| access.contains(Access::CONSTANT) && !access.contains(Access::WRITE));
        let given = match constant {
            true => self.staging.lent.give(Link(link.0), key, held),
            false => Err((Status::PermissionDenied, held)),
        };
        let Err((status, held)) = given else { return Ok(()) };
        self.machines.agent.serve().release_own(held);
        match status {
            Status::Ok => Ok(()),
            Status::Conflict => Err(Status::KeyRevoked),
            status => Err(status),
        }
    }

    /// A rank of ours takes a region back, or it has ended with its owner: whoever keeps copies is asked to drop them.
    pub(super) fn recall_copies(&mut self, key: Key, forced: bool) {
        if !self.staging.lent.is_empty() {
            self.staging.lent.recall(|lent| lent == key, forced);
        }
    }

    /// A rank of ours exports: of regions that have ended, also those whose places others have at once and that are never
    /// told as ended, nobody keeps copies on.
    pub(super) fn recall_of_ended(&mut self) {
        if !self.staging.lent.is_empty() {
            self.staging.lent.recall_ended(self.machines.agent.serve().regions());
        }
    }

    /// The server of a region wants all copies dropped.
    pub(super) fn on_drop(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let Ok(Revoke { key, .. }) = Revoke::parse(body) else {
            return self.done(link, DROP, token, Status::Malformed, &[]);
        };
        if let Some(copies) = &mut self.staging.copies {
            copies.stage.dropped(Link(link.0), key);
        }
        self.done(link, DROP, token, Status::Ok, &[]);
    }

    /// A service process has dropped its copies.
    pub(super) fn on_dropped(&mut self, link: LinkId, token: Token) {
        if let Some(held) = self.staging.lent.returned(Link(link.0), token) {
            self.machines.agent.serve().release_own(held);
        }
    }

    /// A link is gone: what was kept by leave from there, and by leave that was given there, is over.
    pub(super) fn staging_gone(&mut self, link: Link) {
        while let Some(held) = self.staging.lent.gone(link) {
            self.machines.agent.serve().release_own(held);
        }
        if let Some(copies) = &mut self.staging.copies {
            copies.stage.on_gone(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_whose_tables_alone_are_too_large_are_refused_by_the_option_they_were_asked_for_with() {
        let slots = 1 << 40;
        let refused = Copies::new(slots, Lapse::from_secs(1)).err().unwrap();
        assert!(matches!(refused, ProcessError::Copies { bytes } if bytes == slots * SLOT_BYTES as usize), "{refused}");
        assert!(refused.to_string().contains("--stage"), "{refused}");
        assert!(Copies::new(4, Lapse::from_secs(1)).is_ok());
    }
}
