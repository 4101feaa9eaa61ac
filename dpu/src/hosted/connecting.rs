//! Addresses of queue pairs on their way between a reader and an owner of memory.
//!
//! The way to an owner leads through its first shadow service process, which passes addresses on only for those that it
//! has given a region of that owner.

use umbra::driver::{self, LinkId};
use umbra::link::Party;
use umbra::verbs::Address;
use umbra_core::access::direct::{CONNECT, Connect, Endpoint};
use umbra_core::access::message::WHY_MAX;
use umbra_core::error::Status;
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::peer::{Peer, PeerKind, Rank};
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Token};

use super::process::Process;

/// Addresses that may be under way at once.
const UNDER_WAY: usize = 4096;

/// An address that was sent and not answered.
pub(super) struct Connecting {
    /// Over which link.
    over: Link,
    pub(super) deadline: Time,
    whose: Whose,
}

impl Connecting {
    /// Whether it is an address of ours, and not that of another reader.
    pub(super) const fn is_ours(&self) -> bool {
        matches!(self.whose, Whose::Ours(_))
    }
}

enum Whose {
    /// That of our queue pair to this owner.
    Ours(Peer),
    /// That of another reader: over this link, under this name.
    Of(Link, Token),
}

impl Process {
    /// Tells an owner the address of our queue pair.
    pub(super) fn greet(&mut self, owner: Peer, address: &Address, now: Time) {
        // An answer to an earlier address is not one to this, and may come from another life.
        self.rdma.connects.retain(|_, earlier| !matches!(earlier.whose, Whose::Ours(greeted) if greeted == owner));
        match self.way_to(owner) {
            Some(link) => {
                let connect = Connect { owner, reader: self.settings.sp, endpoint: address.to_bytes() };
                let deadline = self.answer_by(now);
                self.send_connect(&connect, Connecting { over: link, deadline, whose: Whose::Ours(owner) });
            }
            None => self.welcome(owner, Status::PeerFailed, &[]),
        }
    }

    /// The link that leads to a rank: its own, or that to its first shadow service process.
    fn way_to(&mut self, owner: Peer) -> Option<Link> {
        if let Some(link) = self.link_of(owner) {
            return Some(Link(link.0));
        }
        let PeerKind::Rank(rank) = owner.kind() else { return None };
        let world = self.machines.agent.group().world()?;
        let endpoint = self.tables()?.lookup(world, Rank(rank.0)).ok()?;
        self.routes.get(&endpoint.sp).copied()
    }

    fn send_connect(&mut self, connect: &Connect, connecting: Connecting) {
        let (token, over) = (self.rdma.token(), connecting.over);
        self.rdma.connects.insert(token, connecting);
        self.send(over, &Frame::Call { op: CONNECT, token: Token(token), body: &connect.to_bytes() });
    }

    /// A reader tells its address, for a rank of ours.
    pub(super) fn on_connect(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let passed = Connect::parse(body).map_err(|_| Status::Malformed).and_then(|connect| {
            let party = self.links.get(&link).map(|linked| linked.party);
            let reader = Peer::service(connect.reader).ok_or(Status::Malformed)?;
            if party != Some(Party::Peer(reader)) {
                return Err(Status::PermissionDenied);
            }
            if !self.rdma.grants.has(Link(link.0), |key| key.owner() == connect.owner) {
                return Err(Status::UnknownRegion);
            }
            if self.rdma.connects.len() >= UNDER_WAY {
                return Err(Status::Full);
            }
            let rank = self.link_of(connect.owner).ok_or(Status::OwnerGone)?;
            let deadline = self.answer_by(driver::now());
            let whose = Whose::Of(Link(link.0), token);
            self.send_connect(&connect, Connecting { over: Link(rank.0), deadline, whose });
            Ok(())
        });
        if let Err(status) = passed {
            self.done(link, CONNECT, token, status, &[]);
        }
    }

    /// Somebody answered an address; whoever did not send it over that link has no say in it.
    pub(super) fn on_connected(&mut self, link: LinkId, token: Token, status: Status, body: &[u8]) {
        if self.rdma.connects.get(&token.0).is_some_and(|connecting| connecting.over == Link(link.0)) {
            self.connected(token.0, status, body);
        }
    }

    /// An address was answered, or will not be.
    pub(super) fn connected(&mut self, token: u64, status: Status, body: &[u8]) {
        match self.rdma.connects.remove(&token).map(|connecting| connecting.whose) {
            Some(Whose::Ours(owner)) => self.welcome(owner, status, body),
            Some(Whose::Of(link, token)) => self.done(LinkId(link.0), CONNECT, token, status, body),
            None => {}
        }
    }

    fn welcome(&mut self, owner: Peer, status: Status, body: &[u8]) {
        let Some(card) = &mut self.rdma.card else { return };
        self.rdma.refusals.remove(&owner);
        let address = Endpoint::try_from(body).ok().and_then(|endpoint| Address::from_bytes(&endpoint));
        match (status, address) {
            (Status::Ok, Some(address)) => {
                if let Err(error) = card.welcome(owner, &address) {
                    log!(warn, "no queue to {}: {}", owner, error);
                    self.rdma.refusals.insert(owner, error.to_string());
                }
            }
            (Status::Ok, None) => card.refuse(owner, Status::Malformed),
            (status, _) => {
                card.refuse(owner, status);
                if status == Status::Unreachable {
                    let why = String::from_utf8_lossy(body.get(..WHY_MAX).unwrap_or(body));
                    self.rdma.refusals.insert(owner, why.into_owned());
                }
            }
        }
        if !card.is_usable(owner) {
            self.rdma.later.insert(owner, driver::now() + super::rdma::LATER);
        }
        self.attach_rest(owner);
    }

    /// A link is gone: nobody answers over it, and nobody over it waits any more.
    pub(super) fn connect_gone(&mut self, link: Link) {
        self.rdma.connects.retain(|_, connecting| !matches!(connecting.whose, Whose::Of(asker, _) if asker == link));
        let over = self.rdma.connects.iter().filter(|(_, connecting)| connecting.over == link);
        for token in over.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.connected(token, Status::PeerFailed, &[]);
        }
    }
}
