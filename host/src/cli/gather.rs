//! What all agents of a job tell, gathered by one chained call down a tree of them.
//!
//! An agent on this machine lets the tool into the meeting place of calls; the tool takes a guest's seat there, and calls the
//! first member at every agent, on whichever hosts. Agents that the call cannot reach, or that fail it, are left out of another
//! one and asked by themselves, over links of their own: so whoever is missing is named, and by what it lacks.
//!
//! One deadline holds for all of it. The first quarter is for the seat, calls end with the third, and what is left is for links.

use std::path::PathBuf;
use std::time::Duration;

use umbra::admin::{self, Body as _, ops};
use umbra::ask::{AskError, Asker, Target, ask_each};
use umbra::call::{Member, Station, WaitError, below, tell};
use umbra::driver::now;
use umbra::link::Address;
use umbra::sys::process::raise_descriptors;
use umbra_core::chain::{Call, Mode, Node, Plan};
use umbra_core::peer::Sp;
use umbra_core::time::{Lapse, Time};
use umbra_core::tree;
use umbra_core::wire::Op;

use super::Failure;
use super::reach::Site;

/// Agents of one call: as many as can tell a line each in one reply.
const TOGETHER: usize = 48;
/// Calls of one gathering over the same agents; each leaves those out that failed the one before.
const ROUNDS: u32 = 3;
/// What messages hold beside the reply: head, names and sizes of as many members as there can be.
const BESIDE_REPLY: u32 = 2048;
/// Of an agent whose answer was cut.
const LONG: &str = "it tells more than fits into its share of the reply";
/// Agents on this machine that are asked for their meeting place, one after the other.
const DOORS: usize = 2;

/// What one agent told, or why it told nothing.
pub(crate) struct Told {
    pub(crate) target: Target,
    pub(crate) answer: Result<Vec<u8>, AskError>,
    /// Why the call did not bring its answer, so that it was asked by itself; `None` if it did.
    pub(crate) passed_by: Option<String>,
}

/// The agents of a job, to be asked again and again.
pub(crate) struct Agents {
    pub(crate) site: Site,
    /// Unix sockets of agents at which nobody listens: those agents are asked over TCP.
    pub(crate) stale: Vec<(Sp, PathBuf)>,
    patience: Lapse,
    /// The seat among the members of chained calls, or why there is none; `None` before it was looked for. No link is kept
    /// beside it, for an agent may begin a new life only when no tool is linked.
    seat: Option<Result<Member, String>>,
}

impl Agents {
    /// Each question to them may take so long.
    pub(crate) fn new(mut site: Site, patience: Lapse) -> Agents {
        let stale = site.pass_by_stale();
        Agents { site, stale, patience, seat: None }
    }

    /// Takes a seat at an agent on this machine, if there is any, and gives the others until then to be seen there.
    fn sit(&mut self, until: Time) {
        let here = self.site.targets.iter().filter(|target| matches!(target.address, Address::Unix(_)));
        let doors: Vec<Target> = here.take(DOORS).cloned().collect();
        let mut seat = Err("no agent on this machine has a Unix socket".to_owned());
        for (target, left) in doors.iter().zip((1..=doors.len() as u64).rev()) {
            seat = self.sit_at(target.clone(), Lapse(until.since(now()).0 / left));
            if seat.is_ok() {
                break;
            }
        }
        let mut seat = self.seat.insert(seat).as_mut().ok();
        let nodes: Vec<Node> =
            self.site.targets.iter().filter_map(|target| node(seat.as_deref()?, target.sp)).collect();
        if let Some(member) = &mut seat {
            member.serve_until(Duration::from_nanos(until.since(now()).0), |own| own.sees(&nodes).is_none());
        }
    }

    fn sit_at(&self, target: Target, patience: Lapse) -> Result<Member, String> {
        let secret = self.site.secret.clone();
        // One that hangs does not even shake hands.
        let mut agent = Asker::connect(secret, vec![target], patience).map_err(|error| error.to_string())?;
        let (body, descriptor) = agent.call_for(0, ops::CALLS, &[], patience).map_err(|error| error.to_string())?;
        let calls = admin::Calls::from_body(&body).map_err(|_| "the agent's answer is malformed".to_owned())?;
        let station = Station::attach(descriptor).map_err(|error| error.to_string())?;
        let guests = station.shape().here().skip(calls.residents as usize).collect::<Vec<_>>().into_iter().rev();
        let mut member = Member::join_any(&station, guests).map_err(|error| error.to_string())?;
        member.register(tell::TELL, tell::collect).map_err(|error| error.to_string())?;
        Ok(member)
    }

    /// Asks all agents for what they know of this, which is also the operation by which one is asked over a link; in the order of
    /// the job.
    pub(crate) fn ask(&mut self, op: Op) -> Result<Vec<Told>, Failure> {
        let (begun, all) = (now(), self.site.targets.clone());
        let quarter = Lapse(self.patience.0 / 4);
        // An agent that begins its next life has no seats for a moment: who found none looks again.
        if !matches!(self.seat, Some(Ok(_))) {
            self.sit(begun + quarter);
        }
        let mut told: Vec<Result<Vec<u8>, String>> = Vec::new();
        for part in all.chunks(TOGETHER) {
            told.extend(self.call(part, op, begun + quarter + quarter + quarter));
        }
        if let Some(Ok(member)) = &mut self.seat
            && member.sees(&[Node(member.station().shape().first)]).is_some()
        {
            // Its agent is gone, and the place with it: the next question looks for another.
            self.seat = None;
        }
        let alone: Vec<Target> =
            all.iter().zip(&told).filter(|(_, told)| told.is_err()).map(|(target, _)| target.clone()).collect();
        let mut answers = if alone.is_empty() {
            Vec::new()
        } else {
            // Every link is a descriptor; where there can be no more, those that there are must do.
            let _ = raise_descriptors();
            // If it is this process that was stopped meanwhile, it is not the agents that had their time.
            let left = (begun + self.patience).since(now()).max(quarter);
            ask_each(self.site.secret.clone(), alone, op, &[], left).map_err(Failure::failed)?
        }
        .into_iter();
        let silent = |target: &Target| Err(AskError::Silent { sp: target.sp });
        let each = all.into_iter().zip(told).map(|(target, told)| match told {
            Ok(bytes) => Told { target, answer: Ok(bytes), passed_by: None },
            Err(why) => {
                let answer = answers.next().unwrap_or_else(|| silent(&target));
                Told { target, answer, passed_by: Some(why) }
            }
        });
        Ok(each.collect())
    }

    /// Calls some agents together; for each what it told by then, or why it was passed by.
    fn call(&mut self, targets: &[Target], op: Op, until: Time) -> Vec<Result<Vec<u8>, String>> {
        let own = match &mut self.seat {
            Some(Ok(member)) => member,
            Some(Err(why)) => return vec![Err(why.clone()); targets.len()],
            None => return vec![Err("nobody looked for a seat".to_owned()); targets.len()],
        };
        let nodes: Vec<Option<Node>> = targets.iter().map(|target| node(own, target.sp)).collect();
        let mut told = vec![Err("it is not among the members of calls".to_owned()); targets.len()];
        let mut left: Vec<(usize, Node)> = nodes
            .into_iter()
            .enumerate()
            .filter_map(|(at, node)| Some((at, node?)))
            .filter(|(_, node)| own.sees(&[*node]).is_none())
            .collect();
        for _ in 0..ROUNDS {
            // Those that come behind have a part of the time, too.
            let budget = Lapse(until.since(now()).0 / 2);
            let members: Vec<Node> = left.iter().map(|(_, node)| *node).collect();
            if members.is_empty() {
                break;
            }
            let (why, origins) = match one_call(own, &members, op, budget) {
                Ok(reply) => {
                    for one in tell::told(&reply) {
                        let at = left.iter().find(|(_, node)| *node == one.node).map(|(at, _)| *at);
                        let whole = || if one.is_cut { Err(LONG.to_owned()) } else { Ok(one.bytes.to_vec()) };
                        at.and_then(|at| told.get_mut(at)).into_iter().for_each(|told| *told = whole());
                    }
                    break;
                }
                Err(failure) => failure,
            };
            for (at, _) in &left {
                told.get_mut(*at).into_iter().for_each(|told| *told = Err(why.clone()));
            }
            let before = left.len();
            left.retain(|(_, node)| !origins.contains(node));
            if left.len() == before {
                break;
            }
        }
        told
    }
}

/// The member that speaks for an agent, if there is a place of it.
fn node(own: &Member, sp: Sp) -> Option<Node> {
    let shape = own.station().shape();
    (sp.0 < shape.places()).then(|| Node(sp.0 * u32::from(shape.members)))
}

/// One call over these members, in a tree below whoever makes it: the reply, or why there is none and who is to blame.
fn one_call(own: &mut Member, members: &[Node], op: Op, budget: Lapse) -> Result<Vec<u8>, (String, Vec<Node>)> {
    let nobody = |why: &dyn std::fmt::Display| (why.to_string(), Vec::new());
    let room = own.message_bytes().saturating_sub(BESIDE_REPLY);
    let question = tell::question(op.0, members.len(), room);
    let parents = own.station().parents(members, tree::Shape::BINARY).map_err(|error| nobody(&error))?;
    let parents = below(&parents);
    let whole = tell::tell(members, &question, room);
    let call = Call { plan: Plan::Parents(&parents), at_root: false, budget, mode: Mode::COLLECT, ..whole };
    let handle = own.start(&call).map_err(|error| nobody(&error))?;
    // It ends by itself at its deadline.
    match own.wait(handle, Duration::from_nanos(budget.0.saturating_mul(2))) {
        Ok(reply) => Ok(reply.data),
        Err(WaitError::Failed(failure)) => {
            Err((failure.to_string(), failure.records.iter().map(|record| record.origin).collect()))
        }
        Err(other) => Err(nobody(&other)),
    }
}
