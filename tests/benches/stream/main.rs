//! Streams beside what the system has for the same, and beside a published one.
//!
//! Two threads take the place of two processes: each attaches the adapter for itself, so they map it at different
//! addresses, and lines, copies and sleeps cost what they cost between processes. `conversation` is nanoseconds from one
//! beginning to the next, with so many messages of 64 bytes in between; `stream` is nanoseconds a message within one
//! conversation, copied out into memory of the receiver's, or handed over as memory of a pool; `round trip` goes to another
//! core and back within two conversations. What the system has is a connection to a Unix socket for each conversation, and a
//! pipe for a stream.
//!
//! `UMBRA_DRAGON=FOLDER` names the programs `fli_bench` and `chan_bench` of a build for `dragonhpc`, which are run in the
//! same session; without it those rows are left out.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

mod dragon;
mod floors;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use umbra::channel::Timeout;
use umbra::pool::{self, Pool};
use umbra::stream::{Adapter, Attributes, Error, Mode, ReceiveOptions, SendOptions};
use umbra_tests::bench::{Direction, Plan, Report, Row, Samples, cores, pin, repeat};

const LOWER: Direction = Direction::LowerIsBetter;
/// Beside the first message of a conversation: it is the last one.
const END: u64 = 7;
/// Bytes of a message of a conversation.
const SMALL: usize = 64;
const MIB: usize = 1 << 20;

/// Pools have the same uid in all processes that exchange memory of them.
fn pool() -> Arc<Pool> {
    let attributes = pool::Attributes { bytes: 256 << 20, uid: 1, ..pool::Attributes::default() };
    Arc::new(Pool::create(None, &attributes).expect("there is memory"))
}

fn another(pool: &Pool) -> Arc<Pool> {
    let [manifest, data] = pool.share().expect("descriptors are free");
    Arc::new(Pool::attach_shared(manifest, data).expect("it is a pool"))
}

/// Calls `work` while a partner on the first core receives what it sends, through an adapter of his own.
fn with_partner<R>(
    core: usize,
    attributes: &Attributes,
    pool: Option<&Arc<Pool>>,
    partner: impl FnOnce(&Adapter) + Send,
    work: impl FnOnce(&Adapter) -> R,
) -> R {
    let ours = Adapter::create(attributes, pool.cloned()).expect("there is memory");
    let (descriptor, theirs) = (ours.share().expect("a descriptor is free"), pool.map(|pool| another(pool)));
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(core);
            partner(&Adapter::attach(descriptor, theirs).expect("it is an adapter"));
        });
        work(&ours)
    })
}

/// Receives conversations until one that says it is the last.
fn listen(adapter: &Adapter) {
    let (mut pad, mut is_over) = ([0; SMALL], false);
    while !is_over {
        let mut receiver = adapter.receive(&ReceiveOptions::default(), Timeout::Never).expect("the other side lives");
        loop {
            match receiver.receive_into(&mut pad, Timeout::Never) {
                Ok(piece) => is_over = piece.arg == END,
                Err(Error::Ended) => break,
                Err(error) => panic!("{error}"),
            }
        }
        receiver.close(Timeout::Never).expect("the other side lives");
    }
}

fn talk(adapter: &Adapter, messages: usize, arg: u64) {
    let mut sender = adapter.send(&SendOptions::default(), Timeout::Never).expect("the other side lives");
    let is_one = adapter.mode().expect("it is whole") == Mode::Buffered;
    for _ in 0..messages {
        let bytes = black_box(&[7; SMALL]);
        // What is said in several parts goes as one message with the close.
        let sent =
            if is_one && messages > 1 { sender.keep(bytes, arg) } else { sender.send(bytes, arg, Timeout::Never) };
        sent.expect("the other side lives");
    }
    sender.close(Timeout::Never).expect("the other side lives");
}

/// Nanoseconds of a conversation.
fn conversations(core: usize, plan: &Plan, mode: Mode, messages: usize) -> Samples {
    with_partner(core, &Attributes::of(mode), None, listen, |adapter| {
        let samples = repeat(plan, |n| (0..n).for_each(|_| talk(adapter, messages, 0)));
        talk(adapter, 1, END);
        samples
    })
}

/// Bytes of a stream that are under way at once: more than a core keeps for itself, from which others get them slowly.
fn wide(mode: Mode) -> Attributes {
    Attributes { ring: 4 << 20, ..Attributes::of(mode) }
}

/// Nanoseconds a message of a conversation that goes on and on, copied.
fn copied(core: usize, plan: &Plan, mode: Mode, len: usize) -> Samples {
    let read = |adapter: &Adapter| {
        let mut receiver = adapter.receive(&ReceiveOptions::default(), Timeout::Never).expect("the other side lives");
        let mut pad = vec![0; len];
        while receiver.receive_into(&mut pad, Timeout::Never) != Err(Error::Ended) {}
        receiver.close(Timeout::Never).expect("the other side lives");
    };
    with_partner(core, &wide(mode), None, read, |adapter| {
        let mut sender = adapter.send(&SendOptions::default(), Timeout::Never).expect("the other side lives");
        let bytes = vec![7; len];
        let send = |n| (0..n).for_each(|_| sender.send(&bytes, 0, Timeout::Never).expect("the other side lives"));
        let samples = repeat(plan, send);
        sender.close(Timeout::Never).expect("the other side lives");
        samples
    })
}

/// Nanoseconds a message of memory that is handed over: taken, written to by the sender or not, and freed by the receiver.
fn handed(core: usize, plan: &Plan, len: usize, is_filled: bool) -> Samples {
    let pool = pool();
    let read = |adapter: &Adapter| {
        let mut receiver = adapter.receive(&ReceiveOptions::default(), Timeout::Never).expect("the other side lives");
        while let Ok(received) = receiver.receive_memory(Timeout::Never) {
            black_box(&received).memory.free().expect("it is ours");
        }
        receiver.close(Timeout::Never).expect("the other side lives");
    };
    with_partner(core, &Attributes::default(), Some(&pool), read, |adapter| {
        let mut sender = adapter.send(&SendOptions::default(), Timeout::Never).expect("the other side lives");
        let mut send = |n| {
            for _ in 0..n {
                let memory = pool.alloc_within(len as u64, 0, std::time::Duration::MAX).expect("the other side frees");
                if is_filled {
                    memory.clear(0, len as u64).expect("it is ours");
                }
                sender.send_memory(memory, 0, Timeout::Never).expect("the other side lives");
            }
        };
        // The pages of the pool are brought first.
        send(1000);
        let samples = repeat(plan, &mut send);
        sender.close(Timeout::Never).expect("the other side lives");
        samples
    })
}

/// Nanoseconds of a round trip over two conversations, one each way.
fn round_trip(core: usize, plan: &Plan, len: usize) -> Samples {
    let [there, back] = [(); 2].map(|()| Adapter::create(&Attributes::default(), None).expect("there is memory"));
    let theirs = [&there, &back].map(|adapter| adapter.share().expect("a descriptor is free"));
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(core);
            let [there, back] = theirs.map(|fd| Adapter::attach(fd, None).expect("it is an adapter"));
            echo(&there, &back, len);
        });
        let mut sender = there.send(&SendOptions::default(), Timeout::Never).expect("the other side lives");
        let mut pad = vec![7; len];
        sender.send(&pad, 0, Timeout::Never).expect("the other side lives");
        let mut receiver = back.receive(&ReceiveOptions::default(), Timeout::Never).expect("the other side lives");
        receiver.receive_into(&mut pad, Timeout::Never).expect("the other side lives");
        let samples = repeat(plan, |n| {
            for _ in 0..n {
                sender.send(&pad, 0, Timeout::Never).expect("the other side lives");
                receiver.receive_into(&mut pad, Timeout::Never).expect("the other side lives");
            }
        });
        sender.close(Timeout::Never).expect("the other side lives");
        receiver.close(Timeout::Never).expect("the other side lives");
        samples
    })
}

/// Sends back what comes until the conversation ends.
fn echo(there: &Adapter, back: &Adapter, len: usize) {
    let mut receiver = there.receive(&ReceiveOptions::default(), Timeout::Never).expect("the other side lives");
    let mut sender = back.send(&SendOptions::default(), Timeout::Never).expect("the other side lives");
    let mut pad = vec![0; len];
    while receiver.receive_into(&mut pad, Timeout::Never) != Err(Error::Ended) {
        sender.send(&pad, 0, Timeout::Never).expect("the other side lives");
    }
    sender.close(Timeout::Never).expect("the other side lives");
    receiver.close(Timeout::Never).expect("the other side lives");
}

struct Bench {
    report: Report,
    plan: Plan,
    core: usize,
}

impl Bench {
    fn row(&mut self, case: &str, ours: impl FnOnce(usize, &Plan) -> Samples, peer: floors::Floor) {
        if self.report.wants(case) {
            // The peer before and after, so that drift hits both.
            let before = (peer.measure)(self.core, &self.plan, peer.len).median();
            let ours = ours(self.core, &self.plan).median();
            let after = (peer.measure)(self.core, &self.plan, peer.len).median();
            self.report.row(Row::new(case, ours, (before + after) / 2.0, peer.name, "ns", LOWER)).bar(peer.bar);
        }
    }
}

fn main() -> ExitCode {
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    let [core, .., mine] = *cores else {
        report.note("these cases need two cores");
        return report.finish();
    };
    if let Err(error) = pin(mine) {
        report.note(format_args!("not pinned: {error}"));
    }
    let mut bench = Bench { report, plan: Plan::standard(), core };
    for (mode, name) in [(Mode::Nominal, "nominal"), (Mode::Buffered, "buffered"), (Mode::Single, "single")] {
        for messages in [1, 10] {
            let case = format!("conversation {name}, {messages} x 64 B");
            bench.row(&case, |core, plan| conversations(core, plan, mode, messages), floors::socket(messages));
        }
    }
    bench.row("round trip 8 B", |core, plan| round_trip(core, plan, 8), floors::PROMPT);
    for (len, name) in [(8, "8 B"), (4096, "4 KiB"), (MIB, "1 MiB")] {
        bench.row(&format!("stream {name}"), |core, plan| copied(core, plan, Mode::Nominal, len), floors::pipe(len));
    }
    bench.row("stream 1 MiB as memory", |core, plan| handed(core, plan, MIB, false), floors::GOAL);
    bench.row("stream 1 MiB as memory, filled", |core, plan| handed(core, plan, MIB, true), floors::copy(MIB));
    dragon::rows(&mut bench);
    bench.report.finish()
}
