//! Setup: a request takes a place here, or is told why not.

use zerocopy::IntoBytes;

use super::below;
use super::column::Column;
use super::context::Context;
use super::functions;
use super::kids::pieces_by;
use super::layout::{Layout, Sizes, frames};
use super::machine::{Handle, Machine, OVER};
use super::message::{Failure, Head, Kind, Request};
use super::mode::Mode;
use super::name::{CallId, Node, Tag};
use super::notes::{What, refused};
use super::peers::Age;
use super::report::{Code, Record, Stage};
use super::room::Waiter;
use super::storage::{Config, Storage};
use super::tombs::Answer;
use crate::codec::Reader;
use crate::error::Full;
use crate::time::{Lapse, Time};

impl<S: Storage> Machine<S> {
    /// Refuses a request in a way that is not remembered.
    pub(super) fn refuse_once(&mut self, ends: (Node, Node), head: &Head, code: Code, aux: u32) {
        let count = if head.kind == Kind::Request { head.a.max(1) } else { 1 };
        let record = Record { origin: ends.1, stage: Stage::Setup, code, depth: head.class, aux, count };
        self.reply_with(ends, head, What::Refuse(record));
    }

    /// Refuses a request for good: if it comes again, it is refused again, whatever has changed.
    fn refuse(&mut self, (to, from): (Node, Node), head: &Head, code: Code, aux: u32) {
        self.refuse_once((to, from), head, code, aux);
        let count = head.a.max(1);
        let record = Record { origin: from, stage: Stage::Setup, code, depth: head.class, aux, count };
        let mut message = [0; super::message::FAILURE + Record::BYTES];
        let emitted = Failure::emit(refused(&record), [record].into_iter(), head.call, head.edge, &mut message);
        debug_assert!(emitted.is_ok(), "a failure with one record has this length");
        self.bury((head.call, from), to, head.edge, Some(&message));
    }

    /// Whether a call is one of this machine's own that is not made yet.
    pub(super) fn is_to_come(&self, call: CallId) -> bool {
        let is_own = call.root == self.config.node && call.life == self.config.life;
        is_own && CallId::is_after(call.seq, self.seq)
    }

    /// A request from a member for one of ours.
    pub(super) fn on_request(&mut self, ends: (Node, Node), head: &Head, mut reader: Reader<'_>, now: Time) {
        let (call, to) = (head.call, ends.1);
        if let Some(at) = self.index.get(call.key(to)) {
            return self.again(ends, head, at);
        }
        if call.root == to || self.is_to_come(call) {
            // The call is its own, or not made yet; whoever sends it here has made it up.
            return self.refuse_once(ends, head, Code::SecondParent, 0);
        }
        let Some(&root) = self.peers.as_ref().get(call.root.index()) else {
            return self.refuse_once(ends, head, Code::UnknownId, call.root.0);
        };
        match root.age(call) {
            Age::OldLife => return self.refuse_once(ends, head, Code::StaleRoot, 0),
            Age::Forgotten => return self.refuse_once(ends, head, Code::ReplyGone, 0),
            Age::NewLife => self.on_life(call.root, call.life),
            Age::Current => {}
        }
        let Some(request) = Request::parse(head, &mut reader) else {
            self.figures.malformed += 1;
            return self.refuse(ends, head, Code::Malformed, 0);
        };
        let waiter = Waiter::of_request(ends, head);
        let stood = self.step_forward(&waiter);
        match self.accept(ends, head, &request, now) {
            Ok(()) => {}
            Err((Code::NoResource, _)) => {
                self.await_room(waiter, stood);
                self.reply_with(ends, head, What::Busy);
            }
            Err((code, aux)) => {
                self.refuse(ends, head, code, aux);
                self.has_room();
            }
        }
    }

    /// A request for a call that was here before.
    pub(super) fn again(&mut self, ends: (Node, Node), head: &Head, at: u32) {
        let (parent, edge, what) = if at & OVER != 0 {
            let Some(grave) = self.grave(at & !OVER) else { return };
            let what = match grave.answer {
                Answer::Kept(_) => What::Repeat { tomb: at & !OVER },
                Answer::Silent => return,
                Answer::Gone => return self.refuse_once(ends, head, Code::ReplyGone, 0),
            };
            (grave.parent, grave.edge, what)
        } else {
            let Some((_, context)) = self.contexts.at(at) else { return };
            let Some((parent, edge)) = context.parent else { return };
            (parent, edge, What::Alive)
        };
        if (parent, edge) == (ends.0, head.edge) {
            self.reply_with(ends, head, what);
        } else {
            self.refuse_once(ends, head, Code::SecondParent, parent.0);
        }
    }

    /// Setup: takes a place for a call, or says why not.
    fn accept(
        &mut self,
        (from, to): (Node, Node),
        head: &Head,
        request: &Request<'_>,
        now: Time,
    ) -> Result<(), (Code, u32)> {
        let malformed = (Code::Malformed, 0);
        let list = request.list;
        let whole = list.sizes.is_none_or(|sizes| sizes.first() == Some(list.len));
        let is_deep = match self.config.classes {
            // A byte counts the levels, and nothing hangs below the last one.
            0 => head.class == u8::MAX && list.len > 1,
            classes => head.class >= classes,
        };
        // Nobody combines the replies below.
        let is_lost = request.callback == Tag::NONE && request.caps.bytes() > 0 && list.len > 1;
        if list.first() != Some(to.0) || !list.may_be_of(head.call.root) || !whole || is_deep || is_lost {
            return Err(malformed);
        }
        // A few bytes can say that there are very many: nobody looks at more than there is room for.
        if list.listed() as usize > self.slab * 2 {
            return Err((Code::TooLarge, list.listed().saturating_mul(4)));
        }
        let all_home = match list.whole {
            None => self.lists_home(list.ids.words()),
            Some(whole) => self.lists_home(list.ids.words().skip(whole.start as usize).take(list.len as usize)),
        };
        let all_home = all_home.map_err(|double| (Code::DuplicateId, double.0))?;
        let functions = self.functions.as_ref();
        let func =
            functions::find(functions, request.slots[0], request.func).ok_or((Code::UnknownFunc, request.func.0))?;
        let callback = match request.callback {
            Tag::NONE => 0,
            tag => functions::find(functions, request.slots[1], tag).ok_or((Code::UnknownCallback, tag.0))?,
        };
        let children = pieces_by(request.shape, list.len, list.sizes.map(Column::finder));
        let (kids, below) = children.fold((0, 0), |(kids, sum), piece| (kids + 1, sum + piece.len));
        if below != list.len - 1 {
            return Err(malformed);
        }
        if request.header.len() > usize::from(self.config.header_max) {
            return Err((Code::TooLarge, request.header.len() as u32));
        }
        let sizes = Sizes {
            kids,
            list: list.len,
            whole: list.whole,
            stated: list.sizes.is_some(),
            header: request.header.len(),
            data: request.data.len(),
            caps: request.caps.sent(head.mode),
            collect: head.mode.contains(Mode::COLLECT),
            parks: request.callback != Tag::NONE,
            frames: 0,
            rewrites: request.mode.contains(Mode::REWRITE),
            skipped: 0,
        };
        let frames = frames(request.shape, sizes.stated, list.len, request.height);
        let layout = self.layout(&sizes, frames).ok_or((Code::TooLarge, u32::MAX))?;
        self.fits(&layout, &sizes, list.most()).map_err(|needed| (Code::TooLarge, needed))?;
        if !self.admits(head.class) {
            return Err((Code::NoResource, 0));
        }
        let (shared, runs) = self.shares(head.call, to);
        if runs {
            return Err((Code::SecondParent, 0));
        }
        let budget = Lapse::from_micros(u64::from(request.budget_us));
        let context = Context {
            call: head.call,
            node: to,
            parent: Some((from, head.edge)),
            all_home,
            shared,
            mode: request.mode,
            func: request.func,
            callback: request.callback,
            slots: [func, callback],
            shape: request.shape,
            height: request.height,
            class: head.class,
            deadline: now + budget,
            slack: Self::slack(budget, request.height),
            caps: request.caps,
            data_len: request.data_len,
            layout,
            pend: layout.kids,
            ..Context::EMPTY
        };
        let id = self.take(context).map_err(|Full(())| (Code::NoResource, 0))?;
        if let Some((_, memory)) = self.both(id) {
            let bytes = memory.as_mut_bytes();
            for (range, from) in [(layout.header_range(), request.header), (layout.data_range(), request.data)] {
                if let Some(place) = bytes.get_mut(range) {
                    place.copy_from_slice(from);
                }
            }
            if let Some(place) = bytes.get_mut(layout.list_range()) {
                let (ids, sizes) = place.split_at_mut(list.listed() as usize * 4);
                list.ids.write(ids);
                if let Some(column) = list.sizes {
                    column.write(sizes);
                }
            }
        }
        self.write_kids(id);
        self.ready(id);
        Ok(())
    }

    /// Whether everybody in a list lives here; `Err` names a member of ours that stands in it twice: nothing is remembered of
    /// calls at home, so it would run twice.
    fn lists_home(&mut self, mut ids: impl Iterator<Item = u32>) -> Result<bool, Node> {
        self.next_list();
        let (lists, homes, peers) = (self.lists, self.homes, self.peers.as_mut());
        let (mut all_home, mut at) = (true, 0);
        // Of thousands most are no neighbours of those here, and what is kept of them need not be fetched.
        ids.try_for_each(|id| {
            let id = Node(id);
            let known = if homes.0 <= id && id <= homes.1 { peers.get_mut(id.index()) } else { None };
            match known.filter(|peer| peer.at_home) {
                Some(peer) => {
                    if peer.mark(lists, at).is_some() {
                        return Err(id);
                    }
                }
                None => all_home = false,
            }
            at += 1;
            Ok(())
        })?;
        Ok(all_home)
    }

    /// Whether what a call needs fits here, the list of a request with so many bytes; else the bytes that it needs.
    pub(super) fn fits(&self, layout: &Layout, sizes: &Sizes, list: usize) -> Result<(), u32> {
        let down = super::message::REQUEST + list + sizes.header + sizes.data;
        let up = sizes.caps.bytes().saturating_add(super::message::RESPONSE);
        let longest = down.max(up);
        if layout.end as usize > self.slab * 8 {
            Err(layout.end)
        } else if longest > self.config.message_max as usize {
            Err(longest as u32)
        } else {
            Ok(())
        }
    }

    /// The layout of a call, with memory for so many levels below if they may live here and there is so much; `None` if it
    /// cannot be counted.
    pub(super) fn layout(&self, sizes: &Sizes, frames: u16) -> Option<Layout> {
        let Config { header_max, message_max, .. } = self.config;
        let rewrite = if sizes.rewrites { below::room(sizes, header_max, message_max) } else { 0 };
        // Whose header may be another one for each member has no members that do their part in its place.
        let walks = self.is_household() && rewrite == 0;
        let more = if walks { Layout::of(&Sizes { frames, ..*sizes }, 0) } else { None };
        let fits = |more: &Layout| more.skipped_range(sizes.skipped).end <= self.slab * 8;
        more.filter(fits).or_else(|| Layout::of(sizes, rewrite))
    }

    /// Takes a place for a call that no parent at home has, in its class.
    // Inlined, the context is made where it stays: one that is copied over would wait for the stores that made it.
    #[inline(always)]
    pub(super) fn take(&mut self, context: Context) -> Result<Handle, Full<()>> {
        let (call, node, class) = (context.call, context.node, context.class);
        let (slots, deadline, is_root) = (context.slots, context.deadline, context.is_root());
        let has_callback = context.callback != Tag::NONE;
        let id = self.contexts.begin(context, deadline).map_err(|_| Full(()))?;
        // Nobody but its maker can ask for a call of our own.
        if !is_root && self.index.insert(call.key(node), id.index()).is_err() {
            let _ = self.contexts.end(id);
            return Err(Full(()));
        }
        if let Ok(context) = self.contexts.get_mut(id) {
            context.source = id.index();
        }
        self.count_class(class, true);
        functions::retain(self.functions.as_mut(), slots[0]);
        if has_callback {
            functions::retain(self.functions.as_mut(), slots[1]);
        }
        Ok(id)
    }
}
