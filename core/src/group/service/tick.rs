//! Time passes: repetitions, deadlines, silence.

use crate::error::Status;
use crate::machine::Link;
use crate::peer::Sp;
use crate::time::Time;

use super::super::message::ViewEntry;
use super::super::record::Phase;
use super::super::shelf::Shelf;
use super::records::{Deadlines, Resends};
use super::{Answer, Service, Storage};

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn tick(&mut self, now: Time) {
        while let Some((at, _)) = self.resends.expired(&mut Resends(self.records.as_mut()), now) {
            if self.rec(at).phase != Phase::Unused {
                self.repeat_later(at);
            }
        }
        while let Some((at, queue)) = self.deadlines.expired(&mut Deadlines(self.records.as_mut()), now) {
            self.overdue(at, queue, now);
        }
        if now >= self.tick_at {
            self.tick_at = now + self.config.ping;
            self.listen_to_peers(now);
            self.listen_to_ranks(now);
        }
    }

    fn listen_to_peers(&mut self, now: Time) {
        let (ping, silence) = (self.config.ping.0, self.config.silence.0);
        let (grace, timeout) = (self.config.grace.0, self.config.timeout.0);
        for sp in 0..self.placement.service_processes() {
            let sp = Sp(sp);
            let Some(peer) = self.peer_mut(sp) else { break };
            let dead = if peer.link.is_some() {
                if now.since(peer.sent).0 >= ping {
                    peer.ping_due = true;
                }
                now.since(peer.heard).0 > silence
            } else {
                let seen = peer.incarnation.0 != 0;
                peer.wanted && now.since(peer.missing_since).0 > if seen { grace } else { timeout / 2 }
            };
            if dead && !peer.is_dead() {
                let (epoch, incarnation) = (peer.epoch + 1, peer.incarnation);
                crate::log!(warn, "{:?} was silent, or could not be reached, for too long", sp);
                self.learn(ViewEntry { sp, epoch, incarnation }, now);
            }
        }
        self.peers_at = self.peers_at.min(now);
    }

    fn listen_to_ranks(&mut self, now: Time) {
        let (ping, silence) = (self.config.ping.0, self.config.rank_silence.0);
        let (grace, timeout) = (self.config.rank_grace.0, self.config.timeout.0);
        for local in 0..self.locals.as_ref().len() as u32 {
            let Some(slot) = self.local(local).copied().filter(|slot| !slot.dead) else { continue };
            match slot.link {
                Some(link) if now.since(slot.heard).0 > silence => {
                    crate::log!(warn, "{:?} was silent for {:?}", slot.world_rank, now.since(slot.heard));
                    self.answers.push(Answer::Close { link, reason: Status::Timeout });
                    if let Some(slot) = self.links.as_mut().get_mut(link.index()) {
                        *slot = super::LinkSlot::default();
                    }
                    self.rank_link_gone(link, Some(local), now);
                }
                Some(_) if now.since(slot.since).0 >= ping => {
                    if let Some(slot) = self.local_mut(local) {
                        slot.since = now;
                        slot.ping_due = true;
                        self.rank_pings_due = true;
                    }
                }
                Some(_) => {}
                None => {
                    // A rank that an earlier life of this process has served gets longer to find this one.
                    let patience = if slot.incarnation.0 == 0 { timeout } else { grace };
                    if now.since(slot.since).0 >= patience {
                        self.rank_died(local, now);
                    } else {
                        self.tick_at = self.tick_at.min(slot.since + crate::time::Lapse(patience));
                    }
                }
            }
        }
    }

    /// A local rank to which a sign of life is due.
    pub(super) fn rank_to_ping(&mut self) -> Option<Link> {
        if !core::mem::take(&mut self.rank_pings_due) {
            return None;
        }
        let link =
            self.locals.as_mut().iter_mut().find_map(|slot| slot.link.filter(|_| core::mem::take(&mut slot.ping_due)));
        self.rank_pings_due = link.is_some();
        link
    }
}
