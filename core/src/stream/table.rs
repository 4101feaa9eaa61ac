//! The places of conversations, and how one begins: the words without the bytes.

use super::layout::{Class, DESTROYED, HINTS, MAIN, MANAGER, Plan, Shape, TICKET};
use super::word::{BRIEF, OFFERED, WAITS, Word};
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::event::EventCount;

/// Attempts at a word after which it is called damaged: others are never that fast.
pub(super) const ATTEMPTS: u32 = 1 << 16;
/// Passes in which another conversation turns out to be older before one is taken as the oldest.
const PASSES: u32 = 8;

/// The places of an adapter, over memory that processes share; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    pub(super) header: &'a [AtomicU64],
    pub(super) words: &'a [AtomicU64],
    pub(super) tickets: &'a [AtomicU64],
    pub(super) plan: Plan,
    pub(super) shape: Shape,
}

/// Names one conversation: one use of one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Conversation {
    pub(super) place: usize,
    pub(super) generation: u32,
}

impl Conversation {
    /// Which place it is in.
    #[must_use]
    pub const fn place(&self) -> usize {
        self.place
    }
}

/// A place that its keeper begins conversations in, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Kept {
    pub(super) place: usize,
}

/// How many places are what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Streams that anybody may take.
    pub idle: usize,
    /// Conversations that wait for a receiver.
    pub waiting: usize,
    /// Streams whose receivers wait for a sender.
    pub offered: usize,
    /// Streams that somebody keeps.
    pub kept: usize,
    /// Messages that there is room for.
    pub room: usize,
}

impl<'a> Table<'a> {
    /// What its creator chose.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Changes whenever a conversation waits for a receiver; in the mode [`Single`](super::Mode::Single) also when a place is
    /// free, in which one may wait himself.
    #[must_use]
    pub const fn main(&self) -> EventCount<'a> {
        EventCount::new(&self.header[MAIN])
    }

    /// Changes whenever a place is free, or a receiver waits in one.
    #[must_use]
    pub const fn manager(&self) -> EventCount<'a> {
        EventCount::new(&self.header[MANAGER])
    }

    /// Whether [`destroy`](Self::destroy) was called.
    #[inline]
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.header[DESTROYED].load(Ordering::Relaxed) != 0
    }

    /// Says that nobody shall use it any more; true for the first who says so. Wake all waiters afterwards, and
    /// [meet](Self::meet) and leave what waits: nobody else does. Who deposits beside this finds it
    /// [destroyed](Self::is_destroyed_by_now), and does the same.
    pub fn destroy(&self) -> bool {
        let first = self.header[DESTROYED].swap(1, Ordering::SeqCst) == 0;
        // ORDERING: pairs with the fence of `is_destroyed_by_now`: of a deposit and this, one sees the other.
        fence(Ordering::SeqCst);
        first
    }

    /// After a deposit: whether [`destroy`](Self::destroy) may have been over before it, and has not seen it.
    #[must_use]
    pub fn is_destroyed_by_now(&self) -> bool {
        // ORDERING: as in `destroy`.
        fence(Ordering::SeqCst);
        self.is_destroyed()
    }

    fn range(&self, class: Class) -> core::ops::Range<usize> {
        match class {
            Class::Stream => 0..self.plan.streams,
            Class::Message => self.plan.streams..self.plan.places(),
        }
    }

    const fn hint(&self, class: Class) -> &'a AtomicU64 {
        &self.header[HINTS + class as usize]
    }

    /// Says where a free place is.
    pub(super) fn suggest(&self, place: usize) {
        let class = if place < self.plan.streams { Class::Stream } else { Class::Message };
        self.hint(class).store(place as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn load(&self, place: usize) -> Option<Word> {
        self.words.get(place).map(Word::load)
    }

    #[inline]
    pub(super) fn swap(&self, place: usize, from: Word, to: Word) -> bool {
        self.words.get(place).is_some_and(|word| from.swap(word, to))
    }

    /// Takes the first place of a class that anybody may have.
    fn take(&self, class: Class, taken: impl Fn(Word) -> Word) -> Option<Conversation> {
        let range = self.range(class);
        let hint = self.hint(class).load(Ordering::Relaxed) as usize;
        let from = if range.contains(&hint) { hint } else { range.start };
        for place in (from..range.end).chain(range.start..from) {
            let now = self.load(place)?;
            if now.is_idle() && self.swap(place, now, taken(now)) {
                return Some(Conversation { place, generation: now.generation() });
            }
        }
        None
    }

    /// Begins a conversation as its sender in a place that anybody may have; the receiver need not listen to its end if
    /// it is `brief`. `None` if there is no such place.
    #[must_use]
    pub fn claim(&self, by: u16, class: Class, brief: bool) -> Option<Conversation> {
        self.take(class, |now| now.sent_by(by).set(if brief { BRIEF } else { 0 }))
    }

    /// Begins one as its receiver.
    #[must_use]
    pub fn offer(&self, by: u16) -> Option<Conversation> {
        self.take(Class::Stream, |now| now.received_by(by).set(OFFERED))
    }

    /// Keeps a stream, to begin conversations in it.
    #[must_use]
    pub fn keep(&self, by: u16) -> Option<Kept> {
        self.take(Class::Stream, |now| now.freed().kept_by(by)).map(|taken| Kept { place: taken.place })
    }

    /// Keeps it no longer: as soon as no conversation is in it anybody may have it.
    pub fn give_up(&self, kept: Kept, by: u16) {
        for _ in 0..ATTEMPTS {
            match self.load(kept.place) {
                Some(now) if now.keeper() == Some(by) => {
                    if self.swap(kept.place, now, now.without_keeper()) {
                        self.suggest(kept.place);
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    fn begin(&self, kept: Kept, by: u16, begun: impl Fn(Word) -> Word) -> Option<Conversation> {
        let now = self.load(kept.place)?;
        let is_ready = now.is_quiet() && now.keeper() == Some(by);
        let begun = is_ready && self.swap(kept.place, now, begun(now));
        begun.then_some(Conversation { place: kept.place, generation: now.generation() })
    }

    /// Begins a conversation as its sender in a stream that this member keeps; `None` while one is in it.
    #[must_use]
    pub fn claim_kept(&self, kept: Kept, by: u16, brief: bool) -> Option<Conversation> {
        self.begin(kept, by, |now| now.sent_by(by).set(if brief { BRIEF } else { 0 }))
    }

    /// Begins one as its receiver.
    #[must_use]
    pub fn offer_kept(&self, kept: Kept, by: u16) -> Option<Conversation> {
        self.begin(kept, by, |now| now.received_by(by).set(OFFERED))
    }

    /// Becomes the sender of a conversation whose receiver waits.
    #[must_use]
    pub fn accept(&self, by: u16, brief: bool) -> Option<Conversation> {
        for place in self.range(Class::Stream) {
            let now = self.load(place)?;
            let accepted = now.unset(OFFERED).sent_by(by).set(if brief { BRIEF } else { 0 });
            if now.has(OFFERED) && self.swap(place, now, accepted) {
                return Some(Conversation { place, generation: now.generation() });
            }
        }
        None
    }

    /// Draws a number for a conversation, behind all that were deposited before.
    pub(super) fn number(&self, place: usize) {
        let ticket = self.header[TICKET].fetch_add(1, Ordering::Relaxed);
        if let Some(word) = self.tickets.get(place) {
            // ORDERING: made visible by the swap of the word that follows.
            word.store(ticket, Ordering::Relaxed);
        }
    }

    /// Lets a receiver come. False if this member does not send in it.
    pub fn deposit(&self, conversation: Conversation, by: u16) -> bool {
        self.number(conversation.place);
        for _ in 0..ATTEMPTS {
            let Some(now) = self.load(conversation.place) else { return false };
            if now.generation() != conversation.generation || now.sender() != Some(by) || now.receiver().is_some() {
                return false;
            }
            if self.swap(conversation.place, now, now.set(WAITS)) {
                return true;
            }
        }
        false
    }

    /// The oldest conversation that waits for a receiver.
    fn oldest(&self) -> Option<(u64, usize, Word)> {
        let waiting = self.words.iter().zip(self.tickets).enumerate().filter_map(|(place, (word, ticket))| {
            let now = Word::load(word);
            // Whether the number is that of this word the swap of it will tell.
            now.has(WAITS).then(|| (ticket.load(Ordering::Relaxed), place, now))
        });
        waiting.min_by_key(|&(ticket, ..)| ticket)
    }

    /// Becomes the receiver of the oldest conversation that waits for one. `None` if none does.
    #[must_use]
    pub fn meet(&self, by: u16) -> Option<Conversation> {
        let mut before = None;
        for pass in 0..ATTEMPTS {
            let (ticket, place, now) = self.oldest()?;
            // Twice the same: what was deposited before this one would have been seen at the second look.
            if before == Some(ticket) || pass >= PASSES {
                if self.swap(place, now, now.unset(WAITS).received_by(by)) {
                    return Some(Conversation { place, generation: now.generation() });
                }
                before = None;
            } else {
                before = Some(ticket);
            }
        }
        None
    }

    /// How many places are what; each was at some moment meanwhile.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (place, word) in self.words.iter().enumerate() {
            let now = Word::load(word);
            counts.waiting += usize::from(now.has(WAITS));
            counts.offered += usize::from(now.has(OFFERED));
            counts.kept += usize::from(now.keeper().is_some());
            let idle = if place < self.plan.streams { &mut counts.idle } else { &mut counts.room };
            *idle += usize::from(now.is_idle());
        }
        counts
    }

    /// Whether a conversation waits for a receiver.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.oldest().is_some()
    }
}
