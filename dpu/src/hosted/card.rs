//! The network card of an agent: what it reads and writes by itself, and for whom.
//!
//! It gives [`Jobs`] to the device, each with a slot of a registered landing area, and tells them what has ended.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra::access::rdma::Rdma;
use umbra::sys::segment::Segment;
use umbra::verbs::{Address, Choice, VerbsError};
use umbra_core::access::message::Export;
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::serve::{INLINE_MAX, STEP};
use umbra_core::access::{Event, MemoryAccess as _};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::region::{Entry, Region, Secret};
use umbra_core::slots::Slot as Place;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::{Lapse, Time};
use umbra_core::transport::PostError;
use umbra_core::wire::Token;

use super::jobs::{Job, Jobs, News, PIECE, Waiting};

/// Jobs that the card works on at once.
const SLOTS: usize = 16;
/// Regions that can be reached; twice as many as are needed.
const REGIONS: usize = 8192;

const _: () = assert!(PIECE >= STEP && PIECE >= INLINE_MAX, "what one frame asks for fits into one slot");

type Way = Queues<Rdma, Vec<Entry>, Vec<Place<Posted>>, Vec<Lane>>;

/// The device, its queue pairs, and the jobs.
pub(super) struct Card {
    me: Sp,
    way: Way,
    jobs: Jobs,
    /// How long the device may take for one of them.
    patience: Lapse,
    /// The region of each owner that was read last.
    recent: HashMap<Peer, Region>,
}

impl Card {
    pub(super) fn open(me: Sp, device: Option<&Choice>, patience: Lapse) -> Result<Card, VerbsError> {
        let port = Choice::open(device)?;
        let landing = Segment::create("umbra-card", SLOTS * PIECE as usize)
            .map_err(|error| VerbsError::Call { what: "making a landing area", error: std::io::Error::other(error) })?;
        let device = Rdma::new(&port, REGIONS, SLOTS as u32, Arc::new(landing))?;
        let work = (0..SLOTS).map(|_| Place::EMPTY).collect();
        let way = Queues::new(me, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        Ok(Card { me, way, jobs: Jobs::new(SLOTS), patience, recent: HashMap::new() })
    }

    /// What becomes readable when something ends that was armed for.
    pub(super) fn bell(&mut self) -> std::io::Result<OwnedFd> {
        self.way.device().bell().try_clone_to_owned()
    }

    /// Makes the bell ring for what ends next; true if there is something to do now.
    pub(super) fn arm(&mut self) -> bool {
        self.way.under_way() > 0 && self.way.device().arm()
    }

    pub(super) fn quiet(&mut self) {
        self.way.device().quiet();
    }

    pub(super) fn queue_pairs(&mut self) -> usize {
        self.way.device().lines()
    }

    /// Takes over a region that this process may reach by itself.
    pub(super) fn import(&mut self, region: &Region, rkey: u32) -> Result<(), Status> {
        let Region { key, incarnation, base, len, access } = *region;
        let ticket = Ticket { key, base, len, access, locator: Locator::Verbs { rkey, direct: true } };
        // Whoever told us has checked that; the list here says that this process may use what it was told.
        let export = Export { ticket, secret: Secret([0; 32]), shadows: [self.me].into_iter().collect() };
        self.way.import(&export, incarnation)
    }

    /// What the device or the system lacked for a queue pair last; told once. It is about an import that just ended as
    /// unreachable; otherwise nobody knows about whom.
    pub(super) fn trouble(&mut self) -> Option<VerbsError> {
        self.way.device().trouble()
    }

    /// That the device is gone, once it was found so.
    pub(super) fn gone(&mut self) -> Option<VerbsError> {
        self.way.device().gone()
    }

    /// Gives the device up, which moves nothing any more when this returns; the jobs whose end was not told.
    pub(super) fn close(self) -> impl Iterator<Item = Job> {
        let Card { way, jobs, .. } = self;
        drop(way);
        jobs.rest()
    }

    /// The region of an owner that covers an address, if this process may reach it.
    pub(super) fn region(&mut self, owner: Peer, address: u64) -> Option<Region> {
        let regions = self.way.regions();
        if let Some(last) = self.recent.get(&owner)
            && last.covers(address)
            && regions.get(last.key) == Some(last)
        {
            return Some(*last);
        }
        let found = regions.find(owner, address).ok()?;
        self.recent.insert(owner, found);
        Some(found)
    }

    pub(super) fn greet(&mut self) -> Option<(Peer, Address)> {
        self.way.device().greet()
    }

    pub(super) fn welcome(&mut self, owner: Peer, address: &Address) -> Result<(), VerbsError> {
        self.way.device().welcome(owner, address)
    }

    pub(super) fn refuse(&mut self, owner: Peer, status: Status) {
        self.way.device().refuse(owner, status);
    }

    pub(super) fn is_usable(&mut self, owner: Peer) -> bool {
        self.way.device().is_usable(owner)
    }

    /// Whether a region can be read now, or as soon as its owner has answered.
    pub(super) fn is_whole(&mut self, key: Key) -> bool {
        self.is_usable(key.owner()) && !self.way.is_refused(key)
    }

    pub(super) fn is_greeting(&mut self, owner: Peer) -> bool {
        self.way.device().is_greeting(owner)
    }

    /// Makes the queue pair to an owner anew; why there is none, if there can be none.
    pub(super) fn rebuild(&mut self, owner: Peer) -> Option<VerbsError> {
        // What was lacking for another owner is not this one's.
        let _ = self.trouble();
        self.way.rebuild(owner);
        self.trouble()
    }

    pub(super) fn revoke(&mut self, key: Key) -> Result<(), Status> {
        self.way.revoke(key)
    }

    /// In which life an owner exported a region.
    pub(super) fn life(&self, key: Key) -> Option<Incarnation> {
        self.way.regions().get(key).map(|region| region.incarnation)
    }

    /// Whether a region of an owner can be reached, and in which life it was exported: in one at a time.
    pub(super) fn life_of(&self, owner: Peer) -> Option<Incarnation> {
        let mut regions = self.way.regions().iter();
        regions.find(|region| region.key.owner() == owner).map(|region| region.incarnation)
    }

    /// An owner's life is over.
    pub(super) fn forget(&mut self, owner: Peer, life: Incarnation) {
        self.recent.remove(&owner);
        self.way.forget(owner, life);
    }

    /// Queues a job.
    pub(super) fn start(&mut self, way: Access, span: Span, job: Job) {
        self.jobs.push(Waiting { way, span, job });
    }

    /// Whether one more fetch is taken from a link.
    pub(super) fn has_credit(&self, link: Link) -> bool {
        self.jobs.has_credit(link)
    }

    /// Whoever asked over this link hears nothing any more.
    pub(super) fn forget_asker(&mut self, link: Link) {
        self.jobs.forget_asker(link);
    }

    /// When the device must have ended something, or something has waited too long.
    pub(super) fn deadline(&self) -> Time {
        self.jobs.deadline()
    }

    /// Ends what has waited too long, and makes queue pairs anew whose device is silent: what it was given ends as broken, and is
    /// not lost. Turn afterwards.
    pub(super) fn on_time(&mut self, now: Time) {
        let Card { way, jobs, patience, .. } = self;
        for owner in jobs.judge(now, now + *patience, |jobs| hear(way, jobs, now)) {
            // Whoever has not been answered yet is waited for elsewhere.
            if !self.way.device().is_greeting(owner) {
                // If there can be none, that is found when somebody makes it anew because this work broke.
                let _ = self.rebuild(owner);
            }
        }
    }

    /// Gives jobs to the card and takes in what has ended.
    pub(super) fn turn(&mut self, now: Time) {
        while let Some((slot, Waiting { way, span, job })) = self.jobs.pop(|owner| self.way.device().is_greeting(owner))
        {
            let landing = slot as u64 * PIECE;
            if let Job::Serve { store: Some(bytes), .. } = &job {
                // The slot is in the landing area, and no frame is longer than a slot.
                let _ = self.way.put(landing, bytes);
            }
            match self.way.post(way, span, landing, Token(slot as u64)) {
                Ok(()) => self.jobs.begun(slot, job, span.key.owner(), now + self.patience),
                Err(error) => {
                    let status = if let PostError::Refused(status) = error { status } else { Status::QueueBroken };
                    self.jobs.refused(slot, job, status);
                }
            }
        }
        hear(&mut self.way, &mut self.jobs, now);
    }

    pub(super) fn next(&mut self) -> Option<News> {
        self.jobs.news()
    }

    /// Copies the bytes of a slot out.
    pub(super) fn take(&self, slot: usize, into: &mut [u8]) -> Result<(), Status> {
        self.way.take(slot as u64 * PIECE, into)
    }

    /// Copies the bytes of a slot into a segment.
    pub(super) fn take_into(&mut self, slot: usize, to: &Segment, at: u64, len: u64) -> Result<(), Status> {
        let narrow = |word: u64| usize::try_from(word).map_err(|_| Status::OutOfBounds);
        let landing = self.way.device().landing();
        landing.copy(slot * PIECE as usize, to, narrow(at)?, narrow(len)?).map_err(|_| Status::OutOfBounds)
    }

    /// A slot is free again.
    pub(super) fn give_back(&mut self, slot: Option<usize>) {
        self.jobs.give_back(slot);
    }
}

/// Tells the jobs what the device has ended.
fn hear(way: &mut Way, jobs: &mut Jobs, now: Time) {
    way.poll(now, &mut |event| match event {
        Event::Done { token, status } => {
            // Whether the peer lives is told by its link; to the device it may just be out of sight.
            let status = if status == Status::PeerFailed { Status::QueueBroken } else { status };
            jobs.ended(usize::try_from(token.0).unwrap_or(usize::MAX), status);
        }
        Event::Broken { owner } => jobs.tell(News::Broken(owner)),
        Event::Revoked { key } => jobs.tell(News::Revoked(key)),
        Event::Imported { .. } => {}
    });
}
