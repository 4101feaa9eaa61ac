//! Another process of a test: the test program, started again.
//!
//! It runs nothing but its test `another_process` then.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use umbra::sys::process::ProcessId;

const VARIABLE: &str = "UMBRA_TEST_ROLE";
/// What a process says before the word that its starter waits for.
const READY: &str = "ready: ";

/// What this process was started for, if it is another one; it ends with the test that started it.
pub(crate) fn role() -> Option<String> {
    let role = std::env::var(VARIABLE).ok()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    Some(role)
}

/// Says that this process is ready, with a word about it.
pub(crate) fn ready(word: impl std::fmt::Display) {
    println!("{READY}{word}");
}

/// Waits for what others do.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A process, which is killed at the latest when this is dropped.
pub(crate) struct Another(Child);

impl Another {
    fn command(role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "another_process", "--nocapture", "--test-threads=1"]).env(VARIABLE, role);
        command
    }

    /// Starts one.
    pub(crate) fn start(role: &str) -> Another {
        Another(Self::command(role).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts one by way of a program that runs the command behind these words.
    pub(crate) fn start_within(words: &[&str], role: &str) -> Another {
        let (own, mut command) = (Self::command(role), Command::new(words[0]));
        command.args(&words[1..]).arg(own.get_program()).args(own.get_args()).env(VARIABLE, role);
        Another(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts one as another user, who may not know the way to this program.
    pub(crate) fn start_by(user: u32, role: &str) -> Another {
        let (own, mut command) = (Self::command(role), Command::new("/proc/self/exe"));
        command.args(own.get_args()).env(VARIABLE, role).uid(user).gid(user);
        Another(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts one, and waits until it says that it is ready; the word that it says then.
    pub(crate) fn start_ready(role: &str) -> (Another, String) {
        let mut another = Another(Self::command(role).stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(another.0.stdout.take().unwrap()).lines();
        let said = |line: String| line.split_once(READY).map(|(_, word)| word.to_owned());
        let word = lines.map_while(Result::ok).find_map(said).unwrap();
        (another, word)
    }

    /// Waits until it has ended well.
    pub(crate) fn finish(mut self) {
        let mut status = None;
        until("the end of another process", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "another process failed: {status:?}");
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Its number and start.
    pub(crate) fn id(&self) -> ProcessId {
        ProcessId::of(self.0.id()).unwrap()
    }

    /// Sends it a signal; if that is to stop it, all of its threads have stopped then.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            // One of them takes the signal when it runs next, and until then the others go on.
            waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).unwrap();
        }
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
