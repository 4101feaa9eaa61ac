//! Connecting by RDMA's connection manager where no control link leads to the peer.
//!
//! It resolves a socket address to a device, a port and a route, and carries each side's [`Hello`] in the private data
//! of the connection. The queue pairs are made and connected by their user, from what the hellos say:
//!
//! ```text
//! Call::resolve(address)  ──> port(): make queue pairs there
//! connect(our hello)      ──> Listener::accept() gives a Request: its port(), its hello()
//!   (the peer's hello)    <── Request::accept(our hello)
//! ```
//!
//! Every wait has a deadline. A [`Connection`] holds nothing but the news that the peer has ended it.
//!
//! Source: rdma_cm(7), `rdma/rdma_cma.h` of rdma-core.

mod events;

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::io;
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::abi::{self, Plain};
use super::library::{Manager, library, manager as bound};
use super::numbers::manager;
use super::port::{Gid, GidKind};
use super::{Device, Hello, Port, VerbsError};

use events::Channel;

/// Requests that may wait to be accepted.
const BACKLOG: c_int = 64;

/// One end of a connection, or of an attempt; it has a channel of its own.
#[derive(Debug)]
struct Identity {
    manager: &'static Manager,
    id: NonNull<abi::CmId>,
    channel: Channel,
}

// SAFETY: rdma-core's calls on an identifier may be made from any thread, one at a time here.
unsafe impl Send for Identity {}

impl Drop for Identity {
    fn drop(&mut self) {
        // SAFETY: made once, freed once, before its channel; all its events were acknowledged.
        unsafe { (self.manager.destroy_id)(self.id.as_ptr()) };
    }
}

impl Identity {
    fn new() -> Result<Identity, VerbsError> {
        let manager = bound()?;
        let channel = Channel::new(manager)?;
        let mut id = std::ptr::null_mut();
        // SAFETY: the channel lives, and the result is written to a live pointer.
        let code = unsafe { (manager.create_id)(channel.as_ptr(), &raw mut id, std::ptr::null_mut(), manager::PORTS) };
        checked("making an identifier of the connection manager", code)?;
        let id = NonNull::new(id).ok_or_else(|| VerbsError::last("making an identifier of the connection manager"))?;
        Ok(Identity { manager, id, channel })
    }

    /// Device and port that lead to the peer.
    fn port(&self) -> Result<Port, VerbsError> {
        let id = self.id.as_ptr();
        // SAFETY: the identifier lives; it is bound to a device, whose context lives as long as librdmacm is loaded.
        let context = unsafe { (*id).verbs };
        let Some(context) = NonNull::new(context) else { return Err(VerbsError::NoDevice) };
        // SAFETY: as above.
        let device = unsafe { context.as_ref() }.device;
        // SAFETY: the device belongs to the context.
        let name = unsafe { (library()?.get_device_name)(device) };
        // SAFETY: the name lies in the device and ends with zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        // SAFETY: the identifier lives; the manager has filled in the route.
        let number = unsafe { (*id).port_num };
        // SAFETY: as above.
        let below = unsafe { &(*id).route.addr.addr };
        // SAFETY: any bytes are such addresses.
        let below = unsafe { below.ibaddr };
        // SAFETY: any 16 bytes are an address.
        let ours = unsafe { below.sgid.raw };
        let device = Device::open(Some(&name))?;
        let info = device.port(number)?;
        let missing = || {
            let route = Gid { index: 0, kind: GidKind::RoceV2, bytes: ours };
            let known = info.gids_in_words();
            let why = format!("port {number} of {name} has no address {route}, but {known}; see `umbra devices`");
            let error = io::Error::new(io::ErrorKind::NotFound, why);
            VerbsError::Call { what: "finding the address of a route", error }
        };
        let gid = info.gid_of(&ours).ok_or_else(missing)?.index;
        device.active_port(number, Some(gid))
    }

    /// What a side tells: its hello, and the queue pair that the connection stands for.
    fn parameters(hello: &Hello, bytes: &[u8; Hello::BYTES]) -> abi::CmParameters {
        abi::CmParameters {
            private_data: bytes.as_ptr().cast(),
            private_data_len: Hello::BYTES as u8,
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            qp_num: hello.frames.number,
            ..Plain::ZERO
        }
    }
}

/// A call of the manager, which leaves its error in `errno`.
fn checked(what: &'static str, code: c_int) -> Result<(), VerbsError> {
    if code == 0 { Ok(()) } else { Err(VerbsError::last(what)) }
}

/// A socket address as the manager reads it.
fn storage(address: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: all zero is a value of this struct of numbers.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let at = &raw mut storage;
    match address {
        SocketAddr::V4(address) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage has room for every address, at every address's alignment.
            unsafe { at.cast::<libc::sockaddr_in>().write(v4) };
        }
        SocketAddr::V6(address) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { at.cast::<libc::sockaddr_in6>().write(v6) };
        }
    }
    storage
}

/// What is left of a time.
fn rest(begun: Instant, within: Duration) -> Duration {
    within.saturating_sub(begun.elapsed())
}

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX).max(1)
}

/// Takes requests to connect.
#[derive(Debug)]
pub struct Listener(Identity);

impl Listener {
    /// Listens on an address of a device; port 0 stands for any that is free.
    ///
    /// # Errors
    /// [`VerbsError::NoManager`], or [`VerbsError::Call`] if no device has the address, or the port is taken.
    pub fn bind(address: SocketAddr) -> Result<Listener, VerbsError> {
        let identity = Identity::new()?;
        let mut storage = storage(address);
        // SAFETY: the identifier lives; the address is copied by the call.
        let code = unsafe { (identity.manager.bind_addr)(identity.id.as_ptr(), (&raw mut storage).cast()) };
        checked("binding to the address of a device", code)?;
        // SAFETY: as above.
        checked("listening", unsafe { (identity.manager.listen)(identity.id.as_ptr(), BACKLOG) })?;
        Ok(Listener(identity))
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        // SAFETY: the identifier lives.
        u16::from_be(unsafe { (self.0.manager.source_port)(self.0.id.as_ptr()) })
    }

    /// The next request, waited for that long.
    ///
    /// # Errors
    /// [`VerbsError::Late`] if none came, [`VerbsError::BadHello`] if one did that is not ours: it is refused.
    pub fn accept(&mut self, within: Duration) -> Result<Request, VerbsError> {
        let manager = self.0.manager;
        // Made first, so that an identifier that comes is never without one.
        let channel = Channel::new(manager)?;
        let event = self.0.channel.next("a request to connect", within)?;
        let (kind, id, hello) = (event.kind(), NonNull::new(event.id()), event.hello());
        drop(event);
        let (manager::CONNECT_REQUEST, Some(id)) = (kind, id) else {
            return Err(VerbsError::Call { what: "waiting for a request", error: io::ErrorKind::InvalidData.into() });
        };
        let identity = Identity { manager, id, channel };
        // SAFETY: both live, and no event of the identifier is held.
        let code = unsafe { (manager.migrate_id)(id.as_ptr(), identity.channel.as_ptr()) };
        checked("moving a request to a channel of its own", code)?;
        match hello {
            Some(hello) => Ok(Request { identity, hello }),
            None => {
                identity.refuse()?;
                Err(VerbsError::BadHello)
            }
        }
    }
}

/// A peer that asks to be connected.
#[derive(Debug)]
pub struct Request {
    identity: Identity,
    hello: Hello,
}

impl Request {
    /// What the peer tells of itself.
    #[must_use]
    pub const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The port that leads to it: queue pairs for it must speak through this one.
    ///
    /// # Errors
    /// [`VerbsError`] if the port is not active any more.
    pub fn port(&self) -> Result<Port, VerbsError> {
        self.identity.port()
    }

    /// Tells the peer our queue pairs, which must be connected to its own by now, and waits until it has connected its.
    ///
    /// # Errors
    /// [`VerbsError::Late`], [`VerbsError::Refused`] if it went away, or [`VerbsError::Call`].
    pub fn accept(self, ours: &Hello, within: Duration) -> Result<Connection, VerbsError> {
        let (identity, bytes) = (self.identity, ours.to_bytes());
        let mut parameters = Identity::parameters(ours, &bytes);
        // SAFETY: the identifier lives; parameters and private data are copied by the call.
        let code = unsafe { (identity.manager.accept)(identity.id.as_ptr(), &raw mut parameters) };
        checked("accepting a request to connect", code)?;
        identity.expect(manager::ESTABLISHED, "the peer that was accepted", within)?;
        Ok(Connection { identity, ended: Cell::new(false) })
    }

    /// Tells the peer that it is not wanted.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn refuse(self) -> Result<(), VerbsError> {
        self.identity.refuse()
    }
}

/// A way to a peer that was found, but not taken yet.
#[derive(Debug)]
pub struct Call {
    identity: Identity,
    to: SocketAddr,
}

impl Call {
    /// Resolves a socket address to a device, and finds the route.
    ///
    /// # Errors
    /// [`VerbsError::NoManager`], [`VerbsError::NoWay`] if no device leads there, or [`VerbsError::Late`].
    pub fn resolve(to: SocketAddr, within: Duration) -> Result<Call, VerbsError> {
        let (begun, identity) = (Instant::now(), Identity::new()?);
        let (id, limit) = (identity.id.as_ptr(), milliseconds(within));
        let mut storage = storage(to);
        let source = std::ptr::null_mut();
        // SAFETY: the identifier lives; the address is copied by the call.
        let code = unsafe { (identity.manager.resolve_addr)(id, source, (&raw mut storage).cast(), limit) };
        let no_way = |error| VerbsError::NoWay { to, error };
        if code != 0 {
            return Err(no_way(io::Error::last_os_error()));
        }
        let steps = [manager::ADDR_RESOLVED, manager::ROUTE_RESOLVED];
        for step in steps {
            let event = identity.channel.next("a way to the peer", rest(begun, within))?;
            let (kind, error) = (event.kind(), event.error());
            drop(event);
            match kind {
                manager::ADDR_ERROR | manager::ROUTE_ERROR => return Err(no_way(error)),
                kind if kind != step => return Err(no_way(io::ErrorKind::InvalidData.into())),
                manager::ADDR_RESOLVED => {
                    // SAFETY: the identifier lives.
                    let code = unsafe { (identity.manager.resolve_route)(id, milliseconds(rest(begun, within))) };
                    checked("finding the route to the peer", code)?;
                }
                _ => {}
            }
        }
        Ok(Call { identity, to })
    }

    /// The port that leads to the peer: queue pairs for it must speak through this one.
    ///
    /// # Errors
    /// [`VerbsError`] if the port is not active any more.
    pub fn port(&self) -> Result<Port, VerbsError> {
        self.identity.port()
    }

    /// Tells the peer our queue pairs, and waits for its answer; `connect` is called with that and connects them.
    ///
    /// # Errors
    /// [`VerbsError::Refused`], [`VerbsError::Late`], [`VerbsError::BadHello`], or what `connect` says.
    pub fn connect(
        self,
        ours: &Hello,
        within: Duration,
        connect: impl FnOnce(&Hello) -> Result<(), VerbsError>,
    ) -> Result<Connection, VerbsError> {
        let (Call { identity, to }, bytes) = (self, ours.to_bytes());
        let mut parameters = Identity::parameters(ours, &bytes);
        // SAFETY: the identifier lives; parameters and private data are copied by the call.
        let code = unsafe { (identity.manager.connect)(identity.id.as_ptr(), &raw mut parameters) };
        checked("asking to be connected", code)?;
        let hello = identity.expect(manager::CONNECT_RESPONSE, &format!("an answer of {to}"), within)?;
        connect(&hello.ok_or(VerbsError::BadHello)?)?;
        // SAFETY: the identifier lives.
        checked("confirming a connection", unsafe { (identity.manager.establish)(identity.id.as_ptr()) })?;
        Ok(Connection { identity, ended: Cell::new(false) })
    }
}

impl Identity {
    /// Waits for one kind of event; the hello that came with it, if one did.
    fn expect(&self, kind: u32, who: &str, within: Duration) -> Result<Option<Hello>, VerbsError> {
        let begun = Instant::now();
        let event = self.channel.next(who, within)?;
        match event.kind() {
            came if came == kind => Ok(event.hello()),
            manager::REJECTED => Err(VerbsError::Refused { who: who.to_owned() }),
            manager::UNREACHABLE => Err(VerbsError::Late { who: who.to_owned(), waited: begun.elapsed() }),
            _ => Err(VerbsError::Call { what: "connecting by the connection manager", error: event.error() }),
        }
    }

    fn refuse(&self) -> Result<(), VerbsError> {
        // SAFETY: the identifier lives, and no private data is given.
        checked("refusing a request", unsafe { (self.manager.reject)(self.id.as_ptr(), std::ptr::null(), 0) })
    }
}

/// Both sides are connected; dropping it tells the peer.
#[derive(Debug)]
pub struct Connection {
    identity: Identity,
    /// It said so once; later news are of what follows.
    ended: Cell<bool>,
}

impl Connection {
    /// Whether the peer has ended it, or its device is gone; never waits.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn is_ended(&self) -> Result<bool, VerbsError> {
        if self.ended.get() {
            return Ok(true);
        }
        match self.identity.channel.next("news", Duration::ZERO) {
            Ok(event) => self.ended.set(matches!(event.kind(), manager::DISCONNECTED | manager::DEVICE_REMOVAL)),
            Err(VerbsError::Late { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(self.ended.get())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the identifier lives. A peer that is gone needs not be told.
        unsafe { (self.identity.manager.disconnect)(self.identity.id.as_ptr()) };
    }
}
