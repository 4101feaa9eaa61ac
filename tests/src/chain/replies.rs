//! Long replies, as a host has them.
//!
//! What a member writes stays at its machine, is laid out when the answer goes, and is taken back when its parent has read it or
//! nobody waits for it. Whatever must not happen is noted, such as memory that is read by a stranger, or after it was given back.

use std::collections::HashMap;

use umbra_core::chain::{Answer, CallId, Edge, Node, Phase, Verdict, Work, peek_cancel, peek_reply, set_carried};
use umbra_core::key::{Key, Span};
use umbra_core::time::{Lapse, Time};

/// Where a reply lies that is not laid out.
const NOWHERE: u64 = 0;

/// Why memory of a reply was given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// Its reader was done with it.
    Released,
    /// Its reader is dead, or has given the call up.
    Unwanted,
    /// The time of the call was over.
    Late,
    /// Its writer began another life.
    Lost,
}

/// What became of long replies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fates {
    /// Laid out.
    pub laid: u64,
    /// Read by a callback where they lay.
    pub read: u64,
    /// Copied for a callback that comes later.
    pub copied: u64,
    /// Not read, because nobody waited for them.
    pub unread: u64,
    /// Given back because their readers were dead or had given the call up.
    pub unwanted: u64,
    /// Answers that waited for memory.
    pub waited: u64,
    /// Word that such an answer waits, to whoever asked for it.
    pub asked: u64,
    /// Found gone by callbacks.
    pub gone: u64,
}

impl core::ops::AddAssign for Fates {
    fn add_assign(&mut self, other: Fates) {
        self.laid += other.laid;
        self.read += other.read;
        self.copied += other.copied;
        self.unread += other.unread;
        self.unwanted += other.unwanted;
        self.waited += other.waited;
        self.asked += other.asked;
        self.gone += other.gone;
    }
}

/// Of which call, by which member of which machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whose {
    pub(super) home: Node,
    pub(super) call: CallId,
    pub(super) node: Node,
}

/// A reply that its reader may read.
#[derive(Debug)]
struct Laid {
    whose: Whose,
    reader: Node,
    number: u64,
    data: Vec<u8>,
    until: Time,
    /// Why it may be taken back now.
    over: Option<Why>,
    /// Its writer is dead, and nobody takes it back before the next life.
    orphaned: bool,
}

/// An answer, before its reply is laid out.
#[derive(Debug)]
pub(super) struct Unlaid {
    pub(super) whose: Whose,
    pub(super) reader: Node,
    pub(super) until: Time,
    pub(super) message: Vec<u8>,
}

/// What an answer has told a machine of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    pub(super) home: Node,
    pub(super) call: CallId,
    pub(super) edge: Edge,
    pub(super) to: Node,
    pub(super) span: Span,
}

/// The long replies of all machines.
#[derive(Debug)]
pub(super) struct Replies {
    /// Bytes that each machine has for replies that are to be read, and for nothing else.
    pub(super) room: usize,
    /// Machines that have none until then, as if replies of other calls lay there.
    pub(super) lacking: HashMap<Node, Time>,
    /// How much later things happened than they were to.
    pub(super) behind: Lapse,
    /// What members have written so far.
    pub(super) held: Vec<(Whose, Vec<u8>)>,
    laid: Vec<Laid>,
    pub(super) unlaid: Vec<Unlaid>,
    pub(super) told: Vec<Told>,
    /// Those that a callback reads which runs now.
    pub(super) reading: Vec<(Whose, Span)>,
    pub(super) copied: Vec<(Whose, Edge, Vec<u8>)>,
    /// Whose memory was given back, and why.
    back: HashMap<(CallId, Node), Why>,
    /// Machines in whose memory something was released.
    pub(super) looks: Vec<Node>,
    count: u64,
    pub(super) fates: Fates,
    /// The first thing that must not happen.
    wrong: Option<String>,
}

impl Replies {
    pub(super) fn new() -> Replies {
        Replies {
            room: usize::MAX,
            lacking: HashMap::new(),
            behind: Lapse(0),
            held: Vec::new(),
            laid: Vec::new(),
            unlaid: Vec::new(),
            told: Vec::new(),
            reading: Vec::new(),
            copied: Vec::new(),
            back: HashMap::new(),
            looks: Vec::new(),
            count: NOWHERE,
            fates: Fates::default(),
            wrong: None,
        }
    }

    /// Whether a callback may have one to read.
    pub(super) const fn are_any(&self) -> bool {
        !(self.held.is_empty() && self.told.is_empty() && self.copied.is_empty())
    }

    /// Notes what must not happen.
    pub(super) fn must_not(&mut self, what: impl FnOnce() -> String) {
        self.wrong.get_or_insert_with(what);
    }

    /// What a member has written so far.
    pub(super) fn take(&mut self, whose: Whose) -> Option<Vec<u8>> {
        let at = self.held.iter().position(|(held, _)| *held == whose)?;
        Some(self.held.swap_remove(at).1)
    }

    /// Runs user code, with memory for a long reply if its call has some.
    pub(super) fn run(
        &mut self,
        home: Node,
        work: &mut Work<'_>,
        user: impl FnOnce(&mut Work<'_>) -> Verdict,
    ) -> Verdict {
        let Some(max) = work.rendezvous() else { return user(work) };
        let whose = |node| Whose { home, call: work.call, node };
        let (own, mut child) = (whose(work.node), None);
        if let Phase::Wait(answer) = work.phase {
            let theirs = whose(answer.from);
            self.reading.retain(|&(reading, _)| reading != theirs);
            let reply = self.take(theirs).or_else(|| self.fetch(theirs, work.node, &answer));
            let Some(reply) = reply else { return Verdict::ReplyGone };
            child = Some(reply);
        }
        let mut memory = self.take(own).unwrap_or_default();
        let len = memory.len() as u32;
        memory.resize(max as usize, 0xee);
        let mut inner = work.with_data(&mut memory, len);
        if let (Phase::Wait(answer), Some(child)) = (inner.phase, &child) {
            inner.phase = Phase::Wait(Answer { data: child, ..answer });
        }
        let verdict = user(&mut inner);
        let (len, is_well) = (inner.reply.data().len(), !inner.reply.is_too_large());
        memory.truncate(len);
        let span = Span { key: Key::from_bits(NOWHERE), offset: 0, len: len as u64 };
        let written = if len == 0 { work.reply.set_data(&[]) } else { work.reply.set_span(span) };
        assert!(written.is_ok(), "an answer has room for a span");
        if verdict == Verdict::Pending || verdict == Verdict::Done && is_well && len > 0 {
            self.held.push((own, memory));
        }
        verdict
    }

    /// The reply of a child elsewhere.
    fn fetch(&mut self, theirs: Whose, reader: Node, answer: &Answer<'_>) -> Option<Vec<u8>> {
        let Whose { home, call, .. } = theirs;
        if let Some(at) = self.copied.iter().position(|(copied, ..)| *copied == theirs) {
            return Some(self.copied.swap_remove(at).2);
        }
        let Some(span) = answer.span() else { return Some(Vec::new()) };
        self.told.retain(|told| (told.home, told.call, told.span) != (home, call, span));
        let reply = self.read(span, (call, answer.from), reader);
        self.fates.read += u64::from(reply.is_some());
        self.fates.gone += u64::from(reply.is_none());
        reply
    }

    /// Reads and releases what a child has laid out.
    pub(super) fn read(&mut self, span: Span, (call, from): (CallId, Node), reader: Node) -> Option<Vec<u8>> {
        let number = span.key.to_bits();
        let Some(laid) = self.laid.iter().find(|laid| laid.number == number) else {
            let why = self.back.get(&(call, from)).copied();
            if !matches!(why, Some(Why::Late | Why::Lost)) {
                self.must_not(|| format!("{call}: the reply of {from} to {reader} is gone before it is read: {why:?}"));
            }
            return None;
        };
        let (is_right, over) = ((laid.whose.call, laid.whose.node, laid.reader) == (call, from, reader), laid.over);
        let reply = laid.data.clone();
        if !is_right || over.is_some() || reply.len() as u64 != span.len {
            self.must_not(|| format!("{call}: {reader} reads {span:?} of {from}, which is over or not its: {over:?}"));
        }
        self.release(span, reader);
        Some(reply)
    }

    /// A reader is done with a reply; whether it was there.
    pub(super) fn release(&mut self, span: Span, reader: Node) -> bool {
        let found = self.laid.iter_mut().find(|laid| (laid.number, laid.reader) == (span.key.to_bits(), reader));
        let Some(laid) = found.filter(|laid| laid.over.is_none()) else { return false };
        laid.over = Some(Why::Released);
        self.looks.push(laid.whose.home);
        true
    }

    /// A message has come.
    pub(super) fn note(&mut self, home: Node, (from, to): (Node, Node), message: &[u8]) {
        if let Some(carried) = peek_reply(message) {
            self.told.push(Told { home, call: carried.call, edge: carried.edge, to, span: carried.span });
        }
        if let Some((call, false)) = peek_cancel(message) {
            let whose = Whose { home, call, node: to };
            if self.waits(whose, from) {
                self.held.retain(|(held, _)| *held != whose);
            }
            self.unwanted(|laid| (laid.whose, laid.reader) == (whose, from));
        }
    }

    /// Whether an answer waits for memory.
    pub(super) fn waits(&self, whose: Whose, reader: Node) -> bool {
        self.unlaid.iter().any(|unlaid| (unlaid.whose, unlaid.reader) == (whose, reader))
    }

    fn unwanted(&mut self, which: impl Fn(&Laid) -> bool) {
        for laid in self.laid.iter_mut().filter(|laid| !laid.orphaned && laid.over.is_none() && which(laid)) {
            laid.over = Some(Why::Unwanted);
        }
    }

    /// A machine has heard that a member is dead.
    pub(super) fn gone(&mut self, home: Node, who: Node) {
        self.unlaid.retain(|unlaid| (unlaid.whose.home, unlaid.reader) != (home, who));
        self.unwanted(|laid| (laid.whose.home, laid.reader) == (home, who));
    }

    /// A machine is dead: what it has laid out can be read until its next life.
    pub(super) fn kill(&mut self, home: Node) {
        self.held.retain(|(whose, _)| whose.home != home);
        self.unlaid.retain(|unlaid| unlaid.whose.home != home);
        self.told.retain(|told| told.home != home);
        self.reading.retain(|(whose, _)| whose.home != home);
        self.copied.retain(|(whose, ..)| whose.home != home);
        self.laid.iter_mut().filter(|laid| laid.whose.home == home).for_each(|laid| laid.orphaned = true);
    }

    /// A machine begins another life.
    pub(super) fn restart(&mut self, home: Node) {
        self.take_back(|laid| (laid.whose.home == home).then_some(Why::Lost));
    }

    /// Takes memory back, each piece once.
    fn take_back(&mut self, why: impl Fn(&Laid) -> Option<Why>) {
        for at in (0..self.laid.len()).rev() {
            if let Some(why) = why(&self.laid[at]) {
                let Whose { call, node, .. } = self.laid.swap_remove(at).whose;
                self.fates.unwanted += u64::from(why == Why::Unwanted);
                self.back.insert((call, node), why);
            }
        }
    }

    /// Takes back what was read here, or nobody waits for any more, and forgets answers that have waited for too long.
    pub(super) fn collect(&mut self, home: Node, now: Time) {
        self.unlaid.retain(|unlaid| unlaid.whose.home != home || unlaid.until > now);
        self.take_back(|laid| match laid.over {
            _ if laid.whose.home != home || laid.orphaned => None,
            None if laid.until <= now => Some(Why::Late),
            over => over,
        });
    }

    /// When memory is to be taken back, or an answer waits no more, at which machine.
    pub(super) fn due(&self) -> Option<(Time, Node)> {
        let laid = self.laid.iter().filter(|laid| !laid.orphaned).map(|laid| (laid.until, laid.whose.home));
        laid.chain(self.unlaid.iter().map(|unlaid| (unlaid.until, unlaid.whose.home))).min()
    }

    /// Lays the reply out that an answer tells of; `None` if that waits for memory.
    pub(super) fn lay(&mut self, unlaid: &mut Unlaid, now: Time) -> Option<()> {
        let Unlaid { whose, reader, until, ref mut message } = *unlaid;
        let len = peek_reply(message)?.span.len;
        if let Some(data) = self.take(whose) {
            let taken = self.laid.iter().filter(|laid| laid.whose.home == whose.home && !laid.orphaned);
            let taken: usize = taken.map(|laid| laid.data.len()).sum();
            let lacks = self.lacking.get(&whose.home).is_some_and(|&end| end > now);
            if lacks || taken.saturating_add(data.len()) > self.room {
                self.held.push((whose, data));
                return None;
            }
            if self.laid.iter().any(|laid| laid.whose == whose) || self.back.contains_key(&(whose.call, whose.node)) {
                self.must_not(|| format!("{whose:?} is laid out twice"));
            }
            self.count += 1;
            self.fates.laid += 1;
            let number = self.count;
            self.laid.push(Laid { whose, reader, number, data, until, over: None, orphaned: false });
        }
        if let Some(laid) = self.laid.iter().find(|laid| laid.whose == whose) {
            let span = Span { key: Key::from_bits(laid.number), offset: 0, len };
            assert!(set_carried(message, span), "it is such an answer");
        }
        Some(())
    }

    /// Why the memory for a reply was given back, if it was.
    pub(super) fn why_back(&self, call: CallId) -> impl Iterator<Item = (Node, Why)> + '_ {
        self.back.iter().filter(move |((of, _), _)| *of == call).map(|(&(_, node), &why)| (node, why))
    }

    /// What must hold when nothing happens any more.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if let Some(laid) = self.laid.iter().find(|laid| !laid.orphaned) {
            return Err(format!("the memory for {:?} is never given back", laid.whose));
        }
        let (unlaid, told, reading) = (self.unlaid.len(), self.told.len(), self.reading.len());
        if unlaid + told + reading > 0 {
            return Err(format!("{unlaid} answers wait for memory, {told} are told of, {reading} are read"));
        }
        Ok(())
    }
}
