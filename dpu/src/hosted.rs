//! The agent as a Linux process.

mod arena;
mod calls;
mod card;
mod connecting;
mod doors;
mod early;
mod error;
mod events;
mod fetching;
mod groups;
mod jobs;
mod lending;
mod linked;
mod lives;
mod logging;
mod lookout;
mod machines;
mod orders;
mod own;
mod process;
mod questions;
mod rdma;
mod reaching;
mod reading;
mod settings;
mod sharing;
mod staging;
mod traffic;

pub use arena::TablesError;
pub use error::ProcessError;
pub use lives::serve;
pub use logging::{Log, LogError, LogOptions};
pub use lookout::{Lookout, LookoutError, look_out};
pub use machines::MachinesError;
pub use settings::{Options, Settings, SettingsError};
