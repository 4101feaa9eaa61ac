//! A rank of a job: its groups, endpoints, exports, and reads of others' memory.
//!
//! A [`Session`] is one application process' membership in a job. It owns links to the rank's shadow service
//! processes and does nothing by itself: there is no thread, and no code of ours runs in the application between two
//! calls. While service processes read exported memory, the rank need not call anything.
//!
//! Look-ups read the endpoint cache of the service process, mapped read-only once: two array accesses, no lock, no
//! message (see [`Reader`]). A rank that reaches its service process over TCP only gets each table once and keeps it.
//!
//! ```no_run
//! use umbra::config::Platform;
//! use umbra::secret::Secret;
//! use umbra::session::{Session, Settings, Seat};
//! use umbra_core::peer::{Host, LocalRank, Rank, WorldRank};
//! let job = Platform::read("job.cfg")?.job(&["bf1", "bf2"])?;
//! let secret = Secret::read("secret".as_ref())?;
//! let seat = Seat { rank: WorldRank(0), size: 8, host: Host(0), local: LocalRank(0), n_local: 4 };
//! let mut session = Session::join(Settings::new(job, secret, seat))?;
//! let pair = session.create_group(7, &[WorldRank(0), WorldRank(5)])?;
//! let endpoint = session.endpoints().lookup(pair.handle, Rank(1))?;
//! println!("{} is reached through service process {}", endpoint.peer, endpoint.sp);
//! let key = session.export_bytes(vec![1, 2, 3])?;
//! let ticket = session.ticket(key).ok_or("exported memory has a ticket")?;
//! let mut bytes = [0; 2];
//! session.read(&ticket, 1, &mut bytes)?;
//! session.revoke(key)?;
//! session.leave()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Threads that all read other ranks' memory share a session as a [`SharedSession`]. A session is of the process that joined and
//! ends with it, also while a child that it forked off lives. In the child, calls on it are refused with
//! [`SessionError::Forked`], and dropping it changes nothing for the parent; a program that goes on in a child joins there.
//!
//! Every call that waits has the deadline of [`Settings`] and fails with a [`SessionError`] that names who is
//! missing.

mod calling;
mod error;
mod expecting;
mod exposing;
mod forked;
mod kept;
mod memory;
mod progress;
mod reading;
mod settings;
mod shared;
mod tables;
mod view;

pub use calling::Calls;
pub use error::SessionError;
pub use reading::Posted;
pub use settings::{Patience, Rdma, Seat, Settings};
pub use shared::SharedSession;
pub use view::Endpoints;

use std::collections::HashMap;

use umbra_core::endpoints::{Descriptor, Group, GroupKey, JobKey, Reader};
use umbra_core::error::Status;
use umbra_core::group::Cause;
use umbra_core::group::member::{self, Member, State};
use umbra_core::group::message::WORLD;
use umbra_core::id::{Generation, Id};
use umbra_core::key::Key;
use umbra_core::map::Entry;
use umbra_core::memory::Block;
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{self, Regions};
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, HEAD, Token};

use crate::access::exposure::Exposure;
use crate::driver::{self, Driver, Limits, LinkId};
use crate::group::Heap;
use crate::link::{Close, Identity, Party};
use crate::secret;
use crate::sys::fork;
use crate::sys::segment::Segment;
pub use kept::{Exported, Left, Unexported};
use tables::Tables;

/// Groups that a rank can be a member of, or remember, at once.
const GROUPS: usize = 4096;
/// Words for descriptors of groups.
const WORDS: usize = 1 << 20;
/// Regions that a rank can export at once.
const REGIONS: usize = 1024;
const EVENTS: usize = 256;

/// A full group that this rank is a member of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupHandle {
    /// What to look endpoints up with; another one after the service process was started again.
    pub handle: Id<Group>,
    /// Which generation of the group.
    pub generation: Generation,
    /// What the group is called between processes.
    pub key: GroupKey,
    /// How many ranks it has.
    pub size: u32,
}

/// A link to one of the rank's shadow service processes.
struct Shadow {
    sp: Sp,
    link: LinkId,
    up: bool,
    /// How often a link came up: numbers of links are used again.
    ups: u32,
    /// It was told over this link what is exported.
    told: bool,
    /// Why it was given up; its link is none of the session's any more.
    why: Option<Close>,
}

impl Shadow {
    /// Whether this is the link to it: numbers of links are used again.
    fn has(&self, link: LinkId) -> bool {
        self.why.is_none() && self.link == link
    }
}

/// The key that hashes the groups of a job, from its secret; the same in every process of the job.
#[must_use]
pub fn job_key(secret: &secret::Secret) -> JobKey {
    let hash = blake3::keyed_hash(secret.bytes(), b"umbra group keys");
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    JobKey::new(half)
}

/// One application process' membership in a job.
pub struct Session {
    settings: Settings,
    /// Of the process that joined.
    life: u32,
    incarnation: Incarnation,
    driver: Driver,
    member: Member<Heap>,
    shadows: Vec<Shadow>,
    arena: Option<Segment>,
    /// In place of the arena, if there is no Unix socket over which it could come.
    tables: Option<Tables>,
    /// Groups that ended, and why, until somebody asks; so many of them.
    ended: HashMap<u128, Cause>,
    /// Groups that were refused, until somebody asks.
    refused: HashMap<u128, (Status, u32)>,
    /// Ranks of groups that were full and have not ended.
    sizes: HashMap<u128, u32>,
    lost: Option<Sp>,
    left: bool,
    regions: Regions<Vec<region::Entry>>,
    /// Exported memory by key, with the message that exports it; without one if the export failed, and it is kept for
    /// service processes that may read it still.
    exported: HashMap<u64, (kept::Kept, Option<Vec<u8>>)>,
    /// What was revoked and is still registered with an RDMA device, by key.
    revoked: HashMap<u64, kept::Kept>,
    /// What others need to reach memory over RDMA, once some is exported so.
    exposure: Option<Exposure>,
    /// The last call whose answers are waited for: late ones to others count not.
    asked: Token,
    /// Answers of shadow service processes to an export or a revocation, and why in words if one said so.
    answers: HashMap<LinkId, (Status, String)>,
    /// The answer about chained calls, until it is taken.
    invitation: Option<calling::Invitation>,
    next_token: u64,
    reads: reading::Reads,
    /// Bytes of the last blocking read, for the next one.
    spare: Vec<u8>,
    buffer: Vec<u8>,
}

impl Session {
    /// Connects to the rank's service processes and joins the world group; returns when it is full.
    ///
    /// # Errors
    /// [`SessionError`]: who could not be reached, who refused and why, who was missing at the deadline.
    pub fn join(settings: Settings) -> Result<Session, SessionError> {
        let mut session = Session::connect(settings)?;
        let deadline = session.deadline();
        session.wait(
            "the world group",
            deadline,
            &[session.first()],
            |s| s.world().is_some() && s.endpoints().reader().is_some(),
            Some(WORLD),
        )?;
        Ok(session)
    }

    /// Begins to join: dials, and returns at once. Call [`progress`](Self::progress) until
    /// [`world`](Self::world) answers.
    ///
    /// # Errors
    /// [`SessionError`] if the seat does not exist or the system refuses.
    pub fn connect(settings: Settings) -> Result<Session, SessionError> {
        fork::watch();
        let peer = Peer::rank(settings.seat.rank).ok_or(SessionError::NoSuchSeat)?;
        let life = secret::random::<8>().map_err(|error| SessionError::Io { what: "get random bytes", error })?;
        let incarnation = Incarnation(u64::from_le_bytes(life) | 1);
        let me = Identity { party: Party::Peer(peer), incarnation };
        let mut driver = Driver::new(me, settings.secret.clone(), Limits::default());
        let now = driver::now();
        let config = settings.member_config(incarnation);
        let lent = member::Lent {
            groups: vec![member::Membership::default(); GROUPS],
            index: vec![Entry::EMPTY; GROUPS * 4 / 3 + 1],
            words: vec![0; WORDS],
            blocks: vec![Block::default(); 2 * GROUPS + 1],
            events: vec![None; EVENTS],
        };
        let tables = match settings.sockets {
            Some(_) => None,
            None => {
                let tables = Tables::new(settings.seat.size, settings.job.service_processes(), settings.shadows);
                Some(tables.map_err(SessionError::Tables)?)
            }
        };
        let mut shadows = Vec::new();
        for sp in settings.shadows()? {
            let peer = Peer::service(sp).ok_or(SessionError::NoSuchSeat)?;
            let address = settings.address(sp).ok_or(SessionError::NoSuchSeat)?;
            let link = driver.dial(address, Party::Peer(peer), now + settings.lapse()).map_err(SessionError::Send)?;
            shadows.push(Shadow { sp, link, up: false, ups: 0, told: false, why: None });
        }
        Ok(Session {
            life: fork::life(),
            member: Member::new(config, lent, now),
            incarnation,
            driver,
            shadows,
            arena: None,
            tables,
            ended: HashMap::new(),
            refused: HashMap::new(),
            sizes: HashMap::new(),
            lost: None,
            left: false,
            regions: Regions::new(vec![region::Entry::VACANT; REGIONS]),
            exported: HashMap::new(),
            revoked: HashMap::new(),
            exposure: None,
            asked: memory::NOBODY_WAITS,
            answers: HashMap::new(),
            invitation: None,
            next_token: 1,
            reads: reading::Reads::new(),
            spare: Vec::new(),
            buffer: vec![0; HEAD + BODY_MAX],
            settings,
        })
    }

    fn deadline(&self) -> Time {
        driver::now() + self.settings.lapse()
    }

    /// The token of a call whose answers are waited for from now on.
    fn next_asked(&mut self) -> Token {
        self.asked = Token(self.next_token);
        self.next_token += 1;
        self.answers.clear();
        self.invitation = None;
        self.asked
    }

    /// Which rank this is, and where.
    #[must_use]
    pub const fn seat(&self) -> &Seat {
        &self.settings.seat
    }

    /// The rank's shadow service processes, in order.
    pub fn shadows(&self) -> impl ExactSizeIterator<Item = Sp> + '_ {
        self.shadows.iter().map(|s| s.sp)
    }

    /// How often the system woke this process for its links: stands still while others read its memory.
    #[must_use]
    pub const fn wakeups(&self) -> u64 {
        self.driver.wakeups()
    }

    /// The world group, once it is full.
    #[must_use]
    pub fn world(&self) -> Option<GroupHandle> {
        self.group(WORLD)
    }

    /// A group that this rank has joined, once it is full.
    #[must_use]
    pub fn group(&self, key: GroupKey) -> Option<GroupHandle> {
        if self.member.state(key) != State::Ready {
            return None;
        }
        let (theirs, size) = (self.member.handle(key)?, *self.sizes.get(&key.0)?);
        let handle = self.tables.as_ref().map_or(Some(theirs), |tables| tables.handle(key))?;
        Some(GroupHandle { handle, generation: self.member.generation(key), key, size })
    }

    /// Creates a group together with its other members, in this order; returns when it is full. `id` is the
    /// runtime's number for it (an MPI context id).
    ///
    /// # Errors
    /// [`SessionError`]; the group is left again then, and can be created anew once it has ended.
    pub fn create_group(&mut self, id: u32, members: &[WorldRank]) -> Result<GroupHandle, SessionError> {
        let key = self.start_group(id, members)?;
        let deadline = self.deadline();
        let waited = self.wait("a group", deadline, &[self.first()], |s| s.group(key).is_some(), Some(key));
        if waited.is_err() && self.member.leave(key).is_ok() {
            // Nobody knows its key, so nobody else could leave it.
            self.pump();
        }
        waited?;
        self.group(key).ok_or(SessionError::NotReady)
    }

    /// Begins to create a group and returns at once. Call [`progress`](Self::progress) until
    /// [`group`](Self::group) answers.
    ///
    /// # Errors
    /// [`SessionError`] if the members make no group, this rank is none of them, or it has joined already.
    pub fn start_group(&mut self, id: u32, members: &[WorldRank]) -> Result<GroupKey, SessionError> {
        self.refuse_heirs()?;
        // A run takes 12 bytes, and there are at most as many runs as members.
        let mut bytes = vec![0; 64 + 12 * members.len()];
        let descriptor =
            Descriptor::write(id, members.iter().copied(), &mut bytes).map_err(SessionError::Descriptor)?;
        let key = self.member.join(&descriptor, driver::now()).map_err(SessionError::Join)?;
        self.ended.remove(&key.0);
        self.refused.remove(&key.0);
        self.pump();
        Ok(key)
    }

    /// Leaves a group. Its generation ends when all members have left; look-ups with its handle answer
    /// `StaleGeneration` from then on. Does not wait.
    ///
    /// # Errors
    /// [`SessionError::Leave`].
    pub fn free_group(&mut self, group: GroupHandle) -> Result<(), SessionError> {
        self.refuse_heirs()?;
        self.member.leave(group.key).map_err(SessionError::Leave)?;
        self.pump();
        Ok(())
    }

    /// Waits until a group that was freed has ended for all.
    ///
    /// # Errors
    /// [`SessionError`], also if other members do not free it before the deadline.
    pub fn wait_ended(&mut self, group: GroupHandle) -> Result<Cause, SessionError> {
        let (key, deadline) = (group.key, self.deadline());
        let has_ended = |s: &Session| s.ended.contains_key(&key.0) || s.member.state(key) == State::Out;
        self.wait("the end of a group", deadline, &[self.first()], has_ended, None)?;
        Ok(self.ended.remove(&key.0).unwrap_or(Cause::LEFT))
    }

    /// The endpoint cache, as this rank's service process has it; [`join`](Self::join) has mapped it. Without a Unix
    /// socket to the service process: the tables of this rank's groups.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints<'_> {
        match &self.tables {
            Some(tables) => Endpoints(tables.reader()),
            None => Endpoints(self.arena.as_ref().and_then(|arena| Reader::attach(arena.all_words()).ok())),
        }
    }

    /// Leaves the job: takes exported memory back, leaves all groups, tells the service processes.
    ///
    /// # Errors
    /// [`SessionError`] if a service process does not confirm before the deadline; the links are closed all the
    /// same.
    pub fn leave(mut self) -> Result<(), SessionError> {
        self.refuse_heirs()?;
        let keys: Vec<u64> = self.exported.keys().chain(self.revoked.keys()).copied().collect();
        // Who cannot take its memory back leaves all the same: what others hold of it ends with the session.
        let taken = keys.into_iter().try_for_each(|key| self.revoke(Key::from_bits(key)).map(drop));
        match self.member.leave(WORLD) {
            // What has ended need not be left.
            Ok(()) | Err(_) if self.lost.is_some() => return taken,
            Err(_) => return taken,
            Ok(()) => {}
        }
        self.pump();
        let (deadline, first) = (self.deadline(), self.first());
        let has_left = |s: &Session| s.left || s.ended.contains_key(&WORLD.0);
        let left = self.wait("the confirmation of leaving", deadline, &[first], has_left, None);
        taken.and(left)
    }

    /// The service process that answers for groups, reads and calls.
    fn first(&self) -> Sp {
        self.shadows.first().map_or(Sp(0), |s| s.sp)
    }
}
