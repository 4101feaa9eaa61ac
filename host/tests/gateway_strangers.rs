//! Who comes to a gateway, and is not what he should be: strangers take no places.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::net::TcpStream;
use std::time::Duration;

use umbra::channel::{Attributes, Channel, Timeout};
use umbra::gateway::{LINES, RemoteChannel};
use umbra::sys::process::raise_descriptors;

use another::until;
use gateways::{LONG, gateways, serve, text};

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
