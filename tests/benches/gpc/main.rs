//! Chained calls beside the gate that they have to pass.
//!
//! Two shapes of the same call, over a binary tree with eight bytes down and a sum of eight bytes up:
//!
//! * `engine`: one thread, one machine that houses all members. What counts is nanoseconds a member.
//! * `apart`: one thread, one machine a member, so everything is a message. No gate asks for a figure of this one.
//!
//! The peer is the gate's own figure: no published library runs the function of every member in one thread.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a bench that cannot be set up ends")]

mod engine;

use umbra_tests::bench::Report;

fn main() {
    let mut report = Report::from_args();
    engine::rows(&mut report);
    report.finish();
}
