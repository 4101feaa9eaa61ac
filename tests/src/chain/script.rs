//! What user code does in a simulated world.

use std::collections::HashMap;

use umbra_core::chain::{Data, Node, Phase, Verdict, Work};
use umbra_core::key::{Key, Span};
use umbra_core::time::Lapse;

/// What user code does instead of its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Its work.
    Work,
    /// It fails with this number.
    Fault(u32),
    /// It panics.
    Panic,
    /// It is pending for ever.
    Hang,
    /// It is pending for so long.
    Slow(Lapse),
    /// It answers more than is allowed.
    Excess,
    /// It makes a call, and ends as that does.
    Within,
}

/// The header of calls that functions make; in those everybody does the work.
pub(super) const INNER: &[u8] = &[0];
/// Where data of random calls lies that is not in the request.
pub(super) const ELSEWHERE: Span = Span { key: Key::from_bits(0x0123_4567_89ab_cdef), offset: 11, len: 1 << 40 };

/// Who does what: by member, and for callbacks by child as well.
#[derive(Clone, Default, Debug)]
pub struct Script {
    /// What functions do.
    pub functions: HashMap<Node, Act>,
    /// What callbacks do, by member and child.
    pub callbacks: HashMap<(Node, Node), Act>,
    /// Whom functions call that make a call.
    pub inner: Vec<Node>,
    /// What one function or callback does in one call, by its maker and its number there.
    pub once: HashMap<(Node, u64), (Node, Option<Node>, Act)>,
    /// Where data lies that is not in the request, if that is to be compared.
    pub span: Option<Span>,
    /// Of one call alone, by its number at its maker.
    pub only: Option<(Node, u64)>,
}

impl Script {
    pub(super) fn act(&self, work: &Work<'_>) -> Act {
        if work.header == INNER {
            return Act::Work;
        }
        if let Some(&(node, child, act)) = self.once.get(&(work.call.root, work.call.seq))
            && who(work) == (node, child)
        {
            return act;
        }
        if self.only.is_some_and(|(root, seq)| (work.call.root, work.call.seq) != (root, seq)) {
            return Act::Work;
        }
        let act = match who(work) {
            (node, None) => self.functions.get(&node),
            (node, Some(child)) => self.callbacks.get(&(node, child)),
        };
        act.copied().unwrap_or(Act::Work)
    }

    /// Sums the numbers of the members in the data, and lists them in the header, as far as both are asked for.
    pub(super) fn run(&self, work: &mut Work<'_>, act: Act) -> Verdict {
        match act {
            Act::Fault(number) => return Verdict::Fault(number),
            Act::Panic => return Verdict::Panic,
            Act::Hang => return Verdict::Pending,
            Act::Slow(_) | Act::Within if work.phase == Phase::Init => return Verdict::Pending,
            Act::Excess => {
                assert!(work.reply.set_data(&[0xee; 9000]).is_err(), "nothing of this size was allowed");
                return Verdict::Done;
            }
            Act::Work | Act::Slow(_) | Act::Within => {}
        }
        if matches!(work.data, Data::Span(span) if self.span.is_some_and(|expected| span != expected)) {
            return Verdict::Undecodable(0);
        }
        match work.phase {
            Phase::Init | Phase::Probe => {
                let number = u64::from(work.node.0) + work.header.first().map_or(0, |&extra| u64::from(extra));
                let words = work.rendezvous().map_or(1, |max| u64::from(max / 8));
                let data: Vec<u8> = (1..=words).flat_map(|word| (word * number).to_le_bytes()).collect();
                let _ = work.reply.caps().data >= 8 && work.reply.set_data(&data).is_ok();
                let _ = work.reply.caps().header >= 4 && work.reply.set_header(&work.node.0.to_le_bytes()).is_ok();
            }
            Phase::Wait(answer) => {
                let (theirs, ours) = (answer.data.as_chunks().0, work.reply.data_mut().as_chunks_mut().0);
                for (ours, theirs) in ours.iter_mut().zip(theirs) {
                    *ours = u64::from_le_bytes(*theirs).wrapping_add(u64::from_le_bytes(*ours)).to_le_bytes();
                }
                // Whoever only makes the call has no number of its own to add to.
                let _ = work.reply.data().is_empty() && work.reply.set_data(answer.data).is_ok();
                let _ = !answer.header.is_empty() && work.reply.push_header(answer.header).is_ok();
            }
        }
        Verdict::Done
    }
}

/// The number of which a reply has multiples: once, twice, and so on.
pub(super) fn number_of(data: &[u8]) -> Option<u64> {
    let (words, []) = data.as_chunks() else { return None };
    let number = u64::from_le_bytes(*words.first()?);
    let are_right = (1..).zip(words).all(|(word, &multiple)| number.wrapping_mul(word) == u64::from_le_bytes(multiple));
    are_right.then_some(number)
}

/// A work of user code, as far as scripts look at it.
fn who(work: &Work<'_>) -> (Node, Option<Node>) {
    let child = if let Phase::Wait(answer) = work.phase { Some(answer.from) } else { None };
    (work.node, child)
}
