//! Boundary exchange by shared memory within a node, and by MPI between nodes.
//!
//! Who shares a node is found out once. An end of each rank is then made as [`MpiSlot`] is; over that the first rank of each node
//! says where it has made memory, the others of the node open it, and all hear whether all could: then, and only then, each
//! has its end. Nobody waits longer than the deadline for any of this.
//!
//! *Cost*: within a node that of [`Fabric`], between nodes that of [`MpiSlot`], and a look into a table.
//!
//! Source: MPI 3.1, 6.4.2 (`MPI_Comm_split_type`).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::boundary::{Extent, Fabric, Nodes, NodesError, Offer, Transport, TransportError, Unshared};
use umbra::sys::segment::Segment;

use crate::raw::{Communicator, MpiError};
use crate::slot::MpiSlot;

/// What a rank says at first: bytes of its largest message, why it has no memory for its node, and where it has some.
const SAID: usize = 2 + Offer::WORDS;

/// Who shares a node with this process.
#[derive(Clone, Debug)]
pub struct MpiNodes {
    world: Communicator,
    /// The ranks of this node, in order.
    ranks: Vec<u32>,
}

impl MpiNodes {
    /// Finds out who shares memory with whom. All processes of the communicator call this, and it waits for all.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn new(world: Communicator) -> Result<MpiNodes, MpiError> {
        MpiNodes::split(world, 0)
    }

    /// As [`new`](Self::new), but of the processes of a machine only those are one node that say the same number: several nodes
    /// can be tried on one machine.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn split(world: Communicator, part: u16) -> Result<MpiNodes, MpiError> {
        let node = world.of_this_node()?.split(part)?;
        let ranks = node.gather(&[u64::from(world.rank())])?;
        Ok(MpiNodes { world, ranks: ranks.into_iter().map(|rank| rank as u32).collect() })
    }

    /// The ranks of this node, this one included, in order.
    #[must_use]
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The end of this process, for messages of at most so many bytes with their heads, as `Extent::message` of all ranks. All
    /// processes call this, as they do [`MpiSlot::new`], and each has one end at a time.
    ///
    /// # Errors
    /// As [`MpiSlot::new`]; and the same on all ranks: [`TransportError::NotShared`] names the first that has no memory in common
    /// with its node, [`NodesError::Message`] one that names another size.
    pub fn end(&self, message: u32, deadline: Option<Duration>) -> Result<Nodes<Fabric, MpiSlot>, TransportError> {
        let mut far = MpiSlot::new(self.world, deadline)?;
        let until = deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        let me = self.world.rank();
        let extent = Extent { ranks: self.ranks.len() as u32, slots: far.slots(), message };
        let first = self.ranks.first().copied().unwrap_or(me);
        let made = if first == me { Some(Fabric::offer(extent)) } else { None };
        let mut said = [0; SAID];
        said[0] = u64::from(message);
        match &made {
            Some(Ok((_, offer))) => said[2..].copy_from_slice(&offer.to_words()),
            Some(Err(why)) => said[1] = why.to_word(),
            None => {}
        }
        let all = gather(&mut far, said, until)?;
        if let Some((rank, why)) = unshared(all.iter().map(|said| said[1])) {
            return Err(TransportError::NotShared { rank, why });
        }
        let bytes = all[0][0];
        if let Some((rank, theirs)) = (0..).zip(&all).find(|(_, said)| said[0] != bytes) {
            return Err(NodesError::Message { rank, bytes: theirs[0], first: bytes }.into());
        }
        let segment = match made {
            Some(Ok((segment, _))) => Ok(segment),
            _ => found(&all, first, extent),
        };
        let all = gather(&mut far, [segment.as_ref().map_or_else(|why| why.to_word(), |_| 0)], until)?;
        if let Some((rank, why)) = unshared(all.iter().map(|said| said[0])) {
            return Err(TransportError::NotShared { rank, why });
        }
        let segment = segment.map_err(|why| TransportError::NotShared { rank: me, why })?;
        let seat = self.ranks.partition_point(|&rank| rank < me) as u32;
        Nodes::new(Fabric::attach(Arc::new(segment), extent, seat)?, far, &self.ranks)
    }
}

/// The memory that the first rank of this node has said to have.
fn found(all: &[[u64; SAID]], first: u32, extent: Extent) -> Result<Segment, Unshared> {
    let offer = all.get(first as usize).and_then(|said| said[2..].first_chunk()).ok_or(Unshared::Other)?;
    Fabric::accept(&Offer::from_words(*offer), extent)
}

/// The first that says why it has no memory.
fn unshared(said: impl Iterator<Item = u64>) -> Option<(u32, Unshared)> {
    (0..).zip(said).find_map(|(rank, word)| Some((rank, Unshared::from_word(word)?)))
}

/// What all ranks say, by rank, in their order. As with plans, each is waited for until then.
fn gather<const WORDS: usize>(
    end: &mut impl Transport,
    said: [u64; WORDS],
    until: Option<Instant>,
) -> Result<Vec<[u64; WORDS]>, TransportError> {
    let bytes: Vec<u8> = said.into_iter().flat_map(u64::to_le_bytes).collect();
    let mut all = vec![said; end.ranks() as usize];
    let me = end.rank();
    let others = (0..end.ranks()).filter(|&rank| rank != me);
    others.clone().try_for_each(|rank| end.write_plan(rank, &bytes))?;
    for rank in others {
        let heard = loop {
            // What came while this process was stopped is heard before a rank is taken for silent.
            let is_late = until.is_some_and(|until| Instant::now() > until);
            match end.read_plan(rank)? {
                Some(heard) => break heard,
                None if is_late => return Err(TransportError::Silent { rank }),
                None => thread::yield_now(),
            }
        };
        if heard.len() != bytes.len() {
            let (bytes, came) = (bytes.len() as u64, Some(heard.len() as u64));
            return Err(TransportError::MessageSize { rank, bytes, came });
        }
        all[rank as usize]
            .iter_mut()
            .zip(heard.as_chunks::<8>().0)
            .for_each(|(to, word)| *to = u64::from_le_bytes(*word));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use umbra_core::boundary::{Message, Place, Vote};

    use super::*;

    /// An end of rank 0 of two. This process is stopped in its first look, until both the answer and the deadline have come.
    struct Stopped {
        until: Instant,
        looks: Cell<u32>,
        answers: bool,
    }

    impl Transport for Stopped {
        fn rank(&self) -> u32 {
            0
        }
        fn ranks(&self) -> u32 {
            2
        }
        fn slots(&self) -> u32 {
            1
        }
        fn write(&mut self, _: u32, _: u32, _: Place, _: usize, _: &[f64]) -> Result<(), TransportError> {
            Ok(())
        }
        fn publish(&mut self, _: &Message, _: u32, _: &[u8]) -> Result<(), TransportError> {
            Ok(())
        }
        fn look(&mut self, _: u32, _: u32, _: &mut [u8]) -> Result<bool, TransportError> {
            Ok(false)
        }
        fn taken(&mut self, _: u32, _: u32, _: u32) -> Result<(), TransportError> {
            Ok(())
        }
        fn read(&self, _: u32, _: u32, _: Place, _: usize, _: &mut [f64]) -> Result<(), TransportError> {
            Ok(())
        }
        fn vote(&mut self, _: u32, _: Vote) -> Result<(), TransportError> {
            Ok(())
        }
        fn vote_of(&self, _: u32, _: u32) -> Result<Option<Vote>, TransportError> {
            Ok(None)
        }
        fn write_plan(&mut self, _: u32, _: &[u8]) -> Result<(), TransportError> {
            Ok(())
        }
        fn read_plan(&self, _: u32) -> Result<Option<Vec<u8>>, TransportError> {
            self.looks.set(self.looks.get() + 1);
            if self.looks.get() > 1 {
                return Ok(self.answers.then(|| 7_u64.to_le_bytes().to_vec()));
            }
            while Instant::now() <= self.until {
                thread::yield_now();
            }
            Ok(None)
        }
    }

    #[test]
    fn who_has_answered_while_this_process_was_stopped_is_not_silent() {
        for answers in [true, false] {
            let until = Instant::now() + Duration::from_millis(20);
            let mut end = Stopped { until, looks: Cell::new(0), answers };
            let expected = if answers { Ok(vec![[3], [7]]) } else { Err(TransportError::Silent { rank: 1 }) };
            assert_eq!(gather(&mut end, [3], Some(until)), expected);
        }
    }
}
