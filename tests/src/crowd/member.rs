//! A member that does what the headers of calls say.
//!
//! It counts what it sees, and makes calls when it is told to.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use umbra::call::{Capacities, Member, Reply, Station, WaitError};
use umbra_core::chain::{Call, CallId, Caps, Config, Data, Handle, Node, Phase, StartError, Tag, Verdict, Work};
use umbra_core::time::Lapse;

use super::room::Room;
use super::script::{Act, Script, acts};
use super::trace::{BYTES, NOBODY, Trace, What};

/// Sums the numbers of the members in the data, lists them in the header, and does what the header of the request says.
pub const SUM: Tag = Tag::of("sum");
/// The same, and not everybody has it.
pub const RARE: Tag = Tag::of("rare");
/// Notes the length and the sum of header and data.
pub const HOLD: Tag = Tag::of("hold");
/// Answers what the member saw, and forgets it if there is a header.
pub const TRACE: Tag = Tag::of("trace");
/// Has the member make calls.
pub const MAKE: Tag = Tag::of("make");

/// Far beyond anything that a loaded machine needs.
pub const LONG: Duration = Duration::from_secs(30);
/// How often a member that waits looks whether it is to end.
const SHORT: Duration = Duration::from_millis(20);

/// Calls of [`SUM`] that a member is to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Making {
    /// How many.
    pub rounds: u32,
    /// How many of them at once.
    pub open: u32,
    /// Every so-manieth fails, at a member that [`spoilt`] says; none: zero.
    pub spoil: u32,
    /// Their time in milliseconds.
    pub millis: u32,
    /// Bytes of data in each.
    pub bulk: u32,
    /// Over whom.
    pub members: Vec<u32>,
    /// What everybody does in each.
    pub script: Script,
}

impl Making {
    /// So many, one after the other.
    #[must_use]
    pub fn new(rounds: u32, members: impl IntoIterator<Item = u32>) -> Making {
        let members = members.into_iter().collect();
        Making { rounds, open: 1, spoil: 0, millis: 30_000, bulk: 0, members, script: Script::new() }
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [self.rounds, self.open, self.spoil, self.millis, self.bulk, self.members.len() as u32];
        let words = head.iter().chain(&self.members);
        words.flat_map(|word| word.to_le_bytes()).chain(self.script.0.iter().copied()).collect()
    }

    fn of(bytes: &[u8]) -> Option<Making> {
        let word = |at: usize| bytes.get(4 * at..4 * at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let [rounds, open, spoil, millis, bulk] = [word(0)?, word(1)?, word(2)?, word(3)?, word(4)?];
        let len = word(5)? as usize;
        let members = (6..6 + len).map(word).collect::<Option<_>>()?;
        let script = Script(bytes.get(4 * (6 + len)..)?.to_vec());
        Some(Making { rounds, open, spoil, millis, bulk, members, script })
    }
}

/// Where a call that is to fail does so: at which of so many members, and whether in its function; else the maker's callback does.
#[must_use]
pub const fn spoilt(maker: u32, round: u32, members: u32) -> (u32, bool) {
    let at = (maker + round) % members;
    if round.is_multiple_of(2) { (at, true) } else { (maker, false) }
}

/// What the functions and the loop of a member share.
#[derive(Default, Debug)]
pub(super) struct State {
    pub(super) trace: Trace,
    /// Calls of which the function of a member has begun, and of which it has combined the answer of a child.
    seen: HashSet<(CallId, Node, u32)>,
    since: HashMap<CallId, Instant>,
    active: u32,
    /// Functions that have begun.
    begun: u32,
    /// Runs of user code since the last turn that [`Scripted::turn`] did, and those before the first callback of them.
    runs: u32,
    before: Option<u32>,
    /// Whether it is making calls.
    makes: bool,
    to_make: VecDeque<Making>,
}

/// A member and what it saw.
#[derive(Debug)]
pub struct Scripted {
    /// The member.
    pub member: Member,
    pub(super) state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that bytes have in this order.
#[must_use]
pub fn sum_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

impl Scripted {
    /// Takes the seat of `node`.
    ///
    /// # Panics
    /// If it is taken.
    #[must_use]
    pub fn join(station: &Station, node: Node, room: Room) -> Scripted {
        let Room { calls, classes, call_bytes, header_max, open_max, lacks, houses, silence } = room;
        let capacities = Capacities { calls, call_bytes, ..Capacities::new(station.shape().all) };
        let settings = |config| {
            let config = Config { classes, header_max, open_max, ..config };
            let micros = u64::from(silence) * 1000;
            let (ask, silence) = (Lapse::from_micros(micros / 100), Lapse::from_micros(micros));
            if micros == 0 { config } else { Config { ask, silence, ..config } }
        };
        let mut member = Member::join_with(station, node, capacities, settings).expect("a free seat");
        for nth in 1..=u32::from(houses) {
            member.house(Node(node.0 + nth)).expect("a free seat");
        }
        let state: Arc<Mutex<State>> = Arc::default();
        for name in ["sum", "rare"].into_iter().take(if lacks { 1 } else { 2 }) {
            let state = Arc::clone(&state);
            member.register(name, move |work| user(work, &state)).expect("room for functions");
        }
        let holding = Arc::clone(&state);
        let hold = move |work: &mut Work<'_>| {
            let Data::Bytes(data) = work.data else { return Verdict::Fault(1) };
            let mut state = lock(&holding);
            state.trace.note(What::Header, work.header.len() as u32, sum_of(work.header));
            state.trace.note(What::Data, data.len() as u32, sum_of(data));
            Verdict::Done
        };
        member.register("hold", hold).expect("room for functions");
        let telling = Arc::clone(&state);
        member.register("trace", move |work| tell(work, &telling)).expect("room for functions");
        let making = Arc::clone(&state);
        let make = move |work: &mut Work<'_>| {
            let Data::Bytes(bytes) = work.data else { return Verdict::Fault(1) };
            let Some(to_make) = Making::of(bytes) else { return Verdict::Fault(2) };
            lock(&making).to_make.push_back(to_make);
            Verdict::Done
        };
        member.register("make", make).expect("room for functions");
        Scripted { member, state }
    }

    /// Serves others and makes the calls it is told to, until `over` says so.
    pub fn serve(&mut self, patience: Duration, over: impl Fn() -> bool) {
        let Scripted { member, state } = self;
        member.serve_until(patience, |member| {
            let next = {
                let mut state = lock(state);
                observe(member, &mut state);
                let next = state.to_make.pop_front();
                state.makes = next.is_some();
                next
            };
            if let Some(making) = next {
                make(member, &making, state, &over);
                let mut state = lock(state);
                state.makes = false;
                observe(member, &mut state);
            }
            over()
        });
    }

    /// Makes calls now.
    pub fn make(&mut self, making: &Making) {
        make(&mut self.member, making, &self.state, &|| false);
    }

    /// One turn: what ran in it, and how much of that before the first callback, if one ran.
    pub fn turn(&mut self) -> (u32, Option<u32>) {
        {
            let mut state = lock(&self.state);
            (state.runs, state.before) = (0, None);
        }
        self.member.turn();
        let state = lock(&self.state);
        (state.runs, state.before)
    }

    /// What this member saw; it begins anew.
    pub fn take(&mut self) -> Trace {
        let mut state = lock(&self.state);
        observe(&self.member, &mut state);
        let counts = std::mem::take(&mut state.trace.counts);
        Trace { counts, ..state.trace.clone() }
    }
}

/// Notes how the member stands between its turns.
fn observe(member: &Member, state: &mut State) {
    let figures = member.figures();
    let counts = [figures.busy, figures.cancels, figures.stale, figures.requests, figures.alive];
    let busy = !state.to_make.is_empty() || state.makes;
    // A request that waits for room starts a call elsewhere, although its own may be over.
    state.trace.calls = (member.calls() + member.unsent()) as u32 + u32::from(busy);
    state.trace.peak = state.trace.peak.max(member.calls() as u32);
    state.trace.figures = counts.map(|count| count as u32);
}

fn tell(work: &mut Work<'_>, state: &Mutex<State>) -> Verdict {
    let told = if let Phase::Wait(answer) = work.phase {
        work.reply.set_data(answer.data)
    } else {
        let mut state = lock(state);
        let busy = !state.to_make.is_empty() || state.makes;
        let trace = Trace { calls: state.trace.calls.max(busy.into()), ..state.trace.clone() };
        if !work.header.is_empty() {
            state.trace.counts.clear();
        }
        work.reply.set_data(&trace.to_bytes())
    };
    if told.is_ok() { Verdict::Done } else { Verdict::Fault(BYTES) }
}

fn user(work: &mut Work<'_>, state: &Mutex<State>) -> Verdict {
    let child = if let Phase::Wait(answer) = work.phase { Some(answer.from) } else { None };
    let (act, more) = acts(work.header, work.node, child);
    let (waited, begun) = {
        let mut state = lock(state);
        state.active += 1;
        if matches!(work.phase, Phase::Wait(_)) {
            let runs = state.runs;
            state.before.get_or_insert(runs);
        }
        state.runs += 1;
        if state.active > 1 {
            state.trace.note(What::Nested, 0, 0);
        }
        match work.phase {
            Phase::Init => {
                let parent = work.parent.map_or(NOBODY, |parent| parent.0);
                state.trace.note(What::Began, parent, 0);
                state.begun += 1;
                if let Some(all) = work.full_list() {
                    let names: Vec<[u8; 4]> = all.map(|node| node.0.to_le_bytes()).collect();
                    state.trace.note(What::Listed, names.len() as u32, sum_of(names.as_flattened()));
                }
            }
            Phase::Probe => state.trace.note(What::Probed, 0, 0),
            Phase::Wait(answer) => state.trace.note(What::Combined, answer.from.0, answer.members),
        }
        let combined = child.map_or(NOBODY, |child| child.0);
        if work.phase != Phase::Probe && !state.seen.insert((work.call, work.node, combined)) {
            state.trace.note(What::Twice, work.call.root.0, work.call.seq as u32);
        }
        (state.since.entry(work.call).or_insert_with(Instant::now).elapsed(), state.begun)
    };
    let stamp = if act == Some(Act::Stamp) { begun << 16 } else { 0 };
    let verdict = act_out(work, act, (more, stamp), waited);
    lock(state).active -= 1;
    // Outside, so that this is counted as over.
    assert!(act != Some(Act::Panic), "as the test wants it");
    verdict
}

fn act_out(work: &mut Work<'_>, act: Option<Act>, (more, stamp): (u32, u32), waited: Duration) -> Verdict {
    match act {
        Some(Act::Fault(number)) => return Verdict::Fault(number),
        Some(Act::Hang) => return Verdict::Pending,
        Some(Act::Slow(millis)) if waited < Duration::from_millis(millis.into()) => return Verdict::Pending,
        Some(Act::Raise(number)) => {
            let below = Script(work.header.to_vec()).everybody(Act::Add(number));
            if work.rewrite_header(&below.0).is_err() {
                return Verdict::Fault(4);
            }
        }
        Some(Act::Block(millis)) => std::thread::sleep(Duration::from_millis(millis.into())),
        Some(Act::Excess(bytes)) => {
            let refused = work.reply.set_data(&vec![0xee; bytes as usize]).is_err();
            return if refused { Verdict::Done } else { Verdict::Fault(1) };
        }
        _ => {}
    }
    let caps = work.reply.caps();
    let written = if let Phase::Wait(answer) = work.phase {
        let sum = match (work.reply.data().try_into(), answer.data.try_into()) {
            (Ok(ours), Ok(theirs)) => u64::from_le_bytes(ours).wrapping_add(u64::from_le_bytes(theirs)).to_le_bytes(),
            _ if caps.data == 0 => [0; 8],
            _ => return Verdict::Fault(2),
        };
        (caps.data == 0 || work.reply.set_data(&sum).is_ok())
            && (answer.header.is_empty() || work.reply.push_header(answer.header).is_ok())
    } else {
        let number = u64::from(work.node.0) + u64::from(more);
        (caps.data == 0 || work.reply.set_data(&number.to_le_bytes()).is_ok())
            && (caps.header == 0 || work.reply.set_header(&(stamp | work.node.0).to_le_bytes()).is_ok())
    };
    if written { Verdict::Done } else { Verdict::Fault(3) }
}

/// A call of the sum over these members, within 30 seconds.
#[must_use]
pub const fn sum_over<'a>(members: &'a [Node], script: &'a Script) -> Call<'a> {
    let caps = Caps { header: 0, data: 8 };
    let header = script.0.as_slice();
    Call { callback: SUM, caps, header, budget: Lapse::from_secs(30), ..Call::new(SUM, members) }
}

/// How a call ended that was to have this sum, as members note it.
fn outcome(answer: Result<Reply, WaitError>, sum: u64, size: u32) -> (What, u32, u32) {
    match answer {
        Ok(reply) if reply.data == sum.to_le_bytes() => (What::Done, reply.members, 0),
        Err(WaitError::Failed(failure)) if failure.tallies.total() == size => match failure.records.first() {
            Some(record) => (What::Failed, record.origin.0, (record.stage as u32) << 8 | record.code as u32),
            None => (What::Wrong, size, 1),
        },
        Ok(_) | Err(WaitError::Failed(_)) => (What::Wrong, size, 0),
        Err(_) => (What::Refused, size, 1),
    }
}

/// Makes calls one after the other, a few at once, until `over` says that the member is to end.
fn make(member: &mut Member, making: &Making, state: &Mutex<State>, over: &dyn Fn() -> bool) {
    let me = member.node().0;
    let members: Vec<Node> = making.members.iter().copied().map(Node).collect();
    let more = u32::from(!making.members.contains(&me));
    let numbers = making.members.iter().sum::<u32>() + me * more;
    let size = making.members.len() as u32 + more;
    let note = |(what, other, aux)| lock(state).trace.note(what, other, aux);
    let bulk = vec![7; making.bulk as usize];
    let mut open = VecDeque::new();
    let end_one = |member: &mut Member, open: &mut VecDeque<(Handle, u64)>| {
        let Some((handle, sum)) = open.pop_front() else { return };
        let begun = Instant::now();
        loop {
            match member.wait(handle, SHORT) {
                Err(WaitError::NotYet) if begun.elapsed() < LONG * 2 && !over() => {}
                answer => return note(outcome(answer, sum, size)),
            }
        }
    };
    for round in 0..making.rounds {
        let mut script = making.script.clone();
        if making.spoil != 0 && (round + 1).is_multiple_of(making.spoil) {
            let fault = Act::Fault(round);
            script = match spoilt(me, round, size) {
                (at, true) => script.func(at, fault),
                // Whoever is a child of the maker.
                (at, false) => members.iter().fold(script, |script, child| script.callback(at, child.0, fault)),
            };
        }
        let script = script.everybody(Act::Add(round));
        let (data, budget) = (Data::Bytes(&bulk), Lapse::from_millis(making.millis.into()));
        let call = Call { data, budget, ..sum_over(&members, &script) };
        let begun = Instant::now();
        let started = loop {
            match member.start(&call) {
                Err(StartError::WouldBlock) if !open.is_empty() => end_one(member, &mut open),
                Err(StartError::WouldBlock) if begun.elapsed() < LONG && !over() => {
                    member.serve_until(Duration::from_millis(1), |_| false);
                }
                started => break started,
            }
        };
        match started {
            Ok(handle) => open.push_back((handle, u64::from(numbers + size * round))),
            Err(_) => note((What::Refused, round, 0)),
        }
        if open.len() >= making.open as usize {
            end_one(member, &mut open);
        }
        if over() {
            return;
        }
    }
    while !open.is_empty() {
        end_one(member, &mut open);
    }
}
