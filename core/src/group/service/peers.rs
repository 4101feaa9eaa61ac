//! Other service processes: links, signs of life, who failed and who came back.
//!
//! What is known about failures is a set of `(service process, epoch, incarnation)` in which the larger epoch wins,
//! so that merging is idempotent and order does not matter; even epochs are lives, odd ones deaths. It floods over
//! all links when it changes, and each ping carries its digest, so a lost message is noticed. A process that
//! was declared dead cannot come back in the same life.

use crate::error::Status;
use crate::machine::Link;
use crate::peer::{Incarnation, Sp};
use crate::time::{Lapse, Time};

use super::super::cause::Cause;
use super::super::message::{Head, MessageError, View, ViewEntry};
use super::super::record::Phase;
use super::super::shelf::Shelf;
use super::report::Event;
use super::{AfterRestart, Answer, Service, Storage};
use crate::codec::Reader;

/// What is known of one service process: lent by the owner, opaque.
#[derive(Clone, Copy, Debug)]
pub struct PeerSlot {
    pub(super) link: Option<Link>,
    pub(super) incarnation: Incarnation,
    pub(super) epoch: u32,
    pub(super) heard: Time,
    pub(super) sent: Time,
    /// A link is wanted.
    pub(super) wanted: bool,
    /// Since when nothing could be heard: a link that comes up and goes down without a word is no sign of life.
    pub(super) missing_since: Time,
    pub(super) connect_at: Time,
    pub(super) connect_step: u8,
    pub(super) view_due: bool,
    pub(super) ping_due: bool,
}

impl Default for PeerSlot {
    fn default() -> Self {
        PeerSlot {
            link: None,
            incarnation: Incarnation(0),
            epoch: 0,
            heard: Time::ZERO,
            sent: Time::ZERO,
            wanted: false,
            missing_since: Time::NEVER,
            connect_at: Time::NEVER,
            connect_step: 0,
            view_due: false,
            ping_due: false,
        }
    }
}

impl PeerSlot {
    pub(super) const fn is_dead(&self) -> bool {
        self.epoch % 2 == 1
    }
}

fn digest(sp: Sp, peer: &PeerSlot) -> u64 {
    if peer.epoch == 0 {
        return 0;
    }
    let mut x = peer.incarnation.0 ^ u64::from(sp.0).rotate_left(40) ^ u64::from(peer.epoch).rotate_left(20);
    // The finaliser of splitmix64: entries are combined by exclusive or, so their bits must be spread.
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn peer(&self, sp: Sp) -> Option<&PeerSlot> {
        self.peers.as_ref().get(sp.index()).filter(|_| sp.0 < self.placement.service_processes())
    }

    pub(super) fn peer_mut(&mut self, sp: Sp) -> Option<&mut PeerSlot> {
        let count = self.placement.service_processes();
        self.peers.as_mut().get_mut(sp.index()).filter(|_| sp.0 < count)
    }

    pub(super) fn is_dead(&self, sp: Sp) -> bool {
        self.peer(sp).is_none_or(PeerSlot::is_dead)
    }

    pub(super) fn link_to(&self, sp: Sp) -> Option<Link> {
        self.peer(sp).filter(|peer| !peer.is_dead()).and_then(|peer| peer.link)
    }

    /// A link to a service process came up.
    pub(super) fn peer_up(&mut self, link: Link, sp: Sp, incarnation: Incarnation, now: Time) {
        let me = self.config.sp;
        let view = self.view;
        let Some(peer) = self.peer_mut(sp).filter(|_| sp != me && incarnation.0 != 0) else {
            self.refuse(link, Status::Malformed);
            return;
        };
        if peer.is_dead() && peer.incarnation == incarnation {
            self.answers.push(Answer::View { link });
            self.refuse(link, Status::PeerFailed);
            self.counters.stale_peer += 1;
            return;
        }
        let first = peer.incarnation.0 == 0 && peer.epoch == 0;
        let new_life = !first && peer.incarnation != incarnation;
        peer.link = Some(link);
        peer.heard = now;
        peer.sent = now;
        peer.wanted = false;
        peer.connect_step = 0;
        peer.view_due = view != 0;
        if first {
            peer.incarnation = incarnation;
        }
        if new_life {
            let epoch = if peer.is_dead() { peer.epoch + 1 } else { peer.epoch + 2 };
            self.learn(ViewEntry { sp, epoch, incarnation }, now);
            if let Some(peer) = self.peer_mut(sp) {
                peer.link = Some(link);
            }
        }
        self.peers_at = now;
        crate::log!(debug, "{:?} is linked, on {:?}", sp, link);
        self.nudge(sp);
    }

    fn refuse(&mut self, link: Link, reason: Status) {
        if let Some(slot) = self.links.as_mut().get_mut(link.index()) {
            *slot = super::LinkSlot::default();
        }
        self.counters.refused += 1;
        crate::log!(warn, "{:?} refused: {:?}", link, reason);
        self.answers.push(Answer::Close { link, reason });
    }

    /// A link went down. The process may still live: whether the link comes back will tell.
    pub(super) fn peer_down(&mut self, link: Link, sp: Sp, now: Time) {
        let Some(peer) = self.peer_mut(sp).filter(|peer| peer.link == Some(link)) else { return };
        peer.link = None;
        if !peer.is_dead() {
            peer.wanted = true;
            peer.missing_since = peer.missing_since.min(now);
            peer.connect_at = now;
            peer.connect_step = 0;
            self.peers_at = now;
            crate::log!(info, "link to {:?} is gone", sp);
        }
        self.nudge(sp);
    }

    /// A link to this service process is needed.
    pub(super) fn want(&mut self, sp: Sp, now: Time) {
        let Some(peer) = self.peer_mut(sp).filter(|p| p.link.is_none() && !p.wanted && !p.is_dead()) else { return };
        peer.wanted = true;
        peer.missing_since = peer.missing_since.min(now);
        peer.connect_at = now;
        peer.connect_step = 0;
        self.peers_at = now;
    }

    /// Whether a frame comes from the life of the service process that is believed in.
    pub(super) fn heard(&mut self, link: Link, sp: Sp, incarnation: Incarnation, now: Time) -> bool {
        let Some(peer) = self.peer_mut(sp).filter(|p| !p.is_dead() && p.incarnation == incarnation) else {
            return false;
        };
        peer.heard = now;
        peer.missing_since = Time::NEVER;
        if peer.link.is_none() {
            peer.link = Some(link);
        }
        true
    }

    pub(super) fn on_ping(&mut self, sp: Sp, view: u64) {
        if view != self.view
            && let Some(peer) = self.peer_mut(sp)
        {
            peer.view_due = true;
            self.peers_at = Time::ZERO;
        }
    }

    /// What another service process knows about failures.
    pub(super) fn on_view(&mut self, body: &[u8], now: Time) -> Result<(), MessageError> {
        let mut r = Reader::new(body);
        Head::parse(&mut r)?;
        for entry in View::parse(&mut r)?.entries() {
            if entry.epoch > 0 && self.peer(entry.sp).is_some() {
                self.learn(entry, now);
            }
        }
        Ok(())
    }

    /// Takes news about a service process, if they are news.
    pub(super) fn learn(&mut self, entry: ViewEntry, now: Time) {
        let ViewEntry { sp, mut epoch, mut incarnation } = entry;
        let Some(&peer) = self.peer(sp) else { return };
        let newer = epoch > peer.epoch || (epoch == peer.epoch && epoch > 0 && incarnation.0 > peer.incarnation.0);
        // Epochs grow by two a restart; one near the end of its range is not one that happened.
        if !newer || epoch > u32::MAX - 4 {
            return;
        }
        if sp == self.config.sp {
            if incarnation == self.config.incarnation && epoch % 2 == 1 {
                self.fence();
                return;
            }
            // An earlier life of this process: whatever became of it, this one lives.
            epoch = if epoch % 2 == 1 { epoch + 1 } else { epoch + 2 };
            if incarnation == self.config.incarnation {
                epoch = entry.epoch;
            }
            incarnation = self.config.incarnation;
        } else if epoch % 2 == 1 && peer.link.is_some() && peer.incarnation != incarnation {
            // The death of an earlier life of a process that is linked in a later one.
            epoch += 1;
            incarnation = peer.incarnation;
        }
        let was_dead = peer.is_dead();
        let same_life = peer.incarnation == incarnation || peer.incarnation.0 == 0;
        self.view ^= digest(sp, &peer);
        if let Some(peer) = self.peer_mut(sp) {
            peer.epoch = epoch;
            peer.incarnation = incarnation;
        }
        self.view ^= self.peer(sp).map_or(0, |peer| digest(sp, peer));
        let dead = epoch % 2 == 1;
        self.dead = self.dead + u32::from(dead) - u32::from(was_dead);
        if (dead || !same_life)
            && let Some(link) = self.peer_mut(sp).and_then(|peer| peer.link.take())
        {
            let known = self.links.as_ref().get(link.index()).and_then(|slot| slot.identity);
            if dead || known.is_some_and(|identity| identity.incarnation != incarnation) {
                self.answers.push(Answer::View { link });
                self.refuse(link, Status::PeerFailed);
            } else if let Some(peer) = self.peer_mut(sp) {
                peer.link = Some(link);
            }
        }
        if let Some(peer) = self.peer_mut(sp).filter(|peer| peer.is_dead() || !same_life) {
            peer.wanted &= !peer.is_dead();
            peer.missing_since = if peer.wanted { now } else { Time::NEVER };
        }
        for peer in self.peers.as_mut().iter_mut().filter(|peer| peer.link.is_some()) {
            peer.view_due = true;
        }
        self.peers_at = now;
        if sp == self.config.sp {
            return;
        }
        if dead || (!was_dead && !same_life) {
            self.counters.peers_failed += 1;
            self.events.push(Event::PeerFailed { sp, incarnation: peer.incarnation });
            self.after_death(sp, now);
        }
        if !dead && (was_dead || !same_life) {
            self.events.push(Event::PeerRestarted { sp, incarnation });
            self.after_return(sp, now);
        }
        self.reshape(now);
    }

    /// This process was declared dead by the others: it may not go on under this incarnation.
    fn fence(&mut self) {
        if !core::mem::replace(&mut self.fenced, true) {
            crate::log!(error, "the others took {:?} for dead: it may not go on in this life", self.config.sp);
            self.events.push(Event::Fenced);
            for at in 0..self.records.as_ref().len() as u32 {
                if self.rec(at).phase == Phase::Gathering {
                    self.end_here(at, Cause::failed(self.config.sp));
                }
            }
        }
    }

    fn after_death(&mut self, sp: Sp, now: Time) {
        crate::log!(warn, "{:?} is dead, or this life of it", sp);
        for at in 0..self.records.as_ref().len() as u32 {
            match self.rec(at).phase {
                Phase::Gathering => self.check_poisoned(at, now),
                Phase::Full => {
                    let record = self.rec(at);
                    let (root, handle) = (record.root, record.handle);
                    let mut serves = root == sp;
                    if let Some(handle) = handle {
                        self.shelf.ranks_of(handle, sp, &mut |_, _| serves = true);
                    }
                    self.rec_mut(at).orphaned |= serves;
                    self.check_ended(at, now);
                }
                _ => {}
            }
        }
    }

    fn after_return(&mut self, sp: Sp, now: Time) {
        crate::log!(info, "{:?} is back in another life", sp);
        if self.config.after_restart == AfterRestart::Rebuild {
            return;
        }
        for at in 0..self.records.as_ref().len() as u32 {
            let record = self.rec(at);
            if record.phase == Phase::Full && record.orphaned && !record.is_world() {
                let root = self.root_of(at);
                if root == sp {
                    self.end_here(at, Cause::failed(sp));
                } else if root == self.config.sp {
                    self.end(at, Cause::failed(sp), now);
                }
            }
        }
    }

    /// The tree has changed: everything is said again to the new neighbours.
    fn reshape(&mut self, now: Time) {
        for at in 0..self.records.as_ref().len() as u32 {
            let record = self.rec(at);
            if record.phase != Phase::Unused && !record.old {
                self.say_again(at);
                if self.rec(at).phase == Phase::Gathering {
                    self.check_full(at, now);
                }
            }
        }
    }

    /// A link came or went: what was sent over it and not acknowledged is sent again.
    fn nudge(&mut self, sp: Sp) {
        for at in 0..self.records.as_ref().len() as u32 {
            let record = self.rec(at);
            if record.phase == Phase::Unused
                || record.old
                || !(record.resend.is_armed() || record.phase == Phase::Gathering)
            {
                continue;
            }
            if self.parent(at) == Some(sp) {
                self.repeat(at);
            } else if let Some(n) = self.neighbour_number(at, sp) {
                self.rec_mut(at).outstanding &= !(1 << n);
                self.stir(at);
            }
        }
    }

    /// What is to be done for one peer, if it is due; how long until the next thing is due.
    pub(super) fn peer_work(&mut self, now: Time) -> Option<(Sp, Work)> {
        if now < self.peers_at {
            return None;
        }
        let resend = self.config.resend.0;
        let mut next = Time::NEVER;
        for (sp, peer) in (0..).zip(self.peers.as_mut()) {
            if let Some(link) = peer.link {
                if core::mem::take(&mut peer.view_due) {
                    peer.sent = now;
                    return Some((Sp(sp), Work::View(link)));
                }
                if core::mem::take(&mut peer.ping_due) {
                    peer.sent = now;
                    return Some((Sp(sp), Work::Ping(link)));
                }
            } else if peer.wanted {
                if peer.connect_at <= now {
                    peer.connect_at = now + Lapse(resend.saturating_mul(1 << peer.connect_step));
                    peer.connect_step = (peer.connect_step + 1).min(6);
                    return Some((Sp(sp), Work::Connect));
                }
                next = next.min(peer.connect_at);
            }
        }
        self.peers_at = next;
        None
    }
}

/// Something to be done for a peer.
pub(super) enum Work {
    View(Link),
    Ping(Link),
    Connect,
}
