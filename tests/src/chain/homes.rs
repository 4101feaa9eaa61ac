//! Who lives at whose machine.

use umbra::call::Heap;
use umbra_core::chain::{Config, Life, Machine, Node};

use super::{RARE, SUM, World};

impl World {
    pub(super) fn machine(&self, node: Node, life: u32) -> Machine<Heap> {
        let mut machine =
            self.capacities.machine(Config { node, life: Life(life), ..self.config }).expect("there is memory");
        machine.register(SUM).expect("the first function");
        if !self.lacks(node) {
            machine.register(RARE).expect("the second function");
        }
        for other in self.household(node).filter(|&other| other != node) {
            machine.house(other).expect("a known member");
        }
        machine
    }

    /// Has these members live at the machine of the first of them. Only that one makes calls.
    pub fn house(&mut self, members: impl IntoIterator<Item = u32>) {
        let mut members = members.into_iter().map(Node);
        let Some(head) = members.next() else { return };
        for member in members {
            self.homes[member.index()] = head;
            self.seats[member.index()].machine = None;
        }
        self.seats[head.index()].machine = Some(self.machine(head, 1));
    }

    /// Whose machine a member lives at.
    pub fn home(&self, node: Node) -> Node {
        self.homes[node.index()]
    }

    /// Who lives at the machine of this member.
    pub(super) fn household(&self, head: Node) -> impl Iterator<Item = Node> + use<'_> {
        (0..).map(Node).zip(&self.homes).filter(move |&(_, &home)| home == head).map(|(node, _)| node)
    }
}
