//! A rank of a job: joins, forms groups, looks endpoints up, exports memory.
//!
//! A [`Session`] is one application process' membership in a job. It owns links to the rank's shadow service
//! processes and does nothing by itself: there is no thread, and no code of ours runs in the application between two
//! calls. While service processes read exported memory, the rank need not call anything.
//!
//! Look-ups read the endpoint cache of the service process, mapped read-only once: two array accesses, no lock, no
//! message (see [`Reader`]).
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
//! session.revoke(key)?;
//! session.leave()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every call that waits has the deadline of [`Settings`] and fails with a [`SessionError`] that names who is
//! missing.

mod error;
mod memory;
mod settings;

pub use error::SessionError;
pub use settings::{Seat, Settings};

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use umbra_core::endpoints::{Descriptor, Endpoint, Group, GroupKey, JobKey, LookupError, Reader};
use umbra_core::error::Status;
use umbra_core::group::Cause;
use umbra_core::group::member::{self, Member, State};
use umbra_core::group::message::WORLD;
use umbra_core::group::ops as group_ops;
use umbra_core::id::Id;
use umbra_core::machine::{Action, Identity as MachineIdentity, Link, Machine as _, Role};
use umbra_core::map::Entry;
use umbra_core::memory::Block;
use umbra_core::peer::{Incarnation, Peer, Rank, Sp, WorldRank};
use umbra_core::region::{self, Regions};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, HEAD, Token};

use crate::admin::ops;
use crate::driver::{self, Driver, Event, Limits, LinkId};
use crate::group::Heap;
use crate::link::{Address, Close, Identity, Party, socket_path};
use crate::secret;
use crate::sys::segment::{Mapping, Segment};
pub use memory::Exported;
use memory::NOBODY_WAITS;

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
    /// What to look endpoints up with.
    pub handle: Id<Group>,
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
    why: Option<Close>,
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
    incarnation: Incarnation,
    driver: Driver,
    member: Member<Heap>,
    shadows: Vec<Shadow>,
    arena: Option<Segment>,
    /// Groups that ended, and why, until somebody asks.
    ended: HashMap<u128, Cause>,
    /// Groups that were refused, until somebody asks.
    refused: HashMap<u128, (Status, u32)>,
    sizes: HashMap<u128, u32>,
    lost: Option<Sp>,
    left: bool,
    regions: Regions<Vec<region::Entry>>,
    /// Exported memory by key, with the message that exports it.
    exported: HashMap<u64, (Exported, Vec<u8>)>,
    /// Answers of shadow service processes to exports and revocations.
    answers: HashMap<(LinkId, Token), Status>,
    next_token: u64,
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
        session.wait("the world group", deadline, |s| s.world().is_some() && s.arena.is_some(), Some(WORLD))?;
        Ok(session)
    }

    /// Begins to join: dials, and returns at once. Call [`progress`](Self::progress) until
    /// [`world`](Self::world) answers.
    ///
    /// # Errors
    /// [`SessionError`] if the seat does not exist or the system refuses.
    pub fn connect(settings: Settings) -> Result<Session, SessionError> {
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
        let mut shadows = Vec::new();
        for sp in settings.shadows()? {
            let peer = Peer::service(sp).ok_or(SessionError::NoSuchSeat)?;
            let address = match (&settings.sockets, settings.job.address(sp)) {
                (Some(dir), _) => Address::Unix(socket_path(dir, sp)),
                (None, Some(address)) => Address::Tcp(address.ranks.into()),
                (None, None) => return Err(SessionError::NoSuchSeat),
            };
            let link = driver.dial(address, Party::Peer(peer), now + settings.lapse()).map_err(SessionError::Send)?;
            shadows.push(Shadow { sp, link, up: false, why: None });
        }
        Ok(Session {
            member: Member::new(config, lent, now),
            incarnation,
            driver,
            shadows,
            arena: None,
            ended: HashMap::new(),
            refused: HashMap::new(),
            sizes: HashMap::new(),
            lost: None,
            left: false,
            regions: Regions::new(vec![region::Entry::VACANT; REGIONS]),
            exported: HashMap::new(),
            answers: HashMap::new(),
            next_token: 1,
            buffer: vec![0; HEAD + BODY_MAX],
            settings,
        })
    }

    fn deadline(&self) -> Time {
        driver::now() + self.settings.lapse()
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
        let (handle, size) = (self.member.handle(key)?, *self.sizes.get(&key.0)?);
        Some(GroupHandle { handle, key, size })
    }

    /// Creates a group together with its other members, in this order; returns when it is full. `id` is the
    /// runtime's number for it (an MPI context id).
    ///
    /// # Errors
    /// [`SessionError`]; the group is not joined then.
    pub fn create_group(&mut self, id: u32, members: &[WorldRank]) -> Result<GroupHandle, SessionError> {
        let key = self.start_group(id, members)?;
        let deadline = self.deadline();
        self.wait("a group", deadline, |s| s.group(key).is_some(), Some(key))?;
        self.group(key).ok_or(SessionError::NotReady)
    }

    /// Begins to create a group and returns at once. Call [`progress`](Self::progress) until
    /// [`group`](Self::group) answers.
    ///
    /// # Errors
    /// [`SessionError`] if the members make no group, this rank is none of them, or it has joined already.
    pub fn start_group(&mut self, id: u32, members: &[WorldRank]) -> Result<GroupKey, SessionError> {
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
        self.wait("the end of a group", deadline, |s| s.ended.contains_key(&key.0), None)?;
        Ok(self.ended.remove(&key.0).unwrap_or(Cause::LEFT))
    }

    /// The endpoint cache, as this rank's service process has it.
    ///
    /// # Panics
    /// Never: [`join`](Self::join) has mapped it.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints<'_> {
        Endpoints(self.arena.as_ref().and_then(|arena| Reader::attach(arena.all_words()).ok()))
    }

    /// Leaves the job: takes exported memory back, leaves all groups, tells the service processes.
    ///
    /// # Errors
    /// [`SessionError`] if a service process does not confirm before the deadline; the links are closed all the
    /// same.
    pub fn leave(mut self) -> Result<(), SessionError> {
        let keys: Vec<u64> = self.exported.keys().copied().collect();
        for key in keys {
            self.revoke(umbra_core::key::Key::from_bits(key))?;
        }
        match self.member.leave(WORLD) {
            // What has ended need not be left.
            Ok(()) | Err(_) if self.lost.is_some() => return Ok(()),
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
        self.pump();
        let deadline = self.deadline();
        self.wait("the confirmation of leaving", deadline, |s| s.left || s.ended.contains_key(&WORLD.0), None)
    }

    /// Makes progress until something has happened, at most until `deadline`.
    ///
    /// # Errors
    /// [`SessionError::Io`] if the system refuses to wait.
    pub fn progress(&mut self, deadline: Time) -> Result<(), SessionError> {
        self.pump();
        let due = self.member.deadline().unwrap_or(Time::NEVER).min(deadline);
        self.driver.wait(due).map_err(|error| SessionError::Io { what: "wait for the links", error })?;
        let mut frame = std::mem::take(&mut self.buffer);
        while let Some(event) = self.driver.next(&mut frame) {
            self.on_event(event, &frame);
        }
        self.buffer = frame;
        self.member.on_time(driver::now());
        self.pump();
        Ok(())
    }

    /// Waits until `done`; a refusal or an end of group `about`, or the loss of the service process, ends it earlier.
    fn wait(
        &mut self,
        what: &'static str,
        deadline: Time,
        done: impl Fn(&Session) -> bool,
        about: Option<GroupKey>,
    ) -> Result<(), SessionError> {
        // The machine knows better than the clock who is missing, and tells a little after the deadline.
        let patience = deadline + self.settings.lapse();
        loop {
            if done(self) {
                return Ok(());
            }
            if let Some(key) = about {
                for key in [key.0, WORLD.0] {
                    if let Some((status, word)) = self.refused.remove(&key) {
                        return Err(SessionError::Refused { status, word });
                    }
                    if let Some(&cause) = self.ended.get(&key) {
                        return Err(SessionError::Ended { what, cause });
                    }
                }
            }
            if let Some(shadow) = self.shadows.iter().find(|s| s.why.is_some()) {
                let why = shadow.why.clone().unwrap_or(Close::Ended);
                return Err(SessionError::Unreachable { sp: shadow.sp, why });
            }
            if let Some(sp) = self.lost {
                return Err(SessionError::ServiceLost { sp });
            }
            if driver::now() >= patience {
                let sp = self.shadows.first().map_or(Sp(0), |s| s.sp);
                return Err(SessionError::Timeout { what, sp });
            }
            self.progress(patience)?;
        }
    }

    fn on_event(&mut self, event: Event, bytes: &[u8]) {
        let now = driver::now();
        match event {
            Event::Up { link, peer, .. } => {
                let first = self.shadows.first().is_some_and(|s| s.link == link);
                if let Some(shadow) = self.shadows.iter_mut().find(|s| s.link == link) {
                    shadow.up = true;
                    let role = Role::Service(shadow.sp);
                    if first {
                        let identity = MachineIdentity { role, incarnation: peer.incarnation };
                        self.member.on_link(Link(link.0), identity, now);
                    }
                    self.export_again(link);
                }
            }
            Event::Gone { link, why, .. } => self.on_gone(link, why, now),
            Event::Frame { link, descriptors } => {
                if let Ok(frame) = Frame::parse(bytes) {
                    self.on_frame(link, &frame, descriptors, now);
                }
            }
            Event::Readable(_) => {}
        }
        self.pump();
    }

    fn on_gone(&mut self, link: LinkId, why: Close, now: Time) {
        let first = self.shadows.first().is_some_and(|s| s.link == link);
        if first {
            self.member.on_gone(Link(link.0), now);
        }
        let Some(at) = self.shadows.iter().position(|s| s.link == link) else { return };
        let Some(shadow) = self.shadows.get_mut(at) else { return };
        let was_up = std::mem::replace(&mut shadow.up, false);
        if !was_up {
            // The dial gave up at its deadline, or was refused for good.
            shadow.why = Some(why);
            return;
        }
        let (sp, address) = (shadow.sp, self.settings.address(shadow.sp));
        self.answers.retain(|(l, _), _| *l != link);
        // It may come back; whether that is soon enough, the machine decides.
        let redial = Peer::service(sp)
            .zip(address)
            .and_then(|(peer, address)| self.driver.dial(address, Party::Peer(peer), now + self.settings.lapse()).ok());
        if let (Some(shadow), Some(link)) = (self.shadows.get_mut(at), redial) {
            shadow.link = link;
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: &Frame<'_>, mut descriptors: Vec<OwnedFd>, now: Time) {
        match *frame {
            Frame::Call { op: ops::ARENA, body, .. } => {
                let first = self.shadows.first().is_some_and(|s| s.link == link);
                if let (Some(descriptor), Ok(len), true) = (descriptors.pop(), body.try_into(), first) {
                    let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(0);
                    self.arena = Segment::attach(descriptor, Mapping::ReadOnly, len).ok();
                }
            }
            Frame::Done { op, token, status, .. } if op.0 >> 8 == 2 => {
                if token != NOBODY_WAITS {
                    self.answers.insert((link, token), status);
                }
            }
            Frame::Done { op: group_ops::LEAVE, .. } => {
                self.left |= self.member.state(WORLD) == State::Leaving;
                self.member.on_frame(Link(link.0), frame, now);
            }
            _ => self.member.on_frame(Link(link.0), frame, now),
        }
    }

    fn pump(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(HEAD + BODY_MAX, 0);
        while let Some(action) = self.member.poll(driver::now(), &mut buffer) {
            match action {
                Action::Send { link, len_bytes } => {
                    if let Some(Ok(frame)) = buffer.get(..len_bytes).map(Frame::parse) {
                        // What is lost with a link, the machine says again.
                        let _ = self.driver.send(LinkId(link.0), &frame, Vec::new());
                    }
                }
                // Links are dialled from the start, and again when they break.
                Action::Connect { .. } => {}
                Action::Close { link, reason } => {
                    self.driver.close(LinkId(link.0));
                    self.on_gone(LinkId(link.0), Close::Refused(reason), driver::now());
                }
                Action::Event(event) => self.on_member(event),
            }
        }
        self.buffer = buffer;
        self.driver.flush();
    }

    fn on_member(&mut self, event: member::Event) {
        match event {
            member::Event::Ready { key, size, .. } => {
                self.sizes.insert(key.0, size);
                self.ended.remove(&key.0);
            }
            member::Event::Ended { key, cause, .. } => {
                self.ended.insert(key.0, cause);
            }
            member::Event::Refused { key, status, word } => {
                self.refused.insert(key.0, (status, word));
            }
            member::Event::ServiceLost { sp } => {
                self.lost = sp.or_else(|| self.shadows.first().map(|s| s.sp));
            }
            member::Event::Admitted { .. } => self.lost = None,
            _ => {}
        }
    }

    fn lapse(&self) -> Lapse {
        self.settings.lapse()
    }
}

/// The endpoint cache as a rank sees it.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints<'a>(Option<Reader<'a>>);

impl<'a> Endpoints<'a> {
    /// The process of a rank and its first shadow service process: the hot look-up.
    ///
    /// # Errors
    /// [`LookupError`].
    #[inline]
    pub fn lookup(&self, group: Id<Group>, rank: Rank) -> Result<Endpoint, LookupError> {
        self.reader().ok_or(LookupError::UnknownGroup)?.lookup(group, rank)
    }

    /// All other look-ups; `None` while the service process has not shared its cache.
    #[inline]
    #[must_use]
    pub const fn reader(&self) -> Option<Reader<'a>> {
        self.0
    }
}
