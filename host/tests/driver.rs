//! Links over real sockets (s22, s25, s40).
//!
//! There are hostile bytes at the door, dialling before the peer exists, and descriptors.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use umbra::driver::{Driver, Event, Limits, LinkId, now};
use umbra::link::{Address, Close, Identity, Listener, Party, SendError, Side};
use umbra::secret::Secret;
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, Op, Token};

const SERVICE: Identity = Identity { party: Party::Peer(Peer::service(Sp(1)).unwrap()), incarnation: Incarnation(5) };
const RANK: Identity = Identity { party: Party::Peer(Peer::rank(WorldRank(3)).unwrap()), incarnation: Incarnation(6) };

const HANDSHAKE: Lapse = Lapse::from_secs(2);

fn driver(me: Identity, secret: u8) -> Driver {
    Driver::new(me, Secret::from_bytes([secret; 32]), Limits { handshake: HANDSHAKE, ..Limits::default() })
}

fn tcp() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    (listener, address)
}

fn soon() -> Time {
    now() + Lapse::from_secs(10)
}

/// Turns both drivers until `until` answers something.
fn turn<T>(drivers: &mut [&mut Driver], mut until: impl FnMut(usize, Event, &[u8]) -> Option<T>) -> T {
    let (end, mut frame) = (soon(), Vec::new());
    loop {
        assert!(now() < end, "nothing happened in 10 s");
        for (i, driver) in drivers.iter_mut().enumerate() {
            driver.wait(now() + Lapse::from_millis(2)).unwrap();
            while let Some(event) = driver.next(&mut frame) {
                if let Some(answer) = until(i, event, &frame) {
                    return answer;
                }
            }
        }
    }
}

fn connect(a: &mut Driver, b: &mut Driver) -> (LinkId, LinkId) {
    let (mut left, mut right) = (None, None);
    turn(&mut [a, b], |i, event, _| {
        let Event::Up { link, .. } = event else { panic!("{event:?}") };
        *(if i == 0 { &mut left } else { &mut right }) = Some(link);
        left.zip(right)
    })
}

/// Others hold the door of a process, as a child does that was forked off.
#[test]
fn who_knocks_at_a_process_that_has_ended_is_refused_whoever_holds_its_door() {
    let (listener, Address::Tcp(address)) = tcp() else { panic!("it is a port") };
    let path = SocketAddr::from_abstract_name(umbra::uid::draw().unwrap().to_le_bytes()).unwrap();
    let unix = UnixListener::bind_addr(&path).unwrap();
    let _held = (listener.try_clone().unwrap(), unix.try_clone().unwrap());
    let mut service = driver(SERVICE, 1);
    service.listen(Listener::Tcp(listener)).unwrap();
    service.listen(Listener::Unix(unix)).unwrap();
    drop(service);
    let refused = Err(ErrorKind::ConnectionRefused);
    assert_eq!(TcpStream::connect(address).map(drop).map_err(|error| error.kind()), refused);
    assert_eq!(UnixStream::connect_addr(&path).map(drop).map_err(|error| error.kind()), refused);
    // Nor is anybody in the way of the next one there.
    let _next = TcpListener::bind(address).unwrap();
}

fn call(body: &[u8]) -> Frame<'_> {
    Frame::Call { op: Op(0x0301), token: Token(4), body }
}

#[test]
fn two_processes_shake_hands_and_exchange_frames_over_tcp() {
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 1));
    let (listener, address) = tcp();
    b.listen(Listener::Tcp(listener)).unwrap();
    a.dial(address, SERVICE.party, soon()).unwrap();
    let (left, _) = connect(&mut a, &mut b);
    let body = vec![9; 60_000];
    for _ in 0..10 {
        a.send(left, &call(&body), Vec::new()).unwrap();
    }
    let mut got = 0;
    turn(&mut [&mut a, &mut b], |i, event, frame| {
        assert!(i == 1 && matches!(event, Event::Frame { .. }));
        assert_eq!(Frame::parse(frame).unwrap(), call(&body));
        got += 1;
        (got == 10).then_some(())
    });
    assert_eq!(a.send(left, &call(b""), vec![File::open("/dev/null").unwrap().into()]), Err(SendError::Descriptors));
}

#[test]
fn a_unix_link_passes_descriptors_with_their_frames_and_tells_the_process() {
    let path = std::env::temp_dir().join(format!("umbra-driver-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 1));
    b.listen(Listener::Unix(UnixListener::bind(&path).unwrap())).unwrap();
    a.dial(Address::Unix(path.clone()), SERVICE.party, soon()).unwrap();
    let (mut link, mut told) = (None, None);
    let (link, pid) = turn(&mut [&mut a, &mut b], |i, event, _| {
        let Event::Up { link: l, pid, .. } = event else { panic!("{event:?}") };
        if i == 0 {
            link = Some(l)
        } else {
            told = pid
        }
        link.zip(told)
    });
    assert_eq!(pid, std::process::id());
    let file = |text: &[u8]| -> OwnedFd {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(text).unwrap();
        file.rewind().unwrap();
        file.into()
    };
    let bulk = vec![1; 50_000];
    a.send(link, &call(&bulk), Vec::new()).unwrap();
    a.send(link, &call(b"one"), vec![file(b"first")]).unwrap();
    a.send(link, &call(b"none"), Vec::new()).unwrap();
    a.send(link, &call(b"two"), vec![file(b"second"), file(b"third")]).unwrap();
    let mut got = Vec::new();
    turn(&mut [&mut a, &mut b], |_, event, _| {
        let Event::Frame { descriptors, .. } = event else { panic!("{event:?}") };
        got.push(
            descriptors
                .into_iter()
                .map(|fd| {
                    let mut text = String::new();
                    File::from(fd).read_to_string(&mut text).unwrap();
                    text
                })
                .collect::<Vec<_>>(),
        );
        (got.len() == 4).then_some(())
    });
    assert_eq!(got, [vec![], vec!["first".to_owned()], vec![], vec!["second".to_owned(), "third".to_owned()]]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn the_end_of_a_process_is_told_after_its_last_frame() {
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 1));
    let (listener, address) = tcp();
    b.listen(Listener::Tcp(listener)).unwrap();
    a.dial(address, SERVICE.party, soon()).unwrap();
    let (left, right) = connect(&mut a, &mut b);
    a.send(left, &call(b"last words"), Vec::new()).unwrap();
    a.flush();
    drop(a);
    let mut heard = false;
    let gone = turn(&mut [&mut b], |_, event, frame| match event {
        Event::Frame { .. } => {
            heard = Frame::parse(frame).unwrap() == call(b"last words");
            None
        }
        Event::Gone { link, party, why } => Some((link, party, why)),
        other => panic!("{other:?}"),
    });
    assert!(heard);
    assert_eq!(gone, (right, Some(RANK.party), Close::Ended));
}

/// Two processes that are linked over a Unix socket or over TCP, and the numbers of their link.
fn linked(over_unix: bool) -> ((Driver, LinkId), (Driver, LinkId)) {
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 1));
    if over_unix {
        let (ours, theirs) = UnixStream::pair().unwrap();
        a.adopt(ours.into(), true, Side::Initiator).unwrap();
        b.adopt(theirs.into(), true, Side::Acceptor).unwrap();
    } else {
        let (listener, address) = tcp();
        b.listen(Listener::Tcp(listener)).unwrap();
        a.dial(address, SERVICE.party, soon()).unwrap();
    }
    let (left, right) = connect(&mut a, &mut b);
    ((a, left), (b, right))
}

/// Sends twice: over TCP only the second one finds that nobody is there.
fn answer_nobody(driver: &mut Driver, link: LinkId) {
    for _ in 0..2 {
        driver.flush();
        // It may have been found already.
        let _ = driver.send(link, &call(b"an answer"), Vec::new());
    }
}

#[test]
fn whoever_still_sends_to_a_process_that_has_ended_hears_all_that_it_said() {
    for case in 0..16 {
        let [over_unix, unread, between, flushed] = [1, 2, 4, 8].map(|bit| case & bit != 0);
        let ((mut a, left), (mut b, right)) = linked(over_unix);
        if unread {
            b.send(right, &call(b"a question"), Vec::new()).unwrap();
            b.flush();
        }
        a.send(left, &call(b"news"), Vec::new()).unwrap();
        a.send(left, &call(b"last words"), Vec::new()).unwrap();
        a.flush();
        drop(a);
        let mut heard = Vec::new();
        let mut take = |b: &mut Driver, all: bool| {
            turn(&mut [b], |_, event, frame| match event {
                Event::Frame { .. } => {
                    let Frame::Call { body, .. } = Frame::parse(frame).unwrap() else { panic!("{frame:?}") };
                    heard.push(body.to_vec());
                    (!all).then_some(Close::Local)
                }
                Event::Gone { link, party, why } => {
                    assert_eq!((link, party), (right, Some(RANK.party)));
                    Some(why)
                }
                other => panic!("{other:?}"),
            })
        };
        if between {
            take(&mut b, false);
        }
        answer_nobody(&mut b, right);
        if flushed {
            b.flush();
        }
        let why = take(&mut b, true);
        assert_eq!(heard, [&b"news"[..], b"last words"], "case {case}");
        assert_eq!(why, Close::Ended, "case {case}");
    }
}

#[test]
fn last_words_that_are_more_than_fits_at_once_are_all_heard() {
    let ((mut a, left), (mut b, right)) = linked(true);
    let body = vec![9; 60_000];
    (0..3).for_each(|_| a.send(left, &call(&body), Vec::new()).unwrap());
    a.flush();
    assert_eq!(a.unsent(left), 0, "the socket takes all of them");
    drop(a);
    // The second look finds no room, and that the peer has hung up.
    (0..2).for_each(|_| b.wait(soon()).unwrap());
    answer_nobody(&mut b, right);
    let mut heard = 0;
    turn(&mut [&mut b], |_, event, frame| match event {
        Event::Frame { .. } => {
            assert_eq!(Frame::parse(frame).unwrap(), call(&body));
            heard += 1;
            None
        }
        Event::Gone { why, .. } => {
            assert_eq!((heard, why), (3, Close::Ended));
            Some(())
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn what_cannot_be_sent_to_a_process_that_has_ended_is_dropped() {
    let ((a, _), (mut b, right)) = linked(true);
    drop(a);
    b.send(right, &call(b"an answer"), vec![File::open("/dev/null").unwrap().into()]).unwrap();
    b.flush();
    assert_eq!((b.unsent(right), b.has_unsent()), (0, false));
    assert_eq!(b.send(right, &call(b"another"), Vec::new()), Err(SendError::NotUp));
    assert_eq!(turn_alone(&mut b), (Some(RANK.party), Close::Ended));
}

#[test]
fn time_passes_for_links_only_as_far_as_they_were_looked_at() {
    let ((mut a, left), (mut b, _)) = linked(true);
    b.wait(Time::ZERO).unwrap();
    let looked = b.looked();
    a.send(left, &call(b"a sign of life"), Vec::new()).unwrap();
    a.flush();
    let sent = now();
    let mut frame = Vec::new();
    while b.looked() < sent {
        assert!(b.looked() == looked && b.next(&mut frame).is_none());
        b.wait(Time::ZERO).unwrap();
    }
    assert!(matches!(b.next(&mut frame), Some(Event::Frame { .. })));
    assert!(b.next(&mut frame).is_none());
    let deadline = now() + Lapse::from_millis(5);
    b.wait(deadline).unwrap();
    assert!(b.looked() >= deadline, "also after a sleep");
}

/// Queues so many long frames, and sends what the socket takes.
fn speak(driver: &mut Driver, link: LinkId, frames: usize) {
    for _ in 0..frames {
        // What finds no room is not needed.
        let _ = driver.send(link, &call(&[7; BODY_MAX]), Vec::new());
    }
    driver.flush();
}

#[test]
fn time_passes_only_once_all_is_heard_that_came_before_and_is_more_than_a_look_takes() {
    // Over TCP some of it may still lie at the speaker.
    let ((mut speaker, link), (mut listener, _)) = linked(true);
    speak(&mut speaker, link, 3);
    let end = soon();
    while speaker.has_unsent() {
        assert!(now() < end, "the socket has no room");
        speaker.flush();
    }
    let (said, mut frames, mut frame) = (now(), 0, Vec::new());
    while listener.looked() < said {
        assert!(now() < end, "the time stands still");
        listener.wait(Time::ZERO).unwrap();
        while listener.next(&mut frame).is_some() {
            frames += 1;
        }
    }
    assert_eq!(frames, 3);
}

#[test]
fn who_never_stops_to_speak_does_not_stop_the_time() {
    let ((mut speaker, link), (mut listener, _)) = linked(false);
    let (begun, end, mut frame) = (now(), soon(), Vec::new());
    while listener.looked() < begun {
        assert!(now() < end, "the time stands still");
        speak(&mut speaker, link, 8);
        listener.wait(Time::ZERO).unwrap();
        while listener.next(&mut frame).is_some() {}
    }
}

#[test]
fn who_was_stopped_in_a_handshake_goes_on_with_what_came_meanwhile() {
    // The other side has more patience than that.
    let limits = Limits { handshake: Lapse::from_secs(60), ..Limits::default() };
    let mut a = Driver::new(RANK, Secret::from_bytes([1; 32]), limits);
    let mut b = driver(SERVICE, 1);
    let (left, right) = UnixStream::pair().unwrap();
    a.adopt(left.into(), true, Side::Initiator).unwrap();
    b.adopt(right.into(), true, Side::Acceptor).unwrap();
    a.wait(Time::ZERO).unwrap();
    std::thread::sleep(Duration::from_nanos(HANDSHAKE.0));
    let mut up = 0;
    turn(&mut [&mut a, &mut b], |_, event, _| {
        assert!(matches!(event, Event::Up { .. }), "{event:?}");
        up += 1;
        (up == 2).then_some(())
    });
}

#[test]
fn s22_bytes_that_are_no_link_are_answered_by_a_close_with_a_reason() {
    let mut b = driver(SERVICE, 1);
    let (listener, address) = tcp();
    let Address::Tcp(address) = address else { unreachable!() };
    b.listen(Listener::Tcp(listener)).unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x00", b"\xff\xff\xff\xff", b"\x01UMBX", b"\x02proof of nothing"] {
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(bytes).unwrap();
        // A stranger that sends half a message and ends must be noticed as well.
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        let (party, why) = turn(&mut [&mut b], |_, event, _| match event {
            Event::Gone { party, why, .. } => Some((party, why)),
            other => panic!("{other:?}"),
        });
        assert_eq!(party, None);
        assert!(matches!(why, Close::NotALink | Close::Ended | Close::BadHandshake), "{why:?}");
        let mut rest = Vec::new();
        let _ = stranger.read_to_end(&mut rest);
    }
}

#[test]
fn s22_a_silent_stranger_is_shown_out_after_the_handshake_time() {
    let mut b = driver(SERVICE, 1);
    let (listener, address) = tcp();
    let Address::Tcp(address) = address else { unreachable!() };
    b.listen(Listener::Tcp(listener)).unwrap();
    let _stranger = TcpStream::connect(address).unwrap();
    let why = turn(&mut [&mut b], |_, event, _| match event {
        Event::Gone { why, .. } => Some(why),
        other => panic!("{other:?}"),
    });
    assert_eq!(why, Close::HandshakeTimeout);
}

#[test]
fn strangers_keep_nobody_out_who_belongs_here() {
    let (listener, address) = tcp();
    let Address::Tcp(at) = address else { unreachable!() };
    let limits = Limits { links: 4, handshake: Lapse::from_secs(60), ..Limits::default() };
    let mut service = Driver::new(SERVICE, Secret::from_bytes([7; 32]), limits);
    service.listen(Listener::Tcp(listener)).unwrap();
    let mut strangers: Vec<_> = (0..4).map(|_| TcpStream::connect(at).unwrap()).collect();
    for _ in 0..4 {
        // Each look lets in all who are at the door.
        service.wait(now() + Lapse::from_millis(20)).unwrap();
    }
    let mut rank = driver(RANK, 7);
    rank.dial(address, SERVICE.party, soon()).unwrap();
    let is_up = |i, event: Event, _: &[u8]| match event {
        Event::Up { .. } => (i == 1).then_some(()),
        Event::Gone { party: None, why: Close::HandshakeTimeout, .. } => None,
        other => panic!("{other:?}"),
    };
    turn(&mut [&mut rank, &mut service], is_up);
    // The one who came first gave way, and the others are still waited for.
    strangers[0].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(strangers[0].read(&mut [0; 1]).unwrap(), 0);
    strangers[1].set_nonblocking(true).unwrap();
    assert!(strangers[1].read(&mut [0; 1]).is_err());
}

#[test]
fn s25_a_wrong_secret_ends_in_a_typed_error_on_both_sides_and_is_not_retried() {
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 2));
    let (listener, address) = tcp();
    b.listen(Listener::Tcp(listener)).unwrap();
    a.dial(address, SERVICE.party, soon()).unwrap();
    let mut seen = [None, None];
    turn(&mut [&mut a, &mut b], |i, event, _| {
        let Event::Gone { why, .. } = event else { panic!("nothing may come up: {event:?}") };
        seen[i] = Some(why);
        seen.iter().all(Option::is_some).then_some(())
    });
    assert_eq!(seen, [Some(Close::Unauthenticated), Some(Close::Unauthenticated)]);
}

#[test]
fn reaching_another_process_than_expected_is_an_error() {
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 1));
    let (listener, address) = tcp();
    b.listen(Listener::Tcp(listener)).unwrap();
    let expected = Party::Peer(Peer::service(Sp(2)).unwrap());
    a.dial(address, expected, soon()).unwrap();
    let (party, why) = turn(&mut [&mut a, &mut b], |i, event, _| match event {
        Event::Gone { party, why, .. } if i == 0 => Some((party, why)),
        _ => None,
    });
    assert_eq!((party, why), (Some(expected), Close::WrongParty(SERVICE.party)));
}

#[test]
fn s40_a_peer_that_starts_later_is_reached() {
    let (mut a, mut b) = (driver(RANK, 1), driver(SERVICE, 1));
    let (listener, address) = tcp();
    drop(listener);
    let Address::Tcp(socket) = address else { unreachable!() };
    a.dial(address, SERVICE.party, soon()).unwrap();
    let mut frame = Vec::new();
    let pause = now() + Lapse::from_millis(50);
    while now() < pause {
        a.wait(pause).unwrap();
        assert!(a.next(&mut frame).is_none());
    }
    b.listen(Listener::Tcp(TcpListener::bind(socket).unwrap())).unwrap();
    connect(&mut a, &mut b);
}

#[test]
fn s40_a_peer_that_never_starts_is_an_error_at_the_deadline_and_waiting_costs_nothing() {
    let mut a = driver(RANK, 1);
    let (listener, address) = tcp();
    drop(listener);
    let began = Instant::now();
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    a.dial(address, SERVICE.party, now() + Lapse::from_millis(700)).unwrap();
    let (party, why) = turn_alone(&mut a);
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    assert_eq!(party, Some(SERVICE.party));
    assert_eq!(why, Close::Io(111));
    assert!(began.elapsed().as_millis() >= 700);
    let used = (used.tv_sec - cpu.tv_sec) * 1_000_000_000 + used.tv_nsec - cpu.tv_nsec;
    // CPU time, not wall time: 20 % of what was waited.
    assert!(used < 140_000_000, "waiting used {used} ns of CPU");
}

/// Every host but this one takes a while to refuse: the try that is due at the deadline has none.
#[test]
fn nobody_is_dialled_once_the_time_is_over_and_why_the_last_try_failed_is_told() {
    let mut a = driver(RANK, 1);
    let (listener, address) = tcp();
    let socket = listener.local_addr().unwrap();
    drop(listener);
    let deadline = now() + Lapse::from_millis(1);
    a.dial(address, SERVICE.party, deadline).unwrap();
    a.wait(now()).unwrap();
    let late = TcpListener::bind(socket).unwrap();
    late.set_nonblocking(true).unwrap();
    while now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(turn_alone(&mut a), (Some(SERVICE.party), Close::Io(111)));
    assert_eq!(late.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

fn turn_alone(driver: &mut Driver) -> (Option<Party>, Close) {
    let mut frame = Vec::new();
    loop {
        driver.wait(Time::NEVER).unwrap();
        match driver.next(&mut frame) {
            Some(Event::Gone { party, why, .. }) => return (party, why),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

#[test]
fn a_host_that_vanishes_from_an_idle_link_is_noticed_as_soon_as_from_one_in_use() {
    let (_listener, Address::Tcp(address)) = tcp() else { unreachable!() };
    let socket = TcpStream::connect(address).unwrap();
    let same = socket.try_clone().unwrap();
    let mut driver = driver(RANK, 7);
    driver.adopt(socket.into(), false, Side::Initiator).unwrap();
    let given_up = Duration::from_millis(sockopt::tcp_user_timeout(&same).unwrap().into());
    let first = sockopt::tcp_keepidle(&same).unwrap();
    let second = first + sockopt::tcp_keepintvl(&same).unwrap();
    assert!(sockopt::socket_keepalive(&same).unwrap() && given_up == Duration::from_secs(30));
    assert!(second <= given_up, "one probe may be lost: {second:?}");
}
