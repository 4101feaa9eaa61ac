//! The main loop of a stencil application, on several threads.
//!
//! Some threads load, some compute, and one owns the cache.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use umbra::stencil::{Groups, Plan, Stop, optimum};
use umbra_core::id::Id;
use umbra_core::stencil::{Action, Grid, Group, Shape, SubmitError, Unknown};
use umbra_tests::sweep::{cache, rows, usage};

enum Done {
    Loaded(u64),
    Computed(u64, Id<Group>),
}

struct Load {
    slot: u32,
    data: u64,
}

struct Compute {
    point: u64,
    group: Id<Group>,
    slots: Vec<u32>,
}

/// Starts threads that take work from a common queue until it is closed.
fn workers<T: Send + 'static>(
    count: usize,
    done: &Sender<Done>,
    work: impl Fn(T) -> Done + Clone + Send + 'static,
) -> (Sender<T>, Vec<thread::JoinHandle<()>>) {
    let (sender, receiver) = channel::<T>();
    let receiver: Arc<Mutex<Receiver<T>>> = Arc::new(Mutex::new(receiver));
    let start = |_| {
        let (receiver, done, work) = (receiver.clone(), done.clone(), work.clone());
        thread::spawn(move || {
            loop {
                let next = receiver.lock().unwrap().recv();
                let Ok(item) = next else { break };
                if done.send(work(item)).is_err() {
                    break;
                }
            }
        })
    };
    (sender, (0..count).map(start).collect())
}

/// When groups are given back.
#[derive(Clone, Copy, PartialEq)]
enum Back {
    /// In order: one that takes long delays the later ones.
    InOrder,
    /// As they are computed: one that takes long keeps its slots while many others pass, and how many loads that costs is up
    /// to chance.
    AsComputed,
}

/// Runs all groups; the loads that it took, and the points in the order in which they were ready.
fn run(groups: &Arc<Groups>, slots: u32, plan: Plan, back: Back) -> (u64, Vec<u64>) {
    let largest = groups.iter().map(<[u64]>::len).max().unwrap();
    let mut stencil = cache(slots, largest, usage(groups), Unknown, plan);
    let memory: Arc<Vec<AtomicU64>> = Arc::new((0..slots).map(|_| AtomicU64::new(u64::MAX)).collect());
    let (done, finished) = channel();
    let content = memory.clone();
    let (to_load, loaders) = workers(3, &done, move |load: Load| {
        // Relaxed: that the content is seen where it is used is the cache's promise, by the way the news take.
        content[load.slot as usize].store(load.data, Ordering::Relaxed);
        Done::Loaded(load.data)
    });
    let (content, wanted) = (memory.clone(), groups.clone());
    let (to_compute, computers) = workers(6, &done, move |compute: Compute| {
        let found = compute.slots.iter().map(|&slot| content[slot as usize].load(Ordering::Relaxed));
        assert!(found.eq(wanted.get(compute.point as usize).iter().copied()), "point {}", compute.point);
        Done::Computed(compute.point, compute.group)
    });
    drop(done);

    let count = groups.len();
    let (mut next, mut left) = (0, count);
    let mut computed = BTreeMap::new();
    let mut ready = Vec::new();
    while left > 0 {
        while next < count {
            match stencil.submit(next as u64, groups.get(next)) {
                Ok(_) => next += 1,
                Err(SubmitError::GroupsFull { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        while let Some(action) = stencil.poll() {
            match action {
                Action::Prepare { slot, data } => to_load.send(Load { slot, data }).unwrap(),
                Action::Ready { point, group } => {
                    ready.push(point);
                    let slots = stencil.slots(group).unwrap().collect();
                    to_compute.send(Compute { point, group, slots }).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        match finished.recv().unwrap() {
            Done::Loaded(data) => stencil.prepared(data).unwrap(),
            Done::Computed(_, group) if back == Back::AsComputed => {
                stencil.free_group(group).unwrap();
                left -= 1;
            }
            Done::Computed(point, group) => {
                computed.insert(point, group);
                while let Some(group) = computed.remove(&((count - left) as u64)) {
                    stencil.free_group(group).unwrap();
                    left -= 1;
                }
            }
        }
    }
    drop((to_load, to_compute));
    loaders.into_iter().chain(computers).for_each(|worker| worker.join().unwrap());
    assert_eq!(stencil.is_empty(), Ok(true), "after its last use each input has left");
    (stencil.statistics().loads, ready)
}

#[test]
fn s54_the_main_loop_computes_each_point_once_from_the_right_content() {
    let grid = Grid::new([1, 200, 200], 3, Shape::Box).unwrap();
    let groups = Arc::new(rows(&grid));
    let window = 7 * 200;
    let (loads, ready) = run(&groups, 1000, Plan { active: 1, window, horizon: window as u64 }, Back::InOrder);
    assert!(ready.iter().copied().eq(0..40_000));
    assert_eq!(Some(loads), optimum::loads(&groups, 1000), "one group at a time takes what it takes alone");

    let active = 12;
    let plan = Plan { active, window, horizon: window as u64 };
    let [loads, as_computed] = [Back::InOrder, Back::AsComputed].map(|back| {
        let (loads, mut ready) = run(&groups, 1000, plan, back);
        ready.sort_unstable();
        assert!(ready.into_iter().eq(0..40_000));
        loads
    });
    // The inputs of all groups under way are needed at the same time.
    let together = |first: usize| {
        let end = groups.len().min(first + active as usize);
        (first..end).flat_map(|at| groups.get(at).iter().copied()).collect::<BTreeSet<u64>>()
    };
    let fewest = optimum::loads(&(0..groups.len()).map(together).collect(), 1000).unwrap();
    assert_eq!(optimum::loads_together(&groups, 1000, active as usize, &Stop::default()), Some(fewest));
    assert!(loads as f64 <= fewest as f64 * 1.01, "{loads} {fewest}");
    println!("as they are computed: {as_computed} loads, {:.3} of the fewest", as_computed as f64 / fewest as f64);
    assert!(as_computed as f64 <= fewest as f64 * 1.1, "{as_computed} {fewest}");
}

#[test]
fn s55_with_a_slot_more_for_each_group_under_way_each_input_is_loaded_once() {
    let extents = [50, 100, 150, 200];
    let planes = extents.map(|rows| extents.map(|columns| (rows, columns)));
    for (nth, (rows_, columns)) in planes.into_iter().flatten().enumerate() {
        for radius in [2, 3] {
            let grid = Grid::new([1, rows_, columns], radius, Shape::Box).unwrap();
            let groups = Arc::new(rows(&grid));
            let enough = 2 * radius * columns + 2 * radius + 1;
            // Threads take long: each plane with one number of groups under way, and the smallest with all.
            let actives = [1, 4, 9];
            let actives = if nth == 0 { &actives[..] } else { &actives[nth % 3..][..1] };
            for &active in actives {
                let plan = Plan { active, window: 2 * active as usize, horizon: 1000 };
                let loads = |slots| run(&groups, slots, plan, Back::InOrder).0;
                let (all, enough) = (u64::from(grid.len()), enough + active - 1);
                assert_eq!(loads(enough), all, "{grid:?} {active}");
                if nth == 0 {
                    // More change nothing, and each that is missing costs about a load a row.
                    assert_eq!([enough + 17, 2 * enough].map(loads), [all; 2], "{grid:?} {active}");
                    let [few, fewer] = [enough - 10, enough - 30].map(loads);
                    assert!(all < few && few < fewer, "{grid:?} {active}: {few} {fewer}");
                }
            }
        }
    }
}
