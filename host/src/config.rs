//! What a job runs on: the configuration file and the environment.
//!
//! A [`Platform`] is what a file lists, a [`Job`] the part of it that one job uses: the DPUs in the order
//! of the job's list, and with them the number of every service process. Files of upstream (format
//! version 1) and its environment names work unchanged (spec 2.2).
//!
//! ```
//! use umbra::config::Platform;
//! let text = "# Format version: 1\nnode1,bf1:127.0.0.1:7010&7011:9010&9011\n";
//! let platform = Platform::parse(text, "job.cfg")?;
//! let job = platform.job(&["bf1"])?;
//! assert_eq!(job.service_processes(), 2);
//! # Ok::<(), umbra::config::ConfigError>(())
//! ```
//!
//! Every error names the file and, where there is one, the line.

mod environment;
mod error;
mod file;
mod job;

pub use environment::{Environment, EnvironmentError};
pub use error::{ConfigError, ConfigFault};
pub use file::{DeviceLine, DpuLine, HostLine, Platform};
pub use job::{Job, ServiceAddress};
