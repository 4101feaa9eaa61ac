//! Neighbours in a group's tree: arithmetic over the service processes that live.

use crate::peer::Sp;
use crate::tree::Tree;

use super::super::record::{NEIGHBOURS, Phase};
use super::super::shelf::Shelf;
use super::{Service, Storage};

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// Number of service processes that are not known to be dead.
    fn live(&self) -> u32 {
        self.placement.service_processes().saturating_sub(self.dead)
    }

    fn live_index(&self, sp: Sp) -> Option<u32> {
        if self.is_dead(sp) {
            return None;
        }
        if self.dead == 0 {
            return Some(sp.0);
        }
        let before = self.peers.as_ref().get(..sp.index())?;
        Some(before.iter().filter(|peer| !peer.is_dead()).count() as u32)
    }

    fn live_at(&self, index: u32) -> Option<Sp> {
        if self.dead == 0 {
            return Some(Sp(index));
        }
        let live = (0..self.placement.service_processes()).filter(|&sp| !self.is_dead(Sp(sp)));
        live.map(Sp).nth(index as usize)
    }

    /// The group's authority: of the world group the lowest service process that lives.
    pub(super) fn root_of(&self, at: u32) -> Sp {
        let record = self.rec(at);
        if record.is_world() { self.live_at(0).unwrap_or(self.config.sp) } else { record.root }
    }

    pub(super) fn is_root(&self, at: u32) -> bool {
        self.root_of(at) == self.config.sp
    }

    fn tree(&self, at: u32) -> Option<(Tree, u32)> {
        let root = self.live_index(self.root_of(at))?;
        Some((Tree::new(self.live(), root, self.config.arity)?, self.live_index(self.config.sp)?))
    }

    /// To whom the parts of this group go.
    pub(super) fn parent(&self, at: u32) -> Option<Sp> {
        let (tree, me) = self.tree(at)?;
        self.live_at(tree.parent(me)?)
    }

    /// Who gets the table from here: the children, and at place `NEIGHBOURS - 1` the authority if it has lost its
    /// memory in a restart and this is its child. The end is told to the children and the parent.
    pub(super) fn neighbour(&self, at: u32, n: usize) -> Option<Sp> {
        let (tree, me) = self.tree(at)?;
        if n + 1 == NEIGHBOURS {
            if self.rec(at).phase == Phase::Ended {
                return self.parent(at);
            }
            let root = self.root_of(at);
            let restarted = self.peer(root).is_some_and(|peer| peer.epoch > 0);
            return (restarted && self.rec(at).phase == Phase::Full && self.parent(at) == Some(root)).then_some(root);
        }
        self.live_at(tree.children(me).nth(n)?)
    }
}
