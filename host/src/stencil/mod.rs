//! Stencils over data that is larger than memory.

mod groups;
mod known;
pub mod optimum;
mod plan;

pub use groups::Groups;
pub use known::Known;
pub use plan::{Plan, Vectors};
