//! RDMA in an agent: the card, if there is one, and all that is under way with it.
//!
//! The card is opened when it is first needed, and again when it is needed after its device was gone. What it tells is handed
//! on here: copies for other service processes and for ranks to `lending`, reads of its own to `reaching`, addresses of queue
//! pairs to `connecting`.

use std::collections::HashMap;

use umbra::driver::{self, LinkId};
use umbra::verbs::VerbsError;
use umbra_core::access::grants::{Grant, Grants};
use umbra_core::access::serve::Attach;
use umbra_core::error::Status;
use umbra_core::key::Key;
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer};
use umbra_core::slots::Slot;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Token;

use super::card::Card;
use super::connecting::Connecting;
use super::jobs::{Job, News};
use super::process::Process;
use super::reaching::Opening;

/// Regions that can be given to other service processes at once.
const GRANTS: usize = 16 * 1024;
/// What could not be had is not asked for again before.
pub(super) const LATER: Lapse = Lapse::from_secs(1);

/// Memory of a rank of ours that the card reads.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    pub(super) key: Key,
    pub(super) rkey: u32,
    /// Other service processes may have the key.
    pub(super) direct: bool,
}

/// Everything about RDMA in one agent.
pub(super) struct Rdma {
    pub(super) card: Option<Card>,
    /// Why there is no card.
    pub(super) trouble: Option<String>,
    /// Why the card did not reach an owner, where somebody said so in words.
    pub(super) refusals: HashMap<Peer, String>,
    /// When to look for a card again.
    again: Time,
    /// The driver's number of the card's bell.
    bell: Option<usize>,
    /// Addresses that were sent and not answered.
    pub(super) connects: HashMap<u64, Connecting>,
    /// Regions that were asked for.
    pub(super) opens: HashMap<u64, Opening>,
    /// The link over which an owner's regions were opened.
    pub(super) opened: HashMap<Peer, Link>,
    /// Owners that are not read by this process itself before this time.
    pub(super) later: HashMap<Peer, Time>,
    /// Regions of ranks of ours, by their places in the server's table.
    pub(super) exposed: HashMap<usize, Exposed>,
    /// Exports that wait for their owner's queue pair.
    pub(super) attaching: Vec<Attach>,
    /// Who wants to hear that this process reads a region no more.
    pub(super) closing: HashMap<Key, (Link, Token)>,
    /// Regions of ranks of ours that others read by themselves.
    pub(super) grants: Grants<Vec<Slot<Grant>>>,
    next_token: u64,
    /// Copies that the card made for others.
    pub(super) copies: u64,
    /// Regions that were asked back and whose owner died before the last read of them had ended.
    pub(super) orphans: u64,
}

impl Rdma {
    pub(super) fn new() -> Rdma {
        Rdma {
            card: None,
            trouble: None,
            refusals: HashMap::new(),
            again: Time::ZERO,
            bell: None,
            connects: HashMap::new(),
            opens: HashMap::new(),
            opened: HashMap::new(),
            later: HashMap::new(),
            exposed: HashMap::new(),
            attaching: Vec::new(),
            closing: HashMap::new(),
            grants: Grants::new((0..GRANTS).map(|_| Slot::EMPTY).collect()),
            next_token: 0,
            copies: 0,
            orphans: 0,
        }
    }

    pub(super) const fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Whether an owner is still left alone, because it could not be read a moment ago.
    pub(super) fn is_too_soon(&self, owner: Peer, now: Time) -> bool {
        self.later.get(&owner).is_some_and(|later| now < *later)
    }

    /// Whether the card reads the memory that is kept under a place.
    pub(super) fn is_exposed(&self, place: usize) -> bool {
        self.exposed.contains_key(&place)
    }

    /// Whether the process must not sleep; the bell rings if it may.
    pub(super) fn arm(&mut self) -> bool {
        self.card.as_mut().is_some_and(Card::arm)
    }

    /// The bell rang, if this is its number.
    pub(super) fn rang(&mut self, number: usize) {
        if let (true, Some(card)) = (self.bell == Some(number), &mut self.card) {
            card.quiet();
        }
    }

    /// When somebody has not answered.
    pub(super) fn deadline(&self) -> Time {
        let connects = self.connects.values().map(|connecting| connecting.deadline);
        let answers = connects.chain(self.opens.values().map(|opening| opening.deadline)).fold(Time::NEVER, Time::min);
        answers.min(self.card.as_ref().map_or(Time::NEVER, Card::deadline))
    }
}

impl Process {
    /// Opens the card if that was not done; `at_once`: even if it failed a moment ago.
    pub(super) fn open_card(&mut self, at_once: bool) -> bool {
        let patience = self.quarter();
        let rdma = &mut self.rdma;
        if rdma.card.is_some() {
            return true;
        }
        if driver::now() < rdma.again && !at_once {
            return false;
        }
        let device = self.settings.device.as_ref();
        let opened = Card::open(self.settings.sp, device, patience).map_err(|error| error.to_string());
        let watched = opened.and_then(|mut card| Ok((card.bell().map_err(|error| error.to_string())?, card)));
        // Opening it may have taken longer than this.
        rdma.again = driver::now() + LATER;
        match watched {
            Ok((bell, card)) => {
                rdma.bell = Some(self.driver.watch(bell));
                (rdma.card, rdma.trouble) = (Some(card), None);
                true
            }
            Err(trouble) => {
                log!(warn, "no RDMA: {}", trouble);
                rdma.trouble = Some(trouble);
                false
            }
        }
    }

    /// How long somebody may take to answer about RDMA: others are still waiting for their bytes then.
    pub(super) fn answer_by(&self, now: Time) -> Time {
        now + self.quarter()
    }

    /// A part of the deadline: who waits for something that waits for this has not given up then.
    fn quarter(&self) -> Lapse {
        Lapse(u64::try_from(self.settings.deadline.as_nanos() / 4).unwrap_or(u64::MAX))
    }

    /// Asks back what others were given, and carries out what the card has to tell; true if there was anything.
    pub(super) fn turn_card(&mut self, now: Time) -> bool {
        let mut busy = false;
        // Others may have what they were given before the card was lost.
        while let Some(recall) = self.rdma.grants.poll() {
            busy = true;
            self.ask_back(&recall);
        }
        let Some(card) = &mut self.rdma.card else { return busy };
        card.turn(now);
        while let Some((owner, address)) = self.rdma.card.as_mut().and_then(Card::greet) {
            busy = true;
            self.greet(owner, &address, now);
        }
        while let Some(news) = self.rdma.card.as_mut().and_then(Card::next) {
            busy = true;
            self.on_news(news, now);
        }
        if let Some(why) = self.rdma.card.as_mut().and_then(Card::gone) {
            busy = true;
            self.lose_card(&why);
        }
        busy
    }

    /// The device is gone, and with it whatever was under way. What ranks of ours exported waits for the next card.
    pub(super) fn lose_card(&mut self, why: &VerbsError) {
        let Some(card) = self.rdma.card.take() else { return };
        log!(warn, "RDMA: {}", why);
        self.rdma.trouble = Some(why.to_string());
        // What it lacked is not what the next one lacks.
        self.rdma.refusals.clear();
        let rest = card.close();
        if let Some(bell) = self.rdma.bell.take() {
            self.driver.unwatch(bell);
        }
        self.rdma.connects.retain(|_, connecting| !connecting.is_ours());
        self.rdma.opened.clear();
        for key in self.rdma.closing.keys().copied().collect::<Vec<_>>() {
            self.closed(key);
        }
        for job in rest {
            self.job_ended(job, Status::QueueBroken, None);
        }
        for attach in std::mem::take(&mut self.rdma.attaching) {
            self.attached(&attach, Status::Unreachable);
        }
    }

    fn on_news(&mut self, news: News, now: Time) {
        match news {
            News::Ended { job, status, slot } => {
                self.job_ended(job, status, slot);
                if let Some(card) = &mut self.rdma.card {
                    card.give_back(slot);
                }
            }
            News::Broken(owner) => self.rebuild(owner, now),
            News::Revoked(key) => self.closed(key),
        }
    }

    fn job_ended(&mut self, job: Job, status: Status, slot: Option<usize>) {
        match job {
            Job::Serve { copy, .. } => self.copied_by_card(copy, status, slot),
            Job::Fetch(fetch) => self.fetched_by_card(fetch, status, slot),
            Job::Read(read) => self.read_by_card(read, status, slot),
        }
    }

    /// A queue pair broke: both ends make theirs anew, but not all the time.
    fn rebuild(&mut self, owner: Peer, now: Time) {
        if self.rdma.is_too_soon(owner, now) {
            return;
        }
        self.rdma.later.remove(&owner);
        let Some(card) = &mut self.rdma.card else { return };
        if let Some(why) = card.rebuild(owner) {
            self.rdma.refusals.insert(owner, why.to_string());
            self.rdma.later.insert(owner, now + LATER);
        }
    }

    /// Does what nobody has done yet, before a region is used: opens a card if the last one is gone, tells it what a rank of
    /// ours exported, and makes the queue pair to the owner anew if it broke.
    ///
    /// # Errors
    /// [`Status::Unreachable`] if the card cannot read the region now; later it may.
    pub(super) fn mend(&mut self, key: Key, now: Time) -> Result<(), Status> {
        if !self.open_card(false) {
            return Err(Status::Unreachable);
        }
        if self.rdma.card.as_ref().is_some_and(|card| card.life(key).is_none()) {
            self.import_again(key, now)?;
        }
        if let Some(card) = &mut self.rdma.card
            && !card.is_whole(key)
        {
            self.rebuild(key.owner(), now);
        }
        Ok(())
    }

    /// Tells a card about a region that the last one had, but not all the time.
    fn import_again(&mut self, key: Key, now: Time) -> Result<(), Status> {
        let owner = key.owner();
        if self.rdma.is_too_soon(owner, now) {
            return Err(Status::Unreachable);
        }
        let exposed = self.exposed(key).map(|exposed| exposed.rkey);
        let region = self.machines.agent.serve().regions().get(key).copied();
        let (Some(region), Some(rkey)) = (region, exposed) else { return Err(Status::Unreachable) };
        self.import_by_card(&region, rkey).map_err(|_| {
            self.rdma.later.insert(owner, now + LATER);
            Status::Unreachable
        })
    }

    /// A link is gone, and with it what was asked over it, and what was given to its other end.
    pub(super) fn rdma_gone(&mut self, link: Link) {
        while let Some(held) = self.rdma.grants.gone(link) {
            self.machines.agent.serve().release_own(held);
        }
        self.rdma.attaching.retain(|attach| attach.link != link);
        self.rdma.closing.retain(|_, (over, _)| *over != link);
        if let Some(card) = &mut self.rdma.card {
            card.forget_asker(link);
        }
        // What was opened through a service process is not read without it.
        let lost: Vec<Peer> =
            self.rdma.opened.iter().filter(|(_, over)| **over == link).map(|(owner, _)| *owner).collect();
        for owner in lost {
            let life = self.rdma.card.as_ref().and_then(|card| card.life_of(owner));
            self.forget_owner(owner, life.unwrap_or_default());
        }
        self.connect_gone(link);
        self.open_gone(link);
    }

    /// Nobody reads memory of this life of an owner any more.
    pub(super) fn forget_owner(&mut self, owner: Peer, life: Incarnation) {
        if let Some(card) = &mut self.rdma.card {
            card.forget(owner, life);
        }
        if self.rdma.card.as_ref().is_none_or(|card| card.life_of(owner).is_none()) {
            self.rdma.opened.remove(&owner);
            self.rdma.later.remove(&owner);
            self.rdma.refusals.remove(&owner);
        }
        self.close_forgotten(owner);
    }

    /// Gives up on who has not answered, be it the device.
    pub(super) fn rdma_on_time(&mut self, now: Time) {
        if let Some(card) = &mut self.rdma.card {
            card.on_time(now);
        }
        let late = |deadline: Time| deadline <= now;
        let connects = self.rdma.connects.iter().filter(|(_, connecting)| late(connecting.deadline));
        for token in connects.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.connected(token, Status::Timeout, &[]);
        }
        let opens = self.rdma.opens.iter().filter(|(_, opening)| late(opening.deadline));
        for token in opens.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.open_answered(token, Status::Timeout, &[]);
        }
    }

    /// The link to a rank of ours that has exported memory: to the life whose memory that is.
    pub(super) fn link_of(&mut self, owner: Peer) -> Option<LinkId> {
        let mut regions = self.machines.agent.serve().regions().iter();
        let life = regions.find(|region| region.key.owner() == owner)?.incarnation;
        let party = umbra::link::Party::Peer(owner);
        let mut links = self.links.iter();
        links.find(|(_, linked)| linked.party == party && linked.incarnation == life).map(|(link, _)| *link)
    }
}
