//! Long replies in a world: when they are laid out, read, copied and taken back.
//!
//! A parent reads when its callback ends, which may be late; what that does not do in the turn in which the answer comes is
//! copied. An answer without memory for its reply waits, keeps no other message waiting, and says that it lives. Whoever
//! has laid a reply out looks a little later whether that was read.

use umbra_core::chain::{HEAD, Handle, Node, Phase, alive, peek_reply};
use umbra_core::key::Span;
use umbra_core::time::Lapse;

use super::judge::Tree;
use super::replies::{Fates, Unlaid, Whose};
use super::{Happens, World};

impl World {
    /// How many bytes each machine has for long replies that others are to read.
    pub fn reply_room(&mut self, bytes: usize) {
        self.replies.room = bytes;
    }

    /// Has the machine of a member have no memory for long replies for a while.
    pub fn lack_memory(&mut self, node: Node, lasting: Lapse) {
        let (home, until) = (self.home(node), self.now + lasting);
        self.replies.lacking.insert(home, until);
        self.plan_at(until, Happens::Look(home));
    }

    /// What became of long replies.
    pub const fn fates(&self) -> Fates {
        self.replies.fates
    }

    /// User code is about to run: what it reads is not settled before it has.
    pub(super) fn will_read(&mut self, home: Node, handle: Handle) {
        if let Some(machine) = self.seats[home.index()].machine.as_mut().filter(|_| self.replies.are_any())
            && let Ok(work) = machine.work(handle)
            && work.rendezvous().is_some()
            && let Phase::Wait(answer) = work.phase
            && let Some(span) = answer.span()
        {
            self.replies.reading.push((Whose { home, call: work.call, node: answer.from }, span));
        }
    }

    /// A message of a machine goes, with its reply laid out, unless that waits: whoever asks for it then is told so.
    pub(super) fn send(&mut self, from: Node, to: Node, len: usize) {
        let bytes = &self.buffer[..len];
        let Some(carried) = peek_reply(bytes) else { return self.post(from, to, bytes.to_vec()) };
        let whose = Whose { home: self.home(from), call: carried.call, node: from };
        if self.replies.waits(whose, to) {
            let mut word = [0; HEAD];
            let len = alive(bytes, &mut word).expect("it is an answer");
            self.replies.fates.asked += 1;
            return self.post(from, to, word[..len].to_vec());
        }
        let mut unlaid = Unlaid { whose, reader: to, until: self.now + carried.budget, message: bytes.to_vec() };
        if self.replies.held.iter().any(|(held, _)| *held == whose) {
            self.is_in_time(&unlaid);
        }
        if self.replies.lay(&mut unlaid, self.now).is_some() {
            return self.post(from, to, unlaid.message);
        }
        self.replies.fates.waited += 1;
        self.replies.unlaid.push(unlaid);
    }

    /// Notes a reply that is to be kept when the time of the call is over at its maker, and so is the time that requests took to come
    /// down.
    fn is_in_time(&mut self, unlaid: &Unlaid) {
        let Unlaid { whose, until, .. } = *unlaid;
        let Some(made) = self.made.iter().find(|made| made.id == whose.call) else { return };
        let hops = u64::from(Tree::of(&made.plan).depth_of(whose.node).unwrap_or(0));
        let late = Lapse(hops * (self.network.delay.0 + self.network.jitter.0) + self.replies.behind.0);
        let end = made.at + made.plan.call.budget;
        if until > end + late {
            self.replies.must_not(|| format!("{whose:?} is kept until {until:?}, and the call ends at {end:?}"));
        }
    }

    /// Takes back what was read, or nobody waits for, and sends answers whose replies find memory now.
    pub(super) fn tend_replies(&mut self, home: Node) {
        let now = self.now;
        self.replies.collect(home, now);
        for mut unlaid in std::mem::take(&mut self.replies.unlaid) {
            if unlaid.whose.home == home && self.replies.lay(&mut unlaid, now).is_some() {
                self.post(unlaid.whose.node, unlaid.reader, unlaid.message);
            } else {
                self.replies.unlaid.push(unlaid);
            }
        }
    }

    /// A turn of a machine is over: what has come and is not read now is copied, or released if nobody waits for it.
    pub(super) fn settle_replies(&mut self, home: Node) {
        let replies = &mut self.replies;
        if let Some(machine) = self.seats[home.index()].machine.as_mut() {
            for at in (0..replies.told.len()).rev() {
                let told = replies.told[at];
                let is_read = |(reading, span): &(Whose, Span)| (reading.home, *span) == (home, told.span);
                if told.home != home || replies.reading.iter().any(is_read) {
                    continue;
                }
                replies.told.swap_remove(at);
                let Some((from, _)) = machine.parked(told.call, told.edge).filter(|&(_, span)| span == told.span)
                else {
                    replies.fates.unread += u64::from(replies.release(told.span, told.to));
                    continue;
                };
                let whose = Whose { home, call: told.call, node: from };
                if !replies.copied.iter().any(|(copied, ..)| *copied == whose)
                    && let Some(reply) = replies.read(told.span, (told.call, from), told.to)
                {
                    replies.fates.copied += 1;
                    replies.copied.push((whose, told.edge, reply));
                }
            }
            replies.held.retain(|(whose, _)| {
                let waits = |unlaid: &Unlaid| unlaid.whose == *whose;
                let is_read =
                    replies.reading.iter().any(|(reading, _)| (reading.home, reading.call) == (home, whose.call));
                whose.home != home || is_read || machine.is_under_way(whose.call) || replies.unlaid.iter().any(waits)
            });
            replies.copied.retain(|(whose, edge, _)| {
                let is_read = replies.reading.iter().any(|(reading, _)| reading == whose);
                whose.home != home || is_read || machine.parked(whose.call, *edge).is_some()
            });
        }
        // Its writer looks for that now and then.
        for home in std::mem::take(&mut self.replies.looks) {
            let after = Lapse::from_micros(self.random.below(200));
            self.plan_at(self.now + after, Happens::Look(home));
        }
    }

    /// A machine looks what became of what it has laid out.
    pub(super) fn look(&mut self, home: Node) {
        let seat = &self.seats[home.index()];
        if seat.machine.is_some() && !seat.frozen {
            self.drain(home);
        } else {
            self.replies.collect(home, self.now);
        }
    }
}
