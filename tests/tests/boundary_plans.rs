//! Plans that ranks show each other: what they choose, and what they do not share.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Agent, Attended, Boundary, BoundaryError, Differs, Extent, Fabric, Field, Grid, Mesh, Settings, Store, Transport,
    TransportError, largest_message,
};
use umbra_core::boundary::{Entry, Message};
use umbra_tests::boundary_job::{SETTINGS, shape};

/// Plans on their way, by sender and receiver.
type Post = Arc<Mutex<Vec<VecDeque<Vec<u8>>>>>;

/// An end whose plans are messages: each is read once. Those of one rank to another may get lost.
struct Posted(Fabric, Post, Option<[u32; 2]>, Cell<bool>);

impl Posted {
    fn pair(&self, from: u32, to: u32) -> usize {
        (from * self.0.ranks() + to) as usize
    }
}

impl Transport for Posted {
    umbra_tests::hands_on!();

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        self.0.publish(message, epoch, head)
    }
    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        if self.2 != Some([self.rank(), to]) {
            self.1.lock().unwrap()[self.pair(self.rank(), to)].push_back(bytes.to_vec());
        }
        Ok(())
    }
    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        // Each is still under way when it is asked for first.
        self.3.set(!self.3.get());
        let mut post = self.1.lock().unwrap();
        Ok(if self.3.get() { None } else { post[self.pair(from, self.rank())].pop_front() })
    }
}

const FIELDS: [Field; 1] = [Field::DENSE];

/// Three blocks in a row, each of this rank.
fn row(owners: [u32; 3]) -> Grid {
    Grid::new(shape(1, 4, 2), [3, 1, 1], [false; 3], 3).with_owners(owners.to_vec())
}

/// Runs `body` on each of three ranks in a thread of its own, with an end that `end` makes of that of the rank.
fn three<T: Transport, R: Send>(
    end: impl Fn(Fabric) -> T + Sync,
    body: impl Fn(u32, T, &mut Store) -> R + Sync,
) -> Vec<R> {
    let extent = Extent { ranks: 3, slots: 2, message: largest_message(&row([0; 3]), &FIELDS, 3) };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    thread::scope(|scope| {
        let rank = |rank| {
            let (segment, end, body) = (Arc::clone(&segment), &end, &body);
            scope.spawn(move || {
                let mut store = Store::new(3, row([0; 3]).shape().len(), &FIELDS, 1);
                body(rank, end(Fabric::attach(segment, extent, rank).unwrap()), &mut store)
            })
        };
        let threads = [0, 1, 2].map(rank);
        threads.map(|thread| thread.join().unwrap()).into()
    })
}

fn exchange<T: Transport>(mesh: &Grid, boundary: &mut Boundary<T>, rank: u32, store: &mut Store) {
    mesh.owned_by(rank).for_each(|block| store.allocate(block, 0).unwrap());
    boundary.exchange(&mut store.stage(0)).unwrap();
}

#[test]
fn ranks_may_choose_different_slots_to_begin_with() {
    // A message has 64 bytes of head and 16 of values, so the slots of one rank have no room for these.
    let mesh = row([0, 1, 2]);
    let refused = three(
        |end| end,
        |rank, end, store| {
            let settings = Settings { smallest_slot: [64, 4096, 72][rank as usize], ..SETTINGS };
            let mut boundary = Boundary::build(&mesh, &FIELDS, end, settings).unwrap();
            exchange(&mesh, &mut boundary, rank, store);
            exchange(&mesh, &mut boundary, rank, store);
            let counts = *boundary.counts();
            boundary.close().unwrap();
            counts.refused
        },
    );
    assert_eq!(refused, [0; 3]);
}

/// What comes of it that rank 0 has another mesh than the others: in theirs 0 has no block any more.
fn in_another_mesh<T: Transport>(end: impl Fn(Fabric) -> T + Sync) -> Vec<BoundaryError> {
    let (first, other) = (row([0, 1, 2]), row([2, 2, 1]));
    three(end, |rank, end, store| {
        let mut boundary = Boundary::build(&first, &FIELDS, end, SETTINGS).unwrap();
        exchange(&first, &mut boundary, rank, store);
        boundary.remesh(if rank == 0 { &first } else { &other }).unwrap_err()
    })
}

/// What the rank has of the first channel, that with `rank`, which has none.
fn alone(error: &BoundaryError, rank: u32) -> Option<Entry> {
    match error {
        BoundaryError::Differs(Differs { rank: other, at: 0, ours, theirs: None }) if *other == rank => *ours,
        error => panic!("{error}"),
    }
}

#[test]
fn a_peer_that_shares_no_channel_any_more_is_said_to_have_none() {
    let errors = in_another_mesh(|end| end);
    assert_eq!(alone(&errors[0], 1).unwrap().key.sender, 1);
    assert_eq!(errors[1..], [BoundaryError::RefusedElsewhere(0), BoundaryError::RefusedElsewhere(0)]);
}

#[test]
fn nobody_waits_for_a_plan_of_a_rank_that_shares_no_channel() {
    let post = Post::new(Mutex::new(vec![VecDeque::new(); 9]));
    let errors = in_another_mesh(|end| Posted(end, post.clone(), None, Cell::default()));
    assert_eq!(alone(&errors[0], 1).unwrap().key.sender, 1);
    assert!(matches!(errors[1], BoundaryError::Differs(Differs { rank: 0, ours: None, theirs: Some(_), .. })));
    assert_eq!(errors[2], BoundaryError::RefusedElsewhere(0));
    assert!(post.lock().unwrap().iter().all(VecDeque::is_empty), "what is left would be read in the next epoch");
}

#[test]
fn a_plan_that_does_not_come_leaves_none_behind() {
    let post = Post::new(Mutex::new(vec![VecDeque::new(); 9]));
    let settings = Settings { deadline: Some(Duration::from_secs(4)), ..SETTINGS };
    let errors = three(
        |end| Posted(end, post.clone(), Some([1, 0]), Cell::default()),
        |_, end, _| Boundary::build(&row([0, 1, 2]), &FIELDS, end, settings).map(|_| ()).unwrap_err(),
    );
    let refused = BoundaryError::RefusedElsewhere(0);
    assert_eq!(errors, [TransportError::Silent { rank: 1 }.into(), refused.clone(), refused]);
    assert!(post.lock().unwrap().iter().all(VecDeque::is_empty), "what is left would be read in the next epoch");
}

#[test]
fn peers_come_and_go() {
    let meshes = [[0, 1, 2], [0, 0, 1], [2, 0, 1], [1, 1, 1], [1, 2, 0]].map(row);
    let body = |rank: u32, mut boundary: Boundary<_>, store: &mut Store| {
        for mesh in meshes.iter().cycle().take(11) {
            boundary.remesh(mesh).unwrap();
            exchange(mesh, &mut boundary, rank, store);
        }
        boundary.close().unwrap();
    };
    let post = Post::new(Mutex::new(vec![VecDeque::new(); 9]));
    three(
        |end| Posted(end, post.clone(), None, Cell::default()),
        |rank, end, store| body(rank, Boundary::build(&meshes[0], &FIELDS, end, SETTINGS).unwrap(), store),
    );
}

/// Each of two ranks is built on an end, and then on another one.
fn builds_twice<T: Transport + Send>(end: impl Fn(u32) -> T + Sync) {
    let mesh = Grid::new(shape(1, 4, 2), [2, 1, 1], [false; 3], 2);
    let build = |rank| Boundary::build(&mesh, &FIELDS, end(rank), SETTINGS);
    thread::scope(|scope| {
        for rank in 0..2 {
            let (mesh, end, build) = (&mesh, &end, &build);
            scope.spawn(move || {
                let refused = Err(BoundaryError::from(TransportError::WasBuilt { rank, pid: std::process::id() }));
                let mut store = Store::new(2, mesh.shape().len(), &FIELDS, 1);
                let mut boundary = build(rank).unwrap();
                assert_eq!(build(rank).map(drop), refused);
                Boundary::refuse(end(rank), SETTINGS);
                exchange(mesh, &mut boundary, rank, &mut store);
                drop(boundary);
                assert_eq!(build(rank).map(drop), refused, "what the peers have seen stays");
            });
        }
    });
}

#[test]
fn a_rank_is_built_once_on_a_fabric_and_its_other_ends_change_nothing() {
    let extent = Extent { ranks: 2, slots: 2, message: 4096 };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    builds_twice(|rank| Fabric::attach(segment.clone(), extent, rank).unwrap());
    let segment = Arc::new(Agent::segment(extent).unwrap());
    builds_twice(|rank| Attended::attach(segment.clone(), extent, rank).unwrap());
}

#[test]
fn other_parcels_than_one_a_rank_are_refused_before_any_is_handed_over() {
    let body = |rank: u32, end, _: &mut Store| {
        let mut boundary = Boundary::build(&row([0, 1, 2]), &FIELDS, end, SETTINGS).unwrap();
        let whole = vec![vec![rank as u8; 5]; 3];
        for count in [0, 2, 4] {
            let mut parcels = whole.clone();
            if rank == 1 {
                parcels.resize(count, vec![7]);
            }
            match boundary.hand_over(&parcels, 256, 1 << 10) {
                Err(BoundaryError::Parcel { rank: 1, .. }) => assert_eq!(rank, 1),
                Err(BoundaryError::RefusedElsewhere(1)) => assert_ne!(rank, 1),
                other => panic!("rank {rank}, {count} parcels: {other:?}"),
            }
            assert!(!boundary.is_spent(), "nothing was begun");
        }
        let came = boundary.hand_over(&whole, 256, 1 << 10).unwrap();
        for (from, bytes) in (0..3).zip(&came) {
            assert_eq!(*bytes, if from == rank { vec![] } else { vec![from as u8; 5] });
        }
        boundary.close().unwrap();
    };
    three(|end| end, body);
}
