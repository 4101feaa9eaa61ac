//! The hot look-ups: the process and the first shadow of a rank, or of many.
//!
//! They start from the numbers in the group's slot. Of an explicit table the slot says where in the arena its ranks
//! lie. Of an affine one it holds all that it takes: world rank and service process as lanes of one linear word. World
//! rank, DPU, first service process of the DPU and lid are all linear in the rank `r` and in `r / d` before the lid is
//! taken modulo the service processes per DPU. Where those are `2^k`, one word holds all of them, modulo 2^64:
//!
//! ```text
//! base + r * by_rank + (r / d) * by_quotient      bits 0 to 31         world rank
//!                                                 bits 32 to 63 - k    the rank's DPU
//!                                                 bits 64 - k to 63    lid
//! ```
//!
//! What the lid has too much falls off at the upper end, and the upper half, turned by `k` bits, is the service
//! process. So the look-up touches no table, only the slot, which is one cache line. Otherwise the upper half is the
//! first service process of the rank's DPU, and the lid takes a division by reciprocal, with parameters out of the
//! table.
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
use crate::id::Generation;
use crate::peer::{Peer, Rank, Sp};

/// Numbers of an arithmetic slot: the [`factor`] of `d`, base, by rank, by quotient; of an explicit one: zeros.
pub(super) const LANE_WORDS: usize = 4;

/// A slot's second word, from bit 0: the last rank; from [`FORM_BIT`]: the form; from [`GENERATION_BIT`]: the lower bits of
/// the generation.
///
/// Less generation and rank that are asked for, see [`asked`], it is the form and less than a whole rank in the bits below
/// [`RANK_BITS`], if the slot has them. Nothing else is: the form begins one bit above all that a rank has, so that no rank
/// makes one form out of another, and no form makes a generation out of another. So one comparison, which a look-up has to
/// make in any case, tells generation, bounds and form.
const FORM_BIT: u32 = 33;
const GENERATION_BIT: u32 = 36;
/// A second word that no rank of any generation passes.
pub(super) const NOBODY: u64 = 7 << FORM_BIT;
const RANK_BITS: u32 = Peer::CAPACITY.ilog2();

/// World ranks beside first shadows, a word for each rank.
const STORED: u64 = 0;
/// First shadows alone, two in a word.
const ALONE: u64 = 1 << (FORM_BIT - RANK_BITS);
/// Arithmetic, where a turn gives the service process.
const TURNED: u64 = 2 << (FORM_BIT - RANK_BITS);
/// Arithmetic, where the lid takes a division.
const DIVIDED: u64 = 3 << (FORM_BIT - RANK_BITS);

/// A slot's place: the word behind the header of its table, where ranks or parameters begin; and, in the upper bits, by
/// how many bits a service process is turned, or, where the lid takes a division, whether hosts are dealt out in cycles.
const TURN_BIT: u32 = 56;

impl<W: Words> Table<W> {
    /// What a slot says of this table, if the table starts at this line of the arena.
    pub(super) fn slot_numbers(&self, line: u64, generation: Generation) -> SlotNumbers {
        // Below the arena's bytes: no overflow.
        let body = line * LINE_WORDS as u64 + HEADER_WORDS as u64;
        let (form, turn, lanes) = match &self.form {
            Form::Affine(affine) => affine.numbers(),
            Form::Explicit(Explicit { head, .. }) if head.identity => (ALONE, 0, [0; LANE_WORDS]),
            Form::Explicit(_) => (STORED, 0, [0; LANE_WORDS]),
        };
        let shape = shape(form, self.size(), generation);
        SlotNumbers { shape, place: body | u64::from(turn) << TURN_BIT, lanes }
    }
}

/// What the writer puts into a slot.
pub(super) struct SlotNumbers {
    pub(super) shape: u64,
    pub(super) place: u64,
    pub(super) lanes: [u64; LANE_WORDS],
}

/// A slot's second word, for a size that is 1 at least.
const fn shape(form: u64, size: u32, generation: Generation) -> u64 {
    (generation.0 as u64) << GENERATION_BIT | form << RANK_BITS | size.saturating_sub(1) as u64
}

/// The group's size, as a slot's second word says it.
pub(super) const fn size(shape: u64) -> u32 {
    (shape as u32).saturating_add(1)
}

/// Whether this is one of the forms.
pub(super) const fn is_form(form: u64) -> bool {
    matches!(form, STORED | ALONE | TURNED | DIVIDED)
}

/// What a slot's second word says to a rank of a generation: the form, or nothing that is one.
#[inline(always)]
pub(super) const fn asked(shape: u64, generation: Generation, rank: Rank) -> u64 {
    shape.wrapping_sub((generation.0 as u64) << GENERATION_BIT).wrapping_sub(rank.0 as u64) >> RANK_BITS
}

impl Affine {
    /// The form, what goes to the place, and the numbers of the slot.
    fn numbers(&self) -> (u64, u32, [u64; LANE_WORDS]) {
        let turned = self.per_dpu.is_power_of_two() && self.divisor <= MOST_DIVISOR;
        let turn = if turned { self.per_dpu.ilog2() } else { 0 };
        // `sp` is the first of a DPU: `2^turn` times the DPU.
        let upper = |sp: u32, lid: u32| sp >> turn | lid.checked_shl(u32::BITS - turn).unwrap_or(0);
        let word =
            |world: i32, upper: u32| (u64::from(upper) << u32::BITS).wrapping_add(i64::from(world).cast_unsigned());
        // What changes from one host to the next, and from one place on a host to the next.
        let (host, place) = (word(0, upper(self.sp_stride, 0)), word(0, upper(0, self.lid_step)));
        // Block: the quotient is the host, the rest `r - q * d` the place; cyclic: the other way round.
        let (rest, quotient) = if self.kind == Kind::Cyclic { (host, place) } else { (place, host) };
        let lanes = [
            factor(self.divisor),
            word(0, upper(self.sp, self.lid)).wrapping_add(self.world.into()),
            rest.wrapping_add(word(self.world_stride, 0)),
            quotient.wrapping_sub(rest.wrapping_mul(self.divisor.into())),
        ];
        match turned {
            true => (TURNED, turn, lanes),
            false => (DIVIDED, u32::from(self.kind == Kind::Cyclic), lanes),
        }
    }
}

/// What a rank below 2^23 is multiplied by to be divided, rounded down, by a divisor up to [`MOST_DIVISOR`], once the
/// product lost its lower [`QUOTIENT_BIT`] bits.
///
/// The factor is too large by one at most, so the product by less than 2^23. From a quotient that is not whole to the next
/// whole one it is the divisor's part of 2^40 at least, and that is not less.
const fn factor(divisor: u32) -> u64 {
    match (1_u64 << QUOTIENT_BIT).checked_div(divisor as u64) {
        Some(part) => part + 1,
        None => 0,
    }
}
const QUOTIENT_BIT: u32 = 40;
const MOST_DIVISOR: u32 = 1 << (QUOTIENT_BIT - RANK_BITS);

/// The linear word of a rank.
#[inline(always)]
fn linear(lane: impl Fn(usize) -> u64, rank: Rank, quotient: u64) -> u64 {
    let by_rank = u64::from(rank.0).wrapping_mul(lane(2));
    lane(1).wrapping_add(by_rank).wrapping_add(quotient.wrapping_mul(lane(3)))
}

impl<'a> Arena<'a> {
    /// The words of a slot's table, and all that follow.
    pub(super) fn table(&self, slot: Slot<'a>) -> Option<&'a [AtomicU64]> {
        self.words.get(body(load(slot.place()))?.checked_sub(HEADER_WORDS)?..)
    }

    /// The process and the first shadow of a rank that is below the group's size, in a slot that says this form.
    ///
    /// All arithmetic wraps: for a slot and a table that the writer made, the result is that of [`Table::world_rank`] and
    /// [`Table::shadow`]; for anything else it is some number, or `None`.
    // As for the look-up that it is part of.
    #[inline(always)]
    pub(super) fn locate(&self, slot: Slot<'a>, form: u64, rank: Rank) -> Option<(u32, Sp)> {
        self.locate_by(slot, form, || load(slot.place()), |lane| load(&slot.lanes()[lane]), rank)
    }

    /// [`locate`](Self::locate), with the numbers of the slot read once for all ranks.
    #[inline(always)]
    pub(super) fn locator(&self, slot: Slot<'a>, form: u64) -> impl Fn(Rank) -> Option<(u32, Sp)> {
        let (arena, place, lanes) = (*self, load(slot.place()), slot.lanes().each_ref().map(load));
        move |rank| arena.locate_by(slot, form, || place, |lane| lanes[lane], rank)
    }

    #[inline(always)]
    fn locate_by(
        &self,
        slot: Slot<'a>,
        form: u64,
        place: impl FnOnce() -> u64,
        lane: impl Fn(usize) -> u64,
        rank: Rank,
    ) -> Option<(u32, Sp)> {
        // Most steps of all, so the first to be told apart.
        if form == TURNED {
            let quotient = u64::from(rank.0).wrapping_mul(lane(0)) >> QUOTIENT_BIT;
            let (world, upper) = halves(linear(lane, rank, quotient));
            return Some((world, Sp(upper.rotate_left((place() >> TURN_BIT) as u32))));
        }
        match form {
            ALONE => {
                let word = self.word(place().wrapping_add((rank.0 / 2).into()))?;
                Some((rank.0, Sp((word >> (rank.0 % 2 * 32)) as u32)))
            }
            STORED => {
                let (world, sp) = halves(self.word(place().wrapping_add(rank.0.into()))?);
                Some((world, Sp(sp)))
            }
            // More than three forms would be told apart by an indirect jump.
            _ => divided(self.words, slot, form, rank).map(|found| (found as u32, Sp((found >> u32::BITS) as u32))),
        }
    }

    /// A word of the arena.
    #[inline]
    fn word(&self, at: u64) -> Option<u64> {
        self.words.get(usize::try_from(at).ok()?).map(load)
    }
}

/// World rank and first shadow where the lid takes a division; apart, and said to be rare, to leave the registers to
/// the others. It takes words and not the arena, whose address would keep it in memory.
#[cold]
#[inline(never)]
fn divided(words: &[AtomicU64], slot: Slot<'_>, form: u64, rank: Rank) -> Option<u64> {
    if form != DIVIDED {
        return None;
    }
    let place = load(slot.place());
    let parameters: &[AtomicU64; AFFINE_WORDS] = words.get(body(place)?..)?.first_chunk()?;
    let [by_divisor, by_per_dpu, divisors, _, _, lids, ..] = parameters;
    let ((divisor, per_dpu), (lid, lid_step)) = (halves(load(divisors)), halves(load(lids)));
    let quotient = Reciprocal(load(by_divisor)).quotient(rank.0);
    let word = linear(|lane| load(&slot.lanes()[lane]), rank, quotient.into());
    let rest = rank.0.wrapping_sub(quotient.wrapping_mul(divisor));
    let step = if place >> TURN_BIT != 0 { quotient } else { rest };
    let lid = step.wrapping_mul(lid_step).wrapping_add(lid);
    let lid = lid.wrapping_sub(Reciprocal(load(by_per_dpu)).quotient(lid).wrapping_mul(per_dpu));
    Some(word.wrapping_add(u64::from(lid) << u32::BITS))
}

/// The word behind the header of the table that a place leads to.
fn body(place: u64) -> Option<usize> {
    usize::try_from(place & ((1 << TURN_BIT) - 1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_divides_every_rank_by_every_divisor_that_takes_one() {
        for divisor in (1..2000).chain([4095, 4096, 4097, MOST_DIVISOR - 1, MOST_DIVISOR]) {
            let multiples = [1, 2, 3, 1000, Peer::CAPACITY / divisor].map(|k| (k * divisor).min(Peer::CAPACITY - 2));
            for rank in multiples.into_iter().flat_map(|m| [m - 1, m, m + 1]).chain([0, Peer::CAPACITY - 1]) {
                let quotient = (u64::from(rank) * factor(divisor)) >> QUOTIENT_BIT;
                assert_eq!(quotient, u64::from(rank / divisor), "{rank} / {divisor}");
            }
        }
    }

    #[test]
    fn a_slot_says_its_form_to_the_ranks_of_its_generation_and_no_form_to_others() {
        let near = |n: u32| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let generations = [1, 8, 1 << 28, u32::MAX].map(near);
        let generations = generations.as_flattened();
        let sizes = [1, 2, 64, Peer::CAPACITY - 1, Peer::CAPACITY];
        let edges = [Peer::CAPACITY, 1 << 24, 1 << 30, 1 << 31, 3 << 30, u32::MAX - Peer::CAPACITY, u32::MAX];
        for (form, size, generation) in [STORED, ALONE, TURNED, DIVIDED]
            .into_iter()
            .flat_map(|form| sizes.map(|size| (form, size)))
            .flat_map(|(form, size)| generations.iter().map(move |&generation| (form, size, generation)))
        {
            let shape = shape(form, size, Generation(generation));
            assert_eq!(super::size(shape), size);
            for &other in generations {
                for rank in edges.into_iter().chain([0, size]).flat_map(near) {
                    let said = asked(shape, Generation(other), Rank(rank));
                    // What the slot keeps of a generation.
                    let same = (other ^ generation) << (GENERATION_BIT - u32::BITS) == 0;
                    let expected = same && rank < size;
                    assert_eq!(said == form, expected, "{form:#x} {size} {generation} {other} {rank}");
                    assert!(expected || !is_form(said), "{form:#x} {size} {generation} {other} {rank}");
                    assert!(!is_form(asked(NOBODY, Generation(other), Rank(rank))), "{other} {rank}");
                }
            }
        }
    }
}
