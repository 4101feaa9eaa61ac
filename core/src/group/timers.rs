//! Deadlines in constant time: one queue for each length of wait.
//!
//! All waits of one queue last equally long, so the queue is in order of expiry by itself: arming appends, expiry
//! takes the front, disarming unlinks. There are as many queues as there are different lengths: the steps of the
//! back-off and the few stages of giving up.

use crate::time::{Lapse, Time};

pub(crate) const NIL: u32 = u32::MAX;

/// Steps of the back-off between repetitions; each is twice as long as the one before.
pub(crate) const STEPS: u8 = 7;
/// A quarter of the time to give up, and a half.
pub(crate) const QUARTER: u8 = STEPS;
pub(crate) const HALF: u8 = STEPS + 1;
/// Four times the time to give up: how long what nobody waits for is kept.
pub(crate) const LINGER: u8 = STEPS + 2;
/// Three quarters of the time to give up.
pub(crate) const MOST: u8 = STEPS + 3;
/// No time at all: a queue in order of arrival.
pub(crate) const OLD: u8 = STEPS + 4;
const QUEUES: usize = STEPS as usize + 5;

/// Place of one timer in its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    at: Time,
    queue: u8,
    armed: bool,
    prev: u32,
    next: u32,
}

impl Default for Node {
    fn default() -> Self {
        Node { at: Time::NEVER, queue: 0, armed: false, prev: NIL, next: NIL }
    }
}

impl Node {
    pub(crate) const fn is_armed(&self) -> bool {
        self.armed
    }
}

/// Where timer `id` is kept.
pub(crate) trait Nodes {
    fn node(&mut self, id: u32) -> Option<&mut Node>;
}

/// The queues.
#[derive(Debug)]
pub(crate) struct Timers {
    ends: [(u32, u32); QUEUES],
    fronts: [Time; QUEUES],
    lapses: [Lapse; QUEUES],
}

impl Timers {
    pub(crate) fn new(resend: Lapse, timeout: Lapse) -> Self {
        let mut lapses = [Lapse(0); QUEUES];
        for (step, lapse) in (0..STEPS).zip(lapses.iter_mut()) {
            *lapse = Lapse(resend.0.max(1).saturating_mul(1 << step));
        }
        for (queue, lapse) in [
            (QUARTER, timeout.0 / 4),
            (HALF, timeout.0 / 2),
            (LINGER, timeout.0.saturating_mul(4)),
            (MOST, timeout.0 / 4 * 3),
            (OLD, u64::MAX),
        ] {
            lapses[queue as usize] = Lapse(lapse.max(1));
        }
        Timers { ends: [(NIL, NIL); QUEUES], fronts: [Time::NEVER; QUEUES], lapses }
    }

    /// When the next timer expires.
    pub(crate) fn next(&self) -> Time {
        self.fronts.iter().copied().min().unwrap_or(Time::NEVER)
    }

    /// The timer that has been longest in a queue; [`NIL`] if there is none.
    pub(crate) fn front(&self, queue: u8) -> u32 {
        self.ends.get(queue as usize).map_or(NIL, |ends| ends.0)
    }

    /// Arms timer `id` in `queue`, wherever it was before.
    pub(crate) fn arm(&mut self, nodes: &mut impl Nodes, id: u32, queue: u8, now: Time) {
        self.disarm(nodes, id);
        let queue = queue.min(OLD);
        let (Some(ends), Some(&lapse)) = (self.ends.get_mut(queue as usize), self.lapses.get(queue as usize)) else {
            return;
        };
        let last = ends.1;
        let Some(node) = nodes.node(id) else { return };
        *node = Node { at: now + lapse, queue, armed: true, prev: last, next: NIL };
        let at = node.at;
        ends.1 = id;
        if last == NIL {
            ends.0 = id;
            self.fronts[queue as usize] = at;
        } else if let Some(before) = nodes.node(last) {
            before.next = id;
        }
    }

    /// Disarms timer `id`; nothing happens if it is not armed.
    pub(crate) fn disarm(&mut self, nodes: &mut impl Nodes, id: u32) {
        let Some(node) = nodes.node(id).filter(|node| node.armed) else { return };
        let Node { queue, prev, next, .. } = *node;
        *node = Node::default();
        let queue = queue as usize;
        if prev != NIL {
            if let Some(before) = nodes.node(prev) {
                before.next = next;
            }
        } else {
            self.ends[queue].0 = next;
            self.fronts[queue] = nodes.node(next).map_or(Time::NEVER, |front| front.at);
        }
        if next != NIL {
            if let Some(after) = nodes.node(next) {
                after.prev = prev;
            }
        } else {
            self.ends[queue].1 = prev;
        }
    }

    /// Takes a timer that has expired; with it the queue in which it was.
    pub(crate) fn expired(&mut self, nodes: &mut impl Nodes, now: Time) -> Option<(u32, u8)> {
        let queue = self.fronts.iter().position(|&front| front <= now)?;
        let id = self.ends.get(queue)?.0;
        if id == NIL {
            self.fronts[queue] = Time::NEVER;
            return None;
        }
        self.disarm(nodes, id);
        Some((id, queue as u8))
    }
}
