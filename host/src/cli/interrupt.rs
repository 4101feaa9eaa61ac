//! Ctrl-C, a closed terminal, `kill`: nothing of the job stays behind.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use umbra::job::JobDirectory;

use super::paint;

/// From now on, a signal that asks this process to end removes what its job has on disk first. The processes of the job
/// end by themselves when their link to this one closes.
pub(crate) fn clean_up() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            JobDirectory::remove_all_of_this_process();
            anstream::eprintln!("{} interrupted", paint::bad("error:"));
            // What a shell reports for a process that a signal ended.
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}
