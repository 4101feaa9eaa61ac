//! Gateways, and what is used through them, in programs that fork.
//!
//! A child holds its parent's sockets; it must neither keep what its parent ends, nor talk in its parent's name.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(unsafe_code, reason = "forking is no safe call")]

mod another;
mod gateways;

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use umbra::channel::{self, Attributes, Channel, SendOptions, Timeout, WaitMode};
use umbra::gateway::{Error, RemoteChannel, RemotePool, RemoteStreams, Server};
use umbra::link::Listener;
use umbra::pool::{self, Pool};
use umbra::stream::{self, Adapter, Mode, ReceiveOptions};

use another::until;
use gateways::{LONG, NOW, gateways, secret, serve, text};

/// A child of this process, which is killed at the latest when this is dropped.
struct Child(i32);

impl Child {
    /// One that does this, and ends well if that says so.
    fn does(act: impl FnOnce() -> bool) -> Child {
        // SAFETY: the child does what its closure says, which waits for no other thread of this process, and then ends without
        // running anything of the parent's.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: sets a timer of the child, whose signal ends it: one that lives as long hangs.
            unsafe { libc::alarm(60) };
            // A thread that ends by a panic would end its process as if all had gone well.
            let is_well = catch_unwind(AssertUnwindSafe(act)).unwrap_or(false);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_well)) };
        }
        Child(pid)
    }

    /// One that only holds what it inherited.
    fn lives() -> Child {
        Child::does(|| {
            thread::sleep(Duration::from_secs(50));
            false
        })
    }

    /// Whether it has not ended yet.
    fn is_there(&self) -> bool {
        // SAFETY: the child is ours and was not waited for; nothing is written.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::WNOHANG) == 0 }
    }

    /// Waits until it has ended; whether it ended well.
    fn ended_well(mut self) -> bool {
        self.reap()
    }

    fn reap(&mut self) -> bool {
        let (pid, mut status) = (std::mem::take(&mut self.0), 0);
        // SAFETY: the child is ours and was not waited for; the output is valid.
        pid > 0 && (unsafe { libc::waitpid(pid, &raw mut status, 0) }, status) == (pid, 0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.0 > 0 {
            // SAFETY: the child was not waited for, so the number is its own.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
            self.reap();
        }
    }
}

fn channel() -> Channel {
    Channel::create(&Attributes { uid: umbra::uid::draw().unwrap(), ..Attributes::default() }).unwrap()
}

fn pool() -> Pool {
    Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..pool::Attributes::default() }).unwrap()
}

fn adapter() -> Adapter {
    Adapter::create(&stream::Attributes::of(Mode::Nominal), []).unwrap()
}

#[test]
fn a_gateway_ends_for_its_clients_while_a_child_lives() {
    let (server, address) = serve();
    let (channel, gateways) = (channel(), gateways(&address));
    let remote = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    let mut receiver = remote.receiver(LONG).unwrap();
    let _child = Child::lives();
    let (told, ends) = mpsc::channel();
    let also_told = told.clone();
    thread::spawn(move || {
        let lost = receiver.receive(&mut [0; 64], Timeout::Never);
        told.send(matches!(lost, Err(Error::Lost { .. }))).unwrap();
    });
    until("its request", || channel.poll(channel::Event::BlockedReceivers, WaitMode::Idle, NOW) == Ok(1));
    thread::spawn(move || {
        drop(server);
        also_told.send(true).unwrap();
    });
    for _ in 0..2 {
        assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(true));
    }
}

#[test]
fn nobody_waits_at_the_door_of_a_gateway_that_has_ended_while_a_child_lives() {
    let (server, address) = serve();
    let child = Child::lives();
    drop(server);
    let refused = TcpStream::connect(text(&address)).map(drop).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
    // Nor is anybody in the way of the next one there.
    let _next = TcpListener::bind(text(&address)).unwrap();
    let path = SocketAddr::from_abstract_name(umbra::uid::draw().unwrap().to_le_bytes()).unwrap();
    let server = Server::start(Listener::Unix(UnixListener::bind_addr(&path).unwrap()), secret()).unwrap();
    let other = Child::lives();
    drop(server);
    let refused = UnixStream::connect_addr(&path).map(drop).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
    assert!(child.is_there() && other.is_there(), "they did not wait for its end");
}

#[test]
fn what_a_client_drops_ends_at_its_gateway_while_a_child_lives() {
    let (server, address) = serve();
    let (pool, adapter, gateways) = (pool(), adapter(), gateways(&address));
    let mut near = adapter.send(&stream::SendOptions::default(), LONG).unwrap();
    let memory = RemotePool::attach(&pool.reference().unwrap(), &gateways, LONG).unwrap();
    memory.alloc(100, 0, LONG).unwrap();
    let streams = RemoteStreams::attach(&adapter.reference().unwrap(), &gateways, LONG).unwrap();
    let far = streams.receive(&ReceiveOptions::default(), LONG).unwrap();
    let child = Child::lives();
    drop((memory, far, streams));
    until("the end of its lines", || server.lines() == 0);
    assert!(child.is_there(), "they did not wait for its end");
    assert_eq!(pool.figures().blocks, 0);
    assert_eq!(near.send(b"nobody listens", 0, LONG), Err(stream::Error::Unheard));
}

#[test]
fn a_child_has_lines_of_its_own_and_its_parents_go_on() {
    let (_server, address) = serve();
    let (channel, pool, adapter, gateways) = (channel(), pool(), adapter(), gateways(&address));
    let remote = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    let mut sender = Some(remote.sender(SendOptions::default(), LONG).unwrap());
    let mut remote = Some(remote);
    let memory = RemotePool::attach(&pool.reference().unwrap(), &gateways, LONG).unwrap();
    let block = memory.alloc(100, 0, LONG).unwrap();
    let streams = RemoteStreams::attach(&adapter.reference().unwrap(), &gateways, LONG).unwrap();
    let mut speaks = streams.send(&stream::SendOptions::default(), LONG).unwrap();
    speaks.send(b"before", 1, LONG).unwrap();
    let (mut streams, mut speaks) = (Some(streams), Some(speaks));
    let mut hears = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();

    // A thread that the child lacks has the line over which memory is allocated.
    let all = pool.alloc(pool.figures().longest_free, 0).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| memory.alloc(all.len(), 0, LONG).map(drop));
        thread::sleep(Duration::from_millis(100));
        // What the child takes and drops is its copy.
        let child = Child::does(|| {
            let (sender, speaks, remote) = (&mut sender.take().unwrap(), &mut speaks, remote.take().unwrap());
            remote.send(b"of the child", 2, LONG).unwrap();
            assert_eq!(sender.send(b"", 3, LONG), Err(Error::Channel(channel::Error::Forked)));
            let forked = || Err(Error::Stream(stream::Error::Forked));
            assert_eq!(speaks.as_mut().unwrap().send(b"", 3, LONG), forked());
            assert_eq!(streams.take().unwrap().poll().map(drop), forked());
            assert_eq!(speaks.take().unwrap().close(LONG), forked());
            assert!(matches!(memory.alloc(all.len(), 0, NOW).map(drop), Err(Error::Pool(_))));
            block.write(0, b"by the child", LONG).unwrap();
            true
        });
        assert!(child.ended_well());
        all.free().unwrap();
        waits.join().unwrap().unwrap();
    });
    let mut written = [0; 12];
    block.read(0, &mut written, LONG).unwrap();
    assert_eq!(&written, b"by the child");
    let (mut sender, remote, mut speaks) = (sender.unwrap(), remote.unwrap(), speaks.unwrap());
    assert_eq!(streams.unwrap().poll(), Ok(false));
    sender.send(b"of the parent", 4, LONG).unwrap();
    remote.send(b"of the parent", 5, LONG).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    for hints in [2, 4, 5] {
        assert_eq!(receiver.receive(&mut [0; 64], NOW).unwrap().hints, hints);
    }
    speaks.send(b"after", 6, LONG).unwrap();
    speaks.close(LONG).unwrap();
    assert_eq!(hears.receive(LONG).unwrap().bytes, b"before");
    assert_eq!(hears.receive(LONG).unwrap().bytes, b"after");
    assert_eq!(hears.receive(LONG).map(drop), Err(stream::Error::Ended));
}
