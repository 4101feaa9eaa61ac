//! A look at all sockets: what is ready moves, what is due is retried or given up.

use std::io::ErrorKind;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use umbra_core::time::{Lapse, Time};

use super::{Driver, Event, LinkId, Slot, now};
use crate::link::{Close, Dial, Listener, Side};

/// How long nobody is let in who the system could not let in, for want of descriptors as a rule: who waits at the door
/// makes it readable all the time.
const NO_ACCEPT: Lapse = Lapse::from_millis(50);

/// Looks in a row that leave something before the next one counts all the same: together they take what agents keep for a link
/// and its socket holds, and who never stops to speak does not stop the time.
const PARTLY: u32 = 64;

/// What a look at the sockets needs; their memory stays for the next one.
pub(super) struct Lists {
    /// Empty between two looks.
    fds: Vec<PollFd<'static>>,
    /// The slots of the links, and with each whether the descriptor is that of the process that made it.
    owners: Vec<(usize, bool)>,
    ready: Vec<PollFlags>,
    /// Looks in a row that have left something.
    partly: u32,
}

impl Lists {
    pub(super) const NONE: Lists = Lists { fds: Vec::new(), owners: Vec::new(), ready: Vec::new(), partly: 0 };
}

/// The memory of a list. The standard library collects in place what comes out of a list of the same layout.
fn emptied(mut fds: Vec<PollFd<'_>>) -> Vec<PollFd<'static>> {
    fds.clear();
    fds.into_iter().map_while(|_| None).collect()
}

impl Driver {
    /// Sleeps until a link ends (true) or `also` is readable or a signal came (false). Frames wake nobody and stay where they are.
    ///
    /// # Errors
    /// What the system said of the poll itself, or that `also` is closed.
    pub fn wait_for_end(&self, also: BorrowedFd<'_>) -> std::io::Result<bool> {
        self.sleep(also, PollFlags::RDHUP)
    }

    /// Sleeps until something comes over a link, or one ends (true), or `also` is readable or a signal came (false).
    /// What came stays where it is.
    ///
    /// # Errors
    /// What the system said of the poll itself, or that `also` is closed.
    pub fn wait_for_word(&self, also: BorrowedFd<'_>) -> std::io::Result<bool> {
        self.sleep(also, PollFlags::IN | PollFlags::RDHUP)
    }

    fn sleep(&self, also: BorrowedFd<'_>, flags: PollFlags) -> std::io::Result<bool> {
        let links = self.slots.iter().filter_map(|slot| match slot {
            Slot::Up(stream, _) => Some(PollFd::from_borrowed_fd(stream.as_fd(), flags)),
            _ => None,
        });
        let mut fds: Vec<PollFd<'_>> =
            std::iter::once(PollFd::from_borrowed_fd(also, PollFlags::IN)).chain(links).collect();
        match rustix::event::poll(&mut fds, None) {
            // A signal: the caller looks at its flags.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if fds.first().is_some_and(|also| also.revents().contains(PollFlags::NVAL)) {
            return Err(rustix::io::Errno::BADF.into());
        }
        Ok(fds.iter().skip(1).any(|fd| !fd.revents().is_empty()))
    }

    pub(super) fn poll(&mut self, deadline: Time) -> std::io::Result<()> {
        let mut lists = std::mem::replace(&mut self.lists, Lists::NONE);
        let polled = self.poll_with(&mut lists, deadline);
        self.lists = lists;
        polled
    }

    fn poll_with(
        &mut self,
        Lists { fds: kept, owners, ready, partly }: &mut Lists,
        deadline: Time,
    ) -> std::io::Result<()> {
        let mut fds: Vec<PollFd<'_>> = std::mem::take(kept);
        owners.clear();
        let accepts = if self.accepts_from <= now() { PollFlags::IN } else { PollFlags::empty() };
        fds.extend(self.listeners.iter().map(|l| PollFd::from_borrowed_fd(l.as_fd(), accepts)));
        fds.extend(self.watched.iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        for (index, slot) in self.slots.iter().enumerate() {
            let (fd, flags) = match slot {
                Slot::Connecting(_, _, socket) => (socket.as_fd(), PollFlags::OUT),
                Slot::Shaking { stream, .. } | Slot::Up(stream, _) => {
                    let mut flags = PollFlags::empty();
                    flags.set(PollFlags::IN, stream.wants_to_read());
                    flags.set(PollFlags::OUT, stream.wants_to_write());
                    (stream.as_fd(), flags)
                }
                _ => continue,
            };
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            owners.push((index, false));
            if let Slot::Up(stream, _) = slot
                && let Some(maker) = stream.maker()
            {
                fds.push(PollFd::from_borrowed_fd(maker, PollFlags::IN));
                owners.push((index, true));
            }
        }
        let began = now();
        let timeout = (deadline != Time::NEVER).then(|| {
            let left = deadline.since(began).0;
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 }
        });
        let polled = rustix::event::poll(&mut fds, timeout.as_ref());
        ready.clear();
        ready.extend(fds.iter().map(PollFd::revents));
        *kept = emptied(fds);
        match polled {
            Ok(n) => self.wakeups += u64::from(n > 0),
            // A signal: the caller looks at its flags.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let (doors, rest) = ready.split_at(self.listeners.len());
        let (readable, links) = rest.split_at(self.watched.iter().flatten().count());
        let watched = self.watched.iter().enumerate().filter(|(_, descriptor)| descriptor.is_some());
        for ((number, _), flags) in watched.zip(readable) {
            let is_told = |event: &Event| matches!(event, Event::Readable(told) if *told == number);
            if !flags.is_empty() && !self.events.iter().any(is_told) {
                self.events.push_back(Event::Readable(number));
            }
        }
        for (&(index, is_maker), &flags) in owners.iter().zip(links).filter(|(_, flags)| !flags.is_empty()) {
            match self.slots.get_mut(index) {
                Some(Slot::Up(stream, _)) if is_maker => stream.orphan(),
                _ if is_maker => {}
                _ => self.step(index, flags),
            }
        }
        let is_full =
            |slot: &Slot| matches!(slot, Slot::Shaking { stream, .. } | Slot::Up(stream, _) if stream.is_full());
        *partly = if *partly < PARTLY && self.slots.iter().any(is_full) { *partly + 1 } else { 0 };
        if *partly == 0 {
            self.looked = began;
        }
        for (door, flags) in doors.iter().enumerate() {
            if !flags.is_empty() {
                self.accept(door);
            }
        }
        self.on_time();
        Ok(())
    }

    fn step(&mut self, index: usize, flags: PollFlags) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        match slot {
            Slot::Connecting(_, _, socket) => {
                let result = Dial::finish(socket.as_fd());
                match result {
                    Ok(()) => self.shake(index),
                    Err(why) => self.settle(index, Err(why)),
                }
            }
            Slot::Shaking { stream, .. } | Slot::Up(stream, _) => {
                if flags.contains(PollFlags::OUT) {
                    stream.write();
                }
                if let Err(why) = stream.read() {
                    return self.settle(index, Err(why));
                }
                // What was read is parsed by `next`, one event at a time.
                self.mark_fresh(index);
            }
            _ => {}
        }
    }

    fn mark_fresh(&mut self, index: usize) {
        if let Ok(number) = u32::try_from(index)
            && !self.is_fresh(index)
        {
            self.fresh.push_back(LinkId(number));
        }
    }

    fn is_fresh(&self, index: usize) -> bool {
        self.fresh.iter().any(|link| link.0 as usize == index)
    }

    /// A connected socket begins its handshake.
    fn shake(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        match std::mem::replace(slot, Slot::Free) {
            Slot::Connecting(dial, expected, socket) => {
                let is_unix = dial.address().is_unix();
                let until = (now() + self.limits.handshake).min(dial.deadline());
                match self.stream(socket, is_unix, Side::Initiator) {
                    Ok(stream) => {
                        let dial = Some((dial, expected));
                        self.set(index, Slot::Shaking { stream, until, greeted: false, dial });
                    }
                    Err(why) => {
                        self.set(index, Slot::Pausing(dial, expected));
                        self.settle(index, Err(why));
                    }
                }
            }
            other => self.set(index, other),
        }
    }

    fn set(&mut self, index: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
    }

    /// Who has said who it is has as long again for its proof: a process that was stopped before asks for it late.
    pub(super) fn prolong(&mut self, link: LinkId) {
        let slot = self.slots.get_mut(link.0 as usize);
        if let Some(Slot::Shaking { stream, until, greeted: greeted @ false, dial }) = slot
            && stream.is_greeted()
        {
            let end = dial.as_ref().map_or(Time::NEVER, |(dial, _)| dial.deadline());
            *greeted = true;
            *until = (*until).max((now() + self.limits.handshake).min(end));
        }
    }

    fn accept(&mut self, door: usize) {
        // Bounded: a flood of strangers must not starve the links.
        for _ in 0..64 {
            let (socket, is_unix) = match self.listeners.get(door).map(Listener::accept) {
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Some(Err(error)) if error.kind() != ErrorKind::WouldBlock => {
                    let time = now();
                    if time.since(self.accepts_from) > NO_ACCEPT {
                        umbra_core::log!(warn, "who knocks is not let in: {}", error);
                    }
                    self.accepts_from = time + NO_ACCEPT;
                    return;
                }
                _ => return,
            };
            self.make_way();
            // Over the limit, or unusable: dropping the socket tells the stranger.
            let _ = self.adopt(socket, is_unix, Side::Acceptor);
        }
    }

    /// When all places are taken, the one who should have said first who he is loses his: strangers keep nobody out.
    fn make_way(&mut self) {
        let has_room = self.slots.len() < self.limits.links;
        if has_room || self.slots.iter().any(|slot| matches!(slot, Slot::Free)) {
            return;
        }
        let stranger = |(index, slot): (usize, &Slot)| match slot {
            Slot::Shaking { until, dial: None, .. } => Some((*until, index)),
            _ => None,
        };
        if let Some((_, index)) = self.slots.iter().enumerate().filter_map(stranger).min() {
            self.settle(index, Err(Close::HandshakeTimeout));
            // His end is told before anything of who comes now.
            self.set(index, Slot::Free);
        }
    }

    fn on_time(&mut self) {
        let time = now();
        for index in 0..self.slots.len() {
            match self.slots.get(index) {
                Some(Slot::Pausing(dial, _)) if dial.due() <= time => match dial.last().cloned() {
                    // One more attempt would be over before an answer can come, and hide why this one failed.
                    Some(why) if dial.deadline() <= time => self.settle(index, Err(why)),
                    _ => self.try_again(index),
                },
                Some(Slot::Connecting(dial, ..)) if dial.deadline() <= time => {
                    self.settle(index, Err(Close::HandshakeTimeout));
                }
                // What came while this process was stopped is parsed first.
                Some(Slot::Shaking { until, .. }) if *until <= self.looked && !self.is_fresh(index) => {
                    self.settle(index, Err(Close::HandshakeTimeout));
                }
                _ => {}
            }
        }
    }

    fn try_again(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        match std::mem::replace(slot, Slot::Free) {
            Slot::Pausing(dial, expected) => match dial.start() {
                Ok(socket) => self.set(index, Slot::Connecting(dial, expected, socket)),
                Err(why) => {
                    self.set(index, Slot::Pausing(dial, expected));
                    self.settle(index, Err(why));
                }
            },
            other => self.set(index, other),
        }
    }
}
