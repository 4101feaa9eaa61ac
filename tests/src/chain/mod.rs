//! Chained calls between real machines in a simulated world.
//!
//! The network misbehaves as told, and user code follows a script. Everything that can happen next lies in one agenda.
//! [`World::run`] takes the earliest, [`explore`] takes every one in turn. All randomness comes from the seed.
//! Meanwhile the world counts what user code runs where, and [`World::check`] compares that with what was reported.

mod agenda;
pub mod check;
mod end;
pub mod explore;
mod figures;
mod happen;
mod homes;
mod inner;
mod judge;
mod lives;
mod rendezvous;
mod replies;
mod rules;
pub mod schedule;
mod script;
pub mod single;
mod skipped;
mod tally;
mod told;

use std::collections::{BTreeMap, HashMap, HashSet};

use umbra::call::{Capacities, Heap};
use umbra::sim::Random;
use umbra_core::chain::{Call, CallId, Config, Figures, Handle, Life, Machine, Node, StartError, Tag};
use umbra_core::time::{Lapse, Time};

pub use end::End;
pub use replies::Fates;
pub use script::{Act, Script};
pub use told::PREFIX;

/// The function and the callback that every member of every world has.
pub const SUM: Tag = Tag::of("sum");
/// Another pair, for unknown functions: some members lack it.
pub const RARE: Tag = Tag::of("rare");

/// How the network behaves; chances in parts of a million.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Every message takes so long at least.
    pub delay: Lapse,
    /// And up to so much longer.
    pub jitter: Lapse,
    /// Messages that never arrive.
    pub loss: u32,
    /// Messages that arrive twice.
    pub duplication: u32,
    /// Whether messages of one pair may overtake each other.
    pub reorder: bool,
    /// How long user code runs, at most.
    pub work: Lapse,
}

impl Network {
    /// Keeps order, loses nothing, takes a microsecond.
    pub const GOOD: Network = Network {
        delay: Lapse::from_micros(1),
        jitter: Lapse(0),
        loss: 0,
        duplication: 0,
        reorder: false,
        work: Lapse(0),
    };
}

/// What happens next.
#[derive(Clone, Debug)]
enum Happens {
    /// The lives are the sender's, and the one of the receiver that the sender knew of.
    Arrive {
        from: Node,
        to: Node,
        lives: (u32, u32),
        bytes: Vec<u8>,
    },
    Return {
        node: Node,
        life: u32,
        handle: Handle,
    },
    Wake {
        node: Node,
        life: u32,
        handle: Handle,
    },
    Gone {
        at: Node,
        who: Node,
        life: u32,
    },
    Kill(Node),
    Restart(Node),
    Cancel {
        node: Node,
        handle: Handle,
    },
    Start(usize),
    /// A function makes a call.
    Begin(inner::Maker),
    /// A machine looks what became of long replies.
    Look(Node),
}

/// A call that a world makes, with everything owned.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Who makes it.
    pub root: Node,
    /// The members.
    pub members: Vec<Node>,
    /// Everything else; its members and plan are replaced.
    pub call: Call<'static>,
    /// Parents that state the tree, if any.
    pub parents: Option<Vec<u32>>,
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// What was planned, over those who were not left out.
    pub plan: Planned,
    /// Who is to be left out.
    pub skipped: Vec<Node>,
    /// Which call it was.
    pub id: CallId,
    /// Its handle at its maker.
    pub handle: Handle,
    /// When it was made.
    pub at: Time,
    /// How it ended, and when.
    pub end: Option<(End, Time)>,
}

/// A member.
struct Seat {
    machine: Option<Machine<Heap>>,
    life: u32,
    /// Its user code does not return, and nothing else of it runs.
    frozen: bool,
}

/// A simulated world.
pub struct World {
    seats: Vec<Seat>,
    /// At whose machine each member lives; most have their own.
    homes: Vec<Node>,
    /// The life of each member that each machine knows of, if it is not the first.
    known: HashMap<(Node, Node), u32>,
    /// Who is dead as far as each machine knows.
    gone: HashSet<(Node, Node)>,
    capacities: Capacities,
    config: Config,
    /// How the network behaves from now on.
    pub network: Network,
    /// What user code does.
    pub script: Script,
    agenda: BTreeMap<(Time, u64), Happens>,
    order: u64,
    now: Time,
    random: Random,
    last: HashMap<(Node, Node), Time>,
    planned: Vec<Planned>,
    /// Calls made, in order.
    pub made: Vec<Made>,
    /// Calls that were refused before anything was sent.
    pub refused: Vec<(Planned, StartError)>,
    /// How often each function began.
    pub began: HashMap<(CallId, Node), u32>,
    /// How often each function ended well.
    pub ended: HashMap<(CallId, Node), u32>,
    /// How often each callback ran, by child.
    pub combined: HashMap<(CallId, Node, Node), u32>,
    /// Runs of user code that were told something else than they should be.
    untold: Vec<(CallId, Node)>,
    /// Pairs of parent and child along which requests went.
    pub edges: Vec<(CallId, Node, Node)>,
    /// Messages handed to the network.
    pub messages: u64,
    /// Requests that were taken while user code ran at the same machine.
    pub inside: u64,
    /// The most calls that a machine had at once.
    pub most: HashMap<Node, usize>,
    /// User code that runs: whose machine, in which life, of which call.
    out: HashSet<(Node, u32, Handle)>,
    /// Whether calls are given up at random moments.
    pub cancels: bool,
    /// A member whose user code never returns.
    pub stuck: Option<Node>,
    /// Whether what arrives is kept in `heard`.
    pub spy: bool,
    /// What arrived, and where.
    pub heard: Vec<(Node, Vec<u8>)>,
    /// The header that each run of user code was told, while what arrives is kept.
    pub told: Vec<(CallId, Node, Vec<u8>)>,
    /// Everything that was sent, while what arrives is kept.
    went: Vec<Happens>,
    /// The bit that is turned over in every request to this member.
    pub flip: Option<(Node, usize)>,
    /// An edge along which the network takes nothing.
    pub refuses: Option<(Node, Node)>,
    /// An edge along which no request finds room.
    pub full: Option<(Node, Node)>,
    /// Members that lack [`RARE`], and so does everybody who lives with them.
    lacking: Vec<Node>,
    /// Calls that functions make, while they go on.
    inner: HashMap<CallId, inner::Maker>,
    /// Whether the call ended well that a function made.
    answered: HashMap<(CallId, Node), bool>,
    /// Long replies.
    replies: replies::Replies,
    /// What was done to calls on purpose.
    done: judge::Done,
    /// What was counted by machines that are dead.
    dead: Figures,
    buffer: Vec<u8>,
}

impl World {
    /// A world of so many members.
    pub fn new(members: u32, seed: u64) -> World {
        World::with(seed, Capacities { call_bytes: 4096, ..Capacities::new(members) }, Config::new(Node(0), Life(1)))
    }

    /// A world of members with these settings; their names and lives are filled in.
    pub fn with(seed: u64, capacities: Capacities, config: Config) -> World {
        let buffer = vec![0; config.message_max as usize];
        let mut world = World {
            seats: Vec::new(),
            homes: (0..capacities.members).map(Node).collect(),
            known: HashMap::new(),
            gone: HashSet::new(),
            capacities,
            config,
            network: Network::GOOD,
            script: Script::default(),
            agenda: BTreeMap::new(),
            order: 0,
            now: Time::ZERO,
            random: Random::new(seed),
            last: HashMap::new(),
            planned: Vec::new(),
            made: Vec::new(),
            refused: Vec::new(),
            began: HashMap::new(),
            ended: HashMap::new(),
            combined: HashMap::new(),
            untold: Vec::new(),
            edges: Vec::new(),
            messages: 0,
            inside: 0,
            most: HashMap::new(),
            out: HashSet::new(),
            cancels: false,
            stuck: None,
            spy: false,
            heard: Vec::new(),
            told: Vec::new(),
            went: Vec::new(),
            flip: None,
            refuses: None,
            full: None,
            lacking: Vec::new(),
            inner: HashMap::new(),
            answered: HashMap::new(),
            replies: replies::Replies::new(),
            done: judge::Done::default(),
            dead: Figures::default(),
            buffer,
        };
        for node in (0..capacities.members).map(Node) {
            let machine = Some(world.machine(node, 1));
            world.seats.push(Seat { machine, life: 1, frozen: false });
        }
        world
    }

    /// Virtual time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// A member's machine.
    ///
    /// # Panics
    /// If the member is dead.
    pub fn at(&mut self, node: Node) -> &mut Machine<Heap> {
        let home = self.home(node);
        self.seats[home.index()].machine.as_mut().expect("a member that lives")
    }

    /// Has a member, and everybody who lives with it, lack [`RARE`].
    pub fn lack(&mut self, node: Node) {
        self.lacking.push(node);
        self.at(node).unregister(RARE);
    }

    /// Whether a member lacks [`RARE`].
    fn lacks(&self, node: Node) -> bool {
        self.lacking.iter().any(|&lacking| self.home(lacking) == self.home(node))
    }

    /// Gives a member other tables; it forgets everything.
    pub fn replace(&mut self, node: Node, capacities: Capacities) {
        let mut machine = capacities.machine(Config { node, life: Life(1), ..self.config }).expect("there is memory");
        for tag in [SUM, RARE] {
            machine.register(tag).expect("one of two functions");
        }
        self.seats[node.index()].machine = Some(machine);
    }

    /// Makes a call now.
    ///
    /// # Errors
    /// As the machine's.
    pub fn start(&mut self, planned: &Planned) -> Result<usize, StartError> {
        let Planned { root, members, call, parents } = planned;
        let now = self.now;
        let plan = parents.as_deref().map_or(call.plan, umbra_core::chain::Plan::Parents);
        let call = Call { members, plan, ..*call };
        let machine = self.at(*root);
        let handle = machine.start(&call, now)?;
        let id = machine.call_id(handle).expect("a call that was just made");
        let (plan, skipped) = self.without_dead(planned);
        self.made.push(Made { plan, skipped, id, handle, at: now, end: None });
        if self.cancels && self.random.below(3) == 0 {
            let after = Lapse::from_micros(self.random.below(1500));
            self.cancel_after(after, *root, handle);
        }
        self.drain(*root);
        Ok(self.made.len() - 1)
    }

    /// Makes a call now and runs until nothing happens any more; how it ended.
    ///
    /// # Panics
    /// If it is refused or does not end, or a rule is broken.
    pub fn call(&mut self, planned: &Planned) -> End {
        let at = self.start(planned).expect("a call that is not refused");
        self.run(Lapse::from_secs(60));
        self.check().unwrap_or_else(|wrong| panic!("{wrong}"));
        self.made[at].end.clone().expect("the call has ended").0
    }
}

/// The same sum, as a reply of so many words that are not in answers.
pub fn long_sum_over(members: impl IntoIterator<Item = u32>, words: u32) -> Planned {
    let mut planned = sum_over(members);
    (planned.call.mode, planned.call.caps.data) = (umbra_core::chain::Mode::RENDEZVOUS, 8 * words);
    planned
}

/// A call of the sum over these members with a second of time, by the first of them.
pub fn sum_over(members: impl IntoIterator<Item = u32>) -> Planned {
    let members: Vec<Node> = members.into_iter().map(Node).collect();
    let caps = umbra_core::chain::Caps { header: 0, data: 8 };
    let call = Call { callback: SUM, caps, ..Call::new(SUM, &[]) };
    Planned { root: members[0], members, call, parents: None }
}
