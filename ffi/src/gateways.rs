//! `umbra_gateways_*`, `umbra_gateway_*`: what hosts let each other use.
//!
//! The first are for what other hosts have, the second for what they may use of this one.

use std::ffi::{c_char, c_int, c_void};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use umbra::gateway::{Gateways, Server};
use umbra::link::{Address, Listener};
use umbra::secret::Secret;
use umbra::sys::host;
use umbra_core::reference::Reference;

use crate::call::{enter, sized, store, store_unless_null, takes, takes_unless_null, text};
use crate::far::gateways;
use crate::gateway_socket::{Served, Socket};
use crate::object::{HANDLES, Object};
use crate::pool::{bytes, keep};
use crate::status::{Code, Failure};

/// `struct umbra_gateways_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    secret: *const c_char,
    masquerading: u32,
    reserved: u32,
}

/// The secret in a file.
///
/// # Safety
/// `path` ends with a zero, or is null.
unsafe fn secret(path: *const c_char) -> Result<Secret, Failure> {
    // SAFETY: the caller's promise.
    let path = unsafe { text(path, "secret") }?;
    Secret::read(Path::new(path)).map_err(|error| Failure::new(Code::Invalid, error))
}

/// Where a gateway listens: an address and a port, or the path of a socket.
///
/// # Safety
/// `address` ends with a zero, or is null.
unsafe fn place(address: *const c_char) -> Result<Address, Failure> {
    // SAFETY: the caller's promise.
    let address = unsafe { text(address, "address") }?;
    if address.contains('/') {
        return Ok(Address::Unix(address.into()));
    }
    let parsed: Result<SocketAddr, _> = address.parse();
    parsed.map(Address::Tcp).map_err(|error| {
        Failure::new(Code::Invalid, format!("address {address:?}: {error}: give ADDRESS:PORT or the path of a socket"))
    })
}

/// Knows no gateway yet.
///
/// # Safety
/// `options` points to a structure that begins with its size; `known` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gateways_create(options: *const Options, known: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `options`; zeros are valid options.
        let options = unsafe { sized(options, size_of::<Options>()) }?;
        takes(known)?;
        // SAFETY: and about the text.
        let made = Gateways::new(unsafe { secret(options.secret) }?);
        let made = if options.masquerading == 0 { made } else { made.masquerading() };
        // SAFETY: and about the output.
        unsafe { keep(Object::Gateways(made), known) }
    })
}

/// Says where the gateway of a host listens.
///
/// # Safety
/// `address` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gateways_register(known: u64, host: u64, address: *const c_char) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let address = unsafe { place(address) }?;
        Ok(gateways(known)?.register(host, address)?)
    })
}

/// Forgets the gateway of a host.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gateways_unregister(known: u64, host: u64) -> c_int {
    enter(|| Ok(gateways(known)?.unregister(host)?))
}

/// Releases the handle; what was attached through these gateways stays.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gateways_release(known: u64) -> c_int {
    enter(|| {
        gateways(known)?;
        HANDLES.release(known).map(drop)
    })
}

/// The number of this host.
///
/// # Safety
/// `number` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_host_id(number: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        unsafe { store(number, host::id()) }
    })
}

/// The number of the host that a reference names something of.
///
/// # Safety
/// `reference` points to `length` bytes; `number` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_reference_host(reference: *const c_void, length: usize, number: *mut u64) -> c_int {
    enter(|| {
        takes(number)?;
        // SAFETY: the caller's promise about the bytes.
        let parsed = Reference::parse(unsafe { bytes(reference, length) }?);
        let named = parsed.map_err(umbra::reference::Error::Bytes)?;
        // SAFETY: and about the output.
        unsafe { store(number, named.host) }
    })
}

/// Begins to serve what this user has on this host to others, and tells the port.
///
/// # Safety
/// The texts end with a zero; `gateway` is valid for writing, and so is `port`, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gateway_start(
    secret_file: *const c_char,
    address: *const c_char,
    port: *mut u32,
    gateway: *mut u64,
) -> c_int {
    enter(|| {
        takes(gateway)?;
        takes_unless_null(port)?;
        // SAFETY: the caller's promise about the texts.
        let secret = unsafe { secret(secret_file) }?;
        // SAFETY: as above.
        let address = unsafe { place(address) }?;
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => Failure::new(
                Code::InUse,
                "somebody serves there, or a file is in the way: end that gateway, or choose another address",
            ),
            _ => Failure::new(Code::System, format!("cannot listen: {error}")),
        };
        let (listener, socket, number) = match address {
            Address::Tcp(at) => {
                let socket = TcpListener::bind(at).map_err(refused)?;
                let number = socket.local_addr().map_err(refused)?.port();
                (Listener::Tcp(socket), None, number)
            }
            Address::Unix(path) => {
                let (listener, socket) = Socket::bind(path).map_err(refused)?;
                (Listener::Unix(listener), Some(socket), 0)
            }
        };
        let served = Served::new(socket, Server::start(listener, secret)?);
        // SAFETY: and about the outputs.
        unsafe { keep(Object::Gateway(served), gateway) }?;
        // It was looked at above, so no gateway is kept whose port cannot be told.
        // SAFETY: as above.
        unsafe { store_unless_null(port, number.into()) }?;
        Ok(())
    })
}

fn with_gateway<R>(gateway: u64, act: impl FnOnce(&Server) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(gateway)? {
        Object::Gateway(served) => act(served.server()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// How many lines of others a gateway serves at the moment.
///
/// # Safety
/// `lines` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gateway_lines(gateway: u64, lines: *mut usize) -> c_int {
    enter(|| {
        let number = with_gateway(gateway, |server| Ok(server.lines()))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(lines, number) }
    })
}

/// Ends a gateway, and what others do through it.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gateway_end(gateway: u64) -> c_int {
    enter(|| {
        with_gateway(gateway, |_| Ok(()))?;
        HANDLES.release(gateway).map(drop)
    })
}
