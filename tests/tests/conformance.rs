//! The one suite of memory access, for every way there is.
//!
//! The ways are shared mappings, the memory of processes, asking a service process, and aliases on a network card in
//! memory. `verbs_access` is the same over RDMA.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[path = "conformance/asked.rs"]
mod asked;
#[path = "conformance/local.rs"]
mod local;
#[path = "conformance/xgvmi.rs"]
mod xgvmi;

use umbra_tests::memory_access_suite;

memory_access_suite!(a_shared_mapping, local::Rigged<local::Shared>);
memory_access_suite!(process_memory, local::Rigged<local::Heap>);
memory_access_suite!(aliases_on_a_card_in_memory, xgvmi::Carded);
memory_access_suite!(asking_for_mapped_memory, asked::Asking<local::Shared, asked::InMemory>);
memory_access_suite!(asking_for_process_memory, asked::Asking<local::Heap, asked::InMemory>);
memory_access_suite!(asking_over_a_unix_socket, asked::Asking<local::Shared, asked::OverSocket>);
