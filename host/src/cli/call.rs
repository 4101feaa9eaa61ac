//! `umbra call`: runs a function over a job's members, shows the tree as it ran.

mod json;
mod listed;
mod plot;
mod spec;
mod stats;
mod tree;
mod why;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use umbra::admin::{self, Body as _, ops};
use umbra::call::built_in::{self, BROADCAST, COUNT, GATHER, REDUCE};
use umbra::call::probe::{self, Run};
use umbra::call::{Failure as CallFailure, Member, Reply, Station, WaitError, tell};
use umbra::quantity::{Nanos, counted, parse_lapse};
use umbra_core::chain::{Call as Order, Caps, Data, Handle, Mode, Node, Phase, Plan, Tag, Verdict, Work};
use umbra_core::peer::Sp;
use umbra_core::time::{Lapse, Time};

use self::listed::Listed;
use self::spec::{Numbers, Place, Shape};
use super::output::{Output, apart, beside};
use super::reach::Reach;
use super::{Done, Failure, Out, code_of, interrupt, paint, verdict};

/// Run a function over members of chained calls of a running job: one call, a tree of members, one answer.
///
/// An agent on this machine is asked for its meeting place. By default the call goes over the members that live at the agent,
/// as many as it was started with; they have the functions barrier, broadcast, gather, reduce and count, and no rank is woken.
/// `stats` tells the counters of all agents of the job and what they make together, by the first member at each of them.
/// Any other name is that of a function which the members have registered themselves. Times are told by members that let
/// themselves be watched, as those at agents do. The exit code is 0 if the call ended well everywhere.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    /// The function
    function: String,
    #[command(flatten)]
    reach: Reach,
    /// The agent that is asked, by the number of its service process
    #[arg(long, value_name = "N", default_value_t = 0)]
    agent: u32,
    /// The members, such as 0-7,12; if left out, all that live at the agent, and for stats the first one at every agent
    #[arg(long, value_name = "LIST", value_parser = spec::members)]
    members: Option<spec::Members>,
    /// The members that live at all agents of the job, on whichever hosts: at each one leads the others, and the tree is that
    /// of the leaders
    #[arg(long, conflicts_with = "members")]
    everywhere: bool,
    /// The tree: binary, binomial, flat, chain, kary:K, knomial:K, or auto for the one that suits so many members and bytes
    #[arg(long, value_name = "TREE", default_value = "binary")]
    tree: Shape,
    /// Bytes that go to everybody: the value of a broadcast, the data of any other function
    #[arg(long, value_name = "TEXT", default_value = "")]
    data: String,
    /// Bytes of header that a function of another name gets
    #[arg(long, value_name = "TEXT", default_value = "")]
    header: String,
    /// What count adds to every counter
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    add: i64,
    /// What reduce does with the values, such as sum:u64, min:f64 or or:u32
    #[arg(long, value_name = "OP:TYPE", default_value = "sum:u64")]
    with: Numbers,
    /// Bytes that a function of another name may answer, which its callback combines
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4096))]
    reply: u32,
    /// How long the call may take
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_lapse)]
    deadline: Lapse,
    /// Report all failures, not only the first
    #[arg(long)]
    collect: bool,
    /// Leave members out that are dead, and say who they are, instead of calling nobody; those who never came are not dead
    #[arg(long)]
    skip_dead: bool,
    /// Have a member fail on purpose: MEMBER@func, MEMBER@callback or MEMBER@hang
    #[arg(long, value_name = "WHERE")]
    fail: Option<Place>,
    /// Draw what ran when into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra call barrier"                               "was everybody there, and how long did each edge take?";
    "umbra call barrier --everywhere"                  "the same over all hosts, and what crossing between them takes";
    "umbra call count --add 1 --tree binomial"         "add to everybody's counter, tell the sum";
    "umbra call broadcast --data hello --members 0-3"  "set the values of four members";
    "umbra call stats --tree binomial"                 "the counters of every agent, and all together";
    "umbra call gather --plot gather.svg"              "all values, and a drawing of the call";
    "umbra call barrier --fail 5@func --collect"       "what a failure in the middle of the tree looks like";
);

/// The functions of all members that live at agents.
const BUILT_IN: [&str; 5] = [built_in::BARRIER, BROADCAST, GATHER, REDUCE, COUNT];
/// For the calls that look at the one that was asked for.
const PATIENCE: Duration = Duration::from_secs(10);
/// What messages hold beside data: head, names and sizes of as many members as there can be.
const BESIDE_DATA: u32 = 2048;
/// The number of the failure of one who is to take one answer and was given two.
const SECOND: u32 = 2;

/// What became of a call.
struct Ended {
    outcome: Result<Reply, CallFailure>,
    took: Nanos,
    runs: Vec<Run>,
    /// Why not all members were watched, if so.
    unwatched: Option<CallFailure>,
    /// The members that it went to, without those that were left out.
    living: Vec<Node>,
    /// The tree over these, below whoever made it.
    parents: Vec<u32>,
    /// The members whose seats nobody holds, if it failed.
    absent: Vec<Node>,
}

impl Call {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let [config, secret] = self.reach.files();
        apart(&[&config, &secret], &[&self.plot])?;
        if self.plot.is_some() {
            interrupt::clean_up()?;
        }
        // A named pipe waits here for its reader: nobody takes a seat meanwhile and leaves it unserved.
        let mut drawing = self.plot.as_deref().map(|path| Output::create("drawing", path)).transpose()?;
        let (station, residents) = self.meet()?;
        let shape = station.shape();
        let members: Vec<Node> = match &self.members {
            Some(members) => members.0.clone(),
            // Members that live together would tell the same.
            None if self.is_stats() => shape.residents(1),
            None if self.everywhere => shape.residents(residents),
            None => shape.here().take(residents as usize).collect(),
        };
        let free: Vec<Node> = shape.here().skip(residents as usize).filter(|node| !members.contains(node)).collect();
        let mut own = Member::join_any(&station, free.into_iter().rev()).map_err(Failure::failed)?;
        if self.everywhere || (self.is_stats() && self.members.is_none()) {
            self.meet_all(&mut own, &members)?;
        }
        let mut errors = anstream::stderr();
        let out = beside(drawing.as_ref(), out, &mut errors);
        let ended = self.make(&mut own, &members)?;
        let code = code_of(ended.outcome.is_ok());
        let shown = match self.json {
            true => self.print_json(out, &members, &own, &ended),
            false => self.show(out, &members, &own, &ended),
        };
        verdict(code, shown)?;
        if let Some(drawing) = &mut drawing {
            drawing.write(plot::draw(&self.function, own.node(), &ended.runs))?;
            drawing.keep()?;
            if !self.json {
                verdict(code, writeln!(out, "  drawn into {}", drawing.path().display()))?;
            }
        }
        Ok(code)
    }

    /// The meeting place at the agent, and how many members live there.
    fn meet(&self) -> Result<(Station, u32), Failure> {
        let mut asker = self.reach.connect_here(Sp(self.agent))?;
        let (body, descriptor) = asker.call_for(0, ops::CALLS, &[], self.reach.patience()).map_err(Failure::failed)?;
        let calls = admin::Calls::from_body(&body).map_err(|_| Failure::failed("the agent's answer is malformed"))?;
        Ok((Station::attach(descriptor).map_err(Failure::failed)?, calls.residents))
    }

    /// Makes the call while everybody is watched.
    fn make(&self, own: &mut Member, members: &[Node]) -> Result<Ended, Failure> {
        let known = self.name();
        if !matches!(known, Name::Other(_)) && !self.header.is_empty() {
            let why =
                format!("{} has a header of its own: leave --header out, or name a function of ranks", self.function);
            return Err(Failure::usage(why));
        }
        own.serve_built_ins(0).map_err(Failure::failed)?;
        own.serve_probe().map_err(Failure::failed)?;
        match &known {
            Name::BuiltIn(_) => {}
            Name::Stats => _ = own.register(tell::TELL, tell::collect).map_err(Failure::failed)?,
            // Whoever only makes the call takes the answer of the root as it is.
            Name::Other(name) => _ = own.register(name, take()).map_err(Failure::failed)?,
        }
        let Listed { all, living, mut parents } = self.listed(own, members)?;
        let (members, plan) = (all.as_slice(), Plan::Parents(&parents));
        let skips = if self.skip_dead { Mode::SKIP_DEAD } else { Mode::empty() };
        let fault = self.fail.map(|place| (place.node, place.fault));
        if let Some(stranger) = fault.map(|(node, _)| node).filter(|node| !members.contains(node)) {
            return Err(Failure::usage(format!("member {stranger} is to fail, and is none of the call")));
        }
        let on = probe::orders(true, fault);
        let within = |call| Order { budget: self.deadline, ..below(call, plan, skips) };
        let unwatched = whole(own, &within(probe::watch(members, &on)))?.err();
        if let Some(failure) = unwatched.as_ref().filter(|_| fault.is_some()) {
            return Err(Failure::failed(format!("nobody is made to fail on purpose: {failure}")));
        }
        let (add, header) = (self.add.to_le_bytes(), self.with.header());
        let room = own.message_bytes().saturating_sub(BESIDE_DATA);
        let question = match &known {
            Name::Stats => stats::question(members.len(), room)?,
            _ => [0; 6],
        };
        let call = match &known {
            Name::Stats => tell::tell(members, &question, room),
            Name::BuiltIn(BROADCAST) => built_in::broadcast(members, self.data.as_bytes()),
            Name::BuiltIn(GATHER) => {
                let call = built_in::gather(members, 0);
                Order { caps: Caps { header: 0, data: room }, ..call }
            }
            Name::BuiltIn(REDUCE) => built_in::reduce(members, &header, 1024),
            Name::BuiltIn(COUNT) => built_in::count(members, &add),
            Name::BuiltIn(name) => {
                Order { data: Data::Bytes(self.data.as_bytes()), ..Order::new(Tag::of(name), members) }
            }
            Name::Other(name) => {
                let callback = if self.reply > 0 { Tag::of(name) } else { Tag::NONE };
                let caps = Caps { header: 0, data: self.reply };
                let (header, data) = (self.header.as_bytes(), Data::Bytes(self.data.as_bytes()));
                Order { header, data, callback, caps, ..Order::new(Tag::of(name), members) }
            }
        };
        let (call, collects) = (within(call), if self.collect { Mode::COLLECT } else { Mode::empty() });
        let start = own.now();
        let handle = own.start(&Order { mode: call.mode | collects, ..call }).map_err(Failure::failed)?;
        let id = own.call_id(handle).map_err(Failure::failed)?;
        let outcome = end(own, handle, self.deadline)?;
        let took = Nanos(own.now().since(start).0);
        let mut runs = Vec::new();
        let named = probe::named(id);
        let watched = if unwatched.is_some() { &[][..] } else { &living };
        // Whoever is dead by now tells nothing; the others do, each by itself if not all together.
        let parts = room / 2 / Run::BYTES as u32;
        // A function each, and a callback for each child.
        let seen = |member: &Node| {
            let at = living.iter().position(|one| one == member).map_or(0, |at| at as u32 + 1);
            1 + parents.iter().filter(|&&parent| parent == at).count()
        };
        for part in watched.chunks((parts as usize / 8).max(1)) {
            let tree = self.parents(own, part)?;
            let bytes = part.iter().map(seen).sum::<usize>() * Run::BYTES;
            let trace = probe::trace(part, &named, room.min(bytes as u32));
            let call = below(trace, Plan::Parents(&tree), skips);
            if let Ok(Ok(reply)) = whole(own, &call) {
                runs.extend(probe::runs(&reply.data));
            }
        }
        let off = probe::orders(false, None);
        // They forget the runs as well when they see that this member is gone, as it is after a signal or a refusal.
        let _ = whole(own, &within(probe::watch(members, &off)));
        runs.sort_by_key(|run| run.began);
        let absent = match &outcome {
            Ok(_) => Vec::new(),
            Err(_) => members.iter().copied().filter(|&member| own.sees(&[member]).is_some()).collect(),
        };
        parents.truncate(1 + living.len());
        Ok(Ended { outcome, took, runs, unwatched, living, parents, absent })
    }

    fn is_stats(&self) -> bool {
        matches!(self.name(), Name::Stats)
    }

    fn name(&self) -> Name {
        if self.function == stats::NAME {
            return Name::Stats;
        }
        let is_meant = |name: &&&str| name.strip_prefix("umbra.") == Some(&self.function) || **name == self.function;
        BUILT_IN.iter().find(is_meant).map_or_else(|| Name::Other(self.function.clone()), |name| Name::BuiltIn(name))
    }

    fn show(&self, out: Out<'_>, members: &[Node], own: &Member, ended: &Ended) -> Result<(), Failure> {
        let shape = own.station().shape();
        let where_to = if spec::are_far(shape, members) {
            format!("at {} agents", shape.places())
        } else {
            format!("at service process {}", self.agent)
        };
        writeln!(
            out,
            "{} over {} {where_to}, {} tree: {} in {}\n",
            self.function,
            counted(members.len() as u64, "member", "members"),
            self.suited(own, &ended.living),
            if ended.outcome.is_ok() { paint::good("done") } else { paint::bad("failed") },
            ended.took,
        )?;
        let failed: Vec<Node> =
            ended.outcome.as_ref().err().into_iter().flat_map(|f| &f.records).map(|r| r.origin).collect();
        let runs = ended.unwatched.is_none().then_some(ended.runs.as_slice());
        tree::print(out, &ended.living, own.node(), &ended.parents, runs, &failed)?;
        writeln!(out)?;
        if let Some(failure) = &ended.unwatched {
            let why = why::of_failure(failure, &ended.absent);
            writeln!(out, "  no times, for not all members could be watched: {why}")?;
        }
        match &ended.outcome {
            Err(failure) => {
                for record in &failure.records {
                    let why = why::of_record(record, &self.function, &ended.absent);
                    writeln!(out, "  {} {why}", paint::bad("✘"))?;
                }
                writeln!(out, "  {}, with the one who made the call", failure.tallies)?;
                if let Some(names) = failure.not_reached() {
                    writeln!(out, "  {names}")?;
                }
            }
            Ok(reply) => {
                self.show_reply(out, own, &reply.data)?;
                if let Some(names) = reply.left_out() {
                    writeln!(out, "  {names}")?;
                }
            }
        }
        Ok(())
    }

    fn show_reply(&self, out: Out<'_>, own: &Member, data: &[u8]) -> Result<(), Failure> {
        match self.name() {
            Name::Stats => stats::print(out, &stats::rows_at(own.station().shape(), data)?)?,
            Name::BuiltIn(GATHER) => {
                for (node, value) in built_in::entries(data) {
                    writeln!(out, "  {node:>4}  {}", spec::readable(value))?;
                }
            }
            Name::BuiltIn(REDUCE) => writeln!(out, "  {}", self.with.list(data))?,
            Name::BuiltIn(COUNT) => {
                let sum = data.try_into().map_or(0, i64::from_le_bytes);
                writeln!(out, "  sum of all counters {sum}")?;
            }
            _ if data.is_empty() => {}
            _ => writeln!(out, "  {}", spec::readable(data))?,
        }
        Ok(())
    }
}

/// Which function is meant.
enum Name {
    BuiltIn(&'static str),
    Stats,
    Other(String),
}

/// Takes the answer of the only child as one's own. It fails if there is another one, over which that would be written: whoever
/// dies as the call is made may leave several children to the maker.
fn take() -> impl FnMut(&mut Work<'_>) -> Verdict + Send {
    let mut taken = None;
    move |work| {
        if let Phase::Wait(answer) = work.phase {
            if taken.replace(work.call) == Some(work.call) {
                return Verdict::Fault(SECOND);
            }
            // A reply that is too large fails the call by that name.
            let _ = work.reply.set_header(answer.header).and_then(|()| work.reply.set_data(answer.data));
        }
        Verdict::Done
    }
}

/// A call over the tree that hangs below whoever makes it.
fn below<'a>(call: Order<'a>, plan: Plan<'a>, skips: Mode) -> Order<'a> {
    Order { plan, at_root: false, mode: call.mode | skips, ..call }
}

/// Makes a call and waits for it.
fn whole(own: &mut Member, call: &Order<'_>) -> Result<Result<Reply, CallFailure>, Failure> {
    let handle = own.start(call).map_err(Failure::failed)?;
    end(own, handle, call.budget)
}

/// Waits for a call that ends by itself when its time is over.
fn end(own: &mut Member, handle: Handle, budget: Lapse) -> Result<Result<Reply, CallFailure>, Failure> {
    match own.wait(handle, PATIENCE.max(Duration::from_nanos(budget.0.saturating_mul(2)))) {
        Ok(reply) => Ok(Ok(reply)),
        Err(WaitError::Failed(failure)) => Ok(Err(failure)),
        Err(other) => Err(Failure::failed(other)),
    }
}

/// The time between two moments, none if they are the other way round.
fn between(from: Time, to: Time) -> Nanos {
    Nanos(to.since(from).0)
}
