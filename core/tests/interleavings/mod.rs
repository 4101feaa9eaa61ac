//! Every interleaving of the threads of a model, by loom.
#![allow(dead_code, reason = "each test program uses a part of it")]

use loom::model::Builder;

/// Those with so many preemptions at most.
pub(crate) fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    bounded(preemptions).check(body);
}

/// The same, for a model that needs other limits besides.
pub(crate) fn bounded(preemptions: usize) -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model
}
