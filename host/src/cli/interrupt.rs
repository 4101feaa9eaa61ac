//! Ctrl-C, a closed terminal, `kill`: nothing of the job stays behind.

use std::io::{self, Write as _};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use umbra::job::JobDirectory;
use umbra::stencil::Stop;
use umbra::stencil::field::remove_partial_files;
use umbra::sys::process::ignores;

use super::paint;

/// How long a standard error output that takes nothing may hold up the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The signals that ask this process to end; not those that it was started to ignore, as by `nohup`.
pub(crate) fn signals() -> io::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !ignores(signal)))
}

/// From now on, the kernel keeps how children of this process ended, even if it was started to ignore that.
pub(crate) fn hear_of_children() -> io::Result<()> {
    if ignores(SIGCHLD) {
        // A signal with a handler is not ignored; what the handler says interests nobody.
        signal_hook::flag::register(SIGCHLD, Arc::default())?;
    }
    Ok(())
}

/// From now on, a signal that asks this process to end removes what its job has on disk first. The processes of the job
/// end with this one. A job that fails or ends meanwhile waits where it drops its directory: the exit code is that of the
/// signal.
pub(crate) fn clean_up() -> io::Result<()> {
    let mut signals = signals()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _all = JobDirectory::remove_all_of_this_process();
            say_interrupted();
            // What a shell reports for a process that a signal ended.
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// Says why this process ends, if anybody takes that; waits for nobody else for long.
fn say_interrupted() {
    let (said, heard) = channel();
    let say = move || {
        // The exit code tells as well.
        let _ = writeln!(anstream::stderr(), "{} interrupted", paint::bad("error:"));
        let _ = said.send(());
    };
    if std::thread::Builder::new().name("last words".into()).spawn(say).is_ok() {
        let _ = heard.recv_timeout(LAST_WORDS);
    }
}

/// Which signal asked this process to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<OnceLock<i32>>);

impl Signal {
    /// What a shell reports for a process that this signal ended.
    pub(crate) fn code(&self) -> u8 {
        self.0.get().map_or(1, |&signal| (128 + signal) as u8)
    }
}

/// From now on, the first signal that asks this process to end stops a run; the second one ends the process.
pub(crate) fn stop(run: &Stop) -> io::Result<Signal> {
    let (first, stop) = (Signal::default(), run.clone());
    let mut signals = signals()?;
    let told = first.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if told.0.set(signal).is_err() {
                remove_partial_files();
                let _all = JobDirectory::remove_all_of_this_process();
                std::process::exit(128 + signal);
            }
            stop.set();
        }
    })?;
    Ok(first)
}
