//! Memory of pools through channels: messages by reference.
//!
//! These are scenarios A29, A30, A33 to A37, A40, A42, A47 and A50.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{Attributes, Channel, Error, Event, Receiver, SendOptions, Sender, Timeout, WaitMode};
use umbra::pool::{self, Pool};
use umbra::reference::to_text;
use umbra::sys::process::ProcessId;

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const LONG: Timeout = Timeout::After(Duration::from_secs(60));
const NOW: Timeout = Timeout::Now;

fn pool(bytes: u64) -> Arc<Pool> {
    Arc::new(Pool::create(None, &pool::Attributes { bytes, ..pool::Attributes::default() }).unwrap())
}

/// The same pool, as another process has it.
fn another_pool(pool: &Pool) -> Arc<Pool> {
    let [manifest, data] = pool.share().unwrap();
    Arc::new(Pool::attach_shared(manifest, data).unwrap())
}

/// A channel of four messages, as its creator and as another process have it.
fn two_ends(pool: &Arc<Pool>) -> [Channel; 2] {
    let attributes = Attributes { capacity: 4, block: 256, ..Attributes::default() };
    let ours = Channel::create_with(&attributes, [pool.clone()]).unwrap();
    let theirs = Channel::attach_with(ours.share().unwrap(), [another_pool(pool)]).unwrap();
    [ours, theirs]
}

fn handles([ours, theirs]: &[Channel; 2]) -> (Sender<'_>, Receiver<'_>) {
    (ours.sender(SendOptions::default()).unwrap(), theirs.receiver(WaitMode::Idle).unwrap())
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at * 31 + seed * 7) as u8).collect()
}

fn blocks(pool: &Pool) -> usize {
    pool.blocks().count()
}

#[test]
fn a29_hints_and_client_ids_arrive_unchanged_with_memory() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (_, receiver) = handles(&ends);
    for value in [u64::MAX, 0] {
        let sender = ends[0].sender(SendOptions { client: value, ..SendOptions::default() }).unwrap();
        sender.send_memory(pool.alloc(10, 0).unwrap(), value, NOW).unwrap();
        let parcel = receiver.receive_memory(NOW).unwrap();
        let message = parcel.message();
        assert_eq!((message.hints, message.client, message.handle), (value, value, sender.id()));
        parcel.free().unwrap();
    }
}

#[test]
fn a30_messages_of_every_length_arrive_and_what_is_longer_than_a_block_goes_through_the_pool() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    for len in [0, 1, 255, 256, 257, 5000, 300_000] {
        let bytes = pattern(len, 1);
        sender.send(&bytes, 0, NOW).unwrap();
        assert_eq!(blocks(&pool), usize::from(len > 256), "only what does not fit takes a block");
        let mut pad = vec![0; len + 1];
        assert_eq!(receiver.receive(&mut pad, NOW).unwrap().len, len);
        assert_eq!(pad[..len], bytes);
        sender.send(&bytes, 0, NOW).unwrap();
        let parcel = receiver.receive_memory(NOW).unwrap();
        let mut copy = vec![0; len];
        parcel.read(0, &mut copy).unwrap();
        assert_eq!((parcel.message().len, copy), (len, bytes));
        parcel.free().unwrap();
        assert_eq!(blocks(&pool), 0);
    }
    assert_eq!(sender.send(&[0; 2 << 20], 0, NOW).unwrap_err().code(), "DYNHEAP_REQUESTED_SIZE_TOO_LARGE");
}

#[test]
fn a30_a_gibibyte_changes_hands_without_a_copy() {
    // The pages of a memfd that nobody touches take no memory.
    let pool = pool(2 << 30);
    let ends = Channel::create_with(&Attributes { capacity: 4, ..Attributes::default() }, [pool.clone()]).unwrap();
    let (sender, receiver) = (ends.sender(SendOptions::default()).unwrap(), ends.receiver(WaitMode::Adaptive).unwrap());
    let mut memory = pool.alloc(1 << 30, 0).unwrap();
    memory.write((1 << 30) - 4, b"last").unwrap();
    let (place, mut quickest) = (memory.pointer().unwrap(), Duration::MAX);
    for _ in 0..1000 {
        let start = Instant::now();
        sender.send_memory(memory, 0, NOW).unwrap();
        memory = receiver.receive_memory(NOW).unwrap().allocation().unwrap();
        quickest = quickest.min(start.elapsed());
        assert_eq!(memory.pointer().unwrap(), place);
    }
    // A copy takes a hundred milliseconds.
    assert!(quickest < Duration::from_millis(1), "{quickest:?}");
    let mut last = [0; 4];
    memory.read((1 << 30) - 4, &mut last).unwrap();
    assert_eq!(&last, b"last");
    memory.free().unwrap();
}

#[test]
fn a33_copied_and_referred_messages_keep_their_order_and_none_is_lost() {
    const COUNT: u64 = 10_000;
    let pool = pool(4 << 20);
    let attributes = Attributes { capacity: 8, block: 256, ..Attributes::default() };
    let channel = Channel::create_with(&attributes, [pool.clone()]).unwrap();
    let received: Vec<Vec<(u64, u64)>> = thread::scope(|scope| {
        for client in 0..2 {
            let (channel, pool) = (&channel, &pool);
            scope.spawn(move || {
                let sender = channel.sender(SendOptions { client, ..SendOptions::default() }).unwrap();
                for n in 0..COUNT {
                    let bytes = pattern(1 + (n % 500) as usize, n);
                    if n % 3 == 0 {
                        sender.send_placed(&bytes, pool, n, LONG).unwrap();
                    } else {
                        sender.send(&bytes, n, LONG).unwrap();
                    }
                }
            });
        }
        let receive = |_| {
            let channel = &channel;
            scope.spawn(move || {
                let receiver = channel.receiver(WaitMode::Adaptive).unwrap();
                (0..COUNT)
                    .map(|n| {
                        let (message, bytes) = if n % 2 == 0 {
                            let parcel = receiver.receive_memory(LONG).unwrap();
                            let mut bytes = vec![0; parcel.message().len];
                            parcel.read(0, &mut bytes).unwrap();
                            let message = parcel.message();
                            parcel.free().unwrap();
                            (message, bytes)
                        } else {
                            let mut pad = vec![0; 500];
                            let message = receiver.receive(&mut pad, LONG).unwrap();
                            pad.truncate(message.len);
                            (message, pad)
                        };
                        assert_eq!(bytes, pattern(1 + (message.hints % 500) as usize, message.hints));
                        (message.client, message.hints)
                    })
                    .collect()
            })
        };
        let receivers: Vec<_> = (0..2).map(receive).collect();
        receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect()
    });
    let mut all: Vec<_> = received.concat();
    for of_one in received {
        for client in 0..2 {
            let numbers: Vec<_> = of_one.iter().filter(|m| m.0 == client).map(|m| m.1).collect();
            assert!(numbers.is_sorted(), "each receiver sees the order of each sender");
        }
    }
    all.sort_unstable();
    assert_eq!(all, (0..2).flat_map(|client| (0..COUNT).map(move |n| (client, n))).collect::<Vec<_>>());
    assert_eq!(blocks(&pool), 0);
}

#[test]
fn a34_memory_that_does_not_fit_stays_the_first_and_lands_in_what_is_large_enough() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    let bytes = pattern(1000, 3);
    for by_reference in [false, true] {
        let bytes = if by_reference { &bytes[..] } else { &bytes[..100] };
        let len = bytes.len();
        sender.send(bytes, 9, NOW).unwrap();
        let small = pool.alloc(10, 0).unwrap();
        let too_small = Error::PadTooSmall { len, pad: 10 };
        assert_eq!(receiver.receive(&mut [0; 10], NOW), Err(too_small.clone()));
        let refused = receiver.receive_into(&small, NOW).unwrap_err();
        assert_eq!((&refused, refused.code()), (&too_small, "CHANNEL_RECV_INVALID_DESTINATION_MEMORY"));
        let large = pool.alloc(4096, 0).unwrap();
        let (landed, message) = receiver.receive_into(&large, NOW).unwrap();
        let mut copy = vec![0; len];
        landed.read(0, &mut copy).unwrap();
        assert_eq!((landed.len(), message.hints, &copy[..]), (len as u64, 9, bytes));
        assert_eq!(blocks(&pool), 2, "the source was freed");
        [small, large].into_iter().for_each(|memory| memory.free().unwrap());
    }
}

#[test]
fn a34_a_message_that_is_to_land_in_freed_memory_stays_the_first() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    sender.send_placed(&pattern(1000, 3), &pool, 9, NOW).unwrap();
    let freed = pool.alloc(4096, 0).unwrap();
    freed.free().unwrap();
    assert_eq!(receiver.receive_into(&freed, NOW).unwrap_err(), Error::Pool(pool::Error::Stale));
    assert_eq!((ends[0].count().unwrap(), blocks(&pool)), (1, 1), "the message and its memory are kept");
    let parcel = receiver.receive_memory(NOW).unwrap();
    assert_eq!((parcel.message().len, parcel.message().hints), (1000, 9));
    parcel.free().unwrap();
}

#[test]
fn a35_without_room_in_the_pool_nothing_is_sent_and_nothing_is_lost() {
    let pool = pool(1 << 16);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    let mine = pool.alloc(1 << 14, 0).unwrap();
    sender.send(b"inline", 1, NOW).unwrap();
    let mut fill = vec![];
    while let Ok(memory) = pool.alloc(32, 0) {
        fill.push(memory);
    }
    // Of a send.
    let is_full = |sent| matches!(sent, Err(Error::Pool(pool::Error::Alloc(error))) if error.is_passing());
    assert!(is_full(sender.send(&[0; 1000], 2, NOW)) && is_full(sender.send_placed(&[0; 1000], &pool, 2, NOW)));
    let short = Timeout::After(Duration::from_millis(20));
    assert_eq!(sender.send(&[0; 1000], 2, short), Err(Error::Timeout));
    assert_eq!((ends[0].count().unwrap(), mine.exists()), (1, true));
    // Of a receive.
    assert!(matches!(receiver.receive_memory(NOW), Err(Error::Pool(pool::Error::Alloc(_)))));
    assert_eq!(receiver.receive_memory(short).unwrap_err(), Error::Timeout);
    assert_eq!(ends[0].count().unwrap(), 1, "the message is kept");
    mine.free().unwrap();
    fill.into_iter().for_each(|memory| memory.free().unwrap());
    let parcel = receiver.receive_memory(NOW).unwrap();
    assert_eq!((parcel.message().len, parcel.message().hints), (6, 1));
    parcel.free().unwrap();
    assert_eq!(blocks(&pool), 0);
}

#[test]
fn a47_the_end_of_a_channel_wakes_who_waits_for_room_in_the_pool() {
    for receives in [false, true] {
        let pool = pool(1 << 16);
        let ends = two_ends(&pool);
        let (sender, receiver) = handles(&ends);
        sender.send(b"inline", 1, NOW).unwrap();
        while pool.alloc(32, 0).is_ok() {}
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                if receives { receiver.receive_memory(LONG).map(|_| ()) } else { sender.send(&[0; 1000], 2, LONG) }
            });
            while !pool.is_awaited() && !waiting.is_finished() {
                thread::yield_now();
            }
            ends[0].destroy().unwrap();
            assert_eq!(waiting.join().unwrap(), Err(Error::Destroyed), "receives: {receives}");
        });
    }
}

#[test]
fn a35_what_is_to_land_in_a_pool_lands_there() {
    let (home, other) = (pool(1 << 20), pool(1 << 20));
    let attributes = Attributes { capacity: 4, block: 256, ..Attributes::default() };
    let channel = Channel::create_with(&attributes, [home.clone(), other.clone()]).unwrap();
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    sender.send_placed(b"there", &other, 0, NOW).unwrap();
    assert_eq!((blocks(&home), blocks(&other)), (0, 1));
    let parcel = receiver.receive_placed(&other, NOW).unwrap();
    assert_eq!((blocks(&home), blocks(&other)), (0, 1), "it is there already");
    sender.send_memory(parcel.allocation().unwrap(), 0, NOW).unwrap();
    let parcel = receiver.receive_placed(&home, NOW).unwrap();
    assert_eq!((blocks(&home), blocks(&other)), (1, 0), "moved");
    let mut bytes = [0; 5];
    parcel.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    // Into memory that the sender chose.
    let (target, place) = (parcel.allocation().unwrap(), parcel.pointer().unwrap());
    assert!(matches!(sender.send_into(&[0; 6], target, 0, NOW), Err(Error::Pool(pool::Error::OutOfBounds { .. }))));
    sender.send_into(b"own", target, 0, NOW).unwrap();
    let landed = receiver.receive_memory(NOW).unwrap();
    assert_eq!((landed.message().len, landed.pointer().unwrap()), (3, place));
    landed.free().unwrap();
    assert_eq!((blocks(&home), blocks(&other)), (0, 0));
}

#[test]
fn a36_who_waits_for_memory_holds_up_nobody() {
    let pool = pool(1 << 16);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    let all = pool.alloc(1 << 16, 0).unwrap();
    sender.send(b"first", 1, NOW).unwrap();
    let parcel = thread::scope(|scope| {
        let waiting = scope.spawn(|| receiver.receive_memory(LONG));
        thread::sleep(Duration::from_millis(50));
        let (other, mut fastest) = (ends[1].receiver(WaitMode::Idle).unwrap(), Duration::MAX);
        for n in 0..100 {
            let start = Instant::now();
            sender.send(b"next", n, NOW).unwrap();
            other.receive(&mut [0; 16], NOW).unwrap();
            fastest = fastest.min(start.elapsed());
        }
        // On a loaded machine not each of them is fast; upstream needs 1.7 s for one.
        assert!(fastest < Duration::from_micros(100), "{fastest:?}");
        assert!(!waiting.is_finished());
        all.free().unwrap();
        waiting.join().unwrap().unwrap()
    });
    assert_eq!(parcel.message().len, 4, "the others received what was first when it began");
    parcel.free().unwrap();
}

#[test]
fn a37_what_is_handed_over_is_the_receivers_and_what_is_lent_is_not() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    let memory = pool.alloc(100, 7).unwrap();
    memory.write(0, b"handed").unwrap();
    sender.send_memory(memory, 0, NOW).unwrap();
    assert!(!memory.exists(), "the sender's handle is dead at once");
    assert_eq!(memory.free(), Err(pool::Error::Stale));
    assert_eq!(memory.write(0, b"x"), Err(pool::Error::Stale));
    let parcel = receiver.receive_memory(NOW).unwrap();
    let received = parcel.allocation().unwrap();
    received.write(0, b"H").unwrap();
    assert!(!parcel.is_lent() && received.exists());
    let block = pool.blocks().next().unwrap();
    assert_eq!((block.id, block.kind), (received.id(), 7));
    parcel.free().unwrap();

    // What could not be sent is the caller's still.
    let memory = pool.alloc(100, 0).unwrap();
    for n in 0..4 {
        sender.send(b"", n, NOW).unwrap();
    }
    assert_eq!(sender.send_memory(memory, 0, NOW), Err(Error::Full));
    assert_eq!(sender.send_memory(memory, 0, Timeout::After(Duration::from_millis(20))), Err(Error::Timeout));
    memory.write(0, b"mine").unwrap();
    (0..4).for_each(|_| receiver.pop(NOW).unwrap());

    // What is lent can be read, and that is all.
    sender.lend_memory(&memory.part(1, 3).unwrap(), 0, NOW).unwrap();
    let parcel = receiver.receive_memory(NOW).unwrap();
    let mut bytes = [0; 3];
    parcel.read(0, &mut bytes).unwrap();
    assert_eq!((&bytes, parcel.is_lent(), parcel.allocation().unwrap_err()), (b"ine", true, Error::Lent));
    assert_eq!(parcel.free().unwrap_err().code(), "INVALID_OPERATION");
    sender.lend_memory(&memory, 0, NOW).unwrap();
    receiver.pop(NOW).unwrap();
    assert!(memory.exists(), "nobody but its owner frees it");
    sender.lend_memory(&memory, 0, NOW).unwrap();
    memory.free().unwrap();
    assert_eq!(receiver.receive(&mut [0; 100], NOW), Err(Error::Pool(pool::Error::Stale)), "lost with its memory");
    assert_eq!(ends[0].count().unwrap(), 0);
}

#[test]
fn a37_memory_of_unknown_pools_is_neither_sent_nor_received() {
    let (known, unknown) = (pool(1 << 20), pool(1 << 20));
    let ends = two_ends(&known);
    let (sender, receiver) = handles(&ends);
    let memory = unknown.alloc(10, 0).unwrap();
    assert_eq!(sender.send_memory(memory, 0, NOW), Err(Error::UnknownPool(unknown.uid())));
    assert!(memory.exists());
    let stranger = Channel::attach(ends[0].share().unwrap()).unwrap();
    let theirs = stranger.receiver(WaitMode::Idle).unwrap();
    sender.send(&[1; 1000], 0, NOW).unwrap();
    assert_eq!(theirs.receive(&mut [0; 1000], NOW), Err(Error::UnknownMemory(known.instance())));
    assert_eq!(theirs.receive_memory(NOW).unwrap_err(), Error::UnknownMemory(known.instance()));
    let which = format!("{:#x}", known.instance());
    for refused in [theirs.receive(&mut [0; 1000], NOW).unwrap_err(), theirs.receive_memory(NOW).unwrap_err()] {
        assert!(refused.to_string().contains(&which), "{refused} does not name {which}");
    }
    assert_eq!(receiver.receive(&mut [0; 1000], NOW).unwrap().len, 1000, "it was kept");
    sender.send(b"inline", 0, NOW).unwrap();
    assert_eq!(theirs.receive_memory(NOW).unwrap_err(), Error::NoPool);
    let refused = stranger.sender(SendOptions::default()).unwrap().send(&[1; 1000], 0, NOW);
    assert_eq!(refused, Err(Error::MessageTooLarge { len: 1000, block: 256 }));
    sender.send(&[1; 1000], 0, NOW).unwrap();
    assert_eq!(stranger.poll(Event::Reset, WaitMode::Idle, NOW), Ok(Event::Reset as u64), "it can be removed");
    assert_eq!(ends[0].count(), Ok(0));
}

const VARIABLE: &str = "UMBRA_TEST_POOL";

/// A process that receives two messages, one where it lies and one as its own, and keeps them until it is killed; as a
/// test of its own it does nothing.
#[test]
fn another_process() {
    if std::env::var(VARIABLE).is_err() {
        return;
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let pool = Arc::new(Pool::attach_from_environment(VARIABLE).unwrap());
    let channel = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let channel = Channel::attach_with(channel, [pool]).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    let _parcel = receiver.receive_memory(LONG).unwrap();
    let _in_place = receiver.take(LONG).unwrap();
    let signal = channel.sender(SendOptions::default()).unwrap();
    signal.send(b"has them", 0, LONG).unwrap();
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn a40_memory_that_a_killed_receiver_had_is_his_or_free() {
    let pool = pool(1 << 20);
    let [ours, theirs] = two_ends(&pool);
    let (sender, receiver) = (ours.sender(SendOptions::default()).unwrap(), theirs.receiver(WaitMode::Idle).unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process", "--nocapture"])
        .env(VARIABLE, to_text(&pool.reference().unwrap()))
        .stdin(Stdio::from(ours.share().unwrap()))
        .spawn()
        .unwrap();
    sender.send_memory(pool.alloc(500, 0).unwrap(), 1, NOW).unwrap();
    sender.send_memory(pool.alloc(600, 0).unwrap(), 2, NOW).unwrap();
    let start = Instant::now();
    while receiver.peek(&mut [0; 16], LONG).unwrap().len != 8 {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody receives");
        thread::sleep(Duration::from_millis(1));
    }
    let dead = ProcessId::of(child.id()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((ours.reap(), blocks(&pool)), (Ok(1), 1), "what it was looking at is free");
    let left: Vec<_> = pool.allocations_of(dead).into_iter().map(|block| block.len).collect();
    assert_eq!((left, pool.free_allocations_of(dead)), (vec![500], Ok(1)), "what it had received was its own");
    receiver.pop(NOW).unwrap();
    for n in 0..4 {
        sender.send(b"", n, NOW).unwrap();
    }
}

#[test]
fn a42_a47_a_reset_and_the_end_of_a_channel_free_what_nobody_received() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (sender, _) = handles(&ends);
    let kept = pool.alloc(10, 0).unwrap();
    let fill = || {
        sender.send(b"inline", 0, NOW).unwrap();
        sender.send_memory(pool.alloc(300, 0).unwrap(), 0, NOW).unwrap();
        sender.send(&[0; 1000], 0, NOW).unwrap();
        sender.lend_memory(&kept, 0, NOW).unwrap();
        assert_eq!(blocks(&pool), 3);
    };
    fill();
    ends[1].poll(Event::Reset, WaitMode::Idle, NOW).unwrap();
    assert_eq!((ends[0].count().unwrap(), blocks(&pool)), (0, 1));
    fill();
    ends[1].destroy().unwrap();
    assert_eq!((blocks(&pool), kept.exists()), (1, true));
    assert_eq!(sender.send_memory(kept, 0, NOW), Err(Error::Destroyed));
    kept.free().unwrap();
}

#[test]
fn a50_a_peek_shows_memory_and_leaves_it_and_a_pop_frees_it() {
    let pool = pool(1 << 20);
    let ends = two_ends(&pool);
    let (sender, receiver) = handles(&ends);
    let bytes = pattern(1000, 5);
    sender.send(&bytes, 3, NOW).unwrap();
    for _ in 0..2 {
        let mut pad = [0; 2000];
        let seen = receiver.peek(&mut pad, NOW).unwrap();
        assert_eq!((seen.len, seen.hints, &pad[..1000]), (1000, 3, &bytes[..]));
        let mut front = [0; 10];
        assert_eq!((receiver.peek(&mut front, NOW).unwrap().len, &front[..]), (1000, &bytes[..10]));
    }
    assert_eq!(blocks(&pool), 1);
    receiver.pop(NOW).unwrap();
    assert_eq!((blocks(&pool), receiver.pop(NOW)), (0, Err(Error::Empty)));
    // In place, too.
    sender.send(&bytes, 3, NOW).unwrap();
    let taken = receiver.take(NOW).unwrap();
    let mut copy = [0; 1000];
    taken.bytes().read(0, &mut copy).unwrap();
    assert_eq!((&copy[..], taken.message().len, blocks(&pool)), (&bytes[..], 1000, 1));
    drop(taken);
    assert_eq!(blocks(&pool), 0);
}
