//! What ranks are told when one is lost, or a message cannot be handed over.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Attended, Boundary, BoundaryError, Extent, Fabric, Field, Grid, Late, Mesh as _, Scope, Store, Transport,
    TransportError, largest_message,
};
use umbra::verbs::WorkStatus;
use umbra_core::boundary::Message;
use umbra_tests::boundary_job::{SETTINGS, shape};
use umbra_tests::lost::{When, be, lose};

/// A process of a ring over memory that all ranks share; as a test of its own it does nothing.
#[test]
fn a_rank() {
    be::<Fabric>();
}

/// The same where an agent looks out for the ranks.
#[test]
fn an_attended_rank() {
    be::<Attended>();
}

#[test]
fn s41_a_killed_process_is_named_by_all_others_before_the_deadline() {
    lose::<Fabric>("a_rank", When::Exchanging);
}

#[test]
fn s41_a_process_killed_at_the_beginning_of_an_epoch_is_named_although_its_last_message_had_the_same_number() {
    lose::<Fabric>("a_rank", When::EarlyInEpoch);
    lose::<Attended>("an_attended_rank", When::EarlyInEpoch);
}

#[test]
fn s41_a_killed_process_whose_vote_is_waited_for_is_named_before_the_deadline() {
    lose::<Fabric>("a_rank", When::InVote);
    lose::<Attended>("an_attended_rank", When::InVote);
}

#[test]
fn s41_a_killed_process_is_named_before_the_deadline_also_where_an_agent_looks_out_for_all() {
    lose::<Attended>("an_attended_rank", When::Exchanging);
}

#[test]
fn s41_when_the_agent_is_killed_the_ranks_go_on_and_name_a_rank_that_is_killed_after_it() {
    lose::<Attended>("an_attended_rank", When::AgentToo);
}

#[test]
fn s41_a_stopped_process_is_named_at_the_deadline_alone_and_where_an_agent_looks_out_for_all() {
    lose::<Fabric>("a_rank", When::Stopped);
    lose::<Attended>("an_attended_rank", When::Stopped);
}

/// An end whose way from a rank breaks after so many messages to it.
struct Breaking(Fabric, u32, u32);

/// The rank whose way breaks.
const CUT: u32 = 1;

impl Transport for Breaking {
    umbra_tests::hands_on!(plans);

    fn may_write(&mut self, to: u32, _: u32) -> Result<bool, TransportError> {
        let broken = to == CUT && self.1 == self.2;
        if broken { Err(TransportError::Broken { rank: to, status: WorkStatus::RetryExceeded }) } else { Ok(true) }
    }
    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        self.1 += u32::from(message.rank == CUT);
        self.0.publish(message, epoch, head)
    }
}

#[test]
fn a_broken_way_is_told_at_once_with_the_channels_that_are_missing_from_its_rank() {
    let mesh = Grid::new(shape(2, 4, 2), [3, 1, 1], [true, false, false], 3);
    let fields = [Field::DENSE, Field::DENSE];
    let extent = Extent { ranks: 3, slots: 2, message: largest_message(&mesh, &fields, 3) };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let broken = |rank| {
        let end = Breaking(Fabric::attach(segment.clone(), extent, rank).unwrap(), 0, 2);
        let mut boundary = Boundary::build(&mesh, &fields, end, SETTINGS).unwrap();
        let mut store = Store::new(3, mesh.shape().len(), &fields, 1);
        (0..2).for_each(|field| store.allocate(rank, field).unwrap());
        (0..2).for_each(|_| boundary.exchange(&mut store.stage(0)).unwrap());
        (rank != CUT).then(|| boundary.exchange(&mut store.stage(0)).unwrap_err())
    };
    let errors = thread::scope(|scope| {
        let broken = &broken;
        [0, 1, 2].map(|rank| scope.spawn(move || broken(rank))).map(|rank| rank.join().unwrap())
    });
    for (rank, error) in errors.iter().enumerate().filter(|(rank, _)| *rank as u32 != CUT) {
        let Some(error @ BoundaryError::Lost(Late { missing, count: 2, hindered })) = error else {
            panic!("{error:?}")
        };
        assert!(matches!(hindered, Some(TransportError::Broken { rank: CUT, .. })), "{error}");
        let keys = missing.iter().map(|missing| (missing.rank, missing.key.sender, missing.key.receiver as usize));
        assert!(keys.eq([(CUT, CUT, rank); 2]), "{error}");
        let text = error.to_string();
        let first = format!("2 of its channels are missing, the first is rank 1: block 1 to block {rank}, field 0, ");
        assert!(text.starts_with("the way to rank 1 is broken") && text.contains(&first), "{text}");
    }
}

/// An end that does not take the message of this exchange.
struct Refusing(Fabric, u32);

/// What it says.
const REFUSED: TransportError = TransportError::NotRegistered { rank: 1, bytes: 4096, code: 12 };

impl Transport for Refusing {
    umbra_tests::hands_on!(plans);

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        if message.sequence == self.1 { Err(REFUSED) } else { self.0.publish(message, epoch, head) }
    }
}

#[test]
fn an_end_whose_transport_does_not_take_a_message_is_spent() {
    let mesh = Grid::new(shape(2, 4, 2), [2, 1, 1], [true, false, false], 2);
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&mesh, &[Field::DENSE], 2) };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let run = |rank: u32| {
        let end = Refusing(Fabric::attach(segment.clone(), extent, rank).unwrap(), if rank == 0 { 2 } else { 0 });
        let mut boundary = Boundary::build(&mesh, &[Field::DENSE], end, SETTINGS).unwrap();
        let mut store = Store::new(2, mesh.shape().len(), &[Field::DENSE], 1);
        store.allocate(rank, 0).unwrap();
        boundary.exchange(&mut store.stage(0)).unwrap();
        assert!(!boundary.is_spent());
        boundary.set_deadline(Some(Duration::from_secs(1)));
        let error = boundary.exchange(&mut store.stage(0)).unwrap_err();
        if rank == 1 {
            assert!(matches!(&error, BoundaryError::Late(late) if late.missing[0].rank == 0), "{error}");
            return;
        }
        assert_eq!(error, BoundaryError::Transport(REFUSED));
        assert!(boundary.is_spent());
        // At once, and not that it was sent, or that the other rank does not vote.
        assert_eq!(boundary.send(&store.stage(0), Scope::Any), Err(BoundaryError::Spent));
        assert_eq!(boundary.exchange(&mut store.stage(0)), Err(BoundaryError::Spent));
        assert_eq!(boundary.remesh(&mesh), Err(BoundaryError::Spent));
    };
    thread::scope(|scope| {
        let run = &run;
        [0, 1].map(|rank| scope.spawn(move || run(rank))).map(|rank| rank.join().unwrap())
    });
}
