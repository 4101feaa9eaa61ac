//! What the links and watched descriptors bring: who came, who spoke, who went.

use umbra::driver::{self, Event, LinkId};
use umbra::link::{Identity, Party as LinkParty};
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::peer::PeerKind;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Frame;

use super::linked::Linked;
use super::process::{End, Process};
use crate::agent::Party;

/// Between the end of a link and the next attempt: a peer that refuses us is not asked all the time.
const REDIAL: Lapse = Lapse::from_millis(50);

impl Process {
    /// Hands an event to whom it is about.
    pub(super) fn on_event(&mut self, event: Event, bytes: &[u8]) {
        let now = driver::now();
        match event {
            Event::Up { link, peer, pid } => self.on_up(link, peer, pid, now),
            Event::Gone { link, party, .. } => self.on_gone(link, party, now),
            Event::Frame { link, descriptors } => match Frame::parse(bytes) {
                Ok(frame) => self.on_frame(link, &frame, descriptors, now),
                // The codec has parsed it once already.
                Err(error) => {
                    log!(warn, "link {} brought a malformed frame: {}", link.0, error);
                    self.driver.close(link);
                }
            },
            Event::Readable(number) => {
                if number == self.signals {
                    self.stop(End::Asked);
                }
                self.rdma.rang(number);
            }
        }
    }

    fn on_up(&mut self, link: LinkId, peer: Identity, pid: Option<u32>, now: Time) {
        let party = match peer.party {
            LinkParty::Peer(p) => Party::Peer(p, peer.incarnation),
            LinkParty::Tool => Party::Tool(peer.incarnation),
        };
        if self.machines.agent.on_link(Link(link.0), party, now).is_err() {
            log!(warn, "link {} of {} is closed: there is no place for it", link.0, peer.party);
            return self.driver.close(link);
        }
        log!(debug, "link {} is up: {} is there", link.0, peer.party);
        let incarnation = peer.incarnation;
        self.links.insert(link, Linked::new(peer.party, incarnation, pid));
        if let LinkParty::Peer(p) = peer.party
            && let PeerKind::Service(sp) = p.kind()
        {
            self.routes.insert(sp, Link(link.0));
            self.calls_up(sp);
        }
        match peer.party {
            LinkParty::Peer(p) if pid.is_some() => match p.kind() {
                PeerKind::Service(sp) if !self.settings.asked => {
                    // Without a landing segment the bytes come in the answers, which works too.
                    if let Err(error) = self.lend(link, sp, self.dialled.get(&sp) == Some(&link)) {
                        log!(warn, "service process {} is lent no memory: {}", sp, error);
                    }
                }
                PeerKind::Rank(_) => self.share_arena(link),
                PeerKind::Service(_) => {}
            },
            _ => {}
        }
        // Not before it is settled how bytes come over the link.
        if let LinkParty::Peer(p) = peer.party
            && let PeerKind::Service(sp) = p.kind()
        {
            self.read_at_last(sp);
        }
    }

    /// A link is over, for whatever reason: nobody waits for it any more, and who was dialled is dialled again.
    pub(super) fn on_gone(&mut self, link: LinkId, party: Option<LinkParty>, now: Time) {
        let gone = self.links.remove(&link);
        if gone.is_some() {
            self.machines.agent.on_gone(Link(link.0), now);
            self.calls_gone(Link(link.0));
            self.early.left(Link(link.0));
            self.routes.retain(|_, route| *route != Link(link.0));
            self.lanes.retain(|lane| *lane != link);
            self.rdma_gone(Link(link.0));
            self.staging_gone(Link(link.0));
        }
        if let Some(Linked { party: LinkParty::Peer(peer), .. }) = gone
            && let PeerKind::Service(sp) = peer.kind()
        {
            self.fetches_lost(Link(link.0), sp);
        }
        if let Some(Linked { party: LinkParty::Peer(peer), incarnation, .. }) = gone
            && matches!(peer.kind(), PeerKind::Rank(_))
            && !self.links.values().any(|l| l.party == LinkParty::Peer(peer) && l.incarnation == incarnation)
        {
            self.forget_owner(peer, incarnation);
        }
        if let Some((orderer, _)) = &mut self.reading {
            // What it ordered goes on to its end, of which the next link of that number is to hear nothing.
            orderer.take_if(|orderer| *orderer == link);
        }
        if let Some(Linked { party: LinkParty::Tool, incarnation, .. }) = gone {
            // A launcher's ranks end with it.
            if !self.settings.supervised && self.planner == Some(incarnation) {
                self.stop(End::JobOver);
            }
        }
        if self.supervisor == Some(link) {
            // Nobody is left who wants this agent.
            self.stop(End::Asked);
        }
        if let Some(LinkParty::Peer(peer)) = party
            && let PeerKind::Service(sp) = peer.kind()
            && self.dialled.get(&sp) == Some(&link)
        {
            self.dial(sp, REDIAL);
        }
    }
}
