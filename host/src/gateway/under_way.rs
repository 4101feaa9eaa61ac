//! The lines that a gateway serves, so that a client who lost one can have it cut.
//!
//! A client whose line broke may come back long before the gateway notices: what the line had asked for, a send that waits
//! for room, could then be carried out after what the client asks for next. So each line is known by the life that its
//! client's end named in the handshake, which is drawn anew for each, and the next line of the client names it. Cutting it
//! shuts its socket, which its thread sees where it looks whether its client is still there; it is over when nothing that
//! the thread did for it is under way any more.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::Shutdown;

/// All lines that have been opened and are not over.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    sockets: Mutex<BTreeMap<u64, OwnedFd>>,
    /// Told of each line that is over.
    over: Condvar,
}

/// A line that is under way until this is dropped.
pub(super) struct Entered {
    all: Arc<UnderWay>,
    life: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.all.lock().remove(&self.life);
        self.all.over.notify_all();
    }
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, OwnedFd>> {
        // A map is whole whatever its user was doing.
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line with this socket as under way; `None` if there is one of that life.
    pub(super) fn enter(self: &Arc<Self>, life: u64, socket: OwnedFd) -> Option<Entered> {
        let mut sockets = self.lock();
        if sockets.contains_key(&life) {
            return None;
        }
        sockets.insert(life, socket);
        Some(Entered { all: self.clone(), life })
    }

    /// Cuts a line, if it is under way.
    pub(super) fn cut(&self, life: u64) {
        if let Some(socket) = self.lock().get(&life) {
            // One that has no peer any more is as good as shut.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }

    /// Waits so long until a line is over; whether it is.
    pub(super) fn is_over(&self, life: u64, within: Duration) -> bool {
        let is_there = |sockets: &mut BTreeMap<u64, OwnedFd>| sockets.contains_key(&life);
        let waited = self.over.wait_timeout_while(self.lock(), within, is_there);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_line_that_is_cut_is_shut_at_once_and_over_when_its_thread_is_done() {
        let all = Arc::new(UnderWay::default());
        let (mut client, server) = UnixStream::pair().unwrap();
        let entered = all.enter(7, server.try_clone().unwrap().into()).unwrap();
        assert!(all.enter(7, server.into()).is_none(), "a life is one line's");
        all.cut(8);
        assert!(all.is_over(8, Duration::ZERO), "there is none");
        assert!(!all.is_over(7, Duration::from_millis(1)));
        all.cut(7);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        assert!(!all.is_over(7, Duration::from_millis(1)));
        std::thread::scope(|scope| {
            scope.spawn(|| drop(entered));
            assert!(all.is_over(7, Duration::from_secs(60)));
        });
    }
}
