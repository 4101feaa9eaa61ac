//! Agents without ranks, for ranks that are sessions of the test's own process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use umbra::admin::{Body as _, PathTotals, ops};
use umbra::config::{Job, Platform};
use umbra::job::{DataPath, Launcher, News, Options, Step};
use umbra::secret::Secret;
use umbra::session::{Seat, Session, Settings};
use umbra_core::codec::Reader;
use umbra_core::error::Status;
use umbra_core::peer::{Host, LocalRank, Peer, Sp, WorldRank};
use umbra_core::wire::{Op, Token};

use crate::rig;

/// How long anything in such a job may take.
pub const DEADLINE: Duration = Duration::from_secs(6);

/// Agents without ranks, and what a rank needs to join them.
pub struct Agents {
    /// Starts and ends them.
    pub launcher: Launcher,
    /// What they were started with.
    pub options: Options,
}

impl Agents {
    /// Agents with a deadline of a few seconds.
    ///
    /// # Panics
    /// If they do not start.
    #[must_use]
    pub fn start(hosts: u32, service_processes: u32, ranks: u32) -> Agents {
        Agents::of(Options { deadline: DEADLINE, ..rig::options(hosts, service_processes, ranks) })
    }

    /// Agents of a job that differs in more than its counts; those that run elsewhere are dialled.
    ///
    /// # Panics
    /// If they do not start.
    #[must_use]
    pub fn of(options: Options) -> Agents {
        let mut launcher = Launcher::new(&options).expect("a job directory is made");
        let (here, elsewhere): (Vec<u32>, Vec<u32>) = (0..options.agents()).partition(|&sp| launcher.starts(Sp(sp)));
        rig::start_agents(&mut launcher, here.iter().copied());
        for &sp in &elsewhere {
            launcher.link_agent(Sp(sp)).expect("the agent is dialled");
        }
        let linked: Vec<Peer> = elsewhere.into_iter().map(rig::service).collect();
        let ready = |news: &News| match news {
            News::Mark(_, mark) => mark.step == Step::Listening as u8,
            News::Linked(peer) => linked.contains(peer),
            _ => false,
        };
        let count = here.len() + linked.len();
        rig::collect(&mut launcher, "agents that listen", |news| news.iter().filter(|n| ready(n)).count() == count);
        Agents { launcher, options }
    }

    /// The job's hosts and DPUs.
    ///
    /// # Panics
    /// If its configuration cannot be read.
    #[must_use]
    pub fn job(&self) -> Job {
        let platform = Platform::read(self.launcher.directory().config()).expect("the launcher wrote it");
        platform.job(&platform.dpu_names()).expect("the launcher wrote a job")
    }

    /// Where the agents have their sockets.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.launcher.directory().path().to_owned()
    }

    /// What a rank needs to join.
    ///
    /// # Panics
    /// If the job's secret cannot be read.
    #[must_use]
    pub fn settings(&self, rank: u32) -> Settings {
        let per_host = self.options.ranks;
        let seat = Seat {
            rank: WorldRank(rank),
            size: self.options.world_size(),
            host: Host(rank / per_host),
            local: LocalRank(rank % per_host),
            n_local: per_host,
        };
        let secret = Secret::read(&self.launcher.directory().secret()).expect("the launcher wrote it");
        Settings {
            sockets: Some(self.directory()),
            deadline: self.options.deadline,
            ..Settings::new(self.job(), secret, seat)
        }
    }

    /// The figures of a service process by their names.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn status(&mut self, sp: u32) -> BTreeMap<String, u64> {
        self.launcher.call(rig::service(sp), ops::STATUS, Token(9), &[], Vec::new()).expect("it runs");
        let text = |news: &News| match news {
            News::Answer { op: ops::STATUS, body, .. } => Some(String::from_utf8_lossy(body).into_owned()),
            _ => None,
        };
        let news = rig::collect(&mut self.launcher, "the status", |news| news.iter().any(|n| text(n).is_some()));
        let text = news.iter().find_map(text).unwrap_or_default();
        let figures = text.lines().filter_map(|line| line.split_once(' '));
        figures.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }

    /// Gives an agent an order and waits for its answer.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn ask(&mut self, sp: u32, op: Op, token: Token, body: &[u8]) -> Vec<u8> {
        self.launcher.call(rig::service(sp), op, token, body, Vec::new()).expect("it runs");
        self.answer(op)
    }

    /// Waits for the answer to an order.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn answer(&mut self, op: Op) -> Vec<u8> {
        self.answer_or_refusal(op).unwrap_or_default()
    }

    /// Waits for the answer to an order, or for its refusal.
    ///
    /// # Errors
    /// The status of the refusal.
    ///
    /// # Panics
    /// If there is neither.
    pub fn answer_or_refusal(&mut self, op: Op) -> Result<Vec<u8>, Status> {
        let answer = |n: &News| match n {
            News::Answer { op: of, status: Status::Ok, body, .. } if *of == op => Some(Ok(body.clone())),
            News::Answer { op: of, status, .. } if *of == op => Some(Err(*status)),
            _ => None,
        };
        let news = rig::collect(&mut self.launcher, "an answer", |news| news.iter().any(|n| answer(n).is_some()));
        news.iter().find_map(answer).expect("there is one")
    }

    /// Reads that a service process has made, by path and by whether the rank is its own.
    ///
    /// # Panics
    /// If it does not answer, or with nonsense.
    #[must_use]
    pub fn reads(&mut self, sp: u32) -> BTreeMap<(DataPath, bool), u64> {
        let mut found = BTreeMap::new();
        for path in DataPath::ALL.into_iter().filter(|path| *path != DataPath::Auto) {
            let body = self.ask(sp, ops::LATENCY, Token(path as u64), &[]);
            let mut r = Reader::new(&body);
            while !r.rest().is_empty() {
                let totals = PathTotals::get(&mut r).expect("totals of a path");
                assert_eq!(totals.path, path as u8);
                assert_eq!(found.insert((path, totals.own_rank), totals.reads), None);
                for _ in 0..2 * totals.pairs {
                    r.u64().expect("a pair of the histogram");
                }
            }
        }
        found
    }

    /// All ranks of the job, joined.
    ///
    /// # Panics
    /// If one cannot join.
    #[must_use]
    pub fn world(&self) -> Vec<Session> {
        let settings: Vec<Settings> = (0..self.options.world_size()).map(|r| self.settings(r)).collect();
        std::thread::scope(|scope| {
            let joins: Vec<_> = settings.into_iter().map(|s| scope.spawn(|| Session::join(s))).collect();
            joins.into_iter().map(|join| join.join().expect("no panic").expect("every rank joins")).collect()
        })
    }
}

/// Does the same in all sessions at once.
///
/// # Panics
/// If `what` does.
pub fn all<T: Send>(sessions: &mut [Session], what: impl Fn(&mut Session) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let what = &what;
        let running: Vec<_> = sessions.iter_mut().map(|s| scope.spawn(move || what(s))).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
