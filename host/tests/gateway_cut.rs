//! Lines that break while the gateway believes in them.
//!
//! What a broken one asked for does not happen after what comes next.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use umbra::channel::{self, Attributes, Channel, SendOptions, Timeout, WaitMode};
use umbra::driver::Event;
use umbra::gateway::{Error, Gateways, RemoteChannel, RemotePool, RemoteStreams};
use umbra::link::Address;
use umbra::pool::{self, Pool};
use umbra::stream::{self, Adapter, Mode, ReceiveOptions};
use umbra_core::gateway::Request;

use another::until;
use gateways::{End, LONG, NOW, gateways, serve, text};

/// Long enough for what must not happen any more.
const A_WHILE: Duration = Duration::from_millis(250);

/// A way to a gateway that can lose its clients so that the gateway hears nothing of it, as when a network parts.
struct Way {
    address: Address,
    lines: Arc<Mutex<Vec<[TcpStream; 2]>>>,
    /// Bytes that went to the gateway.
    passed: Arc<AtomicU64>,
}

fn pass(mut from: TcpStream, mut to: TcpStream, passed: &AtomicU64) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            some => to.write_all(&bytes[..some])?,
        }
        passed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Way {
    fn to(gateway: &Address) -> Way {
        let gateway: SocketAddr = text(gateway).parse().unwrap();
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(door.local_addr().unwrap());
        let way = Way { address, lines: Arc::default(), passed: Arc::default() };
        let (lines, passed) = (way.lines.clone(), way.passed.clone());
        // It ends with the process.
        thread::spawn(move || {
            for client in door.incoming().map(Result::unwrap) {
                let server = TcpStream::connect(gateway).unwrap();
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                lines.lock().unwrap().push([clone(&client), clone(&server)]);
                let (there, back) = ((clone(&client), clone(&server)), (server, client));
                let passed = passed.clone();
                thread::spawn(move || pass(there.0, there.1, &passed));
                thread::spawn(move || pass(back.0, back.1, &AtomicU64::new(0)));
            }
        });
        way
    }

    /// Loses all clients of the moment.
    fn lose(&self) {
        for [client, _] in self.lines.lock().unwrap().iter() {
            // One that was lost before is so still.
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Does what breaks: `call` fails when its request has reached the gateway, which believes in its client on.
    fn broken<T: Send>(&self, call: impl FnOnce() -> Result<T, Error> + Send) {
        let before = self.passed.load(Ordering::Relaxed);
        let lost = thread::scope(|scope| {
            let called = scope.spawn(call);
            until("the request", || self.passed.load(Ordering::Relaxed) > before);
            // The gateway waits with it.
            thread::sleep(Duration::from_millis(100));
            self.lose();
            called.join().unwrap().map(drop)
        });
        assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    }
}

fn far(channel: &Channel, gateways: &Gateways) -> RemoteChannel {
    RemoteChannel::attach(&channel.reference().unwrap(), gateways, LONG).unwrap()
}

fn channel() -> Channel {
    let uid = umbra::uid::draw().unwrap();
    Channel::create(&Attributes { capacity: 1, block: 256, uid, ..Attributes::default() }).unwrap()
}

#[test]
fn a_send_that_broke_is_not_carried_out_after_a_later_one_of_its_handle() {
    let (server, address) = serve();
    let way = Way::to(&address);
    let channel = channel();
    let remote = far(&channel, &gateways(&way.address));
    let mut handle = remote.sender(SendOptions::default(), LONG).unwrap();
    let here = channel.receiver(WaitMode::Idle).unwrap();
    let received = |timeout: Timeout| here.receive(&mut [0; 256], timeout).map(|message| message.hints);
    let check = |send: &mut (dyn FnMut(u64, Timeout) -> Result<(), Error> + Send)| {
        for round in (0..40).step_by(4) {
            send(round, NOW).unwrap();
            way.broken(|| send(round + 1, LONG));
            assert!(server.lines() > 1, "the gateway has not noticed");
            assert_eq!(send(round + 2, NOW), Err(Error::Channel(channel::Error::Full)));
            assert_eq!(received(NOW), Ok(round));
            send(round + 3, LONG).unwrap();
            assert_eq!(received(NOW), Ok(round + 3));
        }
        assert_eq!(received(Timeout::After(A_WHILE)), Err(channel::Error::Timeout));
    };
    check(&mut |hints, timeout| handle.send(b"", hints, timeout));
    check(&mut |hints, timeout| remote.send(b"", hints, timeout));
}

#[test]
fn a_receive_that_broke_takes_no_message_after_a_later_one_of_its_handle() {
    let (_server, address) = serve();
    let way = Way::to(&address);
    let channel = channel();
    let remote = far(&channel, &gateways(&way.address));
    let mut handle = remote.receiver(LONG).unwrap();
    let sender = channel.sender(SendOptions::default()).unwrap();
    let check = |receive: &mut (dyn FnMut(Timeout) -> Result<u64, Error> + Send)| {
        way.broken(|| receive(Timeout::Never));
        assert_eq!(receive(NOW), Err(Error::Channel(channel::Error::Empty)));
        sender.send(b"", 7, NOW).unwrap();
        thread::sleep(A_WHILE);
        assert_eq!(receive(NOW), Ok(7));
    };
    check(&mut |timeout| handle.receive(&mut [0; 256], timeout).map(|message| message.hints));
    check(&mut |timeout| remote.receive(&mut [0; 256], timeout).map(|message| message.hints));
}

#[test]
fn what_an_allocation_that_broke_would_get_is_free_for_the_next_one() {
    let (_server, address) = serve();
    let way = Way::to(&address);
    let pool = Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..pool::Attributes::default() }).unwrap();
    let remote = RemotePool::attach(&pool.reference().unwrap(), &gateways(&way.address), LONG).unwrap();
    let len = pool.figures().longest_free;
    let all = pool.alloc(len, 0).unwrap();
    way.broken(|| remote.alloc(len, 0, LONG).map(drop));
    assert!(matches!(remote.alloc(len, 0, NOW), Err(Error::Pool(_))));
    all.free().unwrap();
    thread::sleep(A_WHILE);
    assert_eq!(pool.figures().blocks, 0, "nobody took it");
    remote.alloc(len, 0, NOW).unwrap().free(NOW).unwrap();
}

#[test]
fn a_conversation_that_broke_is_over_at_both_ends_before_the_next_call() {
    let (_server, address) = serve();
    let way = Way::to(&address);
    let adapter =
        Adapter::create(&stream::Attributes { ring: 4096, ..stream::Attributes::of(Mode::Nominal) }, []).unwrap();
    let remote = RemoteStreams::attach(&adapter.reference().unwrap(), &gateways(&way.address), LONG).unwrap();
    // To who receives at hand its sender is dead, and what waited for room is not said.
    let mut far = remote.send(&stream::SendOptions::default(), LONG).unwrap();
    far.send(b"said", 1, LONG).unwrap();
    way.broken(|| far.send(&[2; 60_000], 2, LONG));
    assert!(far.send(b"more", 3, LONG).is_err(), "it does not go on");
    remote.poll().unwrap();
    let mut here = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    assert_eq!(here.receive(LONG).unwrap().bytes, b"said");
    assert_eq!(here.receive(LONG).map(drop), Err(stream::Error::PeerDead));
    drop((far, here));
    // To who sends at hand its receiver has closed, also if that asked for nothing when the line broke.
    for is_asking in [true, false] {
        let mut here = adapter.send(&stream::SendOptions::default(), LONG).unwrap();
        here.send(b"first", 0, LONG).unwrap();
        let mut far = remote.receive(&ReceiveOptions::default(), LONG).unwrap();
        assert_eq!(far.receive(LONG).unwrap().bytes, b"first");
        if is_asking {
            way.broken(|| far.receive(Timeout::Never));
        } else {
            way.lose();
            until("its end", || far.receive(NOW).is_err_and(|error| matches!(error, Error::Lost { .. })));
        }
        remote.poll().unwrap();
        let deaf = until_refused(|| here.send(b"nobody", 0, NOW));
        assert_eq!(deaf, stream::Error::Unheard);
    }
}

#[test]
fn a_receive_that_broke_before_its_conversation_began_takes_none_after_the_next_call() {
    let (_server, address) = serve();
    let way = Way::to(&address);
    let adapter = Adapter::create(&stream::Attributes::of(Mode::Nominal), []).unwrap();
    let remote = RemoteStreams::attach(&adapter.reference().unwrap(), &gateways(&way.address), LONG).unwrap();
    way.broken(|| remote.receive(&ReceiveOptions::default(), LONG).map(drop));
    assert_eq!(remote.poll(), Ok(false));
    let mut here = adapter.send(&stream::SendOptions::default(), LONG).unwrap();
    here.send(b"for somebody who listens", 0, LONG).unwrap();
    thread::sleep(A_WHILE);
    assert_eq!(
        remote.receive(&ReceiveOptions::default(), NOW).unwrap().receive(LONG).unwrap().bytes,
        b"for somebody who listens"
    );
}

/// Why it is not done any more.
fn until_refused(mut act: impl FnMut() -> Result<(), stream::Error>) -> stream::Error {
    (0..1000).find_map(|_| act().err()).unwrap()
}

#[test]
fn a_line_that_is_cut_before_the_gateway_knows_whose_it_is_asks_for_nothing() {
    let (server, address) = serve();
    let channel = channel();
    let reference = channel.reference().unwrap();
    for is_cut in [false, true] {
        // The gateway has accepted it, and what its client says is still on its way.
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = |address: &str| TcpStream::connect(address).unwrap();
        let mut early = End::over(to(&door.local_addr().unwrap().to_string()), 7);
        let (client, gateway) = (door.accept().unwrap().0, to(text(&address).as_str()));
        until("the early line", || server.lines() == 1);
        let mut late = End::over(to(text(&address).as_str()), 8);
        assert!(matches!(late.next(), Event::Up { .. }));
        late.ask(&Request::Cut { life: if is_cut { 7 } else { 9 } });
        assert!(matches!(late.next(), Event::Frame { .. }), "nothing that it asked for is under way");
        let back = (gateway.try_clone().unwrap(), client.try_clone().unwrap());
        for (from, to) in [(client, gateway), back] {
            thread::spawn(move || {
                let (from_too, to_too) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let _ = pass(from, to, &AtomicU64::new(0));
                [from_too, to_too].map(|stream| stream.shutdown(Shutdown::Both))
            });
        }
        let mut was_answered = false;
        loop {
            match early.next() {
                Event::Up { .. } => {
                    early.ask(&Request::Open { on_receipt: false, client: 0, handle: [0; 2], reference: &reference });
                }
                Event::Gone { .. } => break,
                _ => {
                    was_answered = true;
                    break;
                }
            }
        }
        assert_eq!(was_answered, !is_cut);
        drop((early, late));
        until("the end of its lines", || server.lines() == 0);
    }
}
