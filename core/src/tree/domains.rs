//! The tree that follows the machines.
//!
//! Members of one host reach each other through memory, members of different hosts over a wire. So each host, a
//! *domain*, has one leader: the member that leads it (an agent) if there is one in the list, else the first of the
//! domain. The leaders form a tree of any shape, everybody else is a child of the leader of its domain: a call crosses
//! the wire once for every other domain, and its answer once.
//!
//! ```
//! use umbra_core::tree::{Shape, domains::{self, Place}, explicit::ROOT};
//! // Positions 0 to 5 on hosts 0, 0, 1, 1, 2, 2; position 3 is an agent.
//! let place = |at: u32| Place { domain: at / 2, leads: at == 3 };
//! let (mut parents, mut leaders) = ([0; 6], [0; 3]);
//! domains::parents(place, Shape::BINARY, &mut parents, &mut leaders)?;
//! assert_eq!(parents, [ROOT, 0, 3, 0, 0, 4]);
//! # Ok::<(), umbra_core::tree::explicit::BadTree>(())
//! ```

use super::explicit::{BadTree, ROOT, Reason};
use super::shape::Shape;

/// Where a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its host, a number below the length of the lent table of leaders.
    pub domain: u32,
    /// Whether it is meant to lead its domain.
    pub leads: bool,
}

/// States the tree of `parents.len()` positions. The root leads its own domain whoever else is there; `leaders` is
/// memory to work in, a word a domain.
///
/// # Errors
/// [`Reason::Range`] for a member whose domain is not below `leaders.len()`.
pub fn parents(
    place: impl Fn(u32) -> Place,
    over: Shape,
    parents: &mut [u32],
    leaders: &mut [u32],
) -> Result<(), BadTree> {
    let count = follow(&place, parents, leaders)?;
    join(&leaders[..count as usize], over, parents);
    Ok(())
}

/// The same where a machine may have several domains, as one with several service processes: `machine` says by any number which one
/// a domain is on. The leaders of one machine form the tree `over` themselves, and so do the first ones of all machines: the way
/// between machines is taken once for every other machine. `heads` is memory to work in, a word a machine.
///
/// ```
/// use umbra_core::tree::{Shape, domains::{self, Place}, explicit::ROOT};
/// // Positions 0 to 7 in domains 0, 0, 1, 1, 2, 2, 3, 3, of which two each are on one machine.
/// let place = |at: u32| Place { domain: at / 2, leads: false };
/// let (mut parents, mut leaders, mut heads) = ([0; 8], [0; 4], [0; 2]);
/// domains::nested(place, |domain| domain / 2, Shape::FLAT, &mut parents, &mut leaders, &mut heads)?;
/// assert_eq!(parents, [ROOT, 0, 0, 2, 0, 4, 4, 6]);
/// # Ok::<(), umbra_core::tree::explicit::BadTree>(())
/// ```
///
/// # Errors
/// [`Reason::Range`] for a member whose domain is not below `leaders.len()`, or for the first of a machine for which `heads` has no
/// word.
pub fn nested(
    place: impl Fn(u32) -> Place,
    machine: impl Fn(u32) -> u32,
    over: Shape,
    parents: &mut [u32],
    leaders: &mut [u32],
    heads: &mut [u32],
) -> Result<(), BadTree> {
    let count = follow(&place, parents, leaders)? as usize;
    let of = |index: &u32| machine(place(*index).domain);
    let leaders = &mut leaders[..count];
    leaders.sort_unstable_by_key(|index| (of(index), *index));
    let mut machines = 0;
    for group in leaders.chunk_by(|one, next| of(one) == of(next)) {
        let head = heads.get_mut(machines).ok_or(BadTree { index: group[0], reason: Reason::Range })?;
        *head = group[0];
        machines += 1;
        join(group, over, parents);
    }
    let heads = &mut heads[..machines];
    heads.sort_unstable();
    join(heads, over, parents);
    Ok(())
}

/// These positions form a tree, the first of them at its top.
fn join(positions: &[u32], over: Shape, parents: &mut [u32]) {
    for (rank, &at) in (0..).zip(positions) {
        parents[at as usize] = over.parent(rank).map_or(ROOT, |above| positions[above as usize]);
    }
}

/// Has everybody but the leaders follow the one of its domain; how many leaders there are, whom the table lists in the order of the
/// list, which puts the root first.
fn follow(place: &impl Fn(u32) -> Place, parents: &mut [u32], leaders: &mut [u32]) -> Result<u32, BadTree> {
    leaders.fill(ROOT);
    let len = u32::try_from(parents.len()).map_err(|_| BadTree { index: u32::MAX, reason: Reason::NoRoom })?;
    for named in [true, false] {
        for index in 0..len {
            let Place { domain, leads } = place(index);
            let leader = leaders.get_mut(domain as usize).ok_or(BadTree { index, reason: Reason::Range })?;
            if *leader == ROOT && (index == 0 || leads || !named) {
                *leader = index;
            }
        }
    }
    for (index, parent) in (0..len).zip(parents.iter_mut()) {
        *parent = leaders.get(place(index).domain as usize).copied().unwrap_or(0);
    }
    leaders.sort_unstable();
    Ok(leaders.iter().take_while(|&&leader| leader != ROOT).count() as u32)
}
