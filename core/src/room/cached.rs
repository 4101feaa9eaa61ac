//! Places of a cached memory, which somebody may wait for, and for their content.

use core::fmt;
use core::task::{Poll, Waker};

use super::line::{Refused, Room, Waiter, Waiting, sealed};
use crate::cache::waiting::lock::asking;
use crate::cache::waiting::record::Stage;
use crate::cache::waiting::waiter::Waiters;
use crate::cache::waiting::{ContentError, Record};
use crate::cache::{FillError, ForgetError, Found, FreeError, Index, Interrupted, Slot, State};
use crate::cached_memory::{CachedMemory, Lend, Member, PlaceError, Run, Statistics, Turn};
use crate::id::Id;
use crate::memory::{Block, Figures};

/// What those who wait for content are told.
pub type Told = Result<(), ContentError>;

/// A place with references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Whose it is.
    pub data: u64,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many references there are.
    pub references: u32,
}

/// What was known when somebody stopped waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scene {
    /// The first data whose place or content was awaited.
    pub data: u64,
    /// Bytes that were wished for at once.
    pub bytes: u64,
    /// Bytes of the longest stretch in which nothing is in use.
    pub longest: u64,
    /// Data in use, in number and in bytes.
    pub in_use: (u32, u64),
    /// Others who wait on.
    pub waiting: u32,
    /// Some of the places that are held; if content was awaited, its own.
    pub held: [Option<Holding>; 2],
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scene { longest, in_use: (count, bytes), waiting, .. } = self;
        write!(f, "{bytes} bytes are in use for {count} data, {longest} lie side by side between them; held:")?;
        for (n, Holding { data, offset, references }) in self.held.iter().flatten().enumerate() {
            let (comma, s) = (if n == 0 { "" } else { "," }, if *references == 1 { "" } else { "s" });
            write!(f, "{comma} data {data} at {offset} ({references} reference{s})")?;
        }
        write!(f, "; others that wait: {waiting}")
    }
}

/// A cached memory that somebody waits for.
#[derive(Debug)]
pub struct Places<B, S, R, T, W, I, K> {
    memory: CachedMemory<B, S, R, T, W, I>,
    /// The first in line, for the memory: as long as there is one it gives nobody else room.
    turn: Option<Turn>,
    contents: Waiters<Told, K>,
}

impl<B, S, R, T, W, I, K> sealed::Sealed for Places<B, S, R, T, W, I, K> {}

impl<B, S, R, T, W, I, K> Places<B, S, R, T, W, I, K>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
    K: Lend<Record<Told>>,
{
    /// Lets clients wait for places of this memory, in whose own line nobody stands; and as many as there are records for
    /// content.
    pub fn new(memory: CachedMemory<B, S, R, T, W, I>, contents: K) -> Self {
        Places { memory, turn: None, contents: Waiters::new(contents) }
    }

    /// How full the memory is and how scattered; idle data count as used.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.memory.figures()
    }

    /// What happened so far; also after an interrupt.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.memory.statistics()
    }

    /// Data in use, in number and in bytes.
    #[must_use]
    pub fn in_use(&self) -> (u32, u64) {
        self.memory.in_use()
    }

    /// Data whose place somebody may still be writing to, with its offset; also after an interrupt.
    pub fn outstanding_fills(&self) -> impl Iterator<Item = (u64, u64)> {
        self.memory.outstanding_fills()
    }

    /// Bytes of the longest stretch in which nothing is in use; see [`CachedMemory::longest_run`].
    #[must_use]
    pub fn longest_run(&self) -> u64 {
        self.memory.longest_run()
    }

    /// How many wait now for content.
    pub fn waiting_for_content(&self) -> u32 {
        self.contents.waiting()
    }

    fn tell(&mut self, data: u64, told: Told) {
        if self.contents.waiting() > 0
            && let Some(leader) = self.contents.leader(data)
        {
            self.contents.answer(leader, |_| told);
        }
    }

    fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.memory.free(data)?;
        // The last reference is gone, and what nobody filled with it.
        if self.contents.waiting() > 0 && self.memory.state(data) == Ok(None) {
            self.tell(data, Err(ContentError::NotAssigned { data }));
        }
        Ok(())
    }

    fn abandon(&mut self, data: u64) -> Result<(), FillError> {
        self.memory.abandon(data)?;
        self.tell(data, Err(ContentError::Abandoned { data }));
        Ok(())
    }

    fn held(&self, data: Option<u64>) -> [Option<Holding>; 2] {
        let held = self.memory.held().filter(|&(held, ..)| data.is_none_or(|data| data == held));
        let mut held = held.map(|(data, offset, references)| Holding { data, offset, references });
        core::array::from_fn(|_| held.next())
    }

    pub(super) fn scene_of_content(&self, data: u64) -> Scene {
        Scene { held: self.held(Some(data)), ..self.scene_of(data, 0, self.contents.waiting()) }
    }

    fn scene_of(&self, data: u64, bytes: u64, waiting: u32) -> Scene {
        let (longest, in_use) = (self.memory.longest_run(), self.memory.in_use());
        Scene { data, bytes, longest, in_use, waiting, held: [None; 2] }
    }
}

impl<B, S, R, T, W, I, K> Room for Places<B, S, R, T, W, I, K>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
    K: Lend<Record<Told>>,
{
    type Wish = [Member];
    type Error = PlaceError;
    type Scene = Scene;

    fn take(&mut self, first: bool, wish: &mut [Member]) -> Result<(), Refused<PlaceError>> {
        let placed = match (first, &mut *wish) {
            (false, [one]) => self.memory.alloc(one.data(), one.len()).map(|place| one.put(place)),
            _ => self.memory.alloc_group(self.turn.filter(|_| first), wish),
        };
        if first && placed.is_ok() {
            self.turn = None;
        }
        placed.map_err(|error| match error {
            PlaceError::Blocked { .. } | PlaceError::NoPlace { .. } => {
                // It is not refused: it waits.
                *self.memory.refused() -= 1;
                Refused::Now(error)
            }
            PlaceError::OthersWait => Refused::Now(error),
            error => Refused::Ever(error),
        })
    }

    fn count_refusal(&mut self) {
        *self.memory.refused() += 1;
    }

    fn keep(&mut self, wish: Option<&[Member]>) {
        self.open();
        self.turn = self.memory.line_up(wish.unwrap_or(&[])).ok();
    }

    fn open(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.memory.leave_line(turn);
        }
    }

    fn is_worth_while(&self) -> bool {
        self.memory.next_turn().is_some()
    }

    fn scene(&self, wish: &[Member], waiting: u32) -> Scene {
        let bytes = wish.iter().map(Member::len).fold(0, u64::saturating_add);
        let first = wish.first().map_or(0, Member::data);
        Scene { held: self.held(None), ..self.scene_of(first, bytes, waiting) }
    }

    fn stop(&mut self) {
        self.memory.interrupt();
        let interrupted = Err(ContentError::Interrupted);
        self.contents.answer_all(|_, _| interrupted, |told| *told = interrupted);
    }

    fn next_waker(&mut self) -> Option<Waker> {
        self.contents.next_waker()
    }
}

impl<B, S, R, T, W, I, K, V> Waiting<Places<B, S, R, T, W, I, K>, V>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
    K: Lend<Record<Told>>,
    V: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    /// Gives a reference back; see [`CachedMemory::free`].
    ///
    /// # Errors
    /// [`FreeError`] if there is no reference.
    pub fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.change(|room| room.free(data))
    }

    /// The content is there: it outlives the references, and whoever waits for it is told.
    ///
    /// # Errors
    /// [`FillError`] if the data has no place any more, or if somebody filled it before.
    pub fn remember(&mut self, data: u64) -> Result<(), FillError> {
        let room = self.room_mut();
        room.memory.remember(data)?;
        room.tell(data, Ok(()));
        Ok(())
    }

    /// The content will not come. Whoever waits for it is told, and the next to allocate fills the place.
    ///
    /// # Errors
    /// [`FillError`] if the data has no place any more, or if it was filled.
    pub fn abandon(&mut self, data: u64) -> Result<(), FillError> {
        self.room_mut().abandon(data)
    }

    /// Tells an interrupted memory that nobody writes to this place any more; see [`CachedMemory::settle`].
    pub fn settle(&mut self, data: u64) -> bool {
        self.room_mut().memory.settle(data)
    }

    /// Frees the place of idle content, and says whether there was any.
    ///
    /// # Errors
    /// [`ForgetError`] if the place is being filled, or in use.
    pub fn forget(&mut self, data: u64) -> Result<bool, ForgetError> {
        self.change(|room| room.memory.forget(data))
    }

    /// [`Waiting::forget`], but content in use leaves with its last reference.
    ///
    /// # Errors
    /// [`ForgetError`] if the place is being filled.
    pub fn forget_later(&mut self, data: u64) -> Result<bool, ForgetError> {
        self.change(|room| room.memory.forget_later(data))
    }

    /// Gives back all references of members that were given; what was found empty and not filled since is given up.
    pub(super) fn take_back(&mut self, members: &[Member]) {
        self.change(|room| {
            let found = |member: &&Member| member.place().is_some_and(|place| place.found == Found::Empty);
            // After an interrupt a reference is worth nothing, and nobody is to be told.
            for member in members.iter().filter(found) {
                let _ = room.abandon(member.data());
            }
            for member in members.iter().filter(|member| member.place().is_some()) {
                let _ = room.free(member.data());
            }
        });
    }

    /// Tells when the content of a place is there: `waker` is woken then, and the same waiter asks again.
    ///
    /// # Errors
    /// [`ContentError`] if it will not come.
    pub fn content(&mut self, waiter: &mut Option<Id<Record<Told>>>, data: u64, waker: &Waker) -> Poll<Told> {
        asking(waker, |spare| self.content_with(waiter, data, waker, spare))
    }

    pub(super) fn content_with(
        &mut self,
        waiter: &mut Option<Id<Record<Told>>>,
        data: u64,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Told>> {
        let Places { memory, contents, .. } = self.room_mut();
        if let Some(id) = *waiter {
            let heard = contents.hear(id, waker, spare)?;
            if heard.is_ready() {
                *waiter = None;
            }
            return Some(heard);
        }
        let told = match memory.state(data) {
            Err(Interrupted) => Err(ContentError::Interrupted),
            Ok(None) => Err(ContentError::NotAssigned { data }),
            Ok(Some(State::Abandoned)) => Err(ContentError::Abandoned { data }),
            Ok(Some(State::InUse | State::Idle)) => Ok(()),
            Ok(Some(State::Filling)) if spare.is_none() => return None,
            Ok(Some(State::Filling)) => match contents.enter(data, Stage::Event, spare) {
                Some(entered) => {
                    *waiter = Some(entered);
                    return Some(Poll::Pending);
                }
                None => Err(ContentError::TooManyWaiters { waiters: contents.capacity() }),
            },
        };
        Some(Poll::Ready(told))
    }

    /// Ends a wait for content; an answer that came before, if one did.
    pub(super) fn leave_content(
        &mut self,
        waiter: Option<Id<Record<Told>>>,
        spare: &mut Option<Waker>,
    ) -> Option<Told> {
        self.room_mut().contents.end(waiter?, spare)
    }
}
