//! Ranks that are stopped until their deadline is over, after a look in vain.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Boundary, Extent, Fabric, Field, Grid, Mesh as _, Scope, Settings, Store, Transport, TransportError,
    largest_message,
};
use umbra_core::boundary::{Message, Vote};
use umbra_tests::boundary_job::{SETTINGS, shape};

/// What a rank has looked for when it is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    Vote,
    Plan,
    Message,
}

/// The end of a rank that is stopped once: it goes on when its deadline is over and the answer there.
struct Stopped(Fabric, Cell<Option<For>>);

/// Of the rank that is stopped; the other one has more.
const DEADLINE: Duration = Duration::from_secs(2);

impl Stopped {
    /// Whether it has looked and found nothing, and was stopped until `is_there`.
    fn stops(&self, when: For, mut is_there: impl FnMut() -> bool) -> bool {
        if self.1.get() != Some(when) {
            return false;
        }
        while !is_there() {
            thread::yield_now();
        }
        thread::sleep(DEADLINE + Duration::from_millis(1));
        self.1.set(None);
        true
    }
}

impl Transport for Stopped {
    umbra_tests::hands_on!(but_votes);

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        self.0.publish(message, epoch, head)
    }
    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.0.write_plan(to, bytes)
    }
    fn keeps_plans(&self) -> bool {
        self.0.keeps_plans()
    }
    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        if self.stops(For::Plan, || true) { Ok(None) } else { self.0.read_plan(from) }
    }
    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        let is_there = || self.0.vote_of(rank, round).unwrap().is_some();
        if rank != self.0.rank() && self.stops(For::Vote, is_there) { Ok(None) } else { self.0.vote_of(rank, round) }
    }
    fn ready(&mut self, sequence: u32) -> Result<bool, TransportError> {
        if self.1.get() == Some(For::Message) {
            let (other, mut head) = (1 - self.0.rank(), [0; 64]);
            while !self.0.look(other, sequence % self.0.slots(), &mut head)? {
                thread::yield_now();
            }
        }
        Ok(!self.stops(For::Message, || true))
    }
}

/// An exchange of two ranks, of which the first is stopped.
fn exchange(when: For) {
    let mesh = Grid::new(shape(1, 4, 2), [2, 1, 1], [true; 3], 2);
    let fields = [Field::DENSE];
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&mesh, &fields, 2) };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let run = |rank: u32| {
        let fabric = Fabric::attach(Arc::clone(&segment), extent, rank).unwrap();
        let stopped = Stopped(fabric, Cell::new(if rank == 0 { Some(when) } else { None }));
        let settings = if rank == 0 { Settings { deadline: Some(DEADLINE), ..SETTINGS } } else { SETTINGS };
        let mut boundary = Boundary::build(&mesh, &fields, stopped, settings).unwrap();
        let mut store = Store::new(2, mesh.shape().len(), &fields, 1);
        store.allocate(rank, 0).unwrap();
        assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
        while boundary.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending() {
            thread::yield_now();
        }
        boundary.set(&mut store.stage(0), Scope::Any).unwrap();
        boundary.close().unwrap();
        assert_eq!(boundary.transport().1.get(), None, "{when:?}: it was stopped");
    };
    thread::scope(|scope| {
        let run = &run;
        [0, 1].map(|rank| scope.spawn(move || run(rank))).map(|rank| rank.join().unwrap())
    });
}

#[test]
fn who_has_voted_while_a_rank_was_stopped_is_not_missing() {
    exchange(For::Vote);
}

#[test]
fn who_has_shown_a_plan_while_a_rank_was_stopped_is_not_silent() {
    exchange(For::Plan);
}

#[test]
fn what_has_come_while_a_rank_was_stopped_is_not_late() {
    exchange(For::Message);
}
