//! Ctrl-C, a closed terminal, `kill`: nothing of the job stays behind.

use std::io::{self, Write as _};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use umbra::job::{AllRemoved, JobDirectory};
use umbra::output::{PartialFilesRemoved, remove_partial_files};
use umbra::stencil::Stop;
use umbra::sys::process::ignores;

use super::{Failure, paint};

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

/// From now on, a signal that asks this process to end removes first what it has on disk: files that are not whole, and those
/// of its job. The processes of the job end with this one. A job that fails or ends meanwhile waits where it drops its
/// directory: the exit code is that of the signal.
pub(crate) fn clean_up() -> Result<(), Failure> {
    watch(|signal| end(signal))
}

fn end(signal: i32) -> ! {
    let _all = remove_all();
    say_interrupted();
    // What a shell reports for a process that a signal ended.
    std::process::exit(128 + signal)
}

/// Has each signal that asks this process to end told to `heard`, in a thread of its own.
fn watch(mut heard: impl FnMut(i32) + Send + 'static) -> Result<(), Failure> {
    let started = signals().and_then(|mut signals| {
        let watch = move || signals.forever().for_each(&mut heard);
        std::thread::Builder::new().name("signals".into()).spawn(watch)
    });
    started.map(drop).map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))
}

/// Removes what of this process on disk shall not outlive it; as long as the answer lives, nothing of the kind is made.
fn remove_all() -> (PartialFilesRemoved, AllRemoved) {
    (remove_partial_files(), JobDirectory::remove_all_of_this_process())
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
pub(crate) struct Signal {
    first: Arc<OnceLock<i32>>,
    begun: Arc<OnceLock<()>>,
}

impl Signal {
    /// The run begins, and looks whether it shall stop.
    pub(crate) fn begin(&self) {
        let _ = self.begun.set(());
    }

    /// What a shell reports for a process that this signal ended.
    pub(crate) fn code(&self) -> u8 {
        self.first.get().map_or(1, |&signal| (128 + signal) as u8)
    }
}

/// From now on, the first signal that asks this process to end stops a run that has begun; any other one ends the process.
pub(crate) fn stop(run: &Stop) -> Result<Signal, Failure> {
    let (first, stop) = (Signal::default(), run.clone());
    let told = first.clone();
    watch(move |signal| {
        if told.begun.get().is_none() || told.first.set(signal).is_err() {
            end(signal);
        }
        stop.set();
    })?;
    Ok(first)
}
