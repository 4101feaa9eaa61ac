//! Ghost cells of sparse fields, exchanged between blocks on several ranks.
//!
//! A mesh code says where its blocks are ([`Mesh`]) and where the arrays of its fields lie ([`Fields`]), and exchanges
//! them: one message for each pair of ranks, in which a strip that holds nothing costs a bit. A field becomes present
//! on a block when something of it arrives there. The same bits come out whatever the number of ranks, in whatever
//! order they run, and also if the halves within a rank and between ranks are done one after the other.
//!
//! ```
//! use std::sync::Arc;
//! use umbra::boundary::{Boundary, Extent, Fabric, Field, Fields, Grid, Settings, Store, largest_message};
//! use umbra_core::boundary::{Shape, Sparse};
//! // Four blocks of 8 x 8 cells in a periodic square, and a field that is nowhere but on the first block.
//! let shape = Shape::new([8, 8, 1], [2, 2, 0])?;
//! let mesh = Grid::new(shape, [2, 2, 1], [true; 3], 1);
//! let fields = [Field::sparse(Sparse::new(1e-6, 1e-8, 0.0)?)];
//! let extent = Extent { ranks: 1, slots: 2, message: largest_message(&mesh, &fields, 1) };
//! let fabric = Fabric::attach(Arc::new(Fabric::segment(extent)?), extent, 0)?;
//! let mut boundary = Boundary::build(&mesh, &fields, fabric, Settings::default())?;
//! let mut store = Store::new(4, shape.len(), &fields, 1);
//! store.allocate(0, 0);
//! store.stage(0).values_mut(0, 0).ok_or("absent")?[2 * 12 + 9] = 1.0; // the last interior cell of its first row
//! boundary.exchange(&mut store.stage(0))?;
//! let right = store.values(1, 0, 0).ok_or("something came, so it is present there")?;
//! assert_eq!(right[2 * 12 + 1], 1.0);
//! // Around the box it also came to the block below, and over the corner to the last one.
//! assert!((0..4).all(|block| store.values(block, 0, 0).is_some()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The protocol is [`umbra_core::boundary`]; docs/boundary.md describes it.

mod agent;
mod balance;
mod build;
mod edges;
mod epoch;
mod error;
mod extent;
mod fabric;
mod fields;
mod held;
mod levels;
mod mesh;
mod nodes;
mod overdue;
mod parcels;
mod pause;
mod ring;
mod room;
mod rows;
mod scope;
mod settings;
mod strip;
mod tasks;
pub(crate) mod touch;
mod transport;
mod tree;
mod way;

pub use agent::{Agent, Attended};
pub use balance::{MeshError, is_refined};
pub use build::largest_message;
pub use edges::{Edge, fill_edges};
pub use error::{BoundaryError, Differs, Late};
pub use extent::{Extent, ExtentError};
pub use fabric::{Fabric, Offer, Unshared};
pub use fields::{Field, Fields, NoMemory, Stage, Store, Usage};
pub use held::Held;
pub use mesh::{Grid, Mesh};
pub use nodes::{Nodes, NodesError};
pub use ring::{GREETING_BYTES, Greeting, VerbsRing};
pub use scope::Scope;
pub use settings::Settings;
pub use tasks::Boundary;
pub use transport::{Transport, TransportError};
pub use tree::Tree;
