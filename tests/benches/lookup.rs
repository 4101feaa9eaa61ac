//! What a look-up costs, against two bare array reads; what making a table costs.
//!
//! The floor is a vector of groups and a vector of answers, with a bounds and a generation check: what nobody can do
//! without. An answer is the first shadow; in a sub-group also the world rank, which does not follow from the rank
//! there. *Independent* look-ups follow each other as fast as the processor can overlap them; *dependent* ones each
//! wait for the answer before; *all at once*, 64 are asked for in one call. *Hot* asks for 64 ranks over and over.
#![allow(clippy::unwrap_used, reason = "a bench may stop at the first surprise")]

use std::cell::Cell;
use std::hint::black_box;
use std::marker::PhantomData;
use std::process::ExitCode;
use std::time::Duration;

use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{
    Cursor, Descriptor, Endpoint, Endpoints, Group, JobKey, Reader, Shape, Table, TableBuilder,
};
use umbra_core::id::{Generation, Id};
use umbra_core::memory::Block;
use umbra_core::peer::{Host, LocalRank, Rank, WorldRank};
use umbra_core::placement::Placement;
use umbra_tests::bench::{Direction, Plan, Report, Row, Turns, alternate, repeat};

const RANKS_A_HOST: u32 = 64;
const PER_DPU: u32 = 4;
const KEY: JobKey = JobKey::new([7; 16]);
/// Ranks asked for in one pass; a power of two.
const ASKED: usize = 1 << 20;
/// Ranks of one call of `lookup_all`.
const AT_ONCE: usize = 64;

type Arena = Endpoints<Vec<AtomicU64>, Vec<Block>>;

fn job(ranks: u32) -> Placement<'static> {
    Placement::one_dpu_a_host(ranks.div_ceil(RANKS_A_HOST), PER_DPU, 1).unwrap()
}

/// How a group of this bench came about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The world, with two ranks placed against the rule: first shadows are stored.
    Explicit,
    /// A sub-group with two ranks swapped: world ranks are stored too.
    SubGroup,
    /// The world, placed by rule: nothing is stored.
    Affine,
}

impl Form {
    const ALL: [(Form, &str); 3] =
        [(Form::Explicit, "explicit"), (Form::SubGroup, "sub-group"), (Form::Affine, "affine")];

    /// The process of a rank, and whose place it has.
    fn member(self, rank: u32) -> (WorldRank, u32) {
        let swapped = if rank < 2 { 1 - rank } else { rank };
        match self {
            Form::Explicit => (WorldRank(rank), swapped),
            Form::SubGroup => (WorldRank(swapped), swapped),
            Form::Affine => (WorldRank(rank), rank),
        }
    }
}

/// How look-ups follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chain {
    Independent,
    /// [`AT_ONCE`] a call; the peer still looks up one by one, which is the same to it.
    Together,
    Dependent,
}

impl Chain {
    const ALL: [Chain; 3] = [Chain::Independent, Chain::Together, Chain::Dependent];

    const fn name(self) -> &'static str {
        match self {
            Chain::Independent => "independent",
            Chain::Together => "all at once",
            Chain::Dependent => "dependent",
        }
    }
}

fn builder(ranks: u32, form: Form) -> TableBuilder<Vec<u8>> {
    let mut bytes = vec![0; Descriptor::bytes_needed(ranks)];
    let members = (0..ranks).map(|rank| form.member(rank).0);
    let group = Descriptor::write(ranks, members, &mut bytes).unwrap();
    let shape = Shape::new(&group, KEY.group(&group), &job(ranks));
    TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap()
}

fn fill(builder: &mut TableBuilder<Vec<u8>>, job: &Placement<'_>, form: Form) {
    for rank in 0..builder.shape().size {
        let (world, place) = form.member(rank);
        let (host, local) = (Host(place / RANKS_A_HOST), LocalRank(place % RANKS_A_HOST));
        let entry = job.entry(world, host, local).unwrap();
        black_box(builder.set(Rank(rank), &entry).unwrap());
    }
}

fn table_bytes(ranks: u32, form: Form) -> Vec<u8> {
    let mut builder = builder(ranks, form);
    fill(&mut builder, &job(ranks), form);
    builder.finish(Generation::FIRST).unwrap().to_vec()
}

/// An arena with this one group.
fn arena(bytes: &[u8]) -> (Arena, Id<Group>) {
    let words = (0..Arena::words_needed(8, bytes.len())).map(|_| AtomicU64::new(0)).collect();
    let mut endpoints = Arena::create(words, vec![Block::default(); 17], 8).unwrap();
    let handle = endpoints.publish(&Table::attach(bytes).unwrap(), None).unwrap();
    (endpoints, handle)
}

/// What is kept of an answer.
trait Answer: Copy {
    fn of(world: u32, sp: u32) -> Self;
    /// All of it as one number.
    fn whole(self) -> u32;
}

/// The first shadow.
impl Answer for u32 {
    #[inline(always)]
    fn of(_: u32, sp: u32) -> u32 {
        sp
    }

    #[inline(always)]
    fn whole(self) -> u32 {
        self
    }
}

/// World rank and first shadow.
impl Answer for (u32, u32) {
    #[inline(always)]
    fn of(world: u32, sp: u32) -> (u32, u32) {
        (world, sp)
    }

    #[inline(always)]
    fn whole(self) -> u32 {
        self.0 + self.1
    }
}

/// Two array reads and the two checks.
struct Floor<A> {
    groups: Vec<(u32, u32, usize)>,
    answers: Vec<A>,
}

impl<A: Answer> Floor<A> {
    fn new(reader: &Reader<'_>, group: Id<Group>) -> Floor<A> {
        let ranks = reader.read(group, Table::size).unwrap();
        let answer = |rank| reader.lookup(group, Rank(rank)).map(|found| A::of(found.peer.to_bits(), found.sp.0));
        let groups = (0..8).map(|at| if at == group.index() { (group.generation().0, ranks, 0) } else { (0, 0, 0) });
        Floor { groups: groups.collect(), answers: (0..ranks).map(|rank| answer(rank).unwrap()).collect() }
    }
}

/// What is asked for ranks of one group.
trait Ask: Copy {
    fn ask(&self, rank: Rank) -> Option<u32>;
}

#[derive(Clone, Copy)]
struct Ours<'a, A> {
    reader: Reader<'a>,
    group: Id<Group>,
    kept: PhantomData<A>,
}

impl<A: Answer> Ask for Ours<'_, A> {
    #[inline(always)]
    fn ask(&self, rank: Rank) -> Option<u32> {
        self.reader.lookup(self.group, rank).ok().map(|found| A::of(found.peer.to_bits(), found.sp.0).whole())
    }
}

#[derive(Clone, Copy)]
struct Bare<'a, A> {
    groups: &'a [(u32, u32, usize)],
    answers: &'a [A],
    group: Id<Group>,
}

impl<A: Answer> Ask for Bare<'_, A> {
    #[inline(always)]
    fn ask(&self, rank: Rank) -> Option<u32> {
        let &(generation, size, start) = self.groups.get(self.group.index() as usize)?;
        if generation != self.group.generation().0 || rank.0 >= size {
            return None;
        }
        self.answers.get(start + rank.index()).map(|answer| answer.whole())
    }
}

/// Ranks in the order in which they are asked for.
fn asked(ranks: u32, hot: bool) -> Vec<u32> {
    let range = if hot { ranks.min(64) } else { ranks };
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 32) % u64::from(range)) as u32
    };
    (0..ASKED).map(next).collect()
}

/// Runs `n` look-ups from where the last batch ended, and keeps a sum alive.
///
/// A function of its own for each kind of look-up and shape of loop: within one that holds them all, what a loop needs
/// does not stay in registers, on either side.
#[inline(never)]
fn walk<const DEPENDENT: bool>(at: &Cell<usize>, asked: &[u32], n: u64, of: &impl Ask) {
    // A copy of its own, which the compiler may take apart.
    let of = *of;
    let (mut place, mut sum) = (at.get(), 0_u32);
    // No bits of an answer, which the compiler cannot know: the next rank waits for this answer.
    let none = black_box(0_u32);
    for _ in 0..n {
        let carry = if DEPENDENT { sum & none } else { 0 };
        let rank = asked[place & (ASKED - 1)] ^ carry;
        let found = of.ask(Rank(rank)).unwrap_or(u32::MAX >> 1);
        sum = if DEPENDENT { found } else { sum.wrapping_add(found) };
        place += 1;
    }
    at.set(place);
    black_box(sum);
}

/// As `walk` without dependence, many ranks at a time.
#[inline(never)]
fn walk_all<A: Answer>(at: &Cell<usize>, asked: &[Rank], n: u64, of: &Ours<'_, A>) {
    let (mut found, mut sum) = ([Endpoint::default(); AT_ONCE], 0_u32);
    let mut place = at.get();
    for _ in 0..n.div_ceil(AT_ONCE as u64) {
        let start = place & (ASKED - 1);
        let count = of.reader.lookup_all(of.group, &asked[start..start + AT_ONCE], &mut found).unwrap_or(0);
        for found in &found[..count] {
            sum = sum.wrapping_add(A::of(found.peer.to_bits(), found.sp.0).whole());
        }
        place += AT_ONCE;
    }
    at.set(place);
    black_box(sum);
}

fn look_ups(report: &mut Report) {
    for (ranks, size) in [(1 << 10, "1 Ki"), (1 << 16, "64 Ki"), (1 << 19, "512 Ki"), (1 << 20, "1 Mi")] {
        for (form, name) in Form::ALL {
            let (endpoints, group) = arena(&table_bytes(ranks, form));
            let reader = endpoints.reader().unwrap();
            for (hot, access) in [(true, "hot"), (false, "random")] {
                let asked = asked(ranks, hot);
                for chain in Chain::ALL {
                    let case = format!("{access} {size} {name} {}", chain.name());
                    if !report.wants(&case) {
                        continue;
                    }
                    let plan = if hot { Plan::standard() } else { at_random() };
                    let group = black_box(group);
                    let turns = match form {
                        Form::SubGroup => measure::<(u32, u32)>(&plan, reader, group, &asked, chain),
                        _ => measure::<u32>(&plan, reader, group, &asked, chain),
                    };
                    let ours = turns.ours.median();
                    let row = turns.row(&case, "two bare array reads", "ns", Direction::LowerIsBetter);
                    if !hot && ranks == 1 << 20 {
                        report.row(row).bar(0.4);
                    } else {
                        report.row(row);
                    }
                    if hot && chain == Chain::Independent && ranks == 1 << 20 {
                        let case = format!("{case}, at most 2 ns");
                        report.row(Row::new(&case, ours, 2.0, "bar", "ns", Direction::LowerIsBetter)).bar(1.0);
                    }
                }
            }
        }
    }
}

/// Every turn finds the caches full of the other side's arrays. A short turn would be over before they hold its own, the
/// slower side's first, which does less in that time.
fn at_random() -> Plan {
    Plan { rounds: 21, batch: Duration::from_millis(16), ..Plan::standard() }
}

fn measure<A: Answer>(plan: &Plan, reader: Reader<'_>, group: Id<Group>, asked: &[u32], chain: Chain) -> Turns {
    let floor = Floor::<A>::new(&reader, group);
    let ours = Ours { reader, group, kept: PhantomData::<A> };
    let bare = Bare { groups: &floor.groups, answers: &floor.answers, group };
    let (at, their_at) = (Cell::new(0), Cell::new(0));
    let theirs = |n| walk::<false>(&their_at, asked, n, &bare);
    match chain {
        Chain::Independent => alternate(plan, |n| walk::<false>(&at, asked, n, &ours), theirs),
        Chain::Together => {
            let ranks: Vec<_> = asked.iter().copied().map(Rank).collect();
            alternate(plan, |n| walk_all(&at, &ranks, n, &ours), theirs)
        }
        Chain::Dependent => {
            alternate(plan, |n| walk::<true>(&at, asked, n, &ours), |n| walk::<true>(&their_at, asked, n, &bare))
        }
    }
}

/// Seconds of one run, the median of a few.
fn seconds(mut work: impl FnMut()) -> f64 {
    let plan = Plan { rounds: 5, batch: Duration::ZERO, most_iterations: 1 };
    repeat(&plan, |n| (0..n).for_each(|_| work())).median() / 1e9
}

fn at_most(report: &mut Report, case: &str, bar_s: f64, work: impl FnMut()) {
    if report.wants(case) {
        let row = Row::new(case, seconds(work), bar_s, "bar", "s", Direction::LowerIsBetter);
        report.row(row).bar(1.0);
    }
}

fn world_of_a_million(report: &mut Report) {
    const RANKS: u32 = 1 << 20;
    let job = job(RANKS);
    for (form, name) in Form::ALL {
        let case = format!("build 1 Mi {name}: entries and table");
        at_most(report, &case, 2.0, || {
            let mut builder = builder(RANKS, form);
            fill(&mut builder, &job, form);
            black_box(builder.finish(Generation::FIRST).unwrap());
        });
        let bytes = table_bytes(RANKS, form);
        let (endpoints, group) = arena(&bytes);
        let reader = endpoints.reader().unwrap();
        let mut copy = vec![0; bytes.len()];
        let case = format!("encode and decode 1 Mi {name}: table bytes");
        at_most(report, &case, 1.0, || {
            let len = reader.copy_table(group, &mut copy).unwrap().unwrap();
            black_box(Table::attach(&copy[..len]).unwrap());
        });
        let (mut from, mut message) = (builder(RANKS, form), vec![0; 1 << 20]);
        fill(&mut from, &job, form);
        let case = format!("encode and decode 1 Mi {name}: entry runs");
        at_most(report, &case, 1.0, || {
            let mut cursor = Cursor::default();
            let mut to = builder(RANKS, form);
            while !cursor.is_done() {
                let len = from.write_runs(&mut cursor, &mut message, |_| true);
                to.merge_runs(&message[..len], &job).unwrap();
            }
            assert!(to.is_full());
        });
        let case = format!("size of 1 Mi {name}");
        if report.wants(&case) {
            let row = Row::new(&case, bytes.len() as f64, (64 << 20) as f64, "bar", "B", Direction::LowerIsBetter);
            report.row(row).bar(1.0);
        }
    }
}

/// Groups of two from their members to the published table, retired in between: descriptor, key, builder, table.
fn creation(report: &mut Report) {
    let case = "create groups of 2";
    if !report.wants(case) {
        return;
    }
    let job = job(1 << 20);
    let words = (0..Arena::words_needed(1024, 1024 * 256)).map(|_| AtomicU64::new(0)).collect();
    let mut endpoints = Arena::create(words, vec![Block::default(); 2049], 1024).unwrap();
    let mut storage = Vec::new();
    let mut handles = std::collections::VecDeque::new();
    let mut next = 0_u32;
    let each = repeat(&Plan::standard(), |n| {
        for _ in 0..n {
            if handles.len() == 1000 {
                endpoints.retire(handles.pop_front().unwrap()).unwrap();
            }
            next = (next + 1) % (1 << 19);
            let ranks = [next, next + 1 + next % 7919];
            let mut bytes = [0; 64];
            let group = Descriptor::write(next, ranks.map(WorldRank), &mut bytes).unwrap();
            let shape = Shape::new(&group, KEY.group(&group), &job);
            storage.resize(shape.builder_bytes().max(storage.len()), 0);
            let mut builder = TableBuilder::new(&mut storage[..], shape).unwrap();
            for (rank, world) in (0..).map(Rank).zip(ranks) {
                let (host, local) = (Host(world / RANKS_A_HOST), LocalRank(world % RANKS_A_HOST));
                builder.set(rank, &job.entry(WorldRank(world), host, local).unwrap()).unwrap();
            }
            let table = Table::attach(builder.finish(Generation::FIRST).unwrap()).unwrap();
            handles.push_back(endpoints.publish(&table, None).unwrap());
        }
    });
    let rate = 1e9 / each.median();
    report.row(Row::new(case, rate, 50_000.0, "bar", "groups/s", Direction::HigherIsBetter)).bar(1.0);
}

fn main() -> ExitCode {
    let mut report = Report::from_args();
    look_ups(&mut report);
    creation(&mut report);
    world_of_a_million(&mut report);
    report.finish()
}
