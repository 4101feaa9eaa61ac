//! The lines that a gateway serves, so that a client who lost one can have it cut.
//!
//! A client whose line broke may come back long before the gateway notices: what the line had asked for, a send that waits
//! for room, could then be carried out after what the client asks for next. So each line is known by the life that its
//! client's end named in the handshake, which is drawn anew for each, and the next line of the client names it. Cutting it
//! shuts its socket, which its thread sees where it looks whether its client is still there; it is over when nothing that
//! the thread did for it is under way any more.
//!
//! A line may also be cut before its thread has learned its life: it was accepted before the one that cuts it, but its
//! handshake is not over. Its life is remembered as long as there is a line that it may turn out to be, which is then
//! broken off before it has asked for anything.
//!
//! A line that is over is shut, and not only closed: a child that was forked off may hold its socket on.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::lines::MOST;
use super::server::LINES;
use crate::sys::fork::shut_for_all;

/// Lives that are remembered at most: as many as handles with all their lines can have lost at once.
const CUT: usize = LINES * MOST;

/// All lines that have been accepted and are not over.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    lines: Mutex<Known>,
    /// Told of each line that is over.
    over: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    /// The sockets of lines, by their lives.
    sockets: BTreeMap<u64, OwnedFd>,
    /// Lines of which nobody knows the life, by their numbers in the order in which they were accepted: their sockets, but
    /// for those that gave way.
    unnamed: BTreeMap<u64, Option<OwnedFd>>,
    /// The next number.
    next: u64,
    /// Lives that were cut and that no line had, each with the number of the first line that cannot be it.
    cut: BTreeMap<u64, u64>,
}

impl Known {
    /// The life of a line is known, or the line is over.
    fn name(&mut self, number: u64) {
        if let Some(Some(socket)) = self.unnamed.remove(&number) {
            shut_for_all(&socket);
        }
        let first = self.unnamed.first_key_value().map(|(&first, _)| first);
        self.cut.retain(|_, before| first.is_some_and(|first| first < *before));
    }
}

/// A line of which nobody knows the life, until this is dropped.
pub(super) struct Accepted {
    all: Arc<UnderWay>,
    number: u64,
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.all.lock().name(self.number);
    }
}

impl Accepted {
    /// All lines, of which it is one.
    pub(super) const fn all(&self) -> &Arc<UnderWay> {
        &self.all
    }

    /// Counts the line as under way; `None` if there is one of that life, it was cut, or gave way.
    pub(super) fn enter(self, life: u64) -> Option<Entered> {
        let mut known = self.all.lock();
        if known.cut.remove(&life).is_some() || known.sockets.contains_key(&life) {
            return None;
        }
        let socket = known.unnamed.get_mut(&self.number)?.take()?;
        known.sockets.insert(life, socket);
        Some(Entered { all: self.all.clone(), life })
    }
}

/// A line that is under way until this is dropped.
pub(super) struct Entered {
    all: Arc<UnderWay>,
    life: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(socket) = self.all.lock().sockets.remove(&self.life) {
            shut_for_all(&socket);
        }
        self.all.over.notify_all();
    }
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // What it holds is whole whatever its user was doing.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line with this socket, which was accepted after all of which this was said before.
    pub(super) fn accept(self: &Arc<Self>, socket: OwnedFd) -> Accepted {
        let mut known = self.lock();
        let number = known.next;
        known.next += 1;
        known.unnamed.insert(number, Some(socket));
        Accepted { all: self.clone(), number }
    }

    /// Shuts the line that has been a stranger's the longest; whether there was one.
    pub(super) fn make_way(&self) -> bool {
        let socket = self.lock().unnamed.values_mut().find_map(Option::take);
        socket.as_ref().map(shut_for_all).is_some()
    }

    /// Cuts a line, if it is under way or may still turn out to be.
    pub(super) fn cut(&self, life: u64) {
        let mut known = self.lock();
        if let Some(socket) = known.sockets.get(&life) {
            shut_for_all(socket);
        } else if !known.unnamed.is_empty() && known.cut.len() < CUT {
            let next = known.next;
            known.cut.insert(life, next);
        }
    }

    /// Waits so long until a line is over; whether it is.
    pub(super) fn is_over(&self, life: u64, within: Duration) -> bool {
        let is_there = |known: &mut Known| known.sockets.contains_key(&life);
        let waited = self.over.wait_timeout_while(self.lock(), within, is_there);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn socket() -> OwnedFd {
        UnixStream::pair().unwrap().0.into()
    }

    #[test]
    fn strangers_give_way_one_after_the_other_and_who_has_entered_stays() {
        let all = Arc::new(UnderWay::default());
        let (mut client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let [first, friend, last] = [socket(), server.into(), socket()].map(|socket| all.accept(socket));
        let _entered = friend.enter(7).unwrap();
        assert_eq!([all.make_way(), all.make_way(), all.make_way()], [true, true, false]);
        assert!(client.read(&mut [0; 1]).is_err(), "it is not shut");
        assert!(first.enter(8).is_none() && last.enter(9).is_none(), "they are over");
    }

    #[test]
    fn a_line_that_is_cut_is_shut_at_once_and_over_when_its_thread_is_done() {
        let all = Arc::new(UnderWay::default());
        let (mut client, server) = UnixStream::pair().unwrap();
        let entered = all.accept(server.into()).enter(7).unwrap();
        assert!(all.accept(socket()).enter(7).is_none(), "a life is one line's");
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

    #[test]
    fn a_line_that_is_cut_before_its_life_is_known_never_enters() {
        let all = Arc::new(UnderWay::default());
        let (mut client, server) = UnixStream::pair().unwrap();
        let [early, other, cutting] = [server.into(), socket(), socket()].map(|socket| all.accept(socket));
        all.cut(7);
        assert!(all.is_over(7, Duration::ZERO), "it has asked for nothing, and will not");
        assert!(early.enter(7).is_none());
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "it is shut");
        assert!(all.accept(socket()).enter(7).is_some(), "a life is cut once");
        assert!(other.enter(8).is_some() && cutting.enter(9).is_some());
    }

    #[test]
    fn a_life_that_was_cut_is_remembered_while_a_line_may_have_it() {
        let all = Arc::new(UnderWay::default());
        all.cut(7);
        assert!(all.lock().cut.is_empty(), "nobody's");
        let early = all.accept(socket());
        (0..2 * CUT as u64).for_each(|life| all.cut(life));
        assert_eq!(all.lock().cut.len(), CUT);
        let late = all.accept(socket());
        drop(early);
        assert!(all.lock().cut.is_empty(), "the late one was accepted after the cuts");
        drop(late);
        assert!(all.lock().unnamed.is_empty());
    }
}
