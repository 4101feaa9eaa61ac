//! How far times since the boot are shifted for this process.
//!
//! In a time namespace `/proc` tells when a process began with the offset of whoever reads it: processes of several such
//! namespaces see the same one begin at different times. What is compared with what others have read is told without.
//!
//! Source: `time_namespaces(7)`, `proc_pid_stat(5)`.

use std::fs::File;
use std::io::Read as _;

use umbra_core::atomic::{AtomicU64, Ordering};

use super::fork;

/// Nanoseconds of a tick: a hundred a second, on every machine that this is built for.
const TICK: i64 = 10_000_000;
/// Bytes of the file of offsets, and more.
const OFFSETS: usize = 256;

/// A time of the boot that this process has read, in ticks, as it is without a namespace.
pub(super) fn unshifted(ticks: u64) -> u64 {
    ticks.wrapping_add_signed(shift().div_euclid(TICK).wrapping_neg())
}

/// Whether [`unshifted`] is exact: a part of a tick is lost in what is read.
pub(super) fn is_exact() -> bool {
    shift().rem_euclid(TICK) == 0
}

/// Nanoseconds that are added to what this process reads. Looked at once a process: a child that was forked off may be in
/// another namespace.
fn shift() -> i64 {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    static SHIFT: AtomicU64 = AtomicU64::new(0);
    fork::watch();
    let key = u64::from(fork::life()) + 1;
    // ORDERING: pairs with the store below: this process wrote the shift before.
    if KNOWN.load(Ordering::Acquire) == key {
        return SHIFT.load(Ordering::Relaxed).cast_signed();
    }
    let shift = look();
    SHIFT.store(shift.cast_unsigned(), Ordering::Relaxed);
    KNOWN.store(key, Ordering::Release);
    shift
}

/// The file is about the namespace of children to come. Who has made one for them, and stayed, has mostly come from where
/// nothing is shifted.
fn look() -> i64 {
    let space = |path| rustix::fs::stat(path).map_or(0, |stat| stat.st_ino);
    if space("/proc/self/ns/time") != space("/proc/self/ns/time_for_children") {
        return 0;
    }
    let (mut bytes, mut len) = ([0; OFFSETS], 0);
    let Ok(mut file) = File::open("/proc/self/timens_offsets") else { return 0 };
    while let Ok(more @ 1..) = file.read(&mut bytes[len..]) {
        len += more;
    }
    parse(&bytes[..len]).unwrap_or(0)
}

/// Nanoseconds of the line of the clock that runs since the boot.
fn parse(offsets: &[u8]) -> Option<i64> {
    let line = std::str::from_utf8(offsets).ok()?.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_the_boot_is_found_among_others() {
        let offsets = |boot: &str| parse(format!("monotonic           5         7\nboottime   {boot}\n").as_bytes());
        assert_eq!(offsets("  100000         0"), Some(100_000_000_000_000));
        assert_eq!(offsets(" -3 250"), Some(-2_999_999_750));
        for wrong in ["", "1", "x 1", "99999999999999 0"] {
            assert_eq!(offsets(wrong), None, "{wrong}");
        }
        assert_eq!(parse(b"monotonic 1 2\n"), None);
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn here_nothing_is_lost() {
        assert!(is_exact());
        assert_eq!(unshifted(1 << 40), unshifted(0).wrapping_add(1 << 40));
    }
}
