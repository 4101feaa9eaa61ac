//! Queue pairs, keys and completions on a real device (s44, s46, s51).
//!
//! Both ends are in this process. Without a device each test says `skipped: ` and why; `umbra devices` shows what a
//! machine has.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use umbra::verbs::{Device, Piece, Queue, Remote, VerbsError, Work, WorkKind, WorkStatus};
use umbra_core::key::Access;
use umbra_tests::verbs::{DEPTHS, PAGE, Pair, all, at, bytes, connect, device, fill, hear};

#[test]
fn reads_and_writes_move_exactly_the_bytes_of_the_region() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (theirs, ours) =
        (pair.memory(64 * PAGE, Access::READ | Access::WRITE), pair.memory(64 * PAGE, Access::empty()));
    let expected = fill(&theirs, 7);
    let read = Work::Read { from: at(&theirs, 0), to: all(&ours) };
    pair.ends[0].post(&[(11, read)]).unwrap();
    let [done] = hear(&mut pair.ends[0], 1)[..] else { panic!("one completion was asked for") };
    assert_eq!((done.id, done.status, done.kind), (11, WorkStatus::Success, WorkKind::Read));
    assert!(bytes(&ours) == expected);
    // And back, one byte further, so that the ends of the range are seen.
    let part = Piece { region: &ours, offset: 0, len: 1000 };
    let write = Work::Write { from: part, to: at(&theirs, 1), immediate: None };
    pair.ends[0].post(&[(12, write)]).unwrap();
    assert_eq!(hear(&mut pair.ends[0], 1)[0].kind, WorkKind::Write);
    let after = bytes(&theirs);
    assert!(after[0] == expected[0] && after[1..1001] == expected[..1000] && after[1001..] == expected[1001..]);
}

#[test]
fn one_completion_stands_for_a_batch_and_a_full_queue_refuses() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (theirs, ours) = (pair.memory(PAGE, Access::READ), pair.memory(16 * PAGE, Access::empty()));
    let expected = fill(&theirs, 3);
    let works = |region| {
        std::array::from_fn::<_, 16, _>(|n| {
            let to = Piece { region, offset: n * PAGE, len: PAGE as u32 };
            (n as u64, Work::Read { from: at(&theirs, 0), to })
        })
    };
    for _ in 0..4 {
        pair.ends[0].post(&works(&ours)).unwrap();
    }
    assert!(matches!(pair.ends[0].post(&works(&ours)[..1]), Err(VerbsError::Full)));
    let ended: Vec<u64> = hear(&mut pair.ends[0], 4).iter().map(|done| done.id).collect();
    assert_eq!(ended, [15; 4]);
    assert!(bytes(&ours).chunks(PAGE).all(|page| page == expected));
    pair.ends[0].post(&works(&ours)).unwrap();
    assert_eq!(hear(&mut pair.ends[0], 1)[0].status, WorkStatus::Success);
}

#[test]
fn sends_and_immediate_words_arrive_in_order() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (inbox, ours) = (pair.memory(4 * PAGE, Access::WRITE), pair.memory(PAGE, Access::empty()));
    let sent = fill(&ours, 9);
    for n in 0..2 {
        pair.ends[1].receive(n, Piece { region: &inbox, offset: n as usize * PAGE, len: PAGE as u32 }).unwrap();
    }
    let to = at(&inbox, 3 * PAGE);
    let write = Work::Write { from: Piece { region: &ours, offset: 0, len: 8 }, to, immediate: Some(0xC0FF_EE00) };
    pair.ends[0].post(&[(1, Work::Send { from: all(&ours) }), (2, write)]).unwrap();
    assert_eq!(hear(&mut pair.ends[0], 1)[0].id, 2);
    let heard = hear(&mut pair.ends[1], 2);
    assert_eq!((heard[0].kind, heard[0].bytes, heard[0].immediate), (WorkKind::Received, PAGE as u32, None));
    assert_eq!((heard[1].kind, heard[1].bytes, heard[1].immediate), (WorkKind::Written, 8, Some(0xC0FF_EE00)));
    let there = bytes(&inbox);
    assert!(there[..PAGE] == sent && there[3 * PAGE..3 * PAGE + 8] == sent[..8]);
}

#[test]
fn s44_the_card_refuses_what_lies_outside_or_was_not_granted_and_the_queue_can_be_rebuilt() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (theirs, ours) = (pair.memory(PAGE, Access::READ), pair.memory(PAGE, Access::empty()));
    let piece = Piece { region: &ours, offset: 0, len: 2 };
    let wrong_key = Remote { rkey: theirs.rkey() ^ 0x55, ..at(&theirs, 0) };
    let refused = [
        Work::Read { from: at(&theirs, PAGE - 1), to: piece },
        Work::Read { from: wrong_key, to: piece },
        Work::Write { from: piece, to: at(&theirs, 0), immediate: None },
    ];
    for work in refused {
        pair.post(1, work);
        assert_eq!(hear(&mut pair.ends[0], 1)[0].status, WorkStatus::RemoteAccess, "{work:?}");
        // Broken on both sides, and whole again after both were rebuilt.
        assert!(matches!(pair.ends[0].post(&[(2, work)]), Err(VerbsError::NotConnected)));
        pair.rebuild();
        let expected = fill(&theirs, 5);
        pair.ends[0].post(&[(3, Work::Read { from: at(&theirs, 0), to: piece })]).unwrap();
        assert_eq!(hear(&mut pair.ends[0], 1)[0].status, WorkStatus::Success);
        assert_eq!(bytes(&ours)[..2], expected[..2]);
    }
    // What does not lie in our own memory is not even posted.
    let outside = Piece { region: &ours, offset: PAGE - 1, len: 2 };
    let outside = pair.ends[0].post(&[(4, Work::Read { from: at(&theirs, 0), to: outside })]);
    assert!(matches!(outside, Err(VerbsError::OutOfBounds { offset: 4095, len: 2, size: 4096 })));
}

#[test]
fn s46_once_memory_is_taken_back_the_card_itself_refuses_its_key() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (theirs, ours) = (pair.memory(PAGE, Access::READ), pair.memory(PAGE, Access::empty()));
    fill(&theirs, 1);
    let (old, segment) = (at(&theirs, 0), theirs.segment().clone());
    drop(theirs);
    // Poisoned: not one of these bytes may move.
    segment.write(0, &[0xEE; PAGE]).unwrap();
    pair.ends[0].post(&[(1, Work::Read { from: old, to: all(&ours) })]).unwrap();
    assert_eq!(hear(&mut pair.ends[0], 1)[0].status, WorkStatus::RemoteAccess);
    assert!(bytes(&ours).iter().all(|&byte| byte == 0));
}

#[test]
fn s51_one_owners_broken_queue_disturbs_no_other() {
    let Some(device) = device() else { return };
    let mut bad = Pair::new(&device);
    let mut good = [(); 2].map(|()| Queue::new(&bad.domain, &bad.port, DEPTHS).unwrap());
    connect(&mut good);
    let (theirs, ours) = (bad.memory(PAGE, Access::READ), bad.memory(PAGE, Access::empty()));
    let expected = fill(&theirs, 2);
    let wrong = Remote { rkey: theirs.rkey() ^ 0x55, ..at(&theirs, 0) };
    bad.ends[0].post(&[(1, Work::Read { from: wrong, to: all(&ours) })]).unwrap();
    assert_eq!(hear(&mut bad.ends[0], 1)[0].status, WorkStatus::RemoteAccess);
    good[0].post(&[(2, Work::Read { from: at(&theirs, 0), to: all(&ours) })]).unwrap();
    assert_eq!(hear(&mut good[0], 1)[0].status, WorkStatus::Success);
    assert!(bytes(&ours) == expected);
}

#[test]
fn what_is_behind_a_failure_is_flushed_and_a_peer_that_is_gone_is_told() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (theirs, ours) = (pair.memory(PAGE, Access::READ), pair.memory(PAGE, Access::empty()));
    let piece = Piece { region: &ours, offset: 0, len: 8 };
    let wrong = Remote { rkey: theirs.rkey() ^ 0x55, ..at(&theirs, 0) };
    pair.ends[0].post(&[(1, Work::Read { from: wrong, to: piece })]).unwrap();
    pair.ends[0].post(&[(2, Work::Read { from: at(&theirs, 0), to: piece })]).unwrap();
    let heard = hear(&mut pair.ends[0], 2);
    assert_eq!([heard[0].id, heard[1].id], [1, 2]);
    assert_eq!([heard[0].status, heard[1].status], [WorkStatus::RemoteAccess, WorkStatus::Flushed]);
    let Pair { ends: [mut here, there], domain, port } = Pair::new(&device);
    drop(there);
    here.post(&[(3, Work::Read { from: at(&theirs, 0), to: piece })]).unwrap();
    assert_eq!(hear(&mut here, 1)[0].status, WorkStatus::RetryExceeded);
    drop((domain, port));
    // Nobody posted a buffer: that is told too, and not waited for without end.
    let mut pair = Pair::new(&device);
    let ours = pair.memory(PAGE, Access::empty());
    pair.ends[0].post(&[(4, Work::Send { from: Piece { region: &ours, offset: 0, len: 8 } })]).unwrap();
    assert_eq!(hear(&mut pair.ends[0], 1)[0].status, WorkStatus::ReceiverNotReady);
}

#[test]
fn settings_that_cannot_be_used_are_refused_with_a_remedy() {
    let Some(device) = device() else { return };
    let unknown = Device::open(Some("no_such_device")).unwrap_err().to_string();
    assert!(unknown.contains("no_such_device") && unknown.contains(device.name()), "{unknown}");
    let gid = device.active_port(1, Some(200)).unwrap_err();
    assert!(matches!(gid, VerbsError::NoSuchGid { port: 1, index: 200, .. }), "{gid}");
    assert!(device.port(99).is_err());
}

#[test]
fn small_pieces_arrive_whether_or_not_the_device_takes_them_along() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    println!("inline data: at most {} B", pair.ends[0].inline());
    let (theirs, ours) = (pair.memory(PAGE, Access::WRITE), pair.memory(PAGE, Access::empty()));
    let most = pair.ends[0].inline().max(8) as usize;
    for len in [0, 1, most, most + 1] {
        fill(&theirs, 1);
        let sent = fill(&ours, 2);
        let from = Piece { region: &ours, offset: 3, len: len as u32 };
        pair.post(len as u64, Work::Write { from, to: at(&theirs, 7), immediate: None });
        assert_eq!(pair.hear().status, WorkStatus::Success, "{len} B");
        let mut expected: Vec<u8> = (0..PAGE).map(|at| (at as u8).wrapping_mul(31).wrapping_add(1)).collect();
        expected[7..7 + len].copy_from_slice(&sent[3..3 + len]);
        assert!(bytes(&theirs) == expected, "{len} B");
    }
}

#[test]
fn events_of_completions_that_were_polled_do_not_pile_up() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    let (theirs, ours) = (pair.memory(PAGE, Access::READ), pair.memory(PAGE, Access::empty()));
    for round in 0..20 {
        pair.ends[0].arm().unwrap();
        pair.ends[0].post(&[(round, Work::Read { from: at(&theirs, 0), to: all(&ours) })]).unwrap();
        // Long enough, as a rule, that the read has ended and its event is there before anybody looks.
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(hear(&mut pair.ends[0], 1)[0].status, WorkStatus::Success);
    }
    let readable = |queue: &Queue| {
        let descriptor = queue.descriptor();
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    };
    if readable(&pair.ends[0]) {
        pair.ends[0].take_event().unwrap();
    }
    assert!(!readable(&pair.ends[0]), "at most one event waits, however many completions there were");
}
