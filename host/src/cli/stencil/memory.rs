//! What a run takes of memory, refused before it takes any.
//!
//! A system that promises more than it has ends the process later, without a word.

use umbra::quantity::Bytes;

use crate::cli::Failure;

/// Bytes of memory that can be had without swapping; `None` where nobody says.
pub(super) fn free() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Refuses what takes more bytes than are free, the product of these numbers.
pub(super) fn enough(what: &str, need: [u64; 3], instead: &str) -> Result<(), Failure> {
    let need = need.into_iter().fold(1, u64::saturating_mul);
    match free() {
        Some(free) if need > free => Err(Failure::failed(format!(
            "{what}: {} of memory needed, and {} free: {instead}",
            Bytes(need),
            Bytes(free)
        ))),
        _ => Ok(()),
    }
}
