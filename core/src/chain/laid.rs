//! The list of a call that is made, and the tree over it.
//!
//! Both are laid out in scratch memory, and then written to the call's own. What lies there afterwards is that of the last
//! call: whoever calls the same members again is not asked for each of them, nor is the tree worked out again.

use super::column::most;
use super::machine::Machine;
use super::mode::Mode;
use super::name::Node;
use super::start::{Plan, StartError};
use super::storage::Storage;
use crate::tree::Shape;
use crate::tree::explicit::{self, BadTree};

/// Where in the scratch memory what lies while a tree is laid out, in words a member.
const LIST: usize = 0;
const PARENTS: usize = 1;
/// Of a shape that everybody works out, the list as it was stated.
const GIVEN: usize = PARENTS;
const ORDER: usize = 2;
/// Of such a shape, the list in preorder.
const IDS: usize = ORDER;
const SIZES: usize = 3;
const LINKS: usize = 4;
pub(super) const SCRATCH: usize = 6;

/// The list of the last call, as long as it lies in the scratch memory and nobody has died or come to live here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// Members, with the maker.
    len: u32,
    /// Members as they were stated.
    given: u32,
    all_home: bool,
    /// In the preorder of which tree it lies there too, and whether that is led.
    order: Option<(Shape, bool)>,
}

/// Who is in a call.
#[derive(Clone, Copy)]
pub(super) struct Among<'a> {
    /// As they were stated.
    pub(super) members: &'a [Node],
    /// Members, with the maker.
    pub(super) len: u32,
    /// Members that are left out, as they are dead.
    pub(super) skipped: u32,
    pub(super) all_home: bool,
}

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

    /// Writes the list to the scratch memory, the maker first, and checks its members. Whoever is listed again is left out if that
    /// is wanted, and so is whoever is dead.
    pub(super) fn list<'a>(&mut self, members: &'a [Node], mode: Mode) -> Result<Among<'a>, StartError> {
        if let Some(last) = self.listed
            && self.is_given(&last, members)
        {
            return Ok(Among { members, len: last.len, skipped: 0, all_home: last.all_home });
        }
        self.listed = None;
        let (root, dedup) = (self.config.node, mode.contains(Mode::DEDUP));
        let max = self.scratch.as_ref().len() / SCRATCH;
        if max == 0 || (members.len() > max && !dedup) {
            let len = 1 + members.iter().filter(|&&id| id != root).count();
            if len > max {
                return Err(StartError::TooMany { members: len, max });
            }
        }
        self.next_list();
        let (list, scratch, peers) = (self.lists, self.scratch.as_mut(), self.peers.as_mut());
        let (mut len, mut skipped, mut names_root, mut all_home) = (1, 0, false, true);
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
            if peer.dead && !mode.contains(Mode::SKIP_DEAD) {
                return Err(StartError::DeadId(id));
            }
            let position = len + skipped;
            match peer.mark(list, position) {
                Some(_) if dedup => continue,
                Some(first) => return Err(StartError::DuplicateId { id, first, second: position }),
                None if position as usize == max => {
                    return Err(StartError::TooMany { members: members.len() + 1, max });
                }
                None => {}
            }
            if peer.dead {
                skipped += 1;
                continue;
            }
            all_home &= peer.at_home;
            if let Some(place) = scratch.get_mut(len as usize) {
                *place = id.0;
            }
            len += 1;
        }
        let given = members.len() as u32;
        // Who was left out for standing there twice, or being dead, is not, unless that is wanted again.
        if given + u32::from(!names_root) == len {
            let start = GIVEN * len as usize;
            let places = scratch.get_mut(start..start + members.len()).unwrap_or(&mut []);
            places.iter_mut().zip(members).for_each(|(place, id)| *place = id.0);
            self.listed = Some(Listed { len, given, all_home, order: None });
        }
        Ok(Among { members, len, skipped, all_home })
    }

    /// Whether these members were stated for the last call.
    fn is_given(&self, last: &Listed, members: &[Node]) -> bool {
        let start = GIVEN * last.len as usize;
        let given = self.scratch.as_ref().get(start..start + members.len());
        // All of them are looked at: then many are at once.
        let differ = |given: &[u32]| given.iter().zip(members).fold(0, |sum, (&word, id)| sum | (word ^ id.0));
        last.given as usize == members.len() && given.is_some_and(|given| differ(given) == 0)
    }

    pub(super) fn lay_out(&mut self, plan: Plan<'_>, among: &Among<'_>) -> Result<Laid, StartError> {
        let (len, skipped) = (among.len, among.skipped);
        let (count, all) = (len as usize, (len + skipped) as usize);
        match plan {
            // Whoever makes the call has chosen already.
            Plan::Auto => return self.lay_out(Plan::Shape(Shape::BINARY), among),
            Plan::Shape(shape) => {
                let (height, fan_out) = (shape.depth(len), shape.fan_out(len));
                return Ok(Laid { stated: false, shape, led: false, height, fan_out });
            }
            Plan::Led(shape) => {
                let below = len - 1;
                let (height, fan_out) = (below.min(1) + shape.depth(below), shape.fan_out(below).max(below.min(1)));
                return Ok(Laid { stated: false, shape, led: true, height, fan_out });
            }
            Plan::Parents(stated) if stated.len() != all => {
                let index = stated.len().min(all) as u32;
                return Err(StartError::BadTree(BadTree { index, reason: explicit::Reason::Range }));
            }
            Plan::Parents(_) | Plan::Function(_) if skipped > 0 => self.graft(plan, among)?,
            Plan::Parents(stated) => self.parents(count).copy_from_slice(stated),
            Plan::Function(parent_of) => explicit::from_function(|at| parent_of(len, at), self.parents(count)),
        }
        // The list as it was stated is written over.
        self.listed = None;
        let scratch = &mut self.scratch.as_mut()[..SCRATCH * count];
        let (before, links) = scratch.split_at_mut(LINKS * count);
        let (before, sizes) = before.split_at_mut(SIZES * count);
        let (before, order) = before.split_at_mut(ORDER * count);
        let (_, parents) = before.split_at_mut(PARENTS * count);
        let layout = explicit::lay_out(parents, order, sizes, links).map_err(StartError::BadTree)?;
        Ok(Laid { stated: true, shape: Shape::FLAT, led: false, height: layout.height, fan_out: layout.fan_out })
    }

    /// Where the parents of so many positions are stated.
    fn parents(&mut self, count: usize) -> &mut [u32] {
        &mut self.scratch.as_mut()[PARENTS * count..ORDER * count]
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
    pub(super) fn write_list(&self, scratch: &mut [u32], listed: &mut Option<Listed>, place: &mut [u8], len: u32) {
        let (ids, sizes) = place.split_at_mut(len as usize * 4);
        self.order(scratch, listed, len);
        if self.stated {
            write(ids, stated_ids(scratch, len));
            write(sizes, part(scratch, SIZES, len).iter().copied());
        } else {
            write(ids, part(scratch, IDS, len).iter().copied());
        }
    }

    /// The most bytes that any piece of the list has in a request.
    pub(super) fn packed(&self, scratch: &mut [u32], listed: &mut Option<Listed>, len: u32) -> usize {
        self.order(scratch, listed, len);
        if self.stated {
            let sizes = part(scratch, SIZES, len).iter().copied();
            most::<1>(stated_ids(scratch, len)) + most::<0>(sizes)
        } else {
            most::<1>(part(scratch, IDS, len).iter().copied())
        }
    }

    /// Has the list of a shape in preorder in the scratch memory.
    fn order(&self, scratch: &mut [u32], listed: &mut Option<Listed>, len: u32) {
        let (count, wanted) = (len as usize, Some((self.shape, self.led)));
        if self.stated || listed.is_some_and(|listed| listed.order == wanted) {
            return;
        }
        let (list, rest) = scratch.split_at_mut(IDS * count);
        // Whoever makes a led call stands above its shape.
        let above = usize::from(self.led);
        let ((makers, below), (maker, list)) = (rest[..count].split_at_mut(above), list[..count].split_at(above));
        makers.copy_from_slice(maker);
        let mut places = below.iter_mut();
        self.shape.preorder(list.len() as u32).for_each(|position| {
            if let (Some(place), Some(id)) = (places.next(), list.get(position as usize)) {
                *place = *id;
            }
        });
        if let Some(listed) = listed {
            listed.order = wanted;
        }
    }
}

fn write(place: &mut [u8], words: impl Iterator<Item = u32>) {
    place.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
}

/// This part of the scratch memory.
fn part(scratch: &[u32], at: usize, len: u32) -> &[u32] {
    let count = len as usize;
    &scratch[at * count..(at + 1) * count]
}

/// The members of a stated tree in preorder.
fn stated_ids(scratch: &[u32], len: u32) -> impl Iterator<Item = u32> {
    let list = part(scratch, LIST, len);
    part(scratch, ORDER, len).iter().map(|&position| list[position as usize])
}
