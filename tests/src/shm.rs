//! Two connected ends of shared memory in this process.
//!
//! A child stands for the life of the second.

use std::process::{Child, Command};
use std::sync::Arc;

use umbra::shm::{FrameLane, Shm};
use umbra::sys::process::{Process, ProcessId};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::key::{Access, Key};

use crate::transport_conformance::peer;

/// The life of the second end; it ends when this is dropped.
#[derive(Debug)]
pub struct Life(Child);

impl Life {
    /// The second end dies.
    pub fn end(&mut self) {
        // Both fail only if it has died already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}

/// Both ends, joined by a lane of so many lines, each of which has at most `depth` completions to tell.
///
/// # Panics
/// If there is no memory or no process for it.
#[must_use]
pub fn pair(lines: usize, depth: usize) -> ([Shm; 2], Life) {
    let life = Life(Command::new("sleep").arg("600").spawn().expect("a process can be started"));
    let lane = FrameLane::create(lines).expect("there is memory");
    let share = lane.share().expect("a lane can be shared");
    let other = FrameLane::attach(share, lines).expect("the lane is whole");
    let process = |id| Process::open(id).expect("the process lives");
    let mut ends = [0, 1].map(|n| Shm::new(peer(n), depth));
    ends[0].connect(peer(1), lane, process(ProcessId::of(life.0.id()).expect("the child lives")));
    ends[1].connect(peer(0), other, process(ProcessId::current().expect("we live")));
    (ends, life)
}

/// New memory that both ends have mapped.
///
/// # Panics
/// If there is none.
pub fn window(ends: &mut [Shm; 2], key: Key, len: usize, access: Access) -> Arc<Segment> {
    let memory = Segment::create("window", len).expect("there is memory");
    for end in ends {
        let share = memory.share().expect("memory can be shared");
        let mapped = Segment::attach(share, Mapping::ReadWrite, len).expect("memory can be mapped");
        end.window(key, Arc::new(mapped), 0, len as u64, access).expect("the window is as long as its memory");
    }
    Arc::new(memory)
}
