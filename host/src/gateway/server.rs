//! The gateway of a host: it accepts lines, and serves each in a thread of its own.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use umbra_core::atomic::{AtomicUsize, Ordering};

use super::error::{Error, system};
use super::serve::serve;
use super::under_way::UnderWay;
use crate::link::Listener;
use crate::secret::Secret;
use crate::sys::fork;

/// Lines at once; each is a handle of some client.
pub const LINES: usize = 256;
/// Threads of lines that gave way, which end soon.
const ENDING: usize = 64;
/// When a line that could not be accepted is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Serves the channels of this host to clients of others, until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Written to, it ends all threads. That nobody holds it any more says nothing: a child that was forked off may.
    stop: OwnedFd,
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
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = rustix::event::eventfd(0, flags).map_err(Error::System)?;
        let ended = stop.try_clone().map_err(|error| system(&error))?;
        let lines = Arc::new(AtomicUsize::new(0));
        let counted = lines.clone();
        let acceptor = thread::Builder::new()
            .name("umbra gateway".to_owned())
            .spawn(move || accept(&listener, &secret, &ended, &counted))
            .map_err(|error| system(&error))?;
        Ok(Server { stop, acceptor: Some(acceptor), lines, life: fork::life() })
    }

    /// Lines that are served at the moment.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        if self.life == fork::life() {
            // All who poll it see that it was written to, as nobody reads it; there is room for one in any case.
            let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
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
        // One line too many is closed, which its client is told by that. But who has not proved that he holds the secret
        // gives way: strangers keep nobody out.
        let is_room = threads.len() < LINES || threads.len() < LINES + ENDING && under_way.make_way();
        if is_room && let Ok(to_shut) = socket.try_clone() {
            lines.fetch_add(1, Ordering::Relaxed);
            // Here, in the order in which lines are accepted.
            let (counted, secret, accepted) = (Counted(lines.clone()), secret.clone(), under_way.accept(to_shut));
            let serving = move || {
                let _counted = counted;
                if let Err(error) = serve(socket, is_unix, &secret, stop, accepted) {
                    umbra_core::log!(warn, "a line of the gateway: {}", error);
                }
            };
            threads.extend(thread::Builder::new().name("umbra gateway line".to_owned()).spawn(serving));
        }
    }
    // A child that was forked off may hold it on: who came there would wait for nobody.
    fork::shut_for_all(listener);
    for thread in threads {
        // A thread that panicked has ended, too.
        let _ = thread.join();
    }
}
