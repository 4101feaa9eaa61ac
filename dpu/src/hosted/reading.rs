//! Reading the slices of all ranks on behalf of a launcher.
//!
//! One order at a time: rank by rank, each rank's reads in order, the bytes digested as they come. A few reads are
//! outstanding at once; their bytes may arrive in any order and are put in order before they are digested.

use std::collections::{BTreeMap, VecDeque};

use umbra::admin::{ReadOrder, ReadResult, Slice};
use umbra::job::{Latency, Offsets};
use umbra_core::access::read::Delivery;
use umbra_core::error::Status;
use umbra_core::peer::Sp;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Op, Token};

/// Bytes of a read at most: what a launcher may make this process hold.
const READ_MOST: u64 = 1 << 30;

/// What kind of order it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
    /// Every slice whole, piece by piece.
    Slices,
    /// Random offsets.
    Random,
}

/// A read that should be made now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub(super) slice: Slice,
    pub(super) address: u64,
    pub(super) len: u64,
    /// Names the read until it has ended.
    pub(super) tag: u64,
}

struct Flying {
    wanted: Wanted,
    began: Time,
    bytes: Vec<u8>,
    have: u64,
    /// Its request has started over.
    again: bool,
    done: bool,
}

enum Plan {
    Whole { next: u64 },
    Random(Offsets),
}

/// An order that is being carried out.
pub(super) struct Reading {
    pub(super) op: Op,
    pub(super) token: Token,
    order: ReadOrder,
    pattern: Pattern,
    me: Sp,
    slices: VecDeque<Slice>,
    plan: Option<Plan>,
    digest: blake3::Hasher,
    current: Option<ReadResult>,
    flying: BTreeMap<u64, Flying>,
    next_tag: u64,
    results: Vec<ReadResult>,
}

impl Reading {
    pub(super) fn new(
        op: Op,
        token: Token,
        order: ReadOrder,
        pattern: Pattern,
        me: Sp,
        slices: &[Slice],
        first_tag: u64,
    ) -> Reading {
        Reading {
            op,
            token,
            order,
            pattern,
            me,
            slices: slices.iter().copied().collect(),
            plan: None,
            digest: blake3::Hasher::new(),
            current: None,
            flying: BTreeMap::new(),
            next_tag: first_tag,
            results: Vec::new(),
        }
    }

    /// How long a read may take, in nanoseconds.
    pub(super) const fn patience(&self) -> u64 {
        self.order.patience
    }

    /// Reads that have not ended.
    pub(super) fn outstanding(&self) -> usize {
        self.flying.len()
    }

    /// The results and the first unused tag, once everything has ended.
    pub(super) fn finished(&self) -> Option<(&[ReadResult], u64)> {
        (self.slices.is_empty() && self.current.is_none()).then_some((self.results.as_slice(), self.next_tag))
    }

    /// A read that is to be made once more, and its deadline.
    pub(super) fn again(&mut self, tag: u64) -> Option<(Wanted, Time)> {
        self.restart(tag);
        let Flying { wanted, began, .. } = self.flying.get(&tag)?;
        Some((*wanted, *began + Lapse(self.order.patience)))
    }

    /// The next read to begin, if there is one now: reads of two ranks are never mixed.
    pub(super) fn next(&mut self, now: Time) -> Option<Wanted> {
        loop {
            let slice = *self.slices.front()?;
            let current = self.current.get_or_insert(ReadResult {
                rank: slice.rank,
                reads: 0,
                bytes: 0,
                failed: 0,
                status: Status::Ok,
                digest: [0; 32],
            });
            let give_up = current.failed > 0;
            let plan = self.plan.get_or_insert_with(|| match self.pattern {
                Pattern::Slices => Plan::Whole { next: 0 },
                Pattern::Random => {
                    let ReadOrder { size, reads, seed, .. } = self.order;
                    Plan::Random(Offsets::new(seed, self.me, slice.rank, slice.len, size, reads))
                }
            });
            let offset = match plan {
                _ if give_up => None,
                Plan::Whole { next } => {
                    let offset = *next;
                    *next = offset.saturating_add(self.order.size);
                    (offset < slice.len).then_some(offset)
                }
                Plan::Random(offsets) => offsets.next(),
            };
            match offset {
                Some(offset) => match room(slice, offset, self.order.size) {
                    Ok((address, bytes)) => {
                        let tag = self.next_tag;
                        self.next_tag += 1;
                        let wanted = Wanted { slice, address, len: bytes.len() as u64, tag };
                        self.flying
                            .insert(tag, Flying { wanted, began: now, bytes, have: 0, again: false, done: false });
                        return Some(wanted);
                    }
                    Err(status) => {
                        current.failed += 1;
                        current.status = status;
                    }
                },
                None if self.flying.is_empty() => self.close(),
                None => return None,
            }
        }
    }

    /// All reads of a rank have ended.
    fn close(&mut self) {
        self.slices.pop_front();
        self.plan = None;
        if let Some(mut result) = self.current.take() {
            result.digest = *self.digest.finalize().as_bytes();
            self.results.push(result);
        }
        self.digest.reset();
    }

    /// Where bytes at `at` of read `tag` belong.
    pub(super) fn buffer(&mut self, tag: u64, at: u64, len: u64) -> Option<&mut [u8]> {
        let flying = self.flying.get_mut(&tag)?;
        let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
        flying.have += len as u64;
        flying.bytes.get_mut(at..at.checked_add(len)?)
    }

    /// The bytes of a read come once more, from the first on.
    pub(super) fn restart(&mut self, tag: u64) {
        if let Some(flying) = self.flying.get_mut(&tag) {
            (flying.have, flying.again) = (0, false);
        }
    }

    /// Where the bytes of a delivery belong. What came before its request started over is not counted, though its bytes
    /// may come in any order.
    pub(super) fn buffer_of(&mut self, delivery: &Delivery<'_>, len: u64) -> Option<&mut [u8]> {
        let &Delivery { tag, at, again, .. } = delivery;
        if let Some(flying) = self.flying.get_mut(&tag)
            && again
            && !flying.again
        {
            (flying.have, flying.again) = (0, true);
        }
        self.buffer(tag, at, len)
    }

    /// A read has ended; tells how long it took and how many bytes it brought if it ended well.
    pub(super) fn ended(&mut self, tag: u64, status: Status, now: Time) -> Option<(u64, u64)> {
        let flying = self.flying.get_mut(&tag)?;
        flying.done = true;
        let took = now.since(flying.began).0;
        let len = flying.bytes.len() as u64;
        let status = if status == Status::Ok && flying.have != len { Status::CopyFailed } else { status };
        let current = self.current.as_mut()?;
        if status == Status::Ok {
            current.reads += 1;
            current.bytes += len;
        } else {
            current.failed += 1;
            current.status = status;
        }
        while let Some(first) = self.flying.first_entry()
            && first.get().done
        {
            self.digest.update(&first.remove().bytes);
        }
        (status == Status::Ok).then_some((took, len))
    }
}

/// Where a read begins, and memory for its bytes; both come from a launcher, who may have made a mistake.
fn room(slice: Slice, offset: u64, size: u64) -> Result<(u64, Vec<u8>), Status> {
    let len = size.min(slice.len.saturating_sub(offset));
    let address = slice.address.checked_add(offset).filter(|address| address.checked_add(len).is_some());
    let (Some(address), Ok(count), ..=READ_MOST) = (address, usize::try_from(len), len) else {
        return Err(Status::OutOfBounds);
    };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| Status::Full)?;
    bytes.resize(count, 0);
    Ok((address, bytes))
}

/// What one way of reading has cost so far.
#[derive(Clone, Debug, Default)]
pub(super) struct PathCost {
    pub(super) reads: u64,
    pub(super) bytes: u64,
    pub(super) busy: u64,
    pub(super) latency: Latency,
}

impl PathCost {
    pub(super) fn note(&mut self, took: u64, bytes: u64) {
        self.reads += 1;
        self.bytes += bytes;
        self.busy += took;
        // It grows as needed; over 2^63 ns it would refuse.
        let _ = self.latency.record(took.max(1), 1);
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::access::message::Description;
    use umbra_core::access::read::{Bytes, Get, Landing, Piece, Place, Reader, Server, Waiting};
    use umbra_core::key::{Access, Key};
    use umbra_core::machine::{Action, Link};
    use umbra_core::peer::{Incarnation, Peer, WorldRank};
    use umbra_core::pending::Request;
    use umbra_core::region::Region;
    use umbra_core::slots::Slot;
    use umbra_core::wire::Frame;

    use super::*;

    #[test]
    fn reads_that_nobody_can_hold_are_refused_and_the_others_made() {
        let slice = |rank, address, len| Slice { rank: WorldRank(rank), address, len };
        let slices = [slice(0, 0, u64::MAX), slice(1, u64::MAX - 99, 200), slice(2, 4096, 100)];
        let order = ReadOrder { size: u64::MAX, reads: 3, seed: 5, patience: 1 };
        let mut reading = Reading::new(Op(1), Token(1), order, Pattern::Slices, Sp(0), &slices, 7);
        let wanted = reading.next(Time::ZERO).unwrap();
        assert_eq!((wanted.address, wanted.len, wanted.tag), (4096, 100, 7));
        reading.buffer(wanted.tag, 0, 100).unwrap().fill(3);
        assert_eq!(reading.ended(wanted.tag, Status::Ok, Time::ZERO), Some((0, 100)));
        assert_eq!(reading.next(Time::ZERO), None);
        let (results, next) = reading.finished().unwrap();
        let seen: Vec<_> = results.iter().map(|result| (result.failed, result.status, result.bytes)).collect();
        assert_eq!(seen, [(1, Status::OutOfBounds, 0), (1, Status::OutOfBounds, 0), (0, Status::Ok, 100)]);
        assert_eq!(next, 8);
    }

    /// What a service process says of a read of two pieces whose region is replaced between them.
    #[test]
    fn a_read_that_starts_over_after_a_part_of_it_came_ends_well() {
        let owner = Peer::rank(WorldRank(2)).unwrap();
        let slices = [Slice { rank: WorldRank(2), address: 4096, len: 128 }];
        let order = ReadOrder { size: 128, reads: 1, seed: 5, patience: 1 };
        let mut reading = Reading::new(Op(1), Token(1), order, Pattern::Slices, Sp(0), &slices, 7);
        let wanted = reading.next(Time::ZERO).unwrap();
        let (requests, pieces) = (vec![Request::<Waiting>::EMPTY], vec![Slot::<Piece>::EMPTY, Slot::EMPTY]);
        let mut reader = Reader::new(requests, pieces, vec![Place::default()], vec![Server::default()]);
        reader.on_link(Link(0), Sp(1), Landing::Segment { slots: 2, slot_bytes: 64 }).unwrap();
        let Wanted { address, len, tag, .. } = wanted;
        let get = Get { owner, via: Link(0), address, len, deadline: Time::NEVER, tag, region: None };
        reader.get(get).unwrap();
        let asked = |reader: &mut Reader<_, _, _, _>| {
            let mut buffer = [0; 256];
            let Some(Action::Send { len_bytes, .. }) = reader.poll(&mut buffer) else { panic!("nothing is asked") };
            let frame = Frame::parse(&buffer[..len_bytes]).unwrap();
            let Frame::Call { op, token, .. } = frame else { panic!("{frame:?}") };
            (op, token)
        };
        let mut answer = |reader: &mut Reader<_, _, _, _>, (op, token): (Op, Token), status, body: &[u8]| {
            let delivery = reader.on_frame(Link(0), &Frame::Done { op, token, status, body })?;
            let Bytes::Landed(landed) = delivery.bytes else { panic!("{delivery:?}") };
            reading.buffer_of(&delivery, landed.len).unwrap().fill(3);
            reader.consumed(landed);
            Some(delivery.last)
        };
        for life in [1, 2] {
            let key = Key::new(owner, 0, life);
            let region =
                Region { key, incarnation: Incarnation(u64::from(life)), base: 4096, len: 128, access: Access::READ };
            let locate = asked(&mut reader);
            assert_eq!(answer(&mut reader, locate, Status::Ok, &Description(region).to_bytes()), None);
            let pieces = [asked(&mut reader), asked(&mut reader)];
            if life == 1 {
                assert_eq!(answer(&mut reader, pieces[0], Status::Ok, &[]), Some(false));
                assert_eq!(answer(&mut reader, pieces[1], Status::StaleKey, &[]), None);
            } else {
                // The last piece first.
                assert_eq!(answer(&mut reader, pieces[1], Status::Ok, &[]), Some(false));
                assert_eq!(answer(&mut reader, pieces[0], Status::Ok, &[]), Some(true));
            }
        }
        assert_eq!(reading.ended(tag, Status::Ok, Time::ZERO), Some((0, 128)));
    }
}
