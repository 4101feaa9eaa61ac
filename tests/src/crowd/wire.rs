//! A member of a crowd that the test plays itself.
//!
//! That way the test has every message in its hands before it is sent or taken. The member's machine is a real one. Its
//! seat is empty: the others find what it says in their inboxes, and put what they say into its own.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use umbra::call::{Capacities, Heap, Station};
use umbra::sys::clock::now;
use umbra::sys::futex::Futex;
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::chain::{Action, Call, Config, Handle, Life, Machine, Node, Outcome, Phase, Verdict, Work};
use umbra_core::channel::{Header, Messages};

use super::member::{LONG, SUM};

/// What inboxes begin with.
const INBOX: &[u8; 8] = b"umbrchn2";
/// The word of a meeting place that says in which life whoever is the first to sit anywhere is.
const FIRST_LIFE: usize = 7;
/// By which number the inboxes know the test: nobody else's.
const BY: u16 = 0xfffe;

/// A message, and who sent it or is to have it.
pub type Message = (Node, Vec<u8>);

/// How a call of the test's own ended: the sum, or who failed first.
pub type End = Result<u64, umbra_core::chain::Record>;

/// A member that the test plays.
#[derive(Debug)]
pub struct Wire {
    segment: Segment,
    /// Where in the segment the inboxes begin.
    inboxes: Vec<usize>,
    first_life: Life,
    node: Node,
    buffer: Vec<u8>,
    /// Its machine.
    pub machine: Machine<Heap>,
    /// What it has said and nobody has been given.
    pub said: Vec<Message>,
}

/// The same sum that the others compute.
fn sum(work: &mut Work<'_>) -> Verdict {
    let number = match work.phase {
        Phase::Wait(answer) => match (work.reply.data().try_into(), answer.data.try_into()) {
            (Ok(ours), Ok(theirs)) => u64::from_le_bytes(ours).wrapping_add(u64::from_le_bytes(theirs)),
            _ => return Verdict::Fault(1),
        },
        _ => u64::from(work.node.0),
    };
    if work.reply.set_data(&number.to_le_bytes()).is_ok() { Verdict::Done } else { Verdict::Fault(2) }
}

impl Wire {
    /// Plays `node`, whose seat nobody has had.
    ///
    /// # Panics
    /// If the meeting place is none.
    #[must_use]
    pub fn new(station: &Station, node: Node, settings: impl FnOnce(Config) -> Config) -> Wire {
        let descriptor = station.share().expect("a descriptor");
        let mut bytes = Vec::new();
        File::from(station.share().expect("a descriptor")).read_to_end(&mut bytes).expect("bytes of ours");
        let segment = Segment::attach(descriptor, Mapping::ReadWrite, bytes.len()).expect("the meeting place");
        let words = bytes.as_chunks::<8>().0;
        let inboxes = (0..words.len()).filter(|&at| words[at] == *INBOX).map(|at| 8 * at).collect();
        let first_life = Life(u64::from_le_bytes(words[FIRST_LIFE]) as u32);
        let config = Config { classes: 0, ..Config::new(node, first_life) };
        let mut machine = Capacities::new(station.shape().all).machine(settings(config)).expect("there is memory");
        machine.register(SUM).expect("the first function");
        let buffer = vec![0; station.shape().message_bytes as usize];
        Wire { segment, inboxes, first_life, node, buffer, machine, said: Vec::new() }
    }

    fn inbox(&self, node: Node) -> Messages<'_> {
        let at = self.inboxes[node.index()];
        let all = self.segment.bytes_mut().expect("mapped for writing");
        Messages::attach(all.part(at, self.segment.len() - at).expect("within")).expect("an inbox")
    }

    /// Gives a message to a member as one of `from`, which is in its first life.
    ///
    /// # Panics
    /// If there is no room for long.
    pub fn give_as(&self, from: Node, (to, bytes): &Message) {
        let sender = u64::from(self.first_life.0) << 32 | u64::from(from.0);
        let header = Header { hints: u64::from(to.0) << 32, sender, ..Header::default() };
        let (inbox, begun) = (self.inbox(*to), Instant::now());
        while inbox.send(BY, header, bytes).is_err() {
            assert!(begun.elapsed() < LONG, "member {to} takes nothing");
            std::thread::yield_now();
        }
        // Whoever sleeps looks a little later.
        let _ = inbox.queue().published().notify(&Futex);
    }

    /// Gives a message to a member.
    pub fn give(&self, message: &Message) {
        self.give_as(self.node, message);
    }

    /// Takes what came for a member that has no process: who sent it, and what.
    ///
    /// # Panics
    /// If the inbox is damaged.
    pub fn came_for(&self, node: Node) -> Option<Message> {
        let mut pad = vec![0; self.buffer.len()];
        let received = self.inbox(node).receive(BY, &mut pad).ok()?;
        pad.truncate(received.len);
        Some((Node(received.header.sender as u32), pad))
    }

    /// Takes what came for this member.
    pub fn came(&self) -> Option<Message> {
        self.came_for(self.node)
    }

    /// Hands a message to the machine.
    ///
    /// # Panics
    /// If it has no room for its answers.
    pub fn take(&mut self, (from, bytes): &Message) {
        self.machine.on_message(*from, self.node, bytes, now()).expect("room for answers");
        self.turn();
    }

    /// Does what the machine asks for; what it says is kept.
    pub fn turn(&mut self) {
        let at = now();
        if self.machine.deadline().is_some_and(|due| due <= at) {
            self.machine.on_time(at);
        }
        while let Some(action) = self.machine.poll(at, &mut self.buffer) {
            match action {
                Action::Send { to, len_bytes, .. } => self.said.push((to, self.buffer[..len_bytes].to_vec())),
                Action::Run { handle, .. } => _ = self.machine.run_on(handle, |_, work| sum(work)),
                Action::Ended { .. } => {}
            }
        }
    }

    /// Begins a call; what it says is kept.
    ///
    /// # Panics
    /// If it is refused.
    pub fn start(&mut self, call: &Call<'_>) -> Handle {
        let handle = self.machine.start(call, now()).expect("a call that is not refused");
        self.turn();
        handle
    }

    /// How a call has ended, if it has; then its place is free.
    ///
    /// # Panics
    /// If there is no such call, or its sum is none.
    pub fn end(&mut self, handle: Handle) -> Option<End> {
        let end = match self.machine.outcome(handle).expect("a call of ours")? {
            Outcome::Done { data, .. } => Ok(u64::from_le_bytes(data.try_into().expect("eight bytes"))),
            Outcome::Failed(report) => Err(report.records().next().expect("who failed")),
        };
        self.machine.release(handle).expect("it has ended");
        self.turn();
        Some(end)
    }

    /// Carries messages until a call has ended: `link` has this member, what was said by it (`true`) or came for it, and gives or takes
    /// them as it likes; without anything it is asked as well.
    ///
    /// # Panics
    /// If it does not end.
    pub fn carry(&mut self, handle: Handle, mut link: impl FnMut(&mut Wire, Option<(bool, Message)>)) -> End {
        let begun = Instant::now();
        loop {
            self.turn();
            for message in std::mem::take(&mut self.said) {
                link(self, Some((true, message)));
            }
            while let Some(message) = self.came() {
                link(self, Some((false, message)));
            }
            link(self, None);
            if let Some(end) = self.end(handle) {
                return end;
            }
            assert!(begun.elapsed() < LONG * 2, "the call does not end");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Does with a message what a link that works does.
    pub fn pass(&mut self, (is_ours, message): (bool, Message)) {
        if is_ours { self.give(&message) } else { self.take(&message) }
    }
}
