//! Memory of this process' own ranks that the card reads.
//!
//! It reads for ranks and for other service processes; those also read by themselves.

use umbra::driver::{self, LinkId};
use umbra::link::Party;
use umbra_core::access::direct::{CLOSE, OPEN, Opened};
use umbra_core::access::grants::Recall;
use umbra_core::access::message::{Description, EXPORT, Locate, Reach, Revoke, WHY_MAX};
use umbra_core::access::relay::Asker;
use umbra_core::access::serve::{Attach, Copy, Direction, INLINE_MAX};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::Link;
use umbra_core::peer::{Peer, PeerKind};
use umbra_core::region::Region;
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Token};

use super::card::Card;
use super::jobs::{Job, RankFetch};
use super::process::Process;
use super::rdma::Exposed;
use super::reading::Wanted;

impl Process {
    /// A rank of ours exports registered memory: it is there once our queue pair to the rank is.
    pub(super) fn attach_by_card(&mut self, attach: &Attach, rkey: u32, direct: bool) {
        let region = &attach.region;
        let owner = region.key.owner();
        self.detach_from_card(attach.place);
        let mut imported = self.import_by_card(region, rkey);
        if let Some(why) = self.rdma.card.as_mut().and_then(Card::gone) {
            // Nobody used the device since it went, and it may be back.
            self.lose_card(&why);
            imported = self.import_by_card(region, rkey);
        }
        if let Err(status) = imported {
            return self.attached(attach, status);
        }
        self.rdma.exposed.insert(attach.place, Exposed { key: region.key, rkey, direct });
        self.rdma.attaching.push(*attach);
        self.attach_rest(owner);
    }

    /// Tells the card about a region of a rank of ours, and makes the queue pair to the rank anew if it is broken.
    pub(super) fn import_by_card(&mut self, region: &Region, rkey: u32) -> Result<(), Status> {
        let (true, Some(card)) = (self.open_card(true), &mut self.rdma.card) else { return Err(Status::Unreachable) };
        let owner = region.key.owner();
        let imported = card.import(region, rkey);
        let trouble = match imported {
            Ok(()) if card.is_usable(owner) => None,
            Ok(()) => card.rebuild(owner),
            Err(Status::Unreachable) => card.trouble(),
            Err(_) => None,
        };
        if let Some(why) = trouble {
            self.rdma.refusals.insert(owner, why.to_string());
        }
        imported
    }

    /// Answers the exports of an owner, once it is known whether it can be reached.
    pub(super) fn attach_rest(&mut self, owner: Peer) {
        let Some(card) = &mut self.rdma.card else { return };
        if card.is_greeting(owner) {
            return;
        }
        let status = if card.is_usable(owner) { Status::Ok } else { Status::Unreachable };
        let (known, rest) = std::mem::take(&mut self.rdma.attaching)
            .into_iter()
            .partition(|attach: &Attach| attach.region.key.owner() == owner);
        self.rdma.attaching = rest;
        for attach in &known {
            self.attached(attach, status);
        }
    }

    pub(super) fn attached(&mut self, attach: &Attach, status: Status) {
        if self.machines.agent.serve().regions().get(attach.region.key) != Some(&attach.region) {
            // Taken back before it was there.
            return self.done(LinkId(attach.link.0), EXPORT, attach.token, Status::KeyRevoked, &[]);
        }
        let answer = self.machines.agent.serve().attached(attach, status);
        let owner = attach.region.key.owner();
        let refusal = self.rdma.refusals.get(&owner).map(|why| format!("{owner}: {why}"));
        match refusal.as_ref().or(self.rdma.trouble.as_ref()) {
            // The owner's user can do something about it, if it is told what.
            Some(why) if answer.status == Status::Unreachable => {
                let why = why.as_bytes();
                let why = why.get(..WHY_MAX).unwrap_or(why).to_vec();
                self.done(LinkId(attach.link.0), EXPORT, attach.token, Status::Unreachable, &why);
            }
            _ => self.answer(&answer),
        }
    }

    /// Nobody may use this memory any more.
    pub(super) fn detach_from_card(&mut self, place: usize) {
        let Some(exposed) = self.rdma.exposed.remove(&place) else { return };
        // Whoever still has it did not give it back: its owner's life is over, or it was taken by force.
        self.rdma.grants.recall(|key| key == exposed.key, true);
        if let Some(card) = &mut self.rdma.card {
            // Nobody holds it, so this ends at once; a life that is over was forgotten.
            let _ = card.revoke(exposed.key);
        }
    }

    /// A copy for another service process.
    pub(super) fn copy_by_card(&mut self, copy: Copy, store: Option<Vec<u8>>) {
        let Some(exposed) = self.rdma.exposed.get(&copy.place).copied() else {
            return self.end_copy(copy, Status::OwnerGone, Vec::new(), None);
        };
        let (Ok(()), Some(card)) = (self.mend(exposed.key, driver::now()), &mut self.rdma.card) else {
            return self.end_copy(copy, Status::Unreachable, Vec::new(), None);
        };
        let way = match copy.direction {
            Direction::ToLanding | Direction::ToFrame => Access::READ,
            Direction::FromLanding | Direction::FromFrame => Access::WRITE,
        };
        let store = match (copy.direction, store) {
            (Direction::FromLanding, _) => {
                let theirs = self.links.get(&LinkId(copy.link.0)).and_then(|linked| linked.theirs.as_ref());
                let mut bytes = vec![0; usize::try_from(copy.len).unwrap_or(0)];
                let at = usize::try_from(copy.landing).unwrap_or(usize::MAX);
                match theirs.map(|theirs| theirs.read(at, &mut bytes)) {
                    Some(Ok(())) => Some(bytes),
                    _ => return self.end_copy(copy, Status::OutOfBounds, Vec::new(), None),
                }
            }
            (_, store) => store,
        };
        let span = Span { key: exposed.key, offset: copy.offset, len: copy.len };
        card.start(way, span, Job::Serve { copy, store });
    }

    pub(super) fn copied_by_card(&mut self, copy: Copy, status: Status, slot: Option<usize>) {
        let (mut body, mut status) = (Vec::new(), status);
        if let (Status::Ok, Some(slot), Some(card)) = (status, slot, &mut self.rdma.card) {
            let moved = match copy.direction {
                Direction::ToFrame => {
                    body.resize(copy.len.min(INLINE_MAX) as usize, 0);
                    card.take(slot, &mut body)
                }
                Direction::ToLanding if !self.machines.agent.serve().is_awaited(&copy) => Err(Status::PeerFailed),
                Direction::ToLanding => {
                    match self.links.get(&LinkId(copy.link.0)).and_then(|linked| linked.theirs.as_ref()) {
                        Some(theirs) => card.take_into(slot, theirs, copy.landing, copy.len),
                        None => Err(Status::PeerFailed),
                    }
                }
                Direction::FromLanding | Direction::FromFrame => Ok(()),
            };
            status = moved.err().unwrap_or(status);
        }
        self.rdma.copies += u64::from(status == Status::Ok);
        self.end_copy(copy, status, body, Some(Reach::Rdma));
    }

    /// The region of a key, if the card reads it.
    pub(super) fn exposed(&mut self, key: Key) -> Option<Exposed> {
        let place = self.machines.agent.serve().regions().place(key)?;
        self.rdma.exposed.get(&place).copied().filter(|exposed| exposed.key == key)
    }

    /// A rank wants bytes of another rank of ours, which the card reads.
    pub(super) fn fetch_by_card(&mut self, asker: Asker, span: Span, deadline: Time) -> Result<(), Status> {
        if self.rdma.card.as_ref().is_some_and(|card| !card.has_credit(asker.link)) {
            return Err(Status::Full);
        }
        let held = self.machines.agent.serve().hold_own(span)?;
        let (Ok(()), Some(card)) = (self.mend(span.key, driver::now()), &mut self.rdma.card) else {
            self.machines.agent.serve().release_own(held);
            return Err(Status::Unreachable);
        };
        let fetch = RankFetch { asker: Some(asker), len: span.len, held, deadline };
        card.start(Access::READ, span, Job::Fetch(fetch));
        Ok(())
    }

    pub(super) fn fetched_by_card(&mut self, fetch: RankFetch, status: Status, slot: Option<usize>) {
        let RankFetch { asker, len, held, .. } = fetch;
        self.machines.agent.serve().release_own(held);
        let Some(asker) = asker else { return };
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let taken = match (status, slot, &self.rdma.card) {
            (Status::Ok, Some(slot), Some(card)) => card.take(slot, &mut bytes),
            (status, ..) => Err(status),
        };
        match taken {
            Ok(()) => self.answer_fetch(asker, &bytes),
            Err(status) => self.refuse_fetch(asker, (status, None)),
        }
    }

    /// Another service process wants to read a rank of ours by itself.
    pub(super) fn on_open(&mut self, link: LinkId, token: Token, body: &[u8]) {
        match self.open_for(link, body) {
            Ok(opened) => self.done(link, OPEN, token, Status::Ok, &opened.to_bytes()),
            Err(status) => self.done(link, OPEN, token, status, &[]),
        }
    }

    fn open_for(&mut self, link: LinkId, body: &[u8]) -> Result<Opened, Status> {
        let party = self.links.get(&link).map(|linked| linked.party);
        if !matches!(party, Some(Party::Peer(peer)) if matches!(peer.kind(), PeerKind::Service(_))) {
            return Err(Status::PermissionDenied);
        }
        let Locate { owner, address } = Locate::parse(body).map_err(|_| Status::Malformed)?;
        let region = self.machines.agent.serve().regions().find(owner, address)?;
        let exposed = self.exposed(region.key).ok_or(Status::Unreachable)?;
        if !exposed.direct {
            return Err(Status::PermissionDenied);
        }
        // Reads under way at the asker are held here all together.
        let held = self.machines.agent.serve().hold_own(Span { key: region.key, offset: 0, len: 0 })?;
        if let Err((status, held)) = self.rdma.grants.give(Link(link.0), region.key, held) {
            self.machines.agent.serve().release_own(held);
            match status {
                Status::Ok => {}
                Status::Conflict => return Err(Status::KeyRevoked),
                status => return Err(status),
            }
        }
        Ok(Opened { region: Description(region), rkey: exposed.rkey })
    }

    /// A rank of ours takes a region back, or tried to: whoever has it is asked for it.
    pub(super) fn recall(&mut self, body: &[u8]) {
        if self.rdma.grants.is_empty() && self.staging.lent.is_empty() {
            return;
        }
        let Ok(Revoke { key, forced }) = Revoke::parse(body) else { return };
        match self.machines.agent.serve().hold_own(Span { key, offset: 0, len: 0 }) {
            Ok(held) => self.machines.agent.serve().release_own(held),
            Err(_) => {
                self.rdma.grants.recall(|granted| granted == key, forced);
                self.recall_copies(key, forced);
            }
        }
    }

    pub(super) fn ask_back(&mut self, recall: &Recall) {
        let &Recall { link, token, key, forced } = recall;
        self.send(link, &Frame::Call { op: CLOSE, token, body: &Revoke { key, forced }.to_bytes() });
    }

    /// A service process reads a region no more.
    pub(super) fn on_closed(&mut self, link: LinkId, token: Token) {
        if let Some(held) = self.rdma.grants.returned(Link(link.0), token) {
            self.machines.agent.serve().release_own(held);
        }
    }

    /// Begins to read a rank of ours by the card; false if its memory is not registered.
    pub(super) fn reach_own(&mut self, wanted: &Wanted, owner: Peer, deadline: Time) -> Result<bool, Status> {
        if self.rdma.exposed.is_empty() {
            return Ok(false);
        }
        let Ok(region) = self.own_region_at(owner, wanted.address) else { return Ok(false) };
        if self.exposed(region.key).is_none() {
            return Ok(false);
        }
        self.mend(region.key, driver::now())?;
        let span = Span { key: region.key, offset: wanted.address - region.base, len: wanted.len };
        let held = self.machines.agent.serve().hold_own(span)?;
        self.start_read(wanted, region, None, Some(held), deadline);
        Ok(true)
    }
}
