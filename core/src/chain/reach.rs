//! Who was not reached, as far as the maker of a call can tell.
//!
//! The maker has the list and the tree, and one way leads to every member. So whoever hangs below a member that has sent no
//! request on was asked by nobody, and a record often says that its origin has sent none. Of its own children the maker
//! knows whom it asked, and of a walk through its own list how far that came.
//!
//! Nobody is named on suspicion. What a record leaves open:
//!
//! * After [`Stage::Callback`] and [`Stage::Child`], which requests were sent before.
//! * After [`Code::NoResource`] and [`Code::Transport`], whether an earlier request to the same child found its way.
//! * After [`Code::ReplyGone`], [`Code::SecondParent`] and [`Code::StaleRoot`], what an earlier request did.
//! * With [`Mode::CUT_THROUGH`], whom a member asked whose function failed later.
//!
//! Nor is anything said of those whom another member than the maker left out when a call ended early, nor of failures that
//! are not among the records. So there may be fewer names than the tally counts, and there are never more.
//!
//! *Cost*: a look at the list for each record, and two at each member; nothing on the way of a call.

use core::fmt;

use super::context::RECORDS;
use super::kids::{Kid, Stand, pieces};
use super::list::List;
use super::mode::Mode;
use super::name::Node;
use super::report::{Code, Record, Stage};
use super::work::Members;
use crate::tree::{Piece, Shape};

/// What the maker of a call that has failed knows of it.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    pub(super) list: List<'a>,
    pub(super) shape: Shape,
    /// The maker has one child, at the top of the shape.
    pub(super) led: bool,
    pub(super) mode: Mode,
    /// The maker's own function has not run.
    pub(super) not_run: bool,
    /// The maker's children, in the order of the list.
    pub(super) kids: &'a [[u64; 4]],
    /// The first place that a walk through the list did not come to; behind the list if there was none.
    pub(super) rest: u32,
}

impl<'a> Reach<'a> {
    /// The subtree of the member at this place.
    fn subtree(&self, place: u32) -> Option<Piece> {
        let mut piece = Piece { start: 0, len: self.list.len() };
        let mut shape = if self.led { Shape::CHAIN } else { self.shape };
        while piece.start != place {
            let mut below = pieces(shape, self.list.piece(piece)?);
            let kid = below.find(|kid| place - piece.start < kid.start + kid.len)?;
            (piece, shape) = (Piece { start: piece.start + kid.start, ..kid }, self.shape);
        }
        Some(piece)
    }

    /// The places below whoever failed, if it certainly has asked none of them.
    fn below(&self, record: &Record) -> Option<Piece> {
        let place = self.list.members().position(|node| node == record.origin)?;
        let Piece { start, len } = self.subtree(place as u32)?;
        let took = match (record.stage, record.code) {
            // It has taken the request, and sends it on only when its function is done.
            (Stage::Func | Stage::Reply, _) | (Stage::Setup, Code::Timeout) => {
                if self.mode.contains(Mode::CUT_THROUGH) {
                    return None;
                }
                1
            }
            // It has never taken the request.
            (
                Stage::Setup,
                Code::UnknownFunc
                | Code::UnknownCallback
                | Code::Version
                | Code::Malformed
                | Code::TooLarge
                | Code::UnknownId
                | Code::DuplicateId,
            ) => len,
            // Its parent has never sent it: a child that was asked and dies, or is late, is lost as a child.
            (Stage::Forward, Code::UnknownId | Code::PeerDead | Code::Timeout) => len,
            _ => return None,
        };
        (record.count == took).then_some(Piece { start: start + 1, len: len - 1 })
    }

    /// Who was certainly not reached, by these records; and those who were left out.
    pub(super) fn unreached(self, records: impl Iterator<Item = Record>, skipped: Members<'a>) -> Unreached<'a> {
        let below = records.take(RECORDS).filter_map(|record| self.below(&record)).collect();
        Unreached { reach: self, below, at: 0, skipped }
    }
}

/// Members that were certainly not reached, in the order of the tree: each after whoever is above it, and those who were left out
/// at last; see
/// [`Report::unreached`](super::Report::unreached).
#[derive(Clone)]
pub struct Unreached<'a> {
    /// With those of the maker's children only that are not behind.
    reach: Reach<'a>,
    below: heapless::Vec<Piece, RECORDS>,
    at: u32,
    skipped: Members<'a>,
}

impl Unreached<'_> {
    /// Names nobody any more but those who were left out.
    pub(super) fn silent(self) -> Self {
        Unreached { at: u32::MAX, ..self }
    }

    fn names(&mut self, place: u32) -> bool {
        let reach = &mut self.reach;
        let holds = |piece: Piece| piece.start <= place && place - piece.start < piece.len;
        let mut is_dropped = false;
        while let Some((&first, behind)) = reach.kids.split_first() {
            let kid = Kid::from_words(first);
            if place < kid.piece.start + kid.piece.len {
                is_dropped = kid.stand == Stand::Dropped && holds(kid.piece);
                break;
            }
            reach.kids = behind;
        }
        is_dropped || place >= reach.rest || place == 0 && reach.not_run || self.below.iter().any(|&piece| holds(piece))
    }
}

impl Iterator for Unreached<'_> {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        loop {
            let place = self.at;
            let Some(node) = self.reach.list.id(place) else { return self.skipped.next() };
            self.at += 1;
            if self.names(place) {
                return Some(node);
            }
        }
    }
}

impl fmt::Debug for Unreached<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone().map(|node| node.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// A list in preorder, the place of everybody's parent in it, and the sizes of the subtrees.
    type Tree = (Vec<[u8; 4]>, Vec<usize>, Vec<[u8; 4]>);

    fn tree(shape: Shape, led: bool, len: u32) -> Tree {
        let above = u32::from(led);
        let order = (0..above).chain(shape.preorder(len - above).map(|at| at + above)).collect::<Vec<u32>>();
        let parent = |at: u32| at.checked_sub(above).map(|at| shape.parent(at).map_or(0, |parent| parent + above));
        let place = |position: u32| order.iter().position(|&at| at == position).unwrap();
        let parents: Vec<usize> = order.iter().map(|&at| place(parent(at).unwrap_or(0))).collect();
        let size = |at: usize| (0..len as usize).filter(|&below| hangs_below(&parents, below, at)).count() as u32 + 1;
        let sizes = (0..len as usize).map(|at| size(at).to_le_bytes()).collect();
        (order.iter().map(|at| (at + 100).to_le_bytes()).collect(), parents, sizes)
    }

    fn hangs_below(parents: &[usize], mut place: usize, above: usize) -> bool {
        while place > 0 {
            place = parents[place];
            if place == above {
                return true;
            }
        }
        false
    }

    fn each_tree(mut what: impl FnMut(Reach<'_>, &[usize])) {
        let wider = [3, 5].into_iter().flat_map(|k| [Shape::kary(k).unwrap(), Shape::knomial(k).unwrap()]);
        let shapes = [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN].into_iter().chain(wider);
        for (shape, len, led) in
            shapes.flat_map(|shape| (1..=24).flat_map(move |len| [false, true].map(|led| (shape, len, led))))
        {
            let (ids, parents, sizes) = tree(shape, led, len);
            let list = List { ids: &ids, sizes: &[] };
            let mode = Mode::COLLECT;
            let reach = Reach { list, shape, led, mode, not_run: false, kids: &[], rest: len };
            what(reach, &parents);
            what(Reach { list: List { sizes: &sizes, ..list }, shape: Shape::FLAT, led: false, ..reach }, &parents);
        }
    }

    fn record(reach: &Reach<'_>, place: usize, stage: Stage, code: Code, count: u32) -> Record {
        Record { origin: reach.list.id(place as u32).unwrap(), stage, code, depth: 0, aux: 0, count }
    }

    fn names(reach: Reach<'_>, records: &[Record]) -> Vec<Node> {
        reach.unreached(records.iter().copied(), Members(&[])).collect()
    }

    #[test]
    fn whoever_hangs_below_those_who_asked_nobody_is_named() {
        each_tree(|reach, parents| {
            for (one, two) in (0..parents.len()).flat_map(|one| (0..=one).map(move |two| (one, two))) {
                let places = 0..parents.len();
                let below = |place: usize| [one, two].iter().any(|&at| hangs_below(parents, place, at));
                let expected: Vec<Node> =
                    places.filter(|&at| below(at)).map(|at| reach.list.id(at as u32).unwrap()).collect();
                let size = reach.subtree(two as u32).unwrap().len;
                let first = record(&reach, one, Stage::Func, Code::Fault, 1);
                for (stage, code) in [(Stage::Setup, Code::UnknownFunc), (Stage::Forward, Code::PeerDead)] {
                    assert_eq!(names(reach, &[first, record(&reach, two, stage, code, size)]), expected);
                }
            }
        });
    }

    #[test]
    fn nobody_is_named_where_requests_may_have_gone_on() {
        use {Code::*, Stage::*};
        let open =
            [(Callback, Fault), (Child, PeerDead), (Child, Timeout), (Forward, NoResource), (Forward, Transport)];
        let before = [(Setup, ReplyGone), (Setup, SecondParent), (Setup, StaleRoot), (Setup, NoResource)];
        each_tree(|reach, parents| {
            for place in 0..parents.len() {
                let size = reach.subtree(place as u32).unwrap().len;
                for (&(stage, code), count) in open.iter().chain(&before).flat_map(|one| [(one, 1), (one, size)]) {
                    assert!(names(reach, &[record(&reach, place, stage, code, count)]).is_empty());
                }
                let through = Reach { mode: Mode::CUT_THROUGH, ..reach };
                assert!(names(through, &[record(&reach, place, Func, Fault, 1)]).is_empty());
                // Another size than that of its subtree.
                assert!(names(reach, &[record(&reach, place, Setup, TooLarge, size + 1)]).is_empty());
            }
        });
    }
}
