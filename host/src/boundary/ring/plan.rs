//! Plans lie with the rank that shows them; who compares reads them from there.
//!
//! The board of a rank says how long the plan is that another one has for it. It is read into memory that is registered for it
//! alone, so no rank holds room for the plans of all others.

use umbra_core::atomic::Ordering;
use umbra_core::key::Access;

use super::super::extent::PAGE;
use super::super::fabric::Fabric;
use super::super::transport::TransportError;
use super::VerbsRing;
use super::link::{BOARD, Greeting, Layout, Link, PLAN, PLANNED, post, word};
use super::slot::registered;
use crate::verbs::{Piece, Region, Remote, Work};

/// A plan that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) into: Region,
    pub(super) len: usize,
    pub(super) is_done: bool,
}

impl VerbsRing {
    /// Keeps a plan for a rank in the outbox, and tells how long it is.
    pub(super) fn show_plan(&self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        let part = to as usize * self.layout.outbox();
        // Nothing of an exchange lies there: all of it was read.
        let words = self.words(&self.outbox, part + self.layout.overflow(0), 0, bytes.len().div_ceil(8))?;
        Fabric::store_bytes(words, bytes);
        let len = self.outbox.segment().word(part + Layout::PLAN)?;
        len.store((bytes.len() as u64).to_le(), Ordering::Relaxed);
        self.tell(to, Layout::PLAN, 8, word(PLAN, 0, 0))
    }

    /// The plan that a rank has told of last, once it was read.
    pub(super) fn ask_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        let Link { queue, plan, peer, broken, .. } = &mut *self.polled(from)?;
        if let Some(Reading { into, len, .. }) = plan.take_if(|plan| plan.is_done) {
            let mut bytes = vec![0; len];
            Fabric::load_bytes(self.words(&into, 0, 0, len.div_ceil(8))?, &mut bytes);
            return Ok(Some(bytes));
        }
        if plan.is_some() {
            return Ok(None);
        }
        // It came before the vote that has come, on the same queue pair.
        let told =
            u64::from_le(self.board.segment().word(from as usize * BOARD + Layout::PLAN)?.load(Ordering::Relaxed));
        if told == 0 {
            return Ok(Some(Vec::new()));
        }
        let len = usize::try_from(told).ok().filter(|&len| len <= self.layout.capacity);
        let most = TransportError::MessageSize { rank: from, bytes: self.layout.capacity as u64, came: Some(told) };
        let (len, Some(Greeting { outbox, .. })) = (len.ok_or(most)?, *peer) else {
            return Err(TransportError::Silent { rank: from });
        };
        let into = registered(self.board.domain(), from, len.next_multiple_of(PAGE), Access::empty())?;
        let at = outbox.address.wrapping_add(self.layout.overflow(0) as u64);
        let read = Work::Read {
            from: Remote { address: at, rkey: outbox.rkey },
            to: Piece { region: &into, offset: 0, len: len as u32 },
        };
        post(queue, *broken, from, &[(PLANNED, read)])?;
        *plan = Some(Reading { into, len, is_done: false });
        Ok(None)
    }
}
