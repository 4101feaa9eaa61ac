//! Looking out for the messages of a boundary exchange.
//!
//! An agent does it alone, or beside the work of a service process. The memory of the exchange is the standard input:
//! whoever starts the agent has made it.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use umbra::boundary::{Agent, Extent, TransportError};
use umbra::sys::process::{ProcessError, end_with_starter};
use umbra::sys::segment::{Mapping, Segment, SegmentError};
use umbra_core::atomic::{AtomicU32, Ordering};

/// The messages cannot be looked out for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookoutError {
    /// The standard input is not the memory of such an exchange.
    #[error("standard input is not the memory of a boundary exchange of {extent} (ranks, slots, bytes): {error}")]
    Memory {
        /// What was announced.
        extent: Extent,
        /// What is wrong with it.
        error: SegmentError,
    },
    /// The standard input cannot be kept, or no thread can be had.
    #[error("cannot look out for a boundary exchange: {0}")]
    Io(#[from] io::Error),
    /// What is in the memory cannot be used.
    #[error("boundary exchange: {0}")]
    Transport(#[from] TransportError),
    /// It would outlive whoever has started it.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

fn agent(extent: Extent) -> Result<Agent, LookoutError> {
    let memory = io::stdin().as_fd().try_clone_to_owned()?;
    let segment = Segment::attach(memory, Mapping::ReadWrite, Agent::bytes(extent))
        .map_err(|error| LookoutError::Memory { extent, error })?;
    Ok(Agent::attach(Arc::new(segment), extent)?)
}

/// Looks out until the process that has started this one ends, and this one with it.
///
/// # Errors
/// [`LookoutError`].
pub fn look_out(extent: Extent) -> Result<(), LookoutError> {
    end_with_starter()?;
    Ok(agent(extent)?.attend(|| true)?)
}

/// Looks out in a thread of its own until it is dropped; the ranks look out for themselves then.
#[derive(Debug)]
pub struct Lookout {
    over: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Lookout {
    /// Begins; that it has to end early is told on the standard error output.
    ///
    /// # Errors
    /// [`LookoutError`].
    pub fn start(extent: Extent) -> Result<Lookout, LookoutError> {
        let (mut agent, over) = (agent(extent)?, Arc::new(AtomicU32::new(0)));
        let is_over = over.clone();
        let attend = move || {
            // ORDERING: a sign to end, by which nothing is read.
            if let Err(error) = agent.attend(|| is_over.load(Ordering::Relaxed) == 0) {
                // If it cannot be told, the ranks still look out for themselves.
                let _ = writeln!(io::stderr(), "umbra-agent: boundary exchange: {error}");
            }
        };
        let thread = thread::Builder::new().name("boundary".into()).spawn(attend)?;
        Ok(Lookout { over, thread: Some(thread) })
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        // ORDERING: as above.
        self.over.store(1, Ordering::Relaxed);
        // A thread that has failed has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
