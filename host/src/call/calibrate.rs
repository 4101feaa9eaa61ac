//! Which tree is the fastest here, by a short measurement.
//!
//! With fewer processors than members, nobody gains by others sending on: everybody below the maker is the fastest. With a
//! processor each it is the narrow trees, in which many send at once. [`Member::calibrate`] makes a call of the user's own
//! over several trees in turn and says how long each took; whoever makes many calls to the same members does it once.
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
    /// Half of the calls over it took no longer, from their start until their answer was there.
    pub half: Duration,
}

/// Why no tree was chosen. All calls have ended.
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
    /// Makes this call over each of [`TREES`] so many times in turn, at least once, and says how long that took: the fastest
    /// tree first. One more call over each comes before and does not count.
    ///
    /// The plan of the call does not matter, but for [`Plan::Led`]: then the trees are those below the first of the list.
    /// The function runs everywhere in each of these calls, whose answers are thrown away; one that may not run for nothing
    /// has a built-in one ([`barrier`](super::built_in::barrier)) take its place. It takes no longer than all calls may.
    ///
    /// # Errors
    /// [`CalibrateError`] of the first call that is not begun or fails; no more are made.
    pub fn calibrate(&mut self, call: &Call<'_>, rounds: u32) -> Result<[Tried; TREES.len()], CalibrateError> {
        let rounds = rounds.max(1) as usize;
        let mut times = [(); TREES.len()].map(|()| Vec::new());
        for round in 0..=rounds {
            for (&tree, times) in TREES.iter().zip(&mut times) {
                let plan = if matches!(call.plan, Plan::Led(_)) { Plan::Led(tree) } else { Plan::Shape(tree) };
                let start = Instant::now();
                let handle = self.start(&Call { plan, ..*call })?;
                // A call ends by itself when its time is over.
                self.wait(handle, Duration::MAX)?;
                if round > 0 {
                    times.push(start.elapsed());
                }
            }
        }
        let mut times = times.into_iter();
        let mut tried = TREES.map(|tree| {
            let mut times = times.next().unwrap_or_default();
            times.sort_unstable();
            Tried { tree, half: times.get(times.len() / 2).copied().unwrap_or(Duration::MAX) }
        });
        tried.sort_by_key(|tried| tried.half);
        Ok(tried)
    }
}
