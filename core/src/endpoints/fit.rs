//! Finding the arithmetic in a list of entries, if there is one.

use super::affine::{Affine, MAX_PER_DPU};
use super::layout::Kind;
use crate::peer::{Host, Rank, Sp};

/// One entry as the builder holds it.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) world: u32,
    pub(super) host: Host,
    pub(super) first: Sp,
    /// Further shadows, without the absent ones.
    pub(super) further: &'a [zerocopy::little_endian::U32],
}

/// The parameters that reproduce all `size` rows exactly; `None` if there are none.
///
/// Costs O(size) if there are, and usually much less if not.
pub(super) fn fit<'a>(size: u32, per_dpu: u32, row: impl Fn(u32) -> Option<Row<'a>>) -> Option<Affine> {
    if per_dpu == 0 || per_dpu > MAX_PER_DPU {
        return None;
    }
    let first = row(0)?;
    let on_first_host = |rank: &u32| row(*rank).is_some_and(|row| row.host == first.host);
    let leading = (1..size).find(|rank| !on_first_host(rank)).unwrap_or(size);
    let again = if leading == 1 { (2..size).find(on_first_host) } else { None };
    let (kind, divisor) = again.map_or((Kind::Block, leading), |hosts| (Kind::Cyclic, hosts));
    // The ranks that stand first on the second host and second on the first, if there are any.
    let (next_host, next_place) = match kind {
        Kind::Cyclic => (1, divisor),
        _ => (divisor, if divisor > 1 { 1 } else { size }),
    };
    let lid = |sp: Sp| sp.0 % per_dpu;
    let (mut world_stride, mut host_stride, mut sp_stride, mut lid_step) = (0, 0, 0, 0);
    if size > 1 {
        world_stride = row(1)?.world.wrapping_sub(first.world).cast_signed();
    }
    if next_host < size {
        let next = row(next_host)?;
        host_stride = next.host.0.checked_sub(first.host.0)?;
        sp_stride = next.first.0.checked_sub(first.first.0)?;
        if sp_stride == 0 || sp_stride % per_dpu != 0 {
            return None;
        }
    }
    if next_place < size {
        lid_step = (lid(row(next_place)?.first) + per_dpu - lid(first.first)) % per_dpu;
    }
    let affine = Affine {
        kind,
        size,
        shadows: u32::try_from(first.further.len() + 1).ok()?,
        divisor,
        per_dpu,
        world: first.world,
        world_stride,
        sp: first.first.0 - lid(first.first),
        sp_stride,
        lid: lid(first.first),
        lid_step,
        host: first.host.0,
        host_stride,
    };
    (0..size).all(|rank| row(rank).is_some_and(|row| reproduces(&affine, Rank(rank), &row))).then_some(affine)
}

fn reproduces(affine: &Affine, rank: Rank, row: &Row<'_>) -> bool {
    let (host, _) = affine.place(rank);
    affine.world_rank(rank) == row.world
        && affine.host_at(crate::peer::HostInGroup(host)) == Some(row.host)
        && affine.shadow(rank, 0) == Some(row.first)
        && affine.shadows as usize == row.further.len() + 1
        && (1..).zip(row.further).all(|(nth, sp)| affine.shadow(rank, nth) == Some(Sp(sp.get())))
}
