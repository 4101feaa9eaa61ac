//! A process that has no descriptor left for who knocks.
//!
//! The limit is the process' own, so nothing else is tested here.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Identity, Listener, Party};
use umbra::secret::Secret;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::time::Lapse;

#[test]
fn who_cannot_be_let_in_does_not_keep_a_process_awake() {
    let me = Identity { party: Party::Peer(Peer::service(Sp(1)).unwrap()), incarnation: Incarnation(5) };
    let mut driver = Driver::new(me, Secret::from_bytes([1; 32]), Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stranger.write_all(&[7; 600]).unwrap();
    driver.listen(Listener::Tcp(listener)).unwrap();

    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..usual }).unwrap();
    let end = now() + Lapse::from_millis(300);
    while now() < end {
        driver.wait(end).unwrap();
    }
    setrlimit(Resource::Nofile, usual).unwrap();
    let wakeups = driver.wakeups();
    assert!((1..=10).contains(&wakeups), "woken {wakeups} times in 300 ms");

    let (end, mut frame) = (now() + Lapse::from_secs(10), Vec::new());
    while !matches!(driver.next(&mut frame), Some(Event::Gone { party: None, .. })) {
        assert!(now() < end, "nobody is let in any more");
        driver.wait(end).unwrap();
    }
}
