//! The inboxes of members here, for messages from elsewhere.
//!
//! Whoever has no room keeps nobody else waiting.

use std::collections::VecDeque;

use umbra_core::chain::{Life, Node, busy};
use umbra_core::channel::{Header, Port, SendError};

use super::super::address::sender;
use super::super::station::Station;
use crate::sys::futex::Futex;

/// Messages that wait for room in one inbox before requests to it are refused.
const WAITING: usize = 16;
/// Messages that wait for room in one inbox at most: far more than answers can come to one member, so that only who makes
/// messages up, or sends to a member that was stopped long ago, gets there.
const WAITING_MOST: usize = 1024;

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    /// It is in the inbox, or waits for room there.
    Taken,
    /// It is dropped, and its refusal has so many bytes.
    Refused(usize),
    /// It is dropped, as if its receiver had died; its maker's deadline tells.
    Lost,
}

/// A message that waits.
#[derive(Debug)]
struct Waiting {
    home: Node,
    header: Header,
    message: Vec<u8>,
}

/// Puts messages into inboxes, those for one inbox in their order.
#[derive(Debug)]
pub(super) struct Inboxes {
    station: Station,
    /// By which number inboxes know whoever puts.
    by: u16,
    waiting: VecDeque<Waiting>,
}

impl Inboxes {
    pub(super) fn new(station: &Station, by: u16) -> Inboxes {
        Inboxes { station: station.clone(), by, waiting: VecDeque::new() }
    }

    /// Whether messages wait.
    pub(super) fn are_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has all who sleep here look: somebody has left for whom they may wait.
    pub(super) fn rouse(&self) {
        let all = self.station.shape().here().filter_map(|node| self.station.inbox(node).ok());
        all.for_each(|inbox| _ = inbox.queue().published().notify(&Futex));
    }

    /// Drops what waits of these senders, and tells of each message.
    pub(super) fn forget(&mut self, is_gone: impl Fn(Node) -> bool, mut dropped: impl FnMut(&Header, &[u8])) {
        self.waiting.retain(|Waiting { header, message, .. }| {
            let stays = !is_gone(sender(header).0);
            if !stays {
                dropped(header, message);
            }
            stays
        });
    }

    /// Puts a message into the inbox of a member, behind what waits for that. If too much does and it is a request, it is dropped,
    /// and its refusal lies at the front of `refusal`.
    pub(super) fn put(&mut self, to: Node, header: Header, message: &[u8], refusal: &mut [u8]) -> Put {
        let Ok(seat) = self.station.seat(to) else { return Put::Lost };
        let sitter = seat.sitter();
        // What comes before anybody has sat there is for whoever is the first.
        let home = if sitter.life == Life(0) { to } else { sitter.home };
        let behind = self.waiting.iter().filter(|waiting| waiting.home == home).count();
        if behind == 0 && self.post(home, header, message) {
            return Put::Taken;
        }
        if behind >= WAITING
            && let Some(len) = busy(message, refusal)
        {
            return Put::Refused(len);
        }
        if behind >= WAITING_MOST {
            return Put::Lost;
        }
        self.waiting.push_back(Waiting { home, header, message: message.to_vec() });
        Put::Taken
    }

    fn post(&self, home: Node, header: Header, message: &[u8]) -> bool {
        let Ok(inbox) = self.station.inbox(home) else { return true };
        // A message to a damaged inbox is lost, as one to a dead member is: its deadline tells.
        !matches!(Port::new(inbox, self.by, Futex).try_send(header, message), Err(SendError::Full))
    }

    /// Puts what waits into inboxes that have room by now; whether anything went.
    pub(super) fn flush(&mut self) -> bool {
        let mut waiting = std::mem::take(&mut self.waiting);
        let (before, mut full) = (waiting.len(), Vec::new());
        waiting.retain(|Waiting { home, header, message }| {
            let stays = full.contains(home) || !self.post(*home, *header, message);
            if stays {
                full.push(*home);
            }
            stays
        });
        self.waiting = waiting;
        self.waiting.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::address::header;
    use super::super::super::shape::Shape;
    use super::*;

    #[test]
    fn what_waits_for_a_member_that_takes_nothing_is_bounded() {
        let messages = 4;
        let station = Station::create("inboxes", Shape { messages, ..Shape::new(2) }).unwrap();
        let mut inboxes = Inboxes::new(&station, station.number(Node(1), Life(1)));
        let (to, header) = (Node(0), header((Node(1), Life(1)), (Node(0), Life(0))));
        let mut put = || inboxes.put(to, header, b"no request", &mut []);
        for _ in 0..messages as usize + WAITING_MOST {
            assert_eq!(put(), Put::Taken);
        }
        assert_eq!(put(), Put::Lost);
        inboxes.forget(|sender| sender == Node(1), |_, _| ());
        assert!(!inboxes.are_waited_for());
        assert_eq!(inboxes.put(to, header, b"no request", &mut []), Put::Taken);
    }
}
