//! Answers whose replies find no room here yet.
//!
//! A request without room for its data is refused, and made again. An answer is given once, so it is kept: as long as its call may
//! wait for it, and as long as both of its ends are there.

use std::collections::VecDeque;

use umbra_core::chain::{CallId, Node};
use umbra_core::channel::Header;
use umbra_core::time::Time;

use super::super::address::{receiver, sender};

/// Answers that are kept at once: more than members in a place can have asked for, so that only who makes them up gets there.
const MOST: usize = 4096;

/// One that is kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) call: CallId,
    pub(super) place: u32,
    pub(super) until: Time,
    pub(super) header: Header,
    pub(super) message: Vec<u8>,
}

/// All of them, in their order.
#[derive(Debug, Default)]
pub(super) struct Answers(VecDeque<Kept>);

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the answer to this call of these two is kept.
    pub(super) fn keeps(&self, call: CallId, header: &Header) -> bool {
        let ends = |header: &Header| (sender(header).0, receiver(header).0);
        self.0.iter().any(|kept| kept.call == call && ends(&kept.header) == ends(header))
    }

    /// Keeps an answer; whether it does.
    pub(super) fn keep(&mut self, kept: Kept) -> bool {
        let keeps = self.0.len() < MOST;
        if keeps {
            self.0.push_back(kept);
        }
        keeps
    }

    /// Those that are waited for still: each finds room now, or is to be kept again.
    pub(super) fn take(&mut self, now: Time) -> VecDeque<Kept> {
        let mut kept = std::mem::take(&mut self.0);
        kept.retain(|kept| kept.until > now);
        kept
    }

    /// These members are gone.
    pub(super) fn gone(&mut self, is_gone: impl Fn(Node) -> bool) {
        self.0.retain(|Kept { header, .. }| !is_gone(sender(header).0) && !is_gone(receiver(header).0));
    }
}
