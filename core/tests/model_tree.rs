//! Trees against their definitions.
//!
//! Each member is there once, parents and children are inverse, bounds are kept, and pieces are as promised.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::HashSet;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use umbra_core::tree::explicit::{self, BadTree, ROOT, Reason};
use umbra_core::tree::{Piece, Shape, Tree, domains};

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (1..=u8::MAX).prop_map(|k| Shape::kary(k).unwrap()),
        (2..=u8::MAX).prop_map(|k| Shape::knomial(k).unwrap()),
        (1..5_u8).prop_map(|k| Shape::kary(k).unwrap()),
        (2..5_u8).prop_map(|k| Shape::knomial(k).unwrap()),
        Just(Shape::FLAT),
    ]
}

fn depth_of(mut position: u32, parent: impl Fn(u32) -> Option<u32>) -> u32 {
    let mut depth = 0;
    while let Some(above) = parent(position) {
        assert!(above < position, "a parent comes before its children");
        (position, depth) = (above, depth + 1);
    }
    depth
}

/// The parents that follow from splitting a preorder list, as pairs of parent and child.
fn edges(shape: Shape, list: &[u32], found: &mut Vec<(u32, u32)>) {
    let pieces: Vec<Piece> = shape.split(list.len() as u32).collect();
    assert_eq!(pieces.iter().map(|piece| piece.len).sum::<u32>() as usize, list.len().saturating_sub(1));
    for piece in pieces {
        found.push((list[0], list[piece.range().start]));
        edges(shape, &list[piece.range()], found);
    }
}

proptest! {
    #[test]
    fn parents_and_children_are_inverse_and_everybody_is_somebodys_child(shape in shapes(), len in 0..700_u32) {
        let mut seen = HashSet::new();
        for position in 0..len {
            for child in shape.children(position, len) {
                prop_assert_eq!(shape.parent(child), Some(position));
                prop_assert!(seen.insert(child), "{} has two parents", child);
            }
        }
        prop_assert_eq!(seen.len() as u32, len.saturating_sub(1));
        prop_assert_eq!(shape.children(len, len).count(), 0);
        let deepest = (0..len).map(|position| depth_of(position, |at| shape.parent(at))).max().unwrap_or(0);
        prop_assert_eq!(shape.depth(len), deepest);
        let widest = (0..len).map(|position| shape.children(position, len).count()).max().unwrap_or(0);
        prop_assert_eq!(shape.fan_out(len) as usize, widest);
    }

    #[test]
    fn a_preorder_list_falls_into_the_same_tree(shape in shapes(), len in 1..600_u32) {
        // Recursion goes as deep as the tree, which a chain makes as deep as it is long.
        let list: Vec<u32> = shape.preorder(len).collect();
        prop_assert_eq!(list.iter().copied().collect::<HashSet<_>>().len() as u32, len);
        let mut found = Vec::new();
        edges(shape, &list, &mut found);
        let mut expected: Vec<_> = (1..len).map(|child| (shape.parent(child).unwrap(), child)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        for (at, piece) in (0..).zip(shape.split(len)) {
            prop_assert_eq!(shape.child_len(len, at).min(len - piece.start), piece.len);
        }
    }

    #[test]
    fn shapes_survive_the_wire(bytes in any::<[u8; 2]>()) {
        if let Some(shape) = Shape::from_bytes(bytes) {
            prop_assert_eq!(shape.to_bytes(), bytes);
        }
    }

    #[test]
    fn a_rotated_tree_has_every_member_once(shape in shapes(), len in 1..300_u32, root in any::<u32>()) {
        let root = root % len;
        let tree = Tree::shaped(len, root, shape).unwrap();
        prop_assert_eq!(tree.parent(root), None);
        let mut children: Vec<u32> = (0..len).flat_map(|member| tree.children(member)).collect();
        children.sort_unstable();
        prop_assert!(children.iter().copied().eq((0..len).filter(|&member| member != root)));
        for member in 0..len {
            prop_assert!(tree.children(member).all(|child| tree.parent(child) == Some(member)));
        }
        prop_assert_eq!(tree.parent(len), None);
    }

    #[test]
    fn any_array_of_parents_is_a_tree_or_is_refused_for_a_reason(raw in proptest::collection::vec(0..12_u32, 1..12)) {
        let mut parents = raw;
        parents[0] = ROOT;
        let len = parents.len();
        let (mut order, mut sizes, mut links) = (vec![0; len], vec![0; len], vec![0; 2 * len]);
        // By definition: whose parents lead to position 0 within as many steps as there are positions.
        let reaches = |index: usize| {
            let mut at = index;
            for _ in 0..=len {
                if at == 0 { return true; }
                match parents.get(at) { Some(&above) => at = above as usize, None => return false }
            }
            false
        };
        match explicit::lay_out(&parents, &mut order, &mut sizes, &mut links) {
            Ok(layout) => {
                prop_assert!((0..len).all(reaches));
                prop_assert_eq!(order.iter().copied().collect::<HashSet<_>>().len(), len);
                for (place, &position) in order.iter().enumerate() {
                    let within = &order[place..place + sizes[place] as usize];
                    let below = |mut at: u32| loop {
                        if at == position { break true; }
                        if at == 0 { break false; }
                        at = parents[at as usize];
                    };
                    prop_assert_eq!(within.len(), (0..len as u32).filter(|&at| below(at)).count());
                    prop_assert!(within.iter().all(|&at| below(at)));
                }
                let parent = |at: u32| (at != 0).then(|| parents[at as usize]);
                let depth = |mut at: u32| { let mut depth = 0; while let Some(up) = parent(at) { at = up; depth += 1; } depth };
                prop_assert_eq!(layout.height, (0..len as u32).map(depth).max().unwrap());
            }
            Err(BadTree { index, reason }) => {
                prop_assert!(!reaches(index as usize));
                let out = parents[index as usize] as usize >= len;
                prop_assert_eq!(reason == Reason::Range, out);
            }
        }
    }

    #[test]
    fn every_domain_is_entered_once(domains in proptest::collection::vec((0..6_u32, any::<bool>()), 1..80), k in 2..4_u8) {
        let place = |at: u32| domains::Place { domain: domains[at as usize].0, leads: domains[at as usize].1 };
        let len = domains.len();
        let (mut parents, mut leaders) = (vec![0; len], [0; 6]);
        domains::parents(place, Shape::knomial(k).unwrap(), &mut parents, &mut leaders).unwrap();
        let (mut order, mut sizes, mut links) = (vec![0; len], vec![0; len], vec![0; 2 * len]);
        explicit::lay_out(&parents, &mut order, &mut sizes, &mut links).unwrap();
        let used: HashSet<u32> = domains.iter().map(|&(domain, _)| domain).collect();
        let crossing = (1..len).filter(|&at| domains[at].0 != domains[parents[at] as usize].0).count();
        prop_assert_eq!(crossing, used.len() - 1);
        prop_assert_eq!(domains::parents(place, Shape::FLAT, &mut parents, &mut []).unwrap_err().reason, Reason::Range);
    }

    #[test]
    fn every_machine_is_entered_once_and_every_domain_too(
        domains in proptest::collection::vec((0..6_u32, any::<bool>()), 1..80),
        on in proptest::collection::vec(0..4_u32, 6),
        k in 2..4_u8,
    ) {
        let place = |at: u32| domains::Place { domain: domains[at as usize].0, leads: domains[at as usize].1 };
        let machine = |domain: u32| on[domain as usize];
        let (len, over) = (domains.len(), Shape::knomial(k).unwrap());
        let (mut parents, mut leaders, mut heads) = (vec![0; len], [0; 6], [0; 4]);
        domains::nested(place, machine, over, &mut parents, &mut leaders, &mut heads).unwrap();
        let (mut order, mut sizes, mut links) = (vec![0; len], vec![0; len], vec![0; 2 * len]);
        explicit::lay_out(&parents, &mut order, &mut sizes, &mut links).unwrap();
        let of = |at: usize| (domains[at].0, machine(domains[at].0));
        let used: HashSet<u32> = domains.iter().map(|&(domain, _)| domain).collect();
        let machines: HashSet<u32> = used.iter().map(|&domain| machine(domain)).collect();
        let edges = || (1..len).map(|at| (of(at), of(parents[at] as usize)));
        prop_assert_eq!(edges().filter(|(down, up)| down.0 != up.0).count(), used.len() - 1);
        prop_assert_eq!(edges().filter(|(down, up)| down.1 != up.1).count(), machines.len() - 1);
        // With a machine for each domain it is the tree of domains.
        let (mut plain, mut alone) = (vec![0; len], [0; 6]);
        domains::parents(place, over, &mut plain, &mut leaders).unwrap();
        domains::nested(place, |domain| domain, over, &mut parents, &mut leaders, &mut alone).unwrap();
        prop_assert_eq!(&parents, &plain);
        // On one machine as well, by whatever number: nobody has more children that lead than the shape gives.
        domains::nested(place, |_| 77, over, &mut parents, &mut leaders, &mut [0]).unwrap();
        prop_assert_eq!(&parents, &plain);
        let none = domains::nested(place, |_| 6, over, &mut parents, &mut leaders, &mut []).unwrap_err();
        prop_assert_eq!((none.index, none.reason), (0, Reason::Range));
    }
}

#[test]
fn heaps_and_binomial_trees_are_the_well_known_ones() {
    assert_eq!((1..7).map(|at| Shape::BINARY.parent(at).unwrap()).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    assert_eq!((1..8).map(|at| Shape::BINOMIAL.parent(at).unwrap()).collect::<Vec<_>>(), [0, 0, 2, 0, 4, 4, 6]);
    assert_eq!(Shape::BINOMIAL.split(8).map(|piece| piece.len).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(Shape::BINARY.split(11).map(|piece| piece.len).collect::<Vec<_>>(), [7, 3]);
    for len in 1..=130 {
        assert!((1..len).all(|at: u32| Shape::BINOMIAL.parent(at) == Some(at & (at - 1))));
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    for shape in [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN, Shape::knomial(255).unwrap()] {
        assert!(shape.parent(u32::MAX).is_some_and(|parent| parent < u32::MAX));
        assert_eq!(shape.children(u32::MAX - 1, u32::MAX).next(), None);
        let pieces = shape.split(u32::MAX).take(1000).map(|piece| u64::from(piece.len)).sum::<u64>();
        assert!(pieces < u64::from(u32::MAX));
    }
    assert_eq!(Shape::CHAIN.depth(u32::MAX), u32::MAX - 1);
}

#[test]
fn stated_trees_that_are_none_are_refused_with_the_place() {
    let (mut order, mut sizes, mut links) = ([0; 5], [0; 5], [0; 10]);
    let mut check = |parents: &[u32]| {
        explicit::lay_out(parents, &mut order, &mut sizes, &mut links).map_err(|bad| (bad.index, bad.reason))
    };
    assert_eq!(check(&[ROOT, 2, 1]), Err((1, Reason::Cycle)));
    assert_eq!(check(&[ROOT, 1]), Err((1, Reason::Cycle)));
    assert_eq!(check(&[1, 0]), Err((0, Reason::Cycle)));
    assert_eq!(check(&[ROOT, 99]), Err((1, Reason::Range)));
    assert_eq!(check(&[ROOT, 0, ROOT]), Err((2, Reason::SecondRoot)));
    assert_eq!(check(&[ROOT, 2, 3, 2]), Err((1, Reason::Unreachable)));
    assert_eq!(check(&[ROOT; 6]), Err((5, Reason::NoRoom)));
    let mut parents = [0; 4];
    assert_eq!(explicit::from_edges([(0, 1), (0, 2), (1, 2)], &mut parents).unwrap_err().reason, Reason::TwoParents);
    assert_eq!(
        explicit::from_edges([(0, 1), (0, 2)], &mut parents),
        Err(BadTree { index: 3, reason: Reason::Unreachable })
    );
    assert_eq!(explicit::from_edges([(0, 4)], &mut parents).unwrap_err().reason, Reason::Range);
    assert_eq!(explicit::from_edges([(0, 1), (1, 2), (2, 3)], &mut parents), Ok(()));
    assert_eq!(parents, [ROOT, 0, 1, 2]);
    explicit::from_function(|at| at.checked_sub(1), &mut parents);
    assert_eq!(parents, [ROOT, 0, 1, 2]);
}
