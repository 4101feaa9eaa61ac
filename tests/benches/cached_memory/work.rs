//! What is asked for: two mixes of lengths, and skewed ids.

use std::collections::{HashSet, VecDeque};

use umbra_tests::bench::Report;

use crate::{CAPACITY, TOGETHER};

/// Data in use at any time.
pub(crate) const IN_USE: usize = 64;

/// A distribution of lengths; data has the same length whenever it is asked for.
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    len: fn(u64) -> u64,
    /// The mean length, about.
    mean: u64,
}

pub(crate) const MIXES: [Mix; 2] = [
    // Every logarithm between those of 256 B and 64 KiB is equally likely.
    Mix { name: "log-uniform 256 B-64 KiB", len: |bits| (256.0 * part(bits).exp2().powi(8)) as u64, mean: 11_766 },
    Mix { name: "90 % 4 KiB, 10 % up to 512 KiB", len: mostly, mean: 30_100 },
];

/// In 0..1.
fn part(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

fn mostly(bits: u64) -> u64 {
    if bits.is_multiple_of(10) { 4096 + (part(bits) * 508.0 * 1024.0) as u64 } else { 4096 }
}

impl Mix {
    /// Ids of which all data together is four times the memory.
    fn ids(&self) -> f64 {
        (4 * CAPACITY / self.mean) as f64
    }

    /// Whether the command line asks for a row of it.
    pub(crate) fn is_wanted(&self, report: &Report) -> bool {
        ["alloc", "free", "longest alloc", "evictions an alloc", "loaded", "flushes"]
            .iter()
            .any(|what| report.wants(&format!("{what}, {}", self.name)))
    }
}

/// The same bits for each number.
fn scatter(small: u64) -> u64 {
    let mixed = (small ^ (small >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The requests, the same for all sides.
pub(crate) struct Requests<'a> {
    mix: &'a Mix,
    state: u64,
    in_use: VecDeque<u64>,
    wanted: Vec<(u64, u64)>,
    done: Vec<u64>,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(mix: &'a Mix) -> Self {
        Requests { mix, state: 1, in_use: VecDeque::new(), wanted: Vec::new(), done: Vec::new() }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scatter(self.state)
    }

    /// Data and its length.
    fn one_of(&mut self, ids: f64) -> (u64, u64) {
        // By inversion: the density falls with the root of the number of the id.
        let data = (part(self.bits()).powi(2) * ids) as u64;
        (data, (self.mix.len)(scatter(data.wrapping_add(1))))
    }

    /// Single requests for an eighth of all data, which all fit.
    pub(crate) fn of_present(mix: &'a Mix, count: usize) -> Vec<(u64, u64)> {
        let mut requests = Requests::new(mix);
        (0..count).map(|_| requests.one_of(mix.ids() / 8.0)).collect()
    }

    /// Data with their lengths that are wanted together, and which ones are done with before.
    pub(crate) fn next(&mut self) -> (&[(u64, u64)], &[u64]) {
        let count = if self.bits().is_multiple_of(16) { TOGETHER } else { 1 };
        self.wanted.clear();
        self.done.clear();
        for _ in 0..count {
            let (data, len) = self.one_of(self.mix.ids());
            self.wanted.push((data, len));
            self.in_use.push_back(data);
        }
        let over = self.in_use.len().saturating_sub(IN_USE + count);
        self.done.extend(self.in_use.drain(..over));
        (&self.wanted, &self.done)
    }

    /// Bytes of all data that the requests after the first `skip` ones name.
    pub(crate) fn different(mix: &Mix, skip: usize, count: usize) -> u64 {
        let (mut requests, mut seen, mut bytes) = (Requests::new(mix), HashSet::new(), 0);
        for nth in 0..skip + count {
            let (wanted, _) = requests.next();
            bytes +=
                wanted.iter().filter(|&&(data, _)| nth >= skip && seen.insert(data)).map(|&(_, len)| len).sum::<u64>();
        }
        bytes
    }
}
