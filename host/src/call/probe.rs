//! What ran when, and failures on purpose: for people who look at a call.
//!
//! A member that is [probed](Member::serve_probe) has two functions more. [`WATCH`] has everybody remember the runs of its
//! functions from now on, or forget them, and fail at a given place once. [`TRACE`] gathers what is remembered of one call.
//! Runs of these two are not remembered, and do not fail on purpose. When the member that has begun to watch is gone, whatever
//! ended it, the others forget them by themselves; one that hears of its death before its wish remembers on until somebody else
//! has watched. A function that was to hang goes on to hang: its call was not made to have it run.
//!
//! *Cost*: while nobody watches and nothing is to fail, one load a run; the runs that are remembered have their places from the start.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::chain::{Call, CallId, Caps, Life, Node, Phase, RegisterError, Tag, Verdict, Work};
use umbra_core::codec::{Reader, Writer};
use umbra_core::time::Time;

use super::Member;
use crate::sys::clock::now;

/// Begins to watch, or ends it.
pub const WATCH: &str = "umbra.watch";
/// Gathers what was seen of a call.
pub const TRACE: &str = "umbra.trace";

/// Runs that a process remembers.
const RUNS: usize = 4096;
/// Why runs are looked at: somebody watches, or one is to fail.
const WATCHED: u32 = 1;
const ARMED: u32 = 2;
/// In place of a member where there is none.
const NOBODY: u32 = u32::MAX;

/// Where a member fails on purpose, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// Its function fails.
    Func = 1,
    /// Its callback fails.
    Callback = 2,
    /// Its function never ends.
    Hang = 3,
}

/// The number of a failure on purpose.
pub const ON_PURPOSE: u32 = 0x0bad;

/// One run of the user's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The member.
    pub node: Node,
    /// Who sent it the request.
    pub parent: Option<Node>,
    /// Whose answer it combined, if it did.
    pub child: Option<Node>,
    /// On the machine's clock.
    pub began: Time,
    /// On the machine's clock.
    pub ended: Time,
}

impl Run {
    /// Bytes of one run in the reply to [`TRACE`].
    pub const BYTES: usize = 28;

    fn to_bytes(self) -> [u8; Run::BYTES] {
        let mut bytes = [0; Run::BYTES];
        let mut writer = Writer::new(&mut bytes);
        let name = |node: Option<Node>| node.map_or(NOBODY, |node| node.0);
        let words = [self.node.0, name(self.parent), name(self.child)];
        // The bytes are as many as are written.
        let _ = words.into_iter().try_for_each(|word| writer.u32(word));
        let _ = [self.began, self.ended].into_iter().try_for_each(|time| writer.u64(time.0));
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Run> {
        let mut reader = Reader::new(bytes);
        let named = |word| (word != NOBODY).then_some(Node(word));
        Some(Run {
            node: Node(reader.u32().ok()?),
            parent: named(reader.u32().ok()?),
            child: named(reader.u32().ok()?),
            began: Time(reader.u64().ok()?),
            ended: Time(reader.u64().ok()?),
        })
    }
}

/// The runs in a reply to [`TRACE`], in no particular order.
pub fn runs(data: &[u8]) -> impl Iterator<Item = Run> + '_ {
    data.chunks_exact(Run::BYTES).filter_map(Run::parse)
}

/// The header of [`WATCH`]: whether to remember, and who is to fail where.
#[must_use]
pub fn orders(on: bool, fault: Option<(Node, Fault)>) -> [u8; 6] {
    let (node, place) = fault.map_or((Node(0), 0), |(node, fault)| (node, fault as u8));
    let [a, b, c, d] = node.0.to_le_bytes();
    [u8::from(on), place, a, b, c, d]
}

/// The header of [`TRACE`].
#[must_use]
pub fn named(call: CallId) -> [u8; 12] {
    let mut bytes = [0; 12];
    // Of calls that are remembered no two have the lower half of their numbers in common.
    let words = [call.root.0, call.life.0, call.seq as u32].map(u32::to_le_bytes);
    bytes.copy_from_slice(words.as_flattened());
    bytes
}

/// A call of [`WATCH`].
#[must_use]
pub const fn watch<'a>(members: &'a [Node], orders: &'a [u8; 6]) -> Call<'a> {
    Call { header: orders, ..Call::new(Tag::of(WATCH), members) }
}

/// A call of [`TRACE`], whose reply has at most so many bytes.
#[must_use]
pub const fn trace<'a>(members: &'a [Node], call: &'a [u8; 12], bytes: u32) -> Call<'a> {
    let caps = Caps { header: 0, data: bytes };
    Call { callback: Tag::of(TRACE), header: call, caps, ..Call::new(Tag::of(TRACE), members) }
}

#[derive(Debug)]
struct Seen {
    runs: VecDeque<(CallId, Run)>,
    armed: Option<Armed>,
    /// Who has wanted last that runs are remembered.
    by: Option<Node>,
}

impl Seen {
    fn forget(&mut self) {
        self.runs.clear();
        self.by = None;
    }
}

/// A member that is to fail in a call of whoever wanted that, and of nobody else: who wanted it may be gone by then.
#[derive(Clone, Copy, Debug)]
struct Armed {
    maker: (Node, Life),
    at: Node,
    fault: Fault,
}

/// What the functions of one member are looked at with.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// Bits of [`WATCHED`] and [`ARMED`].
    on: Arc<AtomicU32>,
    seen: Arc<Mutex<Seen>>,
    /// The places of its own functions.
    own: [u16; 2],
}

impl Probe {
    fn new() -> Probe {
        let seen = Seen { runs: VecDeque::with_capacity(RUNS), armed: None, by: None };
        Probe { on: Arc::new(AtomicU32::new(0)), seen: Arc::new(Mutex::new(seen)), own: [0; 2] }
    }

    /// Whether the runs of the function at this place are looked at.
    pub(super) fn sees(&self, place: u16) -> bool {
        // ORDERING: set and read by the one thread that serves the member.
        self.on.load(Ordering::Relaxed) != 0 && !self.own.contains(&place)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function, unless it is to fail, and remembers that it ran.
    pub(super) fn run(&self, work: &mut Work<'_>, function: impl FnOnce(&mut Work<'_>) -> Verdict) -> Verdict {
        let (call, node, parent) = (work.call, work.node, work.parent);
        let child = match work.phase {
            Phase::Wait(answer) => Some(answer.from),
            Phase::Init | Phase::Probe => None,
        };
        let again = matches!(work.phase, Phase::Probe);
        let began = now();
        let verdict = match self.struck(call, node, child.is_some()) {
            Some(verdict) => verdict,
            None => function(work),
        };
        let run = Run { node, parent, child, began, ended: now() };
        let mut seen = self.seen();
        if seen.by.is_none() {
            return verdict;
        }
        // A function that was pending is asked again and again: that is one run, from its beginning to its end.
        let before = seen
            .runs
            .iter_mut()
            .rev()
            .find(|(of, before)| again && *of == call && before.node == node && before.child.is_none());
        match before {
            Some((_, before)) => before.ended = run.ended,
            None => {
                if seen.runs.len() >= RUNS {
                    seen.runs.pop_front();
                }
                seen.runs.push_back((call, run));
            }
        }
        verdict
    }

    fn struck(&self, call: CallId, node: Node, is_callback: bool) -> Option<Verdict> {
        let mut seen = self.seen();
        let armed = seen.armed.filter(|armed| (armed.maker, armed.at) == ((call.root, call.life), node))?;
        let verdict = match armed.fault {
            Fault::Hang if !is_callback => return Some(Verdict::Pending),
            Fault::Func if !is_callback => Verdict::Fault(ON_PURPOSE),
            Fault::Callback if is_callback => Verdict::Fault(ON_PURPOSE),
            Fault::Hang | Fault::Func | Fault::Callback => return None,
        };
        seen.armed = None;
        self.settle(&seen);
        Some(verdict)
    }

    fn watch(&self, work: &Work<'_>) -> Verdict {
        let &[on, place, a, b, c, d] = work.header else { return Verdict::Fault(1) };
        let fault = match place {
            1 => Some(Fault::Func),
            2 => Some(Fault::Callback),
            3 => Some(Fault::Hang),
            _ => None,
        };
        let at = Node(u32::from_le_bytes([a, b, c, d]));
        let maker = (work.call.root, work.call.life);
        let mut seen = self.seen();
        // Every member that lives here runs this, and has no say about the others. What hangs is let go by who wanted that, or where
        // another one is to fail.
        if fault.is_some() && at == work.node {
            seen.armed = fault.map(|fault| Armed { maker, at, fault });
        } else if on == 0 {
            seen.armed = seen.armed.filter(|armed| armed.fault == Fault::Hang && armed.maker != maker);
        }
        if on == 0 {
            seen.forget();
        } else {
            seen.by = Some(work.call.root);
        }
        self.settle(&seen);
        Verdict::Done
    }

    /// A member has died, and its next life has asked for nothing yet: nobody asks for what it has had remembered, and none of its
    /// calls is to fail any more. One that hangs was asked before, and must not run now.
    pub(super) fn gone(&self, node: Node) {
        let mut seen = self.seen();
        if seen.by == Some(node) {
            seen.forget();
        }
        seen.armed = seen.armed.filter(|armed| armed.maker.0 != node || armed.fault == Fault::Hang);
        self.settle(&seen);
    }

    /// Has runs looked at as long as there is a reason.
    fn settle(&self, seen: &Seen) {
        let bits = [(seen.by.is_some(), WATCHED), (seen.armed.is_some(), ARMED)];
        let on = bits.into_iter().filter(|(is_so, _)| *is_so).fold(0, |on, (_, bit)| on | bit);
        self.on.store(on, Ordering::Relaxed);
    }

    fn trace(&self, work: &mut Work<'_>) -> Verdict {
        if let Phase::Wait(answer) = work.phase {
            // A reply that is too large fails the call by that name.
            let _ = work.reply.push_data(answer.data);
            return Verdict::Done;
        }
        let (node, wanted) = (work.node, work.header);
        for (_, run) in self.seen().runs.iter().filter(|(call, run)| run.node == node && named(*call) == *wanted) {
            if work.reply.push_data(&run.to_bytes()).is_err() {
                break;
            }
        }
        Verdict::Done
    }
}

impl Member {
    /// Lets others watch what its functions do, by [`WATCH`] and [`TRACE`].
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn serve_probe(&mut self) -> Result<(), RegisterError> {
        let probe = Probe::new();
        let (watch, trace) = (probe.clone(), probe.clone());
        let own = [
            self.register_at(Tag::of(WATCH), Box::new(move |work, _| watch.watch(work)))?,
            self.register_at(Tag::of(TRACE), Box::new(move |work, _| trace.trace(work)))?,
        ];
        self.probe = Some(Probe { own, ..probe });
        Ok(())
    }
}
