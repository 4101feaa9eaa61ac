//! Orders of eviction as anybody would first write them: vectors that are searched.

use std::collections::HashMap;

/// A slot as an order sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) slot: u32,
    pub(crate) data: u64,
}

/// What the model asks of an order; `in_use` tells whether somebody has a reference to a slot.
pub(crate) trait Order {
    fn hit(&mut self, _held: Held) {}
    fn idle(&mut self, held: Held, next: Option<u64>);
    fn leave(&mut self, held: Held);
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held>;
    fn now(&mut self, _point: u64) {}
}

/// Oldest first.
#[derive(Default)]
pub(crate) struct Fifo(Vec<Held>);
impl Order for Fifo {
    fn idle(&mut self, held: Held, _: Option<u64>) {
        if !self.0.contains(&held) {
            self.0.push(held);
        }
    }
    fn leave(&mut self, held: Held) {
        self.0.retain(|&other| other != held);
    }
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held> {
        while !self.0.is_empty() {
            let held = self.0.remove(0);
            if !in_use(held.slot) {
                return Some(held);
            }
        }
        None
    }
}

/// Oldest use first.
#[derive(Default)]
pub(crate) struct Lru(Fifo);
impl Order for Lru {
    fn idle(&mut self, held: Held, next: Option<u64>) {
        self.0.leave(held);
        self.0.idle(held, next);
    }
    fn leave(&mut self, held: Held) {
        self.0.leave(held);
    }
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held> {
        self.0.victim(in_use)
    }
}

/// The hand is at the front, whom it passes goes to the back.
#[derive(Default)]
pub(crate) struct Clock(Vec<(Held, bool)>);
impl Order for Clock {
    fn hit(&mut self, held: Held) {
        self.0.iter_mut().filter(|(other, _)| *other == held).for_each(|(_, used)| *used = true);
    }
    fn idle(&mut self, held: Held, _: Option<u64>) {
        if !self.0.iter().any(|&(other, _)| other == held) {
            self.0.push((held, false));
        }
    }
    fn leave(&mut self, held: Held) {
        self.0.retain(|&(other, _)| other != held);
    }
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held> {
        while !self.0.is_empty() {
            let (held, used) = self.0.remove(0);
            if in_use(held.slot) {
                continue;
            }
            if !used {
                return Some(held);
            }
            self.0.push((held, false));
        }
        None
    }
}

/// The hand moves from old to new, and starts again with the oldest.
#[derive(Default)]
pub(crate) struct Sieve {
    order: Vec<(Held, bool)>,
    hand: Option<Held>,
}
impl Sieve {
    fn remove(&mut self, at: usize) -> Held {
        if self.hand == Some(self.order[at].0) {
            self.hand = self.order.get(at + 1).map(|next| next.0);
        }
        self.order.remove(at).0
    }
}
impl Order for Sieve {
    fn hit(&mut self, held: Held) {
        self.order.iter_mut().filter(|(other, _)| *other == held).for_each(|(_, used)| *used = true);
    }
    fn idle(&mut self, held: Held, _: Option<u64>) {
        if !self.order.iter().any(|&(other, _)| other == held) {
            self.order.push((held, false));
        }
    }
    fn leave(&mut self, held: Held) {
        if let Some(at) = self.order.iter().position(|&(other, _)| other == held) {
            self.remove(at);
        }
    }
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held> {
        while !self.order.is_empty() {
            let at = self.order.iter().position(|&(held, _)| Some(held) == self.hand).unwrap_or(0);
            let (held, used) = self.order[at];
            if !in_use(held.slot) && used {
                self.order[at].1 = false;
                self.hand = self.order.get(at + 1).map(|next| next.0);
            } else {
                self.hand = Some(held);
                self.remove(at);
                if !in_use(held.slot) {
                    return Some(held);
                }
            }
        }
        None
    }
}

/// Two queues, and of each two slots who left the first queue lately and has the number of these two.
pub(crate) struct S3Fifo {
    slots: usize,
    small: Vec<(Held, u8)>,
    main: Vec<(Held, u8)>,
    left: HashMap<u64, Vec<u64>>,
    /// Which queue content is in that was taken out while in use.
    was_main: HashMap<Held, bool>,
}
impl std::hash::Hash for Held {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.slot, self.data).hash(state);
    }
}
impl S3Fifo {
    pub(crate) fn new(slots: u32) -> Self {
        let (small, main) = (Vec::new(), Vec::new());
        S3Fifo { slots: slots as usize, small, main, left: HashMap::new(), was_main: HashMap::new() }
    }
    /// Under which number it is known that data left, and as what.
    fn known_as(&self, data: u64) -> (u64, u64) {
        let mixed = (data ^ data >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let pairs = self.slots.div_ceil(2) as u128;
        (((u128::from(mixed) * pairs) >> 64) as u64, ((mixed & 0xffff_ffff) * 0xffff) >> 32)
    }
}
impl Order for S3Fifo {
    fn hit(&mut self, held: Held) {
        let all = self.small.iter_mut().chain(&mut self.main);
        all.filter(|(other, _)| *other == held).for_each(|(_, uses)| *uses = (*uses + 1).min(3));
    }
    fn idle(&mut self, held: Held, _: Option<u64>) {
        if self.small.iter().chain(&self.main).any(|&(other, _)| other == held) {
            return;
        }
        let (number, name) = self.known_as(held.data);
        let back = self.left.get(&number).is_some_and(|left| left.contains(&name));
        let to_main = *self.was_main.entry(held).or_insert(back);
        if to_main { &mut self.main } else { &mut self.small }.push((held, 0));
    }
    fn leave(&mut self, held: Held) {
        self.small.retain(|&(other, _)| other != held);
        self.main.retain(|&(other, _)| other != held);
        self.was_main.remove(&held);
    }
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held> {
        loop {
            let from_small = self.main.is_empty() || self.small.len() > (self.slots / 10).max(1);
            let queue = if from_small { &mut self.small } else { &mut self.main };
            if queue.is_empty() {
                return None;
            }
            let (held, uses) = queue.remove(0);
            if in_use(held.slot) {
                continue;
            }
            if from_small && uses > 0 {
                self.was_main.insert(held, true);
                self.main.push((held, 0));
            } else if !from_small && uses > 0 {
                self.main.push((held, uses - 1));
            } else {
                if from_small {
                    let (number, name) = self.known_as(held.data);
                    let left = self.left.entry(number).or_default();
                    left.insert(0, name);
                    left.truncate((self.slots - 2 * number as usize).min(2));
                }
                self.was_main.remove(&held);
                return Some(held);
            }
        }
    }
}

/// Unknown next uses first, the oldest of them; then those whose point has passed; then the farthest.
#[derive(Default)]
pub(crate) struct NextUse {
    unknown: Lru,
    known: Vec<(Held, u64)>,
    now: u64,
}
impl Order for NextUse {
    fn idle(&mut self, held: Held, next: Option<u64>) {
        if next.is_some_and(|point| self.known.contains(&(held, point))) {
            return;
        }
        self.leave(held);
        match next.filter(|&point| point >= self.now) {
            Some(point) => self.known.push((held, point)),
            None => self.unknown.idle(held, None),
        }
    }
    fn leave(&mut self, held: Held) {
        self.known.retain(|&(other, _)| other != held);
        self.unknown.leave(held);
    }
    fn victim(&mut self, in_use: &dyn Fn(u32) -> bool) -> Option<Held> {
        if let Some(held) = self.unknown.victim(in_use) {
            return Some(held);
        }
        while !self.known.is_empty() {
            let key = |at: usize| (self.known[at].1 < self.now, self.known[at].1, at);
            let at = (0..self.known.len()).max_by_key(|&at| key(at)).unwrap();
            let (held, _) = self.known.remove(at);
            if !in_use(held.slot) {
                return Some(held);
            }
        }
        None
    }
    fn now(&mut self, point: u64) {
        self.now = point;
    }
}
