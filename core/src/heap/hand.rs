//! What one member, in one thread, does with a heap.

use core::borrow::BorrowMut;

use crate::atomic::Ordering;
use crate::crew::Member;
use crate::error::Stale;

use super::class::LARGE;
use super::error::{AllocError, KindError};
use super::layout::Group;
use super::look;
use super::runs::Whom;
use super::span::{self, Claim, bits};
use super::word::{Entry, OPEN, State, USED};
use super::{Block, BlockId, Heap, KINDS};

/// A span that a hand reserves, and which of its blocks it knows to be free.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    /// The life of its group; 0 for none.
    life: u64,
    group: u32,
    free: u64,
}

const NONE: Reserved = Reserved { life: 0, group: 0, free: 0 };

/// What a hand knows between two calls: whose it is, and what it keeps to itself.
#[derive(Debug)]
pub struct Grasp {
    number: u16,
    reserved: [Reserved; LARGE + 1],
}

impl Grasp {
    /// Of a hand of this member that does not know anything yet; one at a time for a member.
    #[must_use]
    pub const fn new(member: Member) -> Grasp {
        Grasp { number: member.number, reserved: [NONE; LARGE + 1] }
    }

    /// Whose it is.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// Takes and frees blocks in the name of a member. It keeps a span of each size that it uses to itself, as far as
/// others have memory enough; [`rest`](Self::rest) gives them up.
///
/// A process that was forked off must not use the hands of its parent.
#[derive(Debug)]
pub struct Hand<'a, G = Grasp> {
    heap: Heap<'a>,
    grasp: G,
}

/// An entry that was taken.
type Taken<'a> = (Group<'a>, u32, Entry);

impl<'a, G: BorrowMut<Grasp>> Hand<'a, G> {
    pub(super) const fn new(heap: Heap<'a>, grasp: G) -> Self {
        Hand { heap, grasp }
    }

    /// The heap.
    #[must_use]
    pub fn heap(&self) -> Heap<'a> {
        self.heap
    }

    /// The number of the member.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.grasp.borrow().number
    }

    /// Allocates a block of at least `len` bytes, for what `kind` says; does not wait.
    ///
    /// Blocks begin at a multiple of the largest power of two that divides their size.
    ///
    /// # Errors
    /// [`AllocError`]; [`AllocError::is_passing`] is where a blocking caller waits for a `free`.
    #[inline]
    pub fn alloc(&mut self, len: u64, kind: u32) -> Result<Block, AllocError> {
        if kind >= KINDS {
            return Err(AllocError::BadKind(kind));
        }
        if len == 0 {
            return Err(AllocError::Nothing);
        }
        let class = self.heap.parts.sizes.class(len);
        if class != LARGE
            && self.heap.parts.limit() == 0
            && let Some(taken) = self.glance(class)
        {
            return self.publish(taken, len, kind);
        }
        self.alloc_slow(class, len, kind)
    }

    #[cold]
    fn alloc_slow(&mut self, class: usize, len: u64, kind: u32) -> Result<Block, AllocError> {
        let longest = self.heap.longest();
        if len > longest {
            return Err(AllocError::TooLarge { len, longest });
        }
        let taken = match class {
            LARGE => self.take_large(len),
            _ => self.take_small(class).or_else(|_| self.take_large(len)),
        }?;
        let limit = self.heap.parts.limit();
        // Two that come last at once are both refused, rather than one too many let in.
        if limit > 0 && self.heap.busy() > limit {
            self.undo(taken);
            return Err(AllocError::OutOfEntries);
        }
        self.publish(taken, len, kind)
    }

    /// Says what a block was taken for; only now others find it.
    #[inline]
    fn publish(&self, (group, slot, entry): Taken<'a>, len: u64, kind: u32) -> Result<Block, AllocError> {
        // ORDERING: release pairs with `Heap::describe`: who finds this finds that the entry is no earlier block's.
        group.detail(slot).store(len | u64::from(kind) << 40, Ordering::Release);
        // ORDERING: release: who finds the block allocated finds what for.
        group.entry(slot).store(entry.used().0, Ordering::Release);
        self.heap.describe(&group, slot, entry.used()).ok_or(AllocError::Damaged)
    }

    /// Says anew what an allocated block is for. That is up to who allocated it, while nobody else may free it.
    ///
    /// # Errors
    /// [`KindError`]; nothing is changed then.
    pub fn set_kind(&self, id: BlockId, kind: u32) -> Result<(), KindError> {
        if kind >= KINDS {
            return Err(KindError::BadKind(kind));
        }
        let (group, slot, _) = self.heap.entry(id).ok_or(KindError::Stale)?;
        let (_, len) = look::detail(group.detail(slot).load(Ordering::Relaxed));
        // ORDERING: release: who finds the new kind, in `Heap::describe`, finds what was written for it.
        group.detail(slot).store(len | u64::from(kind) << 40, Ordering::Release);
        Ok(())
    }

    /// Takes an entry of a class that this hand knows to be free.
    #[inline]
    fn glance(&mut self, class: usize) -> Option<Taken<'a>> {
        let number = self.number();
        let mine = self.grasp.borrow_mut().reserved.get_mut(class)?;
        let group = self.heap.parts.group(mine.group)?;
        while mine.free != 0 {
            let slot = mine.free.trailing_zeros();
            mine.free &= mine.free - 1;
            match span::claim(&group, slot, mine.life, number) {
                Claim::Taken(entry) => return Some((group, slot, entry)),
                Claim::Lost => {}
                Claim::Gone => *mine = NONE,
            }
        }
        None
    }

    /// Takes an entry of a class: of the span that is reserved, of another one, of a new one.
    fn take_entry(&mut self, class: usize) -> Result<Taken<'a>, AllocError> {
        // Others may be faster at each span that was given something back; not at more than there are, or so it seems.
        for _ in 0..=self.heap.parts.states.len() {
            if let Some(taken) = self.glance(class) {
                return Ok(taken);
            }
            if !self.gather(class) && !self.adopt(class) {
                break;
            }
        }
        let opened = span::open(&self.heap.parts, class, false, self.number())?;
        self.give_up(class);
        self.grasp.borrow_mut().reserved[class] =
            Reserved { life: opened.state.life(), group: opened.group.number, free: opened.free };
        Ok((opened.group, opened.slot, opened.entry))
    }

    /// Learns what was given back to the span that is reserved; false if nothing.
    fn gather(&mut self, class: usize) -> bool {
        let slots = self.heap.parts.sizes.slots(class);
        let mine = &mut self.grasp.borrow_mut().reserved[class];
        let Some(group) = self.heap.parts.group(mine.group).filter(|_| mine.life != 0) else { return false };
        if group.hints().load(Ordering::Relaxed) == 0 {
            return false;
        }
        mine.free |= group.hints().swap(0, Ordering::AcqRel) & slots;
        mine.free != 0
    }

    /// Reserves another span of which blocks are free; false if there is none.
    fn adopt(&mut self, class: usize) -> bool {
        for group in self.heap.parts.groups() {
            let state = span::load(&group);
            let is_adoptable = state.is_open(class) && state.by().is_none();
            if !is_adoptable || group.hints().load(Ordering::Relaxed) == 0 {
                continue;
            }
            let ours = state.by_number(self.number());
            if group.state.compare_exchange(state.0, ours.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.give_up(class);
                self.grasp.borrow_mut().reserved[class] = Reserved { life: state.life(), group: group.number, free: 0 };
                return true;
            }
        }
        false
    }

    /// Lets others have the span that is reserved.
    fn give_up(&mut self, class: usize) {
        let Some(mine) = self.grasp.borrow_mut().reserved.get_mut(class) else { return };
        let Reserved { life, group, free } = core::mem::replace(mine, NONE);
        let Some(group) = self.heap.parts.group(group).filter(|_| life != 0) else { return };
        // Hints of an earlier life do no harm.
        if free != 0 {
            group.hints().fetch_or(free, Ordering::AcqRel);
        }
        let state = State(life).by_number(self.number());
        let _ = group.state.compare_exchange(state.0, state.with(OPEN).0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Gives up all that this hand keeps to itself; the blocks that it allocated stay.
    pub fn rest(&mut self) {
        (0..=LARGE).for_each(|class| self.give_up(class));
    }

    fn take_small(&mut self, class: usize) -> Result<Taken<'a>, AllocError> {
        let refused = match self.take_entry(class) {
            Err(refused) => refused,
            taken => return taken,
        };
        if self.trim() > 0
            && let Ok(taken) = self.take_entry(class)
        {
            return Ok(taken);
        }
        // What others keep to themselves, and then what is longer than needed.
        let larger = class + 1..self.heap.parts.sizes.small();
        self.steal(class..class + 1, true).or_else(|| self.steal(larger, false)).ok_or(refused)
    }

    /// Takes an entry of one of these classes, whoever keeps its span to himself; also one that is reserved for blocks of
    /// its size, if the block is to have that (`own`).
    fn steal(&self, classes: core::ops::Range<usize>, own: bool) -> Option<Taken<'a>> {
        for group in self.heap.parts.groups() {
            let state = span::load(&group);
            let may = classes.contains(&state.class()) && (own || !state.is_pinned());
            if state.state() != OPEN || !may {
                continue;
            }
            for slot in bits(self.heap.parts.sizes.slots(state.class())) {
                if let Claim::Taken(entry) = span::claim(&group, slot, state.life(), self.number()) {
                    return Some((group, slot, entry));
                }
            }
        }
        None
    }

    /// An entry with a run of its own.
    fn take_large(&mut self, len: u64) -> Result<Taken<'a>, AllocError> {
        let taken = match self.take_entry(LARGE) {
            Err(_) if self.trim() > 0 => self.take_entry(LARGE),
            taken => taken,
        };
        let (group, slot, entry) = taken.or_else(|refused| self.steal(LARGE..LARGE + 1, true).ok_or(refused))?;
        let parts = &self.heap.parts;
        let (order, whom) = (parts.sizes.order(len), Whom::entry(BlockId::of(&group, slot, entry).entry()));
        let run = match parts.runs.take(order, self.number(), whom) {
            None if self.trim() > 0 => parts.runs.take(order, self.number(), whom),
            run => run,
        };
        let Some(first) = run else {
            self.undo((group, slot, entry));
            return Err(AllocError::NotAvailable { len });
        };
        // ORDERING: release, as in `publish`.
        group.run(slot).store(u64::from(first) | u64::from(order) << 32, Ordering::Release);
        parts.runs.hold(first, order, self.number(), whom);
        Ok((group, slot, entry))
    }

    /// Closes all spans that are empty; how many.
    fn trim(&self) -> usize {
        let parts = &self.heap.parts;
        parts.groups().filter(|group| span::close(parts, group, self.number())).count()
    }

    /// Gives back what was taken and not published.
    fn undo(&self, (group, slot, entry): Taken<'a>) {
        if span::load(&group).class() == LARGE {
            let first = group.run(slot).load(Ordering::Relaxed) as u32;
            self.heap.parts.runs.release(first, self.number(), Whom::entry(BlockId::of(&group, slot, entry).entry()));
        }
        span::give_back(&group, slot, entry);
    }

    /// Frees a block, whoever allocated it. Its last step is a read-modify-write of order `SeqCst`.
    ///
    /// # Errors
    /// [`Stale`] if it was freed before, or never allocated; nothing is changed then.
    #[inline]
    pub fn free(&mut self, id: BlockId) -> Result<(), Stale> {
        self.free_if(id, |_| true)
    }

    /// Frees a block as [`free`](Self::free) does, if it is that of member `owner` at that moment.
    ///
    /// # Errors
    /// [`Stale`] as for [`free`](Self::free), and if it is somebody else's; nothing is changed then.
    pub fn free_of(&mut self, id: BlockId, owner: u16) -> Result<(), Stale> {
        self.free_if(id, |now| now == owner)
    }

    #[inline]
    fn free_if(&mut self, id: BlockId, is_owner: impl FnOnce(u16) -> bool) -> Result<(), Stale> {
        let (group, slot, entry) = self.heap.entry(id).filter(|now| is_owner(now.2.owner())).ok_or(Stale)?;
        let state = span::load(&group);
        let (word, is_large) = (group.entry(slot), state.class() == LARGE);
        let next = if is_large { entry.releasing(self.number()) } else { entry.freed() };
        // ORDERING: release: what the block was used for is over before anybody takes it. Sequentially consistent, here
        // and below, so that whoever waits for a free can be told by `EventCount::notify_after_swap`.
        word.compare_exchange(entry.0, next.0, Ordering::SeqCst, Ordering::Relaxed).map_err(|_| Stale)?;
        if is_large {
            let first = group.run(slot).load(Ordering::Relaxed) as u32;
            self.heap.parts.runs.release(first, self.number(), Whom::entry(id.entry()));
            word.swap(next.freed().0, Ordering::SeqCst);
        }
        match self.grasp.borrow_mut().reserved.get_mut(state.class()) {
            Some(mine) if mine.group == group.number && mine.life == state.life() => mine.free |= 1 << slot,
            _ => drop(group.hints().fetch_or(1 << slot, Ordering::AcqRel)),
        }
        Ok(())
    }

    /// Makes an allocated block this member's, whoever's it was: it stays when he dies, and goes with this one. Who frees
    /// it at the same moment is refused.
    ///
    /// # Errors
    /// [`Stale`] if it was freed, or is somebody else's by now.
    pub fn own(&self, id: BlockId) -> Result<(), Stale> {
        let (group, slot, entry) = self.heap.entry(id).ok_or(Stale)?;
        let ours = entry.owned_by(self.number());
        let owned = group.entry(slot).compare_exchange(entry.0, ours.0, Ordering::AcqRel, Ordering::Relaxed);
        owned.map(|_| ()).map_err(|_| Stale)
    }
}

impl<G: BorrowMut<Grasp>> Hand<'_, G> {
    /// Gives an allocated block the next id, so that the one by which it was known so far is stale: it is on its way to
    /// somebody else. Whose it is does not change.
    ///
    /// # Errors
    /// [`Stale`].
    pub fn rename(&self, id: BlockId) -> Result<BlockId, Stale> {
        self.change_generation(id, Entry::next)
    }

    /// Takes a [`rename`](Self::rename) back, after which nobody learned the id: it is the one before.
    ///
    /// # Errors
    /// [`Stale`].
    pub fn rename_back(&self, id: BlockId) -> Result<BlockId, Stale> {
        self.change_generation(id, Entry::previous)
    }

    fn change_generation(&self, id: BlockId, change: impl Fn(Entry) -> Entry) -> Result<BlockId, Stale> {
        let (group, slot, entry) = self.heap.entry(id).ok_or(Stale)?;
        let changed = change(entry);
        let swapped = group.entry(slot).compare_exchange(entry.0, changed.0, Ordering::AcqRel, Ordering::Relaxed);
        swapped.map(|_| BlockId::of(&group, slot, changed)).map_err(|_| Stale)
    }
}

impl BlockId {
    pub(super) fn of(group: &Group<'_>, slot: u32, entry: Entry) -> BlockId {
        BlockId::new(group.number * 64 + slot, entry.generation())
    }
}

impl<'a> Heap<'a> {
    /// The entry of a block that is allocated.
    #[inline]
    pub(super) fn entry(&self, id: BlockId) -> Option<Taken<'a>> {
        let (group, slot) = (self.parts.group(id.entry() / 64)?, id.entry() % 64);
        // ORDERING: acquire pairs with `publish`.
        let entry = Entry(group.entry(slot).load(Ordering::Acquire));
        (entry.state() == USED && entry.generation() == id.generation()).then_some((group, slot, entry))
    }
}
