//! A process that has no descriptor left for who knocks.
//!
//! The limit is the process' own, so nothing else is tested here, and one test at a time.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Identity, Listener, Party, Side};
use umbra::secret::Secret;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Op, Token};

static ONE: Mutex<()> = Mutex::new(());

/// No descriptor can be opened until this is dropped.
struct Full(Rlimit);

impl Full {
    fn begin() -> Full {
        let usual = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..usual }).unwrap();
        Full(usual)
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).unwrap();
    }
}

fn driver(sp: u32) -> Driver {
    let me = Identity { party: Party::Peer(Peer::service(Sp(sp)).unwrap()), incarnation: Incarnation(5) };
    Driver::new(me, Secret::from_bytes([1; 32]), Limits::default())
}

/// The next event of the first of these, while all turn.
fn next(drivers: [&mut Driver; 2], frame: &mut Vec<u8>) -> Event {
    let end = now() + Lapse::from_secs(10);
    let [first, second] = drivers;
    loop {
        if let Some(event) = first.next(frame) {
            return event;
        }
        assert!(now() < end, "nothing happened");
        second.wait(now() + Lapse::from_millis(2)).unwrap();
        first.wait(now() + Lapse::from_millis(2)).unwrap();
    }
}

/// The frame comes without them, so that it can be refused; the peer keeps its link, and what it sends later arrives.
#[test]
fn a_peer_whose_descriptors_find_no_room_keeps_its_link() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut a, mut b, mut frame) = (driver(1), driver(2), Vec::new());
    let (left, right) = UnixStream::pair().unwrap();
    let link = a.adopt(left.into(), true, Side::Initiator).unwrap();
    b.adopt(right.into(), true, Side::Acceptor).unwrap();
    let [lost, kept] = [rustix::pipe::pipe().unwrap(), rustix::pipe::pipe().unwrap()];
    let (mut ups, end) = (0, now() + Lapse::from_secs(10));
    while ups < 2 {
        assert!(now() < end, "no link");
        for driver in [&mut a, &mut b] {
            driver.wait(now() + Lapse::from_millis(2)).unwrap();
            ups += u32::from(matches!(driver.next(&mut frame), Some(Event::Up { .. })));
        }
    }
    let call = |body| Frame::Call { op: Op(0x0301), token: Token(4), body };
    a.send(link, &call(b"lost"), vec![lost.0, lost.1]).unwrap();
    a.flush();
    let full = Full::begin();
    let event = next([&mut b, &mut a], &mut frame);
    drop(full);
    let Event::Frame { descriptors, .. } = event else { panic!("{event:?}") };
    assert_eq!((Frame::parse(&frame).unwrap(), descriptors.len()), (call(b"lost"), 0));
    a.send(link, &call(b"bare"), Vec::new()).unwrap();
    a.send(link, &call(b"both"), vec![kept.0, kept.1]).unwrap();
    for (body, count) in [(&b"bare"[..], 0), (&b"both"[..], 2)] {
        let event = next([&mut b, &mut a], &mut frame);
        let Event::Frame { descriptors, .. } = event else { panic!("{event:?}") };
        assert_eq!((Frame::parse(&frame).unwrap(), descriptors.len()), (call(body), count));
    }
}

#[test]
fn who_cannot_be_let_in_does_not_keep_a_process_awake() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut driver = driver(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stranger.write_all(&[7; 600]).unwrap();
    driver.listen(Listener::Tcp(listener)).unwrap();

    let full = Full::begin();
    let end = now() + Lapse::from_millis(300);
    while now() < end {
        driver.wait(end).unwrap();
    }
    drop(full);
    let wakeups = driver.wakeups();
    assert!((1..=10).contains(&wakeups), "woken {wakeups} times in 300 ms");

    let (end, mut frame) = (now() + Lapse::from_secs(10), Vec::new());
    while !matches!(driver.next(&mut frame), Some(Event::Gone { party: None, .. })) {
        assert!(now() < end, "nobody is let in any more");
        driver.wait(end).unwrap();
    }
}
