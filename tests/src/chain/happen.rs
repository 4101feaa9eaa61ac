//! What happens in a world: messages arrive, user code returns, members die.

use umbra_core::chain::{Action, Code, Handle, Mode, Node, Outcome, Phase, Stage, Verdict};
use umbra_core::time::Lapse;

use super::inner::{INNER_FAILED, Maker};
use super::replies::Whose;
use super::told::Told;
use super::{Act, End, Happens, World};

impl World {
    pub(super) fn happen(&mut self, what: Happens) {
        let now = self.now;
        match what {
            Happens::Arrive { from, to, lives, bytes } => {
                if self.spy {
                    self.heard.push((to, bytes.clone()));
                }
                let home = self.home(to);
                let is_wanted = self.is_for_now(from, to, lives);
                let seat = &mut self.seats[home.index()];
                let runs = is_wanted && !seat.frozen;
                if let Some(machine) = seat.machine.as_mut().filter(|_| runs) {
                    if machine.on_message(from, to, &bytes, now).is_err() {
                        self.drain(home);
                        let again = self.at(to).on_message(from, to, &bytes, now);
                        assert!(again.is_ok(), "a machine that was polled takes a message");
                    }
                    self.replies.note(home, (from, to), &bytes);
                    let is_request = umbra_core::chain::peek_request(&bytes).is_some();
                    self.inside += u64::from(is_request && self.out.iter().any(|&(at, ..)| at == home));
                    self.drain(home);
                }
            }
            Happens::Return { node, life, handle } => {
                self.out.remove(&(node, life, handle));
                if self.seats[node.index()].machine.is_some() && self.seats[node.index()].life == life {
                    self.run_user(node, handle);
                    self.drain(node);
                }
            }
            Happens::Wake { node, life, handle } => {
                let seat = &mut self.seats[node.index()];
                if let Some(machine) = seat.machine.as_mut().filter(|_| seat.life == life) {
                    let _ = machine.wake(handle);
                    self.drain(node);
                }
            }
            Happens::Gone { at, who, life } => self.hear_gone(at, who, life),
            Happens::Kill(node) => self.kill(node),
            Happens::Restart(node) => self.restart(node),
            Happens::Cancel { node, handle } => {
                if let Some(machine) = self.seats[node.index()].machine.as_mut() {
                    let call = machine.call_id(handle);
                    if let (Ok(()), Ok(call)) = (machine.cancel(handle), call) {
                        self.done.given_up.insert(call);
                    }
                    self.drain(node);
                }
            }
            Happens::Begin(maker) => self.begin_inner(maker),
            Happens::Look(home) => self.look(home),
            Happens::Start(at) => {
                let planned = self.planned[at].clone();
                if self.seats[planned.root.index()].machine.is_some()
                    && let Err(error) = self.start(&planned)
                {
                    self.refused.push((planned, error));
                }
            }
        }
    }

    /// A turn of a machine.
    pub(super) fn drain(&mut self, node: Node) {
        self.tend_replies(node);
        self.act(node);
        self.settle_replies(node);
    }

    fn act(&mut self, node: Node) {
        loop {
            let (now, seat) = (self.now, &mut self.seats[node.index()]);
            let (life, Some(machine)) = (seat.life, seat.machine.as_mut()) else { return };
            let most = self.most.entry(node).or_default();
            *most = machine.len().max(*most);
            let Some(action) = machine.poll(now, &mut self.buffer) else { return };
            match action {
                Action::Send { from, to, len_bytes } => self.send(from, to, len_bytes),
                Action::Run { .. } if self.stuck == Some(node) => {
                    seat.frozen = true;
                    return;
                }
                Action::Run { handle, .. } => {
                    if self.network.work == Lapse(0) {
                        self.run_user(node, handle);
                    } else {
                        self.will_read(node, handle);
                        assert!(self.out.insert((node, life, handle)), "user code of one call is nested at {node}");
                        let at = now + Lapse(self.random.below(self.network.work.0 + 1));
                        self.plan_at(at, Happens::Return { node, life, handle });
                    }
                }
                Action::Ended { handle } => self.end(node, handle),
            }
        }
    }

    pub(super) fn post(&mut self, from: Node, to: Node, mut bytes: Vec<u8>) {
        if self.refuses == Some((from, to)) {
            match umbra_core::chain::peek_request(&bytes) {
                Some(call) => self.done.blame(call, (to, Stage::Forward, Code::Transport, 0)),
                None => self.done.swallowed = true,
            }
            return self.at(from).on_refused(from, to, &bytes);
        }
        let now = self.now;
        if self.full == Some((from, to)) && self.at(from).on_full(from, to, &bytes, now) {
            return;
        }
        self.messages += 1;
        assert_ne!(self.home(from), self.home(to), "nobody sends to itself");
        if let Some(call) = umbra_core::chain::peek_request(&bytes)
            && !self.edges.contains(&(call, from, to))
        {
            self.edges.push((call, from, to));
        }
        if let Some((victim, bit)) = self.flip
            && (victim, umbra_core::chain::peek_request(&bytes).is_some()) == (to, true)
            && let Some(byte) = bytes.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        let lives = (self.seats[self.home(from).index()].life, self.known_life(self.home(from), to));
        let copies = if self.random.happens(self.network.loss) {
            0
        } else {
            1 + u32::from(self.random.happens(self.network.duplication))
        };
        for _ in 0..copies {
            let mut at = self.now + self.network.delay + Lapse(self.random.below(self.network.jitter.0 + 1));
            let last = self.last.entry((from, to)).or_default();
            if !self.network.reorder {
                at = at.max(*last);
            }
            *last = at.max(*last);
            let arrives = Happens::Arrive { from, to, lives, bytes: bytes.clone() };
            if self.spy {
                self.went.push(arrives.clone());
            }
            self.plan_at(at, arrives);
        }
    }

    /// The link between two members is reset: what is on the way is lost, and everything that went over it so far goes
    /// over it again. [`spy`](Self::spy) has to be on.
    pub fn reset_link(&mut self, one: Node, other: Node) {
        let ends = |from, to| (from, to) == (one, other) || (from, to) == (other, one);
        let went = std::mem::take(&mut self.went);
        self.agenda.retain(|_, what| !matches!(what, Happens::Arrive { from, to, .. } if ends(*from, *to)));
        for (at, what) in (1..).zip(&went) {
            if let Happens::Arrive { from, to, .. } = what
                && ends(*from, *to)
            {
                self.plan_at(self.now + Lapse::from_micros(at), what.clone());
            }
        }
        self.went = went;
    }

    fn run_user(&mut self, node: Node, handle: Handle) {
        let (now, life) = (self.now, self.seats[node.index()].life);
        let (home, Some(machine)) = (node, self.seats[node.index()].machine.as_mut()) else { return };
        let Ok(mut work) = machine.work(handle) else { panic!("user code of a call that is gone at {node}") };
        let (call, node, told) = (work.call, work.node, Told::of(&mut work));
        let act = match (self.script.act(&work), self.answered.get(&(call, node))) {
            (Act::Within, Some(true)) => Act::Work,
            (Act::Within, Some(false)) => Act::Fault(INNER_FAILED),
            (act, _) => act,
        };
        let verdict = self.replies.run(home, &mut work, |work| self.script.run(work, act));
        let child = if let Phase::Wait(answer) = work.phase { Some(answer.from) } else { None };
        if let Some((stage, code, aux)) = blame(child, act, verdict) {
            self.done.blame(call, (node, stage, code, aux));
        }
        if child.is_none() && verdict == Verdict::Pending && !matches!(act, Act::Slow(_)) {
            self.done.pending.insert((call, node));
        }
        match work.phase {
            Phase::Init => *self.began.entry((call, node)).or_default() += 1,
            Phase::Probe => {}
            Phase::Wait(_) if verdict == Verdict::ReplyGone => {}
            Phase::Wait(answer) => *self.combined.entry((call, node, answer.from)).or_default() += 1,
        }
        if !matches!(work.phase, Phase::Wait(_)) && verdict == Verdict::Done {
            *self.ended.entry((call, node)).or_default() += 1;
        }
        self.note_told(call, node, &told);
        let known = self.at(home).finish(handle, verdict).expect("user code that was to be run");
        if verdict == Verdict::Pending
            && let Act::Slow(after) = act
        {
            self.plan_at(now + after, Happens::Wake { node: home, life, handle: known });
        }
        if verdict == Verdict::Pending && act == Act::Within {
            self.plan_at(now, Happens::Begin(Maker { home, life, handle: known, call, node }));
        }
    }

    fn end(&mut self, node: Node, handle: Handle) {
        let now = self.now;
        let machine = self.at(node);
        let id = machine.call_id(handle).expect("a call of ours");
        let mut end = match machine.outcome(handle).expect("a call of ours").expect("a call that has ended") {
            Outcome::Done { members, skipped, header, data } => {
                End::Done { members, skipped: skipped.collect(), header: header.to_vec(), data: data.to_vec() }
            }
            Outcome::Failed(report) => End::Failed {
                tallies: report.tallies,
                records: report.records().collect(),
                unreached: report.unreached().collect(),
                skipped: report.skipped().collect(),
            },
        };
        machine.release(handle).expect("a call that has ended");
        let at = self.made.iter().rposition(|made| made.id == id).expect("a call that was made");
        if let End::Done { data, .. } = &mut end
            && self.made[at].plan.call.mode.contains(Mode::RENDEZVOUS)
        {
            let own = Whose { home: node, call: id, node };
            *data = self.replies.take(own).unwrap_or_default();
        }
        let well = matches!(end, End::Done { .. });
        assert!(self.made[at].end.replace((end, now)).is_none(), "a call ends once");
        self.inner_ended(id, well);
    }
}

/// What fails by what user code did: the function, or the callback for a child.
fn blame(child: Option<Node>, act: Act, verdict: Verdict) -> Option<(Stage, Code, u32)> {
    let stage = if child.is_some() { Stage::Callback } else { Stage::Func };
    let reply = if child.is_some() { Stage::Callback } else { Stage::Reply };
    let number = |own: u32| child.map_or(own, |child| child.0);
    match (act, verdict) {
        // It was not run.
        (_, Verdict::ReplyGone) => Some((stage, Code::ReplyGone, number(0))),
        (Act::Excess, _) => Some((reply, Code::ReplyTooLarge, 9000)),
        (Act::Panic, _) => Some((stage, Code::Panic, number(0))),
        (Act::Fault(own), _) => Some((stage, Code::Fault, number(own))),
        (_, Verdict::Pending) => child.map(|child| (stage, Code::Fault, child.0)),
        _ => None,
    }
}
