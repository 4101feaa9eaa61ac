//! A crowd of members for scenarios that are to hold on several drivers.
//!
//! A scenario is one body, run over threads and over processes. Members do what the header of a call [says](script) and
//! count what they [see](trace). The test, which is member 0, asks them for that by chained calls as well, so it needs
//! no other way to them than the one under test.

pub mod member;
pub mod room;
pub mod script;
pub mod trace;
pub mod wire;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::call::{Failure, Reply, Shape, Station, WaitError};
use umbra_core::chain::{Call, Caps, Config, Data, Handle, Node, StartError};
use umbra_core::time::Lapse;

pub use member::{HOLD, LONG, Making, RARE, SUM, Scripted, sum_over};
pub use room::Room;
pub use script::{Act, Script};
pub use trace::{Trace, Traces, What};
pub use wire::Wire;

/// What members other than the test itself are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// Threads of this process.
    Threads,
    /// Processes that run this program, `call-member`.
    Processes(&'static str),
}

/// Runs bodies of scenarios as tests on every driver: `threads::NAME` and `processes::NAME`.
#[macro_export]
macro_rules! on_every_driver {
    ($($name:ident),+ $(,)?) => {
        mod threads {
            $(#[test]
            fn $name() {
                super::$name($crate::crowd::Driver::Threads);
            })+
        }
        mod processes {
            $(#[test]
            fn $name() {
                super::$name($crate::crowd::Driver::Processes(env!("CARGO_BIN_EXE_call-member")));
            })+
        }
    };
}

/// A member elsewhere.
#[derive(Debug)]
enum Other {
    Thread(Arc<AtomicBool>, Option<JoinHandle<()>>),
    Process(Child),
}

impl Other {
    fn start(driver: Driver, station: &Station, node: Node, room: Room) -> Other {
        match driver {
            Driver::Threads => {
                let over = Arc::new(AtomicBool::new(false));
                let (station, until) = (station.clone(), Arc::clone(&over));
                let thread = std::thread::spawn(move || {
                    let mut scripted = Scripted::join(&station, node, room);
                    scripted.serve(LONG * 4, || until.load(Ordering::Acquire));
                });
                Other::Thread(over, Some(thread))
            }
            Driver::Processes(program) => {
                let mut command = Command::new(program);
                command.arg(node.0.to_string()).arg("scripted").args(room.to_arguments());
                let descriptor = station.share().expect("a descriptor");
                Other::Process(command.stdin(Stdio::from(descriptor)).spawn().expect("a process"))
            }
        }
    }

    /// Ends it: a thread leaves its seat between two turns, a process is killed wherever it is.
    fn end(&mut self) {
        match self {
            Other::Thread(over, thread) => {
                over.store(true, Ordering::Release);
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            Other::Process(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// An inbox that takes nothing.
#[derive(Debug)]
#[must_use = "it stays damaged until it is repaired"]
pub struct Damaged {
    file: File,
    at: u64,
}

impl Damaged {
    /// Makes it as it was.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn repair(self) {
        self.file.write_all_at(b"umbrchn2", self.at).expect("bytes of ours");
    }
}

/// Members 0, which is the test, to `n - 1`.
#[derive(Debug)]
pub struct Crowd {
    driver: Driver,
    station: Station,
    /// The test's own member.
    pub first: Scripted,
    others: Vec<(Node, Room, Option<Other>)>,
}

impl Crowd {
    /// So many members with the usual room.
    ///
    /// # Panics
    /// If they do not come.
    #[must_use]
    pub fn new(driver: Driver, members: u16) -> Crowd {
        Crowd::with(driver, Shape { message_bytes: 16 << 10, messages: 64, ..Shape::new(members) }, |_| Room::USUAL)
    }

    /// Members with this much room each, in a meeting place of this shape.
    ///
    /// # Panics
    /// If they do not come.
    pub fn with(driver: Driver, shape: Shape, room: impl Fn(u32) -> Room) -> Crowd {
        Crowd::beside(driver, shape, 0, room)
    }

    /// The same, with so many seats at the end that nobody takes: for a [`Wire`].
    ///
    /// # Panics
    /// If they do not come.
    pub fn beside(driver: Driver, shape: Shape, empty: u16, room: impl Fn(u32) -> Room) -> Crowd {
        let station = Station::create("a crowd", shape).expect("a meeting place");
        let (mut others, mut next) = (Vec::new(), 1);
        while next < u32::from(shape.members - empty) {
            let (node, room) = (Node(next), room(next));
            others.push((node, room, Some(Other::start(driver, &station, node, room))));
            next += 1 + u32::from(room.houses);
        }
        let first = Scripted::join(&station, Node(0), room(0));
        let mut crowd = Crowd { driver, station, first, others };
        // Requests wait in inboxes until their owners have come.
        crowd.settle();
        crowd
    }

    /// Plays a member whose seat is empty.
    #[must_use]
    pub fn wire(&self, node: u32, settings: impl FnOnce(Config) -> Config) -> Wire {
        Wire::new(&self.station, Node(node), settings)
    }

    /// Everybody, the dead as well.
    #[must_use]
    pub fn all(&self) -> Vec<Node> {
        self.station.shape().nodes().collect()
    }

    /// Makes a call.
    ///
    /// # Errors
    /// How it failed.
    ///
    /// # Panics
    /// If it is refused or does not end, or the tallies of its failure do not add up.
    pub fn run(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        let handle = self.first.member.start(call).expect("a call that is not refused");
        self.end(handle, call.members)
    }

    /// Waits for a call over these members.
    ///
    /// # Errors
    /// How it failed.
    ///
    /// # Panics
    /// If it does not end, or the tallies of its failure do not add up.
    pub fn end(&mut self, handle: Handle, members: &[Node]) -> Result<Reply, Failure> {
        match self.first.member.wait(handle, LONG * 2) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => {
                let size = members.len() + usize::from(!members.contains(&Node(0)));
                assert_eq!(failure.tallies.total() as usize, size, "{failure}");
                assert!(!failure.records.is_empty(), "{failure}");
                Err(failure)
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// The sum over these members as a good call has it.
    ///
    /// # Panics
    /// If the call fails.
    pub fn sum(&mut self, members: &[Node]) -> u64 {
        let reply = self.run(&sum_over(members, &Script::new())).unwrap_or_else(|failure| panic!("{failure}"));
        u64::from_le_bytes(reply.data.try_into().expect("eight bytes"))
    }

    /// Has a member that is not the test make calls.
    ///
    /// # Panics
    /// If it cannot be told so.
    pub fn make(&mut self, node: u32, making: &Making) {
        let bytes = making.to_bytes();
        let members = [Node(node)];
        let budget = Lapse::from_secs(30);
        let call = Call { data: Data::Bytes(&bytes), at_root: false, budget, ..Call::new(member::MAKE, &members) };
        self.run(&call).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// What a member saw until now, and whether it begins anew; nothing if it is not there.
    pub fn trace(&mut self, node: Node, anew: bool) -> Option<Trace> {
        let header: &[u8] = if anew { &[1] } else { &[] };
        let (members, caps, budget) = ([node], Caps { header: 0, data: trace::BYTES }, Lapse::from_secs(30));
        let tag = member::TRACE;
        let call = Call { callback: tag, caps, budget, at_root: false, header, ..Call::new(tag, &members) };
        let handle = self.first.member.start(&call).ok()?;
        Trace::of(&self.first.member.wait(handle, LONG * 2).ok()?.data)
    }

    /// Waits until no call is under way anywhere; what everybody saw since the last time.
    ///
    /// # Panics
    /// If a place is not given back, somebody who lives does not answer, user code ran twice or nested, or a call that a
    /// member made ended with a wrong sum.
    pub fn settle(&mut self) -> Traces {
        let begun = Instant::now();
        let living: Vec<Node> = self.others.iter().filter(|(.., other)| other.is_some()).map(|other| other.0).collect();
        let mut before = None;
        // Whoever was asked first may have been called since by somebody who had peace when he was asked.
        loop {
            let traces: Vec<_> = living.iter().map(|&node| self.trace(node, false)).collect();
            let calm = traces.iter().all(|trace| trace.as_ref().is_some_and(|trace| trace.calls == 0));
            let counts = traces.iter().flatten().map(|trace| trace.counts.clone()).collect::<Vec<_>>();
            if calm && self.first.member.calls() == 0 && before.as_ref() == Some(&counts) {
                break;
            }
            assert!(begun.elapsed() < LONG * 2, "no peace: {traces:?}, {}", self.first.member.calls());
            before = Some(counts);
            // Now and then only, as in `until`.
            self.first.serve(begun.elapsed().clamp(Duration::from_millis(1), Duration::from_millis(50)), || false);
        }
        let mut all = Traces::default();
        for node in living {
            all.0.insert(node.0, self.trace(node, true).expect("a member that lives"));
        }
        all.0.insert(0, self.first.take());
        for what in [What::Twice, What::Nested, What::Wrong] {
            assert_eq!(all.count(what), 0, "{what:?}: {all:?}");
        }
        all
    }

    /// Waits until somebody saw this. Asks now and then only: what is on its way must not be overtaken by as many calls as a
    /// member remembers.
    ///
    /// # Panics
    /// If that does not come.
    pub fn until(&mut self, node: u32, what: What) {
        let begun = Instant::now();
        let has = |trace: &Trace| trace.counts.keys().any(|key| key.0 == what);
        while !self.trace(Node(node), false).is_some_and(|trace| has(&trace)) {
            assert!(begun.elapsed() < LONG, "{node} has not seen {what:?}");
            self.first.serve(begun.elapsed().clamp(Duration::from_millis(1), Duration::from_millis(200)), || false);
        }
    }

    fn other(&mut self, node: u32) -> &mut (Node, Room, Option<Other>) {
        self.others.iter_mut().find(|(at, ..)| at.0 == node).expect("a member that is not the test")
    }

    /// Ends a member: a thread leaves its seat between two turns, a process is killed wherever it is.
    pub fn kill(&mut self, node: u32) {
        if let Some(mut other) = self.other(node).2.take() {
            other.end();
        }
    }

    /// Has a process stand still, or go on; a thread cannot.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn signal(&mut self, node: u32, signal: Signal) {
        let Some(Other::Process(child)) = &self.other(node).2 else { panic!("{node} is no process") };
        kill_process(Pid::from_child(child), signal).expect("a child of ours");
    }

    /// Starts a dead member again, and waits until it answers; the others may not have looked since.
    ///
    /// # Panics
    /// If it does not come.
    pub fn again(&mut self, node: u32) {
        let (driver, station) = (self.driver, self.station.clone());
        let (at, room, other) = self.other(node);
        *other = Some(Other::start(driver, &station, *at, *room));
        let begun = Instant::now();
        while self.trace(Node(node), false).is_none() {
            assert!(begun.elapsed() < LONG, "{node} does not come");
            self.first.serve(Duration::from_millis(5), || false);
        }
    }

    /// Has nothing go into the inbox of a member from now on, as if another process had written over it.
    ///
    /// # Panics
    /// If there is no such inbox.
    pub fn damage_inbox(&mut self, node: u32) -> Damaged {
        // Inboxes lie one behind the other, and each begins with the same eight bytes.
        let file = File::from(self.station.share().expect("a descriptor"));
        let mut all = Vec::new();
        (&file).read_to_end(&mut all).expect("bytes of ours");
        let words = all.as_chunks::<8>().0.iter().enumerate();
        let (at, _) = words.filter(|&(_, word)| word == b"umbrchn2").nth(node as usize).expect("an inbox");
        file.write_all_at(&[0; 8], 8 * at as u64).expect("bytes of ours");
        Damaged { file, at: 8 * at as u64 }
    }

    /// The call is refused, nothing is sent, and the next one is taken.
    ///
    /// # Panics
    /// If not so.
    pub fn refused(&mut self, call: &Call<'_>) -> StartError {
        let before = self.first.member.figures().requests;
        let open = self.first.member.calls();
        let error = self.first.member.start(call).expect_err("a call that is refused");
        self.first.serve(Duration::from_millis(2), || false);
        assert_eq!(self.first.member.figures().requests, before, "nothing is sent after {error}");
        assert_eq!(self.first.member.calls(), open);
        let all = self.all();
        let (sum, expected) = (self.sum(&all), all.iter().map(|node| u64::from(node.0)).sum());
        assert_eq!(sum, expected, "after {error}");
        error
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Threads that the test has given up hear it all at once.
        for (.., other) in &mut self.others {
            if let Some(Other::Thread(over, _)) = other {
                over.store(true, Ordering::Release);
            }
        }
        for (.., other) in &mut self.others {
            if let Some(mut other) = other.take() {
                other.end();
            }
        }
    }
}
