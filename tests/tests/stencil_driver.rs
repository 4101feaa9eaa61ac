//! The driver of stencils over slots in memory, with threads and with tasks.
//!
//! Runs also meet failures, deadlines, and ends from elsewhere.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use umbra::stencil::{
    ComputeError, Groups, Known, LoadError, Observe, Plain, Plan, Progress, Run, RunError, Source, Stop, Vectors,
};
use umbra_core::cache::policy::Lru;
use umbra_core::stencil::{ByNumber, Grid, Input, Shape, Stencil, SubmitError};
use umbra_tests::sweep::rows;

/// Says that a process is the other one of a test.
const LIMITED: &str = "UMBRA_TEST_LIMITED";
const SLOTS: u32 = 50;
const ACTIVE: u32 = 5;
const BYTES: usize = 8;

fn groups() -> Groups {
    rows(&Grid::new([1, 30, 40], 1, Shape::Box).unwrap())
}

fn cache(groups: &Groups) -> Stencil<Vectors, ByNumber, Known> {
    let plan = Plan { active: ACTIVE, window: 2 * ACTIVE as usize, horizon: groups.len() as u64 };
    plan.cache(SLOTS, groups.largest(), vec![Input::UNBOUNDED; groups.inputs()], Known::new(groups).unwrap()).unwrap()
}

fn run<'a, S: Source>(groups: &'a Groups, source: &'a S, memory: &'a mut [u8]) -> Run<'a, S> {
    let (active, deadline) = (ACTIVE as usize, Duration::from_secs(20));
    Run { groups, source, memory, slot_bytes: BYTES, active, loads: 3, deadline, stop: Stop::default() }
}

/// Each input is its own number.
fn number(data: u64, into: &mut [u8], _: Instant) -> Result<(), LoadError> {
    into.copy_from_slice(&data.to_le_bytes());
    Ok(())
}

fn memory() -> Vec<u8> {
    vec![0xff; SLOTS as usize * BYTES]
}

/// Whether the slots of a point hold what they should.
fn holds<G>(ready: &umbra::stencil::Ready<'_, G>) -> bool {
    let mut inputs = ready.members().iter().enumerate();
    inputs.all(|(at, data)| ready.input(at) == Some(&data.to_le_bytes()[..]))
}

/// Notes a point that has the right content.
fn note<G>(ready: &umbra::stencil::Ready<'_, G>, done: &Mutex<Vec<u64>>) -> Result<(), ComputeError> {
    assert!(holds(ready));
    done.lock().unwrap().push(ready.number());
    Ok(())
}

#[test]
fn threads_compute_each_point_once_from_the_right_content() {
    let groups = groups();
    let done = Mutex::new(Vec::new());
    let worker = || |ready: &umbra::stencil::Ready<'_, _>| note(ready, &done);
    let mut bytes = memory();
    let (progress, _) = run(&groups, &number, &mut bytes).each(&mut cache(&groups), 4, &mut (), worker).unwrap();
    let mut done = done.into_inner().unwrap();
    done.sort_unstable();
    assert!(done.into_iter().eq(0..groups.len() as u64));
    let statistics = progress.statistics;
    assert_eq!(statistics.hits + statistics.joins + statistics.loads, groups.references() as u64);
    assert_eq!((progress.done, progress.loading, progress.held), (groups.len() as u64, 0, 0));
}

/// What was seen first and last, and how many loads began before.
#[derive(Default)]
struct Ends {
    loads: u64,
    first: Option<(u64, Progress)>,
    last: Option<Progress>,
}
impl Observe for Ends {
    fn load(&mut self, _: u32, _: u64) {
        self.loads += 1;
    }

    fn progress(&mut self, progress: &Progress) {
        self.first.get_or_insert((self.loads, *progress));
        self.last = Some(*progress);
    }
}

#[test]
fn who_observes_sees_the_begin_and_the_end_of_the_shortest_run() {
    let groups = rows(&Grid::new([1, 1, 1], 0, Shape::Box).unwrap());
    let mut bytes = memory();
    let mut ends = Ends::default();
    let worker = || |_: &umbra::stencil::Ready<'_, _>| Ok(());
    run(&groups, &number, &mut bytes).each(&mut cache(&groups), 1, &mut ends, worker).unwrap();
    let ((before, first), last) = (ends.first.unwrap(), ends.last.unwrap());
    assert_eq!((before, first.done, first.loading, first.held, first.empty), (0, 0, 0, 0, SLOTS));
    assert_eq!((ends.loads, last.done, last.loading, last.held), (1, 1, 0, 0));
}

struct Unpark(Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_task_takes_the_points_as_a_stream() {
    let groups = groups();
    let mut bytes = memory();
    let consume = |points: umbra::stencil::Points<'_, u64>| {
        let mut task = pin!(async {
            let mut taken = 0;
            while let Ok(ready) = points.recv().await {
                assert!(holds(&ready));
                taken += 1;
            }
            taken
        });
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match task.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(taken) => return taken,
                Poll::Pending => thread::park(),
            }
        }
    };
    let mut lru = Plain::new(SLOTS, groups.inputs(), Lru::new(), ACTIVE as usize).unwrap();
    let (progress, taken) = run(&groups, &number, &mut bytes).with(&mut lru, &mut (), consume).unwrap();
    assert_eq!((taken, progress.done), (groups.len(), groups.len() as u64));
}

#[test]
fn a_load_that_fails_ends_the_run_with_its_reason() {
    let groups = groups();
    let mut bytes = memory();
    let source = |data: u64, into: &mut [u8], until: Instant| match data {
        700 => Err(LoadError::File { path: "field".into(), offset: 5600, error: io::ErrorKind::UnexpectedEof.into() }),
        _ => number(data, into, until),
    };
    let done = run(&groups, &source, &mut bytes).each(&mut cache(&groups), 2, &mut (), || |_: &_| Ok(()));
    let error = done.unwrap_err();
    assert!(matches!(error, RunError::Load { data: 700, error: LoadError::File { offset: 5600, .. } }), "{error}");
    assert!(error.to_string().contains("field at byte 5600"), "{error}");
}

#[test]
fn a_point_that_fails_ends_the_run_with_its_reason() {
    let groups = groups();
    let mut bytes = memory();
    let worker = || |ready: &umbra::stencil::Ready<'_, _>| if ready.number() == 99 { Err("no".into()) } else { Ok(()) };
    let error = run(&groups, &number, &mut bytes).each(&mut cache(&groups), 2, &mut (), worker).unwrap_err();
    assert!(matches!(error, RunError::Compute { number: 99, .. }), "{error}");
}

#[test]
fn a_load_that_takes_too_long_is_named() {
    let groups = groups();
    let mut bytes = memory();
    let source = |data: u64, into: &mut [u8], until: Instant| {
        if data == 41 {
            thread::sleep(Duration::from_secs(4));
        }
        number(data, into, until)
    };
    let late = Run { deadline: Duration::from_secs(2), ..run(&groups, &source, &mut bytes) };
    let error = late.each(&mut cache(&groups), 2, &mut (), || |_: &_| Ok(())).unwrap_err();
    assert!(matches!(error, RunError::Late { loading: 1, input: Some(41), .. }), "{error}");
}

#[test]
fn a_run_is_stopped_or_abandoned() {
    let groups = groups();
    let mut bytes = memory();
    let stopped = run(&groups, &number, &mut bytes);
    let stop = stopped.stop.clone();
    let worker = || {
        |ready: &umbra::stencil::Ready<'_, _>| {
            if ready.number() == 200 {
                stop.set();
            }
            Ok(())
        }
    };
    let error = stopped.each(&mut cache(&groups), 2, &mut (), worker).unwrap_err();
    assert!(matches!(error, RunError::Stopped { .. }), "{error}");
    let error = run(&groups, &number, &mut bytes).with(&mut cache(&groups), &mut (), drop).unwrap_err();
    assert!(matches!(error, RunError::Abandoned { done: 0, .. }), "{error}");
}

/// Takes long over each point that is ready, and counts them and what else it is told.
#[derive(Default)]
struct Slow {
    ready: u32,
    reports: u32,
    /// When it stops the run, after so many points.
    stop: Option<(u32, Stop)>,
}
impl Observe for Slow {
    fn ready(&mut self, _: u64, _: &[u32]) {
        self.ready += 1;
        thread::sleep(Duration::from_millis(2));
        if let Some((at, stop)) = &self.stop
            && self.ready == *at
        {
            stop.set();
        }
    }

    fn progress(&mut self, _: &Progress) {
        self.reports += 1;
    }
}

#[test]
fn news_that_come_faster_than_they_are_heard_hide_neither_an_end_nor_the_progress() {
    let groups: Groups = (0..1000).map(|_| [0]).collect();
    let mut bytes = memory();
    let nothing = || |_: &umbra::stencil::Ready<'_, _>| Ok(());
    let plain = || Plain::new(SLOTS, groups.inputs(), Lru::new(), 4).unwrap();
    let stopped = Run { active: 4, ..run(&groups, &number, &mut bytes) };
    let mut slow = Slow { stop: Some((10, stopped.stop.clone())), ..Slow::default() };
    let error = stopped.each(&mut plain(), 4, &mut slow, nothing).unwrap_err();
    assert!(matches!(error, RunError::Stopped { done: ..100, .. }), "{error}");
    let whole = Run { active: 4, ..run(&groups, &number, &mut bytes) };
    let mut slow = Slow::default();
    whole.each(&mut plain(), 4, &mut slow, nothing).unwrap();
    assert!(slow.ready == 1000 && slow.reports >= 20, "{} reports", slow.reports);
}

/// Looks at the news of the last points late, and says so.
struct Late(Sender<()>);
impl Observe for Late {
    fn progress(&mut self, progress: &Progress) {
        if (progress.groups - u64::from(ACTIVE)..progress.groups).contains(&progress.done) {
            // Nobody listens in the end.
            let _ = self.0.send(());
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn points_that_nobody_will_take_are_no_defect_of_the_cache() {
    let groups = groups();
    let closed = std::sync::Barrier::new(2);
    let first = std::sync::Once::new();
    let source = |data: u64, into: &mut [u8], deadline: Instant| {
        first.call_once(|| {
            closed.wait();
        });
        number(data, into, deadline)
    };
    let mut bytes = memory();
    let error = run(&groups, &source, &mut bytes).with(&mut cache(&groups), &mut (), |points| {
        points.close();
        closed.wait();
        // He stays until the run has found out.
        thread::sleep(Duration::from_millis(300));
    });
    let error = error.map(drop).unwrap_err();
    assert!(matches!(error, RunError::Abandoned { done: 0, .. }), "{error}");
}

/// What another process does, with little address space; as a test of its own it does nothing.
#[test]
fn another_process() {
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let groups = groups();
    let mut bytes = memory();
    let worker = || |_: &umbra::stencil::Ready<'_, _>| Ok(());
    let error = run(&groups, &number, &mut bytes).each(&mut cache(&groups), 1000, &mut (), worker).unwrap_err();
    assert!(matches!(error, RunError::Thread(_)), "{error}");
}

#[test]
fn threads_that_cannot_be_started_are_what_ended_the_run() {
    let limited = "ulimit -v 4000000 && exec \"$0\" --exact another_process --nocapture --test-threads=1";
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(limited).arg(std::env::current_exe().unwrap());
    let output = command.env(LIMITED, "").env("RUST_MIN_STACK", (64 << 20).to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn who_took_the_last_point_may_leave() {
    let groups = groups();
    let mut bytes = memory();
    let count = groups.len();
    let (late, told) = channel();
    let consume = move |points: umbra::stencil::Points<'_, _>| {
        (1..count).for_each(|_| drop(points.recv_blocking().unwrap()));
        let last = points.recv_blocking().unwrap();
        // What was said before is past.
        told.try_iter().for_each(drop);
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(last);
    };
    let (progress, ()) = run(&groups, &number, &mut bytes).with(&mut cache(&groups), &mut Late(late), consume).unwrap();
    assert_eq!(progress.done, count as u64);
}

#[test]
fn a_cache_without_foresight_knows_its_inputs_and_serves_run_after_run() {
    let nothing = || |_: &umbra::stencil::Ready<'_, _>| Ok(());
    let (mut bytes, deadline) = (memory(), Duration::from_secs(2));
    let mut plain = Plain::new(SLOTS, 3, Lru::new(), ACTIVE as usize).unwrap();
    let unknown: Groups = [[5]].into_iter().collect();
    let error = Run { deadline, ..run(&unknown, &number, &mut bytes) }.each(&mut plain, 2, &mut (), nothing);
    let error = error.unwrap_err();
    let submit = SubmitError::UnknownData { data: 5 };
    assert!(matches!(&error, RunError::Submit { number: 0, error } if *error == submit), "{error}");
    let groups: Groups = (0..100).map(|at| [at % 3, (at + 1) % 3]).collect();
    for _ in 0..3 {
        let done = Mutex::new(Vec::new());
        let worker = || |ready: &umbra::stencil::Ready<'_, _>| note(ready, &done);
        Run { deadline, ..run(&groups, &number, &mut bytes) }.each(&mut plain, 2, &mut (), worker).unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert!(done.into_iter().eq(0..100), "points keep the numbers of their run");
    }
}

#[test]
fn a_run_may_have_all_the_time_there_is() {
    let groups = groups();
    let mut bytes = memory();
    let nothing = || |_: &umbra::stencil::Ready<'_, _>| Ok(());
    let patient = Run { deadline: Duration::MAX, ..run(&groups, &number, &mut bytes) };
    let (progress, _) = patient.each(&mut cache(&groups), 2, &mut (), nothing).unwrap();
    assert_eq!(progress.done, groups.len() as u64);
}

#[test]
fn what_cannot_begin_is_refused() {
    let groups = groups();
    let mut bytes = memory();
    let nothing = || |_: &umbra::stencil::Ready<'_, _>| Ok(());
    let error = run(&groups, &number, &mut bytes).each(&mut cache(&groups), 0, &mut (), nothing).unwrap_err();
    assert!(matches!(error, RunError::Zero(_)), "{error}");
    let none = Run { loads: 0, ..run(&groups, &number, &mut bytes) };
    assert!(matches!(none.each(&mut cache(&groups), 1, &mut (), nothing).unwrap_err(), RunError::Zero(_)));
    let short = run(&groups, &number, &mut bytes[..9 * BYTES]);
    let error = short.each(&mut cache(&groups), 1, &mut (), nothing).unwrap_err();
    assert!(matches!(error, RunError::Memory { have: 9, .. }), "{error}");
}
