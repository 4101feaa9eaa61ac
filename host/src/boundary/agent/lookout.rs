//! Looking out for the messages of a rank, by an agent or by the rank itself.

use umbra_core::atomic::{Ordering, fence};
use umbra_core::boundary::{Entry, Expected, HEAD, Head, Kind, Peer, Place, bitmap_bytes};
use umbra_core::codec::{Reader, Writer};

use super::super::fabric::Fabric;
use super::super::transport::TransportError;
use super::board::{self, Board, EPOCH, KIND, LENGTH, VERSION};

/// Bytes of a peer in a plan in front of its channels.
const PEER: usize = 12;

/// The messages of a peer that are to come.
#[derive(Debug)]
struct Source {
    rank: u32,
    fingerprint: u32,
    entries: Vec<Entry>,
    /// The last exchange whose message is there.
    seen: u32,
    /// The stamp of a message that was refused, so that it is refused once.
    refused: u64,
}

/// Looks out for the messages of one rank, with a copy of its plan.
#[derive(Debug)]
pub(super) struct Lookout {
    rank: u32,
    /// An agent looks, not the rank itself.
    by_agent: bool,
    version: u64,
    epoch: u32,
    kind: Kind,
    sources: Vec<Source>,
    head: Vec<u8>,
}

/// Writes the plan of a rank for whoever looks out for it.
pub(super) fn tell(board: Board<'_>, epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
    let inbound = |peer: &Peer| peer.inbound().start as usize..peer.inbound().end as usize;
    let channels: usize = peers.iter().map(|peer| inbound(peer).len()).sum();
    let mut bytes = vec![0; peers.len() * PEER + channels * Entry::BYTES];
    let mut to = Writer::new(&mut bytes);
    for peer in peers {
        // The length is the sum of what is written.
        let _ = to.u32(peer.rank());
        let _ = to.u32(peer.fingerprints()[1] as u32);
        let _ = to.u32(inbound(peer).len() as u32);
        entries[inbound(peer)].iter().for_each(|entry| {
            let _ = entry.emit(&mut to);
        });
    }
    let (plan, list) = (board.plan()?, board.list(bytes.len())?);
    let version = plan[VERSION].load(Ordering::Relaxed);
    // ORDERING: odd while it is being written; whoever sees any of the new words sees that.
    plan[VERSION].store(version | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    plan[EPOCH].store(u64::from(epoch), Ordering::Relaxed);
    let kind = peers.first().and_then(|peer| entries.get(inbound(peer).start)).map_or(Kind::GHOST, |e| e.key.kind);
    plan[KIND].store(u64::from(kind.0), Ordering::Relaxed);
    plan[LENGTH].store(bytes.len() as u64, Ordering::Relaxed);
    Fabric::store_bytes(list, &bytes);
    plan[VERSION].store((version | 1) + 1, Ordering::Release);
    Ok(())
}

impl Lookout {
    pub(super) const fn new(rank: u32) -> Lookout {
        Lookout {
            rank,
            by_agent: false,
            version: 0,
            epoch: 0,
            kind: Kind::GHOST,
            sources: Vec::new(),
            head: Vec::new(),
        }
    }

    /// The same for an agent, whose finds are counted.
    pub(super) fn of_agent(rank: u32) -> Lookout {
        Lookout { by_agent: true, ..Lookout::new(rank) }
    }

    /// Whoever held the place before may have found messages; so begin with what the board says.
    pub(super) fn begin(&mut self) {
        self.version = 0;
    }

    /// Takes a copy of the plan if it has changed; false while it is being written, or none is there.
    fn learn(&mut self, fabric: &Fabric, board: Board<'_>) -> Result<bool, TransportError> {
        let plan = board.plan()?;
        let version = plan[VERSION].load(Ordering::Acquire);
        if version == self.version || version == 0 || version % 2 == 1 {
            return Ok(version == self.version && version != 0);
        }
        let [epoch, kind, length] = [EPOCH, KIND, LENGTH].map(|at| plan[at].load(Ordering::Relaxed));
        // Refused before anything is reserved; whoever writes such a plan has none.
        let list = |length| Some((length, board.list(length).ok()?));
        let Some((length, list)) = usize::try_from(length).ok().and_then(list) else { return Ok(false) };
        let mut bytes = vec![0; length];
        Fabric::load_bytes(list, &mut bytes);
        // ORDERING: if the version is still the same, none of the words above was of a later one.
        fence(Ordering::Acquire);
        if plan[VERSION].load(Ordering::Relaxed) != version {
            return Ok(false);
        }
        (self.version, self.epoch, self.kind) = (version, epoch as u32, Kind(kind as u8));
        self.sources = sources(&bytes, fabric.extent().ranks);
        let longest = self.sources.iter().map(|source| source.entries.len()).max().unwrap_or(0);
        self.head = vec![0; HEAD + bitmap_bytes(longest as u32)];
        for source in &mut self.sources {
            let mut last = None;
            for slot in 0..fabric.extent().slots {
                let stamp = board.seen(source.rank, slot)?.load(Ordering::Acquire);
                let (epoch, sequence) = ((stamp >> 32) as u32, stamp as u32);
                // Numbers of exchanges come round.
                if epoch == self.epoch && last.is_none_or(|last| sequence.wrapping_sub(last) as i32 > 0) {
                    last = Some(sequence);
                }
            }
            source.seen = last.unwrap_or(0);
        }
        // Whoever found them may have died before it said so. No peer is further ahead than one exchange.
        for back in [1, 0] {
            for nth in 0..self.sources.len() {
                self.announce(board, self.sources[nth].seen.wrapping_sub(back))?;
            }
        }
        Ok(true)
    }

    /// Looks once at what may have come; true if something had.
    pub(super) fn look(&mut self, fabric: &Fabric, board: Board<'_>) -> Result<bool, TransportError> {
        if !self.learn(fabric, board)? {
            return Ok(false);
        }
        let mut any = false;
        for nth in 0..self.sources.len() {
            while self.next(fabric, board, nth)? {
                self.announce(board, self.sources[nth].seen)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Takes the next message of a source, if it is there.
    fn next(&mut self, fabric: &Fabric, board: Board<'_>, nth: usize) -> Result<bool, TransportError> {
        let (me, epoch, kind) = (self.rank, self.epoch, self.kind);
        let source = &mut self.sources[nth];
        let (from, sequence) = (source.rank, source.seen.wrapping_add(1));
        let slot = sequence % fabric.extent().slots;
        // ORDERING: acquire pairs with the release of the sender: head and payload are seen with the stamp.
        let stamp = fabric.stamp(from, me, slot)?.load(Ordering::Acquire);
        let seen = board.seen(from, slot)?;
        if stamp == seen.load(Ordering::Relaxed) || stamp == source.refused {
            return Ok(false);
        }
        let head = &mut self.head[..HEAD + bitmap_bytes(source.entries.len() as u32)];
        Fabric::load_bytes(fabric.words(from, me, slot, Place::Slot(0), 0, head.len() / 8)?, head);
        let expected = Expected { epoch, kind, fingerprint: source.fingerprint, entries: &source.entries };
        let overflow = |head: &Head| {
            let words = head.overflow.div_ceil(8) as usize;
            let theirs = fabric.words(from, me, slot, Place::Overflow(0), 0, words);
            // Neither is too small but by a plan that no rank has made.
            Some((board.inbox(from, slot, 0, words).ok()?, theirs.ok()?))
        };
        match expected.check(source.seen, head) {
            Ok(None) => Ok(false),
            Ok(Some(head))
                if stamp == board::stamp(head.epoch, head.sequence)
                    && let Some((inbox, theirs)) = overflow(&head) =>
            {
                for (to, word) in inbox.iter().zip(theirs) {
                    to.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                if self.by_agent {
                    let attended = board.attended()?;
                    // ORDERING: the release below shows it to the rank, whose only agent writes it.
                    attended.store(attended.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                }
                // ORDERING: release; whoever sees it sees the inbox, and need not fetch it again.
                seen.store(stamp, Ordering::Release);
                source.seen = sequence;
                Ok(true)
            }
            Ok(Some(_)) | Err(_) => {
                source.refused = stamp;
                // ORDERING: a number to be shown.
                board.refused()?.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
        }
    }

    /// Says how many messages of an exchange are there.
    fn announce(&self, board: Board<'_>, sequence: u32) -> Result<(), TransportError> {
        let here = |source: &&Source| source.seen.wrapping_sub(sequence) as i32 >= 0;
        let news = board::news(self.epoch, sequence, self.sources.iter().filter(here).count());
        // ORDERING: release; the rank that sees it sees all that was found of these messages.
        board.news(sequence)?.store(news, Ordering::Release);
        Ok(())
    }
}

/// The peers of a plan with their channels; what is damaged is left out, and nothing of it is ever found good.
fn sources(bytes: &[u8], ranks: u32) -> Vec<Source> {
    let mut from = Reader::new(bytes);
    let mut next = || {
        let (rank, fingerprint, count) =
            (from.u32().ok().filter(|&rank| rank < ranks)?, from.u32().ok()?, from.u32().ok()?);
        let entries = (0..count).map(|_| Entry::parse(&mut from)).collect::<Option<Vec<_>>>()?;
        Some(Source { rank, fingerprint, entries, seen: 0, refused: 0 })
    };
    std::iter::from_fn(&mut next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Agent, Extent};

    #[test]
    fn a_plan_that_no_rank_has_made_is_none() -> Result<(), Box<dyn std::error::Error>> {
        let extent = Extent { ranks: 2, slots: 2, message: 64 };
        let segment = std::sync::Arc::new(Agent::segment(extent)?);
        let (fabric, board) = (Fabric::attach(segment.clone(), extent, 0)?, Board::of(&segment, extent, 0));
        let mut lookout = Lookout::new(0);
        let plan = board.plan()?;
        let mut version = 0;
        let mut look = |length: u64, list: &[u32]| {
            let bytes: Vec<u8> = list.iter().flat_map(|number| number.to_le_bytes()).collect();
            Fabric::store_bytes(board.list(bytes.len())?, &bytes);
            plan[EPOCH].store(1, Ordering::Relaxed);
            plan[LENGTH].store(length, Ordering::Relaxed);
            version += 2;
            plan[VERSION].store(version, Ordering::Release);
            lookout.look(&fabric, board)
        };
        // Longer than any list, and lists of a rank that is not there, of more channels than the list has, of nothing.
        for (length, list) in
            [(u64::MAX, [0; 3]), (1 << 40, [0; 3]), (12, [7, 1, 0]), (12, [1, 1, u32::MAX]), (5, [1; 3])]
        {
            assert!(!look(length, &list)?, "{length} bytes of {list:?}");
        }
        assert!(!look(12, &[1, 1, 0])?, "no channels, and no message of them");
        assert_eq!(board.refused()?.load(Ordering::Relaxed), 0);
        Ok(())
    }
}
