//! Machines that run, fed with whatever links may bring, while time passes.
//!
//! The other targets look at one message; these play the driver of a machine. An input is a script of links that come
//! and go, frames and lapses of time, so what one message leaves behind meets the next. The seeds are real conversations.
//!
//! What must hold: no panic, also none of the machines' own assertions; every machine comes to rest after every step;
//! what it sends is a frame, over a link that is there. Memory is bounded by construction, because all of it is lent.

mod bootstrap;
mod script;
mod serve;

pub(super) use bootstrap::{member_feed, member_seeds, service_feed, service_seeds};
pub(super) use serve::{serve_feed, serve_seeds};

/// Links that a machine under test can have.
const LINKS: usize = 8;
/// Most things that a machine may want to do after one step.
const WISHES: usize = 10_000;
