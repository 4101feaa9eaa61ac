//! Who comes to a gateway, or stands for one, and is not what he should be.
//!
//! Strangers take no places, another version is called by its name, and what an answer says is looked at.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel as queue};
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{Attributes, Channel, Event as Polled, Timeout};
use umbra::driver::{Driver, Event, Limits, LinkId, now};
use umbra::gateway::{Error, LINES, RemoteChannel, RemotePool};
use umbra::link::{Address, Identity, Listener, Party};
use umbra::pool::{self, Pool};
use umbra::sys::host;
use umbra::sys::process::raise_descriptors;
use umbra_core::error::Status;
use umbra_core::gateway::client::GRACE;
use umbra_core::gateway::{Answer, CHANNEL, MESSAGE_MAX, ParseError, PoolRequest, Request, Take, VERSION};
use umbra_core::heap::BlockId;
use umbra_core::peer::Incarnation;
use umbra_core::time::Lapse;
use umbra_core::wire::{BODY_MAX, Frame, Token};

use another::until;
use gateways::{ANYWHERE, End, LONG, NOW, gateways, secret, serve, text};

fn channel() -> Channel {
    Channel::create(&Attributes { uid: umbra::uid::draw().unwrap(), ..Attributes::default() }).unwrap()
}

#[test]
fn strangers_keep_nobody_out() {
    raise_descriptors().unwrap();
    let (server, address) = serve();
    let (channel, gateways, at) = (channel(), gateways(&address), text(&address));
    let strangers: Vec<TcpStream> = (0..LINES).map(|_| TcpStream::connect(&at).unwrap()).collect();
    until("all of them", || server.lines() == LINES);
    // They may be silent for longer than this.
    let patience = Timeout::After(Duration::from_secs(4));
    let remote = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, patience).unwrap();
    remote.send(b"let in", 1, LONG).unwrap();
    // Nor do they have others put out.
    let _more: Vec<TcpStream> = (0..LINES).map(|_| TcpStream::connect(&at).unwrap()).collect();
    remote.send(b"still in", 2, LONG).unwrap();
    assert_eq!(channel.count(), Ok(2));
    drop(strangers);
}

#[test]
fn a_client_of_another_version_is_told_so() {
    let (_server, address) = serve();
    let mut client = End::over(TcpStream::connect(text(&address)).unwrap(), 7);
    assert!(matches!(client.next(), Event::Up { .. }));
    let mut body = [0; 64];
    let open = Request::Open { on_receipt: false, client: 0, handle: [0; 2], reference: b"here" };
    let len = open.write(&mut body).unwrap();
    body[1] = VERSION + 1;
    client.say(&body[..len]);
    assert!(matches!(client.next(), Event::Frame { .. }));
    let Ok(Frame::Done { status: Status::Ok, body, .. }) = Frame::parse(&client.frame) else {
        panic!("it is answered")
    };
    assert!(matches!(Answer::parse(body), Ok(Answer::Refused { .. })), "{body:?}");
}

/// Who stands for a gateway there.
fn stands_at(listener: TcpListener) -> Driver {
    let me = Identity { party: Party::Tool, incarnation: Incarnation(9) };
    let mut driver = Driver::new(me, secret(), Limits::default());
    driver.listen(Listener::Tcp(listener)).unwrap();
    driver
}

fn answer(driver: &mut Driver, link: LinkId, token: Token, answer: &Answer<'_>) {
    let mut body = vec![0; BODY_MAX];
    let len = answer.write(&mut body).unwrap();
    let done = Frame::Done { op: CHANNEL, token, status: Status::Ok, body: &body[..len] };
    driver.send(link, &done, Vec::new()).unwrap();
    driver.flush();
}

/// The next request, which is in the frame then.
fn asked(driver: &mut Driver, frame: &mut Vec<u8>) -> (LinkId, Token) {
    let end = now() + Lapse::from_secs(60);
    loop {
        assert!(now() < end, "nobody asks");
        match driver.next(frame) {
            Some(Event::Frame { link, .. }) => match Frame::parse(frame) {
                Ok(Frame::Call { token, .. }) => return (link, token),
                _ => panic!("clients call"),
            },
            Some(_) => {}
            None => driver.wait(end).unwrap(),
        }
    }
}

fn request(frame: &[u8]) -> Request<'_> {
    let Ok(Frame::Call { body, .. }) = Frame::parse(frame) else { panic!("clients call") };
    Request::parse(body).unwrap()
}

/// A gateway that says of each first message that it has so many bytes, and shows as many.
fn lies(listener: TcpListener, len: u32, shown: &[u8], times: usize) {
    let (mut driver, mut frame, mut told) = (stands_at(listener), Vec::new(), 0);
    while told < times {
        let (link, token) = asked(&mut driver, &mut frame);
        let said = match request(&frame) {
            Request::Receive { take: Take::Pop | Take::Peek | Take::Receive, .. } => {
                told += 1;
                Answer::Message { hints: 0, client: 0, handle: [0; 2], len, bytes: shown }
            }
            _ => Answer::Opened { capacity: 1, block: 1, uid: 1 },
        };
        answer(&mut driver, link, token, &said);
    }
}

#[test]
fn a_message_has_as_many_bytes_as_a_gateway_says() {
    const PAD: usize = 16;
    // What a peek shows of a longer message is all that there is room for.
    for (len, shown, is_received, is_peeked) in
        [(16, 16, true, true), (1000, 16, false, true), (1000, 3, false, false), (3, 2, false, false)]
    {
        let listener = TcpListener::bind(ANYWHERE).unwrap();
        let (channel, gateways) = (channel(), gateways(&Address::Tcp(listener.local_addr().unwrap())));
        thread::scope(|scope| {
            scope.spawn(move || lies(listener, len, &[7; PAD][..shown], 2));
            let remote = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
            let senseless = Err(Error::Answer(ParseError::Nonsense));
            let expected = |is_good| if is_good { Ok(len as usize) } else { senseless.clone() };
            let mut pad = [0; PAD];
            assert_eq!(
                remote.receive(&mut pad, LONG).map(|message| message.len),
                expected(is_received),
                "{len}, {shown}"
            );
            assert_eq!(remote.peek(&mut pad, LONG).map(|message| message.len), expected(is_peeked), "{len}, {shown}");
        });
    }
}

/// Lines of a handle.
const MOST: usize = 16;

/// A gateway that opens all lines, and answers one request of so many: some time after it is told to, and tells when.
fn answers_one_late(listener: TcpListener, all: &Sender<()>, late: (&Receiver<Duration>, &Sender<Instant>)) {
    let (mut driver, mut frame, mut held) = (stands_at(listener), Vec::new(), Vec::new());
    while held.len() < MOST {
        let (link, token) = asked(&mut driver, &mut frame);
        match request(&frame) {
            Request::Poll { .. } => held.push((link, token)),
            _ => answer(&mut driver, link, token, &Answer::Opened { capacity: 1, block: 1, uid: 1 }),
        }
    }
    all.send(()).unwrap();
    let (told, when) = late;
    thread::sleep(told.recv().unwrap());
    when.send(Instant::now()).unwrap();
    let (link, token) = held[0];
    answer(&mut driver, link, token, &Answer::Done(0));
    // Until nobody waits any more.
    assert!(told.recv().is_err());
}

#[test]
fn a_call_that_waited_for_a_line_waits_no_longer_for_its_answer_than_without() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let (channel, gateways) = (channel(), gateways(&Address::Tcp(listener.local_addr().unwrap())));
    let ((all, all_asked), (tell, told), (answered, when)) = (queue(), queue(), queue());
    let gateway = thread::spawn(move || answers_one_late(listener, &all, (&told, &answered)));
    let remote = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    thread::scope(|scope| {
        // The gateway goes before they are answered.
        (0..MOST).for_each(|_| drop(scope.spawn(|| drop(remote.poll(Polled::Full, LONG)))));
        all_asked.recv().unwrap();
        let grace = Duration::from_nanos(GRACE.0);
        tell.send(grace * 3 / 4).unwrap();
        let error = remote.poll(Polled::Size, NOW).unwrap_err();
        let ended = Instant::now();
        // On a slow machine it may have had no line in time.
        assert!(matches!(error, Error::Silent(_) | Error::Busy(_)), "{error:?}");
        assert!(ended.saturating_duration_since(when.recv().unwrap()) < grace, "the grace began anew with the line");
        drop(tell);
    });
    gateway.join().unwrap();
}

/// A gateway that copies all bytes that it is asked to, so many times, and takes its time over it.
fn copies_slowly(listener: TcpListener, slow: Duration, times: usize) {
    let (mut driver, mut frame, mut copied) = (stands_at(listener), Vec::new(), 0);
    let bytes = vec![7; MESSAGE_MAX];
    while copied < times {
        let (link, token) = asked(&mut driver, &mut frame);
        let said = match request(&frame) {
            Request::Pool(PoolRequest::Get { len, .. }) => Answer::Bytes(&bytes[..len as usize]),
            Request::Pool(PoolRequest::Put { .. }) => Answer::Done(0),
            _ => Answer::Lent { bytes: 1 << 30, uid: 1 },
        };
        if !matches!(said, Answer::Lent { .. }) {
            thread::sleep(slow);
            copied += 1;
        }
        answer(&mut driver, link, token, &said);
    }
}

#[test]
fn no_piece_of_a_range_is_asked_for_after_the_deadline() {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let gateways = gateways(&Address::Tcp(listener.local_addr().unwrap()));
    let pool = Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..pool::Attributes::default() }).unwrap();
    let slow = Duration::from_millis(300);
    thread::scope(|scope| {
        // One byte, and the first piece of a read and of a write.
        scope.spawn(move || copies_slowly(listener, slow, 3));
        let far = RemotePool::attach(&pool.reference().unwrap(), &gateways, LONG).unwrap();
        let (id, mut bytes) = (BlockId::from_bits(1), vec![0; 3 * MESSAGE_MAX]);
        far.read(id, 0, &mut bytes[..1], LONG).unwrap();
        for done in
            [far.read(id, 0, &mut bytes, Timeout::After(slow / 3)), far.write(id, 0, &bytes, Timeout::After(slow / 3))]
        {
            let late = Error::Partly { host: host::id(), copied: MESSAGE_MAX, len: bytes.len() };
            assert_eq!((&done, late.code()), (&Err(late), "TIMEOUT"));
        }
    });
}
