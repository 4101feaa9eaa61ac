//! The bootstrap in a rank.
//!
//! The driver opens one link, to the rank's first shadow service process, and opens it again when it breaks. The
//! machine says who the rank is, joins and leaves groups on demand and reports what came of it. It never
//! counts anything: which generation it joins follows from the last one that it has seen end.
//!
//! ```text
//! join -> Waiting (for the world) -> Joining -> Joined -> Ready -> leave -> Leaving -> ended
//! ```
//!
//! Storage is lent: [`Lent`]. *Cost*: a message is O(1), joining O(length of the descriptor).

mod drive;
mod groups;
mod offer;
mod refusal;
mod storage;

use crate::endpoints::{Descriptor, Group, GroupKey, JobKey};
use crate::error::Status;
use crate::id::{Generation, Id};
use crate::machine::{Action, Identity, Link, Machine, Role};
use crate::map::Map;
use crate::peer::{Host, Incarnation, LocalRank, Rank, Sp, WorldRank};
use crate::time::{Lapse, Time};
use crate::wire::Frame;

pub use refusal::{JoinError, LeaveError};
pub use storage::{Lent, Storage};

use super::cause::Cause;
use super::heap::{Heap, Piece};
use super::message::WORLD;
use super::timers::{NIL, Node, Timers};

/// Settings of one rank.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which life of the process; random, never zero.
    pub incarnation: Incarnation,
    /// The key under which the job hashes its groups.
    pub job: JobKey,
    /// Ranks in the world group.
    pub size: u32,
    /// Its world rank.
    pub rank: WorldRank,
    /// Its host.
    pub host: Host,
    /// Its number among the ranks of its host.
    pub local: LocalRank,
    /// Ranks on its host.
    pub n_local: u32,
    /// The service process to which its link goes, if the owner knows its number: named when no link ever comes up.
    pub sp: Option<Sp>,
    /// Time-out of the service processes; a rank that hears nothing gives up after 1.5 times this.
    pub timeout: Lapse,
    /// The first repetition of what is not answered; the following ones double.
    pub resend: Lapse,
    /// How often a silent link is used.
    pub ping: Lapse,
    /// A service process that is silent for this long, although its link is up, has failed.
    pub silence: Lapse,
    /// A service process to which there is no link for this long has failed.
    pub grace: Lapse,
}

impl Config {
    /// The rank's place in the job, with the defaults of [`service::Config`](super::service::Config).
    #[must_use]
    pub const fn new(
        incarnation: Incarnation,
        job: JobKey,
        rank: WorldRank,
        size: u32,
        host: Host,
        local: LocalRank,
        n_local: u32,
    ) -> Config {
        Config {
            incarnation,
            job,
            size,
            rank,
            host,
            local,
            n_local,
            sp: None,
            timeout: Lapse::from_secs(10),
            resend: Lapse::from_millis(20),
            ping: Lapse::from_millis(250),
            silence: Lapse::from_secs(2),
            grace: Lapse::from_secs(2),
        }
    }
}

/// State of one membership.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State {
    /// Not a member; at most the number of the last generation is remembered.
    #[default]
    Out,
    /// To be joined when the world group is ready.
    Waiting,
    /// The service process does not know yet.
    Joining,
    /// It knows; the group is not full.
    Joined,
    /// The group's table is published.
    Ready,
    /// Has left; the generation has not ended yet.
    Leaving,
}

/// News for the owner of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The service process has admitted the rank.
    Admitted {
        /// By whom.
        sp: Sp,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A group is full; its table can be read under this handle. May come again with another handle after a restart
    /// of the service process.
    Ready {
        /// Which group; [`WORLD`] for the world group.
        key: GroupKey,
        /// Which generation.
        generation: Generation,
        /// The table's handle at the service process.
        handle: Id<Group>,
        /// Ranks.
        size: u32,
        /// Digest of the table's bytes.
        digest: u64,
    },
    /// A generation is over.
    Ended {
        /// Which group.
        key: GroupKey,
        /// Which generation.
        generation: Generation,
        /// Why, and who was missing.
        cause: Cause,
    },
    /// The service process refuses the rank, or that it joins this group.
    Refused {
        /// Which group; [`WORLD`] if the rank itself is refused.
        key: GroupKey,
        /// Why.
        status: Status,
        /// `WrongServiceProcess`: the right one; `Conflict`: the code of the [`Field`](super::Field);
        /// `StaleGeneration`: the last one that ended.
        word: u32,
    },
    /// The link to the service process is down for so long that it must have failed. What is ready can still be
    /// looked up; the rank is admitted again when the link is back.
    ServiceLost {
        /// Which.
        sp: Option<Sp>,
    },
}

/// One membership: lent by the owner, opaque.
#[derive(Clone, Debug)]
pub struct Membership {
    pub(crate) key: GroupKey,
    /// The current generation, or the last one.
    pub(crate) generation: Generation,
    pub(crate) state: State,
    pub(crate) handle: Option<Id<Group>>,
    pub(crate) rank: Rank,
    pub(crate) descriptor: Piece,
    pub(crate) len: u32,
    pub(crate) taken: u32,
    /// The service process has confirmed it in this generation.
    pub(crate) confirmed: bool,
    /// Join again when this generation has ended.
    pub(crate) again: bool,
    /// The owner was told that waiting was in vain: the end is no news.
    pub(crate) reported: bool,
    /// A request is unanswered.
    pub(crate) asked: bool,
    pub(crate) step: u8,
    pub(crate) resend: Node,
    pub(crate) deadline: Node,
    pub(crate) queued: bool,
    pub(crate) next_queued: u32,
    pub(crate) next_unused: u32,
    /// Last use, for forgetting the oldest.
    pub(crate) used: bool,
}

impl Default for Membership {
    fn default() -> Self {
        Membership {
            key: WORLD,
            generation: Generation::NEVER,
            state: State::Out,
            handle: None,
            rank: Rank(0),
            descriptor: None,
            len: 0,
            taken: 0,
            confirmed: false,
            again: false,
            reported: false,
            asked: false,
            step: 0,
            resend: Node::default(),
            deadline: Node::default(),
            queued: false,
            next_queued: NIL,
            next_unused: NIL,
            used: false,
        }
    }
}

/// The machine of a rank.
#[derive(Debug)]
pub struct Member<S: Storage> {
    config: Config,
    heap: Heap<S::Words, S::Blocks>,
    groups: S::Groups,
    index: Map<S::Index>,
    events: S::Events,
    event_front: usize,
    event_len: usize,
    resends: Timers,
    deadlines: Timers,
    work: (u32, u32),
    unused: u32,
    world: u32,
    /// The group whose descriptor goes to the service process in pieces.
    offering: u32,
    link: Option<(Link, Sp, Incarnation)>,
    /// The service process that was last seen.
    sp: Option<Sp>,
    sp_life: Incarnation,
    admitted: bool,
    lost: bool,
    heard: Time,
    sent: Time,
    tick_at: Time,
    ping_due: bool,
    close: Option<Link>,
    acks: heapless::Deque<drive::Ack, { drive::ACKS }>,
    malformed: u64,
}

impl<S: Storage> Member<S> {
    /// A rank that joins the world group as soon as it has a link.
    #[must_use]
    pub fn new(config: Config, mut lent: Lent<S>, now: Time) -> Self {
        lent.groups.as_mut().fill(Membership::default());
        lent.events.as_mut().fill(None);
        let count = u32::try_from(lent.groups.as_ref().len()).unwrap_or(NIL);
        for (index, group) in (0..count).zip(lent.groups.as_mut()) {
            group.next_unused = if index + 1 < count { index + 1 } else { NIL };
        }
        let long = Lapse(config.timeout.0.saturating_mul(2));
        let mut member = Member {
            heap: Heap::new(lent.words, lent.blocks),
            groups: lent.groups,
            index: Map::new(lent.index, config.incarnation.0),
            events: lent.events,
            event_front: 0,
            event_len: 0,
            resends: Timers::new(config.resend, long),
            deadlines: Timers::new(config.resend, long),
            work: (NIL, NIL),
            unused: if count == 0 { NIL } else { 0 },
            world: NIL,
            offering: NIL,
            link: None,
            sp: None,
            sp_life: Incarnation(0),
            admitted: false,
            lost: false,
            heard: now,
            sent: now,
            tick_at: now + config.ping,
            ping_due: false,
            close: None,
            acks: heapless::Deque::new(),
            malformed: 0,
            config,
        };
        member.enter_world(now);
        member
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the service process has admitted this rank on the current link.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// The key of a group, for [`leave`](Self::leave) and [`state`](Self::state).
    #[must_use]
    pub fn key(&self, descriptor: &Descriptor<'_>) -> GroupKey {
        self.config.job.group(descriptor)
    }

    /// What became of a group; the world group is asked for by [`WORLD`].
    #[must_use]
    pub fn state(&self, key: GroupKey) -> State {
        self.find(key).map_or(State::Out, |at| {
            let group = self.group(at);
            let over = group.state == State::Leaving && group.reported && !group.again;
            if over { State::Out } else { group.state }
        })
    }

    /// The current generation of a group, or the last one.
    #[must_use]
    pub fn generation(&self, key: GroupKey) -> Generation {
        self.find(key).map_or(Generation::NEVER, |at| self.group(at).generation)
    }

    /// The handle of a group's table at the service process.
    #[must_use]
    pub fn handle(&self, key: GroupKey) -> Option<Id<Group>> {
        self.find(key).and_then(|at| self.group(at).handle)
    }

    /// Frames that were none of ours.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    pub(super) fn group(&self, at: u32) -> &Membership {
        &self.groups.as_ref()[at as usize]
    }

    pub(super) fn group_mut(&mut self, at: u32) -> &mut Membership {
        &mut self.groups.as_mut()[at as usize]
    }
}

impl<S: Storage> Machine for Member<S> {
    type Event = Event;

    fn on_link(&mut self, link: Link, identity: Identity, now: Time) {
        if let Role::Service(sp) = identity.role {
            self.link_up(link, sp, identity.incarnation, now);
        }
    }

    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time) {
        if self.link.is_some_and(|(known, ..)| known == link) {
            self.heard = now;
            if self.take_frame(frame, now).is_err() {
                self.malformed += 1;
            }
        }
    }

    fn on_gone(&mut self, link: Link, now: Time) {
        if self.link.is_some_and(|(known, ..)| known == link) {
            self.link = None;
            self.admitted = false;
            self.heard = now;
            self.tick_at = self.tick_at.min(now + self.config.grace);
        }
    }

    fn on_time(&mut self, now: Time) {
        self.tick(now);
    }

    fn poll(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action<Event>> {
        self.next_action(now, buffer)
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.resends.next().min(self.deadlines.next()).min(self.tick_at))
    }
}
