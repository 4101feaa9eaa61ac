//! A process of the job: started, and killed and reaped at the latest on drop.
//!
//! The child's standard input is one end of a socket pair: the link to the launcher. It needs no address,
//! nobody else can connect to it, and it ends when the launcher dies. A process that waits elsewhere, or is stopped,
//! would not see that; therefore the kernel also kills each one with the thread that started it. So no process
//! outlives its job.
//!
//! A terminal signals the process group in the foreground. Each process of the job is a group of its own: what Ctrl-C or a
//! closed terminal does to the job is up to the launcher alone, and Ctrl-Z stops only that one. None of them uses the
//! terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use umbra_core::peer::Peer;

use crate::config::Environment;

/// The last bytes of a log that an error quotes.
const LAST_WORDS: u64 = 2000;

/// A running process of the job.
#[derive(Debug)]
pub struct Child {
    peer: Peer,
    process: std::process::Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Starts `program`; also returns the launcher's end of the link. What the environment says of another job is kept
    /// from it: its own job tells it by `arguments`.
    ///
    /// # Errors
    /// What the system said.
    pub fn spawn<A: AsRef<OsStr>>(
        peer: Peer,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        log: PathBuf,
    ) -> io::Result<(Child, OwnedFd)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(program);
        for name in Environment::names_of_a_job() {
            command.env_remove(name);
        }
        let process = command
            .args(arguments)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .process_group(0)
            .spawn()?;
        Ok((Child { peer, process, log, ended: None }, ours))
    }

    /// Who it is.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has; it is reaped then.
    ///
    /// Nobody knows how if this process ignores SIGCHLD: then it counts as ended well, and its link tells the rest.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = known(self.process.try_wait());
        }
        self.ended
    }

    /// Kills it (signal 9) and reaps it.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            // It may have ended in between; waiting is right in both cases.
            let _ = self.process.kill();
            self.ended = known(self.process.wait().map(Some));
        }
    }

    /// Asks it to terminate.
    pub fn terminate(&mut self) {
        if self.ended().is_none()
            && let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }

    /// The end of what it wrote to its standard error.
    #[must_use]
    pub fn last_words(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.log)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(LAST_WORDS)))?;
            let mut bytes = Vec::new();
            file.take(LAST_WORDS).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_default()
    }
}

/// What a wait for a child says. One that cannot be waited for was reaped by the kernel, and its id may be another's.
fn known(waited: io::Result<Option<ExitStatus>>) -> Option<ExitStatus> {
    match waited {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::CHILD) => Some(ExitStatus::default()),
        waited => waited.ok().flatten(),
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The child's end of the link to its launcher. From now on this process ends with it.
///
/// # Errors
/// What the system said, also if the standard input is no socket or the launcher has ended already.
pub fn launcher_link() -> io::Result<OwnedFd> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let stdin = io::stdin();
    let link = stdin.as_fd().try_clone_to_owned()?;
    rustix::net::sockopt::socket_type(&link)?;
    // Nobody tells of a death before the line above; but then the other end is closed.
    let mut polled = [PollFd::new(&link, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&at_once))?;
    if polled.iter().any(|fd| fd.revents().contains(PollFlags::HUP)) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(link)
}
