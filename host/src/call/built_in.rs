//! Functions that every member can have, by which an agent works for its ranks.
//!
//! None of the ranks that live with it is woken for that. A member that [has them](Member::serve_built_ins) keeps a
//! [`Board`]: a value of some bytes and a counter for each of the members that live with it. Calls write and read them
//! there, so whoever else computes or sleeps is left alone.
//!
//! | function | request | reply |
//! |---|---|---|
//! | [`BARRIER`] | nothing | nothing but the confirmation that everybody has run it |
//! | [`BROADCAST`] | data | nothing; the data is everybody's value from now on |
//! | [`GATHER`] | nothing | data: for each member its number and the length of its value, then the value |
//! | [`REDUCE`] | header: [`Operator`], [`Number`] | data: all values that there are, combined number by number |
//! | [`COUNT`] | header: what to add to every counter | data: the sum of all counters, which wraps |
//!
//! All numbers are little-endian. A value is set for one member by a broadcast to that one alone.
//!
//! As callbacks they combine what functions of the user answer: [`REDUCE`] arrays of numbers, by the operation with which the
//! header begins, [`COUNT`] adds numbers of eight bytes, and [`GATHER`] puts answers one behind the other.
//!
//! *Cost*: after the start nothing is allocated; each run takes a lock that nobody else holds for long.
//!
//! [`Operator`]: super::Operator
//! [`Number`]: super::Number

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use umbra_core::chain::{Call, Caps, Data, Mode, Node, Phase, RegisterError, Tag, Verdict, Work};

use super::Member;
use super::numbers::{combine, operation};
use crate::sys::heap;

/// Everybody runs it: when the call is done, all were there.
pub const BARRIER: &str = "umbra.barrier";
/// Everybody keeps the data of the call as its value.
pub const BROADCAST: &str = "umbra.broadcast";
/// The values of all, in the order of the list.
pub const GATHER: &str = "umbra.gather";
/// The values of all, combined number by number.
pub const REDUCE: &str = "umbra.reduce";
/// Adds to everybody's counter; answers the sum.
pub const COUNT: &str = "umbra.count";

/// Why a built-in function failed: the number of its [fault](Verdict::Fault).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[non_exhaustive]
pub enum Why {
    /// The value is longer than the board keeps.
    TooLong = 1,
    /// The data of the call is no bytes that come with it.
    Elsewhere = 2,
    /// The header names no operation, or one that these numbers have not.
    NoOperation = 3,
    /// Values have different lengths, or are no whole numbers.
    Lengths = 4,
}

impl From<Why> for Verdict {
    fn from(why: Why) -> Verdict {
        Verdict::Fault(why as u32)
    }
}

/// A call of [`BARRIER`].
#[must_use]
pub const fn barrier(members: &[Node]) -> Call<'_> {
    Call::new(Tag::of(BARRIER), members)
}

/// A call of [`BROADCAST`].
#[must_use]
pub const fn broadcast<'a>(members: &'a [Node], value: &'a [u8]) -> Call<'a> {
    Call { data: Data::Bytes(value), ..Call::new(Tag::of(BROADCAST), members) }
}

/// A call of [`GATHER`], of values with so many bytes together at most.
#[must_use]
pub const fn gather(members: &[Node], bytes: u32) -> Call<'_> {
    let caps = Caps { header: 0, data: bytes.saturating_add(ENTRY as u32 * members.len() as u32) };
    Call { callback: Tag::of(GATHER), caps, mode: Mode::ORDERED, ..Call::new(Tag::of(GATHER), members) }
}

/// A call of [`REDUCE`] over values of at most so many bytes each; the header is a [`reduction`](super::reduction).
#[must_use]
pub const fn reduce<'a>(members: &'a [Node], header: &'a [u8; 2], bytes: u32) -> Call<'a> {
    let caps = Caps { header: 0, data: bytes };
    Call { callback: Tag::of(REDUCE), caps, header, ..Call::new(Tag::of(REDUCE), members) }
}

/// A call of [`COUNT`] that adds an `i64`.
#[must_use]
pub const fn count<'a>(members: &'a [Node], add: &'a [u8; 8]) -> Call<'a> {
    let caps = Caps { header: 0, data: 8 };
    Call { callback: Tag::of(COUNT), caps, header: add, ..Call::new(Tag::of(COUNT), members) }
}

/// Bytes before each value that was gathered.
const ENTRY: usize = 8;

/// The entries of a reply to [`GATHER`]: members and their values.
pub fn entries(mut data: &[u8]) -> impl Iterator<Item = (Node, &[u8])> {
    std::iter::from_fn(move || {
        let (&node, rest) = data.split_first_chunk::<4>()?;
        let (&len, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(len) as usize)?;
        data = rest;
        Some((Node(u32::from_le_bytes(node)), value))
    })
}

#[derive(Debug)]
struct Kept {
    /// Bytes that a value can have.
    most: usize,
    values: Vec<u8>,
    lens: Vec<usize>,
    counters: Vec<i64>,
    /// The number of the first member.
    first: u32,
}

impl Kept {
    /// The how-manieth member it is; of one that is none the place is beyond all.
    const fn at(&self, node: Node) -> usize {
        match node.0.checked_sub(self.first) {
            Some(at) if (at as usize) < self.lens.len() => at as usize,
            _ => self.lens.len(),
        }
    }

    fn value(&self, node: Node) -> &[u8] {
        let at = self.at(node);
        let len = self.lens.get(at).copied().unwrap_or(0);
        let start = at * self.most;
        self.values.get(start..start + len).unwrap_or(&[])
    }

    fn set(&mut self, node: Node, value: &[u8]) -> Result<(), Why> {
        let at = self.at(node);
        let start = at * self.most;
        let room = self.values.get_mut(start..start + self.most).and_then(|room| room.get_mut(..value.len()));
        room.ok_or(Why::TooLong)?.copy_from_slice(value);
        if let Some(len) = self.lens.get_mut(at) {
            *len = value.len();
        }
        Ok(())
    }
}

/// What built-in functions keep, for each member that lives with whoever serves them; copies are the same board.
#[derive(Clone, Debug)]
pub struct Board(Arc<Mutex<Kept>>);

impl Board {
    fn new(first: u32, members: usize, most: usize) -> Result<Board, RegisterError> {
        let values = heap::filled(0, members.saturating_mul(most)).map_err(|_| RegisterError::NoMemory)?;
        let (lens, counters) = (vec![0; members], vec![0; members]);
        Ok(Board(Arc::new(Mutex::new(Kept { first, most, values, lens, counters }))))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // What is kept is bytes and numbers: whoever panicked beside them has left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a member; empty if it has none.
    #[must_use]
    pub fn value(&self, node: Node) -> Vec<u8> {
        self.kept().value(node).to_vec()
    }

    /// Sets the value of a member.
    ///
    /// # Errors
    /// [`Why::TooLong`] if it has more bytes than are kept, or there is no such member; nothing has changed then.
    pub fn set(&self, node: Node, value: &[u8]) -> Result<(), Why> {
        self.kept().set(node, value)
    }

    /// The counter of a member.
    #[must_use]
    pub fn counter(&self, node: Node) -> i64 {
        let kept = self.kept();
        kept.counters.get(kept.at(node)).copied().unwrap_or(0)
    }

    fn broadcast(&self, work: &Work<'_>) -> Verdict {
        let Data::Bytes(value) = work.data else { return Why::Elsewhere.into() };
        self.set(work.node, value).map_or_else(Verdict::from, |()| Verdict::Done)
    }

    fn gather(&self, work: &mut Work<'_>) -> Verdict {
        // A reply that is too large fails the call by that name.
        let _ = match work.phase {
            Phase::Wait(answer) => work.reply.push_data(answer.data),
            Phase::Init | Phase::Probe => {
                let kept = self.kept();
                let value = kept.value(work.node);
                let [a, b, c, d] = work.node.0.to_le_bytes();
                let [e, f, g, h] = (value.len() as u32).to_le_bytes();
                work.reply.push_data(&[a, b, c, d, e, f, g, h]).and_then(|()| work.reply.push_data(value))
            }
        };
        Verdict::Done
    }

    fn reduce(&self, work: &mut Work<'_>) -> Verdict {
        // The header of another function has more behind the operation.
        let (header, more) = work.header.split_at_checked(2).unwrap_or((work.header, &[]));
        let is_one = more.is_empty() || matches!(work.phase, Phase::Wait(_));
        let Some((operator, number)) = operation(header).filter(|_| is_one) else { return Why::NoOperation.into() };
        match work.phase {
            Phase::Init | Phase::Probe => {
                let kept = self.kept();
                let value = kept.value(work.node);
                if !value.len().is_multiple_of(number.bytes()) {
                    return Why::Lengths.into();
                }
                let _ = work.reply.set_data(value);
            }
            Phase::Wait(answer) => {
                let ours = work.reply.data_mut();
                if [ours.len(), answer.data.len()].iter().any(|len| !len.is_multiple_of(number.bytes())) {
                    return Why::Lengths.into();
                }
                if ours.is_empty() || answer.data.is_empty() {
                    // Whoever has no value leaves it to the others.
                    let _ = work.reply.push_data(answer.data);
                    return Verdict::Done;
                }
                if ours.len() != answer.data.len() {
                    return Why::Lengths.into();
                }
                combine(operator, number, ours, answer.data);
            }
        }
        Verdict::Done
    }

    fn count(&self, work: &mut Work<'_>) -> Verdict {
        let sum = match work.phase {
            Phase::Init | Phase::Probe => {
                let Ok(add) = work.header.try_into() else { return Why::NoOperation.into() };
                let mut kept = self.kept();
                let at = kept.at(work.node);
                let Some(counter) = kept.counters.get_mut(at) else { return Why::TooLong.into() };
                *counter = counter.wrapping_add(i64::from_le_bytes(add));
                *counter
            }
            Phase::Wait(answer) => match (work.reply.data().try_into(), answer.data.try_into()) {
                // Of a maker that only makes the call.
                (Err(_), Ok(theirs)) if work.reply.data().is_empty() => i64::from_le_bytes(theirs),
                (Ok(ours), Ok(theirs)) => i64::from_le_bytes(ours).wrapping_add(i64::from_le_bytes(theirs)),
                _ => return Why::Lengths.into(),
            },
        };
        let _ = work.reply.set_data(&sum.to_le_bytes());
        Verdict::Done
    }
}

impl Member {
    /// Registers the built-in functions, over values of at most so many bytes for each member of the station.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn serve_built_ins(&mut self, value_bytes: usize) -> Result<Board, RegisterError> {
        let shape = self.station.shape();
        let board = Board::new(shape.first, usize::from(shape.members), value_bytes)?;
        let (a, b, c, d) = (board.clone(), board.clone(), board.clone(), board.clone());
        self.register(BARRIER, |_| Verdict::Done)?;
        self.register(BROADCAST, move |work| a.broadcast(work))?;
        self.register(GATHER, move |work| b.gather(work))?;
        self.register(REDUCE, move |work| c.reduce(work))?;
        self.register(COUNT, move |work| d.count(work))?;
        Ok(board)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Shape, Station};
    use super::*;

    #[test]
    fn room_for_values_that_is_more_than_can_be_said_is_not_taken_for_less() {
        let members = [0, 1, 2].map(Node);
        for (bytes, room) in [(0, 24), (u32::MAX - 24, u32::MAX), (u32::MAX - 23, u32::MAX), (u32::MAX, u32::MAX)] {
            assert_eq!(gather(&members, bytes).caps.data, room, "{bytes}");
        }
    }

    #[test]
    fn values_for_which_there_is_no_memory_are_refused_and_nothing_is_registered() {
        let station = Station::create("values", Shape::new(3)).unwrap();
        let mut member = Member::join(&station, Node(0)).unwrap();
        for bytes in [usize::MAX, usize::MAX / 3 + 1, usize::MAX / 4, isize::MAX as usize / 3] {
            assert_eq!(member.serve_built_ins(bytes).map(drop), Err(RegisterError::NoMemory), "{bytes}");
        }
        member.serve_built_ins(8).unwrap();
    }

    #[test]
    fn entries_that_are_cut_short_end_the_list() {
        let data = [&[7, 0, 0, 0, 2, 0, 0, 0][..], b"ab", &[8, 0, 0, 0, 9, 0, 0, 0], b"short"].concat();
        assert_eq!(entries(&data).collect::<Vec<_>>(), [(Node(7), &b"ab"[..])]);
    }
}
