//! The machine of one member: its tables, and what is to be done next.

use zerocopy::IntoBytes;

use super::context::{Context, Out, State};
use super::due::Due;
use super::forward::Sent;
use super::kids::Kids;
use super::laid::Listed;
use super::layout::Came;
use super::name::Node;
use super::notes::Queue;
use super::room::Line;
use super::storage::{Config, Lent, Storage};
use super::tombs::Ring;
use super::{Figures, functions};
use crate::id::Id;
use crate::map::Map;
use crate::pending::Pending;
use crate::time::{Lapse, Time};

/// Names a call at one member until it is over there.
pub type Handle = Id<Context>;

/// Classes of calls by depth that there can be.
pub const CLASSES_MAX: usize = 32;

/// Set in the index for a call that is over; the rest is its tomb.
pub(super) const OVER: u32 = 1 << 31;

/// What a machine wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send the message that lies in the first `len_bytes` of the polled buffer.
    Send {
        /// From which of the members that live here.
        from: Node,
        /// To whom.
        to: Node,
        /// Length of the message.
        len_bytes: usize,
    },
    /// Run the user's code on [`work`](Machine::work), then say how it went by [`finish`](Machine::finish).
    Run {
        /// Which call.
        handle: Handle,
        /// Place of the function, as [`register`](Machine::register) gave it.
        function: u16,
    },
    /// A call that was started here is over: see [`outcome`](Machine::outcome), then [`release`](Machine::release) it.
    Ended {
        /// Which call.
        handle: Handle,
    },
}

/// The machine; see the [module](super).
///
/// # What whoever drives it guarantees
/// Messages may be lost, repeated and reordered if [`Config::ask`] is set; a function runs at most once all the same, as
/// long as lives are kept apart:
///
/// 1. A message goes to the life of its receiver that its sender knew when the machine gave it out, that is, the one that
///    began after the last [`on_gone`](Machine::on_gone), and to no later one. A machine remembers nothing of its earlier
///    lives: it would run again what it ran there.
/// 2. `on_gone` comes after everything from that life that is handed in at all.
/// 3. It comes before anything from the next one, and so does [`on_back`](Machine::on_back), unless that one is over too.
#[derive(Debug)]
pub struct Machine<S: Storage> {
    pub(super) config: Config,
    pub(super) contexts: Pending<S::Contexts>,
    pub(super) words: S::Words,
    /// Words that each context has of them.
    pub(super) slab: usize,
    pub(super) peers: S::Peers,
    /// Nobody before the first of them lives here, nor after the last.
    pub(super) homes: (Node, Node),
    pub(super) functions: S::Functions,
    pub(super) tombs: S::Tombs,
    pub(super) ring: Ring,
    pub(super) answers: S::Answers,
    pub(super) kept: usize,
    pub(super) index: Map<S::Index>,
    pub(super) notes: S::Notes,
    pub(super) queue: Queue,
    pub(super) waiters: S::Waiters,
    pub(super) line: Line,
    pub(super) scratch: S::Scratch,
    /// Whose list lies in it.
    pub(super) listed: Option<Listed>,
    /// Answers and callbacks.
    pub(super) up: Due,
    /// Functions and requests.
    pub(super) down: Due,
    pub(super) used: [u16; CLASSES_MAX],
    /// Classes of which no call has a place.
    pub(super) unused: u8,
    pub(super) open: u16,
    /// Places that are kept back for members that have none of their own, or for whoever has waited for one.
    pub(super) lent: u16,
    /// Whose walk goes on before anything else.
    pub(super) walker: Option<Handle>,
    pub(super) seq: u64,
    pub(super) lists: u32,
    pub(super) figures: Figures,
}

impl<S: Storage> Machine<S> {
    /// A machine over the lent storage, which remembers nothing of an earlier life.
    #[must_use]
    pub fn new(config: Config, lent: Lent<S>) -> Self {
        let Lent { contexts, words, mut peers, mut functions, mut tombs, answers, index, notes, waiters, scratch } =
            lent;
        let places = contexts.as_ref().len().clamp(1, usize::from(u16::MAX));
        let slab = words.as_ref().len() / places;
        let kept = answers.as_ref().len().checked_div(tombs.as_ref().len()).unwrap_or(0);
        peers.as_mut().fill_with(Default::default);
        if let Some(own) = peers.as_mut().get_mut(config.node.index()) {
            own.settle(config.life);
        }
        functions.as_mut().fill(None);
        tombs.as_mut().fill_with(Default::default);
        // A class needs a place of its own, so there are no more classes than places.
        let classes = usize::from(config.classes).min(CLASSES_MAX).min(places) as u8;
        Machine {
            config: Config { classes, ..config },
            contexts: Pending::new(contexts),
            words,
            slab,
            peers,
            homes: (config.node, config.node),
            functions,
            tombs,
            ring: Ring::default(),
            answers,
            kept,
            index: Map::new(index, u64::from(config.life.0) << 32 | u64::from(config.node.0)),
            notes,
            queue: Queue::default(),
            waiters,
            line: Line::EMPTY,
            scratch,
            listed: None,
            up: Due::NOBODY,
            down: Due::NOBODY,
            used: [0; CLASSES_MAX],
            unused: classes,
            open: 0,
            lent: 0,
            walker: None,
            seq: 0,
            lists: 0,
            figures: Figures::default(),
        }
    }

    /// How it was set up.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Counts of what was sent and received.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Calls under way here, those included that are over and not released yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Whether no call is under way here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// When [`on_time`](Self::on_time) is due, if ever.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let until = Some(self.line.until()).filter(|&until| until != Time::NEVER);
        self.contexts.deadline().into_iter().chain(until).min()
    }

    /// Makes the function of this tag callable from now on; its place, which [`Action::Run`] tells.
    ///
    /// # Errors
    /// [`RegisterError`](super::RegisterError).
    pub fn register(&mut self, tag: super::Tag) -> Result<u16, super::RegisterError> {
        functions::register(self.functions.as_mut(), tag)
    }

    /// No new call may use the function from now on; calls under way still run it. Whether it was registered.
    pub fn unregister(&mut self, tag: super::Tag) -> bool {
        functions::release(self.functions.as_mut(), tag)
    }

    /// The next thing to do, or `None` until something else is told to the machine. `buffer` holds the longest message
    /// ([`Config::message_max`]).
    #[must_use]
    pub fn poll(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action> {
        loop {
            while let Some(note) = self.queue.pop(self.notes.as_ref()) {
                if let Some(len_bytes) = self.emit_note(&note, buffer) {
                    return Some(Action::Send { from: note.from, to: note.to, len_bytes });
                }
            }
            if self.line.has_news()
                && let Some(action) = self.tell_waiter(now, buffer)
            {
                return Some(action);
            }
            // Whoever has got into a queue meanwhile has his turn there.
            let waits = |id: &Handle| self.contexts.get(*id).is_ok_and(|context| !context.queued);
            let id = self.walker.take().filter(waits).or_else(|| self.next_ready())?;
            if let Some(action) = self.step(id, now, buffer) {
                return Some(action);
            }
        }
    }

    /// A context and its memory.
    #[inline]
    pub(super) fn both(&mut self, id: Handle) -> Option<(&mut Context, &mut [u64])> {
        let start = id.index() as usize * self.slab;
        let memory = self.words.as_mut().get_mut(start..start + self.slab)?;
        Some((self.contexts.get_mut(id).ok()?, memory))
    }

    /// A context, its own part of the memory, and what came with the request.
    #[inline]
    pub(super) fn parts(&mut self, id: Handle) -> Option<(&mut Context, &mut [u64], Came<'_>)> {
        let context = self.contexts.get_mut(id).ok()?;
        let place = |at: u32| at as usize * self.slab..(at as usize + 1) * self.slab;
        let words = self.words.as_mut();
        if context.source == id.index() {
            let memory = words.get_mut(place(id.index()))?;
            let base = context.layout.own_end();
            let (own, came) = memory.split_at_mut_checked(base / 8)?;
            return Some((context, own, Came { bytes: came.as_bytes(), base }));
        }
        let [own, came] = words.get_disjoint_mut([place(id.index()), place(context.source)]).ok()?;
        Some((context, own, Came { bytes: came.as_bytes(), base: 0 }))
    }

    /// A context, and what came with the request.
    #[inline]
    pub(super) fn came(&self, id: Handle) -> Option<(&Context, Came<'_>)> {
        let context = self.contexts.get(id).ok()?;
        let start = context.source as usize * self.slab;
        Some((context, Came { bytes: self.words.as_ref().get(start..start + self.slab)?.as_bytes(), base: 0 }))
    }

    /// A context and its children.
    #[inline]
    pub(super) fn with_kids(&mut self, id: Handle) -> Option<(&mut Context, Kids<'_>)> {
        let (context, memory) = self.both(id)?;
        let kids = Kids::of(&context.layout, memory);
        Some((context, kids))
    }

    /// Sets the timer of a context by what it waits for.
    pub(super) fn arm(&mut self, id: Handle) {
        if let Ok(context) = self.contexts.get(id) {
            // Whoever lives with its parent is in time as long as that is.
            let at = if context.at_home { context.ask_at } else { context.deadline.min(context.ask_at) };
            let armed = self.contexts.postpone(id, at);
            debug_assert!(armed.is_ok(), "the context was just there");
        }
    }

    /// One step of one call.
    fn step(&mut self, mut id: Handle, now: Time, buffer: &mut [u8]) -> Option<Action> {
        loop {
            let context = self.contexts.get(id).ok()?;
            if context.walk.goes_on {
                if context.out != Out::Nothing {
                    return None;
                }
                match self.walk(id) {
                    Some(run) => return Some(run),
                    None => continue,
                }
            }
            if context.may_walk() {
                self.begin_walk(id);
                continue;
            }
            if context.cursor < context.layout.kids && context.forwards() && !context.wants_room {
                match self.send_next(id, now, buffer)? {
                    Sent::Message(action) => {
                        self.ready(id);
                        return Some(action);
                    }
                    // It goes first.
                    Sent::Home(child) => {
                        self.ready(id);
                        id = child;
                        continue;
                    }
                    Sent::Nothing => continue,
                }
            }
            let idle = context.out == Out::Nothing;
            match context.state {
                State::Queued if idle => return self.begin(id),
                State::Running if idle && context.woken => return self.run(id, Out::Func),
                State::Gathering if idle => match self.gather(id) {
                    super::user::Gathered::Run(kid) => return self.run(id, Out::Callback(kid)),
                    super::user::Gathered::Wait => return None,
                    super::user::Gathered::Over => {}
                },
                State::Answering | State::Failing if context.at_home => return self.tell_home(id),
                State::Answering => return self.answer(id, now, buffer),
                State::Failing => return self.answer_badly(id, buffer),
                State::Ended if !context.told => {
                    let context = self.contexts.get_mut(id).ok()?;
                    context.told = true;
                    // Of what went well nobody is to be told to stop.
                    if !context.well {
                        self.ready(id);
                    }
                    return Some(Action::Ended { handle: id });
                }
                State::Ended if idle && context.released && context.readers == 0 => self.free(id),
                State::Draining if idle && context.readers == 0 => self.leave(id),
                _ => return None,
            }
        }
    }

    /// What every level keeps of the time that is left, for reports to come up: a sixteenth, divided by its height and one more.
    ///
    /// A half in place of the sixteenth would give reports eight times as long, and would leave a leaf three quarters of the time
    /// under a single parent and less than half of it under four: one that takes nine tenths would fail though all are well. With
    /// a sixteenth it has these nine tenths below up to six parents, as many as 127 members have in a binary tree.
    pub(super) fn slack(left: Lapse, height: u8) -> Lapse {
        Lapse(left.0 / (16 * (u64::from(height) + 1)))
    }

    /// What the parent has kept, by what a call of this height below it keeps: of so many parts of its time it kept one, and left
    /// the others. Each level tells the next one a height less by one, whatever hangs below that.
    pub(super) fn slack_above(slack: Lapse, height: u8) -> Lapse {
        let parts = 16 * (u64::from(height) + 2);
        Lapse(slack.0.saturating_mul(parts - 16) / (parts - 1))
    }
}
