//! The hot look-ups: from the numbers in a group's slot to the process and the first shadow of a rank, or of many.
//!
//! Of an explicit table the slot says where in the arena its ranks lie. Of an affine one it holds all that it takes:
//! world rank and service process as lanes of one linear word. World rank, first service process of the DPU and lid are
//! all linear in the rank `r` and in `r / d` before the lid is taken modulo the service processes per DPU. So one word
//! holds them all, modulo 2^64:
//!
//! ```text
//! base + r * by_rank + (r / d) * by_quotient      bits 0 to 31    world rank
//!                                                 bits 32 to 57   first service process of the rank's DPU
//!                                                 bits 58 to 63   low six bits of lid + m * lid_step
//! ```
//!
//! Where the service processes per DPU are a power of two (at most 64), the six bits are all that counts, and a mask
//! gives the lid, and the look-up touches no table, only the slot, which is one cache line; otherwise it takes a division
//! by reciprocal, with parameters out of the table.
//!
//! *Cost*: one read; or three multiplications, seven where the lid takes a division.

use super::affine::Affine;
use super::arena::{Arena, LINE_WORDS, Slot, load};
use super::explicit::Explicit;
use super::layout::{AFFINE_WORDS, HEADER_WORDS, Kind, halves};
use super::reciprocal::Reciprocal;
use super::table::{Form, Table};
use super::words::Words;
use crate::atomic::AtomicU64;
use crate::peer::{Rank, Sp};

/// Numbers of a slot. Explicit: where in the arena its ranks start, in units of 32 bits where only first shadows are
/// stored, of words where world ranks are too; and three zeros; affine: reciprocal of `d`, base, by rank, by quotient.
pub(super) const LANE_WORDS: usize = 4;

/// What the upper half of a slot's second word says: first shadows alone; or, with the sign, first shadows with world
/// ranks; or arithmetic, with a lid that takes a division, of blocks or of cycles; or, with one more bit, arithmetic with
/// the mask that is in the lowest six.
///
/// So the whole word is the size of a group whose first shadows are stored alone, and negative for all others: one
/// comparison tells whether such a group has a rank.
const IDENTITY: u32 = 0;
const SIGN: u32 = 1 << 31;
const STORED: u32 = SIGN | 1;
const DIVIDED_BLOCK: u32 = SIGN | 2;
const DIVIDED_CYCLIC: u32 = SIGN | 3;
const MASKED: u32 = 1 << 6;

const SP_LANE: u32 = 32;
const LID_LANE: u32 = 58;

impl<W: Words> Table<W> {
    /// What a slot says of this table, if it starts at this line of the arena: the form and the numbers.
    pub(super) fn slot_numbers(&self, line: u64) -> (u32, [u64; LANE_WORDS]) {
        match &self.form {
            Form::Affine(affine) => (affine.form(), affine.lanes()),
            Form::Explicit(Explicit { head, at, .. }) => {
                // Of two numbers that are below the arena's bytes: no overflow.
                let word = line * LINE_WORDS as u64 + at.ranks as u64;
                let (form, first) = if head.identity { (IDENTITY, word * 2) } else { (STORED, word) };
                (form, [first, 0, 0, 0])
            }
        }
    }
}

impl Affine {
    /// How the lid is found.
    fn form(&self) -> u32 {
        match self.kind {
            _ if self.per_dpu.is_power_of_two() => SIGN | MASKED | (self.per_dpu - 1),
            Kind::Cyclic => DIVIDED_CYCLIC,
            _ => DIVIDED_BLOCK,
        }
    }

    /// The numbers of the slot.
    fn lanes(&self) -> [u64; LANE_WORDS] {
        let word = |world: i32, sp: u32, lid: u32| {
            let lid = u64::from(lid) << LID_LANE;
            lid.wrapping_add(u64::from(sp) << SP_LANE).wrapping_add(i64::from(world).cast_unsigned())
        };
        // What changes from one host to the next, and from one place on a host to the next.
        let (host, place) = (word(0, self.sp_stride, 0), word(0, 0, self.lid_step));
        // Block: the quotient is the host, the rest `r - q * d` the place; cyclic: the other way round.
        let (rest, quotient) = if self.kind == Kind::Cyclic { (host, place) } else { (place, host) };
        [
            Reciprocal::new(self.divisor).0,
            word(0, self.sp, self.lid).wrapping_add(self.world.into()),
            rest.wrapping_add(word(self.world_stride, 0, 0)),
            quotient.wrapping_sub(rest.wrapping_mul(self.divisor.into())),
        ]
    }
}

impl<'a> Arena<'a> {
    /// The process and the first shadow of a rank, if the group has it.
    ///
    /// All arithmetic wraps: for a slot and a table that the writer made, the result is that of [`Table::world_rank`] and
    /// [`Table::shadow`]; for anything else it is some number, or `None`.
    // As for the look-up that it is part of.
    #[inline(always)]
    pub(super) fn locate(&self, slot: &Slot<'a>, rank: Rank) -> Option<(u32, Sp)> {
        self.locate_by(slot, load(slot.shape), |lane| load(&slot.lanes[lane]), rank)
    }

    /// [`locate`](Self::locate), with the numbers of the slot read once for all ranks.
    #[inline(always)]
    pub(super) fn locator(&self, slot: &Slot<'a>) -> impl Fn(Rank) -> Option<(u32, Sp)> {
        let (shape, lanes) = (load(slot.shape), slot.lanes.each_ref().map(load));
        let (arena, slot) = (*self, *slot);
        move |rank| arena.locate_by(&slot, shape, |lane| lanes[lane], rank)
    }

    #[inline(always)]
    fn locate_by(&self, slot: &Slot<'a>, shape: u64, lane: impl Fn(usize) -> u64, rank: Rank) -> Option<(u32, Sp)> {
        if i64::from(rank.0) < shape.cast_signed() {
            let at = lane(0).wrapping_add(rank.0.into());
            let word = self.word(at / 2)?;
            return Some((rank.0, Sp((word >> (at % 2 * 32)) as u32)));
        }
        let (size, form) = halves(shape);
        if rank.0 >= size {
            return None;
        }
        if form == STORED {
            let (world, sp) = halves(self.word(lane(0).wrapping_add(rank.0.into()))?);
            return Some((world, Sp(sp)));
        }
        let quotient = Reciprocal(lane(0)).quotient(rank.0);
        let word = lane(1)
            .wrapping_add(u64::from(rank.0).wrapping_mul(lane(2)))
            .wrapping_add(u64::from(quotient).wrapping_mul(lane(3)));
        let sp = (word >> SP_LANE) as u32 & ((1 << (LID_LANE - SP_LANE)) - 1);
        let lid = if form & MASKED != 0 {
            // The form's other bits lie above the six of the word.
            (word >> LID_LANE) as u32 & form
        } else {
            divided(self.table(slot)?.get(HEADER_WORDS..)?.first_chunk()?, form, rank, quotient)
        };
        Some((word as u32, Sp(sp.wrapping_add(lid))))
    }

    /// A word of the arena. Of a place that does not fit nothing was written here; whatever lies at the rest of it is as
    /// good as any other number.
    #[inline]
    fn word(&self, at: u64) -> Option<u64> {
        self.words.get(at as usize).map(load)
    }
}

/// The lid of a rank's first shadow where no mask gives it; apart, and said to be rare, to keep registers free for the
/// others.
#[cold]
#[inline(never)]
fn divided(parameters: &[AtomicU64; AFFINE_WORDS], form: u32, rank: Rank, quotient: u32) -> u32 {
    let [_, by_per_dpu, divisors, _, _, lids, ..] = parameters;
    let ((divisor, per_dpu), (lid, lid_step)) = (halves(load(divisors)), halves(load(lids)));
    let rest = rank.0.wrapping_sub(quotient.wrapping_mul(divisor));
    let place = if form == DIVIDED_CYCLIC { quotient } else { rest };
    let turn = place.wrapping_mul(lid_step).wrapping_add(lid);
    turn.wrapping_sub(Reciprocal(load(by_per_dpu)).quotient(turn).wrapping_mul(per_dpu))
}
