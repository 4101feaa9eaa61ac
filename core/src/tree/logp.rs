//! The tree over which everybody has a message the soonest.
//!
//! That is by what a message costs in the LogP model: at either end, on its way, and between two of them. Whoever
//! has the message sends it to one after the other, a gap apart, and each has it a way later. The next member always gets it
//! from whoever can have it there the soonest, so nobody has it later than in any other tree. Answers that go back the same way
//! are that backwards, so a call of few bytes takes twice as long. Where messages are sent much faster than they travel, the tree is
//! wide at the root and narrow below; where both take as long, it is binomial.
//!
//! ```
//! use umbra_core::time::Lapse;
//! use umbra_core::tree::explicit::ROOT;
//! use umbra_core::tree::logp::{self, Costs};
//!
//! // A network: 650 ns on the way, 100 ns at either end, and the next one 100 ns later.
//! let [overhead, gap, latency] = [100, 100, 650].map(Lapse);
//! let (mut parents, mut since) = ([0; 16], [Lapse(0); 16]);
//! let last = logp::parents(Costs { overhead, gap, latency }, &mut parents, &mut since);
//! assert_eq!(last, Lapse(1900));
//! assert_eq!(parents, [ROOT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 2, 0, 1]);
//! ```
//!
//! It is one that somebody states: `Plan::Parents` of a call takes it.
//!
//! Cost: O(n) time, in lent memory only: both those who send for the first time and those who send again are in the order of their
//! turns anyway.
//!
//! Source: R. Karp, A. Sahay, E. Santos, K. Schauser, "Optimal broadcast and summation in the LogP model", SPAA 1993.

use super::explicit::ROOT;
use crate::time::Lapse;

/// What a message costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// What its sender does for it, and as much its receiver.
    pub overhead: Lapse,
    /// How long after a message a member sends the next one at the earliest.
    pub gap: Lapse,
    /// How long it is on its way.
    pub latency: Lapse,
}

impl Costs {
    /// From when a member begins to send until the other one has the message.
    const fn way(self) -> Lapse {
        Lapse(self.latency.0.saturating_add(self.overhead.0.saturating_mul(2)))
    }

    /// From when a member begins to send until it begins to send the next message.
    const fn turn(self) -> Lapse {
        if self.gap.0 > self.overhead.0 { self.gap } else { self.overhead }
    }
}

const fn later(time: Lapse, by: Lapse) -> Lapse {
    Lapse(time.0.saturating_add(by.0))
}

/// Fills the parents of `parents.len()` positions, in the order in which they have the message, and since when each has it; when
/// the last one does. `since` is as long as `parents`; positions behind the end of either are left alone.
pub fn parents(costs: Costs, parents: &mut [u32], since: &mut [Lapse]) -> Lapse {
    let (way, turn) = (costs.way(), costs.turn());
    let count = parents.len().min(since.len());
    if count == 0 {
        return Lapse(0);
    }
    (parents[0], since[0]) = (ROOT, Lapse(0));
    let (mut first, mut again) = (0, 1);
    for at in 1..count {
        // The first message of whoever has sent none yet, or the next one of whoever sent to the member `again`.
        let fresh = (later(since[first], way), first as u32);
        let repeated = if again < at { Some((later(since[again], turn), parents[again])) } else { None };
        (since[at], parents[at]) = match repeated {
            Some(repeated) if repeated.0 <= fresh.0 => {
                again += 1;
                repeated
            }
            _ => {
                first += 1;
                fresh
            }
        };
    }
    since[count - 1]
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::tree::explicit;

    fn costs(overhead: u64, gap: u64, latency: u64) -> Costs {
        Costs { overhead: Lapse(overhead), gap: Lapse(gap), latency: Lapse(latency) }
    }

    fn each_costs(mut what: impl FnMut(Costs)) {
        for (overhead, gap, latency) in [
            (0, 0, 0),
            (0, 0, 5),
            (1, 0, 0),
            (1, 1, 1),
            (1, 4, 2),
            (2, 1, 0),
            (1, 3, 10),
            (3, 2, 40),
            (0, 7, 1),
            (5, 5, 60),
        ] {
            what(costs(overhead, gap, latency));
        }
    }

    /// When everybody has the message, by the rules of the model alone: sends of a member in the order of its children's positions.
    fn simulated(costs: Costs, parents: &[u32]) -> Vec<u64> {
        let (mut has, mut free) = (std::vec![0; parents.len()], std::vec![0; parents.len()]);
        for at in 1..parents.len() {
            let parent = parents[at] as usize;
            // It is busy for the overhead of a message, and the network takes no other before the gap is over.
            let begins: u64 = free[parent];
            has[at] = begins + costs.overhead.0 + costs.latency.0 + costs.overhead.0;
            free[parent] = begins + costs.overhead.0.max(costs.gap.0);
            free[at] = has[at];
        }
        has
    }

    /// The soonest that the last of so many has the message, over all trees and orders of sending.
    fn soonest(costs: Costs, parents: &mut Vec<u32>, count: usize) -> u64 {
        if parents.len() == count {
            return simulated(costs, parents).into_iter().max().unwrap_or(0);
        }
        let mut best = u64::MAX;
        for parent in 0..parents.len() as u32 {
            parents.push(parent);
            best = best.min(soonest(costs, parents, count));
            parents.pop();
        }
        best
    }

    #[test]
    fn nobody_has_the_message_later_than_in_any_other_tree() {
        each_costs(|costs| {
            for count in 1..=8 {
                let (mut tree, mut since) = (std::vec![0; count], std::vec![Lapse(0); count]);
                let last = parents(costs, &mut tree, &mut since);
                let simulated = simulated(costs, &tree);
                assert!(since.iter().map(|since| since.0).eq(simulated.iter().copied()), "{tree:?} with {costs:?}");
                assert_eq!(last.0, soonest(costs, &mut std::vec![ROOT], count), "{count} with {costs:?}");
            }
        });
    }

    #[test]
    fn it_is_a_tree_in_the_order_of_time_of_which_smaller_ones_are_the_beginning() {
        each_costs(|costs| {
            let (mut tree, mut since) = ([0; 700], [Lapse(1); 700]);
            parents(costs, &mut tree, &mut since);
            assert!(since.is_sorted());
            let (mut order, mut sizes, mut links) = ([0; 700], [0; 700], [0; 1400]);
            assert!(explicit::lay_out(&tree, &mut order, &mut sizes, &mut links).is_ok());
            let (mut fewer, mut until) = ([7; 300], [Lapse(7); 301]);
            parents(costs, &mut fewer, &mut until);
            assert_eq!((&fewer[..], &until[..300], until[300]), (&tree[..300], &since[..300], Lapse(7)));
        });
        assert_eq!(parents(costs(1, 1, 1), &mut [], &mut []), Lapse(0));
    }

    #[test]
    fn what_costs_the_same_on_the_way_and_between_is_binomial_and_what_is_sent_at_once_is_flat() {
        let (mut tree, mut since) = ([0; 64], [Lapse(0); 64]);
        assert_eq!(parents(costs(0, 5, 5), &mut tree, &mut since), Lapse(5 * 6));
        assert!((0..6).all(|round| since.iter().filter(|since| since.0 == 5 * (round + 1)).count() == 1 << round));
        assert_eq!(parents(costs(0, 0, 5), &mut tree, &mut since), Lapse(5));
        assert!(tree[1..].iter().all(|&parent| parent == 0));
        // The least of the specification for 64 on a network: half of 5.1 us.
        assert_eq!(parents(costs(0, 100, 850), &mut tree, &mut since), Lapse(2550));
    }
}
