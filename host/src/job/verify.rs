//! What the bytes should be: digests of the file's slices and of the random reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::JoinHandle;

use umbra_core::peer::{Sp, WorldRank};

use crate::admin::ReadOrder;
use crate::sys::heap;

const CHUNK: usize = 1 << 20;

/// Digests of a file and of its slices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digests {
    /// The whole file, in hexadecimal.
    pub whole: String,
    /// Each slice, by rank.
    pub slices: Vec<[u8; 32]>,
}

/// Reads `path` once; `lens` are the lengths of its slices, in order.
///
/// # Errors
/// What the system said; `UnexpectedEof` if the file is shorter than its slices, `InvalidData` if longer.
pub fn digest_slices(path: &Path, lens: &[u64]) -> io::Result<Digests> {
    let mut file = File::open(path)?;
    let mut whole = blake3::Hasher::new();
    let mut buffer = vec![0; CHUNK];
    let mut slices = Vec::with_capacity(lens.len());
    for &len in lens {
        let mut slice = blake3::Hasher::new();
        let mut left = len;
        while left > 0 {
            let n = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let part = buffer.get_mut(..n).unwrap_or_default();
            file.read_exact(part)?;
            slice.update(part);
            whole.update(part);
            left -= n as u64;
        }
        slices.push(*slice.finalize().as_bytes());
    }
    if file.read(buffer.get_mut(..1).unwrap_or_default())? != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Digests { whole: whole.finalize().to_hex().to_string(), slices })
}

/// The offsets of the random reads of one agent from one rank; the agent and the launcher agree on them.
#[derive(Clone, Debug)]
pub struct Offsets {
    state: u64,
    /// Offsets are below this.
    below: u64,
    left: u32,
}

impl Offsets {
    /// `reads` offsets within a slice of `len` bytes, for reads of `size` bytes.
    #[must_use]
    pub const fn new(seed: u64, reader: Sp, rank: WorldRank, len: u64, size: u64, reads: u32) -> Offsets {
        let size = if size < len { size } else { len };
        let state = seed ^ (reader.0 as u64) << 32 ^ rank.0 as u64;
        Offsets { state, below: len - size + 1, left: if len == 0 { 0 } else { reads } }
    }
}

impl Iterator for Offsets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some((z ^ (z >> 31)) % self.below)
    }
}

/// Digest of the bytes that random reads should have brought.
///
/// # Errors
/// What the system said; `OutOfMemory` for reads of more bytes than are free.
pub fn digest_random(file: &File, slice: (u64, u64), size: u64, offsets: Offsets) -> io::Result<[u8; 32]> {
    let (start, len) = slice;
    let room = usize::try_from(size.min(len)).unwrap_or(usize::MAX);
    let mut buffer = heap::reserved(room, || 0).map_err(|none| io::Error::new(io::ErrorKind::OutOfMemory, none))?;
    let mut hasher = blake3::Hasher::new();
    for offset in offsets {
        file.read_exact_at(&mut buffer, start + offset)?;
        hasher.update(&buffer);
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Like [`digest_random`], of what each of so many agents should have read from each rank.
///
/// # Errors
/// See [`digest_random`].
pub(super) fn digest_all_random(
    file: &File,
    slices: &[(u64, u64)],
    agents: u32,
    order: ReadOrder,
) -> io::Result<BTreeMap<(Sp, WorldRank), [u8; 32]>> {
    let ReadOrder { size, reads, seed, .. } = order;
    let pairs = (0..agents).map(Sp).flat_map(|reader| (0..).map(WorldRank).zip(slices).map(move |pair| (reader, pair)));
    let digested = pairs.map(|(reader, (rank, &slice))| {
        let offsets = Offsets::new(seed, reader, rank, slice.1, size, reads);
        Ok(((reader, rank), digest_random(file, slice, size, offsets)?))
    });
    digested.collect()
}

/// Digests that are being computed beside the job.
#[derive(Debug)]
pub(super) struct Digesting<T>(JoinHandle<io::Result<T>>);

impl<T: Send + 'static> Digesting<T> {
    /// Starts.
    ///
    /// # Errors
    /// What the system said of a thread.
    pub(super) fn start(compute: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<Digesting<T>> {
        std::thread::Builder::new().name("digests".into()).spawn(compute).map(Digesting)
    }

    /// Whether [`finish`](Self::finish) would not wait.
    #[must_use]
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// What the system said of the file.
    pub(super) fn finish(self) -> io::Result<T> {
        self.0.join().map_err(|_| io::Error::other("digesting thread stopped"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_there_is_no_memory_for_are_refused() {
        let file = File::open("/dev/zero").unwrap();
        for len in [1 << 60, u64::MAX] {
            let offsets = Offsets::new(1, Sp(0), WorldRank(0), len, len - 1, 1);
            let refused = digest_random(&file, (0, len), len - 1, offsets).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
            assert!(refused.to_string().contains("ask for fewer at once"), "{refused}");
        }
    }
}
