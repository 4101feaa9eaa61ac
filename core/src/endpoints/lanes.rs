//! The hot look-up of an affine table: world rank and service process as lanes of one linear word.
//!
//! World rank, first service process of the DPU and lid are all linear in the rank `r` and in `r / d` before the lid is
//! taken modulo the service processes per DPU. So one word holds them all, modulo 2^64:
//!
//! ```text
//! base + r * by_rank + (r / d) * by_quotient      bits 0 to 31    world rank
//!                                                 bits 32 to 57   first service process of the rank's DPU
//!                                                 bits 58 to 63   low six bits of lid + m * lid_step
//! ```
//!
//! Where the service processes per DPU are a power of two (at most 64), the six bits are all that counts, and a mask
//! gives the lid; otherwise it takes a division by reciprocal. The four numbers lie in the group's slot itself, in one
//! cache line with its state: such a look-up touches no table.
//!
//! *Cost*: three multiplications, six where the lid takes a division.

use super::affine::Affine;
use super::arena::load;
use super::layout::{AFFINE_WORDS, Kind, halves};
use super::reciprocal::Reciprocal;
use crate::atomic::AtomicU64;
use crate::peer::{Rank, Sp};

/// Numbers of a slot: reciprocal of `d`, base, by rank, by quotient.
pub(super) const LANE_WORDS: usize = 4;

/// What the upper half of a slot's second word says: arrays; or arithmetic, with a lid that takes a division, of
/// blocks or of cycles; or arithmetic with a mask, which is what the word is above the last of these.
pub(super) const EXPLICIT: u32 = 0;
const DIVIDED_BLOCK: u32 = 1;
const DIVIDED_CYCLIC: u32 = 2;
const MASKED: u32 = 3;

const SP_LANE: u32 = 32;
const LID_LANE: u32 = 58;

impl Affine {
    /// How the lid is found.
    pub(super) fn form(&self) -> u32 {
        match self.kind {
            _ if self.per_dpu.is_power_of_two() => MASKED + (self.per_dpu - 1),
            Kind::Cyclic => DIVIDED_CYCLIC,
            _ => DIVIDED_BLOCK,
        }
    }

    /// The numbers of the slot.
    pub(super) fn lanes(&self) -> [u64; LANE_WORDS] {
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

/// The process and the first shadow of a rank; `parameters` gives the table's words if the lid takes a division.
///
/// All arithmetic wraps: for a slot and a table that the writer made and a rank within them, the result is that of
/// [`Affine::world_rank`] and [`Affine::shadow`]; for anything else it is some number.
#[inline]
pub(super) fn locate<'a>(
    lanes: &[AtomicU64; LANE_WORDS],
    form: u32,
    rank: Rank,
    parameters: impl FnOnce() -> Option<&'a [AtomicU64; AFFINE_WORDS]>,
) -> Option<(u32, Sp)> {
    let [by_divisor, base, by_rank, by_quotient] = lanes;
    let quotient = Reciprocal(load(by_divisor)).quotient(rank.0);
    let word = load(base)
        .wrapping_add(u64::from(rank.0).wrapping_mul(load(by_rank)))
        .wrapping_add(u64::from(quotient).wrapping_mul(load(by_quotient)));
    let sp = (word >> SP_LANE) as u32 & ((1 << (LID_LANE - SP_LANE)) - 1);
    let lid = match form.checked_sub(MASKED) {
        Some(mask) => (word >> LID_LANE) as u32 & mask,
        None => divided(parameters()?, form, rank, quotient),
    };
    Some((word as u32, Sp(sp.wrapping_add(lid))))
}

/// The lid of a rank's first shadow where no mask gives it; apart, to keep registers free for the others.
#[inline(never)]
fn divided(parameters: &[AtomicU64; AFFINE_WORDS], form: u32, rank: Rank, quotient: u32) -> u32 {
    let [_, by_per_dpu, divisors, _, _, lids, ..] = parameters;
    let ((divisor, per_dpu), (lid, lid_step)) = (halves(load(divisors)), halves(load(lids)));
    let rest = rank.0.wrapping_sub(quotient.wrapping_mul(divisor));
    let place = if form == DIVIDED_CYCLIC { quotient } else { rest };
    let turn = place.wrapping_mul(lid_step).wrapping_add(lid);
    turn.wrapping_sub(Reciprocal(load(by_per_dpu)).quotient(turn).wrapping_mul(per_dpu))
}
