//! How streams end, and when they are full: scenarios of the file-like interface.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod another;
mod pools;

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use umbra::channel::{Timeout, WaitMode};
use umbra::pool::{self, Pool};
use umbra::reference::{from_text, to_text};
use umbra::stream::{Adapter, Attributes, Error, Meeting, ReceiveOptions, Role, SendOptions, Sender, Snapshot};

use another::{Another, ready, until};
use pools::{fill, used};

/// Only a hang lasts longer.
const WAIT: Timeout = Timeout::After(Duration::from_secs(60));
const SHORT: Duration = Duration::from_millis(200);
const TEXT: &[u8] = b"what is said";

fn pool(uid: u64) -> Arc<Pool> {
    Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, uid, ..pool::Attributes::default() }).unwrap())
}

/// What another process does; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let (what, reference) = role.split_once(' ').unwrap();
    if what == "come" {
        let met = Meeting::begin(reference, Role::Receiver, 4096, Timeout::After(SHORT)).map(drop);
        return assert_eq!(met, Err(Error::Timeout));
    }
    let adapter = Adapter::attach_reference(&from_text(reference).unwrap(), []).unwrap();
    let _receiver = (what == "listen").then(|| adapter.receive(&ReceiveOptions::default(), WAIT).unwrap());
    ready("is there");
    thread::sleep(Duration::from_secs(600));
}

fn start(what: &str, adapter: &Adapter) -> Another {
    Another::start_ready(&format!("{what} {}", to_text(&adapter.reference().unwrap()))).0
}

#[test]
fn the_place_of_a_killed_process_is_the_next_ones() {
    let adapter = Adapter::create(&Attributes { members: 2, ..Attributes::default() }, []).unwrap();
    let mut other = start("attach", &adapter);
    let attach = || Adapter::attach(adapter.share().unwrap(), []);
    assert!(matches!(attach(), Err(Error::TooManyMembers(_))));
    other.kill();
    let next = attach().unwrap();
    next.send(&SendOptions::default(), WAIT).unwrap().close(WAIT).unwrap();
    assert!(adapter.poll().unwrap());
}

#[test]
fn a61_without_an_idle_stream_a_sender_waits_until_a_receiver_closes() {
    let adapter = Adapter::create(&Attributes { streams: 1, messages: 0, ..Attributes::default() }, []).unwrap();
    let options = SendOptions::default();
    adapter.send(&options, WAIT).unwrap().close(WAIT).unwrap();
    assert!(adapter.is_full().unwrap() && adapter.poll().unwrap());
    let refused = adapter.send(&options, Timeout::Now).unwrap_err();
    assert_eq!((&refused, refused.code()), (&Error::Empty, "CHANNEL_EMPTY"));
    let start = Instant::now();
    assert_eq!(adapter.send(&options, Timeout::After(SHORT)).unwrap_err(), Error::Timeout);
    assert!(start.elapsed() >= SHORT);
    thread::scope(|scope| {
        let waits = scope.spawn(|| adapter.send(&options, WAIT).map(drop));
        thread::sleep(Duration::from_millis(50));
        adapter.receive(&ReceiveOptions::default(), WAIT).unwrap().close(WAIT).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
}

#[test]
fn a62_what_is_not_read_is_cleared_away_with_the_memory_that_it_was() {
    let memory = pool(5);
    let adapter = Adapter::create(&Attributes::default(), [memory.clone()]).unwrap();
    for unread in [0, 1, 100_usize] {
        for by_memory in [false, true] {
            let mut sender = adapter.send(&SendOptions { may_be_cut: true, ..SendOptions::default() }, WAIT).unwrap();
            let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
            for n in 0..unread + 1 {
                if by_memory {
                    let block = memory.alloc(100, 0).unwrap();
                    block.write(0, TEXT).unwrap();
                    sender.send_memory(block, n as u64, WAIT).unwrap();
                } else {
                    sender.send(TEXT, n as u64, WAIT).unwrap();
                }
            }
            assert_eq!(&receiver.receive(WAIT).unwrap().bytes[..TEXT.len()], TEXT);
            assert_eq!(used(&memory), if by_memory { unread } else { 0 }, "what was read is freed");
            receiver.close(WAIT).unwrap();
            assert_eq!(sender.send(TEXT, 0, WAIT), Err(Error::Unheard), "its code: {}", Error::Unheard.code());
            sender.close(WAIT).unwrap();
            assert_eq!((used(&memory), adapter.counts().unwrap().idle), (0, 8));
        }
    }
    // Never met, and destroyed.
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    sender.send_memory(memory.alloc(100, 0).unwrap(), 0, WAIT).unwrap();
    sender.close(WAIT).unwrap();
    assert_eq!(used(&memory), 1);
    adapter.destroy().unwrap();
    assert_eq!((used(&memory), adapter.destroy()), (0, Err(Error::Destroyed)));
    assert_eq!(adapter.send(&SendOptions::default(), WAIT).unwrap_err(), Error::Destroyed);
    assert_eq!(adapter.receive(&ReceiveOptions::default(), WAIT).unwrap_err(), Error::Destroyed);

    // Destroyed before a receiver could come.
    let adapter = Adapter::create(&Attributes::default(), [memory.clone()]).unwrap();
    let late = SendOptions { deposit_after: 2, ..SendOptions::default() };
    let mut sender = adapter.send(&late, WAIT).unwrap();
    sender.send_memory(memory.alloc(100, 0).unwrap(), 0, WAIT).unwrap();
    adapter.destroy().unwrap();
    sender.close(WAIT).unwrap();
    assert_eq!((used(&memory), adapter.counts().unwrap().idle), (0, 8));
}

#[test]
fn a63_a_receiver_closes_before_the_end_or_waits_for_it_as_the_sender_chose() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let brief = SendOptions { may_be_cut: true, ..SendOptions::default() };
    let mut sender = adapter.send(&brief, WAIT).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    for n in 0..3 {
        sender.send(TEXT, n, WAIT).unwrap();
        receiver.receive(WAIT).unwrap();
    }
    receiver.close(WAIT).unwrap();
    let cut = sender.send(TEXT, 4, WAIT).unwrap_err();
    assert_eq!((&cut, cut.code()), (&Error::Unheard, "EOT"));
    sender.close(WAIT).unwrap();

    // Else it is read to its end,
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    thread::scope(|scope| {
        let closes = scope.spawn(|| receiver.close(WAIT));
        (0..2000).for_each(|n| sender.send(TEXT, n, WAIT).unwrap());
        sender.close(WAIT).unwrap();
        assert_eq!(closes.join().unwrap(), Ok(()));
    });

    // or until the deadline, also beside one who never stops.
    for pauses in [true, false] {
        let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
        let receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || while !pauses && sender.send(TEXT, 0, WAIT).is_ok() {});
            let start = Instant::now();
            let closed = receiver.close(Timeout::After(SHORT));
            // The one who pauses has closed by now, perhaps.
            assert!(closed == Err(Error::Timeout) || pauses && closed == Ok(()), "{closed:?}");
            assert!(pauses || start.elapsed() >= SHORT);
        });
    }
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let start = Instant::now();
    assert_eq!(receiver.close(Timeout::After(SHORT)), Err(Error::Timeout));
    assert!(start.elapsed() >= SHORT && start.elapsed() < Duration::from_secs(10));
    assert_eq!(adapter.counts().unwrap().idle, 7, "kept from the others until the sender goes on");
    assert_eq!(sender.send(TEXT, 0, WAIT), Err(Error::Unheard));
    drop(sender);
    assert_eq!(adapter.counts().unwrap().idle, 8);
}

#[test]
fn messages_longer_than_the_ring_are_whole_also_when_a_deadline_comes_between() {
    let adapter = Adapter::create(&Attributes { ring: 1024, ..Attributes::default() }, []).unwrap();
    let long: Vec<u8> = (0..100_000_u32).map(|n| (n / 3) as u8).collect();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let partly = sender.send(&long, 8, Timeout::After(Duration::from_millis(20))).unwrap_err();
    assert!(matches!(partly, Error::Partly { sent: 1.., len: 100_000 }), "{partly}");
    assert_eq!(receiver.receive(Timeout::After(Duration::from_millis(20))), Err(Error::Timeout));
    thread::scope(|scope| {
        scope.spawn(move || {
            sender.send(b"and then", 9, WAIT).unwrap();
            sender.close(WAIT).unwrap();
        });
        // The rest of the first and the second are one message, as if they had been kept.
        let message = receiver.receive(WAIT).unwrap();
        assert_eq!(message.bytes.len(), long.len() + 8);
        assert_eq!((&message.bytes[..long.len()], &message.bytes[long.len()..]), (&long[..], &b"and then"[..]));
        assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
    });
}

#[test]
fn what_is_refused_behind_something_unsent_is_not_kept() {
    let memory = pool(6);
    let adapter = Adapter::create(&Attributes { ring: 1024, ..Attributes::default() }, [memory.clone()]).unwrap();
    let long = [7; 20_000];
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    assert!(matches!(sender.send(&long, 0, Timeout::Now), Err(Error::Partly { .. })));
    for _ in 0..2 {
        assert_eq!(sender.send(b"x", 0, Timeout::Now), Err(Error::Full));
        assert_eq!(sender.send(b"x", 0, Timeout::After(Duration::from_millis(5))), Err(Error::Timeout));
    }
    thread::scope(|scope| {
        scope.spawn(move || {
            sender.send(b"x", 0, WAIT).unwrap();
            sender.close(WAIT).unwrap();
        });
        assert!(receiver.receive(WAIT).unwrap().bytes == [&long[..], b"x"].concat());
        assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
    });
    // The pool has no room for what is to be placed in it.
    let options = SendOptions { placed_in: Some(6), ..SendOptions::default() };
    let mut sender = adapter.send(&options, WAIT).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let all = fill(&memory);
    sender.keep(b"a", 0).unwrap();
    for _ in 0..2 {
        assert!(matches!(sender.send(b"b", 0, Timeout::Now), Err(Error::Pool(_))));
    }
    all.into_iter().for_each(|block| block.free().unwrap());
    sender.send(b"b", 0, WAIT).unwrap();
    assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"ab");
}

#[test]
fn what_a_deadline_puts_back_comes_again_as_the_messages_that_it_was() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let short = Timeout::After(Duration::from_millis(20));
    for messages in [&[&b"abc"[..]][..], &[b"abc", b"de"], &[b"abc", b"de", b"f"]] {
        let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
        let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
        for (message, arg) in messages.iter().zip(1..) {
            sender.send(message, arg, WAIT).unwrap();
        }
        for timeout in [short, Timeout::Now, short] {
            let late = if timeout == short { Error::Timeout } else { Error::Empty };
            assert_eq!(receiver.receive_exact(&mut [0; 10], timeout), Err(late));
        }
        // Of the first one a part is read.
        let piece = receiver.receive_into(&mut [0; 2], WAIT).unwrap();
        assert_eq!((piece.len, piece.arg, piece.is_last), (2, 1, false));
        assert_eq!(receiver.receive_exact(&mut [0; 10], short), Err(Error::Timeout));
        sender.send(b"behind", 9, WAIT).unwrap();
        sender.close(WAIT).unwrap();
        let rest = [&[&b"c"[..]], &messages[1..]].concat();
        for (message, arg) in rest.iter().zip(1..) {
            let got = receiver.receive(WAIT).unwrap();
            assert_eq!((&got.bytes[..], got.arg), (*message, arg));
        }
        assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"behind");
        assert!(receiver.has_ended());
        assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
    }
}

#[test]
fn what_is_heard_of_late_is_heard_of_when_there_is_no_room() {
    let memory = pool(7);
    let adapter = Adapter::create(&Attributes { ring: 1024, ..Attributes::default() }, [memory.clone()]).unwrap();
    let soon = Timeout::After(Duration::from_secs(5));
    let (long, many) = ([7; 100_000], 100);
    let all = |deposit_after, placed_in, say: &(dyn Fn(&mut Sender<'_>) -> Result<(), Error> + Sync)| {
        let options = SendOptions { deposit_after, placed_in, ..SendOptions::default() };
        let mut sender = adapter.send(&options, WAIT).unwrap();
        thread::scope(|scope| {
            let reads = scope.spawn(|| {
                let mut receiver = adapter.receive(&ReceiveOptions::default(), soon)?;
                Ok::<usize, Error>(std::iter::from_fn(|| receiver.receive(soon).ok()).map(|got| got.bytes.len()).sum())
            });
            let said = say(&mut sender).and_then(|()| sender.close(soon));
            (said, reads.join().unwrap())
        })
    };
    // One message that is longer than the ring,
    assert_eq!(all(1, None, &|sender| sender.send(&long, 0, soon)), (Ok(()), Ok(long.len())));
    // many short ones,
    let short = |sender: &mut Sender<'_>| (0..many).try_for_each(|_| sender.send(&long[..100], 0, soon));
    assert_eq!(all(many, None, &short), (Ok(()), Ok(10_000)));
    // also of memory,
    let block = memory.alloc(100, 0).unwrap();
    let lent = |sender: &mut Sender<'_>| (0..many).try_for_each(|_| sender.lend_memory(&block, 0, soon));
    assert_eq!(all(many, None, &lent), (Ok(()), Ok(10_000)));
    block.free().unwrap();
    // and few ones that a pool has no room for.
    let placed = |sender: &mut Sender<'_>| (0..12).try_for_each(|_| sender.send(&long, 0, soon));
    assert_eq!(all(many, Some(7), &placed), (Ok(()), Ok(12 * long.len())));
    // A single try is enough.
    let mut sender = adapter.send(&SendOptions { deposit_after: 1, ..SendOptions::default() }, WAIT).unwrap();
    assert!(matches!(sender.send(&long, 0, Timeout::Now), Err(Error::Partly { .. })));
    assert!(adapter.poll().unwrap());
}

#[test]
fn an_end_is_a_file_and_a_panic_no_end() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || (0..1000).for_each(|n| writeln!(sender, "line {n}").unwrap()));
        let text = std::io::read_to_string(receiver).unwrap();
        assert!(text.lines().eq((0..1000).map(|n| format!("line {n}"))));
    });
    let mut sender = adapter.send(&SendOptions { timeout: Timeout::Now, ..SendOptions::default() }, WAIT).unwrap();
    let options = ReceiveOptions { timeout: Timeout::Now, mode: WaitMode::Idle, ..ReceiveOptions::default() };
    let mut receiver = adapter.receive(&options, WAIT).unwrap();
    assert_eq!(receiver.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    sender.write_all(b"half of it").unwrap();
    let panics = thread::scope(|scope| {
        scope
            .spawn(move || {
                let _sender = sender;
                std::panic::resume_unwind(Box::new("in the middle"));
            })
            .join()
    });
    assert!(panics.is_err());
    assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"half of it");
    assert_eq!(receiver.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a46_of_more_spinners_than_allowed_the_others_sleep_and_all_are_served() {
    let adapter = Adapter::create(&Attributes { max_spinners: 1, ..Attributes::default() }, []).unwrap();
    let looked = || Snapshot::of_reference(&adapter.reference().unwrap()).unwrap();
    assert_eq!(looked().spinning, 0);
    let options = ReceiveOptions { mode: WaitMode::Spin, ..ReceiveOptions::default() };
    thread::scope(|scope| {
        let receive = || adapter.receive(&options, WAIT).unwrap().receive(WAIT).unwrap();
        scope.spawn(receive);
        let start = Instant::now();
        while looked().spinning == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody spins");
            thread::sleep(Duration::from_millis(1));
        }
        // Who comes later finds that there is one.
        scope.spawn(receive);
        scope.spawn(receive);
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(1));
            assert_eq!(looked().spinning, 1);
        }
        for _ in 0..3 {
            let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
            sender.send(b"served", 0, WAIT).unwrap();
            // Whoever received it may have left by now.
            let _ = sender.close(WAIT);
        }
    });
    assert_eq!(looked().spinning, 0);
}

/// Why this ended that waits for room in a pool when it has begun to wait and `end` was done.
fn ended<T: Send>(pool: &Pool, wait: impl FnOnce() -> Result<T, Error> + Send, end: impl FnOnce()) -> Option<Error> {
    thread::scope(|scope| {
        let waits = scope.spawn(wait);
        until("a wait for room", || pool.is_awaited());
        end();
        waits.join().unwrap().err()
    })
}

#[test]
fn who_waits_for_room_in_a_pool_learns_that_nobody_will_receive_it() {
    for is_killed in [true, false] {
        let memory = pool(71);
        let adapter = Adapter::create(&Attributes::default(), [memory.clone()]).unwrap();
        let options = SendOptions { placed_in: Some(71), ..SendOptions::default() };
        let mut sender = adapter.send(&options, WAIT).unwrap();
        let mut other = start("listen", &adapter);
        let _all = fill(&memory);
        let end = || if is_killed { other.kill() } else { adapter.destroy().unwrap() };
        let why = ended(&memory, || sender.send(TEXT, 0, WAIT), end);
        assert_eq!(why, Some(if is_killed { Error::PeerDead } else { Error::Destroyed }));
    }
}

#[test]
fn who_waits_for_room_in_a_pool_learns_that_the_streams_were_destroyed() {
    let [first, second] = [72, 73].map(pool);
    let [whole, piece] = [&first, &second].map(|pool| Adapter::create(&Attributes::default(), [pool.clone()]).unwrap());
    let options = SendOptions { buffered: true, placed_in: Some(72), ..SendOptions::default() };
    let mut sender = whole.send(&options, WAIT).unwrap();
    let mut told = piece.send(&SendOptions::default(), WAIT).unwrap();
    told.send(TEXT, 0, WAIT).unwrap();
    let mut receiver = piece.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let (_all, long) = ([&first, &second].map(|pool| fill(pool)), vec![0; 1 << 16]);
    assert_eq!(ended(&first, || sender.send(&long, 0, WAIT), || whole.destroy().unwrap()), Some(Error::Destroyed));
    assert_eq!(ended(&second, || receiver.receive_memory(WAIT), || piece.destroy().unwrap()), Some(Error::Destroyed));
}

#[test]
fn who_tries_again_and_again_for_room_in_a_pool_learns_that_the_receiver_was_killed() {
    let memory = pool(74);
    let adapter = Adapter::create(&Attributes::default(), [memory.clone()]).unwrap();
    let options = SendOptions { placed_in: Some(74), ..SendOptions::default() };
    let mut sender = adapter.send(&options, WAIT).unwrap();
    let mut other = start("listen", &adapter);
    let _all = fill(&memory);
    assert!(matches!(sender.send(TEXT, 0, Timeout::Now), Err(Error::Pool(_))));
    other.kill();
    until("the death is found", || sender.send(TEXT, 0, Timeout::Now) == Err(Error::PeerDead));
}

#[test]
fn who_comes_to_a_name_waits_no_longer_because_he_is_interrupted() {
    let name = format!("interrupted-{}", std::process::id());
    // It answers only when it joins, which it does not.
    let _first = Meeting::begin(&name, Role::Sender, 4096, WAIT).unwrap();
    let mut other = Another::start(&format!("come {name}"));
    let pid = Pid::from_raw(other.id().pid.cast_signed()).unwrap();
    until("the end of his time", || {
        // Waits of sockets with a limit are broken off by this, whatever the process does with signals.
        for signal in [Signal::STOP, Signal::CONT] {
            kill_process(pid, signal).unwrap();
            thread::sleep(SHORT / 10);
        }
        other.has_ended()
    });
    other.finish();
}

#[test]
fn who_comes_to_a_name_at_which_a_crowd_waits_for_its_turn_waits_until_his_deadline_only() {
    let name = format!("crowd-{}", std::process::id());
    let path = format!("umbra-stream.{}.{name}", rustix::process::geteuid().as_raw());
    let address = SocketAddrUnix::new_abstract_name(path.as_bytes()).unwrap();
    let socket = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    // A holder of the name who has room for few and takes in nobody.
    let holder = socket();
    bind(&holder, &address).unwrap();
    listen(&holder, 0).unwrap();
    let mut crowd = Vec::new();
    let full = loop {
        let one = socket();
        match connect(&one, &address) {
            Ok(()) => crowd.push(one),
            Err(why) => break why,
        }
    };
    assert_eq!(full, Errno::AGAIN);
    let (tell, told) = mpsc::channel();
    let come = move || Meeting::begin(&name, Role::Receiver, 4096, Timeout::After(SHORT)).map(drop);
    thread::spawn(move || tell.send(come()));
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(Err(Error::Timeout)));
}

#[test]
fn who_waits_at_a_name_to_which_strangers_come_waits_until_his_deadline_only() {
    let name = format!("strangers-{}", std::process::id());
    let path = format!("umbra-stream.{}.{name}", rustix::process::geteuid().as_raw());
    let address = SocketAddrUnix::new_abstract_name(path.as_bytes()).unwrap();
    let first = Meeting::begin(&name, Role::Sender, 4096, WAIT).unwrap();
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    // Strangers who come and go, faster than they are taken in.
    let stranger = || {
        while !is_over.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(20) {
            let one = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
            if connect(&one, &address).is_err() {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(stranger);
        }
        assert_eq!(first.join(Timeout::After(SHORT)), Err(Error::Timeout));
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(began.elapsed() < Duration::from_secs(5), "he waited until no more strangers came");
}
