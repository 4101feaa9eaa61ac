//! Reading and writing other processes' memory.
//!
//! A rank exports memory to its shadow service processes ([`message::Export`]). A service process that
//! wants bytes of a rank asks the rank's first shadow service process where they are ([`message::Locate`])
//! and then for the bytes ([`message::Transfer`]), which come into shared memory or inside the answer.
//!
//! - [`message`]: the layouts on the wire.
//! - [`own`]: the machine of a rank that exports and revokes.
//! - [`serve`]: the machine that answers.
//! - [`read`]: the machine that asks.

pub mod message;
pub mod own;
pub mod read;
pub mod serve;
