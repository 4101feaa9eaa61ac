//! Which tree [`Plan::Auto`] is on a host, by where members are.
//!
//! A machine chooses by the number of members and of bytes ([`auto::shape`]). Its member knows more: members elsewhere are
//! led by their agents, so that the call crosses between places as seldom as can be, and members that live together at another
//! machine get one message.

use std::collections::HashSet;

use umbra_core::chain::{Call, Mode, Node, Plan};
use umbra_core::tree::auto;
use umbra_core::tree::explicit::ROOT;

use super::member::Member;
use super::station::Station;

/// Memory to state a tree in; it grows with the longest list over several places, and is used again.
#[derive(Debug, Default)]
pub(super) struct Auto {
    list: Vec<Node>,
    listed: HashSet<Node>,
    parents: Vec<u32>,
    leaders: Vec<u32>,
}

impl Auto {
    /// The tree of a call, by whose home each member has.
    pub(super) fn plan(
        &mut self,
        station: &Station,
        maker: Node,
        call: &Call<'_>,
        home: impl Fn(Node) -> Node,
    ) -> Plan<'_> {
        let shape = station.shape();
        let others = || call.members.iter().copied().filter(|&node| node != maker);
        let Some(first) = others().next() else { return Plan::Auto };
        if others().all(|node| shape.place(node) == shape.place(maker)) {
            let one = home(first);
            let together = one != home(maker) && others().all(|node| home(node) == one);
            let below = others().count() as u32;
            return if together { Plan::Led(auto::shape(below, call.weight(), true)) } else { Plan::Auto };
        }
        self.list.clear();
        self.listed.clear();
        // Its own agent leads the call, if that is the first of the list; else whoever makes it leads its place.
        let led = first.0 == shape.first;
        self.list.extend((!led).then_some(maker));
        // Whoever counts once has one position.
        let counts = |listed: &mut HashSet<Node>, node| !call.mode.contains(Mode::DEDUP) || listed.insert(node);
        self.list.extend(others().filter(|&node| counts(&mut self.listed, node)));
        self.leaders.clear();
        self.leaders.resize(2 * shape.places() as usize, ROOT);
        self.parents.clear();
        self.parents.resize(self.list.len() + usize::from(led), ROOT);
        let over = auto::shape(shape.places() - 1, call.weight(), false);
        let (above, below) = self.parents.split_at_mut(usize::from(led));
        let tables = self.leaders.split_at_mut(shape.places() as usize);
        if station.lay(&self.list, over, below, tables).is_err() {
            // The machine says who it does not know.
            return Plan::Auto;
        }
        if !above.is_empty() {
            below.iter_mut().for_each(|parent| *parent = parent.wrapping_add(1));
        }
        Plan::Parents(&self.parents)
    }
}

impl Member {
    /// Whether these members live together, at another machine than this one: then one message reaches all of them.
    #[must_use]
    pub fn live_together(&self, members: &[Node]) -> bool {
        let home = |node: &Node| self.peers.home(*node);
        let together = members.windows(2).all(|pair| home(&pair[0]) == home(&pair[1]));
        let here = |node: &Node| self.station().shape().is_here(*node);
        together && members.iter().all(|node| here(node) && home(node) != self.node())
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::chain::Tag;
    use umbra_core::tree;

    use super::super::shape::below;
    use super::super::{Shape, Station};
    use super::*;

    fn call(members: &[Node]) -> Call<'_> {
        Call { plan: Plan::Auto, ..Call::new(Tag::of("any"), members) }
    }

    fn parents(plan: Plan<'_>) -> Vec<u32> {
        let Plan::Parents(parents) = plan else { panic!("{plan:?}") };
        parents.to_vec()
    }

    #[test]
    fn a_call_over_several_places_takes_the_tree_that_crosses_least() {
        let station = Station::create("auto", Shape::new(10).joined(0, 3)).unwrap();
        let (shape, mut auto) = (station.shape(), Auto::default());
        let agents = shape.residents(3);
        let expected = below(&station.parents(&agents, tree::Shape::FLAT).unwrap());
        assert_eq!(parents(auto.plan(&station, Node(7), &call(&agents), |node| node)), expected);
        // Without its own agent the maker leads its place, here with 8 and 9, and itself is among the members.
        let members = [9, 21, 7, 8, 20].map(Node);
        assert_eq!(parents(auto.plan(&station, Node(7), &call(&members), |node| node)), [ROOT, 0, 4, 0, 0]);
        let twice = [9, 21, 9, 20].map(Node);
        let dedup = Call { mode: Mode::DEDUP, ..call(&twice) };
        assert_eq!(parents(auto.plan(&station, Node(7), &dedup, |node| node)), [ROOT, 0, 3, 0]);
        let unknown = [Node(9), Node(30)];
        assert!(matches!(auto.plan(&station, Node(7), &call(&unknown), |node| node), Plan::Auto));
    }

    #[test]
    fn members_that_live_together_are_led() {
        let station = Station::create("auto", Shape::new(4)).unwrap();
        let mut agent = Member::join(&station, Node(0)).unwrap();
        agent.house(Node(1)).unwrap();
        let mut maker = Member::join(&station, Node(2)).unwrap();
        assert!(
            maker.serve_until(std::time::Duration::from_secs(9), |maker| maker.sees(&[Node(0), Node(1)]).is_none())
        );
        assert!(maker.live_together(&[Node(0), Node(1)]) && !maker.live_together(&[Node(0), Node(3)]));
        assert!(!agent.live_together(&[Node(0), Node(1)]), "they live here");
        let (mut auto, home) = (Auto::default(), |node| maker.peers.home(node));
        let both = [0, 1].map(Node);
        assert!(matches!(auto.plan(&station, Node(2), &call(&both), home), Plan::Led(tree::Shape::BINARY)));
        let more = [0, 1, 3].map(Node);
        assert!(matches!(auto.plan(&station, Node(2), &call(&more), home), Plan::Auto));
    }
}
