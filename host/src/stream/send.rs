//! The sending end of a conversation.

use std::io::{self, Write};

use umbra_core::stream::{Class, Conversation, End, Mode, Outlet};

use super::error::Error;
use super::layout::{View, Watch, is_there};
use super::memory::place;
use super::options::SendOptions;
use super::{Adapter, RESERVED, refuse_heirs};
use crate::channel::{Timeout, WaitMode};
use crate::sys::{fork, heap};

/// The sending end of a conversation, which [`close`](Self::close) ends. Dropped, it ends as if closed, if nothing is
/// left to be sent and the thread does not panic; else the receiver is told that the rest will not come.
#[derive(Debug)]
pub struct Sender<'a> {
    pub(super) adapter: &'a Adapter,
    pub(super) view: View<'a>,
    pub(super) watch: Watch<'a>,
    /// `None` before the one message of a conversation, and when it has ended.
    pub(super) outlet: Option<Outlet<'a>>,
    pub(super) plan: Plan,
}

/// What of a sender is not in the shared memory.
#[derive(Debug)]
pub(super) struct Plan {
    /// Written and not sent: the rest of a message of which a part was sent, then what is kept to be sent later.
    pub(super) unsent: Vec<u8>,
    /// The 64 bits of what is in there first.
    pub(super) first: u64,
    /// Whether the first part of what is in there was sent.
    pub(super) is_begun: bool,
    /// Messages until receivers hear of it; 0 if they did.
    pub(super) until: u32,
    pub(super) is_one_message: bool,
    is_sent: bool,
    /// Whether the rest of a message is lost.
    is_broken: bool,
    pub(super) placed_in: Option<u64>,
    pub(super) arg: u64,
    timeout: Timeout,
    pub(super) mode: WaitMode,
    /// Of the process that began it.
    life: u32,
}

impl Adapter {
    /// Begins a conversation as its sender. Waits for an idle stream, or for a receiver who brought one.
    ///
    /// # Errors
    /// [`Error::Empty`] for one try, [`Error::Timeout`]; [`Error::StreamNeeded`], [`Error::StreamRefused`],
    /// [`Error::NoSuchPlace`], [`Error::NotBrief`] for what the adapter's mode does not have; [`Error::Destroyed`],
    /// [`Error::Forked`].
    pub fn send(&self, options: &SendOptions<'_>, timeout: Timeout) -> Result<Sender<'_>, Error> {
        let view = self.view()?;
        let shape = view.streams.table().shape();
        let is_one_message = options.buffered || shape.mode == Mode::Buffered;
        match options.stream {
            Some(_) if is_one_message || shape.mode != Mode::SenderSupplied => return Err(Error::StreamRefused),
            Some(stream) if !stream.view.frame.is_same(&view.frame) => return Err(Error::StreamRefused),
            None if shape.mode == Mode::SenderSupplied && !is_one_message => return Err(Error::StreamNeeded),
            _ => {}
        }
        if is_one_message && shape.messages == 0 {
            return Err(Error::NoSuchPlace("room for conversations of one message"));
        }
        if is_one_message && options.may_be_cut {
            return Err(Error::NotBrief);
        }
        let plan = Plan {
            unsent: Vec::new(),
            first: options.arg,
            is_begun: false,
            until: options.deposit_after,
            is_one_message,
            is_sent: false,
            is_broken: false,
            placed_in: options.placed_in,
            arg: options.arg,
            timeout: options.timeout,
            mode: options.mode,
            life: fork::life(),
        };
        let mut sender = Sender { adapter: self, view, watch: Watch::new(view), outlet: None, plan };
        sender.check_arg(options.arg)?;
        if !is_one_message {
            let begun = sender.begin(options, timeout)?;
            sender.outlet = view.streams.outlet(begun, view.me);
            if sender.plan.until == 0 {
                sender.deposit();
            }
        }
        Ok(sender)
    }
}

impl<'a> Sender<'a> {
    /// Goes on where [`pause`](Self::pause) ended.
    pub(super) fn resume(adapter: &'a Adapter, mut paused: Paused) -> Result<Sender<'a>, Error> {
        let view = adapter.view()?;
        let outlet = paused.at.take().and_then(|at| view.streams.outlet(at, view.me));
        let plan = paused.plan.take().ok_or(Error::Damaged)?;
        Ok(Sender { adapter, view, watch: Watch::new(view), outlet, plan })
    }

    /// What is needed to go on elsewhere: the conversation stays.
    pub(super) fn pause(mut self) -> Paused {
        let at = self.outlet.take().map(|outlet| outlet.conversation());
        // What is left of this sender has nothing to end.
        let left = Plan { unsent: Vec::new(), is_sent: true, ..self.plan };
        let plan = Some(std::mem::replace(&mut self.plan, left));
        Paused { adapter: self.adapter.clone(), at, plan }
    }

    fn begin(&self, options: &SendOptions<'_>, timeout: Timeout) -> Result<Conversation, Error> {
        let (view, brief) = (&self.view, options.may_be_cut);
        let table = view.streams.table();
        let look = || match (table.shape().mode, options.stream) {
            _ if table.is_destroyed() => Some(Err(Error::Destroyed)),
            (_, Some(stream)) => table.claim_kept(stream.kept, view.me, brief).map(Ok),
            (Mode::ReceiverSupplied, _) => table.accept(view.me, brief).map(Ok),
            (Mode::Single, _) => {
                table.accept(view.me, brief).or_else(|| table.claim(view.me, Class::Stream, brief)).map(Ok)
            }
            _ => table.claim(view.me, Class::Stream, brief).map(Ok),
        };
        self.watch.wait_for(table.manager(), (options.mode, timeout), Error::Empty, look)
    }

    pub(super) fn check_arg(&self, arg: u64) -> Result<(), Error> {
        if arg >= RESERVED { Err(Error::ReservedArgument(arg)) } else { Ok(()) }
    }

    /// Sends these bytes, and the 64 bits beside them, after what was kept before. Nothing is sent for no bytes, but what
    /// was kept is.
    ///
    /// # Errors
    /// [`Error::Full`] for one try, [`Error::Timeout`]: nothing was sent then. [`Error::Partly`] if the deadline came in
    /// the middle; [`Error::NoMemory`] if then there is no memory for the rest, with which the conversation is broken off, or
    /// none for what is added to what was kept; [`Error::BrokenOff`] ever after. [`Error::Unheard`], [`Error::PeerDead`],
    /// [`Error::Destroyed`], [`Error::Forked`];
    /// [`Error::ReservedArgument`]; [`Error::AlreadySent`] and [`Error::MessageTooLarge`] in a conversation of one message.
    pub fn send(&mut self, bytes: &[u8], arg: u64, timeout: Timeout) -> Result<(), Error> {
        self.check_arg(arg)?;
        self.check_whole()?;
        if self.plan.is_one_message {
            return self.send_whole(bytes, arg, timeout);
        }
        if self.plan.unsent.is_empty() {
            let done = self.transmit(bytes, arg, timeout);
            if let Err(Error::Partly { sent, .. }) = done {
                // A message that was begun has to be ended; the receiver learns it if it cannot be.
                self.add(bytes.get(sent..).unwrap_or_default()).inspect_err(|_| self.break_off())?;
            }
            return done;
        }
        // One message, with the 64 bits of its first part. If nothing of it goes, the caller still has what he wanted to
        // add, and will send it again.
        let before = self.plan.unsent.len();
        self.add(bytes)?;
        let sent = self.flush(timeout);
        if !matches!(sent, Ok(()) | Err(Error::Partly { .. })) {
            self.plan.unsent.truncate(before);
        }
        sent
    }

    /// Keeps these bytes, to be sent with what comes next, or with the close; as one message, with the 64 bits of the
    /// first that was kept.
    ///
    /// # Errors
    /// As for [`send`](Self::send), but nothing waits.
    pub fn keep(&mut self, bytes: &[u8], arg: u64) -> Result<(), Error> {
        self.check_arg(arg)?;
        self.check_whole()?;
        if self.plan.is_sent {
            return Err(Error::AlreadySent);
        }
        if let Some(outlet) = &self.outlet {
            outlet.check()?;
        }
        if self.plan.unsent.is_empty() {
            self.plan.first = arg;
        }
        self.add(bytes)
    }

    /// Whether it is this process's, and nothing that was to be sent is lost.
    fn check_whole(&self) -> Result<(), Error> {
        self.refuse_heirs()?;
        if self.plan.is_broken { Err(Error::BrokenOff) } else { Ok(()) }
    }

    /// Refuses a child that was forked off.
    pub(super) fn refuse_heirs(&self) -> Result<(), Error> {
        refuse_heirs(self.plan.life)
    }

    /// Adds these bytes to what is to be sent later.
    fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        heap::more(&mut self.plan.unsent, bytes.len())?;
        self.plan.unsent.extend_from_slice(bytes);
        Ok(())
    }

    /// Bytes that are kept, or left of what was begun.
    pub(crate) const fn unsent(&self) -> usize {
        self.plan.unsent.len()
    }

    /// What is kept and can be taken back.
    #[must_use]
    pub fn kept(&self) -> &[u8] {
        // What was begun has to be ended.
        if self.plan.is_begun { &[] } else { &self.plan.unsent }
    }

    /// Takes back what was kept, and its 64 bits; nothing if there is nothing.
    pub fn take_kept(&mut self) -> (Vec<u8>, u64) {
        if self.plan.is_begun {
            return (Vec::new(), self.plan.first);
        }
        (std::mem::take(&mut self.plan.unsent), self.plan.first)
    }

    /// Sends what was kept. In a conversation of one message it is kept until the close.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn flush(&mut self, timeout: Timeout) -> Result<(), Error> {
        self.check_whole()?;
        if self.plan.is_one_message || self.plan.unsent.is_empty() {
            return Ok(());
        }
        let (mut unsent, was_begun) = (std::mem::take(&mut self.plan.unsent), self.plan.is_begun);
        let result = self.transmit(&unsent, self.plan.first, timeout);
        match result {
            Ok(()) => return Ok(()),
            Err(Error::Partly { sent, .. }) => drop(unsent.drain(..sent)),
            // Nothing of it went.
            Err(_) => self.plan.is_begun = was_begun,
        }
        self.plan.unsent = unsent;
        result
    }

    /// Sends the one message of a conversation.
    fn send_whole(&mut self, bytes: &[u8], arg: u64, timeout: Timeout) -> Result<(), Error> {
        if self.plan.is_sent {
            return Err(Error::AlreadySent);
        }
        // What was kept before waits for the close, so this does too.
        if !self.plan.unsent.is_empty() || bytes.is_empty() {
            return self.keep(bytes, arg);
        }
        let (table, most) = (self.view.streams.table(), self.view.streams.block());
        let deadline = timeout.deadline();
        let reference = if bytes.len() > most {
            let too_large = Error::MessageTooLarge { len: bytes.len(), most };
            let pool = self.view.pools.home(self.plan.placed_in).map_err(|_| too_large)?;
            Some(place(pool, bytes, timeout, || is_there(&self.watch))?)
        } else {
            None
        };
        let look = || match table.claim(self.view.me, Class::Message, false) {
            _ if table.is_destroyed() => Some(Err(Error::Destroyed)),
            begun => begun.map(Ok),
        };
        let waiting = (self.plan.mode, timeout.rest(deadline));
        let sent = self.watch.wait_for(table.manager(), waiting, Error::Full, look).and_then(|begun| {
            let mut outlet = self.view.streams.outlet(begun, self.view.me).ok_or(Error::Damaged)?;
            let written = match &reference {
                Some(memory) => self.view.pools.refer(memory, true).and_then(|to| Ok(outlet.refer(to, arg)?)),
                None => outlet.write(bytes, arg, false).map(|_| ()).map_err(Error::from),
            };
            let how = if written.is_ok() { End::Complete } else { End::Broken };
            let ended = self.view.end(outlet, how, &self.watch);
            written.and(ended.map_err(Error::from))
        });
        if sent.is_err()
            && let Some(memory) = reference
        {
            let _ = memory.free();
        }
        sent?;
        self.plan.is_sent = true;
        Ok(())
    }

    /// Sends what is left to be sent, so that a close has nothing to wait for; what was not sent is kept.
    pub(crate) fn settle(&mut self, timeout: Timeout) -> Result<(), Error> {
        if !self.plan.is_one_message || self.plan.unsent.is_empty() {
            return self.flush(timeout);
        }
        let kept = std::mem::take(&mut self.plan.unsent);
        self.send_whole(&kept, self.plan.first, timeout).inspect_err(|_| self.plan.unsent = kept)
    }

    /// Ends without an end: the receiver is told that the rest will not come.
    pub(crate) fn break_off(&mut self) {
        self.plan.unsent = Vec::new();
        self.plan.is_broken = true;
        // What is not this sender's any more has been broken off by others.
        let _ = self.end(End::Broken);
    }

    fn end(&mut self, how: End) -> Result<(), Error> {
        self.outlet.take().map_or(Ok(()), |outlet| Ok(self.view.end(outlet, how, &self.watch)?))
    }

    /// Ends the conversation: sends what was kept, and says that it was all. A conversation of one message without any is
    /// none.
    ///
    /// # Errors
    /// As for [`send`](Self::send) if something was left to be sent, and was not in time: then the receiver is told that
    /// the rest will not come. [`Error::Damaged`] if the conversation was this sender's no more, and its end nobody's to hear.
    /// It has ended in any case, but with [`Error::Forked`], where it is the parent's.
    pub fn close(mut self, timeout: Timeout) -> Result<(), Error> {
        self.refuse_heirs()?;
        self.finish(timeout)
    }

    fn finish(&mut self, timeout: Timeout) -> Result<(), Error> {
        if self.plan.is_one_message {
            let (kept, first) = (std::mem::take(&mut self.plan.unsent), self.plan.first);
            let sent = if kept.is_empty() { Ok(()) } else { self.send_whole(&kept, first, timeout) };
            self.plan.is_sent = true;
            return sent;
        }
        let flushed = self.flush(timeout);
        let ended = self.end(if flushed.is_ok() { End::Complete } else { End::Broken });
        let sent = flushed.map_err(|error| if matches!(error, Error::Partly { .. }) { Error::Timeout } else { error });
        sent.and(ended)
    }
}

/// A sender between two threads; dropped, it ends as a sender does.
#[derive(Debug)]
pub(super) struct Paused {
    adapter: Adapter,
    at: Option<Conversation>,
    plan: Option<Plan>,
}

impl Drop for Paused {
    fn drop(&mut self) {
        if !self.adapter.is_inherited()
            && let (Some(at), Some(plan), Ok(view)) = (self.at.take(), self.plan.take(), self.adapter.view())
        {
            let (adapter, outlet) = (&self.adapter, view.streams.outlet(at, view.me));
            drop(Sender { adapter, view, watch: Watch::new(view), outlet, plan });
        }
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // Who wants to know calls `close`. What is inherited is the parent's to end.
        match std::thread::panicking() {
            _ if self.adapter.is_inherited() => {}
            true => self.break_off(),
            false => drop(self.finish(Timeout::Now)),
        }
    }
}

impl Sender<'_> {
    /// Sends a piece of what is written piece by piece. A conversation of one message has it with its close.
    pub(super) fn write_piece(&mut self, bytes: &[u8], timeout: Timeout) -> Result<(), Error> {
        let arg = self.plan.arg;
        if self.plan.is_one_message { self.keep(bytes, arg) } else { self.send(bytes, arg, timeout) }
    }
}

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.write_piece(bytes, self.plan.timeout) {
            Ok(()) | Err(Error::Partly { .. }) => Ok(bytes.len()),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(Sender::flush(self, self.plan.timeout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attributes;
    use super::*;

    #[test]
    fn who_ends_a_conversation_that_is_not_his_any_more_is_told() {
        let adapter = Adapter::create(&Attributes::default(), []).unwrap();
        let view = adapter.view().unwrap();
        for sent in [0, 1] {
            let mut sender = adapter.send(&SendOptions::default(), Timeout::Now).unwrap();
            (0..sent).for_each(|_| sender.send(b"hello", 0, Timeout::Now).unwrap());
            // As if others had taken this process for dead.
            assert_eq!(view.streams.reclaim(view.me, |_| ()).sent, 1);
            assert_eq!(sender.close(Timeout::Now), Err(Error::Damaged));
        }
        adapter.send(&SendOptions::default(), Timeout::Now).unwrap().close(Timeout::Now).unwrap();
    }
}
