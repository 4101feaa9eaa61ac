//! Trees of processes: one shape engine for the bootstrap and for chained calls.
//!
//! - [`Shape`]: trees that are arithmetic (k-ary with chain and binary, k-nomial with binomial, flat), by position
//!   and as a preorder list that falls into subtrees.
//! - [`Tree`]: such a shape over numbered members, rooted at any of them.
//! - [`explicit`]: trees that somebody states, by parents, by edges or by a function, checked before they are used and
//!   laid out as a preorder list with the sizes of the subtrees.
//! - [`auto`]: which shape suits a call of which nothing else is known.
//! - [`domains`]: the tree that follows the machines: one leader for each host, everybody else below the leader.
//! - [`logp`]: the tree over which everybody has a message the soonest, by what a message costs.
//!
//! In all of them every member has one parent, everybody is reached, and there is no cycle: for a shape by
//! construction, for a stated tree because anything else is refused.

pub mod auto;
pub mod domains;
pub mod explicit;
pub mod logp;
mod rooted;
mod shape;

pub use rooted::{ARITY_MAX, Tree};
pub use shape::{Children, Piece, Preorder, Shape, Split};
