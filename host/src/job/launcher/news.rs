//! What the processes of a job tell their launcher, and how they end.

use std::process::ExitStatus;

use umbra_core::error::Status;
use umbra_core::peer::{Peer, PeerKind, Sp, WorldRank};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Op, Token};

use super::super::JobError;
use super::{Launcher, io_error};
use crate::admin::{Body as _, Exported, Failure, MORE_MAX, Mark, Progress, ops};
use crate::driver::{self, Event, LinkId};
use crate::link::{Close, Party};

/// News from the processes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum News {
    /// A process has its link to the launcher.
    Linked(Peer),
    /// A process took a step of the bootstrap.
    Mark(Peer, Mark),
    /// A rank can be read.
    Exported(WorldRank, Exported),
    /// An agent's totals.
    Progress(Sp, Progress),
    /// A process says why it cannot go on.
    Failed(Peer, Failure),
    /// The answer to a frame that was sent.
    Answer {
        /// By whom.
        peer: Peer,
        /// To which operation.
        op: Op,
        /// To which token.
        token: Token,
        /// How it ended.
        status: Status,
        /// The results.
        body: Vec<u8>,
    },
    /// A process has ended and was reaped.
    Ended(Peer, ExitStatus),
    /// The link to an agent that ran already is over, or could not be made.
    Lost(Peer, Close),
}

impl Launcher {
    /// The next news, or `None` at `deadline`.
    ///
    /// # Errors
    /// [`JobError`] if the system refuses to wait.
    pub fn next(&mut self, deadline: Time) -> Result<Option<News>, JobError> {
        let mut frame = Vec::new();
        loop {
            while let Some(event) = self.driver.next(&mut frame) {
                if let Some(news) = self.on_event(event, &frame) {
                    return Ok(Some(news));
                }
            }
            if let Some(news) = self.reap() {
                return Ok(Some(news));
            }
            if self.driver.looked() >= deadline {
                return Ok(None);
            }
            // A process whose link is gone ends within moments: look again soon.
            let ending = self.running.values().any(|r| r.gone && !r.reported && r.child.is_some());
            let until = if ending { deadline.min(driver::now() + Lapse::from_millis(2)) } else { deadline };
            self.driver.wait(until).map_err(io_error("wait for the processes"))?;
        }
    }

    fn reap(&mut self) -> Option<News> {
        self.running.iter_mut().find_map(|(&peer, running)| {
            if running.reported || !running.gone {
                return None;
            }
            let Some(child) = &mut running.child else {
                running.reported = true;
                return Some(News::Lost(peer, running.why.take().unwrap_or(Close::Ended)));
            };
            let status = child.ended()?;
            running.reported = true;
            Some(News::Ended(peer, status))
        })
    }

    fn peer_of(&self, link: LinkId) -> Option<Peer> {
        self.running.iter().find(|(_, r)| r.link == link && !r.gone).map(|(&peer, _)| peer)
    }

    fn on_event(&mut self, event: Event, bytes: &[u8]) -> Option<News> {
        match event {
            Event::Up { link, peer, .. } => {
                let known = self.peer_of(link).filter(|&p| Party::Peer(p) == peer.party);
                let Some(known) = known else {
                    self.driver.close(link);
                    return None;
                };
                let running = self.running.get_mut(&known)?;
                running.up = true;
                for (bytes, descriptors) in running.waiting.drain(..) {
                    if let Ok(frame) = Frame::parse(&bytes) {
                        // A queue that was just created has room for the few frames of a start.
                        let _ = self.driver.send(link, &frame, descriptors);
                    }
                }
                Some(News::Linked(known))
            }
            Event::Gone { link, why, .. } => {
                let peer = self.peer_of(link)?;
                let running = self.running.get_mut(&peer)?;
                (running.gone, running.why) = (true, Some(why));
                None
            }
            Event::Frame { link, .. } => {
                let peer = self.peer_of(link)?;
                let running = self.running.get_mut(&peer)?;
                let news = Self::on_frame(peer, Frame::parse(bytes).ok()?, &mut running.more);
                if running.more.len() > MORE_MAX {
                    self.driver.close(link);
                    (running.gone, running.why) = (true, Some(Close::Local));
                }
                news
            }
            Event::Readable(_) => None,
        }
    }

    fn on_frame(peer: Peer, frame: Frame<'_>, more: &mut Vec<u8>) -> Option<News> {
        match (frame, peer.kind()) {
            (Frame::Done { op, token, status, body }, _) => {
                let mut body = body.to_vec();
                body.append(more);
                Some(News::Answer { peer, op, token, status, body })
            }
            (Frame::Call { op: ops::MORE, body, .. }, PeerKind::Service(_)) => {
                more.extend_from_slice(body);
                None
            }
            (Frame::Call { op: ops::MARK, body, .. }, _) => Some(News::Mark(peer, Mark::from_body(body).ok()?)),
            (Frame::Call { op: ops::FAILED, body, .. }, _) => Some(News::Failed(peer, Failure::from_body(body).ok()?)),
            (Frame::Call { op: ops::PROGRESS, body, .. }, PeerKind::Service(sp)) => {
                Some(News::Progress(sp, Progress::from_body(body).ok()?))
            }
            (Frame::Call { op: ops::EXPORTED, body, .. }, PeerKind::Rank(rank)) => {
                Some(News::Exported(rank, Exported::from_body(body).ok()?))
            }
            _ => None,
        }
    }
}
