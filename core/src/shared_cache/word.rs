//! The word of a slot: what it is doing, and who refers to it.
//!
//! References are counted in one field an owner, 40 bits together, so the compare-and-swap that takes a reference
//! also says whose it is. Above them: the owner who claims or fills the slot (5 bits), a mark of use, a generation (14 bits)
//! that changes with each assignment, a mark of leaving, and the state (3 bits): what a hit looks at is at the top, where it
//! takes the fewest instructions.

use crate::atomic::{AtomicU64, Ordering};
use crate::shared_slots::Owner;

/// Bits of all counts together.
pub(super) const COUNT_BITS: u32 = 40;
const COUNTS: u64 = (1 << COUNT_BITS) - 1;
const BY: u32 = COUNT_BITS;
const BY_MASK: u64 = 0x1f << BY;
/// The content was used since the hand came by.
const USED: u64 = 1 << (BY + 5);
const GENERATION: u32 = BY + 6;
pub(super) const GENERATION_BITS: u32 = 14;
/// Generations that are told apart. The models of loom go round in two, to see that nothing rests on more.
const GENERATIONS: u64 = if cfg!(loom) { 2 } else { 1 << GENERATION_BITS };
const GENERATION_MASK: u64 = ((1 << GENERATION_BITS) - 1) << GENERATION;
/// The content goes with the last reference.
const LEAVING: u64 = 1 << (GENERATION + GENERATION_BITS);
const STATE: u32 = GENERATION + GENERATION_BITS + 1;
const STATE_MASK: u64 = 7 << STATE;
const _: () = assert!(STATE + 3 == u64::BITS && GENERATION_BITS <= u16::BITS);

/// Nobody's, with a slot that nobody needs.
pub(super) const EMPTY: u64 = 0;
/// An owner has it to himself, to give it to other data.
pub(super) const CLAIMED: u64 = 1 << STATE;
/// Assigned, and somebody fills it.
pub(super) const FILLING: u64 = 2 << STATE;
/// Assigned, and nobody fills it; without references it is vacant.
pub(super) const ABANDONED: u64 = 3 << STATE;
/// Assigned, and filled.
pub(super) const VALID: u64 = 4 << STATE;
/// Nobody's, without a slot.
pub(super) const BARE: u64 = 5 << STATE;
/// Claimed, and about to get the slot of another place that the same owner claimed. The counts are the number of that one.
const MOVING: u64 = 6 << STATE;

/// The word of one place, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(pub(super) u64);

/// One owner's field of the counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    shift: u32,
    unit: u64,
    /// All of its bits, where they are in a word.
    bits: u64,
}

impl Field {
    pub(super) const fn new(owner: Owner, bits: u32) -> Field {
        let shift = owner.number() as u32 * bits;
        Field { shift, unit: 1 << shift, bits: ((1 << bits) - 1) << shift }
    }
    /// References that a field can count.
    pub(super) const fn most(self) -> u32 {
        (self.bits >> self.shift) as u32
    }
}

impl Word {
    /// As it is now.
    #[inline]
    pub(super) fn of_slot(word: &AtomicU64) -> Word {
        // ORDERING: acquire, so that the data read behind it is not older.
        Word(word.load(Ordering::Acquire))
    }

    /// Puts another in its place, if it is there still.
    ///
    /// # Errors
    /// What is there instead.
    #[inline]
    pub(super) fn replace(self, word: &AtomicU64, next: Word) -> Result<(), Word> {
        // ORDERING: release, so that what this client did with the slot is over before the next one begins; acquire,
        // so that this client sees what others wrote to the slot, or had read of it, before. Sequentially consistent, so that
        // who frees a slot or ends a fill sees behind it who waits; processors do not tell the two apart.
        match word.compare_exchange(self.0, next.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(Word(now)),
        }
    }

    #[inline]
    pub(super) const fn state(self) -> u64 {
        self.0 & STATE_MASK
    }

    #[inline]
    pub(super) const fn is_referred(self) -> bool {
        self.0 & COUNTS != 0
    }

    /// Known content without a reference: what may be evicted.
    pub(super) const fn is_idle(self) -> bool {
        self.state() == VALID && !self.is_referred()
    }

    /// Somebody's data is to be found here.
    #[inline(always)]
    pub(super) const fn is_assigned(self) -> bool {
        matches!(self.state(), FILLING | ABANDONED | VALID)
    }

    /// Assigned to data of which there is nothing: as good as empty.
    pub(super) const fn is_vacant(self) -> bool {
        self.state() == ABANDONED && !self.is_referred()
    }

    /// Nobody needs what is in it.
    pub(super) const fn is_free(self) -> bool {
        self.state() == EMPTY || self.is_vacant()
    }

    pub(super) const fn is_used(self) -> bool {
        self.0 & USED != 0
    }

    pub(super) const fn by(self) -> u8 {
        ((self.0 & BY_MASK) >> BY) as u8
    }

    pub(super) const fn generation(self) -> u16 {
        ((self.0 & GENERATION_MASK) >> GENERATION) as u16
    }

    /// Whether it is content that stays.
    #[inline]
    pub(super) const fn stays(self) -> bool {
        self.0 & (STATE_MASK | LEAVING) == VALID
    }

    /// Whether it is content that stays, of this generation, which has no more bits than a generation has.
    #[inline]
    pub(super) const fn stays_in(self, generation: u16) -> bool {
        self.0 >> GENERATION == VALID >> GENERATION | generation as u64
    }

    /// The generation of content that stays, which takes fewer instructions to find.
    #[inline]
    pub(super) const fn generation_staying(self) -> u16 {
        (self.0 >> GENERATION) as u16
    }

    /// References of one owner.
    #[inline]
    pub(super) const fn count(self, field: Field) -> u32 {
        ((self.0 & field.bits) >> field.shift) as u32
    }

    /// References of all, if each has a field of so many bits; at most as many as fit, if the memory is damaged.
    pub(super) fn references(self, bits: u32) -> u32 {
        let fields = (0..COUNT_BITS).step_by(bits.max(1) as usize);
        fields.map(|shift| ((self.0 & COUNTS) >> shift & ((1 << bits) - 1)) as u32).fold(0, u32::saturating_add)
    }

    const fn with(self, state: u64) -> Word {
        Word(self.0 & !STATE_MASK | state)
    }

    const fn of(self, owner: Owner) -> Word {
        Word(self.0 & !BY_MASK | (owner.number() as u64) << BY)
    }

    /// With one more reference to content; the caller knows that the field has room.
    #[inline]
    pub(super) const fn joined(self, field: Field) -> Word {
        let used = if self.state() == VALID { USED } else { 0 };
        Word((self.0 | used) + field.unit)
    }

    /// With one more reference to content that stays, if the field has room.
    #[inline]
    pub(super) const fn hit(self, field: Field) -> Option<Word> {
        if !self.stays() {
            return None;
        }
        let next = (self.0 | USED) + field.unit;
        // A field that had no room is 0.
        if next & field.bits == 0 { None } else { Some(Word(next)) }
    }

    /// Without one reference, if there is one; the caller knows that it is to content that stays.
    #[inline]
    pub(super) const fn given_back(self, field: Field) -> Option<Word> {
        if self.0 & field.bits == 0 { None } else { Some(Word(self.0 - field.unit)) }
    }

    /// With one more reference, by whoever fills it from now on.
    pub(super) const fn refilled(self, field: Field, owner: Owner) -> Word {
        self.joined(field).with(FILLING).of(owner)
    }

    /// Claimed by an owner, without marks.
    pub(super) const fn claimed(self, owner: Owner) -> Word {
        Word(self.with(CLAIMED).of(owner).0 & !(LEAVING | USED))
    }

    /// Assigned anew: being filled by the claimant, who has the only reference.
    pub(super) const fn assigned(self, field: Field, owner: Owner) -> Word {
        Word(self.emptied().0 | FILLING | field.unit).of(owner)
    }

    /// In its next generation, without anything but a slot.
    pub(super) const fn emptied(self) -> Word {
        Word(((self.generation() as u64 + 1) % GENERATIONS) << GENERATION | EMPTY)
    }

    /// In its next generation, without anything.
    pub(super) const fn bared(self) -> Word {
        self.emptied().with(BARE)
    }

    /// Claimed, for the slot of the place of this number.
    pub(super) const fn moving(self, owner: Owner, from: u32) -> Word {
        Word(self.0 & !COUNTS | from as u64).with(MOVING).of(owner)
    }

    /// The number of the place whose slot comes here.
    pub(super) const fn source(self) -> u32 {
        (self.0 & COUNTS) as u32
    }

    /// Claimed as before, with its slot.
    pub(super) const fn moved(self) -> Word {
        Word(self.0 & !COUNTS).with(CLAIMED)
    }

    /// Filled.
    pub(super) const fn filled(self) -> Word {
        Word(self.with(VALID).0 & !BY_MASK)
    }

    /// Given up by whoever filled it.
    pub(super) const fn abandoned(self) -> Word {
        self.with(ABANDONED)
    }

    /// The content shall go with the last reference; without one it goes now.
    pub(super) const fn leaving(self) -> Word {
        Word(self.0 | LEAVING).settled()
    }

    /// Without the mark of use.
    pub(super) const fn unused(self) -> Word {
        Word(self.0 & !USED)
    }

    /// Without one reference, which the caller knows to be there.
    #[inline]
    pub(super) const fn released(self, field: Field) -> Word {
        Word(self.0 - field.unit).settled()
    }

    /// Without what a dead owner had: his references, and his fill.
    pub(super) const fn bereft(self, field: Field, owner: Owner) -> Word {
        let left = Word(self.0 & !field.bits);
        let left = if self.is_filled_by(owner) { left.abandoned() } else { left };
        if self.is_referred() { left.settled() } else { left }
    }

    pub(super) const fn is_filled_by(self, owner: Owner) -> bool {
        self.state() == FILLING && self.by() == owner.number()
    }

    pub(super) const fn is_moving_by(self, owner: Owner) -> bool {
        self.state() == MOVING && self.by() == owner.number()
    }

    pub(super) const fn is_claimed_by(self, owner: Owner) -> bool {
        self.state() == CLAIMED && self.by() == owner.number()
    }

    /// Vacant, if nobody refers to it any more and there is nothing to keep.
    #[inline]
    const fn settled(self) -> Word {
        if self.is_referred() || self.state() == VALID && self.0 & LEAVING == 0 {
            return self;
        }
        Word(self.with(ABANDONED).0 & !(LEAVING | USED | BY_MASK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [u64; 7] = [EMPTY, CLAIMED, FILLING, ABANDONED, VALID, BARE, MOVING];

    /// How references are counted: bits of a field, and how many fields.
    const SHARINGS: [(u32, u8); 5] = [(1, 30), (2, 20), (5, 8), (20, 2), (32, 1)];

    /// Every part of a word but one owner's references.
    fn parts(word: Word) -> (u64, u8, u16, u64) {
        (word.state(), word.by(), word.generation(), word.0 & (LEAVING | USED))
    }

    #[test]
    fn s76_each_part_of_a_word_is_found_as_it_was_put_and_none_reaches_into_another() {
        for (bits, owners) in SHARINGS {
            for (state, number) in STATES.into_iter().flat_map(|state| (0..owners).map(move |number| (state, number))) {
                let Some(owner) = Owner::new(number) else { unreachable!("fewer than 31") };
                let field = Field::new(owner, bits);
                for marks in [0, LEAVING, USED, LEAVING | USED] {
                    for generation in [0, 1, (GENERATIONS - 1) as u16] {
                        let bare = Word(u64::from(generation) << GENERATION | marks | state).of(owner);
                        assert_eq!(parts(bare), (state, number, generation, marks));
                        let stays = state == VALID && marks & LEAVING == 0;
                        assert_eq!(bare.stays(), stays);
                        for asked in [0, 1, (GENERATIONS - 1) as u16] {
                            assert_eq!(bare.stays_in(asked), stays && asked == generation);
                        }
                        // All others have as many references as they can.
                        let others = COUNTS & ((1 << (u32::from(owners) * bits)) - 1) & !field.bits;
                        let mut word = Word(bare.0 | others);
                        for count in 1..=field.most().min(70) {
                            word = word.joined(field);
                            assert_eq!((word.count(field), word.0 & others), (count, others));
                        }
                        let once = Word(bare.0 | others).hit(field);
                        assert_eq!(once.map(|once| once.0), stays.then_some((bare.0 | others | USED) + field.unit));
                        if let Some(once) = once {
                            assert_eq!(once.generation_staying(), generation);
                            assert_eq!(once.given_back(field).map(|none| none.0), Some(bare.0 | others | USED));
                        }
                        assert!(Word(bare.0 | others).given_back(field).is_none(), "nobody's");
                        assert!(Word(bare.0 | others | field.bits).hit(field).is_none(), "there is no room");
                        let used = if state == VALID { USED } else { 0 };
                        assert_eq!(parts(word), (state, number, generation, marks | used));
                        let most = field.most();
                        let full = Word(word.0 | field.bits);
                        assert_eq!((full.count(field), full.references(bits)), (most, most * u32::from(owners)));
                        assert_eq!(full.released(field).count(field), most - 1);
                        let bereft = full.bereft(field, owner);
                        assert_eq!((bereft.count(field), bereft.0 & others), (0, others));
                        let next = full.emptied();
                        assert_eq!(parts(next), (EMPTY, 0, ((u64::from(generation) + 1) % GENERATIONS) as u16, 0));
                        assert_eq!(next.0 & COUNTS, 0);
                    }
                }
            }
        }
    }
}
