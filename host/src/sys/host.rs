//! Which boot of which machine this is, and which space of process numbers.
//!
//! ```
//! assert_ne!(umbra::sys::host::id(), 0);
//! ```
//!
//! Source: `random(4)` (`boot_id`), `pid_namespaces(7)`, `time_namespaces(7)`.

use std::sync::OnceLock;

use super::boottime;

/// The number of this boot of this machine: other machines, and this one after its next start, have others.
#[must_use]
pub fn id() -> u64 {
    static ID: OnceLock<u64> = OnceLock::new();
    *ID.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digest = blake3::hash(&boot);
        // Zero would look like a field that nobody filled.
        digest.as_bytes().first_chunk().map_or(1, |&bytes| u64::from_le_bytes(bytes)).max(1)
    })
}

/// Tells one space of process numbers from another: processes of the same know each other by number and begin. Those of time
/// namespaces do, too, but where these are shifted by a part of a tick, in which begins are told.
#[must_use]
pub fn namespace() -> u64 {
    let space = |path| rustix::fs::stat(path).map_or(0, |stat| stat.st_ino);
    let numbers = space("/proc/self/ns/pid");
    if boottime::is_exact() { numbers } else { numbers ^ space("/proc/self/ns/time").rotate_left(32) }
}
