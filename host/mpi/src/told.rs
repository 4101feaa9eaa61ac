//! What a rank has to say, as numbers: the form in which processes gather it.

use std::time::Duration;

use umbra::advect::{Frame, RankOutcome, Times};

/// An outcome as numbers; ranks have different numbers of them.
pub(crate) fn words(outcome: &RankOutcome) -> Vec<u64> {
    let Times { pack, send, wait, set, update, dealloc, remesh } = outcome.times;
    let mut words = vec![
        outcome.hash,
        outcome.max.to_bits(),
        outcome.nonzero,
        u64::from(outcome.wrong.is_some()),
        outcome.wrong.unwrap_or(0),
        outcome.field_bytes,
        outcome.messages_each,
        outcome.moved_blocks,
        outcome.attended,
    ];
    words.extend([pack, send, wait, set, update, dealloc, remesh].map(nanoseconds));
    words.extend(outcome.counts);
    words.extend(outcome.allocations);
    words.extend(outcome.slot_bytes);
    words.extend(outcome.held_bytes);
    words.extend(outcome.packed_bytes);
    for list in [&outcome.cycles_ns, &outcome.cycle_bytes, &outcome.cycle_field_bytes] {
        words.push(list.len() as u64);
        words.extend(list);
    }
    words.push(outcome.frames.len() as u64);
    for frame in &outcome.frames {
        words.extend([u64::from(frame.cycle), frame.blocks.len() as u64]);
        for (block, cells) in &frame.blocks {
            words.extend([u64::from(*block), cells.len() as u64]);
            words.extend(cells.chunks(8).map(|chunk| {
                let mut whole = [0; 8];
                whole[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(whole)
            }));
        }
    }
    words
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The outcome of these numbers; `None` if they are those of no outcome. What follows them is ignored.
pub(crate) fn outcome(words: &[u64]) -> Option<RankOutcome> {
    let mut from = Words(words);
    let [hash, max, nonzero, compared, wrong, field_bytes, messages_each, moved_blocks, attended] = from.array()?;
    let [pack, send, wait, set, update, dealloc, remesh] = from.array()?.map(Duration::from_nanos);
    Some(RankOutcome {
        hash,
        max: f64::from_bits(max),
        nonzero,
        wrong: (compared != 0).then_some(wrong),
        field_bytes,
        messages_each,
        moved_blocks,
        attended,
        times: Times { pack, send, wait, set, update, dealloc, remesh },
        counts: from.array()?,
        allocations: from.array()?,
        slot_bytes: from.array()?,
        held_bytes: from.array()?,
        packed_bytes: from.array()?,
        cycles_ns: from.list()?,
        cycle_bytes: from.list()?,
        cycle_field_bytes: from.list()?,
        frames: from.frames()?,
    })
}

/// Numbers that are read from the front.
struct Words<'w>(&'w [u64]);

impl Words<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn count(&mut self) -> Option<usize> {
        let [count] = self.array()?;
        usize::try_from(count).ok()
    }

    fn some(&mut self, count: usize) -> Option<&[u64]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn list(&mut self) -> Option<Vec<u64>> {
        let count = self.count()?;
        Some(self.some(count)?.to_vec())
    }

    fn frames(&mut self) -> Option<Vec<Frame>> {
        (0..self.count()?).map(|_| self.frame()).collect()
    }

    fn frame(&mut self) -> Option<Frame> {
        let [cycle] = self.array()?;
        let blocks = (0..self.count()?).map(|_| self.picture()).collect::<Option<_>>()?;
        Some(Frame { cycle: u32::try_from(cycle).ok()?, blocks })
    }

    fn picture(&mut self) -> Option<(u32, Vec<u8>)> {
        let [block] = self.array()?;
        let count = self.count()?;
        let mut cells: Vec<u8> = self.some(count.div_ceil(8))?.iter().flat_map(|word| word.to_le_bytes()).collect();
        cells.truncate(count);
        Some((u32::try_from(block).ok()?, cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RankOutcome {
        let time = Duration::from_nanos;
        RankOutcome {
            hash: u64::MAX,
            max: -0.5,
            nonzero: 3,
            wrong: Some(0),
            cycles_ns: vec![4, 5, 6],
            cycle_bytes: vec![7],
            cycle_field_bytes: Vec::new(),
            times: Times {
                pack: time(1),
                send: time(6),
                wait: time(2),
                set: time(3),
                update: time(4),
                dealloc: time(5),
                remesh: time(7),
            },
            counts: [1, 2, 3, 4, 5, 6],
            field_bytes: 8,
            allocations: [9, 10],
            moved_blocks: 15,
            slot_bytes: [11, 12, 13],
            held_bytes: [15, 16],
            packed_bytes: [16, 17],
            messages_each: 14,
            attended: 18,
            frames: vec![
                Frame { cycle: 1, blocks: Vec::new() },
                Frame { cycle: 2, blocks: vec![(3, (0..=20).collect()), (4, vec![255; 8])] },
            ],
        }
    }

    #[test]
    fn what_was_said_is_what_was_heard_whatever_follows_it() {
        for said in [example(), RankOutcome { wrong: None, frames: Vec::new(), ..example() }] {
            let mut numbers = words(&said);
            assert_eq!(outcome(&numbers).as_ref(), Some(&said));
            numbers.extend([9; 40]);
            assert_eq!(outcome(&numbers), Some(said));
        }
    }

    #[test]
    fn what_was_cut_is_no_outcome() {
        let numbers = words(&example());
        for len in 0..numbers.len() {
            assert_eq!(outcome(&numbers[..len]), None, "{len} of {}", numbers.len());
        }
    }
}
