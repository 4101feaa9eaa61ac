//! Which tree is the fastest here, by a short measurement.
//!
//! With fewer processors than members, and little to do, it is mostly the one with everybody below the maker: nobody gains by
//! others sending on. With a processor each it may be a narrow one, in which many send at once. [`Member::calibrate`] makes a
//! call of the user's own over several trees in turn and says how long each took; whoever makes many calls to the same members
//! does it once.
//!
//! ```
//! # use std::time::Duration;
//! # use umbra::call::{Member, Shape, Station};
//! # use umbra_core::chain::{Call, Node, Plan, Tag, Verdict};
//! # let station = Station::create("example", Shape::new(1))?;
//! # let mut member = Member::join(&station, Node(0))?;
//! # member.register("step", |_| Verdict::Done)?;
//! # let members = [Node(0)];
//! let step = Call::new(Tag::of("step"), &members);
//! let [fastest, ..] = member.calibrate(&step, 20)?;
//! let step = Call { plan: Plan::Shape(fastest.tree), ..step };
//! let handle = member.start(&step)?;
//! member.wait(handle, Duration::from_secs(1))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: section 3.3 of the specification of chained calls asks for a choice by calibration; the shapes are those that it
//! names.

use std::time::{Duration, Instant};

use umbra_core::chain::{Call, Plan, StartError};
use umbra_core::tree::Shape;

use super::answer::WaitError;
use super::member::Member;

/// Trees that a calibration tries.
pub const TREES: [Shape; 5] =
    [Shape::FLAT, Shape::BINARY, Shape::BINOMIAL, or_flat(Shape::knomial(4)), or_flat(Shape::knomial(8))];
/// More rounds tell no more.
const ROUNDS_MAX: u32 = 10_000;

const fn or_flat(shape: Option<Shape>) -> Shape {
    match shape {
        Some(shape) => shape,
        None => Shape::FLAT,
    }
}

/// A tree that was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried {
    /// The tree.
    pub tree: Shape,
    /// Half of the calls over it took no longer, from their start until their answer was there; [`Duration::MAX`] if the member
    /// has no room for a call over this tree.
    pub half: Duration,
}

/// Why no tree was chosen. No call of the calibration is open any more.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A call was not begun; nothing of it was sent.
    #[error("no tree is chosen, a call could not be begun: {0}")]
    Start(#[from] StartError),
    /// A call failed.
    #[error("no tree is chosen, a call failed: {0}")]
    Wait(#[from] WaitError),
}

impl Member {
    /// Makes this call over each of [`TREES`] so many times in turn, at least once and at most 10,000 times, and says how long that
    /// took: the fastest tree first. Before each call that counts there is one that does not, because a list that was called
    /// before over the same tree is laid out already: so there are ten calls a round, each of which may take as long as this one.
    ///
    /// The plan of the call does not matter, but for [`Plan::Led`]: then the trees are those below the first of the list.
    /// The function runs everywhere in each of these calls, whose answers are thrown away; one that may not run for nothing
    /// has a built-in one ([`barrier`](super::built_in::barrier)) take its place. A tree for which there is no room here is
    /// left out, and is the last of those that are told.
    ///
    /// # Errors
    /// [`CalibrateError`] of the first call that fails or is not begun for another reason, or if there is room for none of the
    /// trees; no more are made.
    pub fn calibrate(&mut self, call: &Call<'_>, rounds: u32) -> Result<[Tried; TREES.len()], CalibrateError> {
        let mut times: [Vec<_>; TREES.len()] = Default::default();
        for _ in 0..rounds.clamp(1, ROUNDS_MAX) {
            let mut refused = None;
            for (&tree, times) in TREES.iter().zip(&mut times) {
                let plan = if matches!(call.plan, Plan::Led(_)) { Plan::Led(tree) } else { Plan::Shape(tree) };
                let call = Call { plan, ..*call };
                match self.time(&call).and_then(|_| self.time(&call)) {
                    Ok(time) => times.push(time),
                    // Another tree has fewer children, or fewer levels.
                    Err(CalibrateError::Start(error @ (StartError::TooLarge { .. } | StartError::TooDeep { .. }))) => {
                        refused = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            if let Some(error) = refused.filter(|_| times.iter().all(Vec::is_empty)) {
                return Err(error.into());
            }
        }
        Ok(ranked(times))
    }

    fn time(&mut self, call: &Call<'_>) -> Result<Duration, CalibrateError> {
        let start = Instant::now();
        let handle = self.start(call)?;
        // A call ends by itself when its time is over.
        self.wait(handle, Duration::MAX)?;
        Ok(start.elapsed())
    }
}

/// The trees in the order of the times that half of their calls took at most.
fn ranked(mut times: [Vec<Duration>; TREES.len()]) -> [Tried; TREES.len()] {
    let mut tried = std::array::from_fn(|at| {
        let times = &mut times[at];
        times.sort_unstable();
        Tried { tree: TREES[at], half: times.get(times.len() / 2).copied().unwrap_or(Duration::MAX) }
    });
    tried.sort_by_key(|tried| tried.half);
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_first_half_of_whose_calls_were_over_the_soonest() {
        let times = [[9, 1, 9], [5, 4, 3], [2, 90, 4], [7, 7, 7], [6, 5, 6]];
        let times = times.map(|times| times.map(Duration::from_micros).to_vec());
        let [flat, binary, binomial, four, eight] = TREES;
        let order = |tried: [Tried; TREES.len()]| tried.map(|tried| (tried.tree, tried.half.as_micros()));
        assert_eq!(order(ranked(times.clone())), [(binary, 4), (binomial, 4), (eight, 6), (four, 7), (flat, 9)]);
        let mut without = times;
        without[1].clear();
        assert_eq!(order(ranked(without))[4], (binary, Duration::MAX.as_micros()));
    }
}
