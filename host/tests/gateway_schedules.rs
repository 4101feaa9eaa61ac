//! Random schedules of clients and a gateway.
//!
//! Lines part so that each side hears of it late, a gateway is silent, or dies and is replaced, and clients die.
//!
//! The client is the machine that lines use (`umbra_core::gateway::client`), and requests travel as their bytes. The
//! gateway is modelled by its rules: a line is served one request after the other, a request ends when its line is seen
//! to be gone, and that a line is cut is answered when it is over. Time and network are simulated, so a seed repeats a
//! run: `UMBRA_SEED` runs one alone, `UMBRA_SCHEDULES` says how many there are.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use umbra::sim::Random;
use umbra_core::gateway::client::{self, Client, Do, Failure, GRACE, Say};
use umbra_core::gateway::{Answer, Patience, PoolRequest, Request, Take};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Token;

/// Messages that there is room for.
const CAPACITY: usize = 2;
/// How often a gateway looks whether a client is still there.
const SLICE: Lapse = Lapse::from_millis(50);
/// How long what is said is under way.
const WAY: Lapse = Lapse::from_micros(200);
/// When the channel is destroyed.
const END: Time = Time(Lapse::from_secs(40).0);
/// Who sends at hand.
const HERE: usize = usize::MAX;

#[derive(Clone, Default)]
struct Doubts(Rc<RefCell<Vec<u64>>>);

impl client::Doubts for Doubts {
    fn first(&self) -> Option<u64> {
        self.0.borrow().first().copied()
    }
    fn add(&mut self, life: u64) {
        self.0.borrow_mut().push(life);
    }
    fn settled(&mut self, life: u64) {
        self.0.borrow_mut().retain(|&doubt| doubt != life);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Send,
    Receive,
    Alloc,
}

/// A call of a handle.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    act: Act,
    line: usize,
    began: Time,
    deadline: Time,
}

/// A handle: it calls one after the other, each over one of its lines.
struct Handle {
    /// With the life of the end that each has now.
    lines: Vec<(Client<Doubts>, Option<u64>)>,
    call: Option<Call>,
    begun: u64,
    /// The last call of which something happened at the gateway.
    effect: u64,
    /// Whether the last answer was that it is done.
    is_done: bool,
    is_dead: bool,
}

/// What a gateway has not answered.
#[derive(Clone, Copy, Debug)]
enum Served {
    Call { act: Act, number: u64, deadline: Time },
    Cut(u64),
}

/// A line, as the gateway has it.
struct Wire {
    handle: usize,
    serving: Option<(Token, Served)>,
    /// The next look ends it.
    is_gone: bool,
    /// Nothing passes any more.
    is_parted: bool,
    blocks: usize,
}

enum Event {
    Begin(usize),
    /// The client may have waited long enough.
    Wake(usize),
    /// What was sent arrives, over the line of this life.
    Dialed(u64),
    Request(u64, Token, Vec<u8>),
    Answer(u64, Token, Vec<u8>),
    /// The client, or the gateway, hears that the line is no more.
    ClientHears(u64),
    GatewayHears(u64),
    /// The gateway looks after a line.
    Look(u64),
    Part(u64),
    Silence,
    Replace,
    Die(usize),
    /// Somebody sends or receives at hand.
    Here,
    Destroy,
}

/// What schedules have met.
#[derive(Default, Debug)]
struct Tally {
    done: u64,
    refused: u64,
    lost: u64,
    silent: u64,
    cut: u64,
}

struct World {
    random: Random,
    now: Time,
    turn: u64,
    events: BTreeMap<(Time, u64), Event>,
    handles: Vec<Handle>,
    wires: BTreeMap<u64, Wire>,
    lives: u64,
    silent_until: Time,
    channel: VecDeque<(usize, u64)>,
    is_destroyed: bool,
    sent: Vec<(usize, u64)>,
    received: Vec<(usize, u64)>,
    tally: Tally,
    /// Lines that part, in a million.
    parts: u32,
    calls: u64,
}

impl World {
    fn after(&mut self, lapse: Lapse, event: Event) {
        self.turn += 1;
        self.events.insert((self.now + lapse, self.turn), event);
    }

    fn within(&mut self, lapse: Lapse, event: Event) {
        let some = Lapse(self.random.below(lapse.0));
        self.after(some, event);
    }

    // The clients.

    fn begin(&mut self, at: usize) {
        let handle = &mut self.handles[at];
        if handle.is_dead || handle.begun == self.calls {
            return;
        }
        handle.begun += 1;
        let line = self.random.below(handle.lines.len() as u64) as usize;
        let (now, millis) = (self.now, [0, 1, 300, 4000, u64::MAX][self.random.below(5) as usize]);
        let deadline = match millis {
            0 => Time::ZERO,
            u64::MAX => Time::NEVER,
            millis => now + Lapse::from_millis(millis),
        };
        let act = [Act::Send, Act::Send, Act::Receive, Act::Alloc][self.random.below(4) as usize];
        handle.call = Some(Call { number: handle.begun, act, line, began: now, deadline });
        handle.lines[line].0.ask(deadline, now);
        self.drive(at);
    }

    /// Does what the machine of a handle's call says.
    fn drive(&mut self, at: usize) {
        while let Some(call) = self.handles[at].call.filter(|_| !self.handles[at].is_dead) {
            let (client, life) = &mut self.handles[at].lines[call.line];
            match client.next(self.now) {
                Do::Dial(_) => {
                    self.lives += 1;
                    *life = Some(self.lives);
                    self.dial(at, self.lives);
                }
                Do::Say(token, what) => {
                    let (life, mut bytes) = (life.unwrap(), vec![0; 128]);
                    let len = request(call, what, self.now).write(&mut bytes).unwrap();
                    bytes.truncate(len);
                    self.tally.cut += u64::from(matches!(what, Say::Cut(_)));
                    self.after(WAY, Event::Request(life, token, bytes));
                }
                Do::Wait(until) => {
                    if until < Time::NEVER {
                        self.after(until.since(self.now), Event::Wake(at));
                    }
                    return;
                }
                Do::End(result) => self.ended(at, call, result),
            }
        }
    }

    fn ended(&mut self, at: usize, call: Call, result: Result<(), Failure>) {
        let limit = call.deadline.max(call.began) + GRACE;
        assert!(self.now <= limit, "{call:?} is over only at {:?}", self.now);
        let handle = &mut self.handles[at];
        handle.call = None;
        match result {
            Ok(()) if handle.is_done => {
                self.tally.done += 1;
                let is_there = self.sent.contains(&(at, call.number));
                assert!(call.act != Act::Send || is_there, "{call:?} was not carried out");
            }
            Ok(()) => {
                self.tally.refused += 1;
                assert!(handle.effect < call.number, "{call:?} was refused, and carried out");
                // Nor may it be later.
                handle.effect = call.number;
            }
            Err(failure) => {
                self.tally.lost += u64::from(failure == Failure::Lost);
                self.tally.silent += u64::from(failure == Failure::Silent);
                assert!(matches!(failure, Failure::Lost | Failure::Silent), "{failure:?}");
                if let Some(life) = handle.lines[call.line].1.take() {
                    self.hang_up(life);
                }
            }
        }
        self.within(Lapse::from_millis(100), Event::Begin(at));
    }

    /// The client's end of a line is closed.
    fn hang_up(&mut self, life: u64) {
        if self.wires.get(&life).is_some_and(|wire| !wire.is_parted) {
            self.after(WAY, Event::GatewayHears(life));
        }
    }

    fn dial(&mut self, at: usize, life: u64) {
        let wire = Wire { handle: at, serving: None, is_gone: false, is_parted: false, blocks: 0 };
        self.wires.insert(life, wire);
        self.within(Lapse::from_millis(2), Event::Dialed(life));
        if self.random.happens(self.parts) {
            self.within(Lapse::from_millis(800), Event::Part(life));
        }
    }

    /// Tells the client of this life something, if it still has the line.
    fn tell(&mut self, life: u64, say: impl FnOnce(&mut Client<Doubts>, &mut bool)) {
        let found = self.handles.iter_mut().enumerate().find_map(|(at, handle)| {
            let Handle { lines, is_done, .. } = handle;
            lines.iter_mut().find(|line| line.1 == Some(life)).map(|line| (at, line, is_done))
        });
        if let Some((at, (client, _), is_done)) = found {
            say(client, is_done);
            self.drive(at);
        }
    }

    // The gateway.

    fn is_passing(&self, life: u64) -> bool {
        self.wires.get(&life).is_some_and(|wire| !wire.is_parted)
    }

    fn answer(&mut self, life: u64, token: Token, is_done: bool) {
        let answer = if is_done { Answer::Done(0) } else { Answer::Refused { why: 2, numbers: [0; 2] } };
        let mut bytes = vec![0; 64];
        let len = answer.write(&mut bytes).unwrap();
        bytes.truncate(len);
        self.after(WAY, Event::Answer(life, token, bytes));
    }

    fn on_request(&mut self, life: u64, token: Token, bytes: &[u8]) {
        let wire = self.wires.get_mut(&life).unwrap();
        if wire.is_gone {
            return;
        }
        assert!(wire.serving.is_none(), "a client asks on before it was answered");
        let deadline = |patience: Patience| match patience {
            Patience::Now => Time::ZERO,
            Patience::After(lapse) => self.now + lapse,
            Patience::Never => Time::NEVER,
        };
        let (act, number, patience) = match Request::parse(bytes).unwrap() {
            Request::Open { .. } => return self.answer(life, token, true),
            Request::Cut { life: other } => {
                assert_ne!(other, life, "a line cuts itself");
                wire.serving = Some((token, Served::Cut(other)));
                if let Some(other_wire) = self.wires.get_mut(&other) {
                    other_wire.is_gone = true;
                }
                self.within(SLICE, Event::Look(other));
                return self.within(SLICE, Event::Look(life));
            }
            Request::Send { patience, hints, .. } => (Act::Send, hints, patience),
            Request::Receive { patience, room, .. } => (Act::Receive, room.into(), patience),
            Request::Pool(PoolRequest::Alloc { patience, len, .. }) => (Act::Alloc, len, patience),
            other => panic!("{other:?}"),
        };
        let deadline = deadline(patience);
        wire.serving = Some((token, Served::Call { act, number, deadline }));
        self.look(life);
    }

    /// What the thread of a line does when it looks.
    fn look(&mut self, life: u64) {
        let Some(wire) = self.wires.get(&life) else { return };
        if wire.is_gone {
            let blocks = self.wires.remove(&life).map(|wire| wire.blocks);
            assert!(blocks.is_some());
            return self.after(WAY, Event::ClientHears(life));
        }
        let handle = wire.handle;
        let Some((token, served)) = wire.serving else { return };
        let done = match served {
            Served::Cut(other) => (!self.wires.contains_key(&other)).then_some(true),
            Served::Call { act, number, .. } if self.carry_out(life, handle, act, number) => Some(true),
            Served::Call { deadline, .. } => (deadline <= self.now || self.is_destroyed).then_some(false),
        };
        match done {
            None => self.within(SLICE, Event::Look(life)),
            Some(is_done) => {
                self.wires.get_mut(&life).unwrap().serving = None;
                self.answer(life, token, is_done);
            }
        }
    }

    /// Tries; whether it is done.
    fn carry_out(&mut self, life: u64, handle: usize, act: Act, number: u64) -> bool {
        match act {
            _ if self.is_destroyed => return false,
            Act::Send if self.channel.len() == CAPACITY => return false,
            Act::Send => {
                self.channel.push_back((handle, number));
                self.sent.push((handle, number));
            }
            Act::Receive => match self.channel.pop_front() {
                None => return false,
                Some(message) => self.received.push(message),
            },
            Act::Alloc => self.wires.get_mut(&life).unwrap().blocks += 1,
        }
        let last = std::mem::replace(&mut self.handles[handle].effect, number);
        assert!(last < number, "call {number} of handle {handle} was carried out after call {last}");
        true
    }

    // Both, and the network.

    fn happen(&mut self, event: Event) {
        let is_of_gateway =
            matches!(event, Event::Dialed(_) | Event::Request(..) | Event::GatewayHears(_) | Event::Look(_));
        if is_of_gateway && self.silent_until > self.now {
            return self.after(self.silent_until.since(self.now), event);
        }
        match event {
            Event::Begin(at) => self.begin(at),
            Event::Wake(at) => self.drive(at),
            Event::Dialed(life) if self.is_passing(life) => self.tell(life, |client, _| client.on_up(life)),
            Event::Request(life, token, bytes) if self.is_passing(life) => self.on_request(life, token, &bytes),
            Event::Answer(life, token, bytes) if self.is_passing(life) => self.tell(life, |client, is_done| {
                *is_done = !matches!(Answer::parse(&bytes).unwrap(), Answer::Refused { .. });
                client.on_answer(token, *is_done);
            }),
            Event::Dialed(_) | Event::Request(..) | Event::Answer(..) => {}
            Event::ClientHears(life) => self.lose(life),
            Event::GatewayHears(life) => {
                if let Some(wire) = self.wires.get_mut(&life) {
                    wire.is_gone = true;
                    self.within(SLICE, Event::Look(life));
                }
            }
            Event::Look(life) => self.look(life),
            Event::Part(life) => {
                if let Some(wire) = self.wires.get_mut(&life) {
                    wire.is_parted = true;
                    self.within(Lapse::from_secs(6), Event::ClientHears(life));
                    self.within(Lapse::from_secs(6), Event::GatewayHears(life));
                }
            }
            Event::Silence => {
                let lapse = Lapse(self.random.below(Lapse::from_secs(4).0));
                self.silent_until = self.now + lapse;
            }
            Event::Replace => {
                (self.silent_until, self.wires) = (self.now, BTreeMap::new());
                for life in 1..=self.lives {
                    self.within(Lapse::from_millis(10), Event::ClientHears(life));
                }
            }
            Event::Die(at) => {
                self.handles[at].is_dead = true;
                let lives: Vec<u64> = self.handles[at].lines.iter_mut().filter_map(|line| line.1.take()).collect();
                lives.into_iter().for_each(|life| self.hang_up(life));
            }
            Event::Here if self.random.below(2) == 0 && self.channel.len() < CAPACITY => {
                self.channel.push_back((HERE, 0))
            }
            Event::Here => self.received.extend(self.channel.pop_front()),
            Event::Destroy => self.is_destroyed = true,
        }
    }

    fn lose(&mut self, life: u64) {
        let mut lost = false;
        self.tell(life, |client, _| {
            client.on_gone();
            lost = true;
        });
        if lost {
            // What the driver had of it is dropped.
            for line in self.handles.iter_mut().flat_map(|handle| &mut handle.lines).filter(|line| line.1 == Some(life))
            {
                line.1 = None;
            }
            self.hang_up(life);
        }
    }

    fn run(&mut self) {
        while let Some(((now, _), event)) = self.events.pop_first() {
            self.now = now;
            self.happen(event);
        }
    }
}

fn request(call: Call, what: Say, now: Time) -> Request<'static> {
    let patience = match call.deadline {
        Time::NEVER => Patience::Never,
        deadline if deadline <= now => Patience::Now,
        deadline => Patience::After(deadline.since(now)),
    };
    match (what, call.act) {
        (Say::Cut(life), _) => Request::Cut { life },
        (Say::Open, _) => Request::Open { on_receipt: false, client: 0, handle: [0; 2], reference: &[] },
        (Say::Asked, Act::Send) => Request::Send { patience, hints: call.number, bytes: &[] },
        (Say::Asked, Act::Receive) => Request::Receive { patience, take: Take::Receive, room: call.number as u32 },
        (Say::Asked, Act::Alloc) => Request::Pool(PoolRequest::Alloc { patience, len: call.number, kind: 0 }),
    }
}

/// Runs one schedule.
fn run(seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let count = 1 + random.below(4) as usize;
    let handle = |random: &mut Random| {
        let doubts = Doubts::default();
        let lines = 0..=random.below(3);
        Handle {
            lines: lines.map(|_| (Client::new(doubts.clone(), false), None)).collect(),
            call: None,
            begun: 0,
            effect: 0,
            is_done: false,
            is_dead: false,
        }
    };
    let handles = (0..count).map(|_| handle(&mut random)).collect();
    let mut world = World {
        now: Time::ZERO,
        turn: 0,
        events: BTreeMap::new(),
        handles,
        wires: BTreeMap::new(),
        lives: 0,
        silent_until: Time::ZERO,
        channel: VecDeque::new(),
        is_destroyed: false,
        sent: Vec::new(),
        received: Vec::new(),
        tally: Tally::default(),
        parts: [0, 200_000, 700_000][random.below(3) as usize],
        calls: 1 + random.below(20),
        random,
    };
    let lapse = Lapse(END.0);
    (0..count).for_each(|at| world.within(Lapse::from_millis(10), Event::Begin(at)));
    (0..world.random.below(3)).for_each(|_| world.within(lapse, Event::Silence));
    (0..world.random.below(3)).for_each(|_| world.within(lapse, Event::Replace));
    (0..400).for_each(|_| world.within(lapse, Event::Here));
    if world.random.below(2) == 0 {
        let at = world.random.below(count as u64) as usize;
        world.within(lapse, Event::Die(at));
    }
    world.after(lapse, Event::Destroy);
    world.run();
    for (at, handle) in world.handles.iter().enumerate() {
        assert!(
            handle.is_dead || handle.call.is_none() && handle.begun == world.calls,
            "handle {at} hangs: {:?}",
            handle.call
        );
    }
    // Whoever is left goes.
    (0..count).for_each(|at| world.happen(Event::Die(at)));
    world.run();
    assert!(world.wires.is_empty(), "the gateway keeps lines: {:?}", world.wires.keys());
    let mut messages: Vec<_> = world.received.iter().filter(|message| message.0 != HERE).collect();
    let all = messages.len();
    messages.sort_unstable();
    messages.dedup();
    assert_eq!(messages.len(), all, "a message was received twice");
    assert!(messages.iter().all(|message| world.sent.contains(message)), "a message was received that nobody sent");
    world.tally
}

#[test]
fn whatever_happens_to_lines_calls_are_carried_out_once_in_order_and_end_in_time() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = number("UMBRA_SEED").map_or(0..number("UMBRA_SCHEDULES").unwrap_or(2000), |seed| seed..seed + 1);
    let (mut all, count) = (Tally::default(), seeds.end - seeds.start);
    for seed in seeds {
        let tally =
            std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("repeat it with UMBRA_SEED={seed}"));
        all.done += tally.done;
        all.refused += tally.refused;
        all.lost += tally.lost;
        all.silent += tally.silent;
        all.cut += tally.cut;
    }
    let Tally { done, refused, lost, silent, cut } = all;
    println!(
        "Gateway: {count} schedules: {done} calls were carried out, {refused} refused, {lost} lost with their lines, {silent} not \
         answered; {cut} broken lines were cut"
    );
    let kinds = [done, refused, lost, silent, cut];
    assert!(count < 1000 || kinds.iter().all(|&kind| kind > 0), "{all:?}");
}
