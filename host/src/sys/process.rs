//! Who a process is, and whether it still lives.
//!
//! A pid alone names nobody: the kernel hands it out again. Pid and start time together do, and a pidfd
//! keeps the process apart from any later holder of its pid. Where there are no pidfds, as under valgrind, the start time
//! is read each time. Both outlive `execve`: another program in the same process is the same one.
//!
//! ```
//! use umbra::sys::process::{Process, ProcessId};
//! let me = ProcessId::current()?;
//! let process = Process::open(me)?;
//! assert!(process.is_alive());
//! # Ok::<(), umbra::sys::process::ProcessError>(())
//! ```
//!
//! Source: `proc(5)` field 22 (`starttime`), `pidfd_open(2)`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, setrlimit};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::crew::{Identity, Liveness, Member};

use super::{boottime, fork};

/// One life of one process on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot, as seen outside of any time namespace.
    pub start: u64,
}

/// Why a process cannot be named or watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No process has this id, or another one has it now.
    #[error("process {0} is gone")]
    Gone(u32),
    /// Its entry in `/proc` cannot be read.
    #[error("cannot read /proc/{pid}/stat: {errno}")]
    Unreadable {
        /// The process id.
        pid: u32,
        /// The reason.
        errno: Errno,
    },
    /// The kernel refused to watch it.
    #[error("cannot watch process {pid}: {errno}")]
    Unwatchable {
        /// The process id.
        pid: u32,
        /// The reason.
        errno: Errno,
    },
    /// The kernel refused to end it with another.
    #[error("cannot ask to be ended with the process that started this one: {0}")]
    Unbound(Errno),
    /// The kernel refused to let it open more.
    #[error("cannot raise the limit of open descriptors: {0}")]
    Limited(Errno),
}

/// Asks the kernel to kill this process when the one that has started it ends, which reads its standard output.
///
/// # Errors
/// [`ProcessError::Unbound`], also if that one has ended already.
pub fn end_with_starter() -> Result<(), ProcessError> {
    let bind = || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // Nobody tells of a death before the line above; but then nobody reads any more.
        let output = std::io::stdout();
        let mut polled = [PollFd::new(&output, PollFlags::empty())];
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let read = polled.iter().all(|output| !output.revents().contains(PollFlags::ERR));
        read.then_some(()).ok_or(Errno::PIPE)
    };
    bind().map_err(ProcessError::Unbound)
}

/// Lets this process open as many descriptors as it may at most; what it is started with is often a small part of that.
///
/// # Errors
/// [`ProcessError::Limited`].
pub fn raise_descriptors() -> Result<(), ProcessError> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).map_err(ProcessError::Limited)
}

/// Whether this process ignores a signal, as `nohup` has its program ignore SIGHUP; false if `/proc` does not tell.
#[must_use]
pub fn ignores(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    // Signals are counted from 1.
    u32::try_from(signal)
        .ok()
        .and_then(|signal| ignored.checked_shr(signal.checked_sub(1)?))
        .is_some_and(|b| b & 1 == 1)
}

impl ProcessId {
    /// This process.
    ///
    /// # Errors
    /// [`ProcessError::Unreadable`] if `/proc` is not mounted.
    pub fn current() -> Result<ProcessId, ProcessError> {
        // A process begins once, so the file is read once. A child that was forked off is another one, even with the pid
        // of a process that its parent was forked off from.
        static KNOWN: AtomicU64 = AtomicU64::new(0);
        static START: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        fork::watch();
        let key = u64::from(fork::life()) << 32 | u64::from(pid);
        // ORDERING: pairs with the store below: this process wrote the start before.
        if KNOWN.load(Ordering::Acquire) == key {
            return Ok(ProcessId { pid, start: START.load(Ordering::Relaxed) });
        }
        let found = ProcessId::of(pid)?;
        START.store(found.start, Ordering::Relaxed);
        KNOWN.store(key, Ordering::Release);
        Ok(found)
    }

    /// The process that has this pid now.
    ///
    /// # Errors
    /// [`ProcessError::Gone`], [`ProcessError::Unreadable`].
    pub fn of(pid: u32) -> Result<ProcessId, ProcessError> {
        Ok(ProcessId { pid, start: Entry::of(pid)?.start })
    }
}

/// What `/proc` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    has_exited: bool,
    start: u64,
}

/// Bytes for the name of an entry.
const PATH: usize = 32;
/// Bytes for the fields that are read, of which the command is the longest.
const LINE: usize = 1024;

impl Entry {
    fn of(pid: u32) -> Result<Entry, ProcessError> {
        let failed = |e: io::Error| match Errno::from_io_error(&e) {
            Some(Errno::NOENT | Errno::SRCH) => ProcessError::Gone(pid),
            errno => ProcessError::Unreadable { pid, errno: errno.unwrap_or(Errno::IO) },
        };
        // Ranks that wait for others ask this, and nothing is allocated there: neither the path nor the line is long, of
        // which the fields that are read are the first.
        let (mut path, mut line) = ([0; PATH], [0; LINE]);
        let mut rest = &mut path[..];
        write!(rest, "/proc/{pid}/stat").map_err(failed)?;
        let end = PATH - rest.len();
        let mut file = File::open(OsStr::from_bytes(&path[..end])).map_err(failed)?;
        let mut len = 0;
        loop {
            match file.read(&mut line[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        let entry = Entry::parse(&line[..len]).ok_or(ProcessError::Unreadable { pid, errno: Errno::BADMSG })?;
        Ok(Entry { start: boottime::unshifted(entry.start), ..entry })
    }

    /// Fields 3 and 22 of a `stat` line. The second field is the command in brackets, which may itself hold blanks
    /// and brackets, so counting starts behind the last closing one.
    fn parse(stat: &[u8]) -> Option<Entry> {
        let end_of_command = stat.iter().rposition(|&b| b == b')')?;
        let mut rest = std::str::from_utf8(stat.get(end_of_command + 1..)?).ok()?.split_ascii_whitespace();
        let has_exited = matches!(rest.next()?, "Z" | "X");
        Some(Entry { has_exited, start: rest.nth(18)?.parse().ok()? })
    }
}

impl From<ProcessId> for Identity {
    fn from(id: ProcessId) -> Identity {
        Identity::new(id.pid, id.start)
    }
}

/// Whether this life of a process goes on; one that cannot be looked at counts as alive.
#[must_use]
pub fn lives(identity: Identity) -> bool {
    !matches!(Process::watch(identity), Err(ProcessError::Gone(_)))
}

/// Members that are processes: tells whether they [live](lives).
#[derive(Clone, Copy, Debug)]
pub struct Processes;

impl Liveness for Processes {
    fn is_alive(&self, member: Member) -> bool {
        lives(member.identity)
    }
}

/// A process that is being watched.
#[derive(Debug)]
pub struct Process {
    id: ProcessId,
    /// `None` where the kernel has none.
    pidfd: Option<OwnedFd>,
}

impl Process {
    /// Starts to watch a process.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] if that life is over, even if its pid was handed out again.
    pub fn open(id: ProcessId) -> Result<Process, ProcessError> {
        let pid = i32::try_from(id.pid).ok().and_then(Pid::from_raw).ok_or(ProcessError::Gone(id.pid))?;
        let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::NOSYS) => None,
            Err(Errno::SRCH) => return Err(ProcessError::Gone(id.pid)),
            Err(errno) => return Err(ProcessError::Unwatchable { pid: id.pid, errno }),
        };
        // The pidfd pins whoever has the pid now; only then does the start time prove who that is.
        if ProcessId::of(id.pid)? != id {
            return Err(ProcessError::Gone(id.pid));
        }
        let process = Process { id, pidfd };
        if process.is_alive() { Ok(process) } else { Err(ProcessError::Gone(id.pid)) }
    }

    /// Starts to watch the process whose life this is.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn watch(identity: Identity) -> Result<Process, ProcessError> {
        let now = ProcessId::of(identity.pid())?;
        if Identity::from(now) == identity { Process::open(now) } else { Err(ProcessError::Gone(now.pid)) }
    }

    /// Whose life this is.
    #[must_use]
    pub const fn id(&self) -> ProcessId {
        self.id
    }

    /// Whether it has not exited; a zombie has. One that cannot be looked at counts as alive, as for [`lives`]: what is
    /// taken from a process that lives is lost to it. One system call, or three without pidfds.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
            return match Entry::of(self.id.pid) {
                Ok(entry) => entry.start == self.id.start && !entry.has_exited,
                Err(error) => !matches!(error, ProcessError::Gone(_)),
            };
        };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&at_once)).map_or(true, |ready| ready == 0)
    }
}

/// Processes that one system call looks at.
const AT_ONCE: usize = 32;

/// Whether none of these processes has exited; false as well if that cannot be told of all of them so. One system call for
/// every 32 of them.
#[must_use]
pub fn all_live<'a>(mut processes: impl Iterator<Item = &'a Process>) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    while let Some(first) = processes.next() {
        let Some(first) = &first.pidfd else { return false };
        let (mut count, mut all_known) = (1, true);
        let mut fds = std::array::from_fn::<_, AT_ONCE, _>(|at| {
            let next = if at > 0 { processes.next() } else { None };
            count += usize::from(next.is_some());
            let pidfd = next.map_or(Some(first), |next| next.pidfd.as_ref());
            all_known &= pidfd.is_some();
            PollFd::new(pidfd.unwrap_or(first), PollFlags::IN)
        });
        if !all_known || rustix::event::poll(&mut fds[..count], Some(&at_once)) != Ok(0) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_exits_among_many_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let me = Process::open(ProcessId::current().unwrap()).unwrap();
        let its = Process::open(ProcessId::of(child.id()).unwrap()).unwrap();
        for place in [0, 1, AT_ONCE - 1, AT_ONCE, 2 * AT_ONCE + 1] {
            let all = || (0..=2 * AT_ONCE + 1).map(|at| if at == place { &its } else { &me });
            assert!(all_live(all()), "nobody has exited");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for place in [0, 1, AT_ONCE - 1, AT_ONCE, 2 * AT_ONCE + 1] {
            let all = || (0..=2 * AT_ONCE + 1).map(|at| if at == place { &its } else { &me });
            assert!(!all_live(all()), "the one at {place} has");
        }
        assert!(all_live(std::iter::empty()));
    }

    #[test]
    fn a_command_with_brackets_and_blanks_does_not_shift_the_fields() {
        for (state, has_exited) in [("S", false), ("Z", true)] {
            let line = format!("7 (a) b (c)) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20");
            assert_eq!(Entry::parse(line.as_bytes()), Some(Entry { has_exited, start: 4711 }));
        }
    }

    #[test]
    fn another_life_with_the_same_pid_is_gone() {
        let me = ProcessId::current().unwrap();
        let other = ProcessId { start: me.start + 1, ..me };
        assert_eq!(Process::open(other).unwrap_err(), ProcessError::Gone(me.pid));
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(ProcessId::of(child.id()).unwrap()).unwrap();
        let without_pidfds = Process { id: process.id, pidfd: None };
        assert!(process.is_alive() && without_pidfds.is_alive());
        child.kill().unwrap();
        let zombie = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(Pid::from_child(&child)), zombie).unwrap();
        assert!(!process.is_alive() && !without_pidfds.is_alive());
        child.wait().unwrap();
        assert!(!process.is_alive() && !without_pidfds.is_alive());
    }
}
