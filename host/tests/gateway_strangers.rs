//! Who comes to a gateway, or stands for one, and is not what he should be.
//!
//! Strangers take no places, another version is called by its name, and what an answer says is looked at.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use umbra::channel::{Attributes, Channel, Timeout};
use umbra::driver::{Driver, Event, Limits, now};
use umbra::gateway::{Error, LINES, RemoteChannel};
use umbra::link::{Address, Identity, Listener, Party};
use umbra::sys::process::raise_descriptors;
use umbra_core::error::Status;
use umbra_core::gateway::{Answer, CHANNEL, ParseError, Request, Take, VERSION};
use umbra_core::peer::Incarnation;
use umbra_core::time::Lapse;
use umbra_core::wire::Frame;

use another::until;
use gateways::{ANYWHERE, End, LONG, gateways, secret, serve, text};

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

/// A gateway that says of each first message that it has so many bytes, and shows as many.
fn lies(listener: TcpListener, len: u32, shown: &[u8], times: usize) {
    let me = Identity { party: Party::Tool, incarnation: Incarnation(9) };
    let mut driver = Driver::new(me, secret(), Limits::default());
    driver.listen(Listener::Tcp(listener)).unwrap();
    let (mut frame, mut told, end) = (Vec::new(), 0, now() + Lapse::from_secs(60));
    while told < times {
        assert!(now() < end, "nobody asks");
        let Some(event) = driver.next(&mut frame) else {
            driver.wait(end).unwrap();
            continue;
        };
        let Event::Frame { link, .. } = event else { continue };
        let Ok(Frame::Call { token, body, .. }) = Frame::parse(&frame) else { panic!("clients call") };
        let answer = match Request::parse(body).unwrap() {
            Request::Receive { take: Take::Pop | Take::Peek | Take::Receive, .. } => {
                told += 1;
                Answer::Message { hints: 0, client: 0, handle: [0; 2], len, bytes: shown }
            }
            _ => Answer::Opened { capacity: 1, block: 1, uid: 1 },
        };
        let mut body = [0; 128];
        let len = answer.write(&mut body).unwrap();
        let done = Frame::Done { op: CHANNEL, token, status: Status::Ok, body: &body[..len] };
        driver.send(link, &done, Vec::new()).unwrap();
        driver.flush();
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
