//! A job whose ranks hold a field, for one rank that reads it: this process.
//!
//! Two hosts with an agent each are made up on this machine: this process is the one rank of the first, the ranks that hold
//! bricks of the field are on the second. So every read goes from this process to its agent, from that to the agent of the
//! holders, and is served there out of the memory of a holder, which does nothing. All processes are real and end with the
//! value, or with the thread that made it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use umbra_core::key::{Access, Key};
use umbra_core::peer::{Host, LocalRank, Peer, Sp, WorldRank};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Token;

use super::{JobError, Launcher, News, Options, Phase, Step};
use crate::admin::{Exported, ops};
use crate::driver;
use crate::session::{Seat, Session, SharedSession};
use crate::stencil::field::{BrickRanks, Spread};

/// The agent of this process.
const READERS: Sp = Sp(0);
/// The agent of the holders.
const HOLDERS: Sp = Sp(1);
/// How long nobody looks at the links of this process while it joins.
const TURN: Lapse = Lapse::from_millis(2);
/// How long the death of a process may take to be known, once something went wrong.
const MOMENT: Lapse = Lapse::from_millis(500);

/// A job whose ranks hold the bricks of a field.
pub struct FieldJob {
    // Before the launcher: it leaves before its agent ends.
    session: SharedSession,
    launcher: Launcher,
    spread: Spread,
    tickets: Vec<Option<Ticket>>,
    deadline: Duration,
}

impl FieldJob {
    /// Starts agents and ranks, and joins them. Of the options, what says how many processes there are is not used; the
    /// input is the file of the field.
    ///
    /// # Errors
    /// [`JobError`]; all processes are gone then.
    pub fn start(options: &Options, spread: Spread) -> Result<FieldJob, JobError> {
        let (ranks, deadline) = (spread.holders, options.deadline);
        let options = Options { hosts: 2, service_processes: 1, ranks, shadows: 1, site: None, ..options.clone() };
        // The rank of the first host is this process.
        let agents = [READERS, HOLDERS];
        let mut launcher = Launcher::of_processes(&options, agents.len() as u64 + u64::from(ranks))?;
        for sp in agents {
            launcher.start_agent(sp)?;
        }
        let agents = agents.into_iter().filter_map(Peer::service).collect();
        await_each(&mut launcher, Phase::Agents, deadline, agents, &mut || Ok(true), |news| match news {
            News::Mark(peer, mark) if mark.step == Step::Listening as u8 => Some(*peer),
            _ => None,
        })?;
        let size = ranks + 1;
        for holder in 0..ranks {
            let (host, local) = (Host(HOLDERS.0), LocalRank(holder));
            let seat = Seat { rank: WorldRank(holder + 1), size, host, local, n_local: ranks };
            launcher.start_holder(seat, &spread, holder)?;
        }
        let (host, local) = (Host(READERS.0), LocalRank(0));
        let seat = Seat { rank: WorldRank(0), size, host, local, n_local: 1 };
        // It joins while the launcher shakes hands with the others.
        let mut session = Session::connect(launcher.settings(seat))?;
        let mut join = || {
            session.progress(Time::ZERO)?;
            Ok(session.world().is_some() && session.endpoints().reader().is_some())
        };
        let mut tickets = vec![None; ranks as usize];
        let exporters = (1..size).filter_map(|rank| Peer::rank(WorldRank(rank))).collect();
        await_each(&mut launcher, Phase::World, deadline, exporters, &mut join, |news| match news {
            News::Exported(rank, exported) => {
                let place = (rank.0 as usize).checked_sub(1).and_then(|holder| tickets.get_mut(holder))?;
                *place = ticket(exported);
                Peer::rank(*rank)
            }
            _ => None,
        })?;
        let session = SharedSession::new(session)?;
        Ok(FieldJob { session, launcher, spread, tickets, deadline })
    }

    /// The bricks as inputs, of which so many are read ahead.
    #[must_use]
    pub fn source(&self, ahead: usize) -> BrickRanks<'_> {
        BrickRanks { session: &self.session, spread: self.spread, tickets: self.tickets.clone(), ahead }
    }

    /// Process ids of the ranks that hold bricks, in order.
    #[must_use]
    pub fn holders(&self) -> Vec<u32> {
        let ranks = (1..=self.spread.holders).filter_map(|rank| Peer::rank(WorldRank(rank)));
        ranks.filter_map(|peer| self.launcher.pid(peer)).collect()
    }

    /// The figures of the agent of this process, as `umbra-agent --status` shows them.
    ///
    /// # Errors
    /// [`JobError`] if it does not answer.
    pub fn figures(&mut self) -> Result<BTreeMap<String, u64>, JobError> {
        let agent = Peer::service(READERS).ok_or(JobError::NoSuchProcess)?;
        self.launcher.call(agent, ops::STATUS, Token(0), &[], Vec::new())?;
        let mut figures = BTreeMap::new();
        let answered = |news: &News| match news {
            News::Answer { peer, op: ops::STATUS, body, .. } => {
                let text = String::from_utf8_lossy(body);
                let lines = text.lines().filter_map(|line| line.split_once(' '));
                figures.extend(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))));
                Some(*peer)
            }
            _ => None,
        };
        await_each(&mut self.launcher, Phase::Reading, self.deadline, [agent].into(), &mut || Ok(true), answered)?;
        Ok(figures)
    }

    /// Which process of the job died, if that is why something failed.
    pub fn death(&mut self) -> Option<JobError> {
        let until = driver::now() + MOMENT;
        while let Ok(Some(news)) = self.launcher.next(until) {
            if let died @ Some(JobError::Died { .. }) = verdict(&self.launcher, Phase::Reading, news) {
                return died;
            }
        }
        None
    }

    /// Leaves the job and ends it.
    ///
    /// # Errors
    /// [`JobError`]: who did not end well. All processes are gone in any case.
    pub fn end(self) -> Result<(), JobError> {
        let FieldJob { session, mut launcher, spread, deadline, .. } = self;
        let ranks: BTreeSet<Peer> = (1..=spread.holders).filter_map(|rank| Peer::rank(WorldRank(rank))).collect();
        for &rank in &ranks {
            launcher.call(rank, ops::LEAVE, Token(0), &[], Vec::new())?;
        }
        session.into_session()?.leave()?;
        let ended = |news: &News| match news {
            News::Ended(peer, status) if status.success() => Some(*peer),
            _ => None,
        };
        await_each(&mut launcher, Phase::Leaving, deadline, ranks, &mut || Ok(true), ended)?;
        let agents: BTreeSet<Peer> = [READERS, HOLDERS].into_iter().filter_map(Peer::service).collect();
        agents.iter().for_each(|&agent| launcher.terminate(agent));
        await_each(&mut launcher, Phase::Leaving, deadline, agents, &mut || Ok(true), ended)
    }
}

/// The ticket of what a rank has exported, if that is anything.
fn ticket(exported: &Exported) -> Option<Ticket> {
    let Exported { key, address, len, .. } = *exported;
    let locator = Locator::Asked { sp: HOLDERS };
    let access = Access::READ | Access::CONSTANT;
    (len > 0).then(|| Ticket { key: Key::from_bits(key), base: address, len, access, locator })
}

/// Waits until `which` has named every peer, and `turn` says that what it turns meanwhile is ready; a process that ends
/// or gives up meanwhile ends the wait. The deadline counts from the last news.
fn await_each(
    launcher: &mut Launcher,
    phase: Phase,
    patience: Duration,
    mut missing: BTreeSet<Peer>,
    turn: &mut dyn FnMut() -> Result<bool, JobError>,
    mut which: impl FnMut(&News) -> Option<Peer>,
) -> Result<(), JobError> {
    let patient = || driver::now() + Lapse(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
    let mut deadline = patient();
    loop {
        let ready = turn()?;
        if ready && missing.is_empty() {
            return Ok(());
        }
        let until = if ready { deadline } else { deadline.min(driver::now() + TURN) };
        match launcher.next(until)? {
            Some(news) => {
                deadline = patient();
                match which(&news) {
                    Some(peer) => drop(missing.remove(&peer)),
                    None => verdict(launcher, phase, news).map_or(Ok(()), Err)?,
                }
            }
            None if until == deadline => {
                // Who is not ready is this process.
                let missing =
                    if ready { missing } else { Peer::rank(WorldRank(0)).into_iter().chain(missing).collect() };
                return Err(JobError::Timeout { phase, after: patience, missing: missing.into_iter().collect() });
            }
            None => {}
        }
    }
}

/// What went wrong, if the news says so.
fn verdict(launcher: &Launcher, phase: Phase, news: News) -> Option<JobError> {
    match news {
        News::Ended(peer, how) => {
            Some(JobError::Died { peer, phase, how: how.to_string(), words: launcher.last_words(peer) })
        }
        News::Failed(peer, failure) => Some(JobError::Failed { peer, failure }),
        News::Lost(peer, why) => Some(JobError::Link { peer, why }),
        _ => None,
    }
}
