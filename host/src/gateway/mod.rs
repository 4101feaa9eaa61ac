//! Channels, streams and pools of other hosts, through the gateways there.
//!
//! The calls are the same as for those of this host. On each host whose channels others use, a process runs a
//! [`Server`]. A client [registers](Gateways::register) where the gateway of a host listens, and attaches to a channel
//! of it by its [reference](crate::channel::Channel::reference), or to [streams](RemoteStreams) or a [pool](RemotePool)
//! by theirs. What he asks for is done there, by the gateway, with the errors and the deadlines of a channel at hand;
//! lines are control [links](crate::link), over which only holders of the job's secret talk.
//!
//! ```
//! use std::net::TcpListener;
//! use umbra::channel::{Attributes, Channel, SendOptions, Timeout};
//! use umbra::gateway::{Gateways, RemoteChannel, Server};
//! use umbra::link::{Address, Listener};
//! use umbra::secret::Secret;
//! use umbra::sys::host;
//! # let secret = Secret::random()?;
//! // On the host of the channel.
//! let channel = Channel::create(&Attributes::default())?;
//! let socket = TcpListener::bind("127.0.0.1:0")?;
//! let address = Address::Tcp(socket.local_addr()?);
//! let server = Server::start(Listener::Tcp(socket), secret.clone())?;
//!
//! // On another host; here it is the same one, in disguise.
//! let gateways = Gateways::new(secret).masquerading();
//! gateways.register(host::id(), address)?;
//! let remote = RemoteChannel::attach(&channel.reference()?, &gateways, Timeout::Never)?;
//! remote.sender(SendOptions::default(), Timeout::Never)?.send(b"hello", 42, Timeout::Never)?;
//! let mut pad = [0; 64];
//! let message = remote.receiver(Timeout::Never)?.receive(&mut pad, Timeout::Never)?;
//! assert_eq!((&pad[..message.len], message.hints), (&b"hello"[..], 42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each handle has a line of its own, so messages of one send handle arrive in their order, and a handle that waits
//! holds up no other one; what a channel, streams or a pool are asked by many threads has a line for each call of the
//! moment. A line that breaks, because the gateway died or the network did, is an error at once; the next call makes a
//! new one. Whether the call that broke was carried out is not known then: it is not repeated, and the next call of the
//! handle first has the gateway end it, so that it is not carried out later either. A conversation has a line too, and
//! ends with it.
//!
//! A child that was forked off uses its parent's [`RemoteChannel`] and [`RemotePool`] over lines of its own; all else that has
//! lines is refused to it (`Forked`), and stays its parent's.
//!
//! *Cost*: two frames and, at the gateway, a wake-up of the line's thread; one thread a line.

mod converse;
mod counted;
mod error;
mod lend;
mod line;
mod lines;
mod pool;
mod refusals;
mod registry;
mod remote;
mod serve;
mod server;
mod streams;
mod talk;
mod under_way;

pub use converse::KEPT_MOST;
pub use error::Error;
pub use pool::{RemoteAllocation, RemotePool, Used};
pub use registry::Gateways;
pub use remote::{RemoteBarrier, RemoteChannel, RemoteReceiver, RemoteSender};
pub use server::{LINES, Server};
pub use streams::RemoteStreams;
pub use talk::{RemoteStreamReceiver, RemoteStreamSender};
