//! Exchanges of ranks on several nodes.
//!
//! Within a node is memory, and between nodes another transport: memory of all here. Over MPI the same runs under `mpirun`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbra::advect::{Options, Problem, RankOutcome, Refine, run, run_rank, summary};
use umbra::boundary::{
    Boundary, BoundaryError, Extent, Fabric, Field, Grid, Mesh as _, Nodes, NodesError, Settings, Store, Transport,
    TransportError, largest_message,
};
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::boundary::{Message, Vote};
use umbra_tests::boundary_job::{SETTINGS, shape};
use umbra_tests::forged::{self, Fault, refuse};
use umbra_tests::lost::{When, be, lose};
use umbra_tests::nodes::Memory;
use umbra_tests::random_exchanges::Exchanges;
use umbra_tests::rig::PATIENCE;

/// Runs each rank in a thread of its own.
fn all<R: Send>(ranks: u32, body: impl Fn(u32) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let body = &body;
        let ranks: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || body(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// The same while an agent looks out for the ranks of each node.
fn all_attended<R: Send>(memory: &Memory, ranks: u32, body: impl Fn(u32) -> R + Sync) -> Vec<R> {
    let ended = AtomicU32::new(0);
    let mut agents = memory.agents();
    // They have all ranks before any of them can look for itself.
    agents.iter_mut().for_each(|agent| assert!(!agent.look().unwrap()));
    thread::scope(|scope| {
        let agents = agents.into_iter().map(|mut agent| {
            scope.spawn({
                let ended = &ended;
                move || agent.attend(|| ended.load(Ordering::Relaxed) == 0).unwrap()
            })
        });
        let agents: Vec<_> = agents.collect();
        let done = panic::catch_unwind(AssertUnwindSafe(|| all(ranks, body)));
        // The agents end also if a rank has failed.
        ended.store(1, Ordering::Relaxed);
        agents.into_iter().for_each(|agent| agent.join().unwrap());
        done.unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

#[test]
fn s10_random_exchanges_within_nodes_and_between_arrive_as_they_were_sent() {
    for (ranks, nodes, count) in
        [(2, 1, 2_000), (2, 2, 2_000), (4, 2, 1_000), (5, 2, 1_000), (5, 3, 1_000), (8, 3, 300)]
    {
        let exchanges = Exchanges { ranks, seed: u64::from(ranks * nodes), count };
        let memory = Memory::dealt(exchanges.extent().unwrap(), nodes);
        let counts = all(ranks, |rank| exchanges.run(memory.end(rank)).unwrap());
        assert!(counts.iter().any(|counts| counts.overflows > 0), "bursts do not fit into the slots: {counts:?}");
    }
}

#[test]
fn s10_random_exchanges_arrive_also_while_blocks_move_from_node_to_node_and_agents_look_out_for_them() {
    let exchanges = Exchanges { ranks: 5, seed: 3, count: 600 };
    let extent = Extent { message: 1 << 20, ..exchanges.extent().unwrap() };
    // A rank alone, and nodes whose ranks are not next to each other.
    let memory = Memory::new(extent, &[vec![0, 3], vec![2], vec![1, 4]]);
    all(5, |rank| exchanges.run_dealt(memory.end(rank), 7, |_| ()).unwrap());
    let memory = Memory::new(extent, &[vec![0, 3], vec![2], vec![1, 4]]);
    let attended = all_attended(&memory, 5, |rank| {
        let mut attended = 0;
        exchanges.run_dealt(memory.attended(rank), 7, |boundary| attended = boundary.attended()).unwrap();
        attended
    });
    assert!([0, 1, 3, 4].iter().all(|&rank| attended[rank] > 0) && attended[2] == 0, "{attended:?}");
}

#[test]
fn s31_and_s45_forged_heads_are_refused_and_counted_within_a_node_and_between_two() {
    for (fault, nodes) in Fault::ALL.into_iter().flat_map(|fault| [(fault, 1), (fault, 2)]) {
        let memory = Memory::dealt(forged::extent().unwrap(), nodes);
        // Both are kept until both have ended.
        let _kept = all(2, |rank| refuse(memory.end(rank), fault, PATIENCE).unwrap());
    }
}

/// Runs all ranks of a run of the demonstrator on so many nodes.
fn advect(options: &Options, nodes: u32) -> Vec<RankOutcome> {
    let memory = Memory::dealt(options.extent().unwrap(), nodes);
    if options.agent {
        all_attended(&memory, options.ranks, |rank| run_rank(options, rank, memory.attended(rank), |_| ()).unwrap())
    } else {
        all(options.ranks, |rank| run_rank(options, rank, memory.end(rank), |_| ()).unwrap())
    }
}

fn all_agree(options: Options) {
    let expected = run(&Options { ranks: 1, dense: true, ..options }, |_| ()).unwrap();
    let mut runs = 0;
    for ranks in [1, 2, 3, 4, 8] {
        // The last has a node for each rank.
        for nodes in [1, 2, 3].into_iter().filter(|&nodes| nodes < ranks).chain([ranks]) {
            runs += 1;
            let (dense, split, reversed) = (runs % 3 == 0, runs % 2 == 0, runs % 4 == 1);
            for (agent, remesh) in [(false, None), (true, None), (runs % 2 == 0, Some(3))] {
                let options = Options { ranks, dense, split, reversed, agent, remesh, ..options };
                let name = format!("{nodes} nodes, {options:?}");
                let ranks = advect(&options, nodes);
                let attended: u64 = ranks.iter().map(|rank| rank.attended).sum();
                let outcome = summary(ranks);
                assert_eq!((outcome.hash, outcome.nonzero), (expected.hash, expected.nonzero), "{name}");
                assert_eq!(outcome.wrong, (options.problem == Problem::Shift).then_some(0), "{name}");
                let messages: u64 = outcome.ranks.iter().map(|rank| rank.counts[0]).sum();
                match (agent, nodes) {
                    (false, _) => assert_eq!(attended, 0, "{name}"),
                    (true, 1) => assert_eq!(attended, messages, "{name}"),
                    (true, nodes) if nodes == options.ranks => assert_eq!(attended, 0, "{name}: one rank a node"),
                    (true, _) => assert!(attended < messages, "{name}: messages between nodes have no agent"),
                }
            }
        }
    }
}

fn small(problem: Problem, dimensions: u32) -> Options {
    Options { blocks: 4, cells: 6, fields: 3, radius: 2, cycles: 12, ..Options::new(problem, dimensions) }
}

#[test]
fn s34_shifted_blobs_are_the_closed_form_however_ranks_are_dealt_to_nodes() {
    [2, 3].into_iter().for_each(|dimensions| all_agree(small(Problem::Shift, dimensions)));
}

#[test]
fn s35_smooth_blobs_have_the_bits_of_the_dense_run_however_ranks_are_dealt_to_nodes() {
    [2, 3].into_iter().for_each(|dimensions| all_agree(small(Problem::Smooth, dimensions)));
    all_agree(Options { refine: Some(Refine { from: 1, to: 3 }), ..small(Problem::Smooth, 2) });
}

/// A process of a ring, the first two of which are on a node; as a test of its own it does nothing.
#[test]
fn a_rank() {
    be::<Nodes<Fabric, Fabric>>();
}

#[test]
fn s41_a_killed_process_is_named_by_those_of_its_node_and_by_the_others() {
    for when in [When::Exchanging, When::EarlyInEpoch, When::InVote, When::Stopped] {
        lose::<Nodes<Fabric, Fabric>>("a_rank", when);
    }
}

/// A row of three blocks, all ranks' neighbours.
fn ring() -> (Grid, Extent) {
    let mesh = Grid::new(shape(2, 4, 2), [3, 1, 1], [true, false, false], 3);
    let message = largest_message(&mesh, &[Field::DENSE], 3);
    (mesh, Extent { ranks: 3, slots: 2, message })
}

#[test]
fn an_error_of_the_node_is_about_the_rank_that_all_know() {
    let (mesh, extent) = ring();
    let memory = Memory::new(extent, &[vec![0], vec![1, 2]]);
    let build = |end| Boundary::build(&mesh, &[Field::DENSE], end, SETTINGS);
    let kept = all(3, |rank| build(memory.end(rank)).unwrap());
    // The same memory of the node, and other memory between.
    let pid = std::process::id();
    let again = Arc::new(Fabric::segment(extent).unwrap());
    let errors = all(3, |rank| {
        let far = Fabric::attach(again.clone(), extent, rank).unwrap();
        let end = if rank == 0 {
            let alone = Extent { ranks: 1, ..extent };
            let near = Fabric::attach(Arc::new(Fabric::segment(alone).unwrap()), alone, 0).unwrap();
            Nodes::new(near, far, &[0])
        } else {
            let (segment, extent) = memory.of_node(1);
            Nodes::new(Fabric::attach(segment, extent, rank - 1).unwrap(), far, &[1, 2])
        };
        build(end.unwrap()).map(drop).unwrap_err()
    });
    let refused = |rank| BoundaryError::from(TransportError::WasBuilt { rank, pid });
    assert_eq!(errors, [BoundaryError::RefusedElsewhere(1), refused(1), refused(2)]);
    drop(kept);
}

#[test]
fn an_agent_of_a_node_that_does_nothing_is_named_with_the_rank_that_all_know() {
    let (mesh, extent) = ring();
    let memory = Memory::new(extent, &[vec![0], vec![1, 2]]);
    let mut agents = memory.agents();
    agents.iter_mut().for_each(|agent| assert!(!agent.look().unwrap()));
    let settings = Settings { deadline: Some(Duration::from_secs(1)), ..SETTINGS };
    let errors = all(3, |rank| {
        let mut boundary = Boundary::build(&mesh, &[Field::DENSE], memory.attended(rank), settings).unwrap();
        let mut store = Store::new(3, mesh.shape().len(), &[Field::DENSE], 1);
        store.allocate(rank, 0).unwrap();
        (boundary.exchange(&mut store.stage(0)).err(), boundary)
    });
    assert!(errors[0].0.is_none(), "no agent is between its messages and this rank: {:?}", errors[0].0);
    for rank in [1, 2] {
        let Some(BoundaryError::Late(late)) = &errors[rank as usize].0 else { panic!("{:?}", errors[rank as usize].0) };
        assert!(matches!(late.hindered, Some(TransportError::Agent { rank: named, .. }) if named == rank), "{late}");
        // The message from the other node was looked at meanwhile.
        assert!(late.missing.iter().all(|missing| missing.rank == 3 - rank), "{late}");
    }
}

/// An end within a node whose ranks have all ended.
struct Deserted(Fabric);

impl Transport for Deserted {
    umbra_tests::hands_on!(plans);

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        self.0.publish(message, epoch, head)
    }
    fn gone(&self, rank: u32) -> Option<TransportError> {
        Some(TransportError::Ended { rank, pid: 7 })
    }
}

#[test]
fn a_vote_that_was_told_within_the_node_alone_counts_when_its_rank_has_ended() {
    let (_, extent) = ring();
    let memory = Memory::new(extent, &[vec![0], vec![1, 2]]);
    let (segment, within) = memory.of_node(1);
    let near = |seat| Fabric::attach(segment.clone(), within, seat).unwrap();
    let far = Arc::new(Fabric::segment(extent).unwrap());
    let far = |rank| Fabric::attach(far.clone(), extent, rank).unwrap();
    let first = Nodes::new(Deserted(near(0)), far(1), &[1, 2]).unwrap();
    let vote = |sequence| Vote { epoch: 1, sequence, open: 0 };
    // It has ended between its two votes.
    near(1).vote(1, vote(5)).unwrap();
    assert_eq!(first.vote_of(2, 1).unwrap(), None, "its other vote may come");
    assert_eq!(first.gone(2), Some(TransportError::Ended { rank: 2, pid: 7 }));
    assert_eq!(first.vote_of(2, 1).unwrap(), Some(vote(5)));
    assert_eq!((first.vote_of(2, 2).unwrap(), first.vote_of(0, 1).unwrap(), first.gone(0)), (None, None, None));
    // What all are told counts before that, also if the memory of the node refuses it.
    let mut second = Nodes::new(near(1), far(2), &[1, 2]).unwrap();
    let refused = second.vote(1, vote(6));
    assert!(matches!(refused, Err(TransportError::WasBuilt { rank: 2, .. })), "{refused:?}");
    assert_eq!(first.vote_of(2, 1).unwrap(), Some(vote(6)));
}

#[test]
fn ends_that_are_not_those_of_one_rank_are_refused() {
    let end = |ranks, slots, rank| {
        let extent = Extent { ranks, slots, message: 4096 };
        Fabric::attach(Arc::new(Fabric::segment(extent).unwrap()), extent, rank).unwrap()
    };
    // Rank 3 of five, the second of three on its node.
    let of = |near: Fabric, ranks: &[u32]| match Nodes::new(near, end(5, 2, 3), ranks) {
        Ok(nodes) => Ok((nodes.rank(), nodes.ranks(), nodes.slots())),
        Err(TransportError::Nodes(error)) => Err(error),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(of(end(3, 2, 1), &[0, 3, 4]), Ok((3, 5, 2)));
    assert_eq!(of(end(3, 4, 1), &[0, 3, 4]), Err(NodesError::Slots { near: 4, far: 2 }));
    assert_eq!(of(end(3, 2, 1), &[3, 4]), Err(NodesError::Count { named: 2, ranks: 3 }));
    assert_eq!(of(end(3, 2, 1), &[]), Err(NodesError::Count { named: 0, ranks: 3 }));
    assert_eq!(of(end(3, 2, 1), &[0, 3, 3]), Err(NodesError::Order { rank: 3, before: 3 }));
    assert_eq!(of(end(3, 2, 1), &[4, 3, 0]), Err(NodesError::Order { rank: 3, before: 4 }));
    assert_eq!(of(end(3, 2, 1), &[0, 3, 5]), Err(NodesError::NoRank { rank: 5, ranks: 5 }));
    assert_eq!(of(end(3, 2, 0), &[0, 3, 4]), Err(NodesError::Seat { rank: 3, named: Some(1), seat: 0 }));
    assert_eq!(of(end(3, 2, 1), &[0, 2, 4]), Err(NodesError::Seat { rank: 3, named: None, seat: 1 }));
    let text = NodesError::Seat { rank: 3, named: None, seat: 1 }.to_string();
    assert!(text.starts_with("rank 3 is named at no place, and has seat 1 within the node"), "{text}");
}

#[test]
fn what_both_hold_is_counted_together() {
    let exchanges = Exchanges { ranks: 3, seed: 9, count: 50 };
    let memory = Memory::new(exchanges.extent().unwrap(), &[vec![0, 2], vec![1]]);
    let held = all(3, |rank| {
        let mut most = (0, 0, 0);
        let look = |boundary: &Boundary<Nodes<Fabric, Fabric>>| {
            let nodes = boundary.transport();
            let held = [nodes.near().held(), nodes.far().held(), boundary.held()];
            most = most.max(held.map(|held| held.unwrap().receive).into());
        };
        exchanges.run_dealt(memory.end(rank), u32::MAX, look).unwrap();
        most
    });
    for (rank, (near, far, both)) in held.into_iter().enumerate() {
        assert!(near + far == both && far > 0 && (near > 0) == (rank != 1), "rank {rank}: {near} {far} {both}");
    }
}
