//! Handles and links in a child that was forked off: A23.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(unsafe_code, reason = "forking is no safe call")]

use std::future::Future as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use umbra::boundary::{self, Boundary, Fabric, TransportError};
use umbra::call::border::{Border, ops};
use umbra::call::offer::look;
use umbra::call::{
    CallError, Called, Forked, JoinError, Member, OfferError, Outgoing, Progress, Reply, Shape, Station, WaitError,
};
use umbra::channel::{self, Bell, Channel, ChannelSet, SendOptions, Timeout, WaitMode};
use umbra::config::Platform;
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Address, Close, Identity, Listener, Party, socket_path};
use umbra::pool::{Attributes, Error, Pool};
use umbra::secret::Secret;
use umbra::session::{Seat, Session, SessionError, Settings, SharedSession};
use umbra::stream::{self, Adapter};
use umbra::sys::fork;
use umbra::sys::process::ProcessId;
use umbra_core::chain::{Call, Node, StartError, Tag, Verdict, Work};
use umbra_core::error::Stale;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Host, Incarnation, LocalRank, Peer, Sp, WorldRank};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Lapse;

/// Runs `child` in a forked child, while the parent does `meanwhile`; the pid of the child, which has ended.
fn forks(child: impl FnOnce() -> bool, meanwhile: impl FnOnce(u32)) {
    // SAFETY: the child only does what its closure says, which waits for no other thread of this process, and then exits
    // without running anything of the parent's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        ends(child);
    }
    meanwhile(pid as u32);
    assert!(ended_well(pid), "the child saw something impossible");
}

/// Has this process, which is a child, end before long.
fn is_bounded() {
    // SAFETY: sets a timer of this process alone, whose signal ends it: a child that lives as long hangs.
    unsafe { libc::alarm(60) };
}

/// Ends this process, which is a child; it ends well if `child` says so.
fn ends(child: impl FnOnce() -> bool) -> ! {
    is_bounded();
    // A thread that ends by a panic would end its process as if all had gone well.
    let is_well = catch_unwind(AssertUnwindSafe(child)).unwrap_or(false);
    let code = i32::from(!is_well);
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) };
}

/// Waits for a child; whether it ended well.
fn ended_well(pid: i32) -> bool {
    let mut status = 0;
    // SAFETY: the child is ours and was not waited for; the output is valid.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    (waited, status) == (pid, 0)
}

/// A function that forks: the child goes on as if it had failed, the parent when the child has ended.
fn fork_and_come_back(_: &mut Work<'_>) -> Verdict {
    // SAFETY: the child waits for no other thread of this process, and ends when it comes back to who serves the member.
    match unsafe { libc::fork() } {
        0 => {
            is_bounded();
            Verdict::Fault(7)
        }
        pid if ended_well(pid) => Verdict::Done,
        _ => Verdict::Fault(1),
    }
}

fn poll(called: &mut Called) -> Poll<Result<Reply, CallError>> {
    Pin::new(called).poll(&mut Context::from_waker(Waker::noop()))
}

/// The answer to a call that a thread makes.
fn answered(mut called: Called) -> Result<Reply, CallError> {
    let end = now() + Lapse::from_secs(90);
    loop {
        match poll(&mut called) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => assert!(now() < end, "its thread makes no calls"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_child_knows_its_own_beginning() {
    let parent = ProcessId::current().unwrap();
    assert_eq!(parent, ProcessId::of(std::process::id()).unwrap());
    forks(
        || ProcessId::current().is_ok_and(|me| me != parent && Ok(me) == ProcessId::of(std::process::id())),
        |child| assert_ne!(child, parent.pid),
    );
}

#[test]
fn a23_a_child_allocates_in_its_own_name_and_ends_without_harm() {
    let name = format!("forked-{}", std::process::id());
    let pool = Pool::create(Some(&name), &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap();
    let ours: Vec<_> = (0..10).map(|_| pool.alloc(100, 0).unwrap().id()).collect();
    let inherited = Pool::attach(&name).unwrap();
    let theirs = inherited.alloc(100, 0).unwrap().id();
    let is_done = pool.alloc(1, 0).unwrap();
    let child = || {
        let me = ProcessId::current().unwrap();
        let mine: Vec<_> = (0..5).map(|_| inherited.alloc(100, 0).unwrap().id()).collect();
        let is_own = inherited.allocations_of(me).len() == mine.len();
        let is_freed = inherited.allocation(theirs).unwrap().free().is_ok();
        drop(inherited);
        let done = pool.allocation(is_done.id()).unwrap().free().is_ok();
        // Dropping the creator's handle would end the pool if this were the creator.
        drop(Pool::attach(&name).unwrap());
        is_own && is_freed && done
    };
    let mut of_child = 0;
    forks(child, |pid| of_child = pid);
    assert!(ProcessId::of(of_child).is_err(), "it was waited for");
    assert!(ours.iter().all(|&id| pool.allocation(id).is_ok()), "the parent's blocks stay");
    assert_eq!(pool.allocation(theirs).unwrap_err(), Error::Stale);
    assert_eq!(pool.blocks().count(), ours.len() + 5, "and the child's, which nobody freed");
    assert_eq!(pool.alloc_within(100, 0, Duration::ZERO).unwrap().len(), 100);
}

#[test]
fn a_child_that_drops_the_creators_handle_does_not_end_the_pool() {
    let name = format!("kept-{}", std::process::id());
    let mut pool = Some(Pool::create(Some(&name), &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap());
    forks(
        || {
            drop(pool.take());
            true
        },
        |_| (),
    );
    let pool = pool.unwrap();
    assert!(Pool::attach(&name).is_ok() && pool.alloc(10, 0).is_ok());
}

#[test]
fn a23_a_child_sends_in_its_own_name_and_its_end_takes_nothing_of_the_parents() {
    let attributes = channel::Attributes { members: 2, capacity: 2, spares: 0, ..channel::Attributes::default() };
    let channel = Channel::create(&attributes).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    let child = || {
        let sender = channel.sender(SendOptions { client: 9, ..SendOptions::default() }).unwrap();
        let sent = sender.send(b"from the child", 0, Timeout::Now).is_ok();
        // It ends with a place to write in, which is the child's and not the parent's.
        std::mem::forget(sender.write(5, Timeout::Now).unwrap());
        sent
    };
    forks(child, |_| ());
    let mut pad = [0; 64];
    let message = receiver.receive(&mut pad, Timeout::After(Duration::from_secs(60))).unwrap();
    assert_eq!((&pad[..message.len], message.client), (&b"from the child"[..], 9));
    assert_eq!(channel.reap(), Ok(1));
    let sender = channel.sender(SendOptions::default()).unwrap();
    assert!((0..2).all(|_| sender.send(b"x", 0, Timeout::Now).is_ok()), "no place is lost");
}

#[test]
fn a_child_that_drops_its_parents_member_leaves_no_seat() {
    let station = Station::create("forked", Shape::new(2)).unwrap();
    let mut member = Some(Member::join(&station, Node(1)).unwrap());
    forks(
        || {
            drop(member.take());
            true
        },
        |_| (),
    );
    let taken = Member::join(&station, Node(1)).unwrap_err();
    assert!(matches!(taken, JoinError::Taken { node: Node(1), .. }), "{taken}");
    drop(member);
    Member::join(&station, Node(1)).unwrap();
}

#[test]
fn a_child_is_refused_its_parents_members_and_takes_nothing_out_of_their_inboxes() {
    let station = Station::create("forked-members", Shape { offer_bytes: 4096, ..Shape::new(3) }).unwrap();
    let join = |node| {
        let mut member = Member::join(&station, Node(node)).unwrap();
        member.register("hello", |_| Verdict::Done).unwrap();
        member
    };
    let (mut first, second) = (join(0), join(1));
    let (members, offer) = ([Node(1)], first.offer(b"here").unwrap());
    let (data, hello) = (offer.data(), Call::new(Tag::of("hello"), &members));
    // The request lies in the inbox of the second one.
    let asked = first.start(&hello).unwrap();
    let mut ours = Some((first, second, offer));
    let child = || {
        let (mut first, mut second, offer) = ours.take().unwrap();
        let patience = Duration::from_secs(60);
        let is_refused = first.start(&hello) == Err(StartError::Forked)
            && (first.test(asked), first.cancel(asked)) == (Err(Stale), Err(Stale))
            && first.wait(asked, patience) == Err(WaitError::Forked(Forked))
            && matches!(first.offer(b"mine"), Err(OfferError::Forked(Forked)))
            && matches!(first.house(Node(2)), Err(JoinError::Forked(Forked)));
        first.take_back(offer);
        is_refused && !second.turn() && !second.serve_until(patience, |_| false) && Progress::start(second).is_err()
    };
    forks(child, |_| ());
    let (mut first, mut second, offer) = ours.unwrap();
    let end = now() + Lapse::from_secs(60);
    while !first.test(asked).unwrap() {
        assert!(now() < end, "its request is lost");
        second.turn();
    }
    assert_eq!(first.wait(asked, Duration::ZERO).unwrap().members, 2);
    assert_eq!(look(&station, data, |bytes| bytes.len()), Ok(4));
    first.take_back(offer);
}

#[test]
fn a_child_is_refused_calls_by_a_thread_of_its_parent_and_does_not_wait_for_that() {
    let station = Station::create("forked-thread", Shape::new(1)).unwrap();
    let mut member = Member::join(&station, Node(0)).unwrap();
    member.register("never", |_| Verdict::Pending).unwrap();
    member.register("hello", |_| Verdict::Done).unwrap();
    let progress = Progress::start(member).unwrap();
    let refused = Poll::Ready(Err(CallError::Start(StartError::Forked)));
    let never = progress.call(&Call { budget: Lapse::from_secs(600), ..Call::new(Tag::of("never"), &[Node(0)]) });
    let mut ours = Some((progress, never));
    let child = || {
        let (progress, mut never) = ours.take().unwrap();
        let mut hello = progress.call(&Call::new(Tag::of("hello"), &[Node(0)]));
        poll(&mut never) == refused && poll(&mut hello) == refused
    };
    forks(child, |_| ());
    let (progress, mut never) = ours.unwrap();
    let hello = progress.call(&Call::new(Tag::of("hello"), &[Node(0)]));
    assert!(answered(hello).unwrap().members == 1 && poll(&mut never).is_pending());
}

#[test]
fn a_child_that_comes_back_from_a_function_answers_nobody_in_its_parents_name() {
    let station = Station::create("forked-within", Shape::new(2)).unwrap();
    let [mut first, mut second] = [0, 1].map(|node| Member::join(&station, Node(node)).unwrap());
    first.register("fork", |_| Verdict::Done).unwrap();
    second.register("fork", fork_and_come_back).unwrap();
    let asked = first.start(&Call::new(Tag::of("fork"), &[Node(1)])).unwrap();
    let parent = getpid();
    // The request lies in its inbox, so the function runs in the first turn.
    let is_served = catch_unwind(AssertUnwindSafe(|| second.serve_until(Duration::from_secs(60), |_| true)));
    if getpid() != parent {
        ends(|| is_served.is_ok_and(|is_served| !is_served));
    }
    assert!(is_served.unwrap());
    let end = now() + Lapse::from_secs(60);
    while !first.test(asked).unwrap() {
        assert!(now() < end, "the answer is lost");
        second.turn();
    }
    assert_eq!(first.wait(asked, Duration::ZERO).unwrap().members, 2);
}

#[test]
fn a_thread_of_members_ends_in_a_child_that_comes_back_from_a_function() {
    let station = Station::create("forked-thread-within", Shape::new(1)).unwrap();
    let mut member = Member::join(&station, Node(0)).unwrap();
    member.register("fork", fork_and_come_back).unwrap();
    let progress = Progress::start(member).unwrap();
    let called = progress.call(&Call::new(Tag::of("fork"), &[Node(0)]));
    assert_eq!(answered(called).unwrap().members, 1);
}

#[test]
fn a_child_moves_nothing_over_its_parents_border() {
    let station = Station::create("forked-border", Shape::new(2).joined(0, 2)).unwrap();
    let mut member = Member::join(&station, Node(0)).unwrap();
    let mut border = Border::new(&station, Node(1), Outgoing::new(|| ())).unwrap();
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    border.on_link(1);
    let greeting = bytes(&[2, 2, 4, station.shape().message_bytes, 1, 0]);
    border.on_frame(1, ops::GREET, &greeting).unwrap();
    assert_eq!(member.sees(&[Node(2)]), None);
    let mut body = vec![0; Border::body_max(station.shape())];
    let acts: [fn(&mut Border); 3] = [
        |border| border.on_link(1),
        |border| border.on_gone(1),
        // The member there has left.
        |border| border.on_frame(1, ops::SIT, &[2, 0, 0, 0, 0, 0, 0, 0]).unwrap(),
    ];
    for act in acts {
        let child = || {
            act(&mut border);
            !border.flush() && border.is_idle() && border.poll(|_| true, &mut body).is_none()
        };
        forks(child, |_| ());
        assert_eq!(member.sees(&[Node(2)]), None, "the child has unseated it");
    }
    assert!(matches!(border.poll(|_| true, &mut body), Some((1, ops::GREET, _))));
    border.on_gone(1);
    assert_eq!(member.sees(&[Node(2)]), Some(Node(2)));
}

#[test]
fn a_rank_that_a_process_has_built_is_built_by_no_other_though_the_process_has_died() {
    let shape = umbra_core::boundary::Shape::new([4, 1, 1], [1, 0, 0]).unwrap();
    let mesh = boundary::Grid::new(shape, [1; 3], [true; 3], 1);
    let extent = boundary::Extent { ranks: 1, slots: 2, message: 64 };
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    let build = || {
        let end = Fabric::attach(segment.clone(), extent, 0).unwrap();
        Boundary::build(&mesh, &[boundary::Field::DENSE], end, boundary::Settings::default())
    };
    let mut dead = 0;
    forks(|| build().map(std::mem::forget).is_ok(), |pid| dead = pid);
    let was_built = TransportError::WasBuilt { rank: 0, pid: dead };
    assert_eq!(build().map(drop), Err(boundary::BoundaryError::Transport(was_built)));
}

#[test]
fn a_child_that_drops_its_parents_messages_gives_nothing_back() {
    let pool = Arc::new(Pool::create(None, &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap());
    let attributes = channel::Attributes { capacity: 2, spares: 0, ..channel::Attributes::default() };
    let channel = Channel::create_with(&attributes, [pool.clone()]).unwrap();
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let block = pool.alloc(100, 0).unwrap();
    block.write(0, b"handed over").unwrap();
    sender.send_memory(block, 0, Timeout::Now).unwrap();
    let mut taken = Some(receiver.take(Timeout::Now).unwrap());
    let mut writing = Some(sender.write(7, Timeout::Now).unwrap());
    let child = || {
        drop((taken.take(), writing.take()));
        true
    };
    forks(child, |_| ());
    assert_eq!(sender.write(5, Timeout::Now).map(drop), Err(channel::Error::Full));
    let (taken, writing) = (taken.unwrap(), writing.unwrap());
    let mut eleven = [0; 11];
    taken.bytes().read(0, &mut eleven).unwrap();
    assert_eq!((&eleven, pool.blocks().count()), (b"handed over", 1));
    drop(taken);
    assert_eq!(pool.blocks().count(), 0);
    writing.bytes().write(0, b"written").unwrap();
    writing.send(3, Timeout::Now).unwrap();
    let mut pad = [0; 64];
    let message = receiver.receive(&mut pad, Timeout::Now).unwrap();
    assert_eq!((&pad[..message.len], message.hints), (&b"written"[..], 3));
    assert!((0..2).all(|_| sender.send(b"x", 0, Timeout::Now).is_ok()), "no place is lost");
}

#[test]
fn a_child_that_drops_its_parents_streams_ends_nothing_of_them() {
    let wait = Timeout::After(Duration::from_secs(60));
    let adapter = Adapter::create(&stream::Attributes { members: 2, ..stream::Attributes::default() }, []).unwrap();
    let mut second = Some(Adapter::attach(adapter.share().unwrap(), []).unwrap());
    let mut sender = Some(adapter.send(&stream::SendOptions::default(), wait).unwrap());
    let mut receiver = Some(adapter.receive(&stream::ReceiveOptions::default(), wait).unwrap());
    let child = || {
        drop((sender.take(), receiver.take(), second.take()));
        true
    };
    forks(child, |_| ());
    let third = Adapter::attach(adapter.share().unwrap(), []).map(drop);
    assert!(matches!(third, Err(stream::Error::TooManyMembers(_))), "{third:?}");
    let (mut sender, mut receiver) = (sender.unwrap(), receiver.unwrap());
    sender.send(b"still open", 3, wait).unwrap();
    assert_eq!(receiver.receive(wait).map(|message| message.bytes), Ok(b"still open".to_vec()));
    sender.close(wait).unwrap();
    assert_eq!(receiver.receive(wait), Err(stream::Error::Ended));
}

#[test]
fn a_child_is_refused_its_parents_streams_and_ends_and_attaches_anew() {
    let wait = Timeout::After(Duration::from_secs(60));
    let attributes = stream::Attributes { streams: 2, ..stream::Attributes::default() };
    let adapter = Adapter::create(&attributes, []).unwrap();
    let (to, from) = (stream::SendOptions::default(), stream::ReceiveOptions::default());
    let mut sender = Some(adapter.send(&to, wait).unwrap());
    let mut receiver = Some(adapter.receive(&from, wait).unwrap());
    sender.as_mut().unwrap().send(b"one", 1, wait).unwrap();
    let (_write, sends) = adapter.send(&to, wait).unwrap().into_file(0).unwrap();
    let child = || {
        let (Some(mut sender), Some(mut receiver)) = (sender.take(), receiver.take()) else { return false };
        let forked = Err(stream::Error::Forked);
        let mut pad = [0; 8];
        let sends_nothing = sender.send(b"two", 2, wait) == forked
            && sender.keep(b"three", 3) == forked
            && sender.flush(wait) == forked
            && sender.write(b"four").is_err_and(|error| error.to_string() == stream::Error::Forked.to_string());
        let reads_nothing = receiver.receive(wait).map(drop) == forked
            && receiver.receive_into(&mut pad, wait).map(drop) == forked
            && receiver.receive_exact(&mut pad, wait).map(drop) == forked
            && receiver.receive_memory(wait).map(drop) == forked;
        let has_no_file = sends.finish(Timeout::Never).map(drop) == forked;
        let (sender, receiver) = match (sender.into_file(0), receiver.into_file(0)) {
            (Err(no), Err(neither)) if Err(no.error.clone()) == forked && Err(neither.error.clone()) == forked => {
                (no.end, neither.end)
            }
            _ => return false,
        };
        let ends_nothing = sender.close(wait) == forked && receiver.close(wait) == forked;
        let begins_nothing = adapter.send(&to, wait).map(drop) == forked
            && adapter.receive(&from, wait).map(drop) == forked
            && adapter.supply().map(drop) == forked
            && adapter.destroy() == forked;
        let own = Adapter::attach_reference(&adapter.reference().unwrap(), []).unwrap();
        let attaches = Adapter::attach(adapter.share().unwrap(), []).is_ok() && own.counts().is_ok();
        sends_nothing && reads_nothing && has_no_file && ends_nothing && begins_nothing && attaches
    };
    forks(child, |_| ());
    let (mut sender, mut receiver) = (sender.unwrap(), receiver.unwrap());
    sender.send(b"five", 5, wait).unwrap();
    sender.close(wait).unwrap();
    for (bytes, arg) in [(b"one".to_vec(), 1), (b"five".to_vec(), 5)] {
        assert_eq!(receiver.receive(wait), Ok(stream::Message { bytes, arg }));
    }
    assert_eq!(receiver.receive(wait), Err(stream::Error::Ended));
}

#[test]
fn what_a_child_begins_in_streams_that_it_attached_is_lost_with_it_alone() {
    let wait = Timeout::After(Duration::from_secs(60));
    let adapter = Adapter::create(&stream::Attributes { streams: 1, ..stream::Attributes::default() }, []).unwrap();
    let child = || {
        let own = Adapter::attach(adapter.share().unwrap(), []).unwrap();
        let mut sender = own.send(&stream::SendOptions::default(), wait).unwrap();
        // It ends without an end of the conversation.
        let sent = sender.send(b"of the child", 7, wait).is_ok();
        std::mem::forget(sender);
        std::mem::forget(own);
        sent
    };
    forks(child, |_| ());
    let mut receiver = adapter.receive(&stream::ReceiveOptions::default(), wait).unwrap();
    assert_eq!(receiver.receive(wait).map(|message| message.arg), Ok(7));
    assert_eq!(receiver.receive(wait), Err(stream::Error::PeerDead));
    drop(receiver);
    assert!(adapter.send(&stream::SendOptions::default(), wait).is_ok(), "no stream is lost");
}

#[test]
fn a_child_is_refused_a_message_that_its_parent_has_begun_to_write() {
    let channel = Channel::create(&channel::Attributes::default()).unwrap();
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let mut writing = Some(sender.write(7, Timeout::Now).unwrap());
    let child = || {
        let refused = writing.take().and_then(|writing| writing.send(1, Timeout::Now).err());
        refused.is_some_and(|unsent| unsent.error == channel::Error::Forked && unsent.writing.is_some())
    };
    forks(child, |_| ());
    assert_eq!(channel.count(), Ok(0));
    let writing = writing.unwrap();
    writing.bytes().write(0, b"written").unwrap();
    writing.send(2, Timeout::Now).unwrap();
    let mut pad = [0; 64];
    let message = receiver.receive(&mut pad, Timeout::Now).unwrap();
    assert_eq!((&pad[..message.len], message.hints), (&b"written"[..], 2));
    assert_eq!(receiver.receive(&mut pad, Timeout::Now), Err(channel::Error::Empty));
}

#[test]
fn a_child_is_refused_what_its_parent_opened_at_channels_and_opens_its_own() {
    let wait = Timeout::After(Duration::from_secs(60));
    let pool = Arc::new(Pool::create(None, &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap());
    let made = |kind| {
        let attributes = channel::Attributes { capacity: 2, kind, ..channel::Attributes::default() };
        Channel::create_with(&attributes, [pool.clone()]).unwrap()
    };
    let (messages, count) =
        (made(channel::Kind::Messages), made(channel::Kind::Semaphore { initial: 2, bounded: false }));
    let (sender, receiver) =
        (messages.sender(SendOptions::default()).unwrap(), messages.receiver(WaitMode::Idle).unwrap());
    let (barrier, semaphore) = (messages.barrier().unwrap(), count.semaphore().unwrap());
    let set = ChannelSet::new([&messages], channel::Event::In).unwrap();
    let block = pool.alloc(100, 0).unwrap();
    sender.send(b"one", 1, wait).unwrap();
    let child = || {
        let forked = Err(channel::Error::Forked);
        let mut pad = [0; 8];
        let sends_nothing = sender.send(b"two", 2, wait) == forked
            && sender.write(3, wait).map(drop) == forked
            && sender.send_placed(b"four", &pool, 4, wait) == forked
            && sender.send_into(b"five", block, 5, wait) == forked
            && sender.lend_memory(&block, 6, wait) == forked
            && sender.send_memory(block, 7, wait) == forked;
        let receives_nothing = receiver.receive(&mut pad, wait).map(drop) == forked
            && receiver.take(wait).map(drop) == forked
            && receiver.peek(&mut pad, wait).map(drop) == forked
            && receiver.peek_up_to(8, wait).map(drop) == forked
            && receiver.pop(wait) == forked
            && receiver.receive_memory(wait).map(drop) == forked
            && receiver.receive_placed(&pool, wait).map(drop) == forked
            && receiver.receive_into(&block, wait).map(drop) == forked;
        let is_no_party = barrier.wait(WaitMode::Idle, wait).map(drop) == forked
            && barrier.count_in(WaitMode::Idle, wait).map(drop) == forked
            && barrier.release(wait) == forked
            && barrier.abort() == forked
            && barrier.reset() == forked;
        let counts_nothing = semaphore.acquire(WaitMode::Idle, wait).map(drop) == forked
            && semaphore.release() == forked
            && semaphore.await_zero(WaitMode::Idle, wait) == forked;
        let finds_nothing = set.poll(WaitMode::Idle, wait).map(drop) == forked;
        let own = ChannelSet::new([&messages], channel::Event::In).unwrap();
        let opens = own.poll(WaitMode::Idle, wait).is_ok()
            && count.semaphore().unwrap().acquire(WaitMode::Idle, wait) == Ok(2)
            && messages.sender(SendOptions::default()).unwrap().send(b"eight", 8, wait).is_ok();
        sends_nothing && receives_nothing && is_no_party && counts_nothing && finds_nothing && opens
    };
    forks(child, |_| ());
    assert_eq!((barrier.is_broken(), barrier.waiting(), semaphore.count()), (false, 0, 1));
    assert!(block.exists() && pool.blocks().count() == 1, "nothing was put into the pool, and nothing handed over");
    for (bytes, hints) in [(&b"one"[..], 1), (b"eight", 8)] {
        let mut pad = [0; 8];
        let message = receiver.receive(&mut pad, wait).unwrap();
        assert_eq!((&pad[..message.len], message.hints), (bytes, hints));
    }
}

#[test]
fn a_child_does_not_take_its_parents_ring_back() {
    let channel = Channel::create(&channel::Attributes::default()).unwrap();
    let (set, bell) = (ChannelSet::new([&channel], channel::Event::In).unwrap(), Bell::new().unwrap());
    let rings = |wait: Duration| {
        let mut found = [PollFd::new(&bell, PollFlags::IN)];
        rustix::event::poll(&mut found, Some(&wait.try_into().unwrap())).unwrap() == 1
    };
    std::thread::scope(|scope| {
        let ringing = scope.spawn(|| set.ring(&bell));
        channel.sender(SendOptions::default()).unwrap().send(b"x", 0, Timeout::Now).unwrap();
        assert!(rings(Duration::from_secs(60)));
        let child = || {
            let forked = Err(channel::Error::Forked);
            bell.rearm() == forked && set.ring(&Bell::new().unwrap()) == forked
        };
        forks(child, |_| ());
        assert!(rings(Duration::ZERO), "nobody took it back");
        bell.end();
        assert_eq!(ringing.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_child_that_attaches_what_its_parent_has_attached_does_so_by_itself() {
    let name = format!("once-forked-{}", std::process::id());
    let pool = Pool::create(Some(&name), &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap();
    let ours = Pool::attach_once(&name).unwrap();
    assert_eq!(pool.users().count(), 2);
    let child = || {
        let theirs: Vec<_> = (0..100).map(|_| Pool::attach_once(&name).unwrap()).collect();
        let is_own = !Arc::ptr_eq(&ours, &theirs[0]) && theirs.iter().all(|one| Arc::ptr_eq(one, &theirs[0]));
        let is_one = pool.users().count() == 3;
        drop(theirs);
        is_own && is_one && pool.users().count() == 2 && pool.alloc(100, 0).is_ok()
    };
    forks(child, |_| ());
    assert!(Arc::ptr_eq(&ours, &Pool::attach_once(&name).unwrap()));
}

#[test]
fn a_child_attaches_also_if_a_thread_of_its_parent_was_just_attaching() {
    let name = format!("once-attaching-{}", std::process::id());
    let _pool = Pool::create(Some(&name), &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap();
    let is_over = AtomicBool::new(false);
    let attach = || Pool::attach_once(&name).is_ok();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(attach());
            }
        });
        for _ in 0..40 {
            let child = || {
                let theirs: Vec<_> = (0..20).map(|_| Pool::attach_once(&name).unwrap()).collect();
                theirs.iter().all(|one| Arc::ptr_eq(one, &theirs[0]))
            };
            forks(child, |_| ());
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_done_undivided_is_done_or_not_begun_in_each_child() {
    let (is_over, pair) = (AtomicBool::new(false), Mutex::new((0_u64, 0_u64)));
    let advance = || {
        fork::undivided(|| {
            let mut pair = pair.lock().unwrap();
            pair.0 += 1;
            // What is nested is a part of the same.
            fork::undivided(|| std::thread::sleep(Duration::from_micros(100)));
            pair.1 += 1;
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    advance();
                }
            });
        }
        for _ in 0..40 {
            let child = || {
                let whole = pair.try_lock().is_ok_and(|pair| pair.0 == pair.1);
                if whole {
                    advance();
                }
                whole
            };
            forks(child, |_| ());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let both = pair.into_inner().unwrap();
    assert!(both.0 == both.1 && both.0 > 0);
}

/// Turns a driver until something happens that is wanted.
fn turn(driver: &mut Driver, mut is_wanted: impl FnMut(&Event) -> bool) -> bool {
    let end = now() + Lapse::from_secs(10);
    while now() < end {
        driver.wait(end).unwrap();
        while let Some(event) = driver.next(&mut Vec::new()) {
            if is_wanted(&event) {
                return true;
            }
        }
    }
    false
}

#[test]
fn a_link_ends_with_the_process_that_made_it_while_a_child_of_that_holds_it() {
    let driver = |party, life| {
        let me = Identity { party: Party::Peer(party), incarnation: Incarnation(life) };
        Driver::new(me, Secret::from_bytes([1; 32]), Limits::default())
    };
    let (agent, rank) = (Peer::service(Sp(1)).unwrap(), Peer::rank(WorldRank(3)).unwrap());
    let path = std::env::temp_dir().join(format!("umbra-forked-{}", std::process::id()));
    let mut serving = driver(agent, 5);
    serving.listen(Listener::Unix(UnixListener::bind(&path).unwrap())).unwrap();
    let (mut heirs, mut told) = std::io::pipe().unwrap();
    // Who loses its parent becomes a child of this process.
    set_child_subreaper(Some(getpid())).unwrap();
    let joins = || {
        let mut joining = driver(rank, 6);
        joining.dial(Address::Unix(path.clone()), Party::Peer(agent), now() + Lapse::from_secs(10)).unwrap();
        let is_up = turn(&mut joining, |event| matches!(event, Event::Up { .. }));
        // SAFETY: the child does nothing but sleep, and end.
        let heir = unsafe { libc::fork() };
        if heir == 0 {
            std::thread::sleep(Duration::from_secs(60));
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        is_up && heir > 0 && told.write_all(&heir.to_ne_bytes()).is_ok()
    };
    forks(joins, |_| {
        assert!(turn(&mut serving, |event| matches!(event, Event::Up { .. })));
        let ended = turn(&mut serving, |event| matches!(event, Event::Gone { .. }));
        let mut heir = [0; 4];
        heirs.read_exact(&mut heir).unwrap();
        let heir = Pid::from_raw(i32::from_ne_bytes(heir)).unwrap();
        let had_gone = waitpid(Some(heir), WaitOptions::NOHANG).unwrap().is_some();
        kill_process(heir, Signal::KILL).unwrap();
        waitpid(Some(heir), WaitOptions::empty()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(ended, "the link is held by nobody who could speak");
        assert!(!had_gone, "the heir lived");
    });
}

#[test]
fn a_child_that_drops_links_leaves_the_door_to_its_parent() {
    let me = Identity { party: Party::Peer(Peer::service(Sp(1)).unwrap()), incarnation: Incarnation(5) };
    let mut serving = Driver::new(me, Secret::from_bytes([1; 32]), Limits::default());
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.local_addr().unwrap();
    serving.listen(Listener::Tcp(door)).unwrap();
    let mut inherited = Some(serving);
    let drops = || {
        drop(inherited.take());
        true
    };
    forks(drops, |_| ());
    TcpStream::connect(address).unwrap();
}

/// A session and the service process that it has greeted, in a folder of this name.
fn greeted(name: &str) -> (PathBuf, Driver, Session) {
    let folder = std::env::temp_dir().join(format!("umbra-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (agent, secret) = (Peer::service(Sp(0)).unwrap(), Secret::from_bytes([1; 32]));
    let me = Identity { party: Party::Peer(agent), incarnation: Incarnation(5) };
    let mut serving = Driver::new(me, secret.clone(), Limits::default());
    let path = socket_path(&folder, Sp(0));
    serving.listen(Listener::Unix(UnixListener::bind(path).unwrap())).unwrap();
    let text = "# Format version: 1\n\nnode1,bf1:10.0.0.1:7010:9010\n";
    let job = Platform::parse(text, "job.cfg").unwrap().job(&["bf1"]).unwrap();
    let seat = Seat { rank: WorldRank(0), size: 1, host: Host(0), local: LocalRank(0), n_local: 1 };
    let settings = Settings { sockets: Some(folder.clone()), ..Settings::new(job, secret, seat) };
    let mut session = Session::connect(settings).unwrap();
    let (end, mut is_up) = (now() + Lapse::from_secs(60), false);
    while !is_up && now() < end {
        session.progress(now() + Lapse::from_millis(1)).unwrap();
        serving.wait(now() + Lapse::from_millis(1)).unwrap();
        while let Some(event) = serving.next(&mut Vec::new()) {
            is_up |= matches!(event, Event::Frame { .. });
        }
    }
    assert!(is_up);
    (folder, serving, session)
}

/// The process of a session goes on with it, and ends it.
///
/// A word that its child had said would have the number of its own next word, which would be refused then.
fn goes_on(mut session: Session, (folder, mut serving): (PathBuf, Driver)) {
    let mut hear = |until| {
        let mut frames = 0;
        serving.wait(until).unwrap();
        while let Some(event) = serving.next(&mut Vec::new()) {
            assert!(matches!(event, Event::Frame { .. }), "{event:?}");
            frames += 1;
        }
        frames
    };
    hear(now());
    let end = now() + Lapse::from_secs(60);
    while hear(now() + Lapse::from_millis(1)) == 0 {
        assert!(now() < end, "not a word");
        session.progress(now() + Lapse::from_millis(1)).unwrap();
    }
    drop(session);
    assert!(turn(&mut serving, |event| matches!(event, Event::Gone { why: Close::Ended, .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_child_is_refused_its_parents_session_and_says_nothing_in_its_name() {
    let (folder, serving, session) = greeted("forked-session");
    let mut session = Some(session);
    let child = || {
        let mut inherited = session.take().unwrap();
        let refused = [
            inherited.progress(now()).err(),
            inherited.recover().err(),
            inherited.start_group(3, &[WorldRank(0)]).err(),
            inherited.export_bytes(vec![1; 100]).err(),
            inherited.calls().err(),
            inherited.leave().err(),
        ];
        refused.iter().all(|why| matches!(why, Some(SessionError::Forked)))
    };
    forks(child, |_| ());
    goes_on(session.unwrap(), (folder, serving));
}

#[test]
fn a_child_is_refused_its_parents_shared_session_and_does_not_wait_for_a_thread_that_it_lacks() {
    let (folder, serving, session) = greeted("forked-shared");
    let mut shared = Some(SharedSession::new(session).unwrap());
    let key = Key::new(Peer::rank(WorldRank(0)).unwrap(), 1, 1);
    let locator = Locator::Segment { segment: 3, offset: 0, size: 4096 };
    let ticket = Ticket { key, base: 0x7000, len: 4096, access: Access::READ, locator };
    let child = || {
        let inherited = shared.take().unwrap();
        let refused = [inherited.read(&ticket, 0, &mut [0; 8]), inherited.read_ahead(&ticket, 0, 8)];
        refused.iter().all(|why| matches!(why, Err(SessionError::Forked)))
            && matches!(inherited.into_session(), Err(SessionError::Over))
    };
    forks(child, |_| ());
    forks(|| shared.take().is_some(), |_| ());
    goes_on(shared.unwrap().into_session().unwrap(), (folder, serving));
}
