//! Whether user code sees the list of its call, and its own part of it, where that is wanted.

use umbra_core::chain::{Mode, Node, Work};

use super::judge::Tree;
use super::{Made, World};

/// What user code is told of the members of its call.
pub(super) struct Told {
    all: Option<Vec<Node>>,
    part: Vec<Node>,
}

impl Told {
    pub(super) fn of(work: &Work<'_>) -> Told {
        Told { all: work.full_list().map(Iterator::collect), part: work.members().collect() }
    }

    /// Whether it is right, of this member in this call.
    fn is_right(&self, made: &Made, node: Node) -> bool {
        if !made.plan.call.mode.contains(Mode::FULL_LIST) {
            return self.all.is_none();
        }
        let expected = Tree::of(&made.plan).preorder();
        let at = expected.iter().position(|&member| member == node);
        let part = at.map(|at| &expected[at..(at + self.part.len()).min(expected.len())]);
        self.all.as_ref() == Some(&expected) && part == Some(&self.part[..])
    }
}

impl World {
    /// Notes what user code was told, if that is wrong. Of calls whose requests are damaged on purpose nothing is expected.
    pub(super) fn note_told(&mut self, call: umbra_core::chain::CallId, node: Node, told: &Told) {
        let made = self.made.iter().rev().find(|made| made.id == call);
        if self.flip.is_none() && made.is_some_and(|made| !told.is_right(made, node)) {
            self.unlisted.push((call, node));
        }
    }
}
