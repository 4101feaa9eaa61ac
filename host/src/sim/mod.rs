//! A whole job in one process, on virtual time and over a simulated network.
//!
//! The network misbehaves as told. The machines are real: every service process runs
//! [`Service`](umbra_core::group::Service) and every rank [`Member`](umbra_core::group::Member), exactly as in a real
//! job; only links, clock and processes are simulated. All randomness comes from the job's seed, so a run can be
//! repeated, and its trace has a digest that says whether it was the same.
//!
//! ```
//! use umbra::sim::{Job, Sim};
//! use umbra_core::time::Lapse;
//!
//! let mut sim = Sim::new(Job { seed: 7, ..Job::new(2, 2, 4) })?;
//! assert!(sim.run_until_world_is_full(Lapse::from_secs(1)));
//! let outcome = sim.outcome();
//! assert_eq!(outcome.full_services, 4);
//! assert!(outcome.time_to_full.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod churn;
mod faults;
mod flow;
mod job;
mod links;
mod look;
mod node;
mod options;
mod outcome;
mod random;
mod run;
mod script;
mod watch;

pub use job::{Job, Network, Order};
pub use node::{RankNode, ServiceNode, Tables};
pub use options::{Options, SimError, run};
pub use outcome::{Happening, Outcome, Sent, Timeline, Traffic};
pub use random::Random;
pub use run::Sim;
pub use script::{Fault, Process, ScriptError, Scripted};
pub use watch::{Rule, Violation};
