//! The list of a call that is made, and the tree over it.
//!
//! Both are laid out in scratch memory, and then written to the call's own.

use super::machine::Machine;
use super::name::Node;
use super::start::{Plan, StartError};
use super::storage::Storage;
use crate::tree::Shape;
use crate::tree::explicit::{self, BadTree};

/// Where in the scratch memory what lies while a tree is laid out, in words a member.
const LIST: usize = 0;
const PARENTS: usize = 1;
const ORDER: usize = 2;
const SIZES: usize = 3;
const LINKS: usize = 4;
const SCRATCH: usize = 6;

/// What is known of the tree of a call.
pub(super) struct Laid {
    pub(super) stated: bool,
    pub(super) shape: Shape,
    /// One child of the maker is at the top of the shape.
    pub(super) led: bool,
    pub(super) height: u32,
    pub(super) fan_out: u32,
}

impl<S: Storage> Machine<S> {
    /// Nobody stands in the next list yet.
    pub(super) fn next_list(&mut self) {
        self.lists = self.lists.wrapping_add(1);
        if self.lists == 0 {
            // Marks of lists of long ago would look like this one's.
            self.peers.as_mut().iter_mut().for_each(super::peers::PeerEntry::unmark);
            self.lists = 1;
        }
    }

    /// Writes the list to the scratch memory, the maker first, and checks its members; its length, and whether all of them
    /// live here. Whoever is listed again is left out if that is wanted.
    pub(super) fn list(&mut self, members: &[Node], dedup: bool) -> Result<(u32, bool), StartError> {
        let root = self.config.node;
        let max = self.scratch.as_ref().len() / SCRATCH;
        if max == 0 || (members.len() > max && !dedup) {
            let len = 1 + members.iter().filter(|&&id| id != root).count();
            if len > max {
                return Err(StartError::TooMany { members: len, max });
            }
        }
        self.next_list();
        let (list, scratch, peers) = (self.lists, self.scratch.as_mut(), self.peers.as_mut());
        let (mut len, mut names_root, mut all_home) = (1, false, true);
        peers.get_mut(root.index()).ok_or(StartError::UnknownId(root))?.mark(list, 0);
        if let Some(place) = scratch.first_mut() {
            *place = root.0;
        }
        for (nth, &id) in (1..).zip(members) {
            if id == root {
                if names_root && !dedup {
                    return Err(StartError::DuplicateId { id, first: 0, second: nth });
                }
                names_root = true;
                continue;
            }
            let peer = peers.get_mut(id.index()).ok_or(StartError::UnknownId(id))?;
            if peer.dead {
                return Err(StartError::DeadId(id));
            }
            all_home &= peer.at_home;
            match peer.mark(list, len) {
                Some(_) if dedup => continue,
                Some(first) => return Err(StartError::DuplicateId { id, first, second: len }),
                None if len as usize == max => return Err(StartError::TooMany { members: members.len() + 1, max }),
                None => {}
            }
            if let Some(place) = scratch.get_mut(len as usize) {
                *place = id.0;
            }
            len += 1;
        }
        Ok((len, all_home))
    }

    pub(super) fn lay_out(&mut self, plan: Plan<'_>, len: u32) -> Result<Laid, StartError> {
        let count = len as usize;
        let scratch = &mut self.scratch.as_mut()[..SCRATCH * count];
        let (before, links) = scratch.split_at_mut(LINKS * count);
        let (before, sizes) = before.split_at_mut(SIZES * count);
        let (before, order) = before.split_at_mut(ORDER * count);
        let (_, parents) = before.split_at_mut(PARENTS * count);
        match plan {
            Plan::Shape(shape) => {
                let (height, fan_out) = (shape.depth(len), shape.fan_out(len));
                return Ok(Laid { stated: false, shape, led: false, height, fan_out });
            }
            Plan::Led(shape) => {
                let below = len - 1;
                let (height, fan_out) = (below.min(1) + shape.depth(below), shape.fan_out(below).max(below.min(1)));
                return Ok(Laid { stated: false, shape, led: true, height, fan_out });
            }
            Plan::Parents(stated) if stated.len() != count => {
                let index = stated.len().min(count) as u32;
                return Err(StartError::BadTree(BadTree { index, reason: explicit::Reason::Range }));
            }
            Plan::Parents(stated) => parents.copy_from_slice(stated),
            Plan::Function(parent_of) => explicit::from_function(|at| parent_of(len, at), parents),
        }
        let layout = explicit::lay_out(parents, order, sizes, links).map_err(StartError::BadTree)?;
        Ok(Laid { stated: true, shape: Shape::FLAT, led: false, height: layout.height, fan_out: layout.fan_out })
    }

    pub(super) fn children_of_root(&self, laid: &Laid, len: u32) -> u32 {
        if laid.stated {
            let parents = &self.scratch.as_ref()[PARENTS * len as usize..ORDER * len as usize];
            return parents.iter().filter(|&&parent| parent == 0).count() as u32;
        }
        if laid.led {
            return (len - 1).min(1);
        }
        // No member has more than the root.
        laid.fan_out
    }
}

impl Laid {
    /// Writes the list in preorder, and the sizes of a stated tree, from the scratch memory to the call's own.
    pub(super) fn write_list(&self, scratch: &[u32], place: &mut [u8], len: u32) {
        let count = len as usize;
        let (ids, sizes) = place.split_at_mut(count * 4);
        let part = |at: usize| &scratch[at * count..(at + 1) * count];
        let list = part(LIST);
        let ids = ids.as_chunks_mut::<4>().0;
        if self.stated {
            for (place, &position) in ids.iter_mut().zip(part(ORDER)) {
                *place = list[position as usize].to_le_bytes();
            }
            for (place, size) in sizes.as_chunks_mut::<4>().0.iter_mut().zip(part(SIZES)) {
                *place = size.to_le_bytes();
            }
            return;
        }
        // Whoever makes a led call stands above its shape.
        let above = usize::from(self.led);
        let ((makers, ids), (maker, list)) = (ids.split_at_mut(above), list.split_at(above));
        for (place, id) in makers.iter_mut().zip(maker) {
            *place = id.to_le_bytes();
        }
        let mut places = ids.iter_mut();
        self.shape.preorder(list.len() as u32).for_each(|position| {
            if let (Some(place), Some(id)) = (places.next(), list.get(position as usize)) {
                *place = id.to_le_bytes();
            }
        });
    }
}
