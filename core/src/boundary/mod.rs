//! Exchange of ghost cells between the blocks of a mesh.
//!
//! It is made for meshes where most fields are absent from most blocks. A block sends each neighbour the cells that
//! this one has as ghosts: a strip. Of a sparse field most strips hold nothing, and nothing costs a bit: all strips
//! from one rank to another go in one message, whose head says which are live. Neither side keeps buffers for strips;
//! they are packed from the field into the receiver's slot and used from there.
//!
//! ```text
//! Shape, Element       which cells pass, and how many exactly
//! Octant, Step         which cells pass between blocks of two levels
//! StripOp              what becomes of their values
//! Sparse               what counts as nothing
//! Key, Entry           channels and plans, the same on both sides
//! Channel              who may do what in which state
//! Head                 the message
//! Expected             what must be true of a message, for an agent that sees it first
//! Exchange             one rank's exchanges with all its peers
//! agree                when the mesh may change
//! Post                 who looks out for a rank, an agent or the rank itself
//! Pool                 objects with counted owners, for memory of strips and fields
//! ```
//!
//! ```
//! use umbra_core::boundary::{
//!     Arrival, Channel, Config, Element, Entry, Exchange, Key, Kind, Peer, Place, Step, Storage,
//! };
//! use umbra_core::time::Time;
//! let element = Element::new(1, 0, 0).ok_or("no such element")?;
//! let (to, from) = (0, 1);
//! let key = |sender, receiver| Key { sender, receiver, field: 0, element, kind: Kind::GHOST };
//! let config = Config { epoch: 1, kind: Kind::GHOST, slots: 2, smallest: 256, largest: u32::MAX, deadline: None };
//! // Two ranks with one channel each way.
//! let mut ranks = [(to, from), (from, to)].map(|(me, other)| {
//!     let entries = [(me, other), (other, me)]
//!         .map(|(a, b)| Entry { key: key(a, b), count: 2, always: false, step: Step::Same });
//!     let peers = [Peer::new(other, 0..1, 1..2)];
//!     let none: [Channel<()>; 0] = [];
//!     Exchange::new(Storage { peers, entries, channels: none, live: [0; 2], local: 2..2 }, config)
//! });
//! let [Ok(ours), Ok(theirs)] = &mut ranks else { return Err("not built".into()) };
//! ours.begin(0, Time(0))?;
//! theirs.begin(0, Time(0))?;
//! let mut slot = [0; 256];
//! let (head, payload) = slot.split_at_mut(72);
//! let mut message = ours.pack(0, head)?;
//! if let Place::Slot(at) = message.live()? {
//!     payload[at as usize - 72..][..16].copy_from_slice(&[7; 16]);
//! }
//! let message = message.commit(0, 0)?;
//! assert_eq!((message.head, message.in_slot), (64, 16), "all are live, so there is no bitmap");
//! assert_eq!(theirs.on_message(0, &slot[..message.head])?, Arrival::Whole);
//! let places: Vec<_> = theirs.strips(0)?.filter_map(|(_, _, place)| place).collect();
//! assert_eq!(places, [Place::Slot(72)]);
//! theirs.release(0)?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod arrive;
mod channel;
mod class;
mod exchange;
mod expected;
mod header;
mod levels;
mod operation;
mod pack;
mod peer;
mod plan;
mod pool;
mod pool_error;
mod post;
mod quiesce;
mod refuse;
mod slot;
mod state;
mod strip;
mod threshold;
mod unpack;

pub use channel::{Channel, Sent, Start};
pub use class::Class;
pub use exchange::{Arrival, Config, Counts, Exchange, Storage};
pub use expected::Expected;
pub use header::{HEAD, Head, HeadError, Live, bitmap_bytes};
pub use levels::{Octant, Passage, RefineError, Step};
pub use operation::{Patch, StripOp, Usual, inject, mean};
pub use pack::{Message, Pack, Place};
pub use peer::Peer;
pub use plan::{Entry, Key, Kind, PlanError, fingerprint, first_difference};
pub use pool::{Owner, Pool, PoolStatistics};
pub use pool_error::{GetError, PoolError};
pub use post::{Post, Taken};
pub use quiesce::{Vote, VoteError, agree};
pub use refuse::{BuildError, ExchangeError, Missing, Refused};
pub use slot::{Header, Weak};
pub use state::{NotMyChannel, Refusal, Role, State};
pub use strip::{Element, Region, Shape, ShapeError};
pub use threshold::{Sparse, ThresholdError};
pub use unpack::Unpack;
