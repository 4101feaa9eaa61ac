//! Orders of a launcher: sockets to accept on, slices to read, figures to tell.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use umbra::admin::{Body as _, Door, Mark, PathTotals, Progress, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::call::border;
use umbra::driver::{self, LinkId};
use umbra::job::{DataPath, Step};
use umbra::link::{Listener, Party as LinkParty};
use umbra_core::access::direct::{CLOSE, CONNECT, OPEN};
use umbra_core::access::read::Get;
use umbra_core::access::stage::{DROP, HINT, KEEP};
use umbra_core::error::Status;
use umbra_core::machine::Link;
use umbra_core::peer::PeerKind;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, Op, Token};

use super::early::Wish;
use super::linked::Linked;
use super::own::OwnRead;
use super::process::{OUTBOUND, OUTSTANDING, Process, SLOT_BYTES};
use super::reading::{Pattern, Reading, Wanted};

const PROGRESS_EVERY: Lapse = Lapse::from_millis(100);
/// Between two attempts at a read whose way broke.
const AGAIN: Lapse = Lapse::from_millis(100);
/// Bytes of an answer in one frame, which has the status, too.
const PART: usize = BODY_MAX - size_of::<Status>();
/// Slices of a plan at most: what is read of all of them is told at once, and finds room on the link beside what else is
/// on its way there.
const SLICES: usize = OUTBOUND / 8 * 7 / ReadResult::BYTES;

/// A read whose way broke, which is made again.
pub(super) struct Broken {
    wanted: Wanted,
    deadline: Time,
    pub(super) due: Time,
}

impl Process {
    pub(super) fn on_admin(&mut self, link: LinkId, frame: &Frame<'_>, descriptors: Vec<OwnedFd>) {
        let (op, token, body) = match *frame {
            Frame::Call { op, token, body } => (op, token, body),
            Frame::Done { op: OPEN, token, status, body } => return self.on_opened(link, token, status, body),
            Frame::Done { op: CONNECT, token, status, body } => return self.on_connected(link, token, status, body),
            Frame::Done { op: CLOSE, token, .. } => return self.on_closed(link, token),
            Frame::Done { op: KEEP, token, status, .. } => return self.keep_answered(link, token, status),
            Frame::Done { op: DROP, token, .. } => return self.on_dropped(link, token),
            _ => return,
        };
        let party = self.links.get(&link).map(|l| l.party);
        match (op, party) {
            (OPEN, _) => self.on_open(link, token, body),
            (CLOSE, _) => self.on_close(link, token, body),
            (KEEP, _) => self.on_keep(link, token, body),
            (DROP, _) => self.on_drop(link, token, body),
            (HINT, Some(LinkParty::Peer(peer))) if matches!(peer.kind(), PeerKind::Rank(_)) => {
                self.on_hint(link, token, body);
            }
            (CONNECT, _) => self.on_connect(link, token, body),
            (ops::CALLS, _) => self.on_calls(link, token),
            (
                border::ops::GREET | border::ops::SIT | border::ops::MESSAGE | border::ops::PULL | border::ops::DATA,
                Some(LinkParty::Peer(peer)),
            ) => {
                if let PeerKind::Service(sp) = peer.kind() {
                    self.on_call_frame(link, sp, op, body);
                }
            }
            (ops::LEND, Some(LinkParty::Peer(peer))) => self.on_lend(link, peer, body, descriptors),
            (ops::LISTEN, _) if self.supervisor == Some(link) => self.on_listen(link, token, body, descriptors),
            (ops::PLAN | ops::SLICES | ops::RANDOM | ops::LATENCY, Some(LinkParty::Tool)) => {
                if let Err(status) = self.on_order(link, op, token, body) {
                    self.done(link, op, token, status, &[]);
                }
            }
            // A rank that cannot map the tables asks for its own.
            (ops::DUMP, Some(LinkParty::Peer(_))) | (_, Some(LinkParty::Tool)) => {
                self.on_question(link, op, token, body)
            }
            _ => self.done(link, op, token, Status::PermissionDenied, &[]),
        }
    }

    pub(super) fn done(&mut self, link: LinkId, op: Op, token: Token, status: Status, body: &[u8]) {
        self.send(Link(link.0), &Frame::Done { op, token, status, body });
    }

    /// Answers, however much there is to say: what finds no room in the answer goes before it.
    pub(super) fn done_whole(&mut self, link: LinkId, op: Op, token: Token, body: &[u8]) {
        let (first, rest) = body.split_at(body.len().min(PART));
        for body in rest.chunks(PART) {
            self.send(Link(link.0), &Frame::Call { op: ops::MORE, token, body });
        }
        self.done(link, op, token, Status::Ok, first);
    }

    /// Tells the launcher, if there is one, about a step of the bootstrap.
    pub(super) fn mark(&mut self, step: Step, group: Option<(u32, u32)>, value: u64) {
        let Some(link) = self.supervisor else { return };
        let mark = Mark { at: driver::now(), step: step as u8, group, value };
        let body = mark.to_body();
        self.send(Link(link.0), &Frame::Call { op: ops::MARK, token: Token(0), body: &body });
    }

    fn on_listen(&mut self, link: LinkId, token: Token, body: &[u8], descriptors: Vec<OwnedFd>) {
        let mut status = if body.len() == descriptors.len() { Status::Ok } else { Status::Malformed };
        for (&kind, descriptor) in body.iter().zip(descriptors) {
            let listener = match Door::from_code(kind) {
                Some(Door::Tcp) => Listener::Tcp(TcpListener::from(descriptor)),
                Some(Door::Unix) => Listener::Unix(UnixListener::from(descriptor)),
                None => {
                    status = Status::Malformed;
                    continue;
                }
            };
            if self.listen(listener).is_err() {
                status = Status::Malformed;
            }
        }
        if let Some(dir) = &self.settings.sockets {
            self.socket = Some(umbra::link::socket_path(dir, self.settings.sp));
        }
        self.done(link, ops::LISTEN, token, status, &[]);
        self.opened();
    }

    fn on_order(&mut self, link: LinkId, op: Op, token: Token, body: &[u8]) -> Result<(), Status> {
        let malformed = |_| Status::Malformed;
        match op {
            ops::PLAN => {
                let giver = self.links.get(&link).map(|linked| linked.incarnation);
                if self.planner != giver {
                    // Another job with the same agents: figures and slices of the last one are over.
                    (self.planner, self.progress) = (giver, Progress::default());
                    self.slices.clear();
                    self.costs.clear();
                }
                let slices = Slice::list_from_body(body).map_err(malformed)?;
                if slices.len() > SLICES - self.slices.len() {
                    return Err(Status::Full);
                }
                self.slices.extend(slices);
                self.done(link, op, token, Status::Ok, &[]);
            }
            ops::LATENCY => {
                let body = self.tell_path(token);
                self.done_whole(link, op, token, &body);
            }
            _ => {
                let order = ReadOrder::from_body(body).map_err(malformed)?;
                if self.reading.is_some() || order.size == 0 {
                    return Err(Status::Full);
                }
                self.learn_groups();
                let pattern = if op == ops::SLICES { Pattern::Slices } else { Pattern::Random };
                let me = self.settings.sp;
                let reading = Reading::new(op, token, order, pattern, me, &self.slices, self.next_tag);
                self.reading = Some((Some(link), reading));
                self.progress_due = Time::ZERO;
            }
        }
        Ok(())
    }

    /// The latencies of the data path whose number is the token: of this process' own ranks, and of others'.
    fn tell_path(&self, token: Token) -> Vec<u8> {
        let mut body = Vec::new();
        for (&(path, own_rank), cost) in &self.costs {
            if path as u64 != token.0 {
                continue;
            }
            let pairs: Vec<(u64, u64)> = cost.latency.counts().collect();
            let totals = PathTotals {
                path: path as u8,
                own_rank,
                reads: cost.reads,
                bytes: cost.bytes,
                busy: cost.busy,
                pairs: pairs.len() as u32,
            };
            totals.put(&mut body);
            for (value, count) in pairs {
                body.extend_from_slice(&value.to_le_bytes());
                body.extend_from_slice(&count.to_le_bytes());
            }
        }
        body
    }

    /// Begins reads of the order, and answers it when all have ended. True if anything was done.
    pub(super) fn read_on(&mut self, now: Time) -> bool {
        let (mut busy, mut budget) = (false, SLOT_BYTES);
        while budget > 0 {
            let copied = self.read_own_piece();
            budget = budget.saturating_sub(copied);
            busy |= copied > 0;
            if self.own.is_some() {
                continue;
            }
            let began = driver::now();
            let Some((_, reading)) = &mut self.reading else { break };
            let due = self.broken.front().is_some_and(|broken| broken.due <= began);
            let (wanted, deadline) = if let Some(broken) = due.then(|| self.broken.pop_front()).flatten() {
                (broken.wanted, broken.deadline)
            } else if reading.outstanding() < OUTSTANDING
                && let Some(wanted) = reading.next(began)
            {
                (wanted, began + Lapse(reading.patience()))
            } else {
                break;
            };
            busy = true;
            if let Err(status) = self.begin(&wanted, deadline) {
                self.read_ended(wanted.tag, status, None);
            }
        }
        self.tell_progress(now);
        if let Some((link, reading)) = &self.reading
            && let Some((results, next_tag)) = reading.finished()
        {
            let totals = ReadTotals { lookups: self.lookups, contradictions: self.contradictions };
            let mut body = totals.to_body();
            for result in results {
                result.put(&mut body);
            }
            let (link, op, token) = (*link, reading.op, reading.token);
            self.next_tag = next_tag;
            self.reading = None;
            (self.lookups, self.contradictions) = (0, 0);
            if let Some(link) = link {
                self.done_whole(link, op, token, &body);
            }
        }
        busy
    }

    /// Asks for the bytes of a read: where they are is looked up in the endpoint cache, in every group that the
    /// rank is in; all must agree. One whose service process is not linked yet begins when that is.
    pub(super) fn begin(&mut self, wanted: &Wanted, deadline: Time) -> Result<(), Status> {
        let endpoint = self.look_up(wanted.slice.rank)?;
        if endpoint.sp == self.settings.sp {
            if self.reach_own(wanted, endpoint.peer, deadline)? {
                return Ok(());
            }
            let Wanted { address, len, tag, .. } = *wanted;
            self.own = Some(OwnRead { tag, owner: endpoint.peer, address, len, done: 0 });
            return Ok(());
        }
        let Some(via) = self.routes.get(&endpoint.sp).copied() else {
            return self.early.keep(endpoint.sp, Wish::Order(*wanted), deadline);
        };
        if self.reach(wanted, endpoint.peer, via, deadline, driver::now()) {
            return Ok(());
        }
        let get = Get {
            owner: endpoint.peer,
            via,
            address: wanted.address,
            len: wanted.len,
            deadline,
            tag: wanted.tag,
            region: None,
        };
        let Process { machines, links, .. } = self;
        let reader = machines.agent.reader();
        let lane = links.get_mut(&LinkId(via.0)).and_then(Linked::awake_lane);
        let begun = lane.and_then(|lane| reader.get_now(&get, |words| lane.send_words(words).is_ok()));
        begun.map_or_else(|| reader.get(get), Ok).map(|_| ()).map_err(|_| Status::Full)
    }

    /// A read has ended: `way` tells how its bytes came.
    pub(super) fn read_ended(&mut self, tag: u64, status: Status, way: Option<(DataPath, bool)>) {
        let now = driver::now();
        let Some((_, reading)) = &mut self.reading else { return };
        if matches!(status, Status::QueueBroken | Status::Unreachable)
            && let Some((wanted, deadline)) = reading.again(tag)
            && now + AGAIN < deadline
        {
            // The way to the rank broke, and may be mended: a link that went down comes up again.
            return self.broken.push_back(Broken { wanted, deadline, due: now + AGAIN });
        }
        match (reading.ended(tag, status, now), way) {
            (Some((took, bytes)), Some(way)) => {
                self.costs.entry(way).or_default().note(took, bytes);
                self.progress.reads += 1;
                self.progress.bytes += bytes;
            }
            _ => {
                self.failed += 1;
                *self.failures.entry(status).or_default() += 1;
            }
        }
    }

    fn tell_progress(&mut self, now: Time) {
        let Some((Some(link), _)) = self.reading else { return };
        if now < self.progress_due {
            return;
        }
        self.progress_due = now + PROGRESS_EVERY;
        let body = Progress { ..self.progress }.to_body();
        self.send(Link(link.0), &Frame::Call { op: ops::PROGRESS, token: Token(0), body: &body });
    }
}
