//! Reading other service processes' ranks by this process itself, over RDMA.
//!
//! A region is opened once, at the rank's first service process, and read until that one asks for it back. A read that
//! the card cannot make is asked for instead: whoever is asked knows why.

use umbra::driver::LinkId;
use umbra::job::DataPath;
use umbra_core::access::direct::{CLOSE, OPEN, Opened};
use umbra_core::access::message::{Description, Locate, Revoke};
use umbra_core::access::read::Get;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::Link;
use umbra_core::peer::Peer;
use umbra_core::region::{Held, Region};
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Token};

use super::jobs::{DirectRead, Job};
use super::process::Process;
use super::rdma::LATER;
use super::reading::Wanted;

/// A region that was asked for, and the reads that wait for it.
pub(super) struct Opening {
    over: Link,
    owner: Peer,
    pub(super) deadline: Time,
    reads: Vec<(Wanted, Time)>,
}

impl Process {
    /// Begins a read of another service process' rank by the card; false if it has to be asked for.
    pub(super) fn reach(&mut self, wanted: &Wanted, owner: Peer, via: Link, deadline: Time, now: Time) -> bool {
        // Where answers land in shared memory, the other side's copy is faster than the card.
        let shared = self.links.get(&LinkId(via.0)).is_none_or(|linked| linked.ours.is_some());
        if shared || self.rdma.is_too_soon(owner, now) || !self.open_card(false) {
            return false;
        }
        let Some(card) = &mut self.rdma.card else { return false };
        if let Some(region) = card.region(owner, wanted.address) {
            // What its owner exported here too is taken back here, and not by who opened it for us.
            let held = match self.exposed(region.key) {
                Some(_) => self.machines.agent.serve().hold_own(Span { key: region.key, offset: 0, len: 0 }).map(Some),
                None => Ok(None),
            };
            // Whoever is asked knows of what is being taken back.
            let Ok(held) = held else { return false };
            if self.mend(region.key, now).is_err() {
                if let Some(held) = held {
                    self.machines.agent.serve().release_own(held);
                }
                return false;
            }
            self.start_read(wanted, region, Some(via), held, deadline);
            return true;
        }
        let waits = (*wanted, deadline);
        if let Some(opening) = self.rdma.opens.values_mut().find(|opening| opening.owner == owner) {
            opening.reads.push(waits);
            return true;
        }
        let token = self.rdma.token();
        let opening = Opening { over: via, owner, deadline: self.answer_by(now), reads: vec![waits] };
        self.rdma.opens.insert(token, opening);
        let body = Locate { owner, address: wanted.address }.to_bytes();
        self.send(via, &Frame::Call { op: OPEN, token: Token(token), body: &body });
        true
    }

    pub(super) fn start_read(
        &mut self,
        wanted: &Wanted,
        region: Region,
        via: Option<Link>,
        held: Option<Held>,
        deadline: Time,
    ) {
        let Wanted { address, len, tag, .. } = *wanted;
        self.go_on(DirectRead { tag, region, address, len, done: 0, deadline, via, held, retried: false });
    }

    fn go_on(&mut self, read: DirectRead) {
        if let Some(card) = &mut self.rdma.card {
            card.start(Access::READ, read.piece(), Job::Read(read));
        }
    }

    /// A piece of a read has ended.
    pub(super) fn read_by_card(&mut self, mut read: DirectRead, status: Status, slot: Option<usize>) {
        let piece = read.piece().len;
        if let (Status::Ok, Some(slot), Some(card)) = (status, slot, &self.rdma.card) {
            if let Some(into) = self.reading.as_mut().and_then(|(_, r)| r.buffer(read.tag, read.done, piece)) {
                // A failure leaves zeros, which the digest finds.
                let _ = card.take(slot, into);
            }
            read.done += piece;
            if read.done < read.len {
                return self.go_on(read);
            }
            let way = Some((DataPath::Verbs, read.via.is_none()));
            self.release_read(&mut read);
            return self.read_ended(read.tag, Status::Ok, way);
        }
        let broken = matches!(status, Status::QueueBroken | Status::PeerFailed);
        if broken && !read.retried && self.rdma.card.is_some() {
            // Another read may have broken the queue pair; it is being made anew.
            read.retried = true;
            return self.go_on(read);
        }
        self.release_read(&mut read);
        match read.via {
            Some(via) => {
                self.ask_instead(read.tag, read.region.key.owner(), via, (read.address, read.len), read.deadline)
            }
            None => self.read_ended(read.tag, status, None),
        }
    }

    fn release_read(&mut self, read: &mut DirectRead) {
        if let Some(held) = read.held.take() {
            self.machines.agent.serve().release_own(held);
        }
    }

    fn ask_instead(&mut self, tag: u64, owner: Peer, via: Link, (address, len): (u64, u64), deadline: Time) {
        if let Some((_, reading)) = &mut self.reading {
            reading.restart(tag);
        }
        let get = Get { owner, via, address, len, deadline, tag, region: None };
        if self.machines.agent.reader().get(get).is_err() {
            self.read_ended(tag, Status::Full, None);
        }
    }

    /// The answer to a region that was asked for; whoever was not asked has no say in it.
    pub(super) fn on_opened(&mut self, link: LinkId, token: Token, status: Status, body: &[u8]) {
        if self.rdma.opens.get(&token.0).is_some_and(|opening| opening.over == Link(link.0)) {
            self.open_answered(token.0, status, body);
        }
    }

    pub(super) fn open_answered(&mut self, token: u64, status: Status, body: &[u8]) {
        let Some(Opening { over, owner, reads, .. }) = self.rdma.opens.remove(&token) else { return };
        let region = match (status, Opened::parse(body)) {
            (Status::Ok, Ok(Opened { region: Description(region), rkey })) if region.key.owner() == owner => {
                let card = self.rdma.card.as_mut();
                let imported = card.and_then(|card| card.import(&region, rkey).ok()).map(|()| region);
                // It may be of the owner's next life.
                self.close_forgotten(owner);
                imported
            }
            _ => None,
        };
        let now = umbra::driver::now();
        match region {
            Some(_) => self.rdma.opened.insert(owner, over),
            None => {
                self.rdma.later.insert(owner, now + LATER);
                None
            }
        };
        for (wanted, deadline) in reads {
            let covers = region.filter(|r| r.covers(wanted.address) && wanted.len <= r.len - (wanted.address - r.base));
            match covers {
                Some(region) => self.start_read(&wanted, region, Some(over), None, deadline),
                None => self.ask_instead(wanted.tag, owner, over, (wanted.address, wanted.len), deadline),
            }
        }
    }

    /// A link is gone: what was asked over it is not opened.
    pub(super) fn open_gone(&mut self, link: Link) {
        let over = self.rdma.opens.iter().filter(|(_, opening)| opening.over == link);
        for token in over.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.open_answered(token, Status::PeerFailed, &[]);
        }
    }

    /// The service process that opened a region for us wants it back.
    pub(super) fn on_close(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let Ok(Revoke { key, forced }) = Revoke::parse(body) else {
            return self.done(link, CLOSE, token, Status::Malformed, &[]);
        };
        // Only who opened a region closes it; what is not open any more is closed.
        if self.rdma.opened.get(&key.owner()) != Some(&Link(link.0)) {
            return self.done(link, CLOSE, token, Status::Ok, &[]);
        }
        if forced && let Some(life) = self.rdma.card.as_ref().and_then(|card| card.life(key)) {
            self.forget_owner(key.owner(), life);
        }
        // The card tells the end only of what it still has.
        let revoking = self.rdma.card.as_mut().is_some_and(|card| card.life(key).is_some() && card.revoke(key).is_ok());
        if revoking && !forced {
            self.rdma.closing.insert(key, (Link(link.0), token));
        } else {
            self.done(link, CLOSE, token, Status::Ok, &[]);
        }
    }

    /// This process reads a region no more.
    pub(super) fn closed(&mut self, key: Key) {
        if let Some((link, token)) = self.rdma.closing.remove(&key) {
            self.done(LinkId(link.0), CLOSE, token, Status::Ok, &[]);
        }
    }

    /// What an owner exported in a life that is over, nobody reads any more, and the card does not tell.
    pub(super) fn close_forgotten(&mut self, owner: Peer) {
        let open = |key: Key| self.rdma.card.as_ref().is_some_and(|card| card.life(key).is_some());
        let closing = self.rdma.closing.keys().copied();
        let over: Vec<Key> = closing.filter(|&key| key.owner() == owner && !open(key)).collect();
        for key in over {
            self.rdma.orphans += 1;
            self.closed(key);
        }
    }
}
