//! The bootstrap in a service process.
//!
//! The driver opens links and tells who is at their ends; ranks say [`Hello`](super::message::Hello), join and
//! leave; the machine fills the [`Shelf`] with tables and tells its ranks. See [`super`] for the protocol and
//! [`machine`](crate::machine) for how it is driven.
//!
//! Storage is lent: [`Lent`] holds one slice-like value for each table, and its lengths are the capacities. When one
//! is exhausted the request is refused or simply not acknowledged, so that it comes again later.
//!
//! *Cost*: a message is O(what it says); looking a group up is one hash and, as a rule, one comparison; a poll without
//! work is O(1); time passing is O(what expired), and once per ping interval O(links).

mod answers;
mod down;
mod finish;
mod join;
mod local;
mod peers;
mod poll;
mod publish;
mod ranks;
mod records;
mod report;
mod shape;
mod tick;
mod up;

use crate::endpoints::JobKey;
use crate::id::Id;
use crate::machine::{Identity, Link, Machine, Role};
use crate::map::{Entry, Map};
use crate::memory::Block;
use crate::peer::{Incarnation, Sp};
use crate::placement::Placement;
use crate::time::{Lapse, Time};
use crate::wire::Frame;

use super::heap::Heap;
use super::message::ops;
use super::record::Record;
use super::shelf::Shelf;
use super::timers::{NIL, Timers};

pub use answers::Answer;
pub use local::LocalSlot;
pub use peers::PeerSlot;
pub use report::{Counters, Event, GroupReport};

/// What happens to full groups when a service process that serves some of their ranks comes back after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AfterRestart {
    /// It gets the tables again and its ranks may go on.
    #[default]
    Rebuild,
    /// They end with `PeerFailed`.
    ReportDead,
}

/// Who is told that a group is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Audience {
    /// Its members among the local ranks.
    #[default]
    Members,
    /// Every connected local rank.
    Everybody,
}

/// Settings of one service process.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which service process this is.
    pub sp: Sp,
    /// Which life of it; random, never zero.
    pub incarnation: Incarnation,
    /// The key under which the job hashes its groups.
    pub job: JobKey,
    /// Children of a service process in the tree, 1 to [`ARITY_MAX`](crate::tree::ARITY_MAX).
    pub arity: u32,
    /// A group that is not full after this long ends at its authority; everybody who waits knows within 1.25 times
    /// this, plus the way of the news.
    pub timeout: Lapse,
    /// The first repetition of what is not acknowledged; the following ones double up to 64 times this.
    pub resend: Lapse,
    /// How often a silent link is used, so that the peer knows that this process lives.
    pub ping: Lapse,
    /// A peer that is silent for this long, although its link is up, has failed. On a busy machine living peers are
    /// silent too: what a death looks like there is the end of the link.
    pub silence: Lapse,
    /// A peer whose link is gone, and did not come back for this long, has failed.
    pub grace: Lapse,
    /// A rank that is silent for this long, although its link is up, has failed. Ranks that run no code of ours
    /// while others read their memory need a long one: their death is told by the link.
    pub rank_silence: Lapse,
    /// A rank whose link is gone for this long has died.
    pub rank_grace: Lapse,
    /// See [`AfterRestart`].
    pub after_restart: AfterRestart,
    /// See [`Audience`].
    pub audience: Audience,
    /// Most ranks of the job; a peer that names more is refused.
    pub ranks_max: u32,
}

impl Config {
    /// Defaults for a job on a fast network: time-out 10 s, repetitions from 20 ms, pings every 250 ms, failure
    /// after 2 s of silence or without a link.
    #[must_use]
    pub const fn new(sp: Sp, incarnation: Incarnation, job: JobKey) -> Config {
        Config {
            sp,
            incarnation,
            job,
            arity: 4,
            timeout: Lapse::from_secs(10),
            resend: Lapse::from_millis(20),
            ping: Lapse::from_millis(250),
            silence: Lapse::from_secs(2),
            grace: Lapse::from_secs(2),
            rank_silence: Lapse::from_secs(2),
            rank_grace: Lapse::from_secs(1),
            after_restart: AfterRestart::Rebuild,
            audience: Audience::Members,
            ranks_max: 1 << 20,
        }
    }
}

/// The types of the lent storage: arrays in firmware, vectors on a host.
pub trait Storage {
    /// Groups that are alive, and ended ones whose generation is remembered.
    type Records: AsRef<[Record]> + AsMut<[Record]>;
    /// Where each group's record is; a third more than records.
    type Index: AsRef<[Entry<u128, u32>]> + AsMut<[Entry<u128, u32>]>;
    /// Words for what groups need while they are filled.
    type Words: AsRef<[u64]> + AsMut<[u64]>;
    /// Records of the allocator over the words: about 8 a group that is being filled.
    type Blocks: AsRef<[Block]> + AsMut<[Block]>;
    /// Links that can be open at once; the driver's link numbers are below its length.
    type Links: AsRef<[LinkSlot]> + AsMut<[LinkSlot]>;
    /// Service processes of the job.
    type Peers: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>;
    /// Ranks that this service process serves.
    type Locals: AsRef<[LocalSlot]> + AsMut<[LocalSlot]>;
    /// Answers waiting to be sent; one that does not fit is lost and asked for again.
    type Answers: AsRef<[Answer]> + AsMut<[Answer]>;
    /// Events waiting for the owner; one that does not fit is counted.
    type Events: AsRef<[Option<Event>]> + AsMut<[Option<Event>]>;
}

/// The lent storage itself.
#[derive(Debug)]
pub struct Lent<S: Storage> {
    /// See [`Storage::Records`].
    pub records: S::Records,
    /// See [`Storage::Index`].
    pub index: S::Index,
    /// See [`Storage::Words`].
    pub words: S::Words,
    /// See [`Storage::Blocks`].
    pub blocks: S::Blocks,
    /// See [`Storage::Links`].
    pub links: S::Links,
    /// See [`Storage::Peers`].
    pub peers: S::Peers,
    /// See [`Storage::Locals`].
    pub locals: S::Locals,
    /// See [`Storage::Answers`].
    pub answers: S::Answers,
    /// See [`Storage::Events`].
    pub events: S::Events,
}

/// What is known of one link: lent by the owner, opaque.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkSlot {
    pub(crate) identity: Option<Identity>,
    /// Index of the local rank behind it.
    pub(crate) local: Option<u32>,
}

/// The machine of a service process.
#[derive(Debug)]
pub struct Service<'p, S: Storage, C> {
    config: Config,
    placement: Placement<'p>,
    shelf: C,
    heap: Heap<S::Words, S::Blocks>,
    records: S::Records,
    index: Map<S::Index>,
    links: S::Links,
    peers: S::Peers,
    locals: S::Locals,
    answers: answers::Queue<S::Answers>,
    events: report::Events<S::Events>,
    resends: Timers,
    deadlines: Timers,
    /// Records with something to send, oldest first.
    work: (u32, u32),
    unused: u32,
    world: u32,
    world_size: u32,
    n_local: u32,
    dead: u32,
    view: u64,
    fenced: bool,
    rank_pings_due: bool,
    tick_at: Time,
    peers_at: Time,
    serial: u32,
    counters: Counters,
}

impl<'p, S: Storage, C: Shelf> Service<'p, S, C> {
    /// A service process that knows nobody yet. What the lent storage holds is overwritten.
    ///
    /// Service processes beyond the length of [`Storage::Peers`] and groups beyond that of [`Storage::Records`]
    /// are refused when they appear.
    #[must_use]
    pub fn new(config: Config, placement: Placement<'p>, shelf: C, mut lent: Lent<S>, now: Time) -> Self {
        lent.records.as_mut().fill(Record::default());
        lent.links.as_mut().fill(LinkSlot::default());
        lent.peers.as_mut().fill(PeerSlot::default());
        lent.locals.as_mut().fill(LocalSlot::default());
        lent.events.as_mut().fill(None);
        let count = u32::try_from(lent.records.as_ref().len()).unwrap_or(NIL);
        for (index, record) in (0..count).zip(lent.records.as_mut()) {
            record.next_unused = if index + 1 < count { index + 1 } else { NIL };
        }
        let mut service = Service {
            placement,
            shelf,
            heap: Heap::new(lent.words, lent.blocks),
            records: lent.records,
            // The keys are hashes under the job's key already: nobody can choose colliding ones.
            index: Map::new(lent.index, config.incarnation.0),
            links: lent.links,
            peers: lent.peers,
            locals: lent.locals,
            answers: answers::Queue::new(lent.answers),
            events: report::Events::new(lent.events),
            resends: Timers::new(config.resend, config.timeout),
            deadlines: Timers::new(config.resend, config.timeout),
            work: (NIL, NIL),
            unused: if count == 0 { NIL } else { 0 },
            world: NIL,
            world_size: 0,
            n_local: 0,
            dead: 0,
            view: 0,
            fenced: false,
            rank_pings_due: false,
            tick_at: now + config.ping,
            peers_at: Time::NEVER,
            serial: 0,
            counters: Counters::default(),
            config,
        };
        let own = service.config.incarnation;
        if let Some(me) = service.peer_mut(service.config.sp) {
            me.incarnation = own;
        }
        service
    }

    /// The tables of full groups.
    #[must_use]
    pub const fn shelf(&self) -> &C {
        &self.shelf
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far, in numbers.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The shape of the job.
    #[must_use]
    pub const fn placement(&self) -> &Placement<'p> {
        &self.placement
    }

    fn rec(&self, at: u32) -> &Record {
        &self.records.as_ref()[at as usize]
    }

    fn rec_mut(&mut self, at: u32) -> &mut Record {
        &mut self.records.as_mut()[at as usize]
    }
}

impl<S: Storage, C: Shelf> Machine for Service<'_, S, C> {
    type Event = Event;

    fn on_link(&mut self, link: Link, identity: Identity, now: Time) {
        let Some(slot) = self.links.as_mut().get_mut(link.index()) else {
            self.counters.refused += 1;
            crate::log!(warn, "{:?} has no place in the table of links", link);
            self.answers.push(Answer::Close { link, reason: crate::error::Status::Full });
            return;
        };
        *slot = LinkSlot { identity: Some(identity), local: None };
        if let Role::Service(sp) = identity.role {
            self.peer_up(link, sp, identity.incarnation, now);
        }
    }

    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time) {
        let slot = self.links.as_ref().get(link.index()).copied().unwrap_or_default();
        let Some(identity) = slot.identity else { return };
        self.counters.received += 1;
        let taken = match identity.role {
            Role::Service(sp) => self.take_from_service(link, sp, identity.incarnation, frame, now),
            Role::Rank => self.take_from_rank(link, identity.incarnation, slot.local, frame, now),
            Role::Observer => Err(super::message::MessageError::BadField),
        };
        if taken.is_err() {
            self.counters.malformed += 1;
            crate::log!(warn, "{:?} of {:?}: a malformed {:?}", link, identity.role, frame.op());
        }
    }

    fn on_gone(&mut self, link: Link, now: Time) {
        let Some(slot) = self.links.as_mut().get_mut(link.index()) else { return };
        let gone = core::mem::take(slot);
        match gone.identity.map(|identity| identity.role) {
            Some(Role::Service(sp)) => self.peer_down(link, sp, now),
            Some(Role::Rank) => self.rank_link_gone(link, gone.local, now),
            _ => {}
        }
    }

    fn on_time(&mut self, now: Time) {
        self.tick(now);
    }

    fn poll(&mut self, now: Time, buffer: &mut [u8]) -> Option<crate::machine::Action<Event>> {
        self.next_action(now, buffer)
    }

    fn deadline(&self) -> Option<Time> {
        let at = self.resends.next().min(self.deadlines.next()).min(self.tick_at).min(self.peers_at);
        (at < Time::NEVER).then_some(at)
    }
}

/// The group's table, if this generation of it is full here.
impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// The handle under which the current generation of a group is published here; the world group is asked for by
    /// [`WORLD`](super::message::WORLD).
    #[must_use]
    pub fn handle(&self, key: crate::endpoints::GroupKey) -> Option<Id<crate::endpoints::Group>> {
        self.find(key).and_then(|at| self.rec(at).handle)
    }

    fn take_from_service(
        &mut self,
        link: Link,
        sp: Sp,
        incarnation: Incarnation,
        frame: &Frame<'_>,
        now: Time,
    ) -> Result<(), super::message::MessageError> {
        if !self.heard(link, sp, incarnation, now) {
            self.counters.stale_peer += 1;
            return Ok(());
        }
        match *frame {
            Frame::Null { op: ops::PING, arg, .. } => self.on_ping(sp, arg),
            Frame::Call { op: ops::PART, token, body } => return self.on_part(link, sp, token, body, now),
            Frame::Call { op: ops::SNAPSHOT, token, body } => return self.on_snapshot(link, token, body, now),
            Frame::Call { op: ops::END, token, body } => return self.on_end(link, sp, token, body, now),
            Frame::Call { op: ops::VIEW, body, .. } => return self.on_view(body, now),
            Frame::Done { op: ops::PART, token, status, body } => {
                return self.on_part_done(sp, token, status, body, now);
            }
            Frame::Done { op: ops::SNAPSHOT | ops::END, token, body, .. } => {
                return self.on_pushed(link, sp, token, frame.op(), body, now);
            }
            _ => return Err(super::message::MessageError::BadField),
        }
        Ok(())
    }
}
