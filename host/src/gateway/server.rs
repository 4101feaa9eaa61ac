//! The gateway of a host: it accepts lines, and serves each in a thread of its own.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use umbra_core::atomic::{AtomicUsize, Ordering};

use super::error::{Error, system};
use super::serve::serve;
use super::under_way::UnderWay;
use crate::link::Listener;
use crate::secret::Secret;
use crate::sys::fork;

/// Lines at once; each is a handle of some client.
pub const LINES: usize = 256;
/// When a line that could not be accepted is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Serves the channels of this host to clients of others, until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Dropped, it ends all threads.
    stop: Option<OwnedFd>,
    acceptor: Option<JoinHandle<()>>,
    lines: Arc<AtomicUsize>,
    /// Which process has the threads.
    life: u32,
}

/// A line, in the count of lines.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    /// Begins to serve who holds this secret, and connects to the listener.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn start(listener: Listener, secret: Secret) -> Result<Server, Error> {
        fork::watch();
        listener.set_nonblocking().map_err(|error| system(&error))?;
        // Whoever has the reading end sees when the writing end is dropped.
        let (ended, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Error::System)?;
        let lines = Arc::new(AtomicUsize::new(0));
        let counted = lines.clone();
        let acceptor = thread::Builder::new()
            .name("umbra gateway".to_owned())
            .spawn(move || accept(&listener, &secret, &ended, &counted))
            .map_err(|error| system(&error))?;
        Ok(Server { stop: Some(stop), acceptor: Some(acceptor), lines, life: fork::life() })
    }

    /// Lines that are served at the moment.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        let Some(acceptor) = self.acceptor.take() else { return };
        if self.life == fork::life() {
            // A thread that panicked has ended, too.
            let _ = acceptor.join();
        } else {
            // Threads do not come along into a child: there is none to join or to let go.
            std::mem::forget(acceptor);
        }
    }
}

fn accept(listener: &Listener, secret: &Secret, ended: &OwnedFd, lines: &Arc<AtomicUsize>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let under_way = Arc::new(UnderWay::default());
    loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
        if !ready[1].revents().is_empty() {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        let (socket, is_unix) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                // Whoever asks stays in the queue while this process has no descriptor left.
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    umbra_core::log!(warn, "the gateway cannot accept a line: {}", error);
                    thread::sleep(AGAIN);
                }
                continue;
            }
        };
        let Ok(stop) = ended.as_fd().try_clone_to_owned() else { continue };
        // One line too many is closed, which its client is told by that.
        if threads.len() < LINES {
            lines.fetch_add(1, Ordering::Relaxed);
            // Here, in the order in which lines are accepted.
            let (counted, secret, accepted) = (Counted(lines.clone()), secret.clone(), under_way.accept());
            let serving = move || {
                let _counted = counted;
                if let Err(error) = serve(socket, is_unix, &secret, stop, accepted) {
                    umbra_core::log!(warn, "a line of the gateway: {}", error);
                }
            };
            threads.extend(thread::Builder::new().name("umbra gateway line".to_owned()).spawn(serving));
        }
    }
    for thread in threads {
        // A thread that panicked has ended, too.
        let _ = thread.join();
    }
}
