//! A gateway for a test, and those who know it: this host stands for another one.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use umbra::channel::Timeout;
use umbra::driver::{Driver, Event, Limits, LinkId, now};
use umbra::gateway::{Gateways, Server};
use umbra::link::{Address, Identity, Listener, Party, Side};
use umbra::secret::Secret;
use umbra::sys::host;
use umbra_core::gateway::{CHANNEL, Request};
use umbra_core::peer::Incarnation;
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};

use crate::another::{Another, ready};

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
pub(crate) const LONG: Timeout = Timeout::After(Duration::from_secs(60));
pub(crate) const NOW: Timeout = Timeout::Now;
/// Some port of this host.
pub(crate) const ANYWHERE: &str = "127.0.0.1:0";

pub(crate) fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

/// A gateway at this address, and where it listens.
pub(crate) fn serve_at(address: &str) -> (Server, Address) {
    let socket = TcpListener::bind(address).unwrap();
    let address = Address::Tcp(socket.local_addr().unwrap());
    (Server::start(Listener::Tcp(socket), secret()).unwrap(), address)
}

/// A gateway of this process.
pub(crate) fn serve() -> (Server, Address) {
    serve_at(ANYWHERE)
}

/// What a process does that is a gateway until it is killed: it says where it listens.
pub(crate) fn be_a_gateway(address: &str) {
    let (_server, address) = serve_at(address);
    ready(text(&address));
    thread::sleep(Duration::from_secs(600));
}

/// A gateway that is a process of its own, and where it listens.
pub(crate) fn start_gateway(at: &str) -> (Another, Address) {
    let (process, said) = Another::start_ready(at);
    (process, Address::Tcp(said.parse().unwrap()))
}

/// An address as a process is told it.
pub(crate) fn text(address: &Address) -> String {
    match address {
        Address::Tcp(at) => at.to_string(),
        other => panic!("{other:?} is no port"),
    }
}

/// Who knows that this host's gateway listens there.
pub(crate) fn gateways(address: &Address) -> Gateways {
    let gateways = Gateways::new(secret()).masquerading();
    gateways.register(host::id(), address.clone()).unwrap();
    gateways
}

/// A client's end of a line without a client.
pub(crate) struct End {
    driver: Driver,
    link: LinkId,
    /// The last frame.
    pub(crate) frame: Vec<u8>,
}

impl End {
    /// One of this life.
    pub(crate) fn over(socket: TcpStream, life: u64) -> End {
        let me = Identity { party: Party::Tool, incarnation: Incarnation(life) };
        let limits = Limits { handshake: Lapse::from_secs(60), ..Limits::default() };
        let mut driver = Driver::new(me, secret(), limits);
        let link = driver.adopt(socket.into(), false, Side::Initiator).unwrap();
        End { driver, link, frame: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> Event {
        let end = now() + Lapse::from_secs(60);
        while now() < end {
            if let Some(event) = self.driver.next(&mut self.frame) {
                return event;
            }
            self.driver.wait(end).unwrap();
        }
        panic!("nothing happens");
    }

    pub(crate) fn ask(&mut self, request: &Request<'_>) {
        let mut body = [0; 1024];
        let len = request.write(&mut body).unwrap();
        self.say(&body[..len]);
    }

    pub(crate) fn say(&mut self, body: &[u8]) {
        let frame = Frame::Call { op: CHANNEL, token: Token(1), body };
        // A line that is shut tells of it by its end.
        let _ = self.driver.send(self.link, &frame, Vec::new());
    }
}
