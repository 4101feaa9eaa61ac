//! Who is left out of a call as he is known to be dead, and the tree then.

use umbra_core::chain::{Mode, Node};
use umbra_core::tree::explicit::ROOT;

use super::{Planned, World};

impl World {
    /// The call as it is made over those who are not left out, and those who are.
    pub(super) fn without_dead(&self, planned: &Planned) -> (Planned, Vec<Node>) {
        let home = self.home(planned.root);
        let is_dead = |member: &Node| self.gone.contains(&(home, *member));
        if !planned.call.mode.contains(Mode::SKIP_DEAD) || !planned.members.iter().any(is_dead) {
            return (planned.clone(), Vec::new());
        }
        let mut listed = vec![planned.root];
        for &member in &planned.members {
            if !listed.contains(&member) {
                listed.push(member);
            }
        }
        let (skipped, left): (Vec<Node>, Vec<Node>) = listed.iter().partition(|member| is_dead(member));
        let place = |at: u32| left.iter().position(|member| *member == listed[at as usize]).map(|at| at as u32);
        let parents = planned.parents.as_ref().map(|parents| {
            let above = |at: u32| std::iter::successors(Some(parents[at as usize]), |&at| Some(parents[at as usize]));
            let kept = (1..listed.len() as u32).filter(|&at| place(at).is_some());
            let parent = |at: u32| above(at).find_map(place).expect("the maker lives");
            std::iter::once(ROOT).chain(kept.map(parent)).collect()
        });
        (Planned { members: left, parents, ..planned.clone() }, skipped)
    }
}
