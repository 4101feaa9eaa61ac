//! Chained calls on a host: members are threads or processes that share memory.
//!
//! A [`Station`] is the memory in which members meet; a [`Member`] takes a seat in it, registers functions by name, and
//! makes and serves calls. It does not matter whether members are threads of one process or processes: whoever got the
//! station's descriptor may come. A member that dies is found by its process, and its calls are reported by name.
//!
//! ```
//! use std::time::Duration;
//! use umbra::call::{Member, Shape, Station};
//! use umbra_core::chain::{Call, Caps, Node, Phase, Verdict};
//!
//! let station = Station::create("example", Shape::new(4))?;
//! let mut members = Vec::new();
//! for node in (0..4).map(Node) {
//!     let mut member = Member::join(&station, node)?;
//!     member.register("sum", |work| {
//!         let number = match work.phase {
//!             Phase::Wait(answer) => work.reply.data()[0] + answer.data[0],
//!             _ => work.node.0 as u8,
//!         };
//!         if work.reply.set_data(&[number]).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
//!     })?;
//!     members.push(member);
//! }
//! let sum = umbra_core::chain::Tag::of("sum");
//! let everybody = [0, 1, 2, 3].map(Node);
//! let call = Call { callback: sum, caps: Caps { header: 0, data: 1 }, ..Call::new(sum, &everybody) };
//! let mut first = members.remove(0);
//! let handle = first.start(&call)?;
//! // The others serve in threads of their own, or in other processes; here in turn.
//! while !first.test(handle)? {
//!     members.iter_mut().for_each(|member| _ = member.turn());
//! }
//! assert_eq!(first.wait(handle, Duration::ZERO)?.data, [6]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod answer;
mod auto;
pub mod border;
pub mod built_in;
pub mod calibrate;
pub mod deliver;
pub mod ferry;
mod forked;
mod join;
pub mod local;
mod member;
mod named;
mod numbers;
pub mod offer;
mod outgoing;
mod peers;
mod post;
pub mod probe;
pub mod progress;
mod rendezvous;
mod shape;
mod sleep;
mod station;
mod storage;
pub mod stream;
pub mod tell;
mod topology;
mod turn;
#[cfg(feature = "typed")]
pub mod typed;

pub use answer::{Failure, Reply, WaitError};
pub use calibrate::{CalibrateError, Tried};
pub use deliver::Delivered;
pub use forked::Forked;
pub use join::JoinError;
pub use local::{BeginError, InnerError, Local};
pub use member::{Function, Member};
pub use numbers::{Number, Operator, reduction};
pub use offer::{Offer, OfferError, ReadError};
pub use outgoing::Outgoing;
pub use progress::{CallError, Called, Progress};
pub use shape::{Shape, below};
pub use sleep::Sleeps;
pub use station::{Station, StationError};
pub use storage::{Capacities, Heap};
pub use stream::{Segment, StreamError, Window};
#[cfg(feature = "typed")]
pub use typed::{Fault, Here, Procedure, Request, TypedError};
