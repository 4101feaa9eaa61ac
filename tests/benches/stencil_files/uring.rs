//! Reads of bricks by `io_uring(7)`: one thread, many reads under way.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;
use std::process;

use io_uring::{IoUring, opcode, squeue, types};

/// Reads that the ring has room for.
const ENTRIES: u32 = 4096;

/// A piece of a brick.
pub(crate) struct Piece {
    /// Where it begins in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// A slot, and the reads into it that are under way.
struct Slot {
    bytes: Box<[u8]>,
    under_way: usize,
}

pub(crate) struct Ring {
    ring: IoUring,
    file: File,
    slots: Vec<Slot>,
}

impl Ring {
    /// For so many bricks at the same time, of so many bytes at most.
    pub(crate) fn new(file: File, slots: usize, bytes: usize) -> io::Result<Ring> {
        let ring = IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(ENTRIES)?;
        let slots = (0..slots).map(|_| Slot { bytes: vec![0; bytes].into(), under_way: 0 }).collect();
        Ok(Ring { ring, file, slots })
    }

    /// Loads bricks, each into a slot that is free; nothing is under way when it returns.
    pub(crate) fn load<P: Iterator<Item = Piece>>(&mut self, mut bricks: impl Iterator<Item = P>) -> io::Result<()> {
        let mut free: Vec<usize> = (0..self.slots.len()).collect();
        let mut failed = Ok(());
        loop {
            while let Some(slot) = free.pop() {
                match bricks.next() {
                    Some(pieces) if failed.is_ok() => self.begin(slot, pieces),
                    _ => break,
                }
            }
            if self.slots.iter().all(|slot| slot.under_way == 0) {
                return failed;
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // The system may still write to the slots, so they must stay.
                    eprintln!("io_uring: {error}");
                    process::abort();
                }
                _ => {}
            }
            for done in self.ring.completion() {
                let (at, wanted) = ((done.user_data() >> u32::BITS) as usize, done.user_data() as u32);
                let slot = &mut self.slots[at];
                slot.under_way -= 1;
                if slot.under_way == 0 {
                    free.push(at);
                }
                match u32::try_from(done.result()) {
                    Ok(read) if read == wanted => {}
                    Ok(_) => failed = Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(_) => failed = Err(io::Error::from_raw_os_error(-done.result())),
                }
            }
        }
    }

    /// Asks for all pieces of a brick, one behind the other in a slot.
    fn begin(&mut self, at: usize, pieces: impl Iterator<Item = Piece>) {
        let slot = &mut self.slots[at];
        let file = types::Fd(self.file.as_raw_fd());
        let mut rest = &mut *slot.bytes;
        for Piece { offset, bytes } in pieces {
            let (into, behind) = mem::take(&mut rest).split_at_mut(bytes as usize);
            rest = behind;
            let read = opcode::Read::new(file, into.as_mut_ptr(), bytes).offset(offset).build();
            // SAFETY: the bytes are a part of a slot that is free, which no other read has, and nobody touches or frees the slot
            // before `load` has seen this read end.
            unsafe { push(&mut self.ring.submission(), &read.user_data((at as u64) << u32::BITS | u64::from(bytes))) };
            slot.under_way += 1;
        }
    }
}

/// # Safety
/// What the read names stays as it is until it has ended.
unsafe fn push(queue: &mut squeue::SubmissionQueue<'_>, read: &squeue::Entry) {
    // SAFETY: as for this function.
    if unsafe { queue.push(read) }.is_err() {
        unreachable!("all slots together have fewer pieces than the ring has entries");
    }
}
