//! On which machine the joined places are, and the trees that follow from it.
//!
//! Places of one machine have members of their own each, and reach each other by their agents as all places do, but on a shorter way.
//! So a call comes to every other machine once, and goes on from place to place there ([`domains`]). What counts as a machine is said
//! by whoever makes the places: to agents it is the host, whose service processes may be on several cards.

use std::collections::HashMap;

use umbra_core::atomic::Ordering;
use umbra_core::chain::Node;
use umbra_core::tree;
use umbra_core::tree::domains;
use umbra_core::tree::explicit::BadTree;

use super::station::{Station, StationError};

impl Station {
    /// Says on which machine each of the joined places is, by a number that the others there have as well; agents know it from what
    /// they fill their endpoint cache with. A place of which nothing was said has a machine of its own.
    ///
    /// # Errors
    /// [`StationError`] if the segment is damaged.
    pub fn set_machines(&self, machine_of: impl Fn(u32) -> u32) -> Result<(), StationError> {
        let mut first = HashMap::new();
        for place in 0..self.shape().places() {
            let machine = *first.entry(machine_of(place)).or_insert(place);
            // ORDERING: whoever sees no number yet makes a tree that crosses more often, and that is all.
            self.machine_word(place)?.store(u64::from(machine) + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The number of a machine, less than that of all places.
    pub(super) fn machine(&self, place: u32) -> u32 {
        let said = self.machine_word(place).map_or(0, |word| word.load(Ordering::Relaxed));
        let said = said.checked_sub(1).and_then(|said| u32::try_from(said).ok());
        said.filter(|&said| said < self.shape().places()).unwrap_or(place)
    }

    /// States a tree that crosses from machine to machine, and from place to place, as seldom as can be: `members`, below one another,
    /// the first of them at the top. In each place one leads the others, the first member of the place if it is among them.
    /// What [`Plan::Parents`](umbra_core::chain::Plan::Parents) wants has whoever makes the call in front:
    /// [`below`](super::below).
    ///
    /// # Errors
    /// [`BadTree`] for a member that there is not.
    pub fn parents(&self, members: &[Node], over: tree::Shape) -> Result<Vec<u32>, BadTree> {
        let mut parents = vec![0; members.len()];
        let places = self.shape().places() as usize;
        let (mut leaders, mut heads) = (vec![0; places], vec![0; places]);
        self.lay(members, over, &mut parents, (&mut leaders, &mut heads))?;
        Ok(parents)
    }

    /// The same into memory that is there already: a word a member, and two a place.
    pub(super) fn lay(
        &self,
        members: &[Node],
        over: tree::Shape,
        parents: &mut [u32],
        (leaders, heads): (&mut [u32], &mut [u32]),
    ) -> Result<(), BadTree> {
        let place = |at: u32| self.shape().place_of(members.get(at as usize).copied());
        domains::nested(place, |place| self.machine(place), over, parents, leaders, heads)
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::tree::explicit::ROOT;

    use super::super::shape::below;
    use super::super::{Shape, Station};
    use super::*;

    #[test]
    fn agents_lead_their_places_and_the_first_of_the_list_is_the_root() {
        let station = Station::create("topology", Shape::new(10).joined(1, 3)).unwrap();
        let shape = station.shape();
        assert_eq!(shape.here().map(|node| node.0).collect::<Vec<_>>(), (10..20).collect::<Vec<_>>());
        // Two residents each, and in front somebody of the second place.
        let members = [&[Node(15)][..], &shape.residents(2)].concat();
        let parents = station.parents(&members, tree::Shape::FLAT).unwrap();
        assert_eq!(parents, [ROOT, 0, 1, 0, 0, 0, 5]);
        assert_eq!(below(&parents), [ROOT, 0, 1, 2, 1, 1, 1, 6]);
        assert!(station.parents(&[Node(99)], tree::Shape::FLAT).is_err(), "there is no such place");
    }

    #[test]
    fn a_machine_with_several_places_is_entered_once() {
        let station = Station::create("topology", Shape::new(2).joined(0, 6)).unwrap();
        let agents = station.shape().residents(1);
        let flat = |station: &Station| station.parents(&agents, tree::Shape::FLAT).unwrap();
        assert_eq!(flat(&station), [ROOT, 0, 0, 0, 0, 0]);
        // Two service processes each on three machines, of whatever numbers.
        station.set_machines(|place| 1000 - place / 2).unwrap();
        assert_eq!(flat(&station), [ROOT, 0, 0, 2, 0, 4]);
        let chain = station.parents(&agents, tree::Shape::CHAIN).unwrap();
        assert_eq!(chain, [ROOT, 0, 0, 2, 2, 4]);
        // Others see the same.
        assert_eq!(flat(&Station::attach(station.share().unwrap()).unwrap()), [ROOT, 0, 0, 2, 0, 4]);
    }

    #[test]
    fn a_number_of_a_machine_that_there_is_not_counts_for_nothing() {
        let station = Station::create("topology", Shape::new(2).joined(0, 3)).unwrap();
        for wild in [u64::MAX, 4, 1 << 32 | 1] {
            station.machine_word(2).unwrap().store(wild, Ordering::Relaxed);
            assert_eq!((0..3).map(|place| station.machine(place)).collect::<Vec<_>>(), [0, 1, 2], "{wild}");
        }
    }
}
