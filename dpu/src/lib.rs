//! The agent that runs beside the ranks.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]
