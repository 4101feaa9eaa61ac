//! Heads that are damaged, of an old epoch, or of another plan (s31, s45).
//!
//! Over memory that ranks share; other transports run the same in their own tests.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::thread;

use umbra::boundary::Fabric;
use umbra_tests::forged::{Fault, extent, refuse};
use umbra_tests::rig::PATIENCE;

#[test]
fn s31_and_s45_a_head_that_is_damaged_or_of_an_old_epoch_or_of_another_plan_is_refused_and_counted() {
    for fault in Fault::ALL {
        let extent = extent().unwrap();
        let segment = Arc::new(Fabric::segment(extent).unwrap());
        let end = |rank| Fabric::attach(segment.clone(), extent, rank).unwrap();
        thread::scope(|scope| {
            let ranks = [0, 1].map(end).map(|end| scope.spawn(move || refuse(end, fault, PATIENCE).unwrap()));
            // Both are kept until both have ended.
            let _kept = ranks.map(|rank| rank.join().unwrap());
        });
    }
}
