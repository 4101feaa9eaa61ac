//! Connecting by the connection manager of RDMA, both sides in this process.
//!
//! Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::sys::segment::Segment;
use umbra::verbs::{Address, Call, Hello, Listener, Region, Remote, Verbs, VerbsError};
use umbra_core::error::Status;
use umbra_core::key::{Access, Span};
use umbra_core::transport::{Event, Transport as _, Work};
use umbra_core::wire::Token;
use umbra_tests::transport_conformance::{MEMORY, open, peer};
use umbra_tests::verbs::device;

const PATIENCE: Duration = Duration::from_secs(20);

/// A listener on the device's own address.
fn listener() -> Option<(Listener, SocketAddr)> {
    let port = device()?.active_port(1, None).unwrap();
    let address = IpAddr::V4(port.gid.ipv4().unwrap());
    let listener = Listener::bind(SocketAddr::new(address, 0)).unwrap();
    let address = SocketAddr::new(address, listener.port());
    Some((listener, address))
}

/// Memory of one end that the other may read.
fn memory(end: &mut Verbs, n: u32, fill: u8) -> Arc<Region> {
    let segment = Arc::new(Segment::create("window", MEMORY as usize).unwrap());
    segment.write(0, &[fill; 64]).unwrap();
    let region = Arc::new(Region::register(end.domain(), segment, Access::READ).unwrap());
    end.window(open(n), region.clone(), 0, MEMORY).unwrap();
    region
}

#[test]
fn hellos_travel_with_the_connection_and_spans_and_its_end_after_it() {
    let Some((mut listener, address)) = listener() else { return };
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let request = listener.accept(PATIENCE).unwrap();
            let mut end = Verbs::new(peer(1), &request.port().unwrap(), 16).unwrap();
            let ours = end.greet(peer(0)).unwrap();
            end.connect(peer(0), request.hello()).unwrap();
            let region = memory(&mut end, 1, 7);
            let connection = request.accept(&ours, PATIENCE).unwrap();
            assert!(!connection.is_ended().unwrap());
            (end, region, connection)
        });
        let call = Call::resolve(address, PATIENCE).unwrap();
        let port = call.port().unwrap();
        assert_eq!(IpAddr::V4(port.gid.ipv4().unwrap()), address.ip());
        let mut end = Verbs::new(peer(0), &port, 16).unwrap();
        let ours = end.greet(peer(1)).unwrap();
        let connection = call.connect(&ours, PATIENCE, |hello| end.connect(peer(1), hello)).unwrap();
        let (_there, region, other) = owner.join().unwrap();
        // The hellos were right: a span goes through the queue pairs that they named.
        let landing = memory(&mut end, 0, 0);
        let first = Remote { address: region.address(0), rkey: region.rkey() };
        end.remote_window(open(1), first, MEMORY, Access::READ);
        let span = |key| Span { key, offset: 0, len: 64 };
        end.post(peer(1), Work::Read { from: span(open(1)), to: span(open(0)) }, Token(5)).unwrap();
        let (begun, mut ended) = (Instant::now(), None);
        while ended.is_none() {
            end.poll(&mut |event| {
                if let Event::Done { token, status } = event {
                    ended = Some((token, status));
                }
            });
            assert!(begun.elapsed() < PATIENCE, "the read did not end");
        }
        assert_eq!(ended, Some((Token(5), Status::Ok)));
        let mut bytes = [0; 64];
        landing.segment().read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 64]);
        drop(connection);
        let begun = Instant::now();
        while !other.is_ended().unwrap() {
            assert!(begun.elapsed() < PATIENCE, "the end was not told");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// Queue pairs that nobody has.
fn hello() -> Hello {
    let frames = Address { number: 5, first_packet: 6, mtu: 1024, lid: 0, reads: 16, gid: [7; 16] };
    Hello { frames, spans: Address { number: 8, ..frames }, count: Remote { address: 9, rkey: 10 } }
}

#[test]
fn refusals_silence_and_wrong_addresses_are_told_apart() {
    let Some((mut listener, address)) = listener() else { return };
    let late = listener.accept(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(late, VerbsError::Late { .. }), "{late:?}");
    std::thread::scope(|scope| {
        let refusing = scope.spawn(|| {
            let request = listener.accept(PATIENCE).unwrap();
            assert_eq!(request.hello(), &hello());
            request.refuse().unwrap();
        });
        let call = Call::resolve(address, PATIENCE).unwrap();
        let refused = call.connect(&hello(), PATIENCE, |_| panic!("nobody answered")).unwrap_err();
        assert!(matches!(refused, VerbsError::Refused { .. }), "{refused:?}");
        refusing.join().unwrap();
    });
    // What is no hello of ours is refused without its user.
    std::thread::scope(|scope| {
        let refusing = scope.spawn(|| {
            let bad = listener.accept(PATIENCE).unwrap_err();
            assert!(matches!(bad, VerbsError::BadHello), "{bad:?}");
        });
        let mut absurd = hello();
        absurd.frames.mtu = 1000;
        let call = Call::resolve(address, PATIENCE).unwrap();
        let refused = call.connect(&absurd, PATIENCE, |_| panic!("nobody answered")).unwrap_err();
        assert!(matches!(refused, VerbsError::Refused { .. }), "{refused:?}");
        refusing.join().unwrap();
    });
    // A request that nobody takes is not waited for without end.
    let call = Call::resolve(address, PATIENCE).unwrap();
    let late = call.connect(&hello(), Duration::from_millis(200), |_| panic!("nobody answered")).unwrap_err();
    assert!(matches!(late, VerbsError::Late { .. }) && late.to_string().contains(&address.to_string()), "{late:?}");
    drop(listener);
    let call = Call::resolve(address, PATIENCE).unwrap();
    let nobody = call.connect(&hello(), PATIENCE, |_| panic!("nobody answered")).unwrap_err();
    assert!(matches!(nobody, VerbsError::Refused { .. }), "{nobody:?}");
    // Documentation addresses lead nowhere.
    let nowhere = Call::resolve("203.0.113.9:7".parse().unwrap(), PATIENCE).unwrap_err();
    assert!(matches!(nowhere, VerbsError::NoWay { .. }), "{nowhere:?}");
    let foreign = Listener::bind("203.0.113.9:0".parse().unwrap()).unwrap_err();
    assert!(matches!(foreign, VerbsError::Call { .. }), "{foreign:?}");
}
