//! The words that decide: of an entry, and of a group of entries.
//!
//! An entry is one block's: how often it was used (40 bits), who holds it (10 bits), and what it is doing. A group is 64
//! entries, used for blocks of one class: a version (32 bits) that moves on with each life of the group, who reserves or
//! changes it (10 bits, plus one), the class (8 bits), a mark, and its state.

/// What an entry is doing: its group has no block for it.
pub(super) const SEALED: u64 = 0;
/// Its block is free.
pub(super) const FREE: u64 = 1;
/// Somebody took its block, and has not said yet what for.
pub(super) const TAKEN: u64 = 2;
/// Its block is allocated.
pub(super) const USED: u64 = 3;
/// Somebody is freeing the run that is its block.
pub(super) const RELEASING: u64 = 4;
const STATE: u64 = 7;
const OWNER: u32 = 8;
const NUMBER: u64 = 0x3ff;
const GENERATION: u32 = 24;
/// An entry that was used so often is not used any more, so that no id comes again.
const LAST: u64 = (1 << 40) - 1;

/// The word of an entry, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    #[inline]
    pub(super) const fn state(self) -> u64 {
        self.0 & STATE
    }
    #[inline]
    pub(super) const fn owner(self) -> u16 {
        (self.0 >> OWNER & NUMBER) as u16
    }
    #[inline]
    pub(super) const fn generation(self) -> u64 {
        self.0 >> GENERATION
    }
    /// Whether somebody has its block.
    pub(super) const fn is_busy(self) -> bool {
        self.state() > FREE
    }
    pub(super) const fn is(self, state: u64, owner: u16) -> bool {
        self.state() == state && self.owner() == owner
    }
    #[inline]
    const fn of(self, state: u64, owner: u16) -> Entry {
        Entry(self.generation() << GENERATION | (owner as u64 & NUMBER) << OWNER | state)
    }
    /// Taken by an owner, who uses it once more.
    #[inline]
    pub(super) const fn taken(self, owner: u16) -> Entry {
        Entry((self.generation() + 1) << GENERATION).of(TAKEN, owner)
    }
    #[inline]
    pub(super) const fn used(self) -> Entry {
        self.of(USED, self.owner())
    }
    pub(super) const fn owned_by(self, owner: u16) -> Entry {
        self.of(USED, owner)
    }
    /// The same, used once more; not more often than an entry can be.
    pub(super) const fn next(self) -> Entry {
        if self.generation() >= LAST { self } else { Entry(self.0 + (1 << GENERATION)) }
    }
    /// The same, used once less.
    pub(super) const fn previous(self) -> Entry {
        if self.generation() == 0 { self } else { Entry(self.0 - (1 << GENERATION)) }
    }
    pub(super) const fn releasing(self, owner: u16) -> Entry {
        self.of(RELEASING, owner)
    }
    /// Free, or not usable any more.
    #[inline]
    pub(super) const fn freed(self) -> Entry {
        self.of(if self.generation() >= LAST { SEALED } else { FREE }, 0)
    }
    pub(super) const fn sealed(self) -> Entry {
        self.of(SEALED, 0)
    }
}

/// What a group is doing: nothing.
pub(super) const EMPTY: u64 = 0;
/// Somebody gives it blocks.
pub(super) const OPENING: u64 = 1;
/// Its blocks are allocated and freed.
pub(super) const OPEN: u64 = 2;
/// Somebody takes its blocks away, which are all free.
pub(super) const CLOSING: u64 = 3;
/// Its blocks stay with it.
const PINNED: u64 = 1 << 3;
const CLASS: u32 = 8;
const BY: u32 = 16;
const VERSION: u32 = 32;

/// The word of a group, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(pub(super) u64);

impl State {
    #[inline]
    pub(super) const fn state(self) -> u64 {
        self.0 & STATE
    }
    #[inline]
    pub(super) const fn class(self) -> usize {
        (self.0 >> CLASS & 0xff) as usize
    }
    /// Who reserves or changes it.
    pub(super) const fn by(self) -> Option<u16> {
        ((self.0 >> BY & 0x7ff) as u16).checked_sub(1)
    }
    pub(super) const fn is_by(self, number: u16) -> bool {
        matches!(self.by(), Some(by) if by == number)
    }
    pub(super) const fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }
    /// The same whoever reserves it: one life of the group.
    #[inline]
    pub(super) const fn life(self) -> u64 {
        self.0 & !(0xffff << BY)
    }
    #[inline]
    pub(super) const fn is_open(self, class: usize) -> bool {
        self.state() == OPEN && self.class() == class
    }
    /// In this state, by nobody.
    pub(super) const fn with(self, state: u64) -> State {
        State(self.life() & !STATE | state)
    }
    pub(super) const fn by_number(self, number: u16) -> State {
        State(self.life() | (number as u64 + 1) << BY)
    }
    /// In its next life, being opened for a class.
    pub(super) const fn opening(self, class: usize, pinned: bool, number: u16) -> State {
        let version = ((self.0 >> VERSION) + 1) << VERSION;
        let pinned = if pinned { PINNED } else { 0 };
        State(version | (class as u64) << CLASS | pinned | OPENING).by_number(number)
    }
}
