//! A memory that many threads use: one lock, and each is woken by its own waker.

use core::task::{Poll, Waker};

use super::cached::{Places, Told};
use super::future::{Content, Roomy};
use super::guard::{Held, HeldRange};
use super::line::{Room, Stand, WaitError, Waiter, Waiting};
use super::ranges::{Range, RangeError, Ranges};
use crate::cache::waiting::Record;
use crate::cache::waiting::lock::{self, Line, Lock};
use crate::cache::{FillError, ForgetError, FreeError, Index, Slot};
use crate::cached_memory::{Lend, Member, PlaceError, Run};
use crate::id::Id;
use crate::memory::Block;

/// What those who wait, and references, must know of their memory.
pub trait Queue: Line {
    /// See [`Room::Wish`].
    type Wish: ?Sized;
    /// See [`Room::Error`].
    type Error;
    /// See [`Room::Scene`].
    type Scene;

    #[doc(hidden)]
    fn ask(
        &mut self,
        stand: &mut Stand,
        wish: &mut Self::Wish,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<(), WaitError<Self::Error>>>>;
    #[doc(hidden)]
    fn leave(
        &mut self,
        stand: Stand,
        wish: Option<&mut Self::Wish>,
        spare: &mut Option<Waker>,
    ) -> Option<Result<(), WaitError<Self::Error>>>;
    #[doc(hidden)]
    fn scene(&self, wish: &Self::Wish) -> Self::Scene;
}

impl<M: Room, R: AsRef<[Waiter]> + AsMut<[Waiter]>> lock::sealed::Sealed for Waiting<M, R> {}

impl<M: Room, R: AsRef<[Waiter]> + AsMut<[Waiter]>> Line for Waiting<M, R> {
    fn next_waker(&mut self) -> Option<Waker> {
        Waiting::next_waker(self)
    }
}

impl<M: Room, R: AsRef<[Waiter]> + AsMut<[Waiter]>> Queue for Waiting<M, R> {
    type Wish = M::Wish;
    type Error = M::Error;
    type Scene = M::Scene;

    fn ask(
        &mut self,
        stand: &mut Stand,
        wish: &mut M::Wish,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<(), WaitError<M::Error>>>> {
        self.ask_with(stand, wish, waker, spare)
    }
    fn leave(
        &mut self,
        stand: Stand,
        wish: Option<&mut M::Wish>,
        spare: &mut Option<Waker>,
    ) -> Option<Result<(), WaitError<M::Error>>> {
        Waiting::leave(self, stand, wish, spare)
    }
    fn scene(&self, wish: &M::Wish) -> M::Scene {
        self.room().scene(wish, self.waiting())
    }
}

/// A [`Waiting`] memory behind a lock; see the [module](super).
#[derive(Debug)]
pub struct Shared<L> {
    lock: L,
}

impl<L: Lock<Value: Queue>> Shared<L> {
    /// Lets all threads that see it use the memory.
    pub const fn new(lock: L) -> Self {
        Shared { lock }
    }

    #[inline]
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut L::Value) -> T) -> T {
        lock::act(&self.lock, act)
    }

    /// What is wished for, all of it, as soon as there is room; see [`Waiting::ask`]. Who gets it this way gives it back
    /// by [`free`](Shared::free).
    pub fn room<'a>(&'a self, wish: &'a mut <L::Value as Queue>::Wish) -> Roomy<'a, L> {
        Roomy::new(self, wish)
    }
}

impl<M, R, L> Shared<L>
where
    M: Room,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<M, R>>,
{
    /// Takes what is wished for now, passing nobody in line.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn take_now(&self, wish: &mut M::Wish) -> Result<(), M::Error> {
        self.act(|memory| memory.take_now(wish))
    }

    /// Makes all calls fail, those that wait and those to come; see [`Waiting::interrupt`].
    pub fn interrupt(&self) {
        self.act(Waiting::interrupt);
    }

    /// How many wait now for room.
    pub fn waiting(&self) -> u32 {
        self.lock.with(|memory| memory.waiting())
    }

    /// Asks the memory; nobody else can use it meanwhile, not even the one who asks.
    pub fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        self.lock.with(|memory| look(memory.room()))
    }
}

/// Memory whose ranges are given back.
pub trait Offset: Queue<Wish = Range> {
    #[doc(hidden)]
    fn free(&mut self, offset: u64) -> Result<u64, RangeError>;
}

impl<S, T, L, R> Offset for Waiting<Ranges<S, T, L>, R>
where
    L: AsRef<[u32]> + AsMut<[u32]>,
    S: AsRef<[Block]> + AsMut<[Block]>,
    T: AsRef<[u32]> + AsMut<[u32]>,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
{
    fn free(&mut self, offset: u64) -> Result<u64, RangeError> {
        Waiting::<Ranges<S, T, L>, R>::free(self, offset)
    }
}

impl<L: Lock<Value: Offset>> Shared<L> {
    /// Gives the range that starts at this offset back, and tells its length in bytes.
    ///
    /// # Errors
    /// [`RangeError`] if no range in use starts there, or after an interrupt.
    pub fn free_range(&self, offset: u64) -> Result<u64, RangeError> {
        self.act(|memory| memory.free(offset))
    }

    /// A range that was given, as a value that gives it back when it is dropped; `None` if the wish was not granted.
    pub fn held_range(&self, wish: Range) -> Option<HeldRange<'_, L>> {
        wish.offset().map(|offset| HeldRange::new(self, offset, wish.len()))
    }
}

/// Memory whose places are filled and given back.
pub trait Cached: Queue<Wish = [Member], Error = PlaceError> {
    #[doc(hidden)]
    fn take_back(&mut self, members: &[Member]);
    #[doc(hidden)]
    fn filled(&mut self, data: u64) -> Result<(), FillError>;
    #[doc(hidden)]
    fn ask_content(
        &mut self,
        waiter: &mut Option<Id<Record<Told>>>,
        data: u64,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Told>>;
    #[doc(hidden)]
    fn leave_content(&mut self, waiter: Option<Id<Record<Told>>>, spare: &mut Option<Waker>) -> Option<Told>;
    #[doc(hidden)]
    fn scene_of_content(&self, data: u64) -> super::Scene;
}

impl<B, S, R, T, W, I, K, V> Cached for Waiting<Places<B, S, R, T, W, I, K>, V>
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
    fn take_back(&mut self, members: &[Member]) {
        Waiting::take_back(self, members);
    }
    fn filled(&mut self, data: u64) -> Result<(), FillError> {
        self.remember(data)
    }
    fn ask_content(
        &mut self,
        waiter: &mut Option<Id<Record<Told>>>,
        data: u64,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Told>> {
        self.content_with(waiter, data, waker, spare)
    }
    fn leave_content(&mut self, waiter: Option<Id<Record<Told>>>, spare: &mut Option<Waker>) -> Option<Told> {
        Waiting::leave_content(self, waiter, spare)
    }
    fn scene_of_content(&self, data: u64) -> super::Scene {
        self.room().scene_of_content(data)
    }
}

impl<L: Lock<Value: Cached>> Shared<L> {
    /// The content of a place as soon as it is there. Who holds a reference sees the place stay.
    pub fn content(&self, data: u64) -> Content<'_, L> {
        Content::new(self, data)
    }

    /// Members that were given, as a value that gives them back when it is dropped.
    pub fn held<G: AsRef<[Member]>>(&self, members: G) -> Held<'_, L, G> {
        Held::new(self, members)
    }

    pub(super) fn end_content(&self, waiter: Option<Id<Record<Told>>>, data: u64) -> Result<Told, super::Scene> {
        let mut spare = None;
        self.act(|memory| memory.leave_content(waiter, &mut spare).ok_or_else(|| memory.scene_of_content(data)))
    }
}

impl<B, S, R, T, W, I, K, V, L> Shared<L>
where
    B: Lend<Block>,
    S: Lend<Slot>,
    R: Lend<Run>,
    T: Lend<u32>,
    W: Lend<u64>,
    I: Index,
    K: Lend<Record<Told>>,
    V: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<Places<B, S, R, T, W, I, K>, V>>,
{
    /// Gives a reference back that is not held as a value.
    ///
    /// # Errors
    /// [`FreeError`] if there is none.
    pub fn free(&self, data: u64) -> Result<(), FreeError> {
        self.act(|memory| memory.free(data))
    }

    /// The content is there, says who filled the place; see [`Waiting::remember`].
    ///
    /// # Errors
    /// [`FillError`] if the data has no place any more, or if somebody filled it before.
    pub fn remember(&self, data: u64) -> Result<(), FillError> {
        self.act(|memory| memory.remember(data))
    }

    /// The content will not come; see [`Waiting::abandon`]. Members that are held as a value are given up by dropping it:
    /// after both it would be somebody else's fill that is given up.
    ///
    /// # Errors
    /// [`FillError`] if the data has no place any more, or if it was filled.
    pub fn abandon(&self, data: u64) -> Result<(), FillError> {
        self.act(|memory| memory.abandon(data))
    }

    /// Tells an interrupted memory that nobody writes to this place any more; see [`Waiting::settle`].
    pub fn settle(&self, data: u64) -> bool {
        self.act(|memory| memory.settle(data))
    }

    /// Frees the place of idle content, and says whether there was any.
    ///
    /// # Errors
    /// [`ForgetError`] if the place is being filled, or in use.
    pub fn forget(&self, data: u64) -> Result<bool, ForgetError> {
        self.act(|memory| memory.forget(data))
    }

    /// [`Shared::forget`], but content in use leaves with its last reference.
    ///
    /// # Errors
    /// [`ForgetError`] if the place is being filled.
    pub fn forget_later(&self, data: u64) -> Result<bool, ForgetError> {
        self.act(|memory| memory.forget_later(data))
    }

    /// How many wait now for content.
    pub fn waiting_for_content(&self) -> u32 {
        self.look(Places::waiting_for_content)
    }
}
