//! Members of chained calls that tests put into threads and processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use umbra::call::{Capacities, Failure, InnerError, Local, Member, Offer, ReadError, Reply, Station, WaitError};
use umbra_core::chain::{Call, Caps, Config, Data, Handle, Mode, Node, Phase, Plan, Tag, Verdict, Work};
use umbra_core::time::Lapse;
use umbra_core::tree;

/// The function that all members register, in both roles: it sums the numbers of the members.
pub const SUM: &str = "sum";

/// By which [`WORDS`] fails if the data was taken back.
pub const GONE: u32 = 404;

/// A function that all members register and that calls [`SUM`] over everybody; its callback is `SUM` as well.
pub const RELAY: &str = "relay";

/// A function that all members register and that sums the words of offered data; its callback is [`SUM`].
pub const WORDS: &str = "words";

/// A function that all members register, in both roles: it fills the reply with numbers, and adds those of others to them.
pub const VECTOR: &str = "vector";

/// A function that all members register, in both roles: it replies with the words of offered data, each times its number and one
/// more, and adds those of others to them.
pub const SCALE: &str = "scale";

/// A function that all members register, in both roles: it puts its data, and those of others behind it, into the reply.
pub const JOIN: &str = "join";

/// By which [`RELAY`] fails: this, and who failed in the call that it made.
pub const INNER: u32 = 1000;

/// What the header of a call has one member do; all others do their work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Act {
    /// Its function fails with 42.
    Fault = 1,
    /// Its function panics.
    Panic = 2,
    /// It dies in its function.
    DieInFunc = 3,
    /// It dies in its callback.
    DieInCallback = 4,
    /// Its function takes a fifth of a second, during which it does nothing else.
    Block = 5,
    /// Its function is pending for a fifth of a second, and serves others meanwhile.
    Wait = 6,
    /// Its function is pending until the call is given up.
    Hang = 7,
}

/// The header that has a member do something.
pub const fn header(node: Node, act: Act) -> [u8; 2] {
    [node.0 as u8, act as u8]
}

const LONG: Duration = Duration::from_millis(200);

fn die() {
    let _ = kill_process(getpid(), Signal::KILL);
}

fn sum(work: &mut Work<'_>, since: &mut Option<Instant>) -> Verdict {
    let act = match *work.header {
        [node, act] if u32::from(node) == work.node.0 => act,
        _ => 0,
    };
    let is = |wanted: Act| act == wanted as u8;
    match work.phase {
        Phase::Init | Phase::Probe => {
            if is(Act::Fault) {
                return Verdict::Fault(42);
            }
            assert!(!is(Act::Panic), "as the test wants it");
            if is(Act::DieInFunc) {
                die();
            }
            if is(Act::Block) {
                std::thread::sleep(LONG);
            }
            if is(Act::Hang) {
                return Verdict::Pending;
            }
            if is(Act::Wait) && since.get_or_insert_with(Instant::now).elapsed() < LONG {
                return Verdict::Pending;
            }
            let _ = work.reply.set_data(&u64::from(work.node.0).to_le_bytes());
        }
        Phase::Wait(answer) => {
            if is(Act::DieInCallback) {
                die();
            }
            let (Ok(ours), Ok(theirs)) = (work.reply.data().try_into(), answer.data.try_into()) else {
                return Verdict::Fault(1);
            };
            let sum = u64::from_le_bytes(ours).wrapping_add(u64::from_le_bytes(theirs));
            let _ = work.reply.set_data(&sum.to_le_bytes());
        }
    }
    Verdict::Done
}

/// The words of the reply of one member to [`VECTOR`].
pub fn vector_of(node: Node, bytes: usize) -> impl Iterator<Item = u64> {
    (1..=bytes as u64 / 8).map(move |word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(u64::from(node.0) + 1))
}

fn vector(work: &mut Work<'_>, since: &mut Option<Instant>) -> Verdict {
    let act = |wanted: Act| *work.header == header(work.node, wanted);
    match work.phase {
        Phase::Init | Phase::Probe => {
            if act(Act::DieInFunc) {
                die();
            }
            if act(Act::Wait) && since.get_or_insert_with(Instant::now).elapsed() < LONG {
                return Verdict::Pending;
            }
            *since = None;
            let bytes = work.reply.caps().data as usize;
            for word in vector_of(work.node, bytes) {
                if work.reply.push_data(&word.to_le_bytes()).is_err() {
                    return Verdict::Fault(2);
                }
            }
            if act(Act::Fault) {
                // One byte more than is allowed.
                let _ = work.reply.push_data(&[0; 8]);
            }
        }
        Phase::Wait(answer) => {
            if act(Act::DieInCallback) {
                die();
            }
            return add(work.reply.data_mut(), answer.data);
        }
    }
    Verdict::Done
}

/// Adds as many numbers to numbers, one by one.
pub fn add(ours: &mut [u8], theirs: &[u8]) -> Verdict {
    let (ours, theirs) = (ours.as_chunks_mut::<8>().0, theirs.as_chunks::<8>().0);
    if ours.len() != theirs.len() {
        return Verdict::Fault(1);
    }
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = u64::from_le_bytes(*ours).wrapping_add(u64::from_le_bytes(*theirs)).to_le_bytes();
    }
    Verdict::Done
}

fn join(work: &mut Work<'_>) -> Verdict {
    let bytes = match (work.phase, work.data) {
        (Phase::Init, Data::Bytes(bytes)) => bytes,
        (Phase::Wait(answer), _) => answer.data,
        _ => return Verdict::Fault(1),
    };
    // What does not fit fails the call by itself.
    let _ = work.reply.push_data(bytes);
    Verdict::Done
}

fn relay(work: &mut Work<'_>, local: &mut Local<'_>, all: &[Node]) -> Verdict {
    if local.begun() == 0 {
        return if local.begin(&call(all, work.header)).is_ok() { Verdict::Pending } else { Verdict::Fault(3) };
    }
    let total = match local.answer(0) {
        Some(Ok(reply)) => reply.data.as_slice(),
        Some(Err(InnerError::Failed(failure))) => {
            return Verdict::Fault(INNER + failure.records.first().map_or(0, |record| record.origin.0));
        }
        _ => return Verdict::Fault(1),
    };
    if work.reply.set_data(total).is_ok() { Verdict::Done } else { Verdict::Fault(2) }
}

fn words(work: &mut Work<'_>, local: &Local<'_>) -> Verdict {
    if *work.header == header(work.node, Act::Fault) {
        return Verdict::Fault(42);
    }
    let sum = local.look(work.data, |bytes| {
        (0..bytes.len()).step_by(8).map(|at| bytes.word(at).unwrap_or(0)).fold(0, u64::wrapping_add)
    });
    match sum.map(|sum| work.reply.set_data(&sum.to_le_bytes())) {
        Ok(Ok(())) => Verdict::Done,
        Ok(Err(_)) => Verdict::Fault(2),
        Err(ReadError::Gone) => Verdict::Fault(GONE),
        Err(_) => Verdict::Fault(3),
    }
}

fn scale(work: &mut Work<'_>, local: &Local<'_>) -> Verdict {
    if let Phase::Wait(answer) = work.phase {
        return add(work.reply.data_mut(), answer.data);
    }
    let factor = u64::from(work.node.0) + 1;
    let written = local.look(work.data, |bytes| {
        (0..bytes.len()).step_by(8).all(|at| {
            let word = bytes.word(at).unwrap_or(0).wrapping_mul(factor);
            work.reply.push_data(&word.to_le_bytes()).is_ok()
        })
    });
    if written == Ok(true) { Verdict::Done } else { Verdict::Fault(1) }
}

/// A member with so few places for calls that one that is not given back is missed.
///
/// # Panics
/// If the seat is taken.
pub fn member(station: &Station, node: Node, calls: u16) -> Member {
    member_with(station, node, calls, |config| Config { classes: 0, ..config })
}

/// The same with other settings.
///
/// # Panics
/// If the seat is taken.
pub fn member_with(station: &Station, node: Node, calls: u16, settings: impl FnOnce(Config) -> Config) -> Member {
    let capacities = Capacities { calls, ..Capacities::new(station.shape().all) };
    let mut member = Member::join_with(station, node, capacities, settings).expect("a free seat");
    let (mut since, mut vector_since) = (None, None);
    let all: Vec<Node> = station.shape().nodes().collect();
    member.register(SUM, move |work| sum(work, &mut since)).expect("the first function");
    member.register_local(WORDS, |work, local| words(work, local)).expect("the third function");
    member.register(VECTOR, move |work| vector(work, &mut vector_since)).expect("the fourth function");
    member.register(JOIN, join).expect("the fifth function");
    member.register_local(SCALE, |work, local| scale(work, local)).expect("the sixth function");
    member.register_local(RELAY, move |work, local| relay(work, local, &all)).expect("the second function");
    member
}

/// A call of the sum over these members, within ten seconds.
#[must_use]
pub const fn call<'a>(members: &'a [Node], header: &'a [u8]) -> Call<'a> {
    let caps = Caps { header: 0, data: 8 };
    let budget = Lapse::from_secs(10);
    Call { callback: Tag::of(SUM), caps, header, budget, ..Call::new(Tag::of(SUM), members) }
}

/// A call of functions that each call the sum, within ten seconds.
#[must_use]
pub const fn relayed<'a>(members: &'a [Node], header: &'a [u8]) -> Call<'a> {
    Call { func: Tag::of(RELAY), ..call(members, header) }
}

/// A call that sums the words of this data at each of these members, within ten seconds.
#[must_use]
pub const fn words_of<'a>(data: Data<'a>, members: &'a [Node], header: &'a [u8]) -> Call<'a> {
    Call { func: Tag::of(WORDS), data, ..call(members, header) }
}

/// A call of numbers that are added one by one, so many bytes of them, within ten seconds.
#[must_use]
pub const fn vectors<'a>(members: &'a [Node], header: &'a [u8], bytes: u32) -> Call<'a> {
    let caps = Caps { header: 0, data: bytes };
    Call { func: Tag::of(VECTOR), callback: Tag::of(VECTOR), caps, ..call(members, header) }
}

/// What [`vectors`] answers.
#[must_use]
pub fn vectors_sum(members: &[Node], bytes: u32) -> Vec<u8> {
    let mut sum = vec![0_u64; bytes as usize / 8];
    for &member in members {
        sum.iter_mut().zip(vector_of(member, bytes as usize)).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
    }
    sum.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Offers as much as a member can, different data for each seed.
///
/// # Panics
/// If there is not as much memory, or more.
pub fn offer_all(member: &mut Member, seed: u64) -> (Offer, Vec<u8>) {
    let bytes = member.station().shape().offer_bytes;
    let data: Vec<u8> = (0..bytes / 8).flat_map(|word| (word.wrapping_mul(seed)).to_le_bytes()).collect();
    let offer = member.offer(&data).expect("all of the memory");
    member.offer(&[1]).expect_err("no byte is left");
    (offer, data)
}

/// A call of [`SCALE`] over all that a member offers, with replies as long, within ten minutes: over another tree and with other
/// modes in each round.
#[must_use]
pub fn scaled<'a>(data: Data<'a>, bytes: u64, members: &'a [Node], round: usize) -> Call<'a> {
    let shapes = [tree::Shape::FLAT, tree::Shape::CHAIN, tree::Shape::BINARY];
    let modes = [Mode::empty(), Mode::ORDERED, Mode::CUT_THROUGH];
    let (plan, mode) = (Plan::Shape(shapes[round % 3]), modes[round / 3 % 3]);
    let (func, caps) = (Tag::of(SCALE), Caps { header: 0, data: bytes as u32 });
    Call { func, callback: func, caps, data, plan, mode, budget: Lapse::from_secs(600), ..call(members, &[]) }
}

/// What [`scaled`] answers over this data.
#[must_use]
pub fn scaled_sum(data: &[u8], members: &[Node]) -> Vec<u8> {
    let factor = members.iter().fold(0_u64, |sum, node| sum + u64::from(node.0) + 1);
    let words = data.as_chunks::<8>().0.iter();
    words.flat_map(|word| u64::from_le_bytes(*word).wrapping_mul(factor).to_le_bytes()).collect()
}

/// Makes so many calls over `members`, one after the other, while all of them do the same: each over all that it can offer, and
/// with replies as long, for which there is memory at each member for one of them. Ends when all have made theirs.
///
/// # Panics
/// If a call fails or takes more than half a minute of its ten, or others are not done after as long.
pub fn cross(member: &mut Member, members: &[Node], rounds: usize) {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (own, done) = (member.node(), Arc::new(AtomicU64::new(0)));
    let told = Arc::clone(&done);
    let tell = move |work: &mut Work<'_>| {
        let told = told.load(Ordering::Relaxed).to_le_bytes();
        if work.reply.set_data(&told).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
    };
    let crossed = member.register("crossed", tell).expect("the seventh function");
    for round in 0..rounds {
        let (offer, data) = offer_all(member, round as u64 * 1000 + u64::from(own.0) + 1);
        let handle = member.start(&scaled(offer.data(), data.len() as u64, members, round)).expect("a call");
        let reply = member.wait(handle, PATIENCE).unwrap_or_else(|error| panic!("round {round} of {own}: {error}"));
        assert!(reply.data == scaled_sum(&data, members), "round {round} of {own}");
        member.take_back(offer);
    }
    done.store(1, Ordering::Relaxed);
    let (all, begun) = ((members.len() as u64).to_le_bytes(), Instant::now());
    loop {
        let handle = member.start(&Call { func: crossed, ..call(members, &[]) });
        let reply = handle.map(|handle| member.wait(handle, PATIENCE));
        if matches!(&reply, Ok(Ok(reply)) if reply.data == all) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the others of {own} are not done: {reply:?}");
        member.serve_until(Duration::from_millis(5), |_| false);
    }
}

/// Members that one thread drives in turn, so that all goes the same way each time.
#[derive(Debug)]
pub struct Together(pub Vec<Member>);

impl Together {
    /// Everybody's turn.
    pub fn turn(&mut self) {
        self.0.iter_mut().for_each(|member| _ = member.turn());
    }

    /// Makes a call as the first of them; how it ends.
    ///
    /// # Errors
    /// The failure of the call.
    ///
    /// # Panics
    /// If it is not begun, or does not end.
    pub fn run(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        let handle = self.0[0].start(call).expect("a call that can be made");
        self.end(0, handle)
    }

    /// How a call ends that one of them has begun.
    ///
    /// # Errors
    /// The failure of the call.
    ///
    /// # Panics
    /// If it does not end.
    pub fn end(&mut self, maker: usize, handle: Handle) -> Result<Reply, Failure> {
        let begun = Instant::now();
        while !self.0[maker].test(handle).expect("a call of ours") {
            assert!(begun.elapsed() < Duration::from_secs(60), "the call does not end");
            self.turn();
        }
        match self.0[maker].wait(handle, Duration::ZERO) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }
}
