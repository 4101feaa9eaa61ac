//! The C face of Umbra: thin, no decisions.
//!
//! What C sees is in `include/umbra.h`; a test compares it with what this library exports. The rules:
//!
//! * `umbra_<object>_<verb>`, outputs last, every function returns 0 or a negative code (`status.rs`).
//! * Objects are named by 64-bit handles with generations (`handle.rs`): a released one is stale, never a wild pointer.
//! * Structures that may grow begin with their size, which the caller sets.
//! * No panic crosses the border: every entry point runs under `call::enter`. The story of a failure is kept for the
//!   thread and fetched by `umbra_error_detail`.
//! * All functions may be called from any thread. Look-ups run side by side; calls that change a session take turns.
//!
//! ```text
//! session   join, leave, world, shadows, read        a rank's membership in a job
//! group     create, free, end, and every look-up     who is where
//! region    allocate, export, ticket, read, revoke, free   memory that others may read
//! read      post, poll, wait, free                   memory of other ranks
//! cache     alloc, free, remember, forget, interrupt which slot holds which data, for threads that wait
//! caches    add, find, end                          several of them, each under a key
//! shared_cache  create, attach, alloc, reclaim        a cache that processes share
//! memory    alloc, free, interrupt                  ranges of any length
//! cached_memory  alloc, free, remember, forget      data of any length in one memory
//! object_pool   create, reset, trim, statistics   places in a program's memory, for its objects
//! object    get, share, drop, place, weak, upgrade   one of them, with owners that are counted
//! pool      create, attach, alloc, reference, destroy       memory that processes share
//! uid       draw                                    numbers for pools and channels
//! thread    slices                                  how long it runs in one piece
//! channel   create, attach, send, receive, poll, barrier    messages between processes
//! channel_set   create, poll                     several channels at once
//! gateways  create, register; gateway start, end      the same of other hosts
//! bell      create, rearm, end                        a descriptor for the loop of a program
//! stream    create, attach, supply, tasks         conversations between processes
//! sender    open, send, keep, memory, file, close   one end of a conversation
//! receiver  open, receive, memory, file, close    the other end
//! fabric    create, attach, descriptor           memory through which ranks exchange ghost cells
//! boundary  build, send, receive, set, remesh    ghost cells of the program's own arrays, over whatever a fabric is
//! edges     fill_edges, is_idle                   what a program does with them between two exchanges
//! station   create, share, attach                   where members of chained calls of a host meet
//! gpc       join, register, start, wait, serve      chained calls: a function on many members, one answer
//! gpc       umbra_session_calls                     the same with the members that live at agents
//! gpc       parents                                 a tree that somebody states by its edges
//! gpc       offer, take_back, work_read, stream     large data of such calls
//! stencil   submit, poll or deliver, prepared, free  whole neighbourhoods of a stencil
//! stencil   submit_members, hand_over, unclaimed     places for its outputs, and inputs that are given back one by one
//! ```
#![deny(unsafe_code)]

mod bounded;
mod cached;
mod call;
mod conversed;
mod exchange;
mod far;
mod foreseen;
mod gateway_socket;
mod handle;
mod joint;
mod maker;
mod member;
mod named;
mod object;
mod owners;
mod standing;
mod statistics;
mod status;
mod stenciled;
mod turn;
mod users;
mod woven;

// The exported functions; the only modules with unsafe code beside `call`, which checks what C hands in, and `mesh`, which
// asks what C has; `alone`, which keeps values from other threads; and `foreign`, which stores handles for other packages.
#[allow(unsafe_code)]
pub mod allocation;
#[allow(unsafe_code)]
mod alone;
#[allow(unsafe_code)]
pub mod bell;
#[allow(unsafe_code)]
pub mod boundary;
#[allow(unsafe_code)]
pub mod cache;
#[allow(unsafe_code)]
pub mod cache_batch;
#[allow(unsafe_code)]
pub mod cache_pin;
#[allow(unsafe_code)]
pub mod cached_memory;
#[allow(unsafe_code)]
pub mod caches;
#[allow(unsafe_code)]
pub mod channel;
#[allow(unsafe_code)]
pub mod channel_memory;
#[allow(unsafe_code)]
pub mod channel_set;
#[allow(unsafe_code)]
pub mod content;
#[allow(unsafe_code)]
pub mod edges;
#[allow(unsafe_code)]
pub mod error;
#[allow(unsafe_code)]
pub mod foreign;
#[allow(unsafe_code)]
pub mod gateways;
#[allow(unsafe_code)]
pub mod gpc;
#[allow(unsafe_code)]
pub mod gpc_answer;
#[allow(unsafe_code)]
pub mod gpc_calibrate;
#[allow(unsafe_code)]
pub mod gpc_look;
#[allow(unsafe_code)]
pub mod gpc_member;
#[allow(unsafe_code)]
pub mod gpc_offer;
#[allow(unsafe_code)]
pub mod gpc_seat;
#[allow(unsafe_code)]
pub mod gpc_stream;
#[allow(unsafe_code)]
pub mod gpc_tree;
#[allow(unsafe_code)]
pub mod gpc_within;
#[allow(unsafe_code)]
pub mod group;
#[allow(unsafe_code)]
pub mod lookup;
#[allow(unsafe_code)]
pub mod memory;
#[allow(unsafe_code)]
pub mod mesh;
#[allow(unsafe_code)]
pub mod object_pool;
#[allow(unsafe_code)]
pub mod pool;
#[allow(unsafe_code)]
pub mod pool_list;
#[allow(unsafe_code)]
pub mod read;
#[allow(unsafe_code)]
pub mod receiver;
#[allow(unsafe_code)]
pub mod region;
#[allow(unsafe_code)]
pub mod sender;
#[allow(unsafe_code)]
pub mod session;
#[allow(unsafe_code)]
pub mod shared_cache;
#[allow(unsafe_code)]
pub mod shared_pin;
#[allow(unsafe_code)]
pub mod station;
#[allow(unsafe_code)]
pub mod stencil;
#[allow(unsafe_code)]
pub mod stencil_members;
#[allow(unsafe_code)]
pub mod stencil_options;
#[allow(unsafe_code)]
pub mod stream;
#[allow(unsafe_code)]
pub mod thread;
#[allow(unsafe_code)]
pub mod uid;
