//! Whether reports say what was done on purpose, and nothing else.
//!
//! A world notes whatever it does to a call: user code that fails, a message that the network never takes, a death. A
//! report is judged by these notes, member, step, code, number, depth and count, and its accounts by what user code ran.
//! [`World::will_end_well`] works a call out from the tree and the script alone, one member after the other.

use std::collections::{HashMap, HashSet};

use umbra_core::chain::{CallId, Code, Mode, Node, Plan, RECORDS, Record, Stage, Tag};
use umbra_core::time::{Lapse, Time};

use super::replies::Why;
use super::{Act, End, Made, Planned, RARE, World};

/// Who failed at which step, why, and with which number.
pub(super) type Blamed = (Node, Stage, Code, u32);

/// What a machine has heard of a member.
#[derive(Clone, Copy)]
pub(super) struct News {
    pub(super) at: Node,
    pub(super) who: Node,
    pub(super) when: Time,
    /// That it lives, or else that it died.
    pub(super) lives: bool,
}

/// What a world did to its calls on purpose.
#[derive(Default)]
pub(super) struct Done {
    /// What fails of each call, as it happened.
    pub(super) failed: HashMap<CallId, Vec<Blamed>>,
    /// Whose functions may still be pending when the time is over.
    pub(super) pending: HashSet<(CallId, Node)>,
    /// Who died when.
    pub(super) deaths: Vec<(Node, Time)>,
    /// Who has heard of that, and of lives after it, in this order.
    pub(super) news: Vec<News>,
    /// Calls that were given up.
    pub(super) given_up: HashSet<CallId>,
    /// Whether the network never took something else than a request, so that somebody waits for it in vain.
    pub(super) swallowed: bool,
}

impl Done {
    pub(super) fn blame(&mut self, call: CallId, blamed: Blamed) {
        let failed = self.failed.entry(call).or_default();
        if !failed.contains(&blamed) {
            failed.push(blamed);
        }
    }

    /// What a machine has heard of a member.
    fn told(&self, at: Node, who: Node) -> impl Iterator<Item = &News> + Clone {
        self.news.iter().filter(move |news| (news.at, news.who) == (at, who))
    }

    /// Whether a machine has heard no later than `heard` of a death of a member, and then of no life of it up to `until`.
    fn is_dead_to(&self, at: Node, who: Node, heard: Time, until: impl Fn(Time) -> bool) -> bool {
        let mut news = self.told(at, who);
        while let Some(one) = news.next() {
            let is_back = || news.clone().any(|later| later.lives && until(later.when));
            if !one.lives && one.when <= heard && !is_back() {
                return true;
            }
        }
        false
    }

    fn of(&self, call: CallId) -> &[Blamed] {
        self.failed.get(&call).map_or(&[], Vec::as_slice)
    }
}

/// The tree of a call: its members by position, whoever makes it first.
pub(super) struct Tree {
    pub(super) members: Vec<Node>,
    parents: Vec<usize>,
}

impl Tree {
    pub(super) fn of(planned: &Planned) -> Tree {
        let mut listed = HashSet::new();
        let mut members: Vec<Node> = std::iter::once(planned.root).chain(planned.members.iter().copied()).collect();
        // Whoever is listed again counts once.
        members.retain(|&member| listed.insert(member));
        let shape = |at: usize| match planned.call.plan {
            Plan::Shape(shape) => shape.parent(at as u32).unwrap_or(0) as usize,
            // The first of the list stands at the top of the shape, below the maker.
            Plan::Led(shape) => shape.parent(at as u32 - 1).map_or(0, |parent| parent as usize + 1),
            _ => 0,
        };
        let stated = |at: usize| planned.parents.as_ref().map(|parents| parents[at] as usize);
        let parents = (0..members.len()).map(|at| if at == 0 { 0 } else { stated(at).unwrap_or_else(|| shape(at)) });
        let parents = parents.collect();
        Tree { members, parents }
    }

    /// The parent of every member but the first, and the member.
    pub(super) fn edges(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        (1..self.members.len()).map(|at| (self.members[self.parents[at]], self.members[at]))
    }

    /// How deep a member is.
    pub(super) fn depth_of(&self, node: Node) -> Option<u8> {
        self.members.iter().position(|&member| member == node).map(|at| self.depth(at))
    }

    /// Who is above a member, up to whoever makes the call.
    pub(super) fn path(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let start = self.members.iter().position(|&member| member == node).unwrap_or(0);
        let up = std::iter::successors(Some(start), |&at| (at > 0).then(|| self.parents[at]));
        up.skip(1).map(|at| self.members[at])
    }

    /// The members, each in front of all that are below him.
    pub(super) fn preorder(&self) -> Vec<Node> {
        self.subtree(0)
    }

    /// A member and all that are below him, in that order; nobody if he is none.
    pub(super) fn part_of(&self, node: Node) -> Vec<Node> {
        let at = self.members.iter().position(|&member| member == node);
        at.map_or_else(Vec::new, |at| self.subtree(at))
    }

    fn subtree(&self, at: usize) -> Vec<Node> {
        fn walk(tree: &Tree, at: usize, order: &mut Vec<Node>) {
            order.push(tree.members[at]);
            let below = (1..tree.members.len()).filter(|&other| tree.parents[other] == at);
            below.for_each(|child| walk(tree, child, order));
        }
        let mut order = Vec::new();
        walk(self, at, &mut order);
        order
    }

    fn depth(&self, at: usize) -> u8 {
        if at == 0 { 0 } else { self.depth(self.parents[at]) + 1 }
    }

    fn size(&self, at: usize) -> u32 {
        let below = (1..self.members.len()).filter(|&other| self.parents[other] == at);
        1 + below.map(|child| self.size(child)).sum::<u32>()
    }
}

impl World {
    /// Whether nothing that happens can have a call fail that has no part in it: no place is held until a deadline, and
    /// nothing is lost.
    fn is_strict(&self) -> bool {
        let hangs = self.script.functions.values().any(|&act| act == Act::Hang);
        let is_good = self.network.loss == 0 && self.done.deaths.is_empty() && self.done.given_up.is_empty();
        is_good && !hangs && self.full.is_none() && !self.done.swallowed
    }

    /// Compares how a call ended with what was done to it.
    ///
    /// # Errors
    /// What the report says that did not happen, or leaves out.
    pub(super) fn judge(&self, made: &Made) -> Result<(), String> {
        let Some((end, at)) = &made.end else { return Ok(()) };
        let tree = Tree::of(&made.plan);
        let blamed = self.done.of(made.id);
        let is_well = matches!(end, End::Done { .. });
        match self.will_end_well(&made.plan, &tree) {
            Some(false) if is_well => return Err(format!("{} is done, and cannot be", made.id)),
            Some(true) if !is_well && self.is_strict() => {
                return Err(format!("{} failed, and nothing was done to it: {:?}", made.id, end.records()));
            }
            _ => {}
        }
        if is_well && !blamed.is_empty() {
            return Err(format!("{} is done in spite of {blamed:?}", made.id));
        }
        let late = self.replies.why_back(made.id).find(|&(_, why)| why == Why::Late);
        if let Some((node, _)) = late.filter(|_| self.is_strict()) {
            return Err(format!("{}: nobody has said that the reply of {node} is not wanted", made.id));
        }
        let records = end.records();
        for record in records {
            self.judge_record(made, &tree, record, *at)
                .map_err(|wrong| format!("{}: {record:?}: {wrong}, of {blamed:?}", made.id))?;
        }
        let mode = made.plan.call.mode;
        if !is_well && !mode.contains(Mode::COLLECT) && records.len() != 1 {
            return Err(format!("{} has not one record: {records:?}", made.id));
        }
        if self.is_strict() && mode.contains(Mode::COLLECT) && !mode.contains(Mode::CANCEL_ON_FAIL) {
            return self.judge_all(made, &tree);
        }
        Ok(())
    }

    fn judge_record(&self, made: &Made, tree: &Tree, record: &Record, ended: Time) -> Result<(), String> {
        let Record { origin, stage, code, depth, aux, count } = *record;
        let place = tree.members.iter().position(|&member| member == origin).ok_or("no member")?;
        let parent = tree.members[tree.parents[place]];
        let above = self.home(parent);
        let is_dead = |heard, until: &dyn Fn(Time) -> bool| self.done.is_dead_to(above, origin, heard, until);
        let happened = match (stage, code) {
            (Stage::Setup, Code::UnknownFunc) => self.lacks(origin) && made.plan.call.func == RARE && aux == RARE.0,
            (Stage::Setup, Code::UnknownCallback) => {
                self.lacks(origin) && made.plan.call.callback == RARE && aux == RARE.0
            }
            // Whoever got a place only when others had run out of time has none left.
            (Stage::Func, Code::Timeout) => {
                let began = self.began.contains_key(&(made.id, origin));
                self.done.pending.contains(&(made.id, origin)) || began && !self.is_strict()
            }
            // So has whoever waited for it with other answers.
            (Stage::Callback, Code::Timeout) => !self.is_strict() && made.plan.call.callback != Tag::NONE,
            // It asks nobody below any more.
            (Stage::Forward, Code::Timeout) => {
                !self.is_strict() && !self.edges.iter().any(|&(id, _, to)| id == made.id && to == origin)
            }
            (Stage::Forward, Code::NoResource) => self.full == Some((parent, origin)) || !self.is_strict(),
            (Stage::Child | Stage::Forward, Code::PeerDead) => {
                // Whoever has come back before the call was made counts as alive in it.
                is_dead(ended, &|back| back < made.at)
            }
            (Stage::Cancelled, Code::Cancelled) => place == 0 && self.done.given_up.contains(&made.id),
            // Its answer was lost, and is asked for again; one that is too long is not kept for that.
            (Stage::Setup, Code::ReplyGone) => !self.is_strict() && self.network.loss > 0,
            // Its report has no time to come up then, or is never taken by the network. Nobody waits for those who are known to be
            // dead before their time to answer is over.
            (Stage::Child, Code::Timeout) => {
                let patience = Lapse(made.plan.call.budget.0 / 8 * 7).min(self.config.silence);
                !self.is_strict() && !is_dead((made.at + patience).min(ended), &|back| back <= ended)
            }
            _ => self.done.of(made.id).contains(&(origin, stage, code, aux)),
        };
        if !happened {
            return Err("it did not happen".to_owned());
        }
        let seen_by_parent = matches!(stage, Stage::Forward | Stage::Child);
        // Whoever has answered once has reached those below.
        let with_all_below = seen_by_parent || stage == Stage::Setup && code != Code::ReplyGone;
        if count != if with_all_below { tree.size(place) } else { 1 } {
            return Err(format!("it took {} members with it", tree.size(place)));
        }
        // A call within another one begins as deep as that is.
        let is_deep = depth == tree.depth(if seen_by_parent { tree.parents[place] } else { place });
        if is_deep || made.plan.call.within.is_some() { Ok(()) } else { Err("it was seen elsewhere".to_owned()) }
    }

    /// A call that collects failures and waits for everybody names all of them, and knows what became of all members.
    fn judge_all(&self, made: &Made, tree: &Tree) -> Result<(), String> {
        let End::Failed { tallies, records, unreached, skipped } = &made.end.as_ref().ok_or("it goes on")?.0 else {
            return Ok(());
        };
        let call = &made.plan.call;
        let mut expected: HashSet<Blamed> = self.done.of(made.id).iter().copied().collect();
        for &(_, _, to) in self.edges.iter().filter(|(id, ..)| *id == made.id) {
            if self.lacks(to) && call.func == RARE {
                expected.insert((to, Stage::Setup, Code::UnknownFunc, RARE.0));
            } else if self.lacks(to) && call.callback == RARE {
                expected.insert((to, Stage::Setup, Code::UnknownCallback, RARE.0));
            }
        }
        let named: HashSet<Blamed> = records.iter().map(|one| (one.origin, one.stage, one.code, one.aux)).collect();
        let all = expected.len().min(RECORDS);
        if named.len() != records.len() || named.len() != all || !named.is_subset(&expected) {
            return Err(format!("{} names {named:?} of {expected:?}", made.id));
        }
        let bad = |member: &Node| expected.iter().any(|blamed| blamed.0 == *member);
        let well = |member: &Node| {
            let coordinates = *member == made.plan.root && !call.at_root;
            coordinates || self.ended.contains_key(&(made.id, *member))
        };
        let ok = tree.members.iter().filter(|member| well(member) && !bad(member)).count() as u32;
        let failed = expected.len() as u32;
        let account = (tallies.ok, tallies.failed, tallies.unreached, tallies.unknown);
        let all = (tree.members.len() + skipped.len()) as u32;
        let right = (ok, failed, all - ok - failed, 0);
        if account != right {
            return Err(format!("{} accounts for {account:?}, not {right:?}", made.id));
        }
        // Whoever fails before it sends anything leaves out just those below it.
        let tells = |record: &Record| matches!(record.stage, Stage::Setup | Stage::Func | Stage::Reply);
        let are_told =
            failed as usize <= RECORDS && records.iter().all(tells) && !call.mode.contains(Mode::CUT_THROUGH);
        if are_told && unreached.len() != tallies.unreached as usize {
            return Err(format!("{} names {unreached:?} as not reached, of {tallies}", made.id));
        }
        Ok(())
    }

    /// How a call ends if nothing else happens, by the rules alone; `None` if a function decides that makes calls.
    fn will_end_well(&self, planned: &Planned, tree: &Tree) -> Option<bool> {
        let call = &planned.call;
        let is_inner = planned.call.within.is_some();
        let (mut well, mut decided) = (true, true);
        for (at, &member) in tree.members.iter().enumerate() {
            let act = self.script.functions.get(&member).filter(|_| !is_inner && (at > 0 || call.at_root));
            match act {
                None | Some(Act::Work | Act::Slow(_)) => {}
                Some(Act::Within) => decided = false,
                Some(_) => well = false,
            }
        }
        for (parent, child) in tree.edges() {
            let apart = self.home(parent) != self.home(child);
            let blocked = self.refuses == Some((parent, child)) || self.full == Some((parent, child));
            let rare = call.func == RARE || call.callback == RARE;
            let combines = call.callback != Tag::NONE && !is_inner;
            let bad = combines && self.script.callbacks.contains_key(&(parent, child));
            well &= !(bad || apart && (blocked || rare && self.lacks(child)));
        }
        if well && !decided { None } else { Some(well) }
    }
}
