//! Who holds what: for the error of one who waited in vain.

use crate::crew::Identity;
use crate::shared_slots::Owner;

use super::SlotCache;
use super::layout::{Contract, Parts};
use super::word::Word;

/// What a process has of a cache, about then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Holding {
    /// Its number.
    pub owner: Owner,
    /// Whose number that is.
    pub identity: Identity,
    /// Slots to which it has references.
    pub slots: u32,
    /// Slots that it fills.
    pub fills: u32,
    /// Places that it has in the line of those who wait for a slot.
    pub waiting: u32,
}

impl<'a> Parts<'a> {
    fn holdings(&self) -> impl Iterator<Item = Holding> + use<'a> {
        let (mut slots, mut fills) = ([0_u32; Owner::COUNT as usize], [0_u32; Owner::COUNT as usize]);
        let owners = || (0..self.sharing.owners()).filter_map(Owner::new);
        for place in self.places() {
            let word = Word::of_slot(place.word());
            if !word.is_assigned() {
                continue;
            }
            for owner in owners().filter(|&owner| word.count(self.field(owner)) > 0) {
                let number = usize::from(owner.number());
                slots[number] += 1;
                fills[number] += u32::from(word.is_filled_by(owner));
            }
        }
        let queue = self.queue;
        self.members().map(move |(owner, identity)| {
            let number = usize::from(owner.number());
            Holding { owner, identity, slots: slots[number], fills: fills[number], waiting: queue.places_of(owner) }
        })
    }
}

impl<'a, C: Contract> SlotCache<'a, C> {
    /// What each process has that joined and neither left nor was reclaimed; O(slots).
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + use<'a, C> {
        self.parts.holdings()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::layout::tests::memory;
    use super::super::{Cache, Sharing};
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_process_has_what_it_took_and_waits_for() {
        let sharing = Sharing::new(3, 3).unwrap();
        let words = memory(4, sharing);
        let cache = Cache::create(&words, 4, sharing, 7).unwrap();
        let [a, b, c] = [1, 2, 3].map(|pid| cache.join(Identity::new(pid, 0)).unwrap());
        for data in [10, 11, 10] {
            a.alloc(data).unwrap();
        }
        a.remember(10).unwrap();
        b.alloc(10).unwrap();
        b.free(10).unwrap();
        b.alloc(11).unwrap();
        let waiting = [c.stand(1), c.stand(1), b.stand(2)];
        let told = |cache: &Cache<'_>| -> Vec<_> {
            cache.holdings().map(|of| (of.identity.pid(), of.slots, of.fills, of.waiting)).collect()
        };
        assert_eq!(told(&cache), [(1, 2, 1, 0), (2, 1, 0, 1), (3, 0, 0, 2)]);
        assert_eq!(cache.waiting(), 3);
        drop(waiting);
        a.leave().unwrap();
        assert_eq!(told(&cache), [(2, 1, 0, 0), (3, 0, 0, 0)]);
        assert_eq!(cache.waiting(), 0);
    }
}
