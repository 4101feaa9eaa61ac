//! Streams of memory, files at their ends, and tasks.
//!
//! These are the rest of the scenarios of the file-like interface.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod pools;

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{Timeout, WaitMode};
use umbra::pool::{self, Allocation, Pool};
use umbra::stream::{Adapter, Attributes, Error, ReceiveOptions, Receiver, SendOptions, Sender};
use umbra::sys::process::ProcessId;

use pools::{fill, used};

/// Only a hang lasts longer.
const WAIT: Timeout = Timeout::After(Duration::from_secs(60));

fn pool() -> Arc<Pool> {
    let uid = umbra::uid::draw().unwrap();
    Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, uid, ..pool::Attributes::default() }).unwrap())
}

/// The same pool, as another process sees it.
fn again(pool: &Pool) -> Arc<Pool> {
    let [manifest, data] = pool.share().unwrap();
    Arc::new(Pool::attach_shared(manifest, data).unwrap())
}

fn bytes_of(memory: &Allocation<'_>) -> Vec<u8> {
    let mut bytes = vec![0; memory.len() as usize];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a67_what_is_written_to_a_file_is_read_from_a_file() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let data: Vec<u8> = (0..10_000_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    for chunk in [0, 64 << 10] {
        let sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
        let receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
        let (write, sends) = sender.into_file(chunk).unwrap();
        let (read, receives) = receiver.into_file(chunk).unwrap();
        assert_eq!(sends.finish(Timeout::Now).unwrap_err(), Error::Timeout, "the file is open");
        let got = thread::scope(|scope| {
            scope.spawn(|| File::from(write).write_all(&data).unwrap());
            let reads = scope.spawn(|| {
                let mut got = vec![];
                File::from(read).read_to_end(&mut got).unwrap();
                got
            });
            let (sender, why) = sends.finish(WAIT).unwrap();
            assert_eq!(why, None);
            sender.close(WAIT).unwrap();
            reads.join().unwrap()
        });
        assert!(got == data, "{} bytes", got.len());
        let (mut receiver, why) = receives.finish(WAIT).unwrap();
        assert_eq!((why, receiver.receive(WAIT)), (None, Err(Error::Ended)));
    }
}

#[test]
fn a67_a_file_whose_reader_went_away_holds_nobody_up() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let mut sender = adapter.send(&SendOptions { may_be_cut: true, ..SendOptions::default() }, WAIT).unwrap();
    let receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let (read, receives) = receiver.into_file(0).unwrap();
    drop(read);
    sender.send(b"nobody reads this", 0, WAIT).unwrap();
    let (receiver, why) = receives.finish(WAIT).unwrap();
    assert_eq!(why, Some(Error::File(rustix::io::Errno::PIPE)));
    receiver.close(WAIT).unwrap();
    let (write, sends) = sender.into_file(0).unwrap();
    File::from(write).write_all(b"nor this").unwrap();
    let (sender, why) = sends.finish(WAIT).unwrap();
    assert_eq!(why, Some(Error::Unheard));
    drop(sender);
    assert_eq!(adapter.counts().unwrap().idle, 8);
}

#[test]
fn what_a_file_did_not_take_of_a_message_is_received_as_its_rest() {
    let adapter = Adapter::create(&Attributes { ring: 1 << 20, ..Attributes::default() }, []).unwrap();
    // More than a pipe takes, and still whole in the ring.
    let message: Vec<u8> = (0..200_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    sender.send(&message, 3, WAIT).unwrap();
    sender.close(WAIT).unwrap();
    let (read, receives) = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap().into_file(0).unwrap();
    drop(read);
    let (mut receiver, why) = receives.finish(WAIT).unwrap();
    assert_eq!(why, Some(Error::File(rustix::io::Errno::PIPE)));
    let rest = receiver.receive(WAIT).unwrap();
    assert!(message.ends_with(&rest.bytes) && !rest.bytes.is_empty() && rest.arg == 3, "{} bytes", rest.bytes.len());
    assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
}

#[test]
fn a67_a_file_that_nobody_finishes_ends_its_conversation_when_it_is_closed() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let (write, sends) = adapter.send(&SendOptions::default(), WAIT).unwrap().into_file(0).unwrap();
    let (read, receives) = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap().into_file(0).unwrap();
    drop((sends, receives));
    let mut write = File::from(write);
    write.write_all(b"all there is").unwrap();
    drop(write);
    assert_eq!(std::io::read_to_string(File::from(read)).unwrap(), "all there is");
    let start = Instant::now();
    while adapter.counts().unwrap().idle < 8 {
        assert!(start.elapsed() < Duration::from_secs(60), "a stream was lost");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a68_a_join_returns_when_no_task_is_left() {
    let adapter = Adapter::create(&Attributes { tasks: true, ..Attributes::default() }, []).unwrap();
    adapter.join_tasks(WaitMode::Idle, Timeout::Now).unwrap();
    (0..100).for_each(|_| adapter.new_task().unwrap());
    let start = Instant::now();
    let late = adapter.join_tasks(WaitMode::Idle, Timeout::After(Duration::from_millis(50)));
    assert!(late == Err(Error::Timeout) && start.elapsed() >= Duration::from_millis(50));
    let done = std::sync::atomic::AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    thread::sleep(Duration::from_micros(100));
                    done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    adapter.task_done().unwrap();
                }
            });
        }
        adapter.join_tasks(WaitMode::Adaptive, WAIT).unwrap();
        assert_eq!(done.load(std::sync::atomic::Ordering::SeqCst), 100);
    });
    assert_eq!(adapter.task_done(), Err(Error::TaskCount));
    let without = Adapter::create(&Attributes::default(), []).unwrap();
    let refused = without.new_task().unwrap_err();
    assert_eq!((&refused, refused.code()), (&Error::NoTasks, "SEMAPHORE_NOT_FOUND"));
    assert_eq!(without.join_tasks(WaitMode::Idle, WAIT), Err(Error::NoTasks));
}

#[test]
fn a69_payloads_are_placed_in_the_pool_that_either_side_chose() {
    let (first, second) = (pool(), pool());
    let [one, two] = [&first, &second].map(|pool| Some(pool.uid()));
    let adapter = Adapter::create(&Attributes::default(), [first.clone(), second.clone()]).unwrap();
    for (sends_in, receives_in, lands_in) in
        [(None, None, &first), (None, two, &second), (two, None, &second), (two, one, &first)]
    {
        let mut sender = adapter.send(&SendOptions { placed_in: sends_in, ..SendOptions::default() }, WAIT).unwrap();
        let options = ReceiveOptions { placed_in: receives_in, ..ReceiveOptions::default() };
        let mut receiver = adapter.receive(&options, WAIT).unwrap();
        sender.send(b"payload", 4, WAIT).unwrap();
        assert_eq!(used(&second), usize::from(sends_in.is_some()));
        let received = receiver.receive_memory(WAIT).unwrap();
        assert_eq!((received.memory.len(), received.arg, received.is_lent), (7, 4, false));
        assert_eq!((used(&first) + used(&second), used(lands_in)), (1, 1));
        received.memory.free().unwrap();
        sender.send(b"to be read as bytes", 4, WAIT).unwrap();
        assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"to be read as bytes");
        assert_eq!(used(&first) + used(&second), 0);
    }
    let third = pool();
    let unknown = SendOptions { placed_in: Some(third.uid()), ..SendOptions::default() };
    let mut sender = adapter.send(&unknown, WAIT).unwrap();
    assert_eq!(sender.send(b"where?", 0, WAIT), Err(Error::UnknownPool(third.uid())));
    let same = Adapter::create(&Attributes::default(), [first.clone(), again(&first)]);
    assert_eq!(same.unwrap_err(), Error::SameUid(first.uid()));
}

#[test]
fn memory_is_not_taken_for_that_of_another_pool_with_the_same_uid() {
    let [ours, theirs] = [(); 2].map(|()| Arc::new(Pool::create(None, &pool::Attributes::default()).unwrap()));
    assert_eq!(ours.uid(), theirs.uid());
    let adapter = Adapter::create(&Attributes::default(), [ours.clone()]).unwrap();
    let other = Adapter::attach(adapter.share().unwrap(), [theirs.clone()]).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = other.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let [sent, bystander] = [&ours, &theirs].map(|pool| pool.alloc(10, 0).unwrap());
    assert_eq!(sent.id(), bystander.id());
    sender.send_memory(sent, 0, WAIT).unwrap();
    assert_eq!(receiver.receive(WAIT), Err(Error::UnknownPool(0)));
    sender.lend_memory(&sent, 0, WAIT).unwrap();
    assert_eq!(receiver.receive_memory(WAIT).unwrap_err(), Error::UnknownPool(0));
    assert!(bystander.exists());
}

#[test]
fn memory_that_is_handed_over_is_the_receivers_and_memory_that_is_lent_is_not() {
    let ours = pool();
    let theirs = again(&ours);
    let adapter = Adapter::create(&Attributes::default(), [ours.clone()]).unwrap();
    let other = Adapter::attach(adapter.share().unwrap(), [theirs.clone()]).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = other.receive(&ReceiveOptions::default(), WAIT).unwrap();

    let block = ours.alloc(5000, 0).unwrap();
    block.write(1000, b"in the middle").unwrap();
    sender.lend_memory(&block.part(1000, 13).unwrap(), 1, WAIT).unwrap();
    let lent = receiver.receive_memory(WAIT).unwrap();
    assert_eq!((lent.memory.id(), lent.memory.len(), lent.is_lent), (block.id(), 13, true));
    let mut bytes = [0; 13];
    lent.memory.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"in the middle");

    // A part of it is read as bytes, the rest as memory.
    sender.send_memory(block, 2, WAIT).unwrap();
    assert_eq!(receiver.receive_into(&mut [0; 1000], WAIT).unwrap().len, 1000);
    let rest = receiver.receive_memory(WAIT).unwrap();
    assert_eq!((rest.memory.len(), rest.arg, rest.is_lent), (4000, 2, false));
    rest.memory.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"in the middle");
    let me = ProcessId::current().unwrap();
    let owned: Vec<_> = theirs.allocations_of(me).into_iter().map(|block| block.id).collect();
    assert_eq!(owned, [block.id()], "it says whose it is");
    rest.memory.free().unwrap();
    assert!(!block.exists());

    // Freed before it was read.
    let gone = ours.alloc(10, 0).unwrap();
    sender.lend_memory(&gone, 3, WAIT).unwrap();
    gone.free().unwrap();
    assert_eq!(receiver.receive_memory(WAIT).unwrap_err(), Error::Pool(pool::Error::Stale));

    // A receiver that does not know the pool.
    let stranger = Adapter::attach(adapter.share().unwrap(), []).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = stranger.receive(&ReceiveOptions::default(), WAIT).unwrap();
    sender.send_memory(ours.alloc(10, 0).unwrap(), 0, WAIT).unwrap();
    assert_eq!(receiver.receive(WAIT), Err(Error::UnknownPool(ours.uid())));
    sender.send(b"bytes", 0, WAIT).unwrap();
    assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"bytes", "the conversation goes on");
    let without = Adapter::create(&Attributes::default(), []).unwrap();
    let refused = without.send(&SendOptions::default(), WAIT).unwrap().send_memory(ours.alloc(9, 0).unwrap(), 0, WAIT);
    assert_eq!(refused, Err(Error::UnknownPool(ours.uid())));
}

#[test]
fn bytes_and_memory_for_which_a_pool_has_no_room_come_when_it_has() {
    let (theirs, home) = (pool(), pool());
    let adapter = Adapter::create(&Attributes::default(), [theirs.clone(), home.clone()]).unwrap();
    let options = ReceiveOptions { placed_in: Some(home.uid()), ..ReceiveOptions::default() };
    for is_memory in [false, true] {
        let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
        let mut receiver = adapter.receive(&options, WAIT).unwrap();
        if is_memory {
            let block = theirs.alloc(7, 0).unwrap();
            block.write(0, b"message").unwrap();
            sender.send_memory(block, 5, WAIT).unwrap();
        } else {
            sender.send(b"message", 5, WAIT).unwrap();
        }
        sender.close(WAIT).unwrap();
        let all = fill(&home);
        for _ in 0..2 {
            let refused = receiver.receive_memory(Timeout::Now).unwrap_err();
            assert!(matches!(refused, Error::Pool(_)), "{refused}");
            let late = receiver.receive_memory(Timeout::After(Duration::from_millis(20))).unwrap_err();
            assert_eq!(late, Error::Timeout);
        }
        all.into_iter().for_each(|block| block.free().unwrap());
        let received = receiver.receive_memory(WAIT).unwrap();
        assert_eq!((bytes_of(&received.memory), received.arg, received.is_lent), (b"message".to_vec(), 5, false));
        assert_eq!((used(&theirs), used(&home)), (0, 1));
        received.memory.free().unwrap();
        assert_eq!(receiver.receive_memory(WAIT).unwrap_err(), Error::Ended);
    }
}

#[test]
fn memory_of_no_bytes_is_no_end_of_a_file() {
    let memory = pool();
    let adapter = Adapter::create(&Attributes::default(), [memory.clone()]).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    let block = memory.alloc(1, 0).unwrap();
    sender.send(b"first, ", 0, WAIT).unwrap();
    (0..2).for_each(|_| sender.lend_memory(&block.part(1, 0).unwrap(), 0, WAIT).unwrap());
    sender.send(b"rest", 0, WAIT).unwrap();
    sender.close(WAIT).unwrap();
    assert_eq!(receiver.read(&mut []).unwrap(), 0);
    assert_eq!(std::io::read_to_string(&mut receiver).unwrap(), "first, rest");
}

#[test]
fn memory_that_was_freed_while_it_is_read_is_lost_and_the_conversation_goes_on() {
    let (theirs, home) = (pool(), pool());
    let adapter = Adapter::create(&Attributes::default(), [theirs.clone(), home.clone()]).unwrap();
    let stale = Error::Pool(pool::Error::Stale);
    let options = ReceiveOptions { placed_in: Some(home.uid()), ..ReceiveOptions::default() };
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = adapter.receive(&options, WAIT).unwrap();
    let read_a_part = |sender: &mut Sender<'_>, receiver: &mut Receiver<'_>| {
        let block = theirs.alloc(10, 0).unwrap();
        sender.lend_memory(&block, 1, WAIT).unwrap();
        sender.send(b"next", 2, WAIT).unwrap();
        assert_eq!(receiver.receive_into(&mut [0; 4], WAIT).unwrap().len, 4);
        block.free().unwrap();
    };
    read_a_part(&mut sender, &mut receiver);
    assert_eq!(receiver.receive(WAIT), Err(stale.clone()));
    assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"next");
    read_a_part(&mut sender, &mut receiver);
    assert_eq!(receiver.receive_memory(WAIT).unwrap_err(), stale);
    assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"next");
    read_a_part(&mut sender, &mut receiver);
    let none = receiver.into_file(0).unwrap_err();
    assert_eq!(none.error, stale);
    let mut receiver = none.end;
    assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"next");
}
