//! The other process of a read: it has the memory, or serves it, until killed.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use umbra::shm::FrameLane;
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::Ordering;

use crate::memory_server::MemoryServer;

/// The role of a process whose heap is read.
pub const OWNER: &str = "owner";
/// The role of a process that serves a segment.
pub const SERVER: &str = "server";
/// Bytes that can be read.
pub const MEMORY: usize = 4 << 20;
/// Bytes of a slot in the asker's landing area.
pub const SLOT: usize = 1 << 20;
/// Slots of it.
pub const SLOTS: u32 = 4;
/// Where the rank that is served has its memory.
pub const BASE: u64 = 0x5000_0000;
/// Frames that fit into the lane between both.
pub const FRAMES: usize = 16;
/// Bytes of the segment in which the other process says, in its first word, that it is there.
pub const NEWS: usize = 4096;
/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
pub const HANG: Duration = Duration::from_secs(60);

/// The byte that can be read at this place.
#[must_use]
pub fn pattern(at: usize) -> u8 {
    (at * 7 + (at >> 9)) as u8
}

/// Plays a role over the descriptors that the other side shares; `open` opens one after the other.
///
/// # Errors
/// Why it cannot.
pub fn play(role: &str, mut open: impl FnMut() -> io::Result<OwnedFd>) -> Result<(), Box<dyn std::error::Error>> {
    let news = Segment::attach(open()?, Mapping::ReadWrite, NEWS)?;
    match role {
        OWNER => {
            let heap: Vec<u8> = (0..MEMORY).map(pattern).collect();
            news.word(0)?.store(std::hint::black_box(&heap).as_ptr() as u64, Ordering::Release);
            thread::sleep(HANG);
            Ok(())
        }
        SERVER => {
            let memory = open()?;
            let landing = Segment::attach(open()?, Mapping::ReadWrite, SLOT * SLOTS as usize)?;
            let lane = FrameLane::attach(open()?, FRAMES)?;
            let mut server = MemoryServer::new(memory, BASE, MEMORY as u64, landing, SLOTS, lane);
            news.word(0)?.store(1, Ordering::Release);
            loop {
                server.step();
            }
        }
        other => Err(format!("no role {other}").into()),
    }
}
