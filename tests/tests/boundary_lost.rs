//! What ranks are told when a process of their exchange is killed.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::boundary::{
    Boundary, BoundaryError, Extent, Fabric, Field, Grid, Late, Mesh as _, Settings, Store, largest_message,
};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::Ordering;
use umbra_tests::boundary_job::{SETTINGS, shape, sparse};
use umbra_tests::machine::until;
use umbra_tests::rig::{Guarded, PATIENCE};

const RANK: &str = "UMBRA_TEST_RANK";
const DEADLINE: Duration = Duration::from_secs(2);
/// The one that is killed.
const LOST: u32 = 1;
const TOLD: &str = "told: ";

/// A ring, so that each rank is a neighbour of both others.
fn ring() -> (Grid, [Field; 2], Extent) {
    let mesh = Grid::new(shape(2, 4, 2), [3, 1, 1], [true, false, false], 3);
    // One that is nowhere, and one that is everywhere.
    let fields = [sparse(0.5, 0.5, 0.0), Field::DENSE];
    let extent = Extent { ranks: 3, slots: 2, message: largest_message(&mesh, &fields, 3) };
    (mesh, fields, extent)
}

/// What is missing, if it is what the lost rank should have sent.
fn missing(late: &Late, rank: u32) -> bool {
    late.missing.iter().zip(0..).all(|(missing, field)| {
        (missing.rank, missing.key.sender, missing.key.receiver, missing.key.field) == (LOST, LOST, rank, field)
    }) && late.missing.len() == 2
}

/// A process of the ring; as a test of its own it does nothing.
#[test]
fn a_rank() {
    let Some(rank) = std::env::var_os(RANK) else { return };
    let rank: u32 = rank.to_str().unwrap().parse().unwrap();
    let (mesh, fields, extent) = ring();
    let memory = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let segment = Arc::new(Segment::attach(memory, Mapping::ReadWrite, extent.bytes() + 8).unwrap());
    // Processes start as slowly as they like; the deadline is for those that run.
    let here = segment.word(extent.bytes()).unwrap();
    here.fetch_add(1, Ordering::Relaxed);
    until("all ranks are here", || here.load(Ordering::Relaxed) == 3);
    let fabric = Fabric::attach(segment.clone(), extent, rank).unwrap();
    let settings = Settings { deadline: Some(DEADLINE), ..SETTINGS };
    let mut boundary = Boundary::build(&mesh, &fields, fabric, settings).unwrap();
    let mut store = Store::new(3, mesh.shape().len(), &fields, 1);
    store.allocate(rank, 1).unwrap();
    for _ in 0..100 {
        boundary.exchange(&mut store.stage(0)).unwrap();
    }
    println!("{TOLD}exchanged");
    if rank == LOST {
        // It computes until it is killed.
        std::thread::sleep(PATIENCE);
        return;
    }
    for what in ["exchange", "remesh"] {
        let begun = Instant::now();
        let outcome = if what == "exchange" { boundary.exchange(&mut store.stage(0)) } else { boundary.remesh(&mesh) };
        let took = begun.elapsed().as_millis();
        let error = outcome.unwrap_err();
        let (BoundaryError::Late(late) | BoundaryError::StillOpen(late)) = &error else { panic!("{error:?}") };
        assert!(missing(late, rank), "{error}");
        println!("{TOLD}{what} {took} {error}");
    }
}

/// What the ranks told, of which one was killed.
fn told() -> Vec<Vec<String>> {
    let (_, _, extent) = ring();
    let segment = Segment::create("umbra-lost", extent.bytes() + 8).unwrap();
    let ranks = (0..3).map(|rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_rank", "--nocapture"]).env(RANK, rank.to_string());
        let command = command.stdin(Stdio::from(segment.share().unwrap())).stdout(Stdio::piped());
        Guarded::from(command.spawn().unwrap())
    });
    let mut ranks: Vec<_> = ranks.collect();
    let mut lost = ranks.remove(LOST as usize);
    let said = BufReader::new(lost.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains(TOLD)), "it came so far");
    lost.kill().unwrap();
    assert_eq!(lost.wait().unwrap().signal(), Some(9));
    let lines = |output: Output| {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        said.lines().filter_map(|line| Some(line.split_once(TOLD)?.1.to_owned())).collect()
    };
    ranks.into_iter().map(|rank| lines(rank.finish(Instant::now() + PATIENCE))).collect()
}

#[test]
fn s41_a_killed_process_is_named_by_all_others_within_a_second_after_the_deadline() {
    let in_time = |_| {
        let told = told();
        let mut in_time = true;
        for (rank, lines) in [0, 2].into_iter().zip(&told) {
            assert_eq!(lines.len(), 3, "{lines:?}");
            for (what, line) in ["exchange ", "remesh "].into_iter().zip(&lines[1..]) {
                let (took, error) = line.strip_prefix(what).unwrap().split_once(' ').unwrap();
                let named = format!("rank {LOST}: block {LOST} to block {rank}, field 0, element (");
                assert!(error.contains(&named), "{error}");
                in_time &= Duration::from_millis(took.parse().unwrap()) <= DEADLINE + Duration::from_secs(1);
            }
        }
        in_time
    };
    // What is asked of the exchange, not of a machine that does something else meanwhile.
    assert!((0..5).any(in_time), "five times some rank was told later");
}
