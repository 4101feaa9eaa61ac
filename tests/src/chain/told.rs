//! What user code is told of its call: the list, its part, and a header.
//!
//! Where functions may replace the header, members whose number is no multiple of three put that behind it.

use umbra_core::chain::{CallId, Mode, Node, Phase, Plan, Work};

use super::judge::Tree;
use super::{Made, World};

/// In front of what members put into headers: bytes that count for nothing.
pub const PREFIX: &[u8] = &[0, 0];

/// Whether a member replaces headers where it may.
const fn rewrites(node: Node) -> bool {
    !node.0.is_multiple_of(3)
}

/// What user code is told.
pub(super) struct Told {
    all: Option<Vec<Node>>,
    part: Vec<Node>,
    header: Vec<u8>,
    can_rewrite: bool,
    is_callback: bool,
}

impl Told {
    /// What this work tells; replaces the header if its member does that.
    pub(super) fn of(work: &mut Work<'_>) -> Told {
        let (all, part, header) = (work.full_list(), work.members().collect(), work.header.to_vec());
        let mut told = Told {
            all: all.map(Iterator::collect),
            part,
            can_rewrite: false,
            is_callback: matches!(work.phase, Phase::Wait(_)),
            header,
        };
        let node = work.node;
        if let Some(mut below) = work.header_below() {
            told.can_rewrite = true;
            if rewrites(node) {
                let longer = [&told.header[..], &node.0.to_le_bytes()].concat();
                below.set(&longer).expect("headers have room for a path");
            }
        }
        told
    }

    /// Whether it is right, of this member in this call.
    fn is_right(&self, made: &Made, node: Node) -> bool {
        let (call, tree) = (&made.plan.call, Tree::of(&made.plan));
        let mut header = call.header.to_vec();
        if call.mode.contains(Mode::REWRITE) {
            let mut above: Vec<Node> = tree.path(node).filter(|&above| rewrites(above)).collect();
            above.retain(|&above| call.at_root || above != made.plan.root);
            header.extend(above.iter().rev().flat_map(|above| above.0.to_le_bytes()));
        }
        if self.header != header || self.can_rewrite != (call.mode.contains(Mode::REWRITE) && !self.is_callback) {
            return false;
        }
        let all = call.mode.contains(Mode::FULL_LIST).then(|| tree.preorder());
        // Nobody but the machine knows the tree that it has chosen, or was told by a function.
        let is_hidden = made.plan.parents.is_none() && matches!(call.plan, Plan::Auto | Plan::Function(_));
        let part = tree.part_of(node);
        self.all == all && if is_hidden { self.part.first() == part.first() } else { self.part == part }
    }
}

impl World {
    /// Notes what user code was told, if that is wrong. Of calls whose requests are damaged on purpose nothing is expected.
    pub(super) fn note_told(&mut self, call: CallId, node: Node, told: &Told) {
        if self.spy {
            self.told.push((call, node, told.header.clone()));
        }
        let made = self.made.iter().rev().find(|made| made.id == call);
        if self.flip.is_none() && made.is_some_and(|made| !told.is_right(made, node)) {
            self.untold.push((call, node));
        }
    }
}
