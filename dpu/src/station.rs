//! The engine of firmware: serves host processes over the rings of a window.
//!
//! A [`Station`] is what runs between two heartbeats: it accepts host processes that claim a lane, carries out their
//! commands with the machine that serves memory ([`Serve`]) and the endpoint cache ([`Endpoints`]), and answers. It
//! needs no operating system and allocates nothing: its tables are lent ([`Storage`]), everything else lies in the
//! window. Time is an argument. The same code runs in the image for a board and, in tests, in a thread of a host.
//!
//! ```text
//! loop { station.step(now); }      one step takes at most STEP commands of each lane
//! ```
//!
//! Whoever attaches is trusted with the window, because he can write all of it anyway; what he asks for is checked all
//! the same: the owner, generation, bounds and rights of every key, the place of every span, every byte of a table
//! (after it was copied to where nobody else can change it).
//!
//! Invariants: every command is answered once, in order within the credit of its lane; a lane whose owner does not take
//! answers is closed, and nobody else waits for it.

mod commands;
mod storage;

use umbra_core::access::serve::{Action, Answer, Copy, Direction, Serve};
use umbra_core::endpoints::{ArenaError, Endpoints};
use umbra_core::error::Status;
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::memory::Block;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::ring::line::{Line, Receiver, Ring, Sender};
use umbra_core::slots::Slot;
use umbra_core::time::{Lapse, Time};
use umbra_core::window::{Beat, Claim, GROUPS, LANDING, LANES, Lane, Phase, State, Window, WindowError};
use umbra_core::wire::Frame;
use umbra_core::{access::serve, atomic::AtomicU64, region};

use storage::Share;
pub use storage::{Storage, TABLE};

use crate::agent::CREDIT;

/// Commands of one lane that are carried out before it is the next one's turn.
pub const STEP: usize = 16;
/// How often the heartbeat is written.
pub const BEAT: Lapse = Lapse::from_millis(1);

/// What a station cannot do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StationError {
    /// The window.
    Window(WindowError),
    /// The endpoint cache in it.
    Cache(ArenaError),
    /// This service process cannot be named.
    Unnamed(Sp),
}

impl core::fmt::Display for StationError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            StationError::Window(error) => error.fmt(f),
            StationError::Cache(error) => error.fmt(f),
            StationError::Unnamed(sp) => write!(f, "service process {sp} cannot be named: its number is too large"),
        }
    }
}
impl core::error::Error for StationError {}

impl From<WindowError> for StationError {
    fn from(error: WindowError) -> Self {
        StationError::Window(error)
    }
}
impl From<ArenaError> for StationError {
    fn from(error: ArenaError) -> Self {
        StationError::Cache(error)
    }
}

/// A lane and the ends of its rings.
struct Open<'w> {
    lane: Lane<'w>,
    commands: Receiver<'w>,
    answers: Sender<'w>,
    /// Whom it serves; zero for nobody.
    mark: u64,
    peer: Option<Peer>,
}

/// The engine.
pub struct Station<'w, 's> {
    me: Peer,
    state: State<'w>,
    lanes: [Open<'w>; LANES],
    serve: Serve<&'s mut [region::Entry], &'s mut [Slot<serve::Job>], &'s mut [serve::Asker]>,
    cache: Endpoints<&'w [AtomicU64], &'s mut [Block]>,
    shares: &'s mut [Share],
    table: &'s mut [u8; TABLE],
    beat: Beat,
}

impl<'w, 's> Station<'w, 's> {
    /// Service process `sp` over a fresh window and lent tables; host processes can attach from now on. Tables that
    /// are offered lie in `table` while they are checked: nobody else can change them there.
    ///
    /// # Errors
    /// [`StationError`].
    pub fn new(
        sp: Sp,
        window: &Window<'w>,
        storage: &'s mut Storage,
        table: &'s mut [u8; TABLE],
    ) -> Result<Self, StationError> {
        let me = Peer::service(sp).ok_or(StationError::Unnamed(sp))?;
        let Storage { regions, jobs, askers, blocks, shares } = storage;
        let cache = Endpoints::create(window.cache()?, &mut blocks[..], GROUPS)?;
        let serve = Serve::new(sp, &mut regions[..], &mut jobs[..], &mut askers[..]);
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| Open::new(window, at));
        let state = window.state()?;
        state.enter(Phase::Serving);
        log!(info, "{:?} serves {:?} lanes", me, LANES);
        let lanes = [a?, b?, c?, d?];
        Ok(Station { me, state, lanes, serve, cache, shares, table, beat: Beat::default() })
    }

    /// Accepts, carries out, answers; true if there was anything to do.
    pub fn step(&mut self, now: Time) -> bool {
        if now >= self.beat.at + BEAT || self.beat.count == 0 {
            self.beat = Beat { count: self.beat.count + 1, at: now };
            self.state.set_beat(self.beat);
            let counted = self.serve.counters();
            self.state.set_counters(counted.served, counted.refused + counted.malformed);
        }
        let mut busy = false;
        for at in 0..LANES {
            if self.lanes[at].lane.wanted_mark() != self.lanes[at].mark {
                self.change_owner(at);
                busy = true;
            }
            for _ in 0..STEP {
                let Some(line) = self.next_command(at) else { break };
                busy = true;
                self.command(at, &line.to_bytes());
            }
        }
        busy | self.carry_on()
    }

    /// How often it has shown that it lives.
    pub const fn beat(&self) -> Beat {
        self.beat
    }

    fn next_command(&mut self, at: usize) -> Option<Line> {
        let open = &mut self.lanes[at];
        if open.mark == 0 { None } else { open.commands.pop() }
    }

    /// The lane's former owner is gone; somebody else wants it, or nobody.
    fn change_owner(&mut self, at: usize) {
        let link = link(at);
        if self.lanes[at].mark != 0 {
            log!(info, "lane {:?}: {:?} is gone", at, self.lanes[at].peer);
            self.serve.on_gone(link);
        }
        let open = &mut self.lanes[at];
        (open.mark, open.peer) = (0, None);
        // Nobody may be made responsible for what his predecessor asked for, nor suffer from where he left the rings.
        if open.renew().is_err() {
            // A former owner that has not noticed yet writes into them: whoever wants the lane waits for the next step.
            log!(warn, "lane {:?}: its rings cannot be laid out now", at);
            return;
        }
        let wanted = open.lane.wanted();
        let (mark, peer) = wanted.map_or((0, None), |claim| (claim.mark, claim.peer));
        open.mark = mark;
        if let Some(Claim { life, .. }) = wanted {
            match peer.filter(|&peer| peer != self.me) {
                Some(peer) => match self.serve.on_link(link, peer, life, LANDING as u64, CREDIT) {
                    Ok(()) => {
                        open.peer = Some(peer);
                        log!(info, "lane {:?}: {:?} attached", at, peer);
                    }
                    Err(status) => log!(error, "lane {:?}: {:?}", at, status),
                },
                // It is accepted, so that it learns from every answer that it is nobody.
                None => log!(warn, "lane {:?}: its owner names nobody, or this process", at),
            }
        }
        self.lanes[at].lane.accept(mark);
    }

    /// Long transfers, and what follows from deaths and revocations.
    fn carry_on(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..STEP {
            match self.serve.poll() {
                Some(Action::Copy(copy)) => {
                    let status = self.copy(&copy);
                    if let Some(answer) = self.serve.copied(copy, status) {
                        self.answer(&answer);
                    }
                }
                Some(Action::Answer(answer)) => self.answer(&answer),
                Some(Action::Detach { place, key }) => {
                    log!(debug, "{:?} is no longer served", key);
                    if let Some(share) = self.shares.get_mut(place) {
                        *share = Share::NONE;
                    }
                }
                None => break,
            }
            busy = true;
        }
        busy
    }

    fn answer(&mut self, answer: &Answer) {
        self.send(answer.link.index(), &answer.frame());
    }

    /// Sends one frame to the owner of a lane. Whoever lets more lines pile up than he may have commands outstanding
    /// has lost his count: the lane is closed, and opens again for the next one who claims it.
    fn send(&mut self, at: usize, frame: &Frame<'_>) {
        let Some(open) = self.lanes.get_mut(at).filter(|open| open.mark != 0) else { return };
        let mut bytes = [0; 64];
        let line = frame.emit(&mut bytes).ok().and_then(|len| Line::from_bytes(bytes.get(..len)?));
        if line.is_some_and(|line| open.answers.push(line).is_ok()) {
            return;
        }
        log!(error, "lane {:?}: its owner takes no answers", at);
        open.peer = None;
        self.serve.on_gone(link(at));
    }

    /// Moves bytes between a region and the asker's landing area.
    fn copy(&self, copy: &Copy) -> Status {
        let share = self.shares.get(copy.place).and_then(|share| self.lanes.get(share.lane));
        let (Some(theirs), Some(asker)) = (share, self.lanes.get(copy.link.index())) else {
            return Status::CopyFailed;
        };
        let (theirs, landing) = (theirs.lane.share, asker.lane.landing);
        // Both lie inside: the server checked them against the region and the landing area.
        let (address, at, len) = (copy.address as usize, copy.landing as usize, copy.len as usize);
        let copied = match copy.direction {
            Direction::ToLanding => landing.copy(at, theirs.read_only(), address, len),
            Direction::FromLanding => theirs.copy(address, landing.read_only(), at, len),
            Direction::ToFrame | Direction::FromFrame => return Status::CopyFailed,
        };
        copied.map_or(Status::OutOfBounds, |()| Status::Ok)
    }
}

const fn link(at: usize) -> Link {
    Link(at as u32)
}

impl<'w> Open<'w> {
    fn new(window: &Window<'w>, at: usize) -> Result<Self, WindowError> {
        let lane = window.lane(at)?;
        let (commands, answers) = ends(&lane)?;
        Ok(Open { lane, commands, answers, mark: 0, peer: None })
    }

    /// Empty rings, whatever became of the ones before.
    fn renew(&mut self) -> Result<(), WindowError> {
        self.lane.lay_rings()?;
        (self.commands, self.answers) = ends(&self.lane)?;
        Ok(())
    }
}

/// The firmware's ends of the rings of a lane.
fn ends<'w>(lane: &Lane<'w>) -> Result<(Receiver<'w>, Sender<'w>), WindowError> {
    Ok((Ring::attach(lane.commands)?.receiver()?, Ring::attach(lane.answers)?.sender()?))
}

/// A life's name that is another one after each start, from whatever differs between starts.
#[must_use]
pub const fn life_of(seed: u64) -> Incarnation {
    // One round of SplitMix64: neighbouring seeds give unlike names.
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    Incarnation(if mixed == 0 { 1 } else { mixed })
}
