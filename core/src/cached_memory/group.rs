//! Several data at once, or none.
//!
//! A group is placed in three attempts, each without effect if it fails. What it needs may fit into free ranges.
//! Else its members are assigned to runs, the longest first, and in each run one window is cleared in which they lie side
//! by side. If that does not work out and nothing else is in use, everything idle leaves and the memory is one piece.

use super::line::Need;
use super::runs::Run;
use super::{CachedMemory, Index, Lend, Place, PlaceError, Turn};
use crate::cache::slot::Slot;
use crate::memory::Block;
use crate::memory::bins::NIL;

/// One data of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    data: u64,
    len: u64,
    place: Option<Place>,
    granules: u32,
    /// Where it stands in the request.
    at: u32,
    /// The run that it is planned in.
    run: u32,
}

impl Member {
    /// A wish for `len` bytes with `data`.
    #[must_use]
    pub const fn new(data: u64, len: u64) -> Self {
        Member { data, len, place: None, granules: 0, at: 0, run: NIL }
    }

    /// The data.
    #[must_use]
    pub const fn data(&self) -> u64 {
        self.data
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether no bytes are wished for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What was found, once the group is placed.
    #[must_use]
    pub const fn place(&self) -> Option<Place> {
        self.place
    }

    /// Notes what was found.
    pub(crate) fn put(&mut self, place: Place) {
        self.place = Some(place);
    }
}

/// Whether a member is the first with its data, in an order in which those of one data stand together.
fn is_first(members: &[Member], at: usize) -> bool {
    at == 0 || members[at - 1].data != members[at].data
}

/// What a group asks for beyond what is there.
#[derive(Clone, Copy)]
struct Missing {
    places: u32,
    /// Of the longest, and of all.
    need: Need,
}

impl<B, S, R, T, W, I> CachedMemory<B, S, R, T, W, I>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
{
    /// Takes a reference to the place of each member, or to none; data that is listed twice gets two. The places
    /// stand in the members, whose order stays.
    ///
    /// A turn is used up if this succeeds. *Cost*: O(k log k) for k members, k walks to assign them to runs, and as many
    /// looks as for one data in each run that takes some.
    ///
    /// # Errors
    /// [`PlaceError`]; [`PlaceError::Blocked`] is where a caller takes a turn and waits for a `free`.
    pub fn alloc_group(&mut self, turn: Option<Turn>, members: &mut [Member]) -> Result<(), PlaceError> {
        self.working()?;
        if turn.is_some_and(|turn| !self.line.waits(turn)) {
            return Err(PlaceError::NoTurn);
        }
        for (at, member) in (0..).zip(members.iter_mut()) {
            (member.at, member.place, member.run) = (at, None, NIL);
        }
        self.begin();
        let missing = self.check(members);
        let placed = missing.and_then(|missing| self.place_all(turn, members, missing));
        self.end();
        members.sort_unstable_by_key(|member| member.at);
        match (placed, turn) {
            (Ok(()), Some(turn)) => {
                self.line.leave(turn);
            }
            (Err(_), Some(turn)) => self.line.refuse(turn, missing.ok().map(|missing| missing.need)),
            (_, None) => {}
        }
        if let Err(PlaceError::Blocked { .. } | PlaceError::NoPlace { .. }) = placed {
            self.statistics.cache.refused += 1;
        }
        placed
    }

    /// Refuses what can never be placed, and sorts the members: the longest first, and each data in its order.
    fn check(&self, members: &mut [Member]) -> Result<Missing, PlaceError> {
        for member in members.iter_mut() {
            member.granules = self.length(member.data, member.len)?;
        }
        members.sort_unstable_by_key(|member| (member.data, member.at));
        let (mut total, mut places) = (0_u64, 0);
        let mut missing = Missing { places: 0, need: Need::default() };
        for same in members.chunk_by(|a, b| a.data == b.data) {
            let Member { data, granules, .. } = same[0];
            if let Some(other) = same.iter().find(|other| other.granules != granules) {
                return Err(PlaceError::SizeMismatch { data, len: other.len, have: self.bytes(granules) });
            }
            total += u64::from(granules);
            places += 1;
            match self.find(data) {
                Some(at) => {
                    let more = u32::try_from(same.len()).unwrap_or(u32::MAX);
                    self.check_hit(at, granules, same[0].len, more)?;
                }
                None => {
                    self.index.admits(data)?;
                    missing.places += 1;
                    missing.need.add(granules, self.capacity());
                }
            }
        }
        let capacity = u64::from(self.capacity());
        if total > capacity {
            let unit = self.granule().bytes();
            return Err(PlaceError::TooLarge { need: total.saturating_mul(unit), capacity: capacity * unit });
        }
        if places > self.most_places {
            return Err(PlaceError::TooMany { need: places, places: self.most_places });
        }
        members.sort_unstable_by_key(|member| (u32::MAX - member.granules, member.data, member.at));
        Ok(missing)
    }

    fn place_all(&mut self, turn: Option<Turn>, members: &mut [Member], missing: Missing) -> Result<(), PlaceError> {
        if missing.places > 0 && !self.line.may_go(turn) {
            return Err(PlaceError::OthersWait);
        }
        let held = self.hold(members);
        // Places that must become free, whatever the room is.
        let excess = (self.places + missing.places).saturating_sub(self.most_places);
        let placed = missing.places == 0
            || (excess == 0 && self.place_in_holes(members))
            || (excess <= self.idle.len - held && self.place_in_runs(members, excess));
        if placed {
            self.grant(members);
            return Ok(());
        }
        self.let_go(members);
        if self.in_use == 0 {
            self.flush(members);
            return Ok(());
        }
        if excess > self.idle.len - held {
            return Err(PlaceError::NoPlace { places: self.most_places });
        }
        Err(self.blocked(missing.need.longest))
    }

    /// Keeps idle members from leaving; gives their number. They are in no run now, and still in the order of those
    /// that leave, so that letting go leaves no trace.
    fn hold(&mut self, members: &[Member]) -> u32 {
        let mut held = 0;
        for at in 0..members.len() {
            if is_first(members, at)
                && let Some(place) = self.find(members[at].data)
                && self.slot(place).is_idle()
            {
                self.pin(place);
                held += 1;
            }
        }
        held
    }

    fn let_go(&mut self, members: &[Member]) {
        for at in 0..members.len() {
            if is_first(members, at)
                && let Some(place) = self.find(members[at].data)
                && self.slot(place).is_idle()
            {
                self.unpin(place);
            }
        }
    }

    /// Gives each missing member a free range, or none of them.
    fn place_in_holes(&mut self, members: &mut [Member]) -> bool {
        for first in 0..members.len() {
            let Member { data, granules, .. } = members[first];
            if !is_first(members, first) || self.find(data).is_some() {
                continue;
            }
            let free = self.space.memory().find(granules);
            match free.and_then(|free| self.enter(free, granules, data)) {
                Some(at) => members[first].place = Some(Place { references: 0, ..self.untold(at) }),
                None => {
                    for member in members.iter_mut() {
                        if member.place.take().is_some()
                            && let Some(at) = self.find(member.data)
                        {
                            self.unpin(at);
                            self.vacate(at);
                        }
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Assigns each missing member to a run, or none of them; then makes room.
    fn place_in_runs(&mut self, members: &mut [Member], excess: u32) -> bool {
        let mut complete = true;
        for first in 0..members.len() {
            let Member { data, granules, .. } = members[first];
            if !is_first(members, first) || self.find(data).is_some() {
                continue;
            }
            let Some(at) = self.run_of(granules) else {
                complete = false;
                break;
            };
            self.plan(at, self.run(at).planned + granules);
            members[first].run = at;
        }
        for _ in 0..if complete { excess } else { 0 } {
            if let Some(oldest) = self.oldest() {
                self.evict(oldest);
            }
        }
        for first in 0..members.len() {
            let run = members[first].run;
            let planned = self.runs.as_ref().get(run as usize).map_or(0, |run| run.planned);
            if planned == 0 {
                continue;
            }
            self.plan(run, 0);
            if complete && let Some(free) = self.clear_run(run, planned) {
                for member in members[first..].iter_mut().filter(|member| member.run == run) {
                    let at = self.enter(free, member.granules, member.data);
                    member.place = at.map(|at| self.untold(at));
                }
            }
        }
        complete
    }

    /// Evicts everything, and places all members side by side; nothing is in use.
    fn flush(&mut self, members: &mut [Member]) {
        self.statistics.flushes += 1;
        while let Some(oldest) = self.oldest() {
            self.evict(oldest);
        }
        self.place_in_holes(members);
        self.grant(members);
    }

    /// The place of data that nobody was told of.
    fn untold(&self, at: u32) -> Place {
        Place { offset: self.bytes(self.space.tile(at).start), found: super::Found::Empty, references: 0 }
    }

    /// Tells all members their places, all of which there are.
    fn grant(&mut self, members: &mut [Member]) {
        for member in members.iter_mut() {
            let Some(at) = self.find(member.data) else { continue };
            // A new place was given its first reference when it was entered.
            let new = member.place.is_some();
            member.place = Some(if new { self.fresh(at) } else { self.join(at) });
        }
    }
}
