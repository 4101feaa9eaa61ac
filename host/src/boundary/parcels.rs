//! Bytes that ranks hand each other between exchanges, such as blocks that move.
//!
//! They go where plans go, in parts that fit there:
//!
//! ```text
//! everybody to everybody    rounds that I need u64, the first part
//! as often as the most      the next part, which is empty where all was handed over
//! ```
//!
//! Each round has two votes: after the first everybody has written, and after the second everybody has read.

use umbra_core::codec::Reader;

use super::epoch::{elsewhere, others, read_all};
use super::error::BoundaryError;
use super::tasks::Boundary;
use super::transport::Transport;
use crate::sys::heap;

/// Bytes in front of the first part.
const ROUNDS: usize = 8;

impl<T: Transport> Boundary<T> {
    /// Hands `parcels` to the other ranks, one each in the order of ranks, and returns what these have for this one. All ranks do
    /// this together, between two exchanges. `part` bytes go at a time, 16 fewer than the largest message has at most, and no rank
    /// has more than `most` for another one; all ranks say the same of both.
    ///
    /// # Errors
    /// Those of [`close`](Self::close), and [`BoundaryError::Parcel`], which names a rank that has more than that, or whose parcels
    /// are not one for each rank; the others learn who has refused by [`BoundaryError::RefusedElsewhere`]. After an error on the
    /// way this end is [spent](Self::is_spent).
    pub fn hand_over(&mut self, parcels: &[Vec<u8>], part: u32, most: u64) -> Result<Vec<Vec<u8>>, BoundaryError> {
        self.usable()?;
        let is_one_each = parcels.len() == self.transport.ranks() as usize;
        let agreed = self.quiesce(!is_one_each);
        if !is_one_each {
            return Err(BoundaryError::Parcel { rank: self.transport.rank(), why: COUNT });
        }
        agreed.map_err(elsewhere)?;
        self.is_spent = true;
        let part = u64::from(part.max(1));
        let need = |parcel: &Vec<u8>| (parcel.len() as u64).div_ceil(part).max(1);
        let mut rounds = parcels.iter().map(need).max().unwrap_or(1);
        let mut came = vec![Vec::new(); self.transport.ranks() as usize];
        let mut round = 0;
        while round < rounds {
            let written = self.write_parts(parcels, round, part, rounds);
            let votes = self.vote(written.is_err());
            written?;
            votes.map_err(elsewhere)?;
            let read = self.read_parts(&mut came, round, part, most);
            let votes = self.vote(read.is_err());
            rounds = rounds.max(read?);
            votes.map_err(elsewhere)?;
            round += 1;
        }
        self.is_spent = false;
        Ok(came)
    }

    /// Learns whether all ranks have used what was [handed over](Self::hand_over), and tells it of this one: so nobody waits for a
    /// rank that has not. All ranks call this together.
    ///
    /// # Errors
    /// Those of [`close`](Self::close); [`BoundaryError::RefusedElsewhere`] if another rank has not.
    pub fn has_used(&mut self, well: bool) -> Result<(), BoundaryError> {
        self.quiesce(!well).map(|_| ()).map_err(elsewhere)
    }

    fn write_parts(&mut self, parcels: &[Vec<u8>], round: u64, part: u64, rounds: u64) -> Result<(), BoundaryError> {
        for rank in others(&self.transport) {
            let parcel = parcels.get(rank as usize).map_or(&[][..], Vec::as_slice);
            let ends = [round, round + 1].map(|nth| nth.saturating_mul(part).min(parcel.len() as u64) as usize);
            let bytes = parcel.get(ends[0]..ends[1]).unwrap_or(&[]);
            let first = if round == 0 { &rounds.to_le_bytes()[..] } else { &[] };
            self.transport.write_plan(rank, &[first, bytes].concat())?;
        }
        Ok(())
    }

    /// Adds a part of each rank to what came of it; how many rounds the others need, if they say so.
    fn read_parts(&self, came: &mut [Vec<u8>], round: u64, part: u64, most: u64) -> Result<u64, BoundaryError> {
        let mut rounds = 0;
        read_all(&self.transport, self.settings.deadline, others(&self.transport).collect(), |rank, read| {
            let refused = |why| BoundaryError::Parcel { rank, why };
            let (theirs, bytes) = match round {
                0 => (Reader::new(read).u64().map_err(|_| refused(SHORT))?, read.get(ROUNDS..).unwrap_or(&[])),
                _ => (0, read),
            };
            let all = came.get_mut(rank as usize).ok_or(refused(SHORT))?;
            let whole = (all.len() + bytes.len()) as u64;
            if theirs > most.div_ceil(part).max(1) || bytes.len() as u64 > part || whole > most {
                return Err(refused(LONG));
            }
            heap::more(all, bytes.len()).map_err(|_| refused(MEMORY))?;
            all.extend_from_slice(bytes);
            rounds = rounds.max(theirs);
            Ok(())
        })?;
        Ok(rounds)
    }
}

const COUNT: &str = "is not one parcel a rank: name as many as there are ranks, also empty ones";
const SHORT: &str = "has no beginning: use one version of the program";
const LONG: &str = "is more than a rank can have for another one: use one version of the program";
const MEMORY: &str = "finds no memory here: use more ranks";
