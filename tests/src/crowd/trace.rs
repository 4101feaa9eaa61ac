//! What members of a crowd saw, counted, and how it travels to the test.

use std::collections::BTreeMap;

/// What was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum What {
    /// A function began; `other` is the parent, [`NOBODY`] at the maker.
    Began = 1,
    /// A pending function was asked again.
    Probed,
    /// A callback ran; `other` is the child, `aux` the members of its subtree.
    Combined,
    /// User code ran for the same call, or the same answer, again.
    Twice,
    /// User code ran while other user code of the member did.
    Nested,
    /// A header came; `other` is its length, `aux` the sum of its bytes.
    Header,
    /// Data came; likewise.
    Data,
    /// A call ended well that the member had made; `other` is how many took part.
    Done,
    /// Such a call failed; `other` is the origin, `aux` stage and code.
    Failed,
    /// Such a call was refused, or ended in no time.
    Refused,
    /// Such a call ended with another sum than its members have, or with tallies that do not add up.
    Wrong,
    /// A function was told all members of its call; `other` is how many, `aux` the sum of their names in their order.
    Listed,
}

/// The parent of the maker.
pub const NOBODY: u32 = u32::MAX;

const ALL: [What; 12] = [
    What::Began,
    What::Probed,
    What::Combined,
    What::Twice,
    What::Nested,
    What::Header,
    What::Data,
    What::Done,
    What::Failed,
    What::Refused,
    What::Wrong,
    What::Listed,
];

/// The most bytes that a trace may have on its way.
pub const BYTES: u32 = 4096;

/// What one member saw.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Calls under way there, and one more while it makes some.
    pub calls: u32,
    /// The most that were under way at once.
    pub peak: u32,
    /// Counts of its machine so far: refusals for lack of room, cancellations, messages that nobody waited for, requests, signs
    /// of life.
    pub figures: [u32; 5],
    /// What was seen how often, since this was asked last.
    pub counts: BTreeMap<(What, u32, u32), u32>,
}

impl Trace {
    /// Notes that something was seen.
    pub fn note(&mut self, what: What, other: u32, aux: u32) {
        *self.counts.entry((what, other, aux)).or_default() += 1;
    }

    /// As bytes, as many as may be.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [self.calls, self.peak].into_iter().chain(self.figures);
        let entries = self.counts.iter().flat_map(|(&(what, other, aux), &count)| [what as u32, other, aux, count]);
        head.chain(entries).flat_map(u32::to_le_bytes).collect()
    }

    /// From bytes; nothing for those that are none.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Trace> {
        let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let (&[calls, peak, a, b, c, d, e], entries) = words.split_first_chunk()?;
        let mut counts = BTreeMap::new();
        for &[what, other, aux, count] in entries.as_chunks::<4>().0 {
            let what = ALL.into_iter().find(|&known| known as u32 == what)?;
            counts.insert((what, other, aux), count);
        }
        Some(Trace { calls, peak, figures: [a, b, c, d, e], counts })
    }
}

/// What all members saw, by their number.
#[derive(Clone, Default, Debug)]
pub struct Traces(pub BTreeMap<u32, Trace>);

impl Traces {
    /// Everything of one kind: member, `other`, `aux` and how often.
    pub fn all(&self, what: What) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        let of = move |(&node, trace): (&u32, &Trace)| {
            let counts = trace.counts.clone().into_iter().filter(move |&((kind, ..), _)| kind == what);
            counts.map(move |((_, other, aux), count)| (node, other, aux, count))
        };
        self.0.iter().flat_map(of)
    }

    /// How often something was seen by anybody.
    #[must_use]
    pub fn count(&self, what: What) -> u32 {
        self.all(what).map(|(.., count)| count).sum()
    }

    /// Pairs of member and parent along which requests came, each as often as it did.
    #[must_use]
    pub fn parents(&self) -> Vec<(u32, u32)> {
        let began = self.all(What::Began).filter(|&(_, parent, ..)| parent != NOBODY);
        began.flat_map(|(node, parent, _, count)| std::iter::repeat_n((node, parent), count as usize)).collect()
    }

    /// Whose functions began.
    #[must_use]
    pub fn began(&self) -> Vec<u32> {
        self.all(What::Began).flat_map(|(node, .., count)| std::iter::repeat_n(node, count as usize)).collect()
    }

    /// Whose answers a member has combined.
    #[must_use]
    pub fn combined(&self, at: u32) -> Vec<u32> {
        self.all(What::Combined).filter(|&(node, ..)| node == at).map(|(_, child, ..)| child).collect()
    }

    /// The sum over all members of one of [the figures](Trace::figures).
    #[must_use]
    pub fn figure(&self, which: usize) -> u32 {
        self.0.values().map(|trace| trace.figures[which]).sum()
    }
}
