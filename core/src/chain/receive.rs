//! What comes: answers of children, questions and cancellations of parents, deaths.
//!
//! Requests go to setup. Nothing here runs the user's code, waits or allocates, and what is done with a message is
//! bounded by its length: it may run while the user's code does.

use zerocopy::IntoBytes;

use super::context::{Context, NIL, NO_KID, State, edge_to};
use super::kids::{Kid, Kids, Stand};
use super::machine::{Handle, Machine};
use super::message::{FAILURE, Failure, Head, Kind, Response, Unread, span_of};
use super::mode::Mode;
use super::name::{CallId, Edge, Life, Node, Tag};
use super::notes::{Note, What, never_begun};
use super::peers::{Age, is_known};
use super::reply::Written;
use super::report::{Code, Stage, Tallies};
use super::room::Waiter;
use super::storage::Storage;
use crate::codec::Reader;
use crate::error::Full;
use crate::key::Span;
use crate::time::Time;

impl<S: Storage> Machine<S> {
    /// A message came from a member for one that lives here; the transport vouches for both, for nothing else.
    ///
    /// # Errors
    /// [`Full`]: too many short answers wait to be sent. Nothing was done; [poll](Self::poll), then hand it in again.
    pub fn on_message(&mut self, from: Node, to: Node, bytes: &[u8], now: Time) -> Result<(), Full<()>> {
        let mut reader = Reader::new(bytes);
        let head = match Head::parse(&mut reader) {
            Ok(head) => head,
            Err(Unread::Version(head)) if head.kind == Kind::Request && is_known(self.peers.as_ref(), from) => {
                self.refuse_once((from, to), &head, Code::Version, u32::from(super::message::VERSION));
                return Ok(());
            }
            Err(_) => {
                self.figures.malformed += 1;
                return Ok(());
            }
        };
        if !is_known(self.peers.as_ref(), from) || !self.houses(to) {
            self.figures.malformed += 1;
            return Ok(());
        }
        match head.kind {
            Kind::Request | Kind::Ask | Kind::Cancel if !self.has_note() => return Err(Full(())),
            Kind::Request => self.on_request((from, to), &head, reader, now),
            Kind::Ask => self.on_ask((from, to), &head),
            Kind::Cancel => self.on_cancel((from, to), &head),
            Kind::Response | Kind::Failure | Kind::Busy | Kind::Credit | Kind::Alive => {
                self.on_answer((from, to), &head, reader, now);
            }
        }
        Ok(())
    }

    /// Answers a message from a member for one of ours.
    pub(super) fn reply_with(&mut self, (to, from): (Node, Node), head: &Head, what: What) {
        self.note(Note { from, to, call: head.call, edge: head.edge, attempt: head.attempt, what });
    }

    /// The call that an answer is for, and which child it comes from, if the answer is awaited.
    fn awaited(&mut self, (from, to): (Node, Node), head: &Head) -> Option<(Handle, Kid)> {
        let (id, context) = self.contexts.at(u32::from(head.edge.index))?;
        let here = id.generation().0 as u16 == head.edge.generation && context.call == head.call;
        if !here || context.node != to || !context.takes_answers() {
            return None;
        }
        let (_, kids) = self.with_kids(id)?;
        let kid =
            kids.get(head.edge.ordinal).filter(|kid| kid.is_open() && kid.attempts > 0 && kid.stand != Stand::Home)?;
        (self.member(id, kid.piece.start)? == from).then_some((id, kid))
    }

    fn on_answer(&mut self, ends: (Node, Node), head: &Head, mut reader: Reader<'_>, now: Time) {
        let Some((id, kid)) = self.awaited(ends, head) else {
            self.figures.stale += 1;
            return;
        };
        let at = head.edge.ordinal;
        match head.kind {
            Kind::Response => match Response::parse(head, &mut reader) {
                Some(response) if response.nodes == kid.piece.len => self.on_response(id, at, kid, &response),
                _ => self.figures.malformed += 1,
            },
            Kind::Failure => match Failure::parse(head, &mut reader) {
                Some(failure) => {
                    let mut tallies = failure.tallies;
                    if tallies.total() != kid.piece.len {
                        // It does not know its subtree, as one that has lost its memory.
                        tallies = Tallies { failed: 1, unknown: kid.piece.len - 1, ..Tallies::default() };
                    }
                    self.kid_failed(id, at, tallies, failure.records());
                }
                None => self.figures.malformed += 1,
            },
            Kind::Busy => self.on_busy(id, head, Kid { heard: now, ..kid }, now),
            Kind::Credit => self.on_credit(id, at, kid),
            Kind::Alive => {
                let stand = if kid.stand == Stand::Sent { Stand::Heard } else { kid.stand };
                self.set_kid(id, at, Kid { stand, heard: now, refused: false, ..kid });
            }
            _ => {}
        }
    }

    /// A child has no room; it is asked again a little later.
    fn on_busy(&mut self, id: Handle, head: &Head, kid: Kid, now: Time) {
        if kid.stand != Stand::Sent || head.attempt != kid.attempts {
            return;
        }
        let due = now + self.config.patience(kid.attempts);
        self.set_kid(id, head.edge.ordinal, Kid { stand: Stand::Busy, refused: true, ..kid });
        if let Ok(context) = self.contexts.get_mut(id) {
            context.ask_at = context.ask_at.min(due);
            self.arm(id);
        }
    }

    /// A message that was [polled](Self::poll) finds no room on its way. If it is a request, it is sent again a little later, as
    /// if its receiver had no place for it, and is to be dropped if this says so. Everything else has to wait, and is bounded by what
    /// its receiver has sent and by the requests that did find room: who got none of them is not told to stop.
    pub fn on_full(&mut self, from: Node, to: Node, message: &[u8], now: Time) -> bool {
        match Head::parse(&mut Reader::new(message)) {
            Ok(head) if head.kind == Kind::Request => {
                if let Some((id, kid)) = self.awaited((to, from), &head) {
                    self.on_busy(id, &head, kid.unsend(), now);
                }
                true
            }
            _ => false,
        }
    }

    /// A message that was [polled](Self::poll) can never go where it was to go, such as into an inbox that is damaged. If it is a
    /// request, the call fails by the name of its receiver; whoever waits for another message learns that at the deadline.
    pub fn on_refused(&mut self, from: Node, to: Node, message: &[u8]) {
        let Ok(head) = Head::parse(&mut Reader::new(message)) else { return };
        if head.kind == Kind::Request
            && let Some((id, kid)) = self.awaited((to, from), &head)
        {
            self.lose(id, head.edge.ordinal, Stage::Forward, Code::Transport, to, kid.unsend().is_unasked());
        }
    }

    /// A child that had no room may have some now.
    fn on_credit(&mut self, id: Handle, at: u16, kid: Kid) {
        if kid.stand != Stand::Busy {
            return;
        }
        self.set_kid(id, at, Kid { stand: Stand::ToSend, ..kid });
        if let Ok(context) = self.contexts.get_mut(id) {
            context.cursor = context.cursor.min(context.turn_of(at));
            self.ready(id);
        }
    }

    pub(super) fn set_kid(&mut self, id: Handle, at: u16, kid: Kid) {
        if let Some((_, mut kids)) = self.with_kids(id) {
            kids.set(at, kid);
        }
    }

    fn on_response(&mut self, id: Handle, at: u16, kid: Kid, response: &Response<'_>) {
        let Some((context, memory)) = self.both(id) else { return };
        let (caps, is_rendezvous) = (context.sent(), context.mode.contains(Mode::RENDEZVOUS));
        let fits = response.header.len() <= usize::from(caps.header) && response.data.len() <= caps.data as usize;
        if !fits || response.budget_us.is_some() != is_rendezvous {
            self.figures.malformed += 1;
        } else if Self::take_answer(context, memory, at, kid, response) {
            self.ready(id);
        }
    }

    /// Takes an answer that is not longer than the call allows; whether there is something to be done now.
    pub(super) fn take_answer(
        context: &mut Context,
        memory: &mut [u64],
        at: u16,
        kid: Kid,
        response: &Response<'_>,
    ) -> bool {
        let (header, data) = (response.header, response.data);
        if context.callback != Tag::NONE {
            let place = memory.as_mut_bytes().get_mut(context.layout.park_range(at));
            let start = usize::from(context.caps.header);
            if let Some((to_header, to_data)) = place.and_then(|place| place.split_at_mut_checked(start))
                && let Some(to_header) = to_header.get_mut(..header.len())
                && let Some(to_data) = to_data.get_mut(..data.len())
            {
                to_header.copy_from_slice(header);
                to_data.copy_from_slice(data);
            }
        }
        let written = Written { header: header.len() as u16, data: data.len() as u32, overflow: 0 };
        Self::park(context, memory, at, kid, written)
    }

    /// The answer of a child lies where it is parked; whether there is something to be done now.
    pub(super) fn park(context: &mut Context, memory: &mut [u64], at: u16, kid: Kid, written: Written) -> bool {
        context.tallies.ok += kid.piece.len;
        let parks = context.callback != Tag::NONE;
        let mut kids = Kids::of(&context.layout, memory);
        let stand = if parks { Stand::Parked } else { Stand::Over };
        let (reply_header, reply_data) = (written.header, written.data);
        kids.set(at, Kid { stand, next: NO_KID, reply_header, reply_data, ..kid });
        if parks {
            let last = core::mem::replace(&mut context.parked.1, at);
            match kids.get(last) {
                Some(before) => kids.set(last, Kid { next: at, ..before }),
                None => context.parked.0 = at,
            }
        } else {
            context.pend -= 1;
        }
        context.state == State::Gathering
    }

    /// Where the reply of a child lies whose answer waits for the callback, in a [rendezvous](Mode::RENDEZVOUS), and which child that
    /// is; `edge` is what its answer [says](super::peek_carried). `None` if it does not wait, or its reply is longer than the call
    /// allows.
    pub fn parked(&mut self, call: CallId, edge: Edge) -> Option<(Node, Span)> {
        let (id, context) = self.contexts.at(edge.index.into())?;
        let max = context.rendezvous().filter(|_| edge == edge_to(id, edge.ordinal) && context.call == call)?;
        let (range, header) = (context.layout.park_range(edge.ordinal), usize::from(context.caps.header));
        let (_, kids) = self.with_kids(id)?;
        let kid = kids.get(edge.ordinal).filter(|kid| kid.stand == Stand::Parked)?;
        let (_, memory) = self.both(id)?;
        let data = memory.as_bytes().get(range)?.get(header..)?.get(..kid.reply_data as usize)?;
        let span = span_of(data).filter(|span| span.len <= max.into())?;
        Some((self.member(id, kid.piece.start)?, span))
    }

    fn on_ask(&mut self, ends: (Node, Node), head: &Head) {
        match self.index.get(head.call.key(ends.1)) {
            Some(at) => self.again(ends, head, at),
            // Neither the request has come nor that it is to stop: whoever asks has said both, or heard of it here.
            None => self.never_begin(ends, head, true),
        }
    }

    fn on_cancel(&mut self, (from, to): (Node, Node), head: &Head) {
        let waits = head.mode.contains(Mode::COLLECT);
        let found = self.index.get(head.call.key(to)).filter(|&at| at != NIL);
        let Some(at) = found else {
            return self.never_begin((from, to), head, waits);
        };
        let Some((id, context)) = self.contexts.at(at) else { return };
        if context.parent == Some((from, head.edge)) {
            self.stop(id, waits);
        }
    }

    /// A call is not to be carried out whose request has not been taken here; whoever waits for an answer gets one.
    fn never_begin(&mut self, (from, to): (Node, Node), head: &Head, waits: bool) {
        // The request was overtaken, or lost, or refused for lack of room.
        if self.step_forward(&Waiter::of_request((from, to), head)).is_some() {
            self.has_room();
        }
        let CallId { root, life, .. } = head.call;
        let age = self.peers.as_ref().get(root.index()).map(|root| root.age(head.call));
        if matches!(age, Some(Age::NewLife)) {
            self.on_life(root, life);
        }
        let may_come = root != to && !self.is_to_come(head.call) && matches!(age, Some(Age::Current | Age::NewLife));
        let members = head.a.max(1);
        if may_come {
            let mut message = [0; FAILURE];
            let answer = waits.then(|| {
                let emitted = Failure::emit(never_begun(members), [].into_iter(), head.call, head.edge, &mut message);
                debug_assert!(emitted.is_ok(), "a failure without records has this length");
                &message[..]
            });
            self.bury((head.call, to), from, head.edge, answer);
        }
        match waits {
            true if may_come => self.reply_with((from, to), head, What::Unreached(members)),
            // It may have run, and nothing is known of it any more.
            true => self.refuse_once((from, to), head, Code::ReplyGone, 0),
            false => {}
        }
    }

    /// A member died: whoever waits for it is told, and what it wanted is left. When this has to be told is said
    /// [there](Machine#what-whoever-drives-it-guarantees).
    pub fn on_gone(&mut self, node: Node, _now: Time) {
        match self.peers.as_mut().get_mut(node.index()) {
            // Whoever lives here lives as long as this machine.
            Some(peer) if peer.at_home => return,
            Some(peer) => peer.dead = true,
            None => return,
        }
        self.listed = None;
        self.forget_waiter(node);
        self.each(|machine, id| {
            let Ok(context) = machine.contexts.get(id) else { return };
            if context.parent.is_some_and(|(parent, _)| parent == node) {
                return machine.abandon(id);
            }
            if !context.takes_answers() {
                return;
            }
            for at in 0..context.layout.kids {
                let Some((_, kids)) = machine.with_kids(id) else { return };
                let Some(kid) = kids.get(at).filter(|kid| kid.is_open() && kid.attempts > 0) else { continue };
                if machine.member(id, kid.piece.start) == Some(node) {
                    return machine.lose(id, at, Stage::Child, Code::PeerDead, node, kid.is_unasked());
                }
            }
        });
    }

    /// A member that died is there again, in another life.
    pub fn on_back(&mut self, node: Node) {
        if let Some(peer) = self.peers.as_mut().get_mut(node.index()) {
            peer.dead = false;
        }
    }

    /// Whether a member is known to be dead: a call that lists it is refused, or made without it.
    #[must_use]
    pub fn is_dead(&self, node: Node) -> bool {
        self.peers.as_ref().get(node.index()).is_some_and(|peer| peer.dead)
    }

    /// A member has begun another life: the calls of its earlier one are nobody's.
    pub(super) fn on_life(&mut self, node: Node, life: Life) {
        if let Some(peer) = self.peers.as_mut().get_mut(node.index()) {
            peer.begin_life(life);
        }
        self.each(|machine, id| {
            if machine.contexts.get(id).is_ok_and(|context| context.call.root == node && context.call.life != life) {
                machine.abandon(id);
            }
        });
    }

    pub(super) fn each(&mut self, mut what: impl FnMut(&mut Self, Handle)) {
        for at in 0..self.contexts.capacity() as u32 {
            if let Some((id, _)) = self.contexts.at(at) {
                what(self, id);
            }
        }
    }
}
