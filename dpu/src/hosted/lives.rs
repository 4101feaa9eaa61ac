//! The lives of an agent: one for each job that it serves.
//!
//! A job is over when the launcher that gave the orders is gone, or when the world group has ended, by its deadline if it
//! never became full, and neither a rank nor a tool is connected. Nothing of it may reach the next one: links are closed,
//! tables, keys, mappings and queue pairs are dropped with the process' state, and the next life has a name of its own,
//! so that whoever speaks to the last one is told that it is gone.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};
use umbra::sys::process::ignores;
use umbra_core::placement::Placement;

use super::error::{ProcessError, cannot};
use super::machines;
use super::process::{End, Process};
use super::settings::Settings;

/// What all lives have in common.
pub(super) struct Lasting {
    /// Readable from the first signal to end on.
    signals: UnixStream,
    /// The shape of the job.
    pub(super) placement: Placement<'static>,
}

impl Lasting {
    /// For an agent with these settings.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub(super) fn new(settings: &Settings) -> Result<Lasting, ProcessError> {
        let (signals, theirs) = UnixStream::pair().map_err(cannot("make a pipe for signals"))?;
        // Ctrl-C is none of the business of who was started to ignore it; by SIGTERM launchers end agents.
        let interrupt = Some(SIGINT).filter(|&signal| !ignores(signal));
        for signal in [SIGTERM].into_iter().chain(interrupt) {
            let end = theirs.try_clone().map_err(cannot("make a pipe for signals"))?;
            signal_hook::low_level::pipe::register(signal, end).map_err(cannot("handle signals"))?;
        }
        Ok(Lasting { signals, placement: machines::placement(settings)? })
    }

    /// What becomes readable with a signal to end.
    pub(super) fn signals(&self) -> Result<OwnedFd, ProcessError> {
        self.signals.try_clone().map(OwnedFd::from).map_err(cannot("make a pipe for signals"))
    }
}

/// Serves job after job until asked to end; under a launcher, the one job. `ready` is called once, when ranks can connect.
///
/// # Errors
/// [`ProcessError`].
pub fn serve(settings: &Settings, ready: impl FnOnce()) -> Result<(), ProcessError> {
    let lasting = Lasting::new(settings)?;
    let mut ready = Some(ready);
    loop {
        let mut process = Process::new(settings.clone(), &lasting)?;
        process.open()?;
        if let Some(ready) = ready.take() {
            ready();
        }
        match process.run()? {
            End::Asked => return Ok(()),
            End::JobOver => {}
            End::Fenced => return Err(ProcessError::Fenced(settings.sp)),
        }
    }
}
