//! Members that are known to be dead, and left out of a call.
//!
//! A call has to ask for that ([`Mode::SKIP_DEAD`](super::Mode::SKIP_DEAD)). Its maker says who they are, for nothing is sent that
//! would name them: they are no part of the tree, and their names stay behind what else the call keeps at its maker. A stated
//! tree is one over all that were listed, so that whoever states it need not know who is dead.
//!
//! *Cost*: nothing where everybody lives; else the list is gone through once more for the names, and twice more for a stated tree,
//! which is laid out as it was stated before it is without them. However many of the dead hang below one another, each is looked
//! at once.

use super::laid::{Among, SCRATCH};
use super::machine::Machine;
use super::name::Node;
use super::peers::PeerEntry;
use super::start::{Plan, StartError};
use super::storage::Storage;
use crate::tree::explicit::{self, ROOT};

/// In place of where a member is in the list that is left.
const LEFT_OUT: u32 = u32::MAX;

/// Who stands at the positions 1, 2, ... of a list that was just checked, and whether he is dead.
fn positions<'a>(peers: &'a [PeerEntry], root: Node, members: &'a [Node]) -> impl Iterator<Item = (Node, bool)> + 'a {
    let mut at = 0;
    members.iter().filter_map(move |&node| {
        let peer = peers.get(node.index()).filter(|_| node != root)?;
        // Whoever is listed again stands where he is listed first.
        let is_next = peer.position() == at + 1;
        at += u32::from(is_next);
        is_next.then_some((node, peer.dead))
    })
}

/// Writes the names of those who are left out of a list that was just checked.
pub(super) fn write_names(peers: &[PeerEntry], root: Node, members: &[Node], place: &mut [u8]) {
    let dead = positions(peers, root, members).filter(|&(_, is_dead)| is_dead);
    let places = place.as_chunks_mut::<4>().0;
    places.iter_mut().zip(dead).for_each(|(place, (node, _))| *place = node.0.to_le_bytes());
}

impl<S: Storage> Machine<S> {
    /// Makes a stated tree one over those who are left: its parents, where [`lay_out`](Self::lay_out) has them.
    ///
    /// The list that is left lies in front of them, and there is scratch memory for all that were listed.
    pub(super) fn graft(&mut self, plan: Plan<'_>, among: &Among<'_>) -> Result<(), StartError> {
        let (left, all) = (among.len as usize, (among.len + among.skipped) as usize);
        let (scratch, peers) = (self.scratch.as_mut(), self.peers.as_ref());
        let (_, work) = scratch.split_at_mut(left);
        let (parents, work) = work.split_at_mut(all);
        let (order, work) = work.split_at_mut(all);
        let (sizes, links) = work.split_at_mut(all);
        match plan {
            Plan::Parents(stated) => parents.copy_from_slice(stated),
            Plan::Function(parent_of) => explicit::from_function(|at| parent_of(all as u32, at), parents),
            Plan::Shape(_) | Plan::Led(_) | Plan::Auto => return Ok(()),
        }
        explicit::lay_out(parents, order, sizes, links).map_err(StartError::BadTree)?;
        let end = scratch.len();
        scratch.copy_within(left..left + all, end - 2 * all);
        let (laid, stated) = scratch.split_at_mut(end - 2 * all);
        let (stated, places) = stated.split_at_mut(all);
        let (parents, order) = laid.split_at_mut(left + all);
        let parents = &mut parents[left..2 * left];
        let (mut next, root) = (1, self.config.node);
        places[0] = 0;
        for (place, (_, is_dead)) in places[1..].iter_mut().zip(positions(peers, root, among.members)) {
            *place = if is_dead { LEFT_OUT } else { next };
            next += u32::from(!is_dead);
        }
        parents[0] = ROOT;
        for &at in &order[1..all] {
            // Whoever is above has had his turn, and whoever is dead has the place of the next one above that is not.
            let above = places[stated[at as usize] as usize];
            let place = &mut places[at as usize];
            if *place == LEFT_OUT {
                *place = above;
            } else {
                parents[*place as usize] = above;
            }
        }
        Ok(())
    }
}

/// All that is laid out lies in front of what is kept meanwhile.
const _: () = assert!(SCRATCH >= 6);
