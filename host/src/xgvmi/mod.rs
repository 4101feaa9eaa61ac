//! Memory of a host's processes as local memory of its DPU (feature `xgvmi`).
//!
//! This is cross-GVMI on mlx5 cards. Each function of a card, that of the host and that of the DPU, has keys of its
//! own. A process of the host makes an indirect key over registered memory and lets others use it who know the region's
//! secret ([`Exporter`]); a service process on the DPU makes an alias of that key ([`Importer`]) and posts its own work
//! with the alias as local key, so bytes move between the host's memory and any peer without a copy on the DPU and
//! without the host's processor. [`Aliased`] is that as a [`Device`](umbra_core::access::device::Device), so the
//! contract of memory access and its one suite hold here too; [`probe()`] finds out whether a card can do it.
//!
//! - [`bits`], [`layout`]: the fields of the firmware's commands.
//! - [`command`]: commands as bytes, answers as values; no card needed.
//! - [`Commands`]: what carries them out: [`Devx`](crate::verbs::Devx) by libmlx5, or a test's card in memory.
//! - [`Exporter`], [`Importer`]: the sequences, whatever the card says to each step.
//! - [`Loopback`]: moves bytes by a queue pair that is connected to itself.
//!
//! **Nothing here has run on a card yet**: codecs are tested against the public tables, sequences against a card in
//! memory that carries out the same bytes, [`Loopback`] on RDMA in software, and [`Devx`](crate::verbs::Devx) only up
//! to a machine that has no such card.
//!
//! Source: `mlx5_ifc.h` of Linux, `mlx5dv_devx_obj_create(3)` of rdma-core, and how OpenUCX exports memory.

pub mod bits;
mod card;
pub mod command;
mod device;
mod devx;
mod error;
mod export;
mod import;
pub mod layout;
mod loopback;
mod probe;

pub use card::Commands;
pub use device::{Aliased, Mover};
pub use error::{Command, XgvmiError};
pub use export::{Exported, Exporter};
pub use import::{Alias, AliasId, Cached, Importer};
pub use loopback::Loopback;
pub use probe::probe;
