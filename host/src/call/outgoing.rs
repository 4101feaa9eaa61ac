//! What members here send to other hosts, on its way to the thread with the links.
//!
//! The member that serves the first seat of a place puts messages in, in the order in which it took them, and between
//! them the news of who sits here: so whoever takes them out tells of a death after everything that the dead one sent.
//!
//! Bounded: a message for which there is no room is left with its sender, and is tried again.
//!
//! *Cost*: a lock held for one copy, and after the start no allocation; a ring if the other thread sleeps.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use umbra_core::chain::{Life, Node};
use umbra_core::channel::Header;

/// Bytes that can wait.
const MOST: usize = 1 << 20;
/// Of a record before its message.
const HEAD: usize = 24;

/// Who sits on one seat from now on; life zero: nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sits {
    pub(super) node: Node,
    pub(super) life: Life,
}

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record<'a> {
    Message(Header, &'a [u8]),
    Sits(Sits),
}

/// The way out of a place; copies are the same way.
#[derive(Clone)]
pub struct Outgoing {
    records: Arc<Mutex<Vec<u8>>>,
    ring: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("bytes", &self.records().len()).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// A way out; `ring` wakes whoever takes out what is put in.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Outgoing {
        Outgoing { records: Arc::new(Mutex::new(Outgoing::room())), ring: Arc::new(ring) }
    }

    /// Room for what usually waits.
    pub(super) fn room() -> Vec<u8> {
        Vec::with_capacity(MOST / 8)
    }

    fn records(&self) -> MutexGuard<'_, Vec<u8>> {
        // Whoever panicked in between was not at it: what is done under the lock does not panic.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    /// Puts a message in; false if there is no room.
    pub(super) fn message(&self, header: &Header, message: &[u8]) -> bool {
        self.push(message.len() as u64, [header.hints, header.sender], message, MOST)
    }

    /// Puts an answer in that must not be lost; there are as many as there were messages.
    pub(super) fn answer(&self, header: &Header, message: &[u8]) {
        self.push(message.len() as u64, [header.hints, header.sender], message, usize::MAX);
    }

    /// Puts the news of a seat in.
    pub(super) fn sits(&self, Sits { node, life }: Sits) {
        self.push(u64::MAX, [node.0.into(), life.0.into()], &[], usize::MAX);
    }

    fn push(&self, len: u64, words: [u64; 2], message: &[u8], most: usize) -> bool {
        let mut records = self.records();
        if records.len() >= most {
            return false;
        }
        for word in [len, words[0], words[1]] {
            records.extend_from_slice(&word.to_le_bytes());
        }
        records.extend_from_slice(message);
        drop(records);
        (self.ring)();
        true
    }

    /// Takes out all that waits, in place of what `into` held.
    pub(super) fn take(&self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(&mut *self.records(), into);
    }
}

/// The record at this place of what was taken out, and where the next one begins.
pub(super) fn record(taken: &[u8], at: usize) -> Option<(Record<'_>, usize)> {
    let (head, rest) = taken.get(at..)?.split_first_chunk::<HEAD>()?;
    let [len, a, b] = [0, 8, 16].map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&head[at..at + 8]);
        u64::from_le_bytes(word)
    });
    if len == u64::MAX {
        return Some((Record::Sits(Sits { node: Node(a as u32), life: Life(b as u32) }), at + HEAD));
    }
    let message = rest.get(..usize::try_from(len).ok()?)?;
    Some((Record::Message(Header { hints: a, sender: b, ..Header::default() }, message), at + HEAD + message.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let outgoing = Outgoing::new(|| ());
        let header = Header { hints: 7, sender: 9, ..Header::default() };
        let sits = Sits { node: Node(3), life: Life(4) };
        assert!(outgoing.message(&header, b"first"));
        outgoing.sits(sits);
        assert!(outgoing.message(&header, b""));
        let mut taken = Vec::new();
        outgoing.take(&mut taken);
        assert!(outgoing.is_empty());
        let (first, at) = record(&taken, 0).unwrap();
        assert_eq!(first, Record::Message(header, b"first"));
        let (second, at) = record(&taken, at).unwrap();
        assert_eq!(second, Record::Sits(sits));
        let (third, at) = record(&taken, at).unwrap();
        assert_eq!((third, record(&taken, at)), (Record::Message(header, b""), None));
    }

    #[test]
    fn a_message_without_room_is_left_with_its_sender() {
        let outgoing = Outgoing::new(|| ());
        let block = [0; 64 << 10];
        let sent = (0..100).take_while(|_| outgoing.message(&Header::default(), &block)).count();
        assert!((MOST / block.len()..100).contains(&sent), "{sent} blocks");
        outgoing.answer(&Header::default(), b"goes all the same");
        let mut taken = Vec::new();
        outgoing.take(&mut taken);
        assert!(outgoing.message(&Header::default(), &block));
    }
}
